"""The generated world: small Python packages with seeded bugs, and the tasks to repair them.

A task is one repository. It has five to eight modules of functions, a ``flows`` module whose features chain
functions of several modules, tests of all features, and unit tests of about a third of the functions, so that
one test run narrows a bug down but rarely names it: finding it has to cost something (``docs/science.md §13``).

A bug is one changed token, kept only if tests fail with it in otherwise clean code. Validation and test
repositories are built from function templates that training never saw. Storing repositories in git is in
``store.py``; running their tests for real is in ``testserver.py``.
"""

from __future__ import annotations

import difflib
import random
from collections.abc import Mapping
from functools import lru_cache
from types import CodeType
from typing import Any, Literal

import msgspec

from handoff.kata import mutations
from handoff.kata.mutations import Change
from handoff.kata.templates import HELD_OUT, TRAIN, Template

Split = Literal["train", "validation", "test"]

WORLD_VERSION = 1
"""Part of every inputs hash: raise it when the same seed shall give other repositories."""

UNIT_TEST_SHARE = 0.35
SCALAR_MODULES = 2
MIN_FEATURES = 10
CASES_PER_TEST = 2
"""Assertions in a unit test. A feature has as many tests of one assertion each."""

_PACKAGES = (
    "almanac", "beacon", "canopy", "delta", "ember", "foundry", "garden", "harbor", "islet", "juniper",
    "kiln", "ledger", "meadow", "nectar", "orchard", "prairie", "quarry", "ridge", "summit", "tundra",
)  # fmt: skip
_MODULES = (
    "rates", "units", "series", "filters", "scores", "tallies", "shapes", "trends", "limits", "batches",
    "ranges", "signals", "levels", "parts", "marks", "folds",
)  # fmt: skip
_FEATURES = (
    "billing", "checkout", "dispatch", "forecast", "intake", "loyalty", "packing", "pricing", "ranking",
    "refund", "restock", "routing", "sampling", "shipping", "survey", "tracking",
)  # fmt: skip


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """One repository with bugs, and what is known about it."""

    name: str
    """``test-003-ledger``; the repository is ``kata/<name>``."""
    split: Split
    files: dict[str, str]
    """Path → text at the base commit, bugs included."""
    statement: str
    """The task as an agent is given it."""
    bugs: tuple[Change, ...]
    """Sealed. From clean to buggy."""

    @property
    def repo(self) -> str:
        """Name of the repository."""
        return f"kata/{self.name}"

    @property
    def fixes(self) -> tuple[Change, ...]:
        """Sealed. The inverse of each bug."""
        return tuple(bug.inverse() for bug in self.bugs)

    @property
    def reference(self) -> dict[str, str]:
        """Sealed. Path → text of the files that the reference solution changes."""
        changed: dict[str, str] = {}
        for fix in self.fixes:
            changed[fix.path] = fix.apply(changed.get(fix.path, self.files[fix.path]))
        return dict(sorted(changed.items()))

    @property
    def reference_patch(self) -> str:
        """Sealed. The reference solution as a unified diff."""
        return "".join(unified_diff(path, self.files[path], text) for path, text in self.reference.items())


class World(msgspec.Struct, frozen=True, kw_only=True):
    """All tasks of one seed, in order: train, validation, test."""

    seed: int
    tasks: tuple[Task, ...]

    def of(self, split: Split) -> tuple[Task, ...]:
        """The tasks of one split."""
        return tuple(task for task in self.tasks if task.split == split)

    def task(self, repo: str) -> Task:
        """The task of one repository name. ``KeyError`` when there is none."""
        for task in self.tasks:
            if task.repo == repo:
                return task
        raise KeyError(repo)


def generate(seed: int, n_train: int, n_validation: int, n_test: int) -> World:
    """The world of a seed. A task depends on the seed, its split and its number only, not on the counts."""
    wanted: tuple[tuple[Split, int], ...] = (("train", n_train), ("validation", n_validation), ("test", n_test))
    tasks = [generate_task(seed, split, number) for split, count in wanted for number in range(count)]
    return World(seed=seed, tasks=tuple(tasks))


def generate_task(seed: int, split: Split, number: int) -> Task:
    """One task. The same three arguments give the same task on every machine."""
    rng = random.Random(f"kata/{WORLD_VERSION}/{seed}/{split}/{number}")
    while True:
        task = _attempt(rng, split, number)
        if task is not None:
            return task


class _Function(msgspec.Struct, frozen=True):
    """One generated function."""

    module: str
    name: str
    kind: str
    source: str
    helpers: tuple[str, ...]
    """Qualified names of what it calls."""

    @property
    def qualified(self) -> str:
        return f"{self.module}.{self.name}"


