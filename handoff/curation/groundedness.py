"""The groundedness gate: an action may only use what its actor could know (``docs/science.md §11``).

A recorded suffix was written with the whole history in mind. Pasted under a poorer view it names files and
functions that the view never mentions, and teaches a model to invent them. So every path and every identifier
that a trained action uses must occur in the task, in the view, in what came back since the handoff, or in
something the successor itself wrote.

Used is: the target of a key (``actions.py``), unless the action creates it; and each code-like word (snake_case,
CamelCase, dotted) in an argument, unless the argument is text that the action writes. Plain words, options and
names that any repository may have (``README.md``, ``tests``) are free to guess. What a word may mean is not
judged here: an occurrence grounds it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal, Protocol, TypeAlias

import msgspec

from handoff.trajectory import Action, Step

Verdict: TypeAlias = Literal["kept", "moved", "dropped"]


class KeyLike(Protocol):
    """What is read of an action key."""

    @property
    def kind(self) -> str:
        """read, search, edit, …"""
        ...

    @property
    def target(self) -> str:
        """A repository path or a command's target."""
        ...


class Ungrounded(msgspec.Struct, frozen=True, kw_only=True):
    """One use of something the actor could not know."""

    step: int
    """1-based, of the successor."""
    what: Literal["path", "identifier"]
    text: str


