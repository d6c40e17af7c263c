"""Small histories of every kind a branch may hold, made with one ``git fast-import``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from handoff.git.repositories import run_git

Entry = tuple[str, bytes] | None
"""(mode, content; for a submodule the id of its commit), or ``None`` for no file."""

PERSON = "Ada Byron <ada@byron.example>"


class Made(NamedTuple):
    """One commit to make: what it changes, on top of which earlier ones (by place; empty: a root)."""

    changes: Mapping[bytes, Entry] = {}
    parents: tuple[int, ...] | None = None
    """``None``: the one before, if there is one."""
    message: bytes | None = None
    author: str = PERSON
    when: str = "1700000000 +0130"


def make(folder: Path, commits: Sequence[Made], branches: Mapping[str, int], *, bare: bool = True) -> list[str]:
    """A repository of these commits with these branches (name → place); the commits' ids. ``HEAD`` is ``main``."""
    run_git("init", "--quiet", "--template=", "--initial-branch=main", *(["--bare"] if bare else []), folder)
    git_dir = folder if bare else folder / ".git"
    lines: list[bytes] = []
    for place, commit in enumerate(commits):
        parents = commit.parents if commit.parents is not None else (place - 1,) if place else ()
        lines.append(b"commit refs/made/%d\nmark :%d\n" % (place, place + 1))
        lines.append(b"author %s %s\n" % (commit.author.encode(), commit.when.encode()))
        lines.append(b"committer %s %s\n" % (PERSON.encode(), commit.when.encode()))
        message = b"Change %d" % place if commit.message is None else commit.message
        lines.append(b"data %d\n%s\n" % (len(message), message))
        lines += [b"%s :%d\n" % (b"merge" if n else b"from", parent + 1) for n, parent in enumerate(parents)]
        for path, entry in sorted(commit.changes.items(), key=lambda item: (item[1] is not None, item[0])):
            name = b'"' + b"".join(b"\\%03o" % byte for byte in path) + b'"'
            if entry is None:
                lines.append(b"D %s\n" % name)
            elif entry[0] == "160000":
                lines.append(b"M 160000 %s %s\n" % (entry[1], name))
            else:
                lines.append(b"M %s inline %s\ndata %d\n%s\n" % (entry[0].encode(), name, len(entry[1]), entry[1]))
    run_git("--git-dir", git_dir, "fast-import", "--quiet", "--force", stdin=b"".join(lines) + b"\n")
    refs = run_git("--git-dir", git_dir, "for-each-ref", "--format=%(objectname) %(refname)", "refs/made/")
    by_place = {
        int(name.rsplit("/", 1)[1]): id_
        for id_, name in (line.split(" ") for line in refs.decode().split("\n") if line)
    }
    for name, place in branches.items():
        run_git("--git-dir", git_dir, "update-ref", f"refs/heads/{name}", by_place[place])
    for place in by_place:
        run_git("--git-dir", git_dir, "update-ref", "-d", f"refs/made/{place}")
    return [by_place[place] for place in range(len(commits))]


SUBMODULE = b"d" * 40
HARD = (
    Made(
        {
            b"pager.py": ("100644", b"def page(items, size):\n    return items[:size]\n"),
            b"old.txt": ("100644", b"1\n2\n3\n"),
        }
    ),
    Made(
        {b"logo.png": ("100644", bytes(range(256))), b"crlf.txt": ("100644", b"one\r\ntwo\r\n")}, message=b"Add a logo"
    ),
    Made({b"run.sh": ("100755", b"echo\n"), b"link": ("120000", b"pager.py"), b"vendor/lib": ("160000", SUBMODULE)}),
    Made(message=b"Empty on purpose\n\nCo-authored-by: Grace Hopper <grace@navy.example>\n"),
    Made({b"old.txt": None, b"docs/new name.txt": ("100644", b"1\n2\n3\n")}, message=b"Rename, see ada@byron.example"),
    Made({b"run.sh": ("100644", b"echo\n"), b"link": ("100644", b"no link\n"), b'sp"ec\tial.txt': ("100644", b"")}),
    Made({b"b\xe9b\xe9.txt": ("100644", b"b\xe9b\xe9\n"), b"logo.png": None, b"vendor/lib": ("160000", b"e" * 40)}),
    Made({b"main.txt": ("100644", b"main\n")}, parents=(0,), message=b"On main"),
    Made({b"main.txt": ("100644", b"main\n")}, parents=(6, 7), message=b"Merge branch 'main' into hard"),
    Made(
        {b"diff --git a/x b/x": ("100644", b"diff --git a/y b/y\nnew file mode 100644\n")},
        author="copilot-swe-agent[bot] <198982749+Copilot@users.noreply.github.com>",
        message=b"Done\n\nCo-Authored-By: Claude <noreply@anthropic.com>\nSigned-off-by: Ada Byron\n",
    ),
)
"""What makes a diff hard: binary files, modes, links, submodules, odd names, no UTF-8, a merge, a program's commit."""