class _Feature(msgspec.Struct, frozen=True):
    name: str
    chain: tuple[str, ...]
    """Qualified names in order of application: lists, one number, scalars."""


class _Test(msgspec.Struct, frozen=True):
    path: str
    name: str
    call: str
    """Function under test, by plain name."""
    cases: tuple[tuple[Any, Any], ...]
    """(argument, expected result)."""
    covers: tuple[str, ...]


def _attempt(rng: random.Random, split: Split, number: int) -> Task | None:
    package = rng.choice(_PACKAGES)
    parts = _functions(rng, TRAIN if split == "train" else HELD_OUT)
    features = _features(rng, parts)
    tests = _tests(rng, parts, features)
    clean = _files(package, parts, features, tests)
    bugs = _bugs(rng, package, parts, features, tests, clean)
    if bugs is None:
        return None
    files = dict(clean)
    for bug in bugs:
        files[bug.path] = bug.apply(files[bug.path])
    broken = _failing(_namespace(parts, features, package, files), tests)
    statement = _statement(rng, package, [test for test in broken if test.path == "tests/test_flows.py"])
    return Task(name=f"{split}-{number:03d}-{package}", split=split, files=files, statement=statement, bugs=bugs)


# -- code ---------------------------------------------------------------------------------------


def _functions(rng: random.Random, templates: tuple[Template, ...]) -> tuple[_Function, ...]:
    modules = rng.sample(_MODULES, rng.randint(5, 8))
    by_kind = {kind: [t for t in templates if t.kind == kind] for kind in ("list", "number", "scalar")}
    chosen: list[_Function] = []
    scalars = rng.sample(by_kind["scalar"], rng.randint(4, 5))
    for index, template in enumerate(scalars):
        chosen.append(_function(rng, template, modules[index % SCALAR_MODULES], ()))
    helpers = tuple(chosen)
    places = [module for module in modules[SCALAR_MODULES:] for _ in range(rng.randint(2, 3))]
    n_lists = max(2, round(0.55 * len(places)))
    body = rng.sample(by_kind["list"], min(n_lists, len(by_kind["list"])))
    body += rng.sample(by_kind["number"], min(len(places) - len(body), len(by_kind["number"])))
    rng.shuffle(body)
    for module, template in zip(places, body, strict=False):
        chosen.append(_function(rng, template, module, helpers))
    return tuple(chosen)


def _function(rng: random.Random, template: Template, module: str, helpers: tuple[_Function, ...]) -> _Function:
    k, m = rng.randint(3, 9), rng.randint(10, 20)
    helper = rng.choice(helpers) if template.needs_helper else None
    argument = "number" if template.kind == "scalar" else "values"
    source = f'def {template.name}({argument}):\n    """{template.doc}"""\n{template.body}\n'
    source = source.replace("$k", str(k)).replace("$m", str(m)).replace("$helper", helper.name if helper else "")
    return _Function(module, template.name, template.kind, source, (helper.qualified,) if helper else ())


def _features(rng: random.Random, parts: tuple[_Function, ...]) -> tuple[_Feature, ...]:
    """Chains of two to four functions, such that every function is in one, directly or as a helper."""
    unused = {kind: [f.qualified for f in parts if f.kind == kind] for kind in ("list", "number", "scalar")}
    everything = {kind: tuple(names) for kind, names in unused.items()}
    for names in unused.values():
        rng.shuffle(names)
    used: list[_Feature] = []
    for name in rng.sample(_FEATURES, len(_FEATURES)):
        if len(used) >= MIN_FEATURES and not any(unused.values()):
            break
        chain: list[str] = []
        for kind, count in (("list", rng.randint(1, 2)), ("number", 1), ("scalar", rng.randint(0, 1))):
            picked: list[str] = []
            while len(picked) < count:
                candidate = unused[kind].pop() if unused[kind] else rng.choice(everything[kind])
                if candidate not in picked:
                    picked.append(candidate)
            chain += picked
        used.append(_Feature(name, tuple(chain)))
    return tuple(sorted(used, key=lambda feature: feature.name))


def _feature_source(feature: _Feature, parts: tuple[_Function, ...]) -> str:
    kinds = {f.qualified: f.kind for f in parts}
    lines = [f"def {feature.name}(values):", f'    """The {feature.name} figure of the values."""']
    variable = "values"
    for qualified in feature.chain:
        target = "values" if kinds[qualified] == "list" else "amount"
        lines.append(f"    {target} = {qualified.split('.')[1]}({variable})")
        variable = target
    return "\n".join([*lines, "    return amount", ""])


