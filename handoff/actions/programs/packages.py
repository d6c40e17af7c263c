"""Package managers: the subcommand or script decides whether it tests, builds, checks, installs or runs."""

from __future__ import annotations

from collections.abc import Sequence

from handoff.actions.operations import Install, Opaque, Operation, Run
from handoff.actions.programs.call import Call, listed, plain
from handoff.actions.programs.runners import (
    A_LINT,
    A_TEST,
    FORMATTERS,
    LINTERS,
    RUNNERS,
    chosen,
    rewrites,
    test_name,
    validated,
)

MANAGERS = listed(
    """
    npm pnpm yarn bun npx pnpx bunx go cargo mvn mvnw gradle gradlew dotnet mix mise composer uv uvx poetry pdm
    rye pipenv hatch deno bundle rails flutter dart
    """
)
_CHOOSING = ("-run", "-Dtest", "-Dit.test", "--tests", "--filter", "-t", "--only", "-E", "--testNamePattern")
"""Options that choose among tests."""
_VALUED = listed(
    """
    --prefix -C --manifest-path -p --package --cwd --dir -pl -f --file -w --workspace --features --bin --test
    --project -count -timeout -tags -coverprofile -bench --target --profile --color -j
    """
).union(_CHOOSING)
_SCRIPTED = listed("npm pnpm yarn bun mise composer deno hatch pdm poetry")
"""Managers that run the scripts of a manifest by name."""
_LAUNCHERS = listed("npx pnpx bunx uvx")
_INNER = RUNNERS.keys() | LINTERS | FORMATTERS
"""Programs that ``yarn`` and its like run by their bare name."""
_INSTALLS = listed(
    "install i ci add get sync update upgrade remove uninstall require fetch restore lock deps.get local.hex"
)
_KEEPING = frozenset(("ci", "fetch", "restore"))
"""Installations that leave the manifest and its lock alone."""
_BUILDS = listed("build compile package assemble bundle tsc")
_LINTS = listed("lint clippy typecheck vet credo dialyzer analyze")
_SOURCES = (".go", ".ts", ".js", ".tsx", ".jsx", ".mjs")


def manager(call: Call) -> list[Operation] | Call:
    """npm, cargo, go, mvn and their like."""
    name, texts = call.name, call.arguments
    own = texts[: texts.index("--")] if "--" in texts else texts
    names = plain(own, _VALUED)
    if not names:
        return _installed(call, "install", []) if name == "yarn" and not texts else [Run(target=name)]
    if name in _LAUNCHERS or (name == "uv" and names[0] == "pip"):
        return _from(call, names[0])
    if name in ("mvn", "mvnw", "gradle", "gradlew"):
        return _goals(call, names)
    if name in _SCRIPTED and names[0] in ("run", "run-script", "task", "x") and len(names) > 1:
        return _validation(call, names[1], names[2:], is_script=True) or _script(call, names[1])
    verb, rest = names[0], names[1:]
    if name in ("yarn", "pnpm", "bun") and verb in _INNER:
        return _from(call, verb)
    return _validation(call, verb, rest, is_script=False) or _subcommand(call, verb, rest)


def _from(call: Call, text: str) -> Call:
    """The command that begins at the word ``text``."""
    return call.inner(call.words[call.arguments.index(text) + 1 :])


def _validation(call: Call, verb: str, rest: list[str], *, is_script: bool) -> list[Operation]:
    """Tests, builds and linters by the verb's name; nothing for other verbs."""
    name, texts = call.name, call.arguments
    if (is_script or verb in _LINTS or A_LINT.fullmatch(verb)) and rewrites(verb, texts):
        is_generator = verb.startswith("gen")
        return [Opaque(reason=f"{name} {verb}", paths=() if is_generator else (".",))]
    if verb == "nextest":
        verb, rest = "test", [text for text in rest if text not in ("run", "r")]
    if verb in _BUILDS or (verb == "check" and name in ("cargo", "deno")):
        return [validated(call, "build", f"{name} {verb}", name)]
    if verb in ("t", "tst") or A_TEST.fullmatch(verb):
        given = plain(texts[texts.index("--") + 1 :], _VALUED) if "--" in texts else []
        wanted = [verb] if is_script and verb != "test" else []
        wanted += [test_name(call, text) for text in [*rest, *given]]
        return [validated(call, "test", " ".join([*(wanted or ["."]), *chosen(texts, _CHOOSING)]), name)]
    if verb in _LINTS or A_LINT.fullmatch(verb):
        return [validated(call, "lint", f"{name} {verb}", name)]
    if verb.partition(":")[0] in ("fmt", "format"):
        if "--check" in texts or "--check-formatted" in texts:
            return [validated(call, "lint", f"{name} {verb}", name)]
        return [Opaque(reason=f"{name} {verb}", paths=(".",))]
    return []


def _script(call: Call, verb: str) -> list[Operation]:
    """A script of the manifest; only its name tells what it may do."""
    return [Run(target=f"{call.name} {verb}")]


def _subcommand(call: Call, verb: str, rest: list[str]) -> list[Operation]:
    if verb in _INSTALLS:
        return _installed(call, verb, rest)
    if verb == "run" and rest and rest[0].endswith(_SOURCES):
        return [Run(target=call.path(rest[0]))]
    made: list[Operation] = [Run(target=f"{call.name} {verb}")]
    is_writing = verb in ("mod", "work") or verb.startswith("gen")
    return [*made, Opaque(reason=f"{call.name} {verb}", is_possible=True)] if is_writing else made


_TEST_GOALS = listed("test verify check integration-test failsafe")
_BUILD_GOALS = listed("install package compile test-compile build assemble testClasses classes")


def _goals(call: Call, names: list[str]) -> list[Operation]:
    """Maven's phases and Gradle's tasks: the last that means something counts."""
    name = "mvn" if call.name.startswith("mvn") else "gradle"
    for goal in reversed(names):
        task = goal.rsplit(":", 1)[-1]
        if task in _TEST_GOALS or task.endswith(("Test", "Tests")):
            where = goal if ":" in goal.strip(":") else "."
            return [validated(call, "test", " ".join([where, *chosen(call.arguments, _CHOOSING)]), name)]
        if task in _BUILD_GOALS:
            return [validated(call, "build", f"{name} {task}", name)]
    return [Run(target=f"{name} {names[-1]}")]


def _installed(call: Call, verb: str, names: Sequence[str]) -> list[Operation]:
    made: list[Operation] = [Install(target=" ".join(names) or ".")]
    return made if verb in _KEEPING else [*made, Opaque(reason=f"{call.name} {verb}", is_possible=True)]


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
