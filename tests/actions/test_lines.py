"""Shell lines: their keys, and the operations that a replay carries out (``docs/science.md §4``)."""

from __future__ import annotations

import pytest

from handoff import actions
from handoff.actions import keys_of, trajectory_keys
from handoff.actions.operations import (
    AppendFile,
    ApplyPatch,
    Delete,
    LineEdit,
    Opaque,
    Other,
    Replace,
    Restore,
    StreamEdit,
    Validate,
    WriteFile,
)
from handoff.trajectory import Action, Step
from tests.actions.calls import bash, call, keys, operations

WRITTEN = [
    ("cat > ../../etc/passwd <<'EOF'\nx\nEOF", [("other", "../../etc/passwd")]),
    ("echo x >> /etc/hosts", [("other", "/etc/hosts")]),
    ("rm -rf /tmp/scratch src/a.py", [("other", "/tmp/scratch"), ("delete", "src/a.py")]),
    ("sed -i 's/a/b/' /usr/lib/python3/x.py", [("other", "/usr/lib/python3/x.py")]),
    ("echo bad > .git/config", [("other", ".git/config")]),
    ("cd src && cat a.py && cd .. && cat b.py", [("read", "src/a.py"), ("read", "b.py")]),
    ("(cd src; cat a.py); cat b.py", [("read", "src/a.py"), ("read", "b.py")]),
    ("cd /tmp && cat > x.py <<'E'\n1\nE\ncat /testbed/y.py", [("other", "/tmp/x.py"), ("read", "y.py")]),
    ("bash -lc 'cd src && pytest -q'", [("test", ".")]),
    ("timeout 60 env A=1 python3 -m pytest -x tests/a.py", [("test", "tests/a.py")]),
    ("sudo -u me uv run --with x pytest tests/", [("test", "tests")]),
    ("conda run -n env python -m unittest discover", [("test", ".")]),
    ("poetry run coverage run -m pytest tests", [("test", "tests")]),
    ("python - <<'EOF'\nopen('a.py', 'w').write('x')\nEOF", [("edit", "a.py")]),
    ("python -c \"import pathlib\npathlib.Path('b.py').write_text('x')\"", [("edit", "b.py")]),
    ("python - <<'EOF'\nprint(open('a.py').read())\nEOF", [("run", "python -")]),
    ("echo hi | tee -a log.txt", [("edit", "log.txt")]),
    ("git apply <<'EOF'\n--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-a\n+b\nEOF", [("edit", "x.py")]),
    ("git apply fix.patch", [("edit", ".")]),
    ("git checkout -- src/a.py", [("edit", "src/a.py")]),
    ("git stash && pytest && git stash pop", [("edit", "."), ("test", "."), ("edit", ".")]),
    ("git stash list", [("vcs", "stash")]),
    ("git reset --hard", [("edit", ".")]),
    ("mv a.py b.py", [("delete", "a.py"), ("create", "b.py")]),
    ("mkdir -p pkg/sub && touch pkg/sub/__init__.py", [("create", "pkg/sub"), ("edit", "pkg/sub/__init__.py")]),
    ("for f in a.py b.py; do sed -i 's/x/y/' $f; done", [("edit", "a.py"), ("edit", "b.py")]),
    ("for f in *.py; do sed -i 's/x/y/' $f; done", [("edit", ".")]),
    ("FOO=1 make test", [("test", "make test")]),
    ("npm run test -- --watch=false", [("test", ".")]),
    ("mypy handoff", [("run", "lint mypy handoff")]),
    ("black src/a.py", [("edit", "src/a.py")]),
    ("grep -rn x . | xargs sed -i s/x/y/", [("search", "."), ("edit", ".")]),
    ("cat a.py > /dev/null 2>&1", [("read", "a.py")]),
    ("source venv/bin/activate && export A=1", []),
    ("git ls-files", [("list", ".")]),
    ("uv pip install -e .[dev]", [("install", ".[dev]")]),
    ("apt-get update && apt-get install -y git", [("run", "apt-get update"), ("install", "git")]),
    ("yarn", [("install", ".")]),
    ("yarn jest src/a.test.js", [("test", "src/a.test.js")]),
    ("npm run generate && npm run lint", [("run", "npm generate"), ("run", "lint npm lint")]),
    ("go run ./cmd/x.go; go vet ./...", [("run", "cmd/x.go"), ("run", "lint go vet")]),
    ("ruff check --fix src && ruff format --check src", [("edit", "src"), ("run", "lint ruff src")]),
    (
        "sqlfluff fix a.sql; prettier -w a.ts; gofmt -l .",
        [("edit", "a.sql"), ("edit", "a.ts"), ("run", "lint gofmt .")],
    ),
    ("bash -n run.sh && ./run.sh", [("run", "lint bash run.sh"), ("run", "run.sh")]),
    ("jq .a b.json | sort -k 2 | fold -w 80", [("read", "b.json")]),
    ("fd -e py x src; rg --files docs", [("search", "src"), ("list", "docs")]),
    ("find . -name '*.pyc' -delete", [("search", "."), ("edit", ".")]),
    ("cp a.py /tmp/a.py; cp /tmp/a.py b.py", [("read", "a.py"), ("edit", "b.py")]),
    ("curl -o data.json http://x/y", [("run", "curl"), ("edit", "data.json")]),
    ("command -v git; which python; type ls", []),
    ("cat < a.py; wc -l < b.py", [("read", "a.py"), ("read", "b.py")]),
    ("patch < fix.diff; patch -p1 -R < fix.diff", [("edit", "."), ("edit", ".")]),
    ("cat 'unfinished", None),
    ("\x1b[31mcat\x00 a.py", None),
]


