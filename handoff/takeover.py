"""Takeovers: one real run of one successor from one handoff point under one view.

``run_takeover`` is the loop: ask, record, act, observe, until the successor submits, gives up or has spent
its budget. An agent that acts by itself (``successors/acting.py``) has a loop of its own, and is only started and
waited for. What a run costs is counted as ``docs/science.md §9`` says. Where the actions take effect is the
``Environment``'s business, who acts is the ``Successor``'s (``successors/``), what survives a kill is the
``Journal``'s (``journal.py``). Measures of a run are in ``diagnosis/``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from handoff.actions import context_of
from handoff.endpoints.ledger import Answered, CallEntry, Ledger, Spent, Spoiled
from handoff.endpoints.wire import Completion
from handoff.errors import StateError
from handoff.identity import canonical_json, identify
from handoff.journal import Journal
from handoff.spending import Meter, Purse, spent_of
from handoff.successors import Answer, Briefing, Budget, CallingSession, Question, Reply, Session, Status, Successor
from handoff.successors.acting import ActingSuccessor, Ground
from handoff.successors.changing import changes
from handoff.takeover_log import DECODER, Finished, Probed, Recorder, Takeover, read_transcript, sort_entries
from handoff.tokens import TOKENIZER
from handoff.trajectory import Action, Observation, Step, Usage

__all__ = [
    "Answer",
    "Briefing",
    "Budget",
    "Environment",
    "Journal",
    "Question",
    "Reply",
    "Session",
    "Successor",
    "Takeover",
    "Verdict",
    "read_transcript",
    "run_takeover",
    "takeover_identity",
]


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What the task's own tests say about the final state. ``None``: they could not be run."""

    solved: bool | None
    passed: int | None = None
    total: int | None = None


class Environment(Ground, Protocol):
    """The frozen state at a point, brought to life."""

    def act(self, action: Action) -> Observation:
        """Carry out one action. What the action does wrong comes back as text; it never raises for that."""
        ...

    @property
    def is_over(self) -> bool:
        """True once the successor has submitted."""
        ...

    def tree(self) -> str:
        """The git tree of the present state, written into the repository's store."""
        ...

    def verdict(self) -> Verdict:
        """Judge the present state."""
        ...

    def close(self) -> None:
        """End everything that runs in it. May be called twice."""
        ...


def takeover_identity(
    point_id: str,
    view_id: str,
    variant_id: str | None,
    successor_digest: str,
    seed: int,
    budget: Budget,
    place: str = "",
) -> str:
    """The name of a run: all that decides it. Equal runs are run once. ``place``: what is special about where it acts
    (``Surroundings.digest``)."""
    money = () if budget.dollars is None else (repr(budget.dollars),)
    more = (*money, *((f"place {place}",) if place else ()))
    return identify(
        "k", point_id, view_id, variant_id or "", successor_digest, seed, budget.steps, budget.prompt_tokens, *more
    )


def run_takeover(
    *,
    takeover_id: str,
    briefing: Briefing,
    successor: Successor | ActingSuccessor,
    environment: Environment | Callable[[], Environment],
    budget: Budget,
    seed: int,
    question: Question | None,
    journal: Journal,
    note_tokens: int = 0,
) -> Takeover:
    """Run one takeover, or go on with it, or return it when it was finished before.

    An agent that acts by itself begins anew, with the recorded answers of its model (``successors/broker.py``).

    ``environment`` may be a function that opens one: it is called only if something is left to run, and what
    it opened is closed here (an environment given open is closed by whoever opened it). It always starts at the
    frozen state: after an interruption the recorded actions are carried out again, the recorded replies are
    not asked for again, and the successor is shown the observations it saw then.

    ``question``: the probe (``docs/science.md §6``), put once on a side branch when the successor has looked around
    and is about to change the repository or to submit, or at the end of a run that never does; ``None`` asks
    nothing. ``note_tokens``: what writing the view cost. A ``SuccessorError`` ends the run with status ``error``;
    a ``SandboxError`` of the environment and an ``EndpointError``, which only the user can mend, are raised, and the
    run can be gone on with later. So can one that ended because an endpoint did not answer: it is, when it is asked
    for again. ``InputError``: a budget in money for a successor whose prices nobody knows.
    """
    run = canonical_json((briefing, question, successor.digest, seed, budget, note_tokens))
    name = f"{takeover_id}.{identify('i', run)[2:14]}"
    with journal.open(name) as log:
        past, calls = sort_entries(DECODER.decode(entry) for entry in log.entries)
        if past and isinstance(past[-1], Finished):
            return past[-1].takeover

        def recorded(entry: CallEntry) -> None:
            log.append(msgspec.json.encode(entry), is_paid=isinstance(entry, Answered | Spoiled))

        is_ours = callable(environment)
        place = environment() if callable(environment) else environment
        try:
            ledger = Ledger(name, recorded, calls)
            recorder = Recorder(log, past, ledger)
            if isinstance(successor, ActingSuccessor):
                takeover, is_over = _act_by_itself(
                    takeover_id, briefing, successor, place, budget, seed, question, ledger, note_tokens
                )
            else:
                takeover = _run(takeover_id, briefing, successor, place, budget, seed, question, recorder, note_tokens)
                is_over = True
            if is_over:
                recorder.finish(takeover)
        finally:
            if is_ours:
                place.close()
    return takeover