class Grounding(msgspec.Struct, frozen=True, kw_only=True):
    """The gate's finding on one takeover."""

    checked: int
    """Uses looked at."""
    ungrounded: tuple[Ungrounded, ...]

    @property
    def is_grounded(self) -> bool:
        """Nothing was used that could not be known."""
        return not self.ungrounded

    def evidence(self) -> dict[str, object]:
        """For the funnel: how many uses, and the first few that fail."""
        return {
            "checked": self.checked,
            "ungrounded": len(self.ungrounded),
            "first": [f"step {u.step}: {u.what} {u.text[:120]}" for u in self.ungrounded[:5]],
        }


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What to do with a recorded suffix under a view."""

    verdict: Verdict
    view: str | None
    """The view to use: the wanted one when kept, a richer one when moved, ``None`` when dropped."""
    grounding: Grounding
    """Under the wanted view."""


def check_grounded(steps: Sequence[Step], keys: Sequence[Sequence[KeyLike]], given: Sequence[str]) -> Grounding:
    """Check every action of ``steps`` against ``given`` (preamble, view, task, tools) and what came back before it.

    ``keys``: one sequence per step, from ``actions.trajectory_keys``.
    """
    known = _Known()
    for text in given:
        known.learn(text)
    checked, ungrounded = 0, []
    for number, (step, step_keys) in enumerate(zip(steps, keys, strict=True), 1):
        missing: dict[tuple[Literal["path", "identifier"], str], None] = {}  # ordered, once per step
        made: list[str] = []
        for key in step_keys:
            if key.kind == "create":
                made.append(key.target)
                continue
            for path in _paths(key.target):
                checked += 1
                if not known.path(path) and path not in made:
                    missing["path", path] = None
        for action in step.actions:
            for word in _used_words(action):
                checked += 1
                if not known.word(word) and not any(word in target for target in made):
                    missing["identifier", word] = None
        ungrounded += [Ungrounded(step=number, what=what, text=text) for what, text in missing]
        for action in step.actions:  # what it wrote itself it knows from now on
            known.learn(_plain(action))
        for target in made:
            known.learn(target)
        for observation in step.observations:
            known.learn(observation.text)
        for message in step.after:
            known.learn(message.text)
    return Grounding(checked=checked, ungrounded=tuple(ungrounded))


def decide(
    view: str, steps: Sequence[Step], keys: Sequence[Sequence[KeyLike]], given: Mapping[str, Sequence[str]]
) -> Decision:
    """Keep a recorded suffix under ``view``, move it to the first later view of ``given`` that grounds it, or drop it.

    ``given``: what each view tells, from poorest to richest (``views.VIEWS`` order with ``trace`` last).
    """
    wanted = check_grounded(steps, keys, given[view])
    if wanted.is_grounded:
        return Decision(verdict="kept", view=view, grounding=wanted)
    order = list(given)
    for richer in order[order.index(view) + 1 :]:
        if check_grounded(steps, keys, given[richer]).is_grounded:
            return Decision(verdict="moved", view=richer, grounding=wanted)
    return Decision(verdict="dropped", view=None, grounding=wanted)


# -- words --------------------------------------------------------------------------------------

_TOKEN = re.compile(r"[\w.\-]+")
_WORD = re.compile(r"\w+")
_CODE_WORD = re.compile(
    r"(?<![\w./-])(?:[A-Za-z_]\w*\.)*(?:[a-z]+(?:_[a-z0-9]+)+|_+[a-z]\w+|[A-Z]?[a-z0-9]+(?:[A-Z][a-z0-9]*)+)\b(?![/.-]\w)"
)
_PATH = re.compile(r"[\w@+~.\-]*[\w@+~\-](?:/[\w@+~.\-]+)+|[\w@+\-]+\.[A-Za-z][A-Za-z0-9]{0,4}(?![\w(])")
_OPTION = re.compile(r"(?<!\S)-{1,2}[A-Za-z][\w-]*")
_HEREDOC = re.compile(r"<<-?\s*(['\"]?)(\w+)\1[^\n]*\n.*?(?:\n\2(?=\n|$)|$)", re.DOTALL)

_WRITTEN_NAMES = (
    "new new_str new_text new_string replacement replace text content contents file_text insert_text patch diff code "
    "message thought notes note summary"
)
_WRITTEN = frozenset(_WRITTEN_NAMES.split())
"""Arguments that hold text the action writes or says."""

_GUESSABLE_NAMES = (
    ". .. readme readme.md readme.rst readme.txt setup.py setup.cfg pyproject.toml makefile tests test src lib docs "
    "conftest.py requirements.txt package.json cargo.toml go.mod tox.ini pytest.ini license changelog.md "
    "contributing.md .gitignore .git __init__.py tmp dev null usr bin testbed repo workspace head"
)
_GUESSABLE = frozenset({"", *_GUESSABLE_NAMES.split()})
"""Names that any repository or machine may have."""


class _Known:
    """Words that occurred in something the actor has seen."""

    def __init__(self) -> None:
        self._tokens: set[str] = set()  # only asked for membership
        self._words: set[str] = set()

    def learn(self, text: str) -> None:
        self._tokens.update(token.strip(".-") for token in _TOKEN.findall(text))
        self._words.update(_WORD.findall(text))

    def path(self, path: str) -> bool:
        """Its last part was seen as a whole, or is one that any repository may have."""
        last = path.rstrip("/").rpartition("/")[2]
        return last.lower() in _GUESSABLE or last.strip(".-") in self._tokens

    def word(self, word: str) -> bool:
        """Every dotted part was seen as a word, or the whole as a token."""
        return word in self._tokens or all(part in self._words for part in word.split("."))


def _paths(target: str) -> list[str]:
    head = target.partition("::")[0]
    if head and not re.search(r"\s", head) and "*" not in head:
        return [head] if "/" in head or "." in head else []
    return list(_PATH.findall(_OPTION.sub(" ", head)))


def _used_words(action: Action) -> list[str]:
    words: dict[str, None] = {}
    for name, text in _strings(action):
        if name in _WRITTEN:
            continue
        bare = _OPTION.sub(" ", _HEREDOC.sub(" ", text))
        for match in _CODE_WORD.finditer(bare):
            words[match.group()] = None
    return list(words)


def _plain(action: Action) -> str:
    return "\n".join(text for _, text in _strings(action))


def _strings(action: Action) -> list[tuple[str, str]]:
    if action.is_text:
        return [("", action.arguments)]
    try:
        value = msgspec.json.decode(action.arguments)
    except msgspec.DecodeError:
        return [("", action.arguments)]
    found: list[tuple[str, str]] = []
    _walk("", value, found)
    return found


def _walk(name: str, value: object, found: list[tuple[str, str]]) -> None:
    if isinstance(value, str):
        found.append((name, value))
    elif isinstance(value, list):
        for item in value:
            _walk(name, item, found)
    elif isinstance(value, dict):
        for key, item in value.items():
            _walk(str(key), item, found)