@pytest.mark.parametrize(("line", "expected"), WRITTEN)
def test_a_shell_line_has_its_keys(line: str, expected: list[tuple[str, str]] | None) -> None:
    """Real lines and hard ones: kinds and repo-relative targets; ``None`` means that it must only not raise."""
    found = [key for operation in operations(bash(line)) for key in keys_of(operation)]
    if expected is not None:
        assert found == expected
    else:
        assert not [key for key in found if key.kind in actions.CHANGING_KINDS]


def test_what_is_outside_is_never_an_edit() -> None:
    """No way of naming a path outside the repository gives an operation that changes files."""
    for path in (
        "/etc/passwd",
        "../../etc/passwd",
        "~/.bashrc",
        "src/../../x",
        "/testbed/../etc/x",
        ".git/hooks/pre-commit",
    ):
        for action in (
            call("str_replace_editor", command="create", path=path, file_text="x"),
            call("str_replace_editor", command="str_replace", path=path, old_str="a", new_str="b"),
            call("Write", file_path=path, content="x"),
            call("Edit", file_path=path, old_string="a", new_string="b"),
            bash(f"echo x > {path}"),
            bash(f"sed -i s/a/b/g {path}"),
            bash(f"rm {path}"),
            bash(f"touch {path}"),
            Action(
                tool="apply_patch", arguments=f"*** Begin Patch\n*** Update File: {path}\n*** End Patch", is_text=True
            ),
        ):
            assert [type(o) for o in operations(action)] == [Other], (path, action)


