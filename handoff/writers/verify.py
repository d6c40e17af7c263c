"""A writer's claims, held against the evidence record (``docs/science.md §3``).

``find_faults`` says what is wrong with one claim. What it can tell by rule:

- it cites no step, or steps that there are not, or is too long, or cut off;
- it names a file or test that is nowhere in the record;
- it says that a file was changed which is as it was at the base commit;
- it says that something is done while the last validation failed or is older than the last change;
- it says that tests pass which failed, were not run, or ran before the last change; or that they fail which passed.

English is read with a small grammar of verbs, negations and conditions, no more: a lie in other words passes, and a
true sentence in odd words is sometimes refused. Both are why the writer is told and may write again.
``find_contradictions`` are the faults of the last three kinds alone, for text whose writer saw more than the record.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from handoff.evidence import Evidence
from handoff.writers.claims import LONGEST_CLAIM, MOST_WORDS, Claim, Form

_SUFFIXES = (
    "py pyi pyx js jsx ts tsx mjs cjs go rs java c h cc cpp hpp cxx rb php cs kt swift scala sh bash toml cfg ini yaml "
    "yml json md rst txt html css scss sql lock xml csv ipynb proto gradle cmake"
)
_NAME = re.compile(r"[\w.+@~/-]+")
_FILE = re.compile(rf"(?:[\w.+@~-]*/)*[\w.+@~-]*[\w+@~-]\.(?:{'|'.join(_SUFFIXES.split())})", re.I)
_PRODUCT = re.compile(r"[A-Z][A-Za-z0-9]*\.js")
"""Vue.js and its like are no files."""
_TEST = re.compile(r"(?:[\w./-]+::)?(?:[A-Za-z_]\w*::)*(?:test_\w+|Test[A-Z]\w*)")
_WORD = re.compile(r"\w+")
_TOKEN = re.compile(r"[^\s,;:!?()\[\]{}\"“”`*<>]+(?:::[^\s,;:!?()\[\]{}\"“”`*<>]+)*|[,;:!?]")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_CHANGED = _words(
    "changed modified edited fixed updated rewrote rewritten added created deleted removed renamed implemented "
    "patched refactored replaced corrected wrote written introduced extended adjusted completed finished"
)
_DONE = _words("fixed resolved solved")
_STATE_OF_DONE = _words("done complete working")
_BEING = _words("is are was were be been being has have had got gets now already also both all then fully")
_NOT = _words(
    "not no never none nothing without cannot neither nor should must will would shall could may might can need needs "
    "once when before make making expected expect hope yet unable failed fails try tried trying attempt attempted"
)
_ON_CONDITION = _words(
    "if whether until unless ensure ensures ensuring verify verifies verifying check checks checking confirm confirming"
)
"""Denies all that comes behind it in its clause; a word of ``_NOT`` only what comes soon."""
_STOP = _words("after before from like as because using with per since against for than by via")
_BREAKS = frozenset(("but", "while", "whereas", "although", "though", "however", ";", "!", "?", "."))
_REVERTS = _words("revert reverted reverts undone undid restored restore took back rolled")
_PASS = _words("pass passes passed passing succeed succeeds succeeded green")
_FAIL = _words("fail fails failing red broken")
_TESTISH = _words(
    "test tests suite suites validation validations build builds lint lints check checks pytest mypy unittest "
    "everything all ci tox nox cases"
)
_OBJECTS = _words("the a an its this that these those it them all both each every along through over as on")
_PAST = _words("stale older outdated before earlier initially previously prior then first once until formerly")
_BEFORE_NOUNS = _words("the a an this that each its all lint type syntax")
"""After these a word such as ``check`` is a thing: "the check was updated"."""
_PUT_OFF = _words("be get have make see")
_AT_WORK = _words("on in through with at towards tree copy directory folder")
_LONGEST_NAME = 400
_LONGEST_CLAUSE = 200
"""Words. A longer one is no sentence of anybody, and read in parts."""
_BACK = 6
"""Words before a verb in which a negation or condition counts."""
_AHEAD = 12
"""Words behind a verb in which its objects are looked for."""


class Known:
    """The names in an evidence record."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        self.changed = frozenset(change.path for change in evidence.changed)
        self.reverted = frozenset(revert.path for revert in evidence.reverted)
        self.paths = tuple(sorted(self.changed | self.reverted | {read.path for read in evidence.reads}))
        texts = [evidence.task, *self.paths]
        for said in (*evidence.failed_attempts, *evidence.intentions, *evidence.open_failures, *evidence.commands):
            texts.append(said.text)
        last = evidence.last_validation
        if last is not None:
            texts += [last.command, *last.failing]
        self._files = {name for text in texts for name in _files(text)} | set(self.paths)
        self._ends = {end for name in self._files for end in _ends(name)}
        self._words = {word for text in texts for word in _WORD.findall(text)}

    def has_file(self, name: str) -> bool:
        """Whether a name of a file, whole or its end, is in the record."""
        return name in self._ends or any(name.endswith("/" + known) for known in self._files)

    def has_test(self, name: str) -> bool:
        """Whether every part of a test's name is in the record."""
        return all(word in self._words for word in _WORD.findall(name))

    def paths_of(self, name: str) -> tuple[str, ...]:
        """The changed, reverted or read files that a name may mean."""
        name = name.removeprefix("./")
        return tuple(p for p in self.paths if p == name or p.endswith("/" + name) or name.endswith("/" + p))


