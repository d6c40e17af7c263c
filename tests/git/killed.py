"""A program that is killed at every place where it touches the disk, one after another, and looks what is left.

``python -m tests.git.killed STORE BASE FIRST STEP``: writes states into a copy of STORE, is killed (SIGKILL, in a
process of its own) at file operation FIRST, FIRST + STEP, … until a run comes through, and prints what it found.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from pathlib import Path

from handoff.git import packs
from handoff.git.importer import Chain, write_chains
from handoff.git.objects import write_loose
from handoff.git.repositories import Repository
from handoff.git.templates import take_template, trim

EVENTS = ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.utime", "subprocess.Popen", "fcntl.flock")


def chains(base: str, name: str) -> list[Chain]:
    return [
        Chain(f"t_{name}{n}", base, [{f"f{k}": ("100644", f"{name}{n}{k}".encode() * 99)} for k in range(3)])
        for n in range(3)
    ]


def prepare(git_dir: Path, base: str) -> None:
    """Enough packs and loose objects that the next writer tidies."""
    for number in range(packs.MOST_PACKS):
        with Repository(git_dir) as repository:
            write_chains(repository, chains(base, f"before{number}"))
    for number in range(40):
        write_loose(git_dir, "blob", b"%d" % number)


def work(git_dir: Path, base: str) -> list[list[tuple[str, str]]]:
    """What is killed: states are written, the store is tidied, a template is made and another removed."""
    with Repository(git_dir) as repository:
        written = write_chains(repository, chains(base, "now"))
        take_template(repository, base).close()
        trim(git_dir.parent, 0)
        take_template(repository, base).close()
    return [item.states for item in written]


def killed_at(number: int, git_dir: Path, base: str) -> bool:
    """Whether the work was killed at its ``number``-th file operation; ``False``: it has fewer."""
    child = os.fork()
    if child == 0:
        left = number

        def hook(event: str, _: object) -> None:
            nonlocal left
            if event in EVENTS:
                left -= 1
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(hook)
        try:
            work(git_dir, base)
        finally:
            os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def check(git_dir: Path, base: str, wanted: list[list[tuple[str, str]]]) -> None:
    """The store is whole, the same work gives the same states, and nothing is left over."""
    with Repository(git_dir) as repository:
        repository.git("fsck", "--full", "--no-dangling")
        listed = repository.git("for-each-ref", "--format=%(refname)", "refs/handoff").split()
        assert {f"refs/handoff/{c.trajectory_id}".encode() for c in chains(base, "before0")} <= set(listed)
    assert work(git_dir, base) == wanted
    packs.tidy(git_dir)
    with Repository(git_dir) as repository:
        for states in wanted:
            for commit, tree in states:
                assert repository.tree_of(commit) == tree
        for number in range(40):
            assert repository.lacking([write_loose(git_dir, "blob", b"%d" % number)]) == []
        repository.git("fsck", "--full", "--no-dangling")
    assert list((git_dir / "handoff-incoming").iterdir()) == [], "incoming"
    assert not list((git_dir / "objects/pack").glob("tmp_*"))
    assert len(packs.own_packs(git_dir)) <= packs.MOST_PACKS
    marks = {path.name for path in (git_dir / "handoff-packs").iterdir()}
    assert marks == {pack.name for pack in packs.own_packs(git_dir)}
    hidden = [path.name for path in (git_dir / "handoff-templates").iterdir() if path.name.startswith(".")]
    assert not hidden, hidden
    assert (git_dir / "handoff-templates" / base / "repo" / ".git" / "HEAD").is_file()


def main(store: str, base: str, first: str, step: str) -> None:
    packs.MOST_PACKS, packs.MOST_LOOSE, packs.MOST_LOOSE_REFS = 4, 0, 8
    source = Path(store)
    prepare(source, base)
    folder = source.parent / "copies"
    shutil.copytree(source, folder / "reference" / "s.git", symlinks=True)
    wanted = work(folder / "reference" / "s.git", base)
    number, times = int(first), 0
    while True:
        git_dir = folder / str(number) / "s.git"
        shutil.copytree(source, git_dir, symlinks=True)
        was_killed = killed_at(number, git_dir, base)
        try:
            check(git_dir, base, wanted)
        except Exception:
            print(f"killed at operation {number}", file=sys.stderr)
            raise
        shutil.rmtree(folder / str(number))
        if not was_killed:
            break
        times += 1
        number += int(step)
    print(times)


if __name__ == "__main__":
    main(*sys.argv[1:])
