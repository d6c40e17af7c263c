"""Programs that judge or build: test runners, linters, formatters, builds.

A target is what a run covers, as given: files, test names and the options that choose among tests; ``.`` for all.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

from handoff.actions.operations import ListFiles, Opaque, Operation, Read, Run, Validate
from handoff.actions.paths import is_outside
from handoff.actions.programs.call import Call, listed

# -- tests --------------------------------------------------------------------------------------


class Runner(NamedTuple):
    """A program whose whole purpose is to run tests."""

    name: str
    """As ``outcomes`` knows it."""
    valued: frozenset[str] = frozenset()
    """Options that take a value, those of ``choosing`` among them."""
    choosing: tuple[str, ...] = ()
    """Options whose value chooses among the tests."""
    verbs: tuple[str, ...] = ()
    """First words that only say "run the tests"."""


def _runner(name: str, valued: str = "", choosing: tuple[str, ...] = (), verbs: tuple[str, ...] = ()) -> Runner:
    return Runner(name, listed(valued).union(choosing), choosing, verbs)


_PYTEST = _runner(
    "pytest",
    """
    -m -n -p -c -o -W --tb --maxfail --rootdir --deselect --ignore --timeout --cov --cov-report --durations
    --color --capture --basetemp --dist --override-ini --import-mode --confcutdir --junitxml --log-level
    --log-cli-level --cov-config --numprocesses --reruns -r --ds --verbosity
    """,
    ("-k",),
)
_DJANGO = _runner("django", "--settings -j --parallel --tag -v --verbosity", ("-k",))
_JEST = _runner("jest", "-c --config -w --maxWorkers --reporter --reporters --project", ("-t",), ("run",))
RUNNERS: dict[str, Runner] = {
    "pytest": _PYTEST,
    "py.test": _PYTEST,
    "unittest": _runner("unittest", "-s -p -t", ("-k",), ("discover",)),
    "trial": _runner("unittest"),
    "runtests.py": _DJANGO,
    "runtests": _DJANGO,
    "tox": _runner("tox", "-c -x --workdir --result-json", ("-e",), ("run", "r")),
    "nox": _runner("nox", "-f -p", ("-s", "-e", "-t", "-k")),
    "nose": _runner("nose"),
    "nosetests": _runner("nose"),
    "nose2": _runner("nose"),
    "behave": _runner("behave"),
    "jest": _JEST,
    "vitest": _JEST._replace(name="vitest"),
    "mocha": _runner("mocha", "-r --require -R --reporter --timeout -t", ("-g", "--grep")),
    "ava": _runner("ava"),
    "playwright": _runner("playwright", "--project --reporter", ("-g", "--grep"), ("test",)),
    "ctest": _runner("ctest", "--test-dir -j -C -T --timeout", ("-R", "-E", "-L")),
    "rspec": _runner("rspec", "-f --format -r", ("-e", "-t")),
    "phpunit": _runner("phpunit", "-c --configuration --bootstrap", ("--filter", "--testsuite")),
    "gotestsum": _runner("go", "--format", ("-run",)),
    "bats": _runner("bats"),
    "prove": _runner("prove"),
}
"""Programs that only run tests, by name."""
_HELP = frozenset(("--version", "--help", "-h", "--fixtures", "--markers", "--showConfig", "--listTests"))


def tests(call: Call) -> list[Operation]:
    """A test runner."""
    runner = RUNNERS[call.name]
    if not _HELP.isdisjoint(call.arguments):
        return [Run(target=call.name)]
    target = target_of(call, runner)
    if "--collect-only" in call.arguments or "--co" in call.arguments:
        return [ListFiles(path=target)]
    if runner.name == "playwright" and call.plain()[:1] != ["test"]:
        return [Run(target="playwright")]
    return [validated(call, "test", target, runner.name)]


def validated(call: Call, kind: Literal["test", "build", "lint"], target: str, runner: str) -> Validate:
    """The validation that the call is."""
    return Validate(kind=kind, target=target, command=call.shown, runner=runner)


def target_of(call: Call, runner: Runner) -> str:
    """What a test run covers."""
    found = [test_name(call, text) for text in call.plain(runner.valued) if text not in runner.verbs]
    return " ".join([*(found or ["."]), *chosen(call.arguments, runner.choosing)])


def test_name(call: Call, text: str) -> str:
    """A file or a test as the call names it, a path made relative to the repository."""
    path, colons, test = text.partition("::")
    if text in ("./...", "..."):
        return "."
    is_path = "/" in path or path.endswith(".py") or (path == "." and not colons)
    return call.path(path) + colons + test if is_path else text


def chosen(arguments: Sequence[str], options: tuple[str, ...]) -> list[str]:
    """``options`` that are given, each with its value."""
    found: list[str] = []
    for place, text in enumerate(arguments):
        option, equals, value = text.partition("=")
        if text in options and place + 1 < len(arguments):
            found.append(f"{text} {arguments[place + 1]}")
        elif equals and option in options:
            found.append(f"{option} {value}")
    return found


def django(call: Call) -> list[Operation]:
    """``manage.py test``: the words after the script."""
    return [validated(call, "test", target_of(call, _DJANGO), "django")]


# -- linters and formatters ---------------------------------------------------------------------

LINTERS = listed(
    """
    mypy flake8 pylint pyflakes eslint tsc tsgo pyright basedpyright shellcheck pycodestyle pydocstyle bandit ruff
    biome golangci-lint staticcheck rubocop phpstan clang-tidy hadolint actionlint pre-commit tslint stylelint
    markdownlint credo dialyzer vulture sqlfluff
    """
)
FORMATTERS = listed(
    """
    black isort autopep8 yapf prettier gofmt goimports gofumpt rustfmt autoflake pyupgrade docformatter
    clang-format shfmt
    """
)
_PRINTS = listed("prettier gofmt goimports gofumpt autopep8 yapf clang-format shfmt autoflake docformatter")
"""Formatters that print their result unless told to write."""
_LINT_VALUED = listed(
    """
    -c --config --rcfile -p --project --select --ignore --extend-ignore --max-line-length --line-length -l -j -f
    --format --ext --disable --enable --python-version --config-file --output-format --hook-stage
    --target-version --profile
    """
)
_FIXES = ("--fix", "--write", "-w", "-i", "--in-place", "--inplace", "--autocorrect", "-A", "--apply", "--fix-only")


_WITH_VERBS = frozenset(("ruff", "biome", "golangci-lint", "pre-commit", "sqlfluff"))


def lint(call: Call) -> list[Operation]:
    """A linter; with a fixing option it edits."""
    name, names = call.name, call.plain(_LINT_VALUED)
    if any(text in ("--version", "--help", "-h") for text in call.arguments):
        return [Run(target=name)]
    verb = names[0] if names and name in _WITH_VERBS else ""
    if verb in ("format", "fmt"):
        return _formatted(call, names[1:])
    if verb == "fix":
        return _edited(call, names[1:])
    if verb in ("check", "run", "lint"):
        names = names[1:]
    if name != "pre-commit" and any(text in _FIXES for text in call.arguments):
        return _edited(call, names)
    made: list[Operation] = [validated(call, "lint", " ".join([name, *map(call.path, names)]), name)]
    return [*made, Opaque(reason=name, is_possible=True)] if name == "pre-commit" else made


def formatter(call: Call) -> list[Operation]:
    """A formatter: it edits, unless it only checks or prints."""
    return _formatted(call, call.plain(_LINT_VALUED))


def _formatted(call: Call, names: list[str]) -> list[Operation]:
    name, texts = call.name, call.arguments
    if any(text in ("--check", "--diff", "--check-only", "-d", "--list-different") for text in texts):
        return [validated(call, "lint", " ".join([name, *map(call.path, names)]), name)]
    if name in ("gofmt", "goimports", "prettier", "shfmt") and "-l" in texts and "-w" not in texts:
        return [validated(call, "lint", " ".join([name, *map(call.path, call.plain())]), name)]
    if name in _PRINTS and not any(text in _FIXES for text in texts):
        return [Read(path=call.path(text)) for text in names]
    return _edited(call, names)


def _edited(call: Call, names: list[str]) -> list[Operation]:
    if not names:
        return [Opaque(reason=call.name, paths=(".",))]
    paths = [path for path in map(call.path, names) if not is_outside(path)]
    return [Opaque(reason=call.name, paths=(path,)) for path in paths] or [Run(target=call.name)]


# -- builds -------------------------------------------------------------------------------------

BUILDERS = listed(
    """
    make gmake cmake ninja gcc g++ cc c++ clang clang++ rustc javac bazel msbuild meson xcodebuild scons ant
    just task rake sbt lein stack cabal swift zig invoke
    """
)
_BUILD_VALUED = frozenset(("-C", "-f", "-o", "-B", "-S", "-G", "-j", "-I", "-L", "-D", "--target", "--build"))
A_TEST = re.compile(r"(?:unit|integration|e2e|all|run)?[-_:]?(?:tests?|check|spec)(?:[-_:.\d].*)?", re.S)
A_LINT = re.compile(r"(?:lint|typecheck|type-check|check-types|tslint|eslint|flake8|mypy)(?:[-_:].*)?", re.S)
A_REWRITE = re.compile(
    r"(?:.*[-_:.])?(?:fix|fixes|fmt|format|formatted|prettier|write|rewrite|codegen|gen|generate|autofix)(?:[-_:.].*)?",
    re.S,
)
"""Names of scripts and targets that change files."""
_A_CHECK = re.compile(r"(?:.*[-_:.])?(?:check|verify|test|tests|dry-run|ci|diff)(?:[-_:.].*)?", re.S)


def rewrites(name: str, arguments: Sequence[str]) -> bool:
    """Whether a script or target of this name changes files, as its name has it; a check of the same name does not."""
    if "--check" in arguments or "--dry-run" in arguments:
        return False
    if any(text in ("--fix", "--write", "--fix-only") for text in arguments):
        return True
    return A_REWRITE.fullmatch(name) is not None and _A_CHECK.fullmatch(name) is None


_COMPILERS = listed("gcc g++ cc c++ clang clang++ rustc javac")


def build(call: Call) -> list[Operation]:
    """``make`` and its kin: the target's name tells tests and linters from builds. Compilers may leave files."""
    name = call.name
    if any(text in ("--version", "--help", "-n", "--dry-run") for text in call.arguments):
        return [Run(target=name)]
    names = [text for text in call.plain(_BUILD_VALUED) if "=" not in text]
    target = " ".join([name, *(map(call.path, names) if name in _COMPILERS else names)])
    if name not in _COMPILERS and any(rewrites(text, ()) for text in names):
        return [Opaque(reason=target)]
    if name not in _COMPILERS and any(A_TEST.fullmatch(text) for text in names):
        return [validated(call, "test", target, name)]
    if name not in _COMPILERS and any(A_LINT.fullmatch(text) for text in names):
        return [validated(call, "lint", target, name)]
    return [validated(call, "build", target, name)]


def compiled(call: Call) -> list[Operation]:
    """``py_compile``: a build of the files named."""
    return [validated(call, "build", " ".join(map(call.path, call.plain())) or call.name, call.name)]
