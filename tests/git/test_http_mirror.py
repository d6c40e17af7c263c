"""A repository behind a real HTTP server: mirrored without its texts, which are fetched as they are needed."""

from __future__ import annotations

import gzip
import http.server
import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from handoff.git.repositories import Repositories, run_git

BACKEND = Path(subprocess.run(["git", "--exec-path"], capture_output=True, check=True).stdout.decode().strip())
SERVES = BACKEND / "git-http-backend"
pytestmark = pytest.mark.skipif(not SERVES.exists(), reason="git has no http-backend here")

BIG = b"".join(b"line %d\n" % n for n in range(200_000))


class Served:
    """git's own HTTP server on loopback. ``asked``: the bodies of requests."""

    def __init__(self, root: Path) -> None:
        self.asked: list[bytes] = []
        owner = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: object) -> None:
                pass

            def _answer(self) -> None:
                path, _, query = self.path.partition("?")
                body = self._body()
                encoding = self.headers.get("Content-Encoding", "")
                owner.asked.append(gzip.decompress(body) if encoding == "gzip" else body)
                env = {
                    **os.environ,
                    "GIT_PROJECT_ROOT": str(root),
                    "GIT_HTTP_EXPORT_ALL": "1",
                    "PATH_INFO": path,
                    "QUERY_STRING": query,
                    "REQUEST_METHOD": self.command,
                    "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                    "CONTENT_LENGTH": str(len(body)),
                    "HTTP_CONTENT_ENCODING": encoding,
                    "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
                    "REMOTE_ADDR": "127.0.0.1",
                }
                done = subprocess.run([SERVES], input=body, env=env, capture_output=True, check=False)
                head, _, data = done.stdout.partition(b"\r\n\r\n")
                fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if ": " in line)
                self.send_response(int(fields.pop("Status", "200").split()[0]))
                for name, value in fields.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def _body(self) -> bytes:
                if self.headers.get("Transfer-Encoding") != "chunked":
                    return self.rfile.read(int(self.headers.get("Content-Length") or 0))
                parts = []
                while size := int(self.rfile.readline(), 16):
                    parts.append(self.rfile.read(size))
                    self.rfile.readline()
                self.rfile.readline()
                return b"".join(parts)

            do_GET = do_POST = _answer  # as the base class names them

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/pager.git"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """One repository: a large file on its branch, and a commit that no branch holds."""
    source = tmp_path / "served" / "pager.git"
    run_git("init", "--quiet", "--bare", "--template=", "--initial-branch=main", source)
    script = b"".join(
        b"commit refs/heads/%s\nmark :%d\ncommitter A <a@example.invalid> %d +0000\ndata 1\nx\n%s"
        b"M 100644 inline big.txt\ndata %d\n%s\nM 100644 inline a.py\ndata %d\n%s\n"
        % (branch, mark, 1_700_000_000 + mark, parent, len(big), big, len(small), small)
        for branch, mark, parent, big, small in (
            (b"main", 1, b"", BIG, b"a = 1\n"),
            (b"gone", 2, b"from :1\n", BIG[:-9], b"a = 2\n"),
        )
    )
    run_git("--git-dir", source, "fast-import", "--quiet", stdin=script)
    for name in ("uploadpack.allowFilter", "uploadpack.allowAnySHA1InWant"):
        run_git("--git-dir", source, "config", name, "true")
    at = Served(source.parent)
    yield at
    at.close()


def test_a_mirror_over_http_is_partial_and_commits_are_fetched_by_id(served: Served, tmp_path: Path) -> None:
    source = tmp_path / "served" / "pager.git"
    gone = run_git("--git-dir", source, "rev-parse", "refs/heads/gone").decode().strip()
    run_git("--git-dir", source, "update-ref", "-d", "refs/heads/gone")
    with Repositories(tmp_path / "git", {"o/pager": served.url}) as repositories:
        repository = repositories.open("o/pager", gone)
        assert b"".join(served.asked).count(b"filter blob:none") >= 1
        before = len(served.asked)
        tree = repository.tree_of(gone)
        assert sorted(repository.files(tree)) == ["a.py", "big.txt"]
        assert repository.read(tree, "a.py") == b"a = 2\n"
        assert len(served.asked) > before  # its text came when it was asked for
        packs = sum(path.stat().st_size for path in repository.git_dir.rglob("*.pack"))
        assert packs < 100_000  # and the large files did not