def _covers(names: tuple[str, ...], parts: tuple[_Function, ...]) -> tuple[str, ...]:
    helpers = {f.qualified: f.helpers for f in parts}
    found = set(names) | {helper for name in names for helper in helpers[name]}
    return tuple(sorted(found))


def _tests(rng: random.Random, parts: tuple[_Function, ...], features: tuple[_Feature, ...]) -> tuple[_Test, ...]:
    space: dict[str, Any] = {}
    for code in [f.source for f in parts] + [_feature_source(feature, parts) for feature in features]:
        exec(_compiled(code), space)  # our own templates, no outside text
    tests = []
    for function in parts:
        if rng.random() < UNIT_TEST_SHARE:
            arguments = [_argument(rng, function.kind) for _ in range(CASES_PER_TEST)]
            cases = tuple((argument, space[function.name](argument)) for argument in arguments)
            path = f"tests/test_{function.module}.py"
            covers = _covers((function.qualified,), parts)
            tests.append(_Test(path, f"test_{function.name}", function.name, cases, covers))
    for feature in features:
        covers = _covers(feature.chain, parts)
        for number in range(1, CASES_PER_TEST + 1):
            argument = _argument(rng, "list")
            cases = ((argument, space[feature.name](argument)),)
            tests.append(_Test("tests/test_flows.py", f"test_{feature.name}_{number}", feature.name, cases, covers))
    return tuple(sorted(tests, key=lambda test: (test.path, test.name)))


def _argument(rng: random.Random, kind: str) -> Any:
    if kind == "scalar":
        return rng.randint(-12, 30)
    return [rng.randint(-9, 24) for _ in range(rng.randint(6, 9))]


# -- files --------------------------------------------------------------------------------------


def _files(
    package: str, parts: tuple[_Function, ...], features: tuple[_Feature, ...], tests: tuple[_Test, ...]
) -> dict[str, str]:
    modules = sorted({f.module for f in parts})
    files = {
        ".gitignore": "__pycache__/\n",
        "README.md": _readme(package, modules),
        "FEATURES.md": _feature_map(tests),
        "pytest.ini": "[pytest]\naddopts = --tb=no -p no:cacheprovider\n",
        f"{package}/__init__.py": f'"""The {package} package."""\n',
    }
    for module in modules:
        own = [f for f in parts if f.module == module]
        names = sorted({helper for f in own for helper in f.helpers})
        files[f"{package}/{module}.py"] = _module(
            package, f"The {module} of {package}.", names, [f.source for f in own]
        )
    chained = sorted({name for feature in features for name in feature.chain})
    sources = [_feature_source(feature, parts) for feature in features]
    files[f"{package}/flows.py"] = _module(package, f"The features of {package}.", chained, sources)
    where = {f.name: f.module for f in parts} | {feature.name: "flows" for feature in features}
    for path in sorted({test.path for test in tests}):
        files[path] = _test_file(package, [test for test in tests if test.path == path], where)
    return dict(sorted(files.items()))


def _module(package: str, doc: str, imported: list[str], sources: list[str]) -> str:
    head = f'"""{doc}"""\n'
    if imported:
        head += "\n" + "".join(f"from {package}.{n.split('.')[0]} import {n.split('.')[1]}\n" for n in imported)
    return head + "".join(f"\n\n{source}" for source in sources)


def _test_file(package: str, tests: list[_Test], where: Mapping[str, str]) -> str:
    head = "".join(f"from {package}.{where[t.call]} import {t.call}\n" for t in sorted(tests, key=lambda t: t.call))
    bodies = []
    for test in tests:
        lines = [f"    assert {test.call}({argument!r}) == {expected!r}" for argument, expected in test.cases]
        bodies.append("\n".join([f"\n\ndef {test.name}():", *lines, ""]))
    return head + "".join(bodies)


def _readme(package: str, modules: list[str]) -> str:
    lines = [
        f"# {package}",
        "",
        f"A small library of figures. The features are in `{package}/flows.py`,",
        "built from:",
        "",
    ]
    lines += [f"- `{package}/{module}.py`" for module in modules]
    lines += ["", "`FEATURES.md` says which test exercises what. Run `python -m pytest -q`.", ""]
    return "\n".join(lines)


def _feature_map(tests: tuple[_Test, ...]) -> str:
    lines = ["# What each test exercises", ""]
    lines += [f"- `{test.path}::{test.name}`: {', '.join(test.covers)}" for test in tests]
    return "\n".join([*lines, ""])


