"""Single-token changes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from handoff.kata.mutations import SWAPS, changes, difference, replacement
from handoff.kata.prior import Prior
from handoff.kata.templates import HELD_OUT, TRAIN

SOURCES = [
    f'def {t.name}({"number" if t.kind == "scalar" else "values"}):\n    """{t.doc}"""\n{t.body}\n'.replace("$k", "4")
    .replace("$m", "12")
    .replace("$helper", "clip")
    for t in (*TRAIN, *HELD_OUT)
]
TWO = st.tuples(st.sampled_from(SOURCES), st.sampled_from(SOURCES)).map(lambda pair: "\n\n".join(pair))


def test_every_swap_can_be_swapped_back() -> None:
    assert all(old in SWAPS[new] for old, news in SWAPS.items() for new in news)


@given(text=TWO, data=st.data())
def test_a_change_is_undone_by_its_inverse_and_found_by_comparing(text: str, data: st.DataObject) -> None:
    """apply ∘ inverse is the identity, and ``difference`` names exactly the change."""
    options = changes("m.py", text)
    if not options:
        return
    change = data.draw(st.sampled_from(options))
    after = change.apply(text)
    assert change.inverse().apply(after) == text
    assert change.fits(text) and change.inverse().fits(after)
    assert difference("m.py", text, after) == (change,)


@given(text=TWO, data=st.data())
def test_the_editor_gets_whole_lines_that_occur_once(text: str, data: st.DataObject) -> None:
    """``old_str`` is unique, and replacing it makes the change and nothing else."""
    options = changes("m.py", text)
    if not options:
        return
    change = data.draw(st.sampled_from(options))
    old, new = replacement(text, change)
    assert text.count(old) == 1
    assert text.replace(old, new) == change.apply(text)


def test_larger_differences_are_not_told_as_token_changes() -> None:
    assert difference("m.py", "a = 1\n", "a = 1\nb = 2\n") is None
    assert difference("m.py", "a = 1\n", "a = 7\n") is None


def test_the_prior_judges_a_function_by_other_functions_only() -> None:
    """Copies of a function with a bug hardly move how that function is judged (its names may become ordinary)."""
    plain = Prior.fit(SOURCES)
    with_copies = Prior.fit([*SOURCES, *(SOURCES[0].replace("+=", "-=") for _ in range(3))])
    for change in changes("m.py", SOURCES[0]):
        assert abs(with_copies.gain(SOURCES[0], change) - plain.gain(SOURCES[0], change)) < 0.05
