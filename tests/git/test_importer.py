"""Writers of one store take turns, and one that is killed leaves nothing half-referenced."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

from handoff.git.importer import Chain, write_chains
from handoff.git.repositories import Repository

_WRITER = """
import sys
from pathlib import Path
from handoff.git.importer import Chain, write_chains
from handoff.git.repositories import Repository
git_dir, base, name, count = sys.argv[1:]
with Repository(Path(git_dir)) as repository:
    print("ready", flush=True)
    for _ in range(100 if count == "many" else 1):
        chains = [
            Chain(f"{name}_{n}",
                  base, [{f"f{k}": ("100644", bytes([k, n]) * 2000)} for k in range(20)]) for n in range(20)
        ]
        write_chains(repository, chains)
"""


def writer(repository: Repository, base: str, name: str, count: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", _WRITER, str(repository.git_dir), base, name, count]
    return subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2])


def test_a_killed_writer_leaves_a_usable_store(repository: Repository, base: str) -> None:
    """Whatever was referenced is whole; the next writer finds the lock free and sweeps the rest."""
    for wait in (0.0, 0.02, 0.1):
        process = writer(repository, base, "t_k", "many")
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(wait)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        repository.git("fsck", "--full", "--connectivity-only", "--no-dangling")
        [done] = write_chains(repository, [Chain("t_after", base, [{"a": ("100644", b"a")}])])
        assert repository.read(done.states[1][1], "a") == b"a"
        assert not list(repository.git_dir.glob("objects/pack/tmp_*"))


def test_writers_of_one_store_take_turns(repository: Repository, base: str) -> None:
    writers = [writer(repository, base, f"t_w{n}", "once") for n in range(3)]
    for process in writers:
        process.communicate()
        assert process.returncode == 0
    repository.git("fsck", "--full", "--no-dangling")
    refs = repository.git("for-each-ref", "--format=%(refname)", "refs/handoff").split()
    assert len(refs) == 60


def test_odd_paths_and_an_empty_tree_are_stored(repository: Repository, base: str) -> None:
    odd = 'a "quoted"\n\té\udcff/x y'
    everything = dict.fromkeys(repository.files(repository.tree_of(base)))
    [done] = write_chains(repository, [Chain("t_o", base, [{odd: ("100644", b"1")}, {**everything, odd: None}])])
    assert repository.read(done.states[1][1], odd) == b"1"
    assert repository.files(done.states[2][1]) == {}