def _run(
    takeover_id: str,
    briefing: Briefing,
    successor: Successor,
    environment: Environment,
    budget: Budget,
    seed: int,
    question: Question | None,
    recorder: Recorder,
    note_tokens: int,
) -> Takeover:
    session = successor.start(briefing, seed)
    if isinstance(session, CallingSession):
        session.attach(recorder.ledger)
    meter = Meter(briefing, session)
    purse = Purse(budget.dollars, session)
    notes: list[str] = []
    answer: Answer | None = None

    def probe() -> Answer | None:
        if answer is not None or question is None:
            return answer
        if not purse.allows(meter.length, question):
            notes.append("probe: what it may cost is more than is left")
            return Answer()
        before = recorder.ledger.spent("probe")
        valid, remark = _valid(recorder.probe(session, question), question)
        if recorder.ledger.spent("probe").calls > before.calls:
            purse.pay(recorder.ledger.spent("probe").dollars, recorder.ledger.spoiled)
        notes.extend([remark] if remark else [])
        return valid

    context = context_of("")
    transcript: list[Step] = []
    first_logprob: float | None = None
    status: Status
    is_lost = False
    while True:
        if len(transcript) >= budget.steps:
            status = "step_limit"
            break
        if meter.prompt + meter.length > budget.prompt_tokens:
            status = "token_limit"
            break
        if not purse.allows(meter.length):
            status = "money_limit"
            break
        replied = recorder.reply(session)
        reply = replied.reply
        if reply is None:
            status = replied.status or ("error" if replied.error else "stopped")
            notes += [replied.error] if replied.error else []
            is_lost = replied.is_passing
            break
        first_logprob = first_logprob if transcript else reply.logprob
        meter.call(reply)
        purse.pay(reply.cost, recorder.ledger.spoiled)
        is_changing, context = changes(reply.actions, context)
        if is_changing:
            answer = probe()
        observations = recorder.observed(len(transcript) + 1, _act(environment, reply.actions, session))
        meter.observe(observations)
        transcript.append(_step(reply, observations))
        if environment.is_over:
            status = "submitted"
            break
        session.observe(observations)
        if isinstance(session, CallingSession) and (added := session.added()):
            meter.add(added)
            transcript[-1] = msgspec.structs.replace(transcript[-1], after=added)
    answer = (None if is_lost else probe()) or Answer()
    notes += [f"{meter.cut} replies were cut off at the limit of one reply"] if meter.cut else []
    spent, asked = spent_of(session, recorder.ledger)
    verdict, final_tree, remark = _left(environment)
    notes += [remark] if remark else []
    return Takeover(
        takeover_id=takeover_id,
        view=briefing.view,
        successor=successor.kind,
        successor_name=successor.name,
        successor_digest=successor.digest,
        seed=seed,
        provenance="replayed" if successor.kind == "replay" else "executed",
        status=status,
        solved=verdict.solved,
        tests_passed=verdict.passed,
        tests_total=verdict.total,
        steps=len(transcript),
        events=_events(tuple(transcript)),
        first_prompt_tokens=meter.first,
        prompt_tokens=meter.prompt,
        cached_tokens=meter.cached if transcript else None,
        completion_tokens=meter.completion,
        note_tokens=note_tokens,
        tokenizer=TOKENIZER,
        endpoint_prompt_tokens=spent.prompt,
        endpoint_completion_tokens=spent.completion,
        probe_prompt_tokens=asked.prompt,
        probe_completion_tokens=asked.completion,
        dollars=None if spent.dollars is None or asked.dollars is None else spent.dollars + asked.dollars,
        final_tree=final_tree,
        probe_done=answer.done,
        probe_plan=answer.plan,
        transcript=tuple(transcript),
        note="; ".join(notes + recorder.ledger.notes + recorder.notes),
        first_logprob=first_logprob,
        is_lost=is_lost,
    )


