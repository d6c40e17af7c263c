"""Programs that judge or build: test runners, linters, formatters, builds; and what installs packages.

A target is what a run covers, as given: files, test names and the options that choose among tests; ``.`` for all.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

from handoff.actions.operations import Install, ListFiles, Opaque, Operation, Read, Run, Validate
from handoff.actions.paths import is_outside
from handoff.actions.programs.call import Call, listed, plain

# -- tests --------------------------------------------------------------------------------------


class Runner(NamedTuple):
    """A program whose whole purpose is to run tests."""

    name: str
    """As ``outcomes`` knows it."""
    valued: frozenset[str] = frozenset()
    """Options that take a value."""
    choosing: tuple[str, ...] = ()
    """Options whose value chooses among the tests."""
    verbs: tuple[str, ...] = ()
    """First words that only say "run the tests"."""


_PYTEST = Runner(
    "pytest",
    listed(
        """
    -m -n -p -c -o -W --tb --maxfail --rootdir --deselect --ignore --timeout --cov --cov-report --durations
    --color --capture --basetemp --dist --override-ini --import-mode --confcutdir --junitxml --log-level
    --log-cli-level --cov-config --numprocesses --reruns -r --ds --verbosity
    """
    ),
    ("-k",),
)
_UNITTEST = Runner("unittest", frozenset(("-s", "-p", "-t", "-v2")), ("-k",), ("discover",))
_DJANGO = Runner("django", listed("--settings -j --parallel --tag -v --verbosity"), ("-k",))
_JEST = Runner("jest", listed("-c --config -w --maxWorkers --reporter --reporters --project"), ("-t",), ("run",))
_RUNNERS: dict[str, Runner] = {
    "pytest": _PYTEST,
    "py.test": _PYTEST,
    "unittest": _UNITTEST,
    "runtests.py": _DJANGO,
    "runtests": _DJANGO,
    "tox": Runner("tox", frozenset(("-c", "-x", "--workdir", "--result-json")), ("-e",), ("run", "r")),
    "nox": Runner("nox", frozenset(("-f", "-p")), ("-s", "-e", "-t", "-k")),
    "nose": Runner("nose"),
    "nosetests": Runner("nose"),
    "nose2": Runner("nose"),
    "trial": Runner("unittest"),
    "behave": Runner("behave"),
    "jest": _JEST,
    "vitest": _JEST._replace(name="vitest"),
    "mocha": Runner("mocha", frozenset(("-r", "--require", "-R", "--reporter", "--timeout", "-t")), ("-g", "--grep")),
    "ava": Runner("ava"),
    "playwright": Runner("playwright", frozenset(("--project", "--reporter")), ("-g", "--grep"), ("test",)),
    "ctest": Runner("ctest", frozenset(("--test-dir", "-j", "-C", "-T", "--timeout")), ("-R", "-E", "-L")),
    "rspec": Runner("rspec", frozenset(("-f", "--format", "-r")), ("-e", "-t")),
    "phpunit": Runner("phpunit", frozenset(("-c", "--configuration", "--bootstrap")), ("--filter", "--testsuite")),
    "gotestsum": Runner("go", frozenset(("--format",)), ("-run",)),
    "bats": Runner("bats"),
    "prove": Runner("prove"),
}
RUNNERS = {name: runner._replace(valued=runner.valued.union(runner.choosing)) for name, runner in _RUNNERS.items()}
_DJANGO_TESTS = RUNNERS["runtests.py"]
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
    return [_validate(call, "test", target, runner.name)]


def _validate(call: Call, kind: Literal["test", "build", "lint"], target: str, runner: str) -> Validate:
    return Validate(kind=kind, target=target, command=call.shown, runner=runner)


def target_of(call: Call, runner: Runner, first: Sequence[str] = ()) -> str:
    """What a test run covers; ``first`` comes before what the arguments name."""
    names = [text for text in call.plain(runner.valued) if text not in runner.verbs]
    found = [*first, *(_test_name(call, name) for name in names)]
    return " ".join([*(found or ["."]), *_chosen(call.arguments, runner.choosing)])


def _test_name(call: Call, text: str) -> str:
    path, colons, test = text.partition("::")
    if text in ("./...", "..."):
        return "."
    is_path = "/" in path or path.endswith(".py") or (path == "." and not colons)
    return call.path(path) + colons + test if is_path else text


def _chosen(arguments: Sequence[str], options: tuple[str, ...]) -> list[str]:
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
    return [_validate(call, "test", target_of(call, _DJANGO_TESTS), "django")]


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
    made: list[Operation] = [_validate(call, "lint", " ".join([name, *map(call.path, names)]), name)]
    return [*made, Opaque(reason=name, is_possible=True)] if name == "pre-commit" else made


def formatter(call: Call) -> list[Operation]:
    """A formatter: it edits, unless it only checks or prints."""
    return _formatted(call, call.plain(_LINT_VALUED))


def _formatted(call: Call, names: list[str]) -> list[Operation]:
    name, texts = call.name, call.arguments
    if any(text in ("--check", "--diff", "--check-only", "-d", "--list-different") for text in texts):
        return [_validate(call, "lint", " ".join([name, *map(call.path, names)]), name)]
    if name in ("gofmt", "goimports", "prettier", "shfmt") and "-l" in texts and "-w" not in texts:
        return [_validate(call, "lint", " ".join([name, *map(call.path, call.plain())]), name)]
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
_A_TEST = re.compile(r"(?:unit|integration|e2e|all|run)?[-_:]?(?:tests?|check|spec)(?:[-_:.\d].*)?", re.S)
_A_LINT = re.compile(r"(?:lint|typecheck|type-check|check-types|tslint|eslint|flake8|mypy)(?:[-_:].*)?", re.S)
_COMPILERS = listed("gcc g++ cc c++ clang clang++ rustc javac")


def build(call: Call) -> list[Operation]:
    """``make`` and its kin: the target's name tells tests and linters from builds. Compilers may leave files."""
    name = call.name
    if any(text in ("--version", "--help", "-n", "--dry-run") for text in call.arguments):
        return [Run(target=name)]
    names = [text for text in call.plain(_BUILD_VALUED) if "=" not in text]
    target = " ".join([name, *(map(call.path, names) if name in _COMPILERS else names)])
    if name not in _COMPILERS and any(_A_TEST.fullmatch(text) for text in names):
        return [_validate(call, "test", target, name)]
    if name not in _COMPILERS and any(_A_LINT.fullmatch(text) for text in names):
        return [_validate(call, "lint", target, name)]
    return [_validate(call, "build", target, name)]


