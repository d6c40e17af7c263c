"""What the editors' own edits leave of a file, and runs that use them (``docs/science.md §2``)."""

from __future__ import annotations

import pytest

from handoff.editors.plain import Misfit, Unknowable, edit_lines, insert_lines, replace
from handoff.git.repositories import Repository
from handoff.states.replay import replay
from handoff.trajectory import Action, Observation, Step
from tests.states.conftest import FILES, bash, commit, recording


def test_a_replacement_may_be_bound_to_the_lines_shown() -> None:
    """A windowed editor counts occurrences there and nowhere else."""
    data = b"x\ny\nx\nz\n"
    assert replace(data, "x", "q", "one", 2, 3) == b"x\ny\nq\nz\n"
    assert replace(data, "y\nx", "q", "one", 2, None) == b"x\nq\nz\n"
    with pytest.raises(Misfit, match="more than once"):
        replace(data, "x", "q", "one")
    with pytest.raises(Misfit, match="does not occur"):
        replace(data, "x", "q", "one", 4, None)


def test_a_loose_editor_takes_the_first_or_is_not_known() -> None:
    assert replace(b"x\nx\n", "x", "q", "loose") == b"q\nx\n"
    with pytest.raises(Unknowable, match="resembles"):
        replace(b" x\n", "\tx", "q", "loose")


def test_an_insertion_at_the_end_takes_the_last_line_feed() -> None:
    """As SWE-agent's ``insert`` without a line does it."""
    assert insert_lines(b"a\n", None, "b") == b"a\nb"
    assert insert_lines(b"", None, "b") == b"b"
    assert insert_lines(b"a\n", 0, "b") == b"b\na\n"


def test_lines_are_replaced_as_a_plain_editor_does_it() -> None:
    assert edit_lines(b"a\nb", 1, 1, "c") == b"c\nb"
    assert edit_lines(b"a\nb\n", 2, 9, "c") == b"a\nc\n"


def command(line: str, output: str) -> Step:
    """A step of SWE-agent: the command as text."""
    action = Action(tool=line.split(None, 1)[0], arguments=line, is_text=True)
    return Step(actions=(action,), observations=(Observation(text=output),))


def screen(*lines: str, first: int, last: int) -> str:
    numbered = [f"{number}:{line}" for number, line in enumerate(lines, 1)]
    numbered.insert(last, "<<<<< END CURSOR >>>>>")
    numbered.insert(first - 1, "<<<<< START CURSOR >>>>>")
    return "\n".join([f"[File: /testbed/src/pager.py ({len(lines)} lines total)]", *numbered])


def test_edits_at_cursors_are_replayed(repository: Repository, base: str) -> None:
    """The shape of a real run of 0.x: one edit refused, one made, over what ``set_cursors`` chose."""
    old = FILES["src/pager.py"].decode().splitlines()
    new = [old[0], "    return items[:size]", *old[2:]]
    tree = repository.tree_of(base)
    fixed = {"src/pager.py": ("\n".join(new) + "\n").encode()}
    refused = "Your proposed edit has introduced new syntax error(s). Please understand the fixes and retry.\n"
    run = recording(
        command("open src/pager.py", screen(*old, first=1, last=1)),
        command("set_cursors 2 2", screen(*old, first=2, last=2)),
        command("edit\nreturn items[:size]\nend_of_edit", refused + screen(*old, first=2, last=2)),
        command(f"edit\n{new[1]}\nend_of_edit", screen(*new, first=2, last=2) + "\nFile updated."),
        base=base,
        patch=repository.diff(tree, repository.write_tree(tree, fixed)),
    )
    done = replay(run, "t_1", repository)
    assert done.status == "verified", done.reason
    assert done.trees[3] == tree
    assert done.trees[4] == repository.write_tree(tree, fixed)


def test_an_edit_of_the_lines_shown_is_replayed(repository: Repository, base: str) -> None:
    """1.x: the text occurs twice in the file and once on the screen."""
    data = b"a = 1\n" + b"pass\n" * 200 + b"a = 1\n"
    start = commit(repository.git_dir, {"a.py": data}, "Twice", parent=base)
    shown = "[File: /testbed/a.py (202 lines total)]\n(102 more lines above)\n"
    shown += "\n".join(f"{n}:{'a = 1' if n == 202 else 'pass'}" for n in range(103, 203))
    tree = repository.tree_of(start)
    fixed = repository.write_tree(tree, {"a.py": data[:-6] + b"a = 2\n"})
    run = recording(
        command("open a.py 202", shown),
        command("edit 'a = 1' 'a = 2'", "Text replaced."),
        base=start,
        patch=repository.diff(tree, fixed),
    )
    done = replay(run, "t_2", repository)
    assert done.status == "verified", done.reason
    assert done.trees[2] == fixed


def test_sed_is_replayed_as_far_as_it_is_understood(repository: Repository, base: str) -> None:
    """Exact scripts keep the run verified; the first that is not makes it partial, for that file."""
    tree = repository.tree_of(base)
    data = FILES["src/pager.py"].replace(b"items[0:size]", b"items[:size]").replace(b"\n\n\n", b"\n\n")
    fixed = repository.write_tree(tree, {"src/pager.py": data})
    run = recording(
        bash(r"sed -i 's/\[0:\([a-z]*\)\]/[:\1]/; 3d' src/pager.py"),
        base=base,
        patch=repository.diff(tree, fixed),
    )
    done = replay(run, "t_3", repository)
    assert done.status == "verified", done.reason
    run = recording(bash("sed -i 's/items[0:size]/x/; s/a|b/c/p' src/pager.py"), base=base)
    assert replay(run, "t_4", repository).status == "partial"
