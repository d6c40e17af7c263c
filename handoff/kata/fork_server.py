"""The program that serves pytest runs inside the sandbox. Standard library and pytest only; nothing of handoff.

It imports pytest once, runs one tiny suite to load what pytest loads late, then answers requests, one JSON object a
line on standard input: ``{"folder": …, "arguments": […], "seconds": …, "bytes": …}``. Each run is a fork that changes
into the folder; the answer is ``{"exit_code": int | null, "output": str, "is_truncated": bool}`` on one line, where a
null exit code means that the time was over. No bytecode is written: two edits within one second that keep a file's
size would otherwise run stale code.

Started by ``testserver.py`` as a plain script, so that it needs nothing but a Python with pytest.
"""

from __future__ import annotations

import ast
import contextlib
import gc
import glob
import io
import json
import os
import pathlib
import resource
import selectors
import signal
import sys
import tempfile
import time
import types

MEMORY_BYTES = 2 * 1024**3
UNUSED = (
    "cacheprovider", "debugging", "doctest", "faulthandler", "junitxml", "legacypath", "logging", "monkeypatch",
    "pastebin", "pytester", "recwarn", "setuponly", "setupplan", "stepwise", "subtests", "tmpdir", "unittest",
    "unraisableexception", "threadexception", "warnings",
)  # fmt: skip
PLUGINS = [part for name in UNUSED for part in ("-p", f"no:{name}")]


class RewrittenTests:
    """Test modules with pytest's own assertion rewriting done once, in the parent, for all runs that follow.

    A third of a small run is this rewriting, and test files hardly ever change. Only parsing happens here; nothing of
    the work tree is executed outside a fork. Where this pytest keeps the rewriting elsewhere, nothing is cached.
    """

    LIMIT = 512

    def __init__(self) -> None:
        from _pytest.assertion import rewrite

        self._rewrite = rewrite
        self._known: dict[tuple[str, bytes], types.CodeType] = {}
        self._original = getattr(rewrite, "_rewrite_test", None)
        if self._original is not None:
            setattr(rewrite, "_rewrite_test", self._rewrite_test)  # noqa: B010 - a private name

    def prepare(self, folder: str) -> None:
        """Rewrite the test files of a work tree that were not seen before."""
        if self._original is None:
            return
        for path in sorted(glob.glob("tests/test_*.py", root_dir=folder)):  # noqa: PTH207
            place = os.path.join(folder, path)  # noqa: PTH118
            try:
                with open(place, "rb") as file:  # noqa: PTH123
                    data = file.read(1_000_000)
                if (place, data) in self._known:
                    continue
                tree = ast.parse(data, filename=place)
                self._rewrite.rewrite_asserts(tree, data, place, None)
                code = compile(tree, place, "exec", dont_inherit=True)
            except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
                continue  # pytest will say what is wrong with it
            while len(self._known) >= self.LIMIT:
                self._known.pop(next(iter(self._known)))
            self._known[place, data] = code

    def _rewrite_test(self, path: pathlib.Path, config: object) -> object:
        code = self._known.get((str(path), path.read_bytes()))
        if code is None:
            return self._original(path, config)  # type: ignore[misc]
        return path.stat(), code


def warm_up() -> None:
    """Load what pytest imports lazily, by running one passing and one failing test."""
    import pytest

    home = os.getcwd()  # noqa: PTH109
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/test_warm.py", "w", encoding="utf-8") as file:  # noqa: PTH123
            file.write("def test_a():\n    assert [1, 2] == [1, 2]\n\n\ndef test_b():\n    assert [1] == [2]\n")
        os.chdir(folder)
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            pytest.main(["-q", "--tb=short", *PLUGINS, "test_warm.py"])
        os.chdir(home)
    sys.modules.pop("test_warm", None)


def run_child(folder: str, arguments: list[str], write_end: int) -> None:
    """The forked half: never returns."""
    status = 3
    try:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.dup2(write_end, 1)
        os.dup2(write_end, 2)
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", errors="replace")
        sys.stderr = sys.stdout
        os.chdir(folder)
        sys.path.insert(0, folder)  # as `python -m pytest` does
        import pytest

        status = int(pytest.main([*PLUGINS, *arguments]))
        sys.stdout.flush()
    finally:
        os._exit(status)


def serve(request: dict[str, object], rewritten: RewrittenTests) -> dict[str, object]:
    """One run."""
    rewritten.prepare(str(request["folder"]))
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read_end)
        run_child(str(request["folder"]), list(request["arguments"]), write_end)  # type: ignore[call-overload]
    os.close(write_end)
    limit = int(request["bytes"])  # type: ignore[call-overload]
    deadline = time.monotonic() + float(request["seconds"])  # type: ignore[arg-type]
    output = bytearray()
    size, timed_out = 0, False
    with selectors.DefaultSelector() as selector:
        selector.register(read_end, selectors.EVENT_READ)
        while True:
            left = deadline - time.monotonic()
            if left <= 0 or not selector.select(left):
                timed_out = True
                break
            chunk = os.read(read_end, 65536)
            if not chunk:
                break
            size += len(chunk)
            output += chunk[: max(0, limit - len(output))]
    os.close(read_end)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)  # what the tests left behind dies with them
    if timed_out:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    code = None if timed_out else os.waitstatus_to_exitcode(status)
    return {"exit_code": code, "output": output.decode("utf-8", "replace"), "is_truncated": size > limit}


def main() -> None:
    """Serve until standard input closes."""
    sys.dont_write_bytecode = True
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    os.environ["PYTHONHASHSEED"] = "0"
    rewritten = RewrittenTests()
    warm_up()
    gc.collect()
    gc.freeze()
    gc.disable()
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    print(json.dumps({"ready": True}), file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(serve(json.loads(line), rewritten)), file=answers, flush=True)


if __name__ == "__main__":
    main()
