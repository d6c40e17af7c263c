"""The takeover loop: what it asks, records, counts, and does again after a kill."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from handoff.errors import SandboxError, SuccessorError
from handoff.journal import Journal
from handoff.lake import SCHEMAS
from handoff.successors import Answer, Briefing, Question, Reply
from handoff.successors.policy import Conversation, PolicySuccessor
from handoff.successors.replay import ReplaySuccessor
from handoff.takeover import Budget, Takeover, Verdict, read_transcript, run_takeover, takeover_identity
from handoff.tokens import MESSAGE_OVERHEAD, count_tokens
from handoff.trajectory import Action, Observation, Step, Usage

BRIEFING = Briefing(
    task="Fix the pager.",
    view="summary",
    view_text="It was read.",
    preamble="You take over.",
    tools='[{"name":"bash"}]',
)
AMPLE = Budget(steps=20, prompt_tokens=100_000)
QUESTION = Question(nodes=(("q01", "edit:a.py"), ("q02", "validate:all")))


def bash(command: str) -> Action:
    return Action(tool="bash", arguments=json.dumps({"command": command}))


SUBMIT = Action(tool="submit", arguments="{}")


class World:
    """An environment that remembers what was done to it."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.is_over = False
        self.closed = 0

    def act(self, action: Action) -> Observation:
        self.done.append(action.arguments)
        self.is_over = action.tool == "submit"
        return Observation(call_id=action.call_id, text=f"{len(self.done)}: {action.arguments}", exit_code=0)

    def tree(self) -> str:
        return f"tree{len(self.done)}"

    def verdict(self) -> Verdict:
        return Verdict(solved=self.is_over, passed=len(self.done), total=9)

    def close(self) -> None:
        self.closed += 1


class Walker:
    """A policy that draws its commands, so that a disturbed random state would show."""

    name = "walker"
    digest = "m_walker"

    def __init__(self, length: int = 5) -> None:
        self.length = length
        self.asked = 0

    def propose(self, conversation: Conversation, rng: random.Random) -> Reply | None:
        self.asked += 1
        if len(conversation.turns) + 1 >= self.length:
            return Reply(text="done", actions=(SUBMIT,))
        seen = conversation.turns[-1][1][0].text if conversation.turns else ""
        return Reply(thought=seen[:9], actions=(bash(f"cat {rng.random():.6f}"), bash("ls")), completion_tokens=7)

    def belief(self, conversation: Conversation, question: Question) -> Answer | None:
        return Answer(done=(question.nodes[0][1], question.nodes[0][1]), plan=("test all",))


def run(journal: Journal, successor: object = None, environment: object = None, **changes: object) -> Takeover:
    given = {
        "takeover_id": "k_1",
        "briefing": BRIEFING,
        "successor": successor or PolicySuccessor(Walker()),
        "environment": environment or World,
        "budget": AMPLE,
        "seed": 3,
        "question": QUESTION,
        "journal": journal,
        **changes,
    }
    return run_takeover(**given)  # type: ignore[arg-type]


def log_of(journal: Journal) -> Path:
    (path,) = journal.folder.rglob("*.log")
    return path


# -- the loop -------------------------------------------------------------------------------------------


def test_a_run_goes_on_until_the_successor_submits(tmp_path: Path) -> None:
    """Its row says who acted, how it ended, what the tests said and what the state is."""
    takeover = run(Journal(tmp_path), note_tokens=11)
    assert (takeover.status, takeover.solved, takeover.tests_passed, takeover.tests_total) == ("submitted", True, 9, 9)
    assert (takeover.steps, takeover.events, takeover.final_tree) == (5, 18, "tree9")
    assert (takeover.successor, takeover.provenance, takeover.note) == ("policy", "executed", "")
    assert takeover.note_tokens == 11
    assert takeover.transcript[0].usage == Usage(completion=7)


def test_the_columns_are_those_of_the_table(tmp_path: Path) -> None:
    """And the transcript comes back from its cell as it was."""
    takeover = run(Journal(tmp_path))
    columns = takeover.columns()
    assert set(columns) < set(SCHEMAS["takeover_runs"].names)
    assert read_transcript(str(columns["transcript"])) == takeover.transcript
    assert columns["probe_done"] == ["edit:a.py"]


def test_the_prompt_is_counted_at_every_call(tmp_path: Path) -> None:
    """docs/science.md §9: the sum over calls of the prompt's length, recounted here the slow way."""
    takeover = run(Journal(tmp_path))
    length = count_tokens(BRIEFING.tools)
    for text in (BRIEFING.preamble, BRIEFING.view_text, BRIEFING.task):
        length += count_tokens(text) + MESSAGE_OVERHEAD
    lengths, completion = [], 0
    for step in takeover.transcript:
        lengths.append(length)
        own = count_tokens(step.text) + count_tokens(step.thought)
        own += sum(count_tokens(a.tool) + count_tokens(a.arguments) for a in step.actions)
        completion += own
        length += own + MESSAGE_OVERHEAD + sum(count_tokens(o.text) + MESSAGE_OVERHEAD for o in step.observations)
    assert takeover.first_prompt_tokens == lengths[0]
    assert takeover.prompt_tokens == sum(lengths)
    assert takeover.completion_tokens == completion
    assert takeover.cached_tokens is None


