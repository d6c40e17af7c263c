"""Whatever a recording holds, reading it gives operations: never an error, never an edit outside the repository."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from handoff.actions import Context, changed_paths, did_not_happen, interpret, keys_of, structured, tools, validation
from handoff.actions.paths import is_outside
from handoff.actions.programs.call import listed
from handoff.trajectory import Action, Observation

WORDS = st.sampled_from(
    sorted(
        listed(
            """
    sed -i -e 's/a/b/' '1d' git checkout -C patch -p1 mv cp rm a b/ .. /etc/x ~/y * $x | && || ; & ! > >> < - --
    for f in do done $f xargs find -exec python -c -m pytest -k npm run test npx uv pip install timeout 5 env A=1 bash
    'ls' tee perl -pi chmod +x tar curl -o make -n mvn stat -f head wc awk jq rg cat echo eval cd pushd popd '' truncate
    go ./... cargo nextest time coverage command -v source node ( ) { } [ ' " \\ ` $( é"""
        )
    )
)
LINES = st.lists(WORDS, min_size=1, max_size=10).map(" ".join)
VALUES = st.sampled_from(
    [
        *("a.py", "../x", "/etc/x", "~", "$X", "", None, 3, -1, 2.5, True, [], [1, 2], [{}], ["a", {"path": "b"}], {}),
        *('"q"', "[1, 2]", "9" * 30, "\0", "edit 1:2\nx\nend_of_edit", "<<<<<<< SEARCH\na\n=======\n>>>>>>> REPLACE"),
        "*** Begin Patch\n*** Update File: a\n*** End Patch",
        "print(file_editor(**{'command': 'create', 'path': 3}))",
    ]
)
NAMES = st.sampled_from(
    sorted(
        listed(
            """
    path file_path command cmd old_str new_str old_string oldText old_text new_text search replace replace-all
    edits content file_text insert_line line text view_range start end end_line offset limit files paths
    pattern code diff translated_ipython_code patch input keystrokes is_input workdir chars filename
    expected_replacements
    """
        )
    )
)
TOOLS = st.sampled_from(
    sorted({*structured.TOOLS, *tools.SHELLS, *tools._SILENT, "task", "mcp__a__b", "udiff", "git_commit"})
)
ACTIONS = st.one_of(
    LINES.map(lambda line: Action(tool="bash", arguments=line, is_text=True)),
    st.builds(
        lambda tool, values: Action(tool=tool, arguments=json.dumps(values)),
        TOOLS,
        st.dictionaries(NAMES, VALUES, max_size=5),
    ),
    st.builds(lambda tool, line: Action(tool=tool, arguments=f"{tool} {line}\nx", is_text=True), TOOLS, LINES),
)
CONTEXTS = st.sampled_from(
    [
        Context(),
        Context(cwd="/tmp"),
        Context(cwd="src", prefixes=("/home/me/x",)),
        Context(open_file="a.py", shown=(1, None), cursors=(2, 1)),
        Context(open_file="/etc/passwd", shown=(3, 4), cursors=(1, 1)),
    ]
)
ANSWERS = st.builds(
    lambda text, code, error: Observation(text=text, exit_code=code, error=error),
    st.sampled_from(["", "[File: a (0 lines total)]\n<<<<< START CURSOR >>>>>", "Ran 1 test in 1s\n\nOK", "\x1b[3"]),
    st.sampled_from([None, 0, 1, -1, 127]),
    st.sampled_from([None, True, False]),
)


@settings(max_examples=600, deadline=None)
@given(ACTIONS, CONTEXTS, ANSWERS)
def test_nothing_raises_and_nothing_outside_is_edited(action: Action, context: Context, answer: Observation) -> None:
    """Keys, changed paths and outcomes of anything; and the observation changes no key."""
    found, _ = interpret(action, context, answer)
    for operation in found:
        validation(operation, answer)
        assert not any(is_outside(path) for path in changed_paths(operation)), (action, operation)
    did_not_happen(action, answer)
    without, _ = interpret(action, context)
    assert [keys_of(o) for o in without] == [keys_of(o) for o in found]