def find_faults(form: Form, claim: Claim, known: Known) -> tuple[str, ...]:
    """What is wrong with a claim, as sentences for its writer; none when nothing is."""
    h = known.evidence.h
    found = []
    if not claim.steps:
        found.append("it cites no step")
    elif wrong := [step for step in claim.steps if not 1 <= step <= h]:
        found.append(f"it cites step {wrong[0]}, and the steps are 1 to {h}")
    if claim.is_cut:
        found.append("it is longer than may be, and cut off within its sentence")
    if len(claim.text.split()) > MOST_WORDS[form]:
        found.append(f"it has more than {MOST_WORDS[form]} words")
    elif len(claim.text) > LONGEST_CLAIM:
        found.append(f"it has more than {LONGEST_CLAIM} characters")
    found += [f"{name[:120]} is not in the record" for name in dict.fromkeys(_unknown(claim.text, known))]
    found += find_contradictions(claim.text, known, section=claim.section)
    return tuple(found)


def find_contradictions(text: str, known: Known, *, section: str = "") -> tuple[str, ...]:
    """What of a text the record contradicts. ``section``: the list in which a claim stands, whose writer saw the record
    alone; then it is also a fault that tests are said to pass whose outcome the record does not know."""
    found: dict[str, None] = {}
    for words in _clauses(text):
        found.update(dict.fromkeys(_changes(words, known)))
        found.update(dict.fromkeys(_completions(words, known, is_done=section == "done")))
        found.update(dict.fromkeys(_outcomes(words, known, is_claim=bool(section))))
    return tuple(found)


# -- names --------------------------------------------------------------------------------------


def _files(text: str) -> Iterator[str]:
    for match in _NAME.finditer(text):
        name = match[0].rstrip("./").removeprefix("./")
        if len(name) <= _LONGEST_NAME and _FILE.fullmatch(name) and not _PRODUCT.fullmatch(name):
            yield name


def _ends(name: str) -> Iterator[str]:
    """A path and what is left of it without its first folders."""
    parts = name.split("/")
    for start in range(len(parts)):
        yield "/".join(parts[start:])


def _unknown(text: str, known: Known) -> Iterator[str]:
    for name in _files(text):
        if not known.has_file(name):
            yield name
    for match in _TEST.finditer(text):
        if not known.has_test(match[0]):
            yield match[0]


# -- clauses ------------------------------------------------------------------------------------


class _Words(NamedTuple):
    """One clause."""

    plain: tuple[str, ...]
    """In small letters, without a full stop at the end."""
    raw: tuple[str, ...]
    """As they stand."""


def _clauses(text: str) -> Iterator[_Words]:
    raw: list[str] = []
    for token in _TOKEN.findall(text.replace("’", "'")):
        bare = token.rstrip(".")
        if token.lower() in _BREAKS or bare == "":
            yield from _clause(raw)
            raw = []
            continue
        raw.append(bare)
        if bare != token:
            yield from _clause(raw)
            raw = []
    yield from _clause(raw)


def _clause(raw: Sequence[str]) -> Iterator[_Words]:
    for start in range(0, len(raw), _LONGEST_CLAUSE):
        part = raw[start : start + _LONGEST_CLAUSE]
        yield _Words(tuple(word.lower() for word in part), tuple(part))


def _is_meant(words: Sequence[str], place: int) -> bool:
    """Whether a verb is neither denied nor wished for nor a condition."""
    for at in range(place):
        word = words[at]
        is_near = at >= place - _BACK
        is_noun = at > 0 and words[at - 1] in _BEFORE_NOUNS
        if (word in _ON_CONDITION or (is_near and word in _NOT)) and not is_noun:
            return False
        if not is_near:
            continue
        if word.endswith("n't"):
            return False
        if word == "to" and (at + 1 == place or words[at + 1] in _PUT_OFF):
            return False
    return True


# -- changes ------------------------------------------------------------------------------------


def _changes(words: _Words, known: Known) -> Iterator[str]:
    if any(word in _REVERTS for word in words.plain):
        return
    for place, word in enumerate(words.plain):
        if word not in _CHANGED or not _is_meant(words.plain, place):
            continue
        is_habit = word != "fixed" and place > 0 and words.plain[place - 1] in ("is", "are", "gets", "get")
        objects = [] if is_habit else _objects(words, place, known)  # "pages are added in cache.py" tells of code
        for name in (*objects, *_subjects(words, place, known)):
            paths = known.paths_of(name)
            if any(path in known.changed for path in paths):
                continue
            if any(path in known.reverted for path in paths):
                yield f"the change of {name[:120]} was taken back"
            elif paths or known.has_file(name):
                yield f"{name[:120]} was not changed"