def compiled(call: Call) -> list[Operation]:
    """``py_compile``: a build of the files named."""
    return [_validate(call, "build", " ".join(map(call.path, call.plain())) or call.name, call.name)]


# -- package managers ---------------------------------------------------------------------------

MANAGERS = listed(
    """
    npm pnpm yarn bun npx pnpx bunx go cargo mvn mvnw gradle gradlew dotnet mix mise composer uv uvx poetry pdm
    rye pipenv hatch deno bundle rails flutter dart
    """
)
_MANAGER_VALUED = listed(
    """
    --prefix -C --manifest-path -p --package --cwd --dir -pl -f --file -w --workspace --filter --features --bin
    --test --project -count -timeout -tags -coverprofile -bench --target --profile --color -j
    """
)
_CHOOSE = ("-run", "-Dtest", "-Dit.test", "--tests", "--filter", "-t", "--only", "-E", "--testNamePattern")
_SCRIPTED = frozenset(("npm", "pnpm", "yarn", "bun", "mise", "composer", "deno", "hatch", "pdm", "poetry"))
"""Managers that run the scripts of a manifest by name."""
_INSTALLS = listed(
    "install i ci add get sync update upgrade remove uninstall require fetch restore lock deps.get local.hex"
)
_BUILDS = listed("build compile package assemble bundle")
_LINTS = listed("lint clippy typecheck vet credo dialyzer analyze")
_FORMATS = listed("fmt format")