def test_cached_tokens_are_summed_only_when_every_call_tells(tmp_path: Path) -> None:
    """Unknown is not zero."""
    told = Step(actions=(bash("a"),), usage=Usage(cached=5))
    assert run(Journal(tmp_path / "a"), ReplaySuccessor([told, told])).cached_tokens == 10
    assert run(Journal(tmp_path / "b"), ReplaySuccessor([told, Step(actions=(SUBMIT,))])).cached_tokens is None


def test_a_budget_is_never_exceeded(tmp_path: Path) -> None:
    """Steps and prompt tokens are checked before a call is made."""
    few = run(Journal(tmp_path / "a"), budget=Budget(steps=2, prompt_tokens=10**6))
    assert (few.status, few.steps, few.solved) == ("step_limit", 2, False)
    free = run(Journal(tmp_path / "b"))
    for tokens in (0, free.first_prompt_tokens - 1, free.first_prompt_tokens, free.prompt_tokens - 1):
        poor = run(Journal(tmp_path / f"c{tokens}"), budget=Budget(steps=20, prompt_tokens=tokens))
        assert poor.status == "token_limit"
        assert poor.prompt_tokens <= tokens
    assert run(Journal(tmp_path / "d"), budget=Budget(steps=20, prompt_tokens=free.prompt_tokens)).status == "submitted"


def test_the_briefing_opens_in_the_published_order() -> None:
    """docs/science.md §3: preamble, view block, task; an empty view block is no message."""
    assert [m.text for m in BRIEFING.messages()] == ["You take over.", "It was read.", "Fix the pager."]
    cold = Briefing(task="t", view="repo", view_text="", preamble="p")
    assert [m.text for m in cold.messages()] == ["p", "t"]


def test_nothing_is_done_after_a_submission(tmp_path: Path) -> None:
    """Calls that follow it in the same reply are marked as not executed."""
    world = World()
    takeover = run(Journal(tmp_path), ReplaySuccessor([Step(actions=(SUBMIT, bash("rm -rf .")))]), world)
    assert world.done == ["{}"]
    assert [o.missing for o in takeover.transcript[0].observations] == [None, "not_executed"]
    assert takeover.events == 3
    assert world.closed == 0, "whoever opened it closes it"


def test_a_recording_is_replayed_and_said_to_be(tmp_path: Path) -> None:
    """It ends when the recording ends, and believes nothing."""
    steps = [Step(text="look", actions=(bash("ls"),)), Step(actions=(bash("cat a"),))]
    takeover = run(Journal(tmp_path), ReplaySuccessor(steps))
    assert (takeover.provenance, takeover.status, takeover.probe_done) == ("replayed", "stopped", None)
    assert [s.actions for s in takeover.transcript] == [s.actions for s in steps]
    assert ReplaySuccessor(steps).digest == ReplaySuccessor(tuple(steps)).digest != ReplaySuccessor(steps[:1]).digest


def test_a_successor_that_cannot_act_ends_its_run_with_the_reason(tmp_path: Path) -> None:
    """It is an outcome like others, and recorded."""

    class Broken(Walker):
        def propose(self, conversation: Conversation, rng: random.Random) -> Reply | None:
            if conversation.turns:
                raise SuccessorError("the endpoint is gone")
            return super().propose(conversation, rng)

    for _ in range(2):
        takeover = run(Journal(tmp_path), PolicySuccessor(Broken()))
        assert (takeover.status, takeover.steps, takeover.note) == ("error", 1, "the endpoint is gone")


def test_lone_surrogates_do_not_break_a_run(tmp_path: Path) -> None:
    """A model may answer what no file can hold: it is replaced before anyone sees it."""

    class Odd(Walker):
        def propose(self, conversation: Conversation, rng: random.Random) -> Reply | None:
            return None if conversation.turns else Reply(text="a\ud800b é𝄞", actions=(bash("ls"),))

    takeover = run(Journal(tmp_path), PolicySuccessor(Odd()))
    assert [step.text for step in takeover.transcript] == ["a\ufffdb é𝄞"]
    assert run(Journal(tmp_path), PolicySuccessor(Odd())) == takeover


# -- the probe --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "done", "note"),
    [
        (None, None, ""),
        (Answer(done=()), (), ""),
        (Answer(done=("validate:all", "validate:all")), ("validate:all",), ""),
        (Answer(done=("edit:other.py",)), None, "probe: the answer names a subtask that was not asked about"),
    ],
)
def test_an_invalid_answer_is_missing_and_not_wrong(
    tmp_path: Path, answer: Answer | None, done: tuple[str, ...] | None, note: str
) -> None:
    """docs/science.md §6: answers are deduplicated; what was not asked about invalidates them."""

    class Sure(Walker):
        def belief(self, conversation: Conversation, question: Question) -> Answer | None:
            return answer

    takeover = run(Journal(tmp_path), PolicySuccessor(Sure()))
    assert (takeover.probe_done, takeover.note) == (done, note)


