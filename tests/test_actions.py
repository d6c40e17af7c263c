"""Action keys and operations: what a recorded call does (``docs/science.md §4``)."""

from __future__ import annotations

import json

import pytest

from handoff import actions
from handoff.actions import Context, did_not_happen, interpret, keys_of, trajectory_keys, validation
from handoff.actions.operations import (
    AppendFile,
    ApplyPatch,
    Delete,
    EditLines,
    InsertLines,
    LineEdit,
    Opaque,
    Other,
    Read,
    Replace,
    Restore,
    StreamEdit,
    Undo,
    Validate,
    WriteFile,
)
from handoff.trajectory import Action, Observation, Step

# Lines of the sample corpus, with the keys they should have.
# fmt: off
# ruff: noqa: E501  the lines are as they were recorded
REAL = [
    ('cat > /testbed/test_numpy_warning.py << \'EOF\'\n"""Test case"""\n\nimport numpy as np\nvalue = np.random.seed(1234)\nEOF', [('edit', 'test_numpy_warning.py')]),
    ("cat > test_l060.sql << 'EOF'\nSELECT ifnull(foo, 0) AS bar FROM baz;\nSELECT nvl(foo, 0) AS bar FROM baz;\nSELECT coalesce(foo, 0) AS bar FROM baz;\nEOF", [('edit', 'test_l060.sql')]),
    ('cd /testbed && find . -name "*.py" -type f -exec grep -l "to_json_dict" {} \\; | grep test', [('search', '.')]),
    ('cd /testbed && git diff -- astroid/raw_building.py > patch.txt', [('vcs', 'diff'), ('edit', 'patch.txt')]),
    ('cd /testbed && git diff -- pvlib/temperature.py > patch.txt', [('vcs', 'diff'), ('edit', 'patch.txt')]),
    ('cd /testbed && git diff -- pydicom/dataset.py > patch.txt', [('vcs', 'diff'), ('edit', 'patch.txt')]),
    ('cd /testbed && grep -r "\\.freq" --include="*.py" pandas/core | head -20', [('search', 'pandas/core')]),
    ('cd /testbed && python test_astroid_sim.py 2>&1 | grep -i "future\\|warning" | head -10', [('run', 'test_astroid_sim.py')]),
    ('cd /testbed && rm -f reproduce_error.py test_edge_cases.py frame*.parquet', [('delete', 'reproduce_error.py'), ('delete', 'test_edge_cases.py'), ('edit', '.')]),
    ('cd test && python -c "import sys; sys.path.insert(0, \'..\'); from rules.std_test import *; test_rules()" 2>&1 | grep -i "L060\\|FAIL\\|ERROR" | head -20', [('run', 'python -c')]),
    ('echo "Hello, world!" > hello.txt', [('edit', 'hello.txt')]),
    ('find . -name "*.py" -type f -exec grep -l "fuentes" {} \\; | grep -i test', [('search', '.')]),
    ('find tests -name "*.py" -type f -exec grep -l "List.*DateTime\\|Tuple.*DateTime\\|Dict.*DateTime" {} \\;', [('search', 'tests')]),
    ('git diff -- ./src/sqlfluff/rules/L060.py > patch.txt', [('vcs', 'diff'), ('edit', 'patch.txt')]),
    ('git diff -- pydicom/jsonrep.py > patch.txt', [('vcs', 'diff'), ('edit', 'patch.txt')]),
    ('git diff -- src/marshmallow/fields.py > patch.txt', [('vcs', 'diff'), ('edit', 'patch.txt')]),
    ('git diff -- src/marshmallow/schema.py src/marshmallow/marshalling.py > patch.txt', [('vcs', 'diff'), ('edit', 'patch.txt')]),
    ('grep -B 5 -A 5 "schema\\." src/marshmallow/fields.py | grep -v "self.root"', [('search', 'src/marshmallow/fields.py')]),
    ('grep -n "DataElement.from_json" pydicom/*.py', [('search', 'pydicom/*.py')]),
    ('grep -n "IFNULL\\|NVL" test_comprehensive.sql', [('search', 'test_comprehensive.sql')]),
    ('grep -n "List.*DateTime\\|Tuple.*DateTime\\|Dict.*DateTime" tests/test_deserialization.py', [('search', 'tests/test_deserialization.py')]),
    ('grep -n "SCHEMA_OPTS_VAR_NAME\\|schema.opts\\|parent.opts" src/marshmallow/fields.py', [('search', 'src/marshmallow/fields.py')]),
    ('grep -n "collections\\." src/marshmallow/marshalling.py', [('search', 'src/marshmallow/marshalling.py')]),
    ('grep -n "data\\[" src/marshmallow/fields.py', [('search', 'src/marshmallow/fields.py')]),
    ('grep -n "data\\[" src/marshmallow/marshalling.py', [('search', 'src/marshmallow/marshalling.py')]),
    ('grep -n "data\\[" src/marshmallow/schema.py', [('search', 'src/marshmallow/schema.py')]),
    ('grep -r "LintResult" ./src/sqlfluff/rules/ | grep -i "description\\|message" | head -10', [('search', 'src/sqlfluff/rules')]),
    ('grep -r "\\.astype(float)" pvlib/ --include="*.py" | grep -v test | grep -v ".pyc" | head -20', [('search', 'pvlib')]),
    ('grep -r "\\.root" src/marshmallow/ | grep -v "self.root" | head -10', [('search', 'src/marshmallow')]),
    ('grep -r "catch_warnings\\|simplefilter" /testbed/astroid/ --include="*.py"', [('search', 'astroid')]),
    ('grep -r "collections\\.Mapping" src/', [('search', 'src')]),
    ('grep -r "instead of.*or" ./src/sqlfluff/rules/L*.py | head -10', [('search', 'src/sqlfluff/rules/L*.py')]),
    ('grep -r "np\\.diff.*index" pvlib/ --include="*.py" | grep -v test | grep -v ".pyc"', [('search', 'pvlib')]),
    ('grep -r "return LintResult" ./src/sqlfluff/rules/L0*.py | head -10', [('search', 'src/sqlfluff/rules/L0*.py')]),
    ('grep -r "sys.modules\\[" /testbed/astroid/ --include="*.py" | grep -v "getattr"', [('search', 'astroid')]),
    ('pip install -e .[dev]', [('install', '.[dev]')]),
    ('pip install -e .[dev]\n', [('install', '.[dev]')]),
    ('sed -i "s/freq=\'12H\'/freq=\'12h\'/g; s/freq=\\"12H\\"/freq=\\"12h\\"/g" pvlib/tests/test_temperature.py', [('edit', 'pvlib/tests/test_temperature.py')]),
    ("sed -i 's/np\\.Inf/np.inf/g' pvlib/pvsystem.py", [('edit', 'pvlib/pvsystem.py')]),
    ("sed -i 's/np\\.Inf/np.inf/g' pvlib/singlediode.py", [('edit', 'pvlib/singlediode.py')]),
    ("cat -n pydicom/dataelem.py | sed -n '230,260p'", [('read', 'pydicom/dataelem.py')]),
    ("cat -n pydicom/jsonrep.py | sed -n '220,240p'", [('read', 'pydicom/jsonrep.py')]),
    ('cat ./src/sqlfluff/rules/L060.py', [('read', 'src/sqlfluff/rules/L060.py')]),
    ('cat pvlib/temperature.py | grep -n "timedelta_hours = np.diff"', [('read', 'pvlib/temperature.py')]),
    ("cat pydicom/jsonrep.py | sed -n '225,232p'", [('read', 'pydicom/jsonrep.py')]),
    ('cd /testbed && git status', [('vcs', 'status')]),
    ('cd /testbed && grep -n "freq" --include="*.py" pandas/core/indexes/base.py | head -20', [('search', 'pandas/core/indexes/base.py')]),
    ('cd /testbed && python -c "from moto import mock_athena; print(\'mock_athena exists\')" 2>&1 || echo "mock_athena does not exist"', [('run', 'python -c')]),
    ('cd /testbed && python -m pytest pvlib/tests/test_temperature.py -xvs 2>&1 | tail -50', [('test', 'pvlib/tests/test_temperature.py')]),
    ('cd /testbed && python -m pytest pydicom/tests/test_json.py -xvs 2>&1 | tail -100', [('test', 'pydicom/tests/test_json.py')]),
    ('cd /testbed && python -m pytest tests/test_schema.py -xvs -k "validates" 2>&1 | tail -50', [('test', 'tests/test_schema.py -k validates')]),
    ('cd /testbed && python edge_cases.py', [('run', 'edge_cases.py')]),
    ('cd /testbed && python reproduce_issue3.py', [('run', 'reproduce_issue3.py')]),
    ('cd /testbed && python test_direct.py 2>&1', [('run', 'test_direct.py')]),
    ('cd src && python -c "import sqlfluff; print(sqlfluff.__version__)" 2>/dev/null || echo "Not installed"', [('run', 'python -c')]),
    ('cp pydicom/jsonrep.py.backup pydicom/jsonrep.py', [('create', 'pydicom/jsonrep.py')]),
    ('echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && cat /testbed/patch.txt', [('read', 'patch.txt')]),
    ('find . -type f -name "*.py" -path "*/test/*" | xargs grep -l "L060" | head -10', [('search', '.'), ('search', '.')]),
    ('find /testbed -type f -name "*.py" | grep -E "(raw_building|astroid)" | head -20', [('search', '.')]),
    ('find /testbed -type f -name "*.py" | xargs grep -l "DatetimeIndex" | head -10', [('search', '.'), ('search', '.')]),
    ('grep -A 10 "class Date" src/marshmallow/fields.py', [('search', 'src/marshmallow/fields.py')]),
    ('grep -n "@property" src/marshmallow/fields.py', [('search', 'src/marshmallow/fields.py')]),
    ('grep -n "_bind_to_schema" src/marshmallow/fields.py | grep -A 2 -B 2 "Nested"', [('search', 'src/marshmallow/fields.py')]),
    ('grep -n "class Date" src/marshmallow/fields.py -A 30', [('search', 'src/marshmallow/fields.py')]),
    ('grep -n "class Nested" src/marshmallow/fields.py', [('search', 'src/marshmallow/fields.py')]),
    ('grep -n "def __getitem__" /testbed/pydicom/dataset.py', [('search', 'pydicom/dataset.py')]),
    ('grep -n "def to_json_dict" /testbed/pydicom/dataset.py', [('search', 'pydicom/dataset.py')]),
    ('grep -n "from.*schema" src/marshmallow/fields.py | head -10', [('search', 'src/marshmallow/fields.py')]),
    ('grep -n "import" src/marshmallow/marshalling.py | head -20', [('search', 'src/marshmallow/marshalling.py')]),
    ('grep -n "timedelta_hours = np.diff" pvlib/temperature.py', [('search', 'pvlib/temperature.py')]),
    ('grep -r "Mapping" src/marshmallow/ | grep -v "collections.Mapping"', [('search', 'src/marshmallow')]),
    ('grep -r "warnings" /testbed/astroid/ --include="*.py" | head -20', [('search', 'astroid')]),
    ('ls -F\n', [('list', '.')]),
    ('mypy /workspace/python__mypy__1.6/reproduce_error.py', [('run', 'lint mypy reproduce_error.py')]),
    ('pip install pylint -q', [('install', 'pylint')]),
    ('pip install simplejson -q', [('install', 'simplejson')]),
    ('python -c "import numpy as np; import warnings; print(np.__version__); warnings.simplefilter(\'always\'); print(getattr(np, \'long\'))" 2>&1', [('run', 'python -c')]),
    ('python /testbed/reproduce_error.py', [('run', 'reproduce_error.py')]),
    ('python fix_datetime_proper.py', [('run', 'fix_datetime_proper.py')]),
    ('python reproduce.py', [('run', 'reproduce.py')]),
    ('python test_calc.py', [('run', 'test_calc.py')]),
    ('python test_fix.py', [('run', 'test_fix.py')]),
    ('python test_solutions.py', [('run', 'test_solutions.py')]),
    ('python trace_fuentes.py', [('run', 'trace_fuentes.py')]),
    ('python3 tests/missing_colon.py', [('run', 'tests/missing_colon.py')]),
    ('rm reproduce.py\n', [('delete', 'reproduce.py')]),
    ("sed -n '11,50p' src/marshmallow/exceptions.py", [('read', 'src/marshmallow/exceptions.py')]),
    ("sed -n '1389,1405p' src/marshmallow/fields.py", [('read', 'src/marshmallow/fields.py')]),
    ("sed -n '290,360p' /testbed/pydicom/values.py", [('read', 'pydicom/values.py')]),
    ("sed -n '408,550p' src/marshmallow/fields.py", [('read', 'src/marshmallow/fields.py')]),
    ("sed -n '468,478p' /testbed/astroid/raw_building.py", [('read', 'astroid/raw_building.py')]),
    ("sed -n '67,200p' src/marshmallow/fields.py", [('read', 'src/marshmallow/fields.py')]),
    ("sed -n '850,950p' /testbed/pydicom/dataset.py", [('read', 'pydicom/dataset.py')]),
    ("sed -n '925,960p' src/marshmallow/schema.py", [('read', 'src/marshmallow/schema.py')]),
    ('sqlfluff lint test_comprehensive.sql --rules L060', [('run', 'sqlfluff')]),
]
# fmt: on
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
    ("cat 'unfinished", None),
    ("\x1b[31mcat\x00 a.py", None),
]