def _act_by_itself(
    takeover_id: str,
    briefing: Briefing,
    successor: ActingSuccessor,
    environment: Environment,
    budget: Budget,
    seed: int,
    question: Question | None,
    ledger: Ledger,
    note_tokens: int,
) -> tuple[Takeover, bool]:
    """One run of such an agent, and whether it is over for good."""
    acted = successor.act(briefing, environment, ledger, budget, seed, question)
    answer = acted.answer or Answer()
    spent, asked = ledger.spent("reply"), ledger.spent("probe")
    paid = [spent.dollars, asked.dollars, *(_cost(entry) for entry in ledger.unused)]
    verdict, final_tree, remark = _left(environment)
    takeover = Takeover(
        takeover_id=takeover_id,
        view=briefing.view,
        successor=successor.kind,
        successor_name=successor.name,
        successor_digest=successor.digest,
        seed=seed,
        provenance="executed",
        status=acted.status,
        solved=verdict.solved,
        tests_passed=verdict.passed,
        tests_total=verdict.total,
        steps=acted.steps,
        events=_events(acted.transcript),
        first_prompt_tokens=acted.first_prompt_tokens,
        prompt_tokens=acted.prompt_tokens,
        cached_tokens=_if_called(spent, spent.cached),
        completion_tokens=acted.completion_tokens,
        note_tokens=note_tokens,
        tokenizer=TOKENIZER,
        endpoint_prompt_tokens=_if_called(spent, spent.prompt),
        endpoint_completion_tokens=_if_called(spent, spent.completion),
        probe_prompt_tokens=_if_called(spent, asked.prompt),
        probe_completion_tokens=_if_called(spent, asked.completion),
        dollars=None if not spent.calls or None in paid else sum(cost or 0.0 for cost in paid),
        final_tree=final_tree,
        probe_done=answer.done,
        probe_plan=answer.plan,
        transcript=acted.transcript,
        note="; ".join([*acted.notes, *([remark] if remark else []), *ledger.notes]),
        is_lost=acted.is_passing,
    )
    return takeover, not acted.is_passing


def _left(environment: Environment) -> tuple[Verdict, str | None, str]:
    """What the judge says, the tree that was left, and why there is none."""
    final_tree: str | None = None
    try:
        final_tree = environment.tree()
        return environment.verdict(), final_tree, ""
    except StateError as error:
        return Verdict(solved=None), final_tree, f"what was left is no state: {error}"


def _if_called(spent: Spent, count: int | None) -> int | None:
    return count if spent.calls else None


def _cost(entry: Answered) -> float | None:
    return entry.answer.cost if isinstance(entry.answer, Completion) else 0.0


def _events(transcript: tuple[Step, ...]) -> int:
    """Actions and the observations that came back."""
    return sum(len(s.actions) + sum(o.missing is None for o in s.observations) for s in transcript)


def _act(environment: Environment, actions: tuple[Action, ...], session: Session) -> tuple[Observation, ...]:
    """Carry out one reply's actions in order; what follows a submission is not carried out."""
    observations: list[Observation] = []
    for action in actions:
        if environment.is_over:
            observations.append(Observation(call_id=action.call_id, missing="not_executed"))
        else:
            refused = session.refuse(action) if isinstance(session, CallingSession) else None
            observations.append(refused if refused is not None else environment.act(action))
    return tuple(observations)


def _step(reply: Reply, observations: tuple[Observation, ...]) -> Step:
    usage = reply.usage
    if usage is None and reply.completion_tokens is not None:
        usage = Usage(completion=reply.completion_tokens)
    return Step(
        text=reply.text,
        thought=reply.thought,
        actions=reply.actions,
        observations=observations,
        model=reply.model,
        usage=usage,
        cost=reply.cost,
    )


def _valid(probed: Probed, question: Question) -> tuple[Answer, str]:
    """The answer with repetitions dropped. One that names an unknown subtask is missing, not wrong (§6)."""
    if probed.answer is None:
        return Answer(), f"probe: {probed.note}" if probed.note else ""
    known = {node for _, node in question.nodes}
    done = probed.answer.done
    remark = ""
    if done is not None and not known.issuperset(done):
        done, remark = None, "probe: the answer names a subtask that was not asked about"
    return Answer(done=None if done is None else tuple(dict.fromkeys(done)), plan=probed.answer.plan), remark
