"""A successor that begins with what it is given: the base sees it as its own, and goes on."""

from __future__ import annotations

import random

import pytest
from scripted_endpoint import Scripted, client

from handoff.errors import InputError
from handoff.successors import Answer, Briefing, Question, Reply
from handoff.successors.branched import BranchedSuccessor
from handoff.successors.openai import OpenAISuccessor
from handoff.successors.policy import Conversation, PolicySuccessor
from handoff.trajectory import Observation

BRIEFING = Briefing(task="t", view="repo", view_text="", preamble="p")


class Counter:
    """Says how many turns it knows of, and draws a number."""

    name, digest = "counter", "m_counter"

    def propose(self, conversation: Conversation, rng: random.Random) -> Reply | None:
        return Reply(text=f"{[reply.text for reply, _ in conversation.turns]} {rng.random():.6f}")

    def belief(self, conversation: Conversation, question: Question) -> Answer | None:
        return Answer(plan=(str(len(conversation.turns)),))


def test_the_base_goes_on_after_what_was_said_for_it() -> None:
    """With the draws that it would have made at these turns anyway."""
    base = PolicySuccessor(Counter())
    forced = (Reply(text="one"), Reply(text="two"))
    branched = BranchedSuccessor(base, forced)
    session, plain = branched.start(BRIEFING, 5), base.start(BRIEFING, 5)
    said = []
    for _ in range(3):
        reply = session.reply()
        assert reply is not None
        said.append(reply.text)
        session.observe((Observation(call_id="c", text=""),))
        drawn = plain.reply()
        plain.observe(())
    assert drawn is not None and said[:2] == ["one", "two"]
    assert said[2] == f"['one', 'two'] {drawn.text.split()[-1]}"
    assert session.probe(Question(nodes=())) == Answer(plan=("3",))
    again = branched.start(BRIEFING, 5)
    for text in said[:2]:
        again.recall(Reply(text=text))
        again.observe(())
    third = again.reply()
    assert third is not None and third.text == said[2]


def test_what_is_forced_is_part_of_its_name() -> None:
    base = PolicySuccessor(Counter())
    digests = {BranchedSuccessor(base, forced).digest for forced in ((), (Reply(text="a"),), (Reply(text="b"),))}
    assert len(digests | {base.digest}) == 4


def test_a_model_cannot_be_made_to_say_what_it_did_not() -> None:
    branched = BranchedSuccessor(OpenAISuccessor(client(Scripted()), name="stub"), (Reply(text="a"),))
    with pytest.raises(InputError, match="asks an endpoint"):
        branched.start(BRIEFING, 0)
