"""The agent on an endpoint: what it asks, how it acts on answers, what it costs, what survives a kill."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fault_server import message
from hypothesis import given
from hypothesis import strategies as st
from scripted_endpoint import Answer as Scene
from scripted_endpoint import Scripted, client

from handoff.endpoints import Lost, Prices
from handoff.endpoints.wire import read_completion
from handoff.errors import EndpointError, InputError
from handoff.journal import Journal
from handoff.successors import Briefing, CallingSession, Question, asking
from handoff.successors.asking import MOST_PLANNED
from handoff.successors.openai import FENCED, MOST_IDLE, NATIVE, OpenAISuccessor, digest_of
from handoff.takeover import Budget, Takeover, Verdict, run_takeover
from handoff.tokens import count_tokens
from handoff.trajectory import Action, Observation

BRIEFING = Briefing(task="Fix the pager.", view="summary", view_text="It was read.", preamble="You take over.")
AMPLE = Budget(steps=20, prompt_tokens=1_000_000)
QUESTION = Question(nodes=(("q01", "edit:pager.py"), ("q02", "validate:all"), ("q03", "reproduce")))
LOOK = ("bash", {"command": "cat pager.py"})
EDIT = ("str_replace_editor", {"command": "str_replace", "path": "pager.py", "old_str": "1", "new_str": "2"})
SUBMIT = ("submit", {})
BELIEF = message(
    '{"done": ["q03"], "plan": [{"kind": "edit", "target": "/repo/pager.py"}, {"kind": "test", "target": ""}]}'
)


class World:
    """An environment that remembers what was done to it."""

    def __init__(self) -> None:
        self.done: list[Action] = []
        self.is_over = False

    def act(self, action: Action) -> Observation:
        self.done.append(action)
        self.is_over = action.tool == "submit"
        return Observation(call_id=action.call_id, text=f"{len(self.done)} done", exit_code=0)

    def tree(self) -> str:
        return f"tree{len(self.done)}"

    def verdict(self) -> Verdict:
        return Verdict(solved=None)

    def close(self) -> None:
        pass


def run(
    journal: Path,
    transport: Scripted,
    *,
    question: Question | None = None,
    budget: Budget = AMPLE,
    briefing: Briefing = BRIEFING,
    world: Callable[[], Any] = World,
    seed: int = 3,
    asks_logprobs: bool = False,
    **settings: Any,
) -> Takeover:
    return run_takeover(
        takeover_id="k_openai",
        briefing=briefing,
        successor=OpenAISuccessor(client(transport, **settings), name="stub", asks_logprobs=asks_logprobs),
        environment=world,
        budget=budget,
        seed=seed,
        question=question,
        journal=Journal(journal, sync="never"),
    )


def test_the_session_is_one_that_costs() -> None:
    session = OpenAISuccessor(client(Scripted()), name="stub").start(BRIEFING, 0)
    assert isinstance(session, CallingSession)


# -- the conversation ---------------------------------------------------------------------------


def test_the_conversation_begins_with_what_stays(tmp_path: Path) -> None:
    """Instructions, then preamble, view and task in one message; sampling, seed and tools as set."""
    transport = Scripted()
    takeover = run(tmp_path, transport, temperature=0.3, top_p=0.9, extra_body={"top_k": 5})
    assert transport.requests == [
        {
            "model": "stub-1",
            "temperature": 0.3,
            "top_p": 0.9,
            "top_k": 5,
            "seed": 3,
            "max_tokens": 4096,
            "tools": transport.requests[0]["tools"],
            "messages": [
                {"role": "system", "content": NATIVE},
                {"role": "user", "content": "You take over.\n\nIt was read.\n\nFix the pager."},
            ],
        }
    ]
    assert [tool["function"]["name"] for tool in transport.requests[0]["tools"]] == [
        "bash",
        "str_replace_editor",
        "submit",
    ]
    assert (takeover.status, takeover.steps, takeover.successor) == ("submitted", 1, "openai")


def with_logprobs(answer: dict[str, Any], told: object) -> dict[str, Any]:
    (choice,) = answer["choices"]
    return {**answer, "choices": [{**choice, "logprobs": told}]}


def test_the_first_reply_alone_is_asked_how_likely_it_was(tmp_path: Path) -> None:
    """And never twice: what a killed run was told is in its journal."""
    first = with_logprobs(message("", ("bash", {"command": "ls"})), {"content": [{"logprob": -1.0}, {"logprob": -0.5}]})
    transport = Scripted([first])
    takeover = run(tmp_path, transport, asks_logprobs=True)
    assert takeover.first_logprob == -0.75
    assert [request.get("logprobs") for request in transport.requests] == [True, None]
    assert run(tmp_path, transport, asks_logprobs=True) == takeover and len(transport.requests) == 2
    plain = run(tmp_path / "plain", other := Scripted([first]))
    assert "logprobs" not in other.requests[0] and plain.successor_digest != takeover.successor_digest


@pytest.mark.parametrize(
    "refusal",
    [
        (400, "Unsupported parameter: 'logprobs' is not supported with this model."),
        (403, "You are not allowed to request logprobs from this model"),
        (422, "body.logprobs: Extra inputs are not permitted"),
    ],
)
def test_an_endpoint_that_tells_none_is_asked_again_without(tmp_path: Path, refusal: tuple[int, str]) -> None:
    transport = Scripted([refusal])
    takeover = run(tmp_path, transport, asks_logprobs=True)
    assert (takeover.status, takeover.first_logprob) == ("submitted", None)
    assert [request.get("logprobs") for request in transport.requests] == [True, None]


@pytest.mark.parametrize(
    ("told", "mean"),
    [
        (None, None),
        ("much", None),
        ({"content": None}, None),
        ({"content": []}, None),
        ({"content": [{"logprob": -9999.0}, {"logprob": "x"}, 3, {"logprob": True}, {"logprob": -2}]}, -2.0),
        ({"content": [{"logprob": 1e-9}]}, 0.0),
        ({"token_logprobs": [-1.0, None, -3.0]}, -2.0),
    ],
)
def test_whatever_stands_for_log_probabilities_is_read_or_left(told: object, mean: float | None) -> None:
    body = json.dumps(with_logprobs(message("hello"), told)).encode()
    assert read_completion(body).logprob == mean


def test_parallel_calls_are_carried_out_in_order_and_answered_by_id(tmp_path: Path) -> None:
    transport = Scripted([message("Look.", LOOK, ("bash", {"command": "ls"})), message("", EDIT)])
    takeover = run(tmp_path, transport)
    assert [len(step.actions) for step in takeover.transcript] == [2, 1, 1]
    told = transport.requests[1]["messages"][2:]
    assert [m["role"] for m in told] == ["assistant", "tool", "tool"]
    assert [m["tool_call_id"] for m in told[1:]] == [c["id"] for c in told[0]["tool_calls"]]
    assert [m["content"] for m in told[1:]] == ["1 done", "2 done"]


def test_ids_that_are_missing_or_used_again_become_our_own(tmp_path: Path) -> None:
    """An answer belongs to one call, whatever the server calls it."""
    bad = message("", LOOK, LOOK)
    bad["choices"][0]["message"]["tool_calls"][1]["id"] = "call_1"
    worse = message("", LOOK)
    worse["choices"][0]["message"]["tool_calls"][0]["id"] = None
    transport = Scripted([bad, worse])
    run(tmp_path, transport)
    ids = [c["id"] for m in transport.requests[-1]["messages"] for c in m.get("tool_calls", ())]
    assert len(ids) == len(set(ids)) == 3 and all(ids)
    assert ids == [m["tool_call_id"] for m in transport.requests[-1]["messages"] if m["role"] == "tool"]


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (("bash", '{"command": "ls'), "no JSON object; perhaps they were cut off"),
        (("bash", "[1]"), "no JSON object"),
        (("bash", ""), "bash needs command, text"),
        (("bash", {"command": ["ls"]}), "bash needs command, text"),
        (("rm_rf", {}), "There is no tool 'rm_rf'; the tools are bash, str_replace_editor and submit"),
        (("str_replace_editor", {"path": "a"}), "needs command, one of view, create, str_replace, insert"),
        (("str_replace_editor", {"command": "create", "path": "a"}), "create needs file_text, text"),
        (("str_replace_editor", {"command": "view"}), "view needs path, text"),
        (
            ("str_replace_editor", {"command": "insert", "path": "a", "insert_line": True, "new_str": ""}),
            "insert needs insert_line, a whole number",
        ),
    ],
)
def test_a_call_that_cannot_be_made_is_told_so(tmp_path: Path, call: tuple[str, object], problem: str) -> None:
    """It reaches no environment; the next request holds arguments that servers can parse."""
    worlds: list[World] = []

    def world() -> World:
        worlds.append(World())
        return worlds[-1]

    transport = Scripted([message("", call)])
    takeover = run(tmp_path, transport, world=world)
    seen = takeover.transcript[0].observations[0]
    assert problem in seen.text and seen.error is True
    assert [action.tool for action in worlds[0].done] == ["submit"]
    history = transport.requests[1]["messages"][2]["tool_calls"][0]["function"]["arguments"]
    assert isinstance(json.loads(history), dict)
    assert problem in transport.requests[1]["messages"][3]["content"]


def test_more_calls_than_allowed_are_not_made(tmp_path: Path) -> None:
    transport = Scripted([message("", *[LOOK] * 9)])
    takeover = run(tmp_path, transport, calls_per_reply=2)
    assert len(takeover.transcript[0].actions) == 2
    assert takeover.transcript[0].after[0].role == "harness"
    assert transport.requests[1]["messages"][-1] == {
        "role": "user",
        "content": "Only the first 2 calls were carried out.",
    }


def test_a_reply_without_a_call_is_nudged_and_many_end_the_run(tmp_path: Path) -> None:
    transport = Scripted([message("hm"), message("", LOOK)], then=lambda _: message(""))
    takeover = run(tmp_path, transport)
    assert (takeover.status, takeover.steps) == ("stopped", 2 + MOST_IDLE)
    assert "No tool was called" in transport.requests[1]["messages"][-1]["content"]
    assert len(transport.requests) == 2 + MOST_IDLE
    assert takeover.transcript[0].after[0].text == transport.requests[1]["messages"][-1]["content"]


def test_a_reply_that_was_cut_off_is_told_so_and_counted(tmp_path: Path) -> None:
    transport = Scripted([message("I would", finish="length"), message("", ("bash", '{"comm'), finish="length")])
    takeover = run(tmp_path, transport, max_completion_tokens=77)
    assert "cut off after 77 tokens" in transport.requests[1]["messages"][-1]["content"]
    assert takeover.note == "2 replies were cut off at the limit of one reply"


def test_reasoning_is_recorded_and_not_sent_back(tmp_path: Path) -> None:
    transport = Scripted([message("Look.", LOOK, reasoning_content="pondering")])
    takeover = run(tmp_path, transport)
    assert takeover.transcript[0].thought == "pondering"
    assert "pondering" not in json.dumps(transport.requests)


# -- shell blocks -------------------------------------------------------------------------------

BLOCKS = "First:\n```bash\ncat pager.py\nls\n```\nthen\n```sh\ngit diff\n```\n"


@pytest.mark.parametrize("how", ["fenced", "auto"])
def test_an_endpoint_without_tools_is_spoken_to_in_shell_blocks(tmp_path: Path, how: str) -> None:
    """``auto`` finds out at the first call, once."""
    scenes: list[Scene] = [] if how == "fenced" else [(400, "stub-1 does not support tools")]
    transport = Scripted([*scenes, message(BLOCKS), message("```bash\nsubmit\n```")])
    takeover = run(tmp_path, transport, tools=how)
    assert [a.arguments for a in takeover.transcript[0].actions] == [
        '{"command":"cat pager.py\\nls"}',
        '{"command":"git diff"}',
    ]
    assert (takeover.status, takeover.steps) == ("submitted", 2)
    asked = transport.requests[len(scenes) :]
    assert not any("tools" in request for request in asked)
    assert [m["role"] for m in asked[1]["messages"]] == ["system", "user", "assistant", "user"]
    assert asked[1]["messages"][0]["content"] == FENCED
    assert asked[1]["messages"][3]["content"] == "1 done\n\n2 done"


def test_a_model_that_writes_blocks_beside_tools_is_understood_only_in_auto(tmp_path: Path) -> None:
    auto = run(tmp_path / "a", Scripted([message(BLOCKS)]), tools="auto")
    native = run(tmp_path / "b", Scripted([message(BLOCKS)]), tools="native")
    assert (len(auto.transcript[0].actions), len(native.transcript[0].actions)) == (2, 0)


def test_no_tools_where_they_are_demanded_is_the_end(tmp_path: Path) -> None:
    takeover = run(tmp_path, Scripted([(400, "stub-1 does not support tools")]), tools="native")
    assert (takeover.status, takeover.steps) == ("error", 0)
    assert "set tools to fenced or auto" in takeover.note


# -- limits -------------------------------------------------------------------------------------


def test_a_context_that_overflows_is_an_outcome(tmp_path: Path) -> None:
    """It is recorded, and not asked for again."""
    transport = Scripted([message("", LOOK), (400, "This model's maximum context length is 99 tokens")])
    first = run(tmp_path, transport, question=QUESTION)
    assert (first.status, first.steps) == ("context_limit", 1)
    assert "maximum context length is 99" in first.note
    asked = len(transport.requests)
    assert run(tmp_path, transport, question=QUESTION) == first
    assert len(transport.requests) == asked


def test_a_window_that_is_known_is_not_overrun(tmp_path: Path) -> None:
    """Replies get what room is left; with hardly any, nothing is asked."""
    transport = Scripted(then=lambda _: message("x" * 400, LOOK))
    takeover = run(tmp_path, transport, context_window=3000, max_completion_tokens=1500)
    limits = [request["max_tokens"] for request in transport.requests]
    assert takeover.status == "context_limit"
    assert limits[0] == 1500 and limits == sorted(limits, reverse=True) and limits[-1] >= 256 and limits[-1] < 1500


PRICES = Prices(prompt=10.0, cached=1.0, completion=30.0)


@given(dollars=st.floats(0.001, 0.4), known=st.booleans(), probed=st.booleans())
def test_money_is_never_overspent(
    tmp_path_factory: pytest.TempPathFactory, dollars: float, known: bool, probed: bool
) -> None:
    """Also where the endpoint does not say what a call used: then the most it may have cost is charged."""
    usage = "counted" if known else None
    transport = Scripted(then=lambda n: {**(BELIEF if n == 3 and probed else message("x", EDIT)), "usage": usage})
    budget = Budget(steps=9, prompt_tokens=10**9, dollars=dollars)
    takeover = run(
        tmp_path_factory.mktemp("journal"),
        transport,
        question=QUESTION if probed else None,
        budget=budget,
        prices=PRICES,
        max_completion_tokens=1000,
        probe_tokens=500,
    )
    assert takeover.status in ("money_limit", "step_limit")
    if known:
        assert takeover.dollars is not None and takeover.dollars <= dollars
    else:
        cheapest = 1000 * PRICES.completion / 1e6
        assert len(transport.requests) * cheapest <= dollars + 500 * PRICES.completion / 1e6


def test_answers_of_no_use_are_charged_at_their_most(tmp_path: Path) -> None:
    """Nobody says what they cost; a budget must hold if they were paid for. The same when the run is gone on with."""
    budget = Budget(steps=9, prompt_tokens=10**9, dollars=0.16)
    scenes: list[Scene] = [{"choices": []}, {"choices": []}, (401, "no")]
    spoiled, clean = Scripted(list(scenes), lambda _: message("", LOOK)), Scripted(then=lambda _: message("", LOOK))
    settings = {"prices": PRICES, "max_completion_tokens": 2000}
    with pytest.raises(EndpointError):
        run(tmp_path / "a", spoiled, budget=budget, **settings)
    first = run(tmp_path / "a", spoiled, budget=budget, **settings)
    second = run(tmp_path / "b", clean, budget=budget, **settings)
    assert (first.status, second.status) == ("money_limit", "step_limit")
    assert first.steps < second.steps


def test_a_budget_in_money_needs_prices(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="needs prices"):
        run(tmp_path, Scripted(), budget=Budget(steps=3, prompt_tokens=10**6, dollars=1.0))


def test_what_the_endpoint_counted_adds_up(tmp_path: Path) -> None:
    """Run and probe apart, money together; the same after the run was read from its journal."""
    transport = Scripted([message("", LOOK), message("", EDIT), BELIEF])
    takeover = run(tmp_path, transport, question=QUESTION, prices=PRICES)
    prompts = [len(json.dumps(request["messages"])) // 4 for request in transport.requests]
    own = prompts[:2] + prompts[3:]
    assert takeover.endpoint_prompt_tokens == sum(own)
    assert takeover.probe_prompt_tokens == prompts[2]
    assert takeover.cached_tokens == sum(prompt // 2 for prompt in own)
    costs = [step.cost for step in takeover.transcript]
    assert takeover.dollars is not None and None not in costs
    assert takeover.dollars > sum(cost for cost in costs if cost is not None)
    assert takeover.completion_tokens < takeover.prompt_tokens
    assert takeover.transcript[0].usage is not None and takeover.transcript[0].model == "stub-1"


# -- the probe ----------------------------------------------------------------------------------


def test_the_probe_is_put_before_the_first_change_and_forgotten(tmp_path: Path) -> None:
    """On the conversation as it was before the pending reply, bound to a schema, with no tool to call."""
    transport = Scripted([message("", LOOK), message("", EDIT), BELIEF])
    takeover = run(tmp_path, transport, question=QUESTION, probe_tokens=300)
    assert takeover.probe_done == ("reproduce",)
    assert takeover.probe_plan == ("edit pager.py", "test ")
    probe = transport.requests[2]
    assert probe["messages"][:-1] == transport.requests[1]["messages"]
    assert probe["tool_choice"] == "none" and probe["tools"] == transport.requests[1]["tools"]
    assert probe["response_format"]["json_schema"]["schema"]["properties"]["done"]["items"]["enum"] == [
        "q01",
        "q02",
        "q03",
    ]
    assert probe["max_tokens"] == 300
    text = probe["messages"][-1]["content"]
    assert "q01: pager.py has all the changes" in text and "edit:pager.py" not in text
    assert transport.requests[3]["messages"][:4] == probe["messages"][:4]
    assert "A question beside the work" not in json.dumps(transport.requests[3])


def test_without_schemas_the_schema_stands_in_the_question(tmp_path: Path) -> None:
    belief = {**BELIEF, "choices": [{"message": {"content": '```json\n{"done": [], "plan": []}\n```'}}]}
    transport = Scripted([message("", EDIT), (400, "response_format json_schema is not supported"), belief])
    takeover = run(tmp_path, transport, question=QUESTION)
    assert (takeover.probe_done, takeover.probe_plan) == ((), ())
    assert "response_format" not in transport.requests[2]
    assert '"additionalProperties"' in transport.requests[2]["messages"][-1]["content"]


REFUSALS: list[list[str]] = [
    [],
    ["'maxLength' is not permitted"],
    ["'maxItems' is not supported", "response_format is not supported"],
]
"""What an endpoint says to a schema with bounds, and then to one without."""


@pytest.mark.parametrize("said", REFUSALS)
def test_a_schema_loses_its_bounds_where_they_are_refused_and_then_stands_in_words(
    tmp_path: Path, said: list[str]
) -> None:
    transport = Scripted([message("", EDIT), *((400, text) for text in said), BELIEF])
    assert run(tmp_path, transport, question=QUESTION).probe_done == ("reproduce",)
    probes = transport.requests[1 : 2 + len(said)]
    for place, probe in enumerate(probes):
        bound = probe.get("response_format", {}).get("json_schema", {}).get("schema")
        assert (bound is None) == (place == 2) == ("fits this schema" in probe["messages"][-1]["content"])
        assert ("maxItems" in json.dumps(bound)) == (place == 0)


@pytest.mark.parametrize(("tokens", "steps"), [(1, 1), (300, 3), (2048, 29), (10**6, MOST_PLANNED)])
def test_a_plan_is_asked_for_that_fits_the_tokens_of_an_answer(tokens: int, steps: int) -> None:
    """Counted on the longest answer that the schema lets through, laid out as small models do."""
    plan = asking.schema_of(QUESTION, tokens)["properties"]["plan"]
    assert plan["maxItems"] == steps and f"at most {steps}:" in asking.words_of(QUESTION, tokens, is_bound=True)
    text = ("tests of the pager " * 7)[: plan["items"]["properties"]["target"]["maxLength"]]
    answer = {"done": [i for i, _ in QUESTION.nodes], "plan": [{"kind": "reproduce", "target": text}] * steps}
    assert steps == 1 or count_tokens(json.dumps(answer, indent=2)) <= tokens


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("I think q01 is done.", "not of the form"),
        ('{"done": ["q01"]}', "not of the form"),
        ('{"done": ["q01"], "plan": [], "more": 1}', "not of the form"),
        ('{"done": ["q99"], "plan": []}', "which was not asked about"),
        ('{"done": ["edit:pager.py"], "plan": []}', "which was not asked about"),
        ('{"done": [], "plan": [{"kind": "ponder", "target": "x"}]}', "no kind of action"),
        ("", "not of the form"),
        ("[" * 50_000, "not of the form"),
    ],
)
def test_an_answer_of_another_form_is_missing_and_the_run_goes_on(tmp_path: Path, text: str, problem: str) -> None:
    takeover = run(tmp_path, Scripted([message("", EDIT), message(text)]), question=QUESTION)
    assert (takeover.probe_done, takeover.probe_plan, takeover.status) == (None, None, "submitted")
    assert takeover.note.startswith("probe: ") and problem in takeover.note


def test_an_endpoint_that_fails_the_probe_alone_costs_the_probe_alone(tmp_path: Path) -> None:
    transport = Scripted([message("", EDIT), *[(500, "no")] * 3])
    takeover = run(tmp_path, transport, question=QUESTION)
    assert (takeover.probe_done, takeover.status) == (None, "submitted")
    assert "probe: http://stub/v1: no answer in 3 attempts" in takeover.note


# -- requests only grow -------------------------------------------------------------------------

_TEXTS = st.sampled_from(["", "hm", BLOCKS, "a\ud800b", "nul \0", "```bash\nsubmit"])
_CALLS = st.lists(st.sampled_from([LOOK, EDIT, ("bash", "{"), ("nope", {}), ("bash", {"command": "a\0"})]), max_size=3)


@given(
    replies=st.lists(st.tuples(_TEXTS, _CALLS, st.sampled_from(["", "length"])), max_size=6),
    tools=st.sampled_from(["auto", "native", "fenced"]),
    probed=st.booleans(),
)
def test_each_request_begins_with_the_one_before(
    tmp_path_factory: pytest.TempPathFactory, replies: list[Any], tools: str, probed: bool
) -> None:
    """So that a prompt cache holds, whatever a model answers. Roles keep the order that templates want."""

    def then(number: int) -> Scene:
        return message("```bash\nsubmit\n```", *([] if tools == "fenced" else [SUBMIT]))

    transport = Scripted([message(text, *made, finish=finish) for text, made, finish in replies], then)
    run(tmp_path_factory.mktemp("journal"), transport, question=QUESTION if probed else None, tools=tools)
    main = [
        r["messages"] for r in transport.requests if "A question beside the work" not in r["messages"][-1]["content"]
    ]
    for earlier, later in itertools.pairwise(main):
        assert later[: len(earlier)] == earlier
        assert len(later) > len(earlier)
    for messages in main:
        roles = [m["role"] for m in messages]
        assert roles[:2] == ["system", "user"]
        assert not any(a == b == "assistant" for a, b in itertools.pairwise(roles))
        assert roles[-1] != "assistant"


# -- kills and faults ---------------------------------------------------------------------------

STORY: list[Scene] = [
    message("Look.", LOOK),
    (429, "slow down"),
    message("no call"),
    {"choices": []},
    message("", EDIT, ("bash", "{")),
    BELIEF,
    message("", EDIT),
]


class Killed(BaseException):
    """The process is gone."""


@pytest.mark.parametrize("moment", range(1, 10))
@pytest.mark.parametrize("sent", [False, True], ids=["before-sending", "after-sending"])
def test_killed_at_any_call_it_goes_on_and_asks_nothing_twice(tmp_path: Path, moment: int, sent: bool) -> None:
    """Only the request that was under way is made again, under the same label; the run ends as an undisturbed one."""
    plain = run(tmp_path / "plain", Scripted(list(STORY)), question=QUESTION, prices=PRICES)

    class Mortal(Scripted):
        count = 0

        def send(self, body: Any, label: str) -> Any:
            Mortal.count += 1
            if Mortal.count == moment and not sent:
                raise Killed
            received = super().send(body, label)
            if Mortal.count == moment:
                self.answers.insert(0, json.loads(received.body))  # the server would say the same again
                raise Killed
            return received

    transport = Mortal(list(STORY))
    with pytest.raises(Killed) if moment <= 8 else contextlib.nullcontext():
        run(tmp_path / "k", transport, question=QUESTION, prices=PRICES)
    before = len(transport.requests)
    again = run(tmp_path / "k", transport, question=QUESTION, prices=PRICES)
    if moment <= 8:
        assert "was under way when the run was cut off, and was made again" in again.note
        assert len(transport.requests) == 8 + (1 if sent else 0)
        if sent and moment not in (2, 4):
            assert transport.labels[before] == transport.labels[before - 1]
            assert transport.requests[before] == transport.requests[before - 1]
    parts = [part for part in again.note.split("; ") if "under way" not in part]
    stripped = {**again.columns(), "note": "; ".join(parts)}
    assert stripped == plain.columns()


class Knowing(Scripted):
    """Gives a request the answer that it once got."""

    def __init__(self, known: dict[str, Any]) -> None:
        super().__init__()
        self.known = known

    def send(self, body: Any, label: str) -> Any:
        self.then = lambda _: self.known[json.dumps(body)]
        return super().send(body, label)


@pytest.mark.parametrize("story", ["good", "no probe", "rejected", "overflow"])
def test_cut_off_after_any_line_of_its_journal_it_ends_alike(tmp_path: Path, story: str) -> None:
    """For each number of lines that a kill may leave: the same takeover, and only unanswered requests are made."""
    ends: dict[str, list[Scene]] = {"rejected": [(400, "filtered")], "overflow": [(400, "prompt is too long")]}
    scenes = [*STORY[:-1], *ends.get(story, STORY[-1:])]
    question = QUESTION if story != "no probe" else None
    if question is None:
        scenes.remove(BELIEF)
    plain = Scripted(list(scenes))
    wanted = run(tmp_path / "plain", plain, question=question, prices=PRICES)
    (log,) = (tmp_path / "plain").rglob("*.log")
    lines = log.read_bytes().splitlines(keepends=True)
    asked = [json.dumps(request) for request in plain.requests]
    known = dict(zip(asked, [*scenes, message("", SUBMIT)], strict=False))  # of one that was put twice, the last
    for count in range(len(lines) + 1):
        place = tmp_path / f"cut{count}" / log.relative_to(tmp_path / "plain")
        place.parent.mkdir(parents=True)
        place.write_bytes(b"".join(lines[:count]) + lines[count][:20] if count < len(lines) else b"".join(lines))
        transport = Knowing(known)
        again = run(tmp_path / f"cut{count}", transport, question=question, prices=PRICES)
        notes = [part for part in again.note.split("; ") if "under way" not in part]
        assert {**again.columns(), "note": "; ".join(notes)} == wanted.columns()
        answered = sum(b'"type":"answered"' in line for line in lines[:count])
        total = sum(b'"type":"answered"' in line for line in lines)
        assert len(transport.requests) == total - answered


def test_an_endpoint_that_never_answers_ends_the_run_for_now(tmp_path: Path) -> None:
    """Recorded as an error; asked for again, the run goes on where it stood, and pays for no answer again."""
    transport = Scripted([message("", LOOK), *[Lost("gone")] * 3, *[Lost("gone")] * 3])
    for _ in range(2):
        takeover = run(tmp_path, transport, question=QUESTION)
        assert (takeover.status, takeover.steps) == ("error", 1)
        assert "no answer in 3 attempts, the last: gone" in takeover.note
    healed = run(tmp_path, transport, question=QUESTION)
    assert (healed.status, healed.steps) == ("submitted", 2)
    assert len(transport.requests) == 1 + 6 + 2
    assert run(tmp_path, transport, question=QUESTION) == healed


@pytest.mark.parametrize("fault", [(401, "no"), (404, "no such model"), (402, "pay")])
def test_what_only_the_user_can_mend_is_raised_and_the_run_can_go_on(tmp_path: Path, fault: tuple[int, str]) -> None:
    transport = Scripted([message("", LOOK), fault])
    with pytest.raises(EndpointError):
        run(tmp_path, transport)
    assert run(tmp_path, transport).status == "submitted"
    assert len(transport.requests) == 3


def test_a_journal_of_another_conversation_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A changed program must not mix its answers with those of the old one."""
    transport = Scripted([message("", LOOK), (401, "no")])
    with pytest.raises(EndpointError):
        run(tmp_path, transport)
    monkeypatch.setattr(
        "handoff.successors.openai.OpenAISession._begin", lambda self: [{"role": "user", "content": "?"}]
    )
    with pytest.raises(InputError, match="is not the one that its journal holds"):
        run(tmp_path, transport)


def test_the_digest_follows_what_decides_the_run() -> None:
    one, same, other = (client(Scripted(), **more).endpoint for more in ({}, {"timeout_s": 1.0}, {"temperature": 0.0}))
    assert digest_of(one) == digest_of(same) != digest_of(other)
