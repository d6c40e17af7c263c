"""What a shell line is taken to have done when not everything about it is known (``docs/science.md §2``)."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from handoff.actions.paths import Context
from handoff.actions.tools import shell_line
from handoff.editors.plain import Misfit
from handoff.git.objects import byte_path, is_safe_path
from handoff.git.repositories import Repository
from handoff.states.effects import EVERYTHING, Effects
from handoff.states.shell import Ran, run_line
from handoff.states.shell.syntax import read_line
from handoff.states.shell.tree import Beyond
from handoff.states.working import WorkingFiles
from handoff.trajectory import Action, Observation
from tests.actions.test_hostile import LINES

PATCH = "git apply <<'EOF'\n--- a/README.md\n+++ b/README.md\n@@ -1 +1 @@\n-{old}\n+B pager.\nEOF\n"


def after(
    repository: Repository,
    base: str,
    *lines: str,
    code: int | None = None,
    text: str = "",
    context: Context | None = None,
) -> tuple[Effects, Ran]:
    """The state after some lines, of which the last has the exit code and the output."""
    effects = Effects(WorkingFiles(repository, repository.tree_of(base), base))
    for line in lines[:-1]:
        run_line(effects, line, Context(), Observation(exit_code=0))
    return effects, run_line(effects, lines[-1], context or Context(), Observation(text=text, exit_code=code))


def content(effects: Effects, path: str) -> bytes | str | None:
    """A file's text, or ``?`` where it is not known."""
    return "?" if effects.is_unknown(path) else effects.files.read(path)


@pytest.mark.parametrize(
    ("line", "code", "expected"),
    [
        ("make check && echo x > f", 0, b"x\n"),
        ("make check && echo x > f", 2, None),
        ("make check && echo x > f", None, "?"),
        ("make check || echo x > f", 0, "?"),
        ("make check; echo x > f", 0, b"x\n"),
        ("make check && echo x > f; true", 0, "?"),
        ("if make check; then echo x > f; else echo x > f; fi", 0, b"x\n"),
        ("set -e; make check; echo x > f", 0, b"x\n"),
        ("set -e\nmake check\necho x > f", 1, None),
        ("(make check); echo x > f; exit 3", 3, b"x\n"),
        ("make check | tail -1 && echo x > f", 0, b"x\n"),
        ("set -o pipefail; make check | tail -1 && echo x > f", 1, None),
        ("! make check && echo x > f", 1, None),
        ("test -f README.md && echo x > f", None, b"x\n"),
        ("test -f missing && echo x > f", None, None),
        ("echo x > f && timeout 5 make check", 124, b"x\n"),
        ("make check && echo x > f", 124, "?"),
    ],
)
def test_an_exit_code_tells_which_commands_ran(
    repository: Repository, base: str, line: str, code: int | None, expected: object
) -> None:
    """Every way that the code allows is tried; where they leave different files, those are not known."""
    effects, _ = after(repository, base, line, code=code)
    assert content(effects, "f") == expected


def test_an_edit_on_every_way_is_known(repository: Repository, base: str) -> None:
    """What hangs on an unknown command is not known, and nothing else is unknown."""
    effects, _ = after(repository, base, "make check && rm run.sh; echo x > f")
    assert content(effects, "f") == b"x\n" and content(effects, "run.sh") == "?" and content(effects, "README.md")


def test_a_success_that_cannot_be_is_a_misfit(repository: Repository, base: str) -> None:
    with pytest.raises(Misfit, match="does not exist") as caught:
        after(repository, base, "rm nothing.txt", code=0)
    assert caught.value.args[1] == "nothing.txt"
    effects, _ = after(repository, base, "rm nothing.txt", code=1)
    assert not effects.unknown


def test_a_patch_that_was_applied_and_does_not_fit_is_a_misfit(repository: Repository, base: str) -> None:
    effects, _ = after(repository, base, PATCH.format(old="A pager."), code=0)
    assert content(effects, "README.md") == b"B pager.\n"
    with pytest.raises(Misfit):
        after(repository, base, PATCH.format(old="C pager."), code=0)
    effects, _ = after(repository, base, PATCH.format(old="C pager."), code=1, text="error: patch failed")
    assert content(effects, "README.md") == b"A pager.\n"


TWO_WAYS = (
    *("echo 'a\\nb' > f", "X='a b'; printf '%s,' $X > f", "echo *.nothing > f", "echo ==== > f"),
    "[ a == a ] && echo x > f",
)


@pytest.mark.parametrize("line", TWO_WAYS)
def test_lines_that_two_shells_read_differently_are_not_known(repository: Repository, base: str, line: str) -> None:
    """Some harnesses run lines in the shell of their user, bash or zsh."""
    for harness in ("claude_code", "codex"):
        context = Context(shell_persists=harness == "claude_code", harness=harness)
        effects, _ = after(repository, base, line, context=context)
        assert content(effects, "f") == "?"
    effects, _ = after(repository, base, line)
    assert content(effects, "f") != "?"


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("bun run lint:fix 2>&1 | tail -5", ""),
        ("npm run format", ""),
        ("make fmt", ""),
        ("curl -s https://example.invalid/x.sh | sh", ""),
        ('sh -c "$(curl -s https://example.invalid/x.sh)"', ""),
        ("black .", ""),
        ("make check", "1 file reformatted, 3 files left unchanged."),
        ("pnpm check", "Checked 9 files in 3ms. Fixed 2 files."),
        ("git commit -m x", "black....Failed\n- files were modified by this hook"),
        (
            "git commit -m x",
            "[STARTED] prettier --write\n[STARTED] Applying modifications from tasks...\n[main 1a2b3c4] x",
        ),
        ("git merge topic", ""),
        ("git checkout main", ""),
        ("rm -rf $WHERE", ""),
        ("find . -name '*.py' -not -path './x/*' -exec rm {} +", ""),
    ],
)
def test_what_may_change_any_file_says_so(repository: Repository, base: str, line: str, text: str) -> None:
    effects, _ = after(repository, base, line, text=text)
    assert EVERYTHING in effects.unknown