def manager(call: Call) -> list[Operation] | Call:
    """npm, cargo, go, mvn and their like: the subcommand decides."""
    name, texts = call.name, call.arguments
    own = texts[: texts.index("--")] if "--" in texts else texts
    given = texts[len(own) + 1 :]
    names = plain(own, _MANAGER_VALUED.union(_CHOOSE))
    if not names:
        return [Run(target=name)] if name != "yarn" or texts else _installed(call, "install", [])
    if name in ("npx", "pnpx", "bunx", "uvx"):
        start = next(n for n, word in enumerate(call.words) if n and word.text == names[0])
        return call.inner(call.words[start:])
    is_script = False
    if name in _SCRIPTED and names[0] in ("run", "run-script", "task", "x") and len(names) > 1:
        names, is_script = names[1:], True
    if name in ("mvn", "mvnw", "gradle", "gradlew"):
        return _goals(call, names)
    verb, rest = names[0], names[1:]
    if verb == "nextest":
        verb, rest = "test", [text for text in rest if text not in ("run", "r")]
    if (verb == "check" and name in ("cargo", "deno")) or verb in _BUILDS or verb == "tsc":
        return [_validate(call, "build", f"{name} {verb}", name)]
    if verb in ("t", "tst") or _A_TEST.fullmatch(verb):
        wanted = [verb] if is_script and verb != "test" else []
        wanted += [_test_name(call, text) for text in [*rest, *plain(given, _MANAGER_VALUED.union(_CHOOSE))]]
        target = " ".join([*(wanted or ["."]), *_chosen(texts, _CHOOSE)])
        return [_validate(call, "test", target, name)]
    if _A_LINT.fullmatch(verb) or verb in _LINTS:
        return [_validate(call, "lint", f"{name} {verb}", name)]
    if not is_script and verb in _INSTALLS:
        return _installed(call, verb, rest)
    if verb in _FORMATS or verb.startswith(("fmt:", "format:")):
        if "--check" in texts or "--check-formatted" in texts:
            return [_validate(call, "lint", f"{name} {verb}", name)]
        return [Opaque(reason=f"{name} {verb}", paths=(".",))]
    if not is_script and verb in RUNNERS | dict.fromkeys(LINTERS | FORMATTERS) and name in ("yarn", "pnpm", "bun"):
        start = next(n for n, word in enumerate(call.words) if n and word.text == verb)
        return call.inner(call.words[start:])
    if verb == "run" and name in ("go", "deno", "bun") and rest and rest[0].endswith((".go", ".ts", ".js", ".tsx")):
        return [Run(target=call.path(rest[0]))]
    if verb in ("generate", "mod", "work") or verb.startswith("gen"):
        return [Run(target=f"{name} {verb}"), Opaque(reason=f"{name} {verb}", is_possible=True)]
    return [Run(target=f"{name} {verb}")]


def _goals(call: Call, names: list[str]) -> list[Operation]:
    """Maven's phases and Gradle's tasks: the last that means something counts."""
    name = "mvn" if call.name.startswith("mvn") else "gradle"
    chosen = _chosen(call.arguments, _CHOOSE)
    for goal in reversed(names):
        task = goal.rsplit(":", 1)[-1]
        if task in ("test", "verify", "check", "integration-test", "failsafe") or task.endswith(("Test", "Tests")):
            where = [goal] if ":" in goal.strip(":") else []
            return [_validate(call, "test", " ".join([*(where or ["."]), *chosen]), name)]
        if task in ("install", "package", "compile", "test-compile", "build", "assemble", "testClasses", "classes"):
            return [_validate(call, "build", f"{name} {task}", name)]
    return [Run(target=f"{name} {names[-1]}")]


def _installed(call: Call, verb: str, names: Sequence[str]) -> list[Operation]:
    made: list[Operation] = [Install(target=" ".join(names) or ".")]
    return (
        made if verb in ("ci", "fetch", "restore") else [*made, Opaque(reason=f"{call.name} {verb}", is_possible=True)]
    )


PIPS = listed("pip pip3 pipx conda mamba micromamba apt apt-get aptitude yum dnf apk brew gem luarocks pecl")
_PIP_VALUED = listed("-r -i --index-url -c -n --name -t --target --extra-index-url -f -p --prefix --python")
_PIP_INSTALLS = listed("install uninstall create remove upgrade update reinstall add")


def install(call: Call) -> list[Operation]:
    """pip, conda, apt and their like. ``-e .`` and ``-r file`` name what is installed."""
    names = call.plain(_PIP_VALUED)
    if call.name in ("conda", "mamba") and names[:1] == ["env"]:
        names = names[1:]
    is_refresh = len(names) == 1 and names[0] in ("update", "upgrade")
    if not names or names[0] not in _PIP_INSTALLS or is_refresh:
        return [Run(target=" ".join([call.name, *names[:1]]))]
    files = [f"-r {call.path(value)}" for value in call.values("-r", "--requirement")]
    named = [call.path(name) if name.startswith(("/", "./")) else name for name in names[1:]]
    return [Install(target=" ".join([*named, *files]) or ".")]