def bash(line: str) -> Action:
    return Action(tool="bash", arguments=json.dumps({"command": line}))


def call(tool: str, **arguments: object) -> Action:
    return Action(tool=tool, arguments=json.dumps(arguments))


def operations(action: Action, context: Context | None = None) -> tuple[actions.Operation, ...]:
    return interpret(action, context or Context())[0]


@pytest.mark.parametrize(("line", "expected"), REAL + WRITTEN)
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


def test_structured_editors_keep_what_a_replay_needs() -> None:
    """Texts, lines and counts of the editors come through exactly."""
    edit = "str_replace_editor"
    assert operations(call(edit, command="create", path="/testbed/a.py", file_text="x\n")) == (
        WriteFile(path="a.py", text="x\n", must_be_new=True),
    )
    assert operations(call(edit, command="str_replace", path="/repo/a.py", old_str="a", new_str="b")) == (
        Replace(path="a.py", old="a", new="b"),
    )
    assert operations(call(edit, command="insert", path="/workspace/x/a.py", insert_line=3, new_str="t")) == (
        InsertLines(path="a.py", line=3, text="t"),
    )
    assert operations(call(edit, command="undo_edit", path="a.py")) == (Undo(path="a.py"),)
    assert operations(call(edit, command="view", path="a.py", view_range=[2, -1])) == (
        Read(path="a.py", first=2, form="numbered", is_alone=True),
    )
    assert operations(call("Edit", file_path="a.py", old_string="x", new_string="y", replace_all=True)) == (
        Replace(path="a.py", old="x", new="y", count="all"),
    )
    assert operations(call("Write", file_path="a.py", content="z")) == (WriteFile(path="a.py", text="z"),)