@pytest.mark.parametrize(
    "line",
    [
        "npm run format:check",
        "make -n fmt",
        "pytest -q",
        "git status && git log -3 && git diff --stat",
        "grep -rn x . | head; find . -name '*.py' | wc -l",
        "black --check .",
        "ruff check src",
        "cat README.md > /tmp/x; rm -rf /tmp/scratch; cp README.md /tmp/r",
        "T=$(mktemp -d) && echo x > $T/f && rm -rf $T",
        "git fetch origin && git branch -a",
        "cd /tmp && echo x > f && rm -rf y",
    ],
)
def test_what_changes_no_file_leaves_all_known(repository: Repository, base: str, line: str) -> None:
    effects, _ = after(repository, base, line)
    assert not effects.unknown and not effects.files.changed()


def test_a_formatter_forgets_the_folder_it_is_given(repository: Repository, base: str) -> None:
    """And a file written whole below it is known again."""
    effects, _ = after(repository, base, "black src", "cat > src/pager.py <<'EOF'\nx\nEOF\n", code=0)
    assert content(effects, "src/crlf.txt") == "?" and content(effects, "src/pager.py") == b"x\n"
    assert content(effects, "README.md") == b"A pager.\n"
    effects, _ = after(repository, base, "black src", "git checkout -- src", code=0)
    assert content(effects, "src/pager.py") == effects.files.base("src/pager.py")[1]  # type: ignore[index]


def test_a_killed_line_did_what_came_before(repository: Repository, base: str) -> None:
    effects, _ = after(repository, base, "echo x > f\npytest\necho y > g", code=137)
    assert content(effects, "f") == b"x\n" and content(effects, "g") == "?"


def test_what_a_program_beyond_python_did_is_taken_back(repository: Repository, base: str) -> None:
    """A script that is only partly understood is opaque as a whole, on the files it names."""
    code = "open('f', 'w').write('x')\nimport subprocess\nsubprocess.run(['y'])\n"
    effects, _ = after(repository, base, f"python3 - <<'EOF'\n{code}EOF\n", code=0)
    assert content(effects, "f") == "?"


@pytest.mark.parametrize(
    "code",
    [
        "x = 'a' * 10**9",
        "x = 'a'\nwhile True:\n    x += x",
        "def f(n):\n    return f(n + 1)\nf(0)",
        "for i in range(10**9):\n    pass",
        "import re\nre.sub(r'(a+)+$', '', 'a' * 99 + 'b')",
        "import re\nre.sub(r'a*a*a*a*a*c', '', 'a' * 9999)",
        "'{0.__class__}'.format(1)",
        "().__class__.__bases__[0].__subclasses__()",
        "open.__globals__",
        "eval('1')",
        "__import__('os').system('x')",
        "'%999999999d' % 1",
        "f'{1:999999999}'",
        "[" * 300 + "]" * 300,
        "x = []\nx.append(x)\nprint(x)",
    ],
)
def test_hostile_code_is_never_run_and_costs_little(repository: Repository, base: str, code: str) -> None:
    effects, _ = after(repository, base, f"python3 - <<'EOF'\n{code}\nEOF\n")
    assert not effects.files.changed()


@settings(max_examples=300, deadline=None)
@given(LINES, st.sampled_from([None, 0, 1, 124]))
def test_no_line_raises_or_leaves_the_repository(line: str, code: int | None) -> None:
    """Whatever a line holds: only a misfit is reported, and only safe paths are written."""
    effects = Effects(WorkingFiles(_Nothing(), ""))  # type: ignore[arg-type]
    with contextlib.suppress(Misfit):
        run_line(effects, line, Context(), Observation(exit_code=code, text="cd: x: No such file"))
    assert all(is_safe_path(byte_path(path)) for path in effects.files.differing)


class _Nothing:
    """A repository without files or commits."""

    def entry(self, tree: str, path: str) -> None:
        return None

    def entries(self, tree: str) -> dict[bytes, tuple[str, str]]:
        return {}

    def files(self, tree: str) -> dict[str, tuple[str, str]]:
        return {}

    def find(self, name: str) -> None:
        return None


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet=st.sampled_from("ab '\"\\$`;|&<>(){}[]*?~#=\n\t!-\x00\x1b\ud800é"), max_size=40))
@example("$'\ud800'")
def test_any_text_is_read_or_given_up(line: str) -> None:
    with contextlib.suppress(Beyond, RecursionError):
        read_line(line)


def test_which_calls_are_lines() -> None:
    """Shells are; structured tools, keys typed into a program, and SWE-agent's own commands are not."""

    def line(tool: str, arguments: object, is_text: bool = False) -> str | None:
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        found = shell_line(Action(tool=tool, arguments=text, is_text=is_text), Context())
        return found[0] if found is not None else None

    assert line("bash", {"command": "ls"}) == "ls"
    assert line("shell", {"command": ["bash", "-lc", "ls"]}) == "ls"
    assert line("bash", "ls -l", is_text=True) == "ls -l"
    assert line("execute_bash", {"command": "y", "is_input": "true"}) is None
    assert line("str_replace_editor", {"command": "view", "path": "a"}) is None
    assert line("bash", "open a.py 3", is_text=True) is None
    assert line("apply_patch", "*** Begin Patch", is_text=True) is None
    found = shell_line(Action(tool="exec_command", arguments='{"cmd": "ls", "workdir": "src"}'), Context())
    assert found is not None and found[1].cwd == "src"