def _objects(words: _Words, place: int, known: Known) -> list[str]:
    """Files that are the object of the verb at ``place``: those behind it, up to a preposition or another verb."""
    found: list[str] = []
    for raw, word in zip(
        words.raw[place + 1 : place + 1 + _AHEAD], words.plain[place + 1 : place + 1 + _AHEAD], strict=True
    ):
        if word in _STOP or word in _CHANGED:
            break
        if _is_file(raw, known):
            found.append(raw)
        elif found and word not in (",", "and", "or", "both", "the", "file", "files"):
            break
    return found


def _subjects(words: _Words, place: int, known: Known) -> list[str]:
    """Files before ``was changed`` and its like."""
    at = place - 1
    if at < 0 or words.plain[at] not in _BEING:
        return []
    while at >= 0 and words.plain[at] in _BEING:
        at -= 1
    found: list[str] = []
    while at >= 0 and (_is_file(words.raw[at], known) or (found and words.plain[at] in (",", "and", "both"))):
        if _is_file(words.raw[at], known):
            found.append(words.raw[at])
        at -= 1
    return found


def _is_file(word: str, known: Known) -> bool:
    return any(name == word.removeprefix("./") for name in _files(word)) or word in known.paths


# -- done, passing, failing ---------------------------------------------------------------------


def _completions(words: _Words, known: Known, *, is_done: bool) -> Iterator[str]:
    last = known.evidence.last_validation
    if last is None or not (last.outcome == "failed" or last.is_stale):
        return
    if any(word in _REVERTS for word in words.plain):
        return
    why = "failed" if last.outcome == "failed" else "is older than the last change"
    for place, word in enumerate(words.plain):
        before = words.plain[place - 1] if place else ""
        behind = words.plain[place + 1] if place + 1 < len(words.plain) else ""
        is_verb = (word in _DONE and before not in ("a", "an")) or (is_done and word in _CHANGED)
        is_state = word in _STATE_OF_DONE and before in _BEING and behind not in _AT_WORK
        if (is_verb or is_state) and _is_meant(words.plain, place):
            yield f"it says that something is done ({word}), and the last validation (step {last.step}) {why}"
            return


def _outcomes(words: _Words, known: Known, *, is_claim: bool) -> Iterator[str]:
    if not any(word in _PASS or word in _FAIL for word in words.plain):
        return
    tests = [name for name in words.raw if _TEST.fullmatch(name) or (_is_file(name, known) and "test" in name)]
    if not tests and not any(other in _TESTISH for other in words.plain):
        return
    for place, word in enumerate(words.plain):
        behind = words.plain[place + 1] if place + 1 < len(words.plain) else ""
        if word not in _PASS and word not in _FAIL:
            continue
        is_over = word in _FAIL and "longer" in words.plain[max(0, place - 2) : place]
        if behind in _OBJECTS or not (is_over or _is_meant(words.plain, place)):
            continue
        number = words.plain[place - 1] if place else ""
        if number.isdecimal():
            continue  # a count, such as "3 passed": the rule block says it
        is_pass = is_over or word in _PASS
        fault = _passing(words, word, tests, known, is_claim=is_claim) if is_pass else _failing(known)
        if fault:
            yield fault
            return


def _passing(words: _Words, verb: str, tests: Sequence[str], known: Known, *, is_claim: bool) -> str:
    evidence = known.evidence
    last = evidence.last_validation
    is_past = any(word in _PAST for word in words.plain)
    if last is None or (last.outcome is None and is_claim):
        return "it says that tests pass, and no validation with a known outcome was seen"
    if tests:
        failing = [*last.failing, *(said.text for said in evidence.open_failures)]
        for name in tests:
            if any(_is_part(name, failed) for failed in failing) and not (is_past and verb == "passed"):
                return f"it says that {name[:120]} passes, and it failed when last seen"
    if last.outcome == "failed" and not tests and not (is_past and verb == "passed"):
        return f"it says that tests pass, and the last validation (step {last.step}) failed"
    if last.is_stale and not is_past:
        return (
            f"it says that tests pass, and files were changed after the last validation (step {last.step}): say that "
            "it is stale"
        )
    return ""


def _failing(known: Known) -> str:
    evidence = known.evidence
    last = evidence.last_validation
    if last is None or last.outcome != "passed" or last.is_stale or evidence.open_failures:
        return ""
    return f"it says that tests fail, and the last validation (step {last.step}) passed"


def _is_part(name: str, of: str) -> bool:
    """Whether a test's name, or a file of tests, is part of what failed."""
    return re.search(rf"(?<![\w]){re.escape(name)}(?![\w])", of) is not None