def test_rendered_calls_of_swe_agent_mean_the_same_as_structured_ones() -> None:
    """SWE-agent 1.x writes the call as a command line."""
    line = "str_replace_editor str_replace /testbed/a.py --old_str 'x = 1' --new_str 'x = 2'"
    assert operations(Action(tool="str_replace_editor", arguments=line, is_text=True)) == (
        Replace(path="a.py", old="x = 1", new="x = 2"),
    )


def test_windowed_commands_act_on_the_open_file() -> None:
    """SWE-agent 0.x: ``edit a:b`` changes the file opened before."""
    _, context = interpret(Action(tool="open", arguments="open src/a.py 40", is_text=True), Context())
    assert context.open_file == "src/a.py"
    edit = Action(tool="edit", arguments="edit 3:4\n    x = 1\nend_of_edit\n", is_text=True)
    assert interpret(edit, context)[0] == (
        EditLines(path="src/a.py", first=3, last=4, text="    x = 1\n", closes_file=True),
    )
    assert operations(edit) == (Other(tool="edit"),)


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
        StreamEdit(
            path="a.py", edits=(LineEdit(kind="substitute", pattern="a.b", replacement=("c",), is_every=True),)
        ),
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


@pytest.mark.parametrize(
    "arguments",
    ["", "[]", "{", "null", '{"path": 3}', '{"command": "view"}', '{"command": ["a", 1]}', "\ud800", "{" * 5000],
)
def test_broken_arguments_are_never_an_edit_and_never_an_error(arguments: str) -> None:
    """Whatever a model wrote, reading it does not raise."""
    for tool in ("str_replace_editor", "Edit", "Write", "edit", "insert", "apply_patch", "Read", "goto", "nothing", ""):
        for is_text in (False, True):
            for operation in operations(Action(tool=tool, arguments=arguments, is_text=is_text)):
                assert not actions.changed_paths(operation)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("No replacement was performed, old_str `x` did not appear verbatim", True),
        ("Your proposed edit has introduced new syntax error(s). Please read", True),
        ("<tool_use_error>File has not been read yet.</tool_use_error>", True),
        ("The file /a.py has been edited. Here's the result: error: No replacement needed", False),
        ("", False),
    ],
)
def test_an_edit_did_not_happen_only_on_positive_evidence(text: str, expected: bool) -> None:
    """FORMATS T11: the editor's own refusal counts, a word in a file does not."""
    action = call("str_replace_editor", command="str_replace", path="a.py", old_str="x", new_str="y")
    assert did_not_happen(action, Observation(text=text)) is expected