def _statement(rng: random.Random, package: str, broken: list[_Test]) -> str:
    reported = sorted(rng.sample(broken, min(2, len(broken))), key=lambda test: test.name)
    names = " and ".join(dict.fromkeys(f"`{test.call}`" for test in reported))
    first = reported[0]
    return (
        f"Some features of `{package}` give wrong results. Users report {names}: for example "
        f"`{first.call}({first.cases[0][0]!r})` should be `{first.cases[0][1]!r}`. There may be more wrong places than "
        "these reports show. Find the mistakes in the package and correct them, so that the whole test suite "
        "(`python -m pytest -q`) passes. Do not change the tests. Submit when you are done."
    )


# -- bugs ---------------------------------------------------------------------------------------


def _bugs(
    rng: random.Random,
    package: str,
    parts: tuple[_Function, ...],
    features: tuple[_Feature, ...],
    tests: tuple[_Test, ...],
    clean: Mapping[str, str],
) -> tuple[Change, ...] | None:
    """Two to four changes in different functions, each seen by a test of a feature; ``None`` when no such are found.

    Taking back any one of them, with the others in place, turns at least one failing test: progress can be seen.
    """
    wanted = rng.choice((2, 3, 3, 4))
    world = (package, parts, features, tests, clean)
    order = list(parts)
    rng.shuffle(order)
    order = sorted(order, key=lambda f: _seen(f, order))  # stable: one function of every module first
    found: list[Change] = []
    for function in order:
        path = f"{package}/{function.module}.py"
        options = [c for c in mutations.changes(path, clean[path])
                   if mutations.function_at(clean[path], c.line) == function.name]  # fmt: skip
        rng.shuffle(options)
        for change in options[:4]:
            files = {path: change.apply(clean[path])}
            broken = _failing(_namespace(parts, features, package, {**clean, **files}, function), tests)
            if any(test.path == "tests/test_flows.py" for test in broken):
                found.append(change)
                break
        if len(found) == wanted:
            shows = all(_count(found, None, *world) > _count(found, bug, *world) for bug in found)
            return tuple(sorted(found)) if shows else None
    return None


def _count(
    bugs: list[Change],
    without: Change | None,
    package: str,
    parts: tuple[_Function, ...],
    features: tuple[_Feature, ...],
    tests: tuple[_Test, ...],
    clean: Mapping[str, str],
) -> int:
    """Failing tests with all bugs but one in place."""
    files = dict(clean)
    for bug in bugs:
        if bug != without:
            files[bug.path] = bug.apply(files[bug.path])
    return len(_failing(_namespace(parts, features, package, files), tests))


def _seen(function: _Function, order: list[_Function]) -> int:
    return [f for f in order if f.module == function.module].index(function)


def _namespace(
    parts: tuple[_Function, ...],
    features: tuple[_Feature, ...],
    package: str,
    files: Mapping[str, str],
    changed: _Function | None = None,
) -> dict[str, Any]:
    """All functions of the package in one namespace, taken from ``files`` (only ``changed`` when given)."""
    space: dict[str, Any] = {}
    for function in parts:
        source = function.source
        if changed is None or function is changed:
            text = files[f"{package}/{function.module}.py"].split("\n")
            for name, first, last in mutations.functions("\n".join(text)):
                if name == function.name:
                    source = "\n".join(text[first - 1 : last]) + "\n"
        exec(_compiled(source), space)  # our own templates, no outside text
    for feature in features:
        exec(_compiled(_feature_source(feature, parts)), space)
    return space


@lru_cache(maxsize=4096)
def _compiled(source: str) -> CodeType:
    return compile(source, "<kata>", "exec")


def _failing(space: Mapping[str, Any], tests: tuple[_Test, ...]) -> list[_Test]:
    failing = []
    for test in tests:
        try:
            is_broken = any(space[test.call](argument) != expected for argument, expected in test.cases)
        except (IndexError, ZeroDivisionError):
            is_broken = True
        if is_broken:
            failing.append(test)
    return failing


def unified_diff(path: str, old: str, new: str) -> str:
    """The change of one file in git's form, without index line."""
    body = difflib.unified_diff(old.splitlines(True), new.splitlines(True), f"a/{path}", f"b/{path}")
    text = "".join(body)
    if not text:
        return ""
    if not old:
        text = text.replace(f"--- a/{path}", "--- /dev/null", 1)
    elif not new:
        text = text.replace(f"+++ b/{path}", "+++ /dev/null", 1)
    kind = "" if old and new else "new file mode 100644\n" if new else "deleted file mode 100644\n"
    return f"diff --git a/{path} b/{path}\n{kind}{text}"