def test_writes_with_known_text_are_exact_and_others_are_opaque() -> None:
    """Only text that the line itself holds is written."""
    assert operations(bash("cat > a.py <<'EOF'\n  $x\n\nEOF")) == (WriteFile(path="a.py", text="  $x\n\n"),)
    assert operations(bash("cat >> a.py <<EOF\n$x\nEOF")) == (Opaque(reason="output of cat", paths=("a.py",)),)
    assert operations(bash("echo -n hi >> a.txt")) == (AppendFile(path="a.txt", text="hi"),)
    assert operations(bash("git diff > p.txt"))[1:] == (Opaque(reason="output of git", paths=("p.txt",)),)
    assert operations(bash(r"sed -i 's/np\.Inf/np.inf/g' a.py")) == (
        Replace(path="a.py", old="np.Inf", new="np.inf", count="all"),
    )
    assert operations(bash("sed -i 's/a.b/c/g' a.py")) == (
        StreamEdit(path="a.py", edits=(LineEdit(kind="substitute", pattern="a.b", replacement=("c",), is_every=True),)),
    )
    assert operations(bash("sed -i '3,5d' a.py")) == (
        StreamEdit(path="a.py", edits=(LineEdit(kind="delete", start=3, end=5),)),
    )
    assert operations(bash("sed -i 's/a\\|b/c/' a.py")) == (Opaque(reason="sed -i", paths=("a.py",)),)
    assert operations(bash("test -f b || rm a.py")) == (
        Opaque(reason="runs only on a condition", paths=("a.py",), is_possible=True),
    )
    assert operations(bash("rm -r a")) == (Delete(path="a", is_recursive=True),)
    assert operations(bash("git checkout HEAD~1 -- a.py")) == (Restore(paths=("a.py",), ref="HEAD~1"),)
    patch = operations(bash("patch -p1 <<'EOF'\n--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-a\n+b\nEOF"))
    assert isinstance(patch[0], ApplyPatch)
    assert patch[0].paths == ("x.py",)


def test_a_folder_outlives_its_line_only_where_the_shell_does() -> None:
    """mini-swe-agent starts a fresh shell for every command."""
    for format, expected in (("sweagent", "src/a.py"), ("mini_swe_agent", "a.py")):
        steps = [Step(actions=(bash("cd src"),)), Step(actions=(bash("cat a.py"),))]
        assert trajectory_keys(steps, context=actions.context_of(format))[1] == (("read", expected),)


def test_an_unusual_checkout_is_known_by_its_cd() -> None:
    """The first absolute folder that can be a checkout is the repository's root."""
    steps = [Step(actions=(bash("cd /home/me/proj && ls"),)), Step(actions=(bash("cat /home/me/proj/a.py"),))]
    assert trajectory_keys(steps)[1] == (("read", "a.py"),)


MORE = [
    ("for d in src lib; do for f in a b; do touch $d/$f.py; done; done", "src/a.py src/b.py lib/a.py lib/b.py"),
    ('F=src/a.py; sed -i "s/x/y/" "$F" && echo z >> ${F}', "src/a.py src/a.py"),
    ("X=a.py; (X=b.py; rm $X); rm $X", "b.py a.py"),
    ("export OUT=log.txt; echo x > $OUT", "log.txt"),
    ("read F; rm $F", "."),
    ("if test -f x; then F=a; else F=b; fi; rm $F", "."),
    ("for f in $(git ls-files); do sed -i s/a/b/ $f; done", "."),
    ("cat <<EOF | tee a.txt > b.txt\nhi\nEOF".replace("\\n", "\n"), "a.txt"),
    ("cd src && { echo a > x.py; cd lib; echo b > y.py; }; echo c > z.py", "src/x.py src/lib/y.py src/lib/z.py"),
    ("pushd src; touch a; popd; touch b", "src/a b"),
    ("bash -lc 'cat > src/n.py <<\"EOF\"\nx\nEOF'".replace("\\n", "\n"), "src/n.py"),
    (
        "apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: new.py\n+x\n*** End Patch\nEOF".replace("\\n", "\n"),
        "new.py",
    ),
    ("sed -i.bak 's/a/b/' a.py", "a.py.bak a.py"),
    ("sed -i '' 's/a/b/' a.py b.py", "a.py b.py"),
    ("perl -pi -e 's/a/b/' a.py", "a.py"),
    ("echo x 2> err.txt", "err.txt"),
    ("make > build.log 2>&1", "build.log"),
    ("node -e \"require('fs').writeFileSync('a.js', '')\"", "a.js"),
    ("truncate -s 0 a.log", "a.log"),
    ("git rm -q a.py && git mv b.py c.py", "a.py b.py c.py"),
]