PYTEST = Validate(kind="test", target=".", runner="pytest")
UNITTEST = Validate(kind="test", target=".", runner="unittest")


@pytest.mark.parametrize(
    ("operation", "text", "code", "expected"),
    [
        (PYTEST, "====== 10 passed, 0 failed in 0.1s ======", None, ("passed", 10, 0)),
        (PYTEST, "10 passed in 0.12s", 0, ("passed", 10, 0)),
        (PYTEST, "FAILED t.py::a - x\n1 failed, 2 passed in 0.12s", None, ("failed", 2, 1)),
        (PYTEST, "\x1b[31m=== \x1b[1m1 failed\x1b[0m, 2 passed in 1.2s ===\x1b[0m", 1, ("failed", 2, 1)),
        (PYTEST, "==== 3 passed, 1 error in 2s ====", None, ("failed", 3, 1)),
        (PYTEST, "error failed error", None, (None, None, None)),
        (PYTEST, "no tests ran in 0.01s", 5, (None, 0, 0)),
        (PYTEST, "usage: pytest", 4, (None, None, None)),
        (PYTEST, "", 1, ("failed", None, None)),
        (PYTEST, "", 124, (None, None, None)),
        (UNITTEST, "Ran 3 tests in 0.001s\n\nOK (skipped=1)", None, ("passed", 3, 0)),
        (UNITTEST, "FAIL: test_a (m.T)\nRan 3 tests in 0.1s\n\nFAILED (failures=1, errors=1)", 1, ("failed", 1, 2)),
        (Validate(kind="test", target=".", runner="pytest", owns_exit_code=False), "", 0, (None, None, None)),
        (Validate(kind="lint", target="mypy", runner="mypy"), "found errors", 0, ("passed", None, None)),
    ],
)
def test_a_validation_is_judged_by_exit_code_and_summary(
    operation: Validate, text: str, code: int | None, expected: tuple[str | None, int | None, int | None]
) -> None:
    """Never by the words "fail" or "error" (§1)."""
    found = validation(operation, Observation(text=text, exit_code=code))
    assert found is not None
    assert (found.outcome, found.passed, found.failed) == expected


def test_failing_tests_are_named_as_the_runner_names_them() -> None:
    """Each once, in order, with parameters."""
    text = "FAILED a.py::t[x y] - assert\nFAILED b.py::u\nFAILED b.py::u\n2 failed in 0.1s"
    found = validation(PYTEST, Observation(text=text))
    assert found is not None
    assert found.failing == ("a.py::t[x y]", "b.py::u")


def test_a_pipe_hides_the_exit_code() -> None:
    """``pytest | tail`` and ``pytest; echo`` do not tell by their code (FORMATS T16)."""
    for line, owns in (("pytest | tail", False), ("pytest; echo x", False), ("cd a && pytest", True)):
        (operation,) = operations(bash(line))
        assert isinstance(operation, Validate)
        assert operation.owns_exit_code is owns