def test_being_probed_changes_nothing_else(tmp_path: Path) -> None:
    """The probe is a side branch: same steps, same tokens."""
    asked, unasked = run(Journal(tmp_path)), run(Journal(tmp_path), question=None)
    assert unasked.probe_done is None
    assert asked.transcript == unasked.transcript
    assert asked.prompt_tokens == unasked.prompt_tokens


def test_a_question_is_shuffled_by_its_seed_alone() -> None:
    """Ids tell nothing about the order or about which subtasks are decoys."""
    nodes, decoys = [f"edit:{n}" for n in range(9)], ["edit:x", "edit:0"]
    first = Question.about(nodes, decoys, random.Random(1))
    assert first == Question.about(reversed(nodes), decoys, random.Random(1))
    assert sorted(node for _, node in first.nodes) == sorted({*nodes, *decoys})
    assert [node for _, node in first.nodes] != sorted({*nodes, *decoys})


# -- the journal ------------------------------------------------------------------------------------------


def test_a_finished_takeover_is_never_run_again(tmp_path: Path) -> None:
    """Neither the successor nor the environment is so much as opened."""
    first = run(Journal(tmp_path))

    def opened() -> World:
        raise AssertionError("opened")

    walker = Walker()
    assert run(Journal(tmp_path), PolicySuccessor(walker), opened) == first
    assert walker.asked == 0


def test_a_run_that_stands_under_other_conditions_is_another_run(tmp_path: Path) -> None:
    """The same name with another briefing or budget never gets the old run's result."""
    first = run(Journal(tmp_path))
    other = run(Journal(tmp_path), briefing=Briefing(task="Other.", view="repo", view_text="", preamble="p"))
    assert other.first_prompt_tokens != first.first_prompt_tokens
    assert run(Journal(tmp_path)) == first


def test_cut_at_any_byte_the_run_goes_on_to_the_same_end(tmp_path: Path) -> None:
    """Whatever a kill leaves of the journal, the takeover comes out equal and whole replies are not asked for again."""
    whole = Journal(tmp_path / "whole", sync="never")
    expected = run(whole, PolicySuccessor(Walker(3)))
    data = log_of(whole).read_bytes()
    name = log_of(whole).relative_to(whole.folder)
    for cut in range(len(data)):
        journal = Journal(tmp_path / "cut", sync="never")
        path = journal.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)  # truncating in place makes some file systems write to the disk
        path.write_bytes(data[:cut])
        walker = Walker(3)
        assert run(journal, PolicySuccessor(walker)) == expected
        assert walker.asked == 3 - data[:cut].count(b'"type":"replied"', 0, data.rfind(b"\n", 0, cut) + 1)
        assert path.read_bytes() == data


def test_a_reply_is_recorded_before_it_is_used(tmp_path: Path) -> None:
    """When the sandbox breaks under an action, its reply is already safe, and the next attempt does not ask again."""
    journal = Journal(tmp_path, sync="entry")

    class Fragile(World):
        def act(self, action: Action) -> Observation:
            if len(self.done) == 2:
                raise SandboxError("broke")
            return super().act(action)

    walker = Walker()
    fragile = Fragile()
    with pytest.raises(SandboxError):
        run(journal, PolicySuccessor(walker), lambda: fragile)
    assert (walker.asked, fragile.closed) == (2, 1)
    assert run(journal, PolicySuccessor(walker)) == run(Journal(tmp_path / "other"))
    assert walker.asked == 5


def test_the_successor_sees_again_what_it_saw(tmp_path: Path) -> None:
    """What it paid for rests on the recorded observations; that the world answered otherwise now is noted."""
    journal = Journal(tmp_path, sync="never")
    expected = run(journal)
    path = log_of(journal)
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:5]))

    class Moody(World):
        def act(self, action: Action) -> Observation:
            seen = super().act(action)
            return seen if len(self.done) > 4 else Observation(text=f"{seen.text} in 0.1 s", exit_code=0)

    again = run(journal, environment=Moody)
    assert again.transcript == expected.transcript
    assert again.note == "; ".join(f"step {n} gave another observation when it was carried out again" for n in (1, 2))


@pytest.mark.parametrize(
    "change",
    [
        lambda: takeover_identity("p_2", "v", None, "m", 1, AMPLE),
        lambda: takeover_identity("p_1", "w", None, "m", 1, AMPLE),
        lambda: takeover_identity("p_1", "v", "d", "m", 1, AMPLE),
        lambda: takeover_identity("p_1", "v", None, "n", 1, AMPLE),
        lambda: takeover_identity("p_1", "v", None, "m", 2, AMPLE),
        lambda: takeover_identity("p_1", "v", None, "m", 1, Budget(steps=1, prompt_tokens=1)),
    ],
)
def test_all_that_decides_a_run_is_in_its_name(change: Callable[[], str]) -> None:
    """And nothing else: the same run has the same name everywhere."""
    name = takeover_identity("p_1", "v", None, "m", 1, AMPLE)
    assert name == takeover_identity("p_1", "v", None, "m", 1, AMPLE)
    assert name.startswith("k_")
    assert change() != name
