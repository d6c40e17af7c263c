"""The workshop of one process: warm test server, memo and git templates, from which environments are opened.

A lab runs one environment at a time, always in the same work folder, which the sandbox shows as ``/repo``. Running
many jobs on several processes is in ``pool.py``.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from handoff import folders
from handoff.errors import SandboxError
from handoff.git.repository import Repository
from handoff.kata import store
from handoff.kata.environment import KataEnvironment, empty, write_files
from handoff.kata.testserver import Memo, TestRun, TestServer
from handoff.sandbox import Limits, Mount, Sandbox, missing, open_sandbox, python_paths

GIT_NAME = "kata.git"
"""The store of all kata repositories, under the project's ``git`` folder."""

_SERVER = Path(__file__).with_name("fork_server.py")


def choose_sandbox(name: str = "auto") -> str:
    """The back end to use: bubblewrap where it works, else the host (kata code is our own). ``auto`` chooses.

    ``docker`` does too: the embedded world needs this machine's Python and no image.
    """
    if name not in ("auto", "docker"):
        return name
    return "bubblewrap" if missing("bubblewrap") is None else "host"


class KataLab:
    """Opens environments. A context manager; belongs to one process and one thread."""

    def __init__(self, data: Path, *, sandbox: str = "auto", worker: str = "0") -> None:
        """``data``: the project's folder; ``worker``: a name of its own for every lab that is open at once."""
        self.git_dir = data / "git" / GIT_NAME
        self._sandbox = choose_sandbox(sandbox)
        self.is_unwalled = self._sandbox == "host" and sandbox != "host"
        """Commands run on the host although nobody asked for that: for the embedded world's own policies alone."""
        self._home = data / "sandboxes" / f"kata-{worker}"
        self._work = self._home / "work"
        folders.remove(self._home)
        self._home.mkdir(mode=0o700, parents=True)  # closed to others: an agent may leave set-user-id programs
        self._work.mkdir()
        self._store = Repository(self.git_dir)
        self._memo = Memo(data / "journal" / "kata-memo", worker)
        self._jail: Sandbox | None = None
        self._server: TestServer | None = None
        self._open: KataEnvironment | None = None
        self._tree = lru_cache(maxsize=512)(self._read_tree)

    def __enter__(self) -> KataLab:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def test_runs(self) -> int:
        """How often pytest really ran."""
        return 0 if self._server is None else self._server.runs

    def environment(
        self, repo: str, base_commit: str, tree: str | None = None, changes: Mapping[str, str | None] | None = None
    ) -> KataEnvironment:
        """The state ``tree`` of ``repo`` with git history up to ``base_commit``; the one opened before is closed.

        ``tree``: the base commit's when ``None``; ``changes``: path → text, ``None`` to delete, on top of it.
        """
        if self._open is not None:
            self._open.close()
        base = self._tree(base_commit)
        files = dict(self._tree(tree or base_commit))
        for path, text in sorted((changes or {}).items()):
            if text is None:
                files.pop(path, None)
            else:
                files[path] = text
        empty(self._work)
        shutil.copytree(self._template(repo, base_commit), self._work / ".git")
        write_files(self._work, files)
        self._open = KataEnvironment(
            work=self._work,
            git_dir=self.git_dir,
            base=base,
            annex=self._emptied(),
            open_shell=self._shell,
            open_jail=self._agents_jail,
            run_tests=self._test,
        )
        return self._open

    def test(self, repo: str, base_commit: str, tree: str) -> tuple[int, int]:
        """(passed, total) of the base commit's tests on a state."""
        environment = self.environment(repo, base_commit, tree)
        verdict = environment.verdict()
        return verdict.passed or 0, verdict.total or 0

    def files(self, tree: str) -> Mapping[str, str]:
        """Path → text of a tree or commit in the store."""
        return self._tree(tree)

    def _read_tree(self, tree: str) -> Mapping[str, str]:
        return store.read_tree(self._store, tree)

    def _shell(self) -> Sandbox:
        return open_sandbox(self._sandbox, self._work, limits=Limits(wall_s=30.0))

    def _agents_jail(
        self, *, read_only: Sequence[Path], mounts: Sequence[Mount], env: Mapping[str, str], limits: Limits
    ) -> Sandbox:
        shown = [*python_paths(), *read_only]
        return open_sandbox(self._sandbox, self._work, limits=limits, read_only=shown, mounts=mounts, env=env)

    def _emptied(self) -> Path:
        """Where the folder beside the work folder will be; what an agent left there is removed."""
        folder = self._home / "annex"
        folders.remove(folder)
        return folder

    def _test(self, tree: str, target: str) -> TestRun:
        known = self._memo.get(tree, target)
        if known is not None:
            return known
        if self._server is None:
            self._jail = open_sandbox(
                self._sandbox, self._work, limits=Limits(wall_s=30.0), read_only=[*python_paths(), _SERVER.parent]
            )
            # -I: nothing of the user's own site or of the folder it starts in
            argv = [sys.executable, "-I", str(_SERVER)]
            self._server = TestServer(self._jail.spawn(argv), self._jail.root)
        run = self._server.run(target)
        self._memo.put(tree, target, run)
        return run

    def _template(self, repo: str, commit: str) -> Path:
        """A ``.git`` folder that knows the base commit and nothing else: no remote, tag, reflog or later commit."""
        folder = self._home / "templates" / commit
        if folder.exists():
            return folder
        aside, empty_one = folder.with_name("aside"), folder.with_name("empty")

        def git(at: Path, *arguments: str) -> None:
            done = subprocess.run(
                ["git", "--git-dir", str(at), *arguments],
                capture_output=True,
                check=False,
                env=store.git_environment(),
            )
            if done.returncode:
                raise SandboxError(f"no git folder for {repo} at {commit}: {done.stderr.decode('utf-8', 'replace')}")

        if not empty_one.exists():
            folder.parent.mkdir(parents=True, exist_ok=True)
            git(empty_one, "init", "--quiet", "--template=", "--initial-branch=main")
            git(empty_one, "config", "core.bare", "false")
        folders.remove(aside)
        shutil.copytree(empty_one, aside)
        # one pack, and not a folder for each object: every environment copies and removes this
        settings = ("-c", "fetch.unpackLimit=1", "-c", "core.logAllRefUpdates=false")
        fetch = ("fetch", "--quiet", "--no-tags", "--update-head-ok", "--no-write-fetch-head")
        git(aside, *settings, *fetch, str(self.git_dir.absolute()), f"{commit}:refs/heads/main")
        git(aside, "read-tree", "main")
        aside.replace(folder)
        return folder

    def close(self) -> None:
        """End everything that runs, and remove the work folder."""
        if self._open is not None:
            self._open.close()
        if self._server is not None:
            self._server.close()
        if self._jail is not None:
            self._jail.close()
        self._memo.close()
        self._store.close()
        folders.remove(self._home)