@pytest.mark.parametrize(("line", "changed"), MORE)
def test_a_line_changes_the_files_that_a_shell_would_change(line: str, changed: str) -> None:
    """Loops over plain words, variables that the line sets, groups, folders left and entered, wrapped lines."""
    assert [key.target for key in _changing(bash(line))] == changed.split()


def _changing(action: Action) -> list[actions.Key]:
    return [key for operation in operations(action) for key in keys_of(operation) if key.kind in actions.CHANGING_KINDS]


@pytest.mark.parametrize(
    ("line", "target"),
    [
        ("timeout 60 npx jest src/a.test.ts -t 'adds two'", "src/a.test.ts -t adds two"),
        ("cargo nextest run --workspace", "."),
        ("go test ./... -run TestA", ". -run TestA"),
        ("./gradlew :core:test --tests FooTest", ":core:test --tests FooTest"),
        ("mvn -q -Dtest=FooTest test", ". -Dtest FooTest"),
        ("python manage.py test app.tests", "app.tests"),
        ("./tests/runtests.py forms", "forms"),
        ("bundle exec rspec spec/a_spec.rb", "spec/a_spec.rb"),
        ("vendor/bin/phpunit --filter testA tests/", "tests --filter testA"),
        ("tox -e py311", ". -e py311"),
        ("xvfb-run -a -s '-screen 0' ctest -R fast", ". -R fast"),
        ("python3.11 -m coverage run -m pytest -x tests/a.py::test_b", "tests/a.py::test_b"),
        ("uv run --with pytest-xdist pytest -n 4 -k 'a or b'", ". -k a or b"),
        ("stdbuf -oL mix test test/a_test.exs", "test/a_test.exs"),
        ("deno test && true", "."),
    ],
)
def test_a_test_run_is_named_by_what_it_covers(line: str, target: str) -> None:
    """Whatever wraps the runner: files and the options that choose among tests; ``.`` for all."""
    assert keys(bash(line)) == [("test", target)]


def test_a_pipe_hides_the_exit_code() -> None:
    """``pytest | tail`` and ``pytest; echo`` do not tell by their code (FORMATS T16)."""
    for line, owns in (("pytest | tail", False), ("pytest; echo x", False), ("cd a && pytest", True)):
        (operation,) = operations(bash(line))
        assert isinstance(operation, Validate)
        assert operation.owns_exit_code is owns
    for line, owns in (
        ("pytest && echo fine", True),
        ("pytest || true", False),
        ("! pytest", False),
        ("pytest &", False),
        ("set -o pipefail; pytest | tee log", True),
        ("set -o pipefail; pytest | grep x", False),
        ("for t in a b; do pytest $t; done", True),
    ):
        *_, last = (o for o in operations(bash(line)) if isinstance(o, Validate))
        assert last.owns_exit_code is owns, line


def test_a_line_says_what_it_may_have_done_beside_its_key() -> None:
    """What may touch any file has no key of its own when another operation stands for the command."""
    for line in ("npm install", "tar xzf a.tgz", "go generate ./...", "cat x | python -"):
        *_, possible = operations(bash(line))
        assert isinstance(possible, Opaque)
        assert possible.is_possible
        assert keys_of(possible) == ()
        assert keys(bash(line)), line


def test_a_line_of_hostile_depth_is_given_up_whole() -> None:
    """What no person writes is not parsed, and never an edit."""
    for line in ("A=(" * 5_000, "f() { x " * 5_000, "cat <<A <<B\n" * 5_000, "x)" * 5_000, "echo $(" * 9_000):
        assert not _changing(bash(line))
