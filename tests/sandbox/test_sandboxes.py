"""One body for every back end: what a sandbox promises about commands."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from handoff.errors import SandboxError
from handoff.sandbox import Limits, Sandbox, available, open_sandbox, python_paths
from tests.sandbox.conftest import BACK_ENDS, Open

LIMITS = Limits(memory_mb=512, processes=60, file_mb=8, disk_mb=64, wall_s=10, output_kb=16)


@pytest.fixture(params=BACK_ENDS)
def sandbox(request: pytest.FixtureRequest, tmp_path: Path, opened: Open) -> Sandbox:
    more = {} if request.param == "docker" else {"read_only": python_paths()}  # an image has its own Python
    return opened(request.param, tmp_path, limits=LIMITS, **more)


def test_a_command_gives_its_output_and_exit_code(sandbox: Sandbox) -> None:
    """Both streams come back in the order written, with the exit code of the last command."""
    done = sandbox.run("echo one; echo two >&2; echo three; (exit 7)")
    assert (done.output, done.exit_code, done.notice) == ("one\ntwo\nthree\n", 7, "")


def test_folder_and_variables_last(sandbox: Sandbox) -> None:
    """The shell is one shell: what a command sets, the next one sees."""
    sandbox.run("mkdir -p sub && cd sub && x=5 && f() { echo f$1; }")
    assert sandbox.run('echo "$x" "$PWD"; f 1').output == f"5 {sandbox.root}/sub\nf1\n"


def test_a_command_that_hangs_is_stopped_and_the_next_one_runs_in_its_folder(sandbox: Sandbox) -> None:
    """The notice says that it was stopped and where the new shell starts; nothing of it goes on running."""
    sandbox.run("mkdir sub; cd sub; x=5")
    done = sandbox.run("echo before; sleep 60", 0.2)
    assert done.timed_out
    assert done.exit_code is None
    assert done.text == (
        f"before\n[Stopped after 0.2 s: the command took too long. A new shell starts in {sandbox.root}/sub; "
        "variables and background processes are gone.]"
    )
    assert sandbox.run('echo "$PWD[$x]"').output == f"{sandbox.root}/sub[]\n"


def test_a_command_that_ignores_signals_is_stopped(sandbox: Sandbox) -> None:
    """Asking politely is not the means."""
    done = sandbox.run("trap '' TERM INT HUP; while :; do :; done", 0.2)
    assert done.timed_out
    assert done.seconds < 3


@pytest.mark.parametrize(
    ("command", "code"), [("exit 3", 3), ("exec true", 0), ("set -e; false", 1), ("kill -9 $$", 137)]
)
def test_a_shell_that_ends_is_started_again(sandbox: Sandbox, command: str, code: int) -> None:
    """``exit`` has its exit code; the next command gets a new shell."""
    done = sandbox.run(command)
    assert done.exit_code == code
    assert "The shell ended" in done.notice
    assert sandbox.run("echo on").output == "on\n"


def test_a_folder_that_is_gone_does_not_stop_the_next_shell(sandbox: Sandbox) -> None:
    """It starts in the work folder then."""
    sandbox.run("mkdir sub; cd sub; rmdir ../sub")
    sandbox.run("exit")
    assert sandbox.run("pwd").output == f"{sandbox.root}\n"


def test_endless_output_is_stopped_and_bounded(sandbox: Sandbox) -> None:
    """Beginning and end are kept, in bounded memory, and the gap is marked."""
    done = sandbox.run("yes")
    assert "MB of output" in done.notice
    assert done.is_truncated
    assert len(done.output) < 17 * 1024


def test_long_output_keeps_its_beginning_and_its_end(sandbox: Sandbox) -> None:
    """And no character is split by the cut."""
    done = sandbox.run("echo first; for i in $(seq 20000); do echo é; done; echo last")
    assert done.is_truncated
    assert done.output.startswith("first\n")
    assert done.output.endswith("last\n")
    assert "bytes left out" in done.output
    assert "\ufffd" not in done.output


def test_any_bytes_may_come_out(sandbox: Sandbox) -> None:
    """NUL and escapes are kept, invalid UTF-8 becomes U+FFFD, and the text can be written to a file."""
    done = sandbox.run(r"printf 'a\0b\xff\xed\xa0\x80\x1b[31m\r\n'")
    assert done.output == "a\0b\ufffd\ufffd\ufffd\ufffd\x1b[31m\r\n"
    done.output.encode()


def test_a_command_with_a_nul_is_not_run(sandbox: Sandbox) -> None:
    """No shell could be given it."""
    assert "NUL" in sandbox.run("echo a\0b").notice


def test_a_command_may_be_long_and_hold_any_text(sandbox: Sandbox) -> None:
    """Longer than a pipe, with quotes, here-documents and lone surrogates."""
    text = "é'\"$`\\\n" * 30_000
    done = sandbox.run(f"cat <<'END' | wc -c\n{text}END\n")
    assert done.output.strip() == str(len(text.encode()))
    assert sandbox.run("echo '\ud800'").output == "?\n"


def test_a_broken_command_is_an_observation(sandbox: Sandbox) -> None:
    """A syntax error ends the command, not the shell."""
    assert "syntax error" in sandbox.run("if then").output
    assert sandbox.run("echo 'open").exit_code == 2
    assert sandbox.run("echo on").output == "on\n"


def test_a_command_finds_no_input(sandbox: Sandbox) -> None:
    """Reading stdin ends at once and never eats the next command."""
    assert sandbox.run("cat; read x; echo end").output == "end\n"


def test_a_background_child_that_holds_the_output_does_not_hold_the_command(sandbox: Sandbox) -> None:
    """The command ends when the shell says so, and the child lives on until the sandbox is closed."""
    done = sandbox.run("(sleep 0.3; echo late) & echo now")
    assert (done.output, done.seconds < 0.3) == ("now\n", True)
    time.sleep(0.4)
    assert sandbox.run("echo next").output == "late\nnext\n"


def test_the_channel_cannot_be_talked_to(sandbox: Sandbox) -> None:
    """What a command writes to descriptors not its own is refused or ends in a new shell, never in confusion."""
    for number in range(3, 70):
        sandbox.run(f"echo '0000000001 0 /' >&{number}", 0.5)
    assert sandbox.run("echo on; (exit 4)").exit_code == 4
    done = sandbox.run(r"printf '9999999999 0 /\0' > /dev/fd/11 || true; sleep 0.05; printf 'x\0' >&10; (exit 5)")
    assert done.exit_code in (None, 5)
    assert sandbox.run("echo on").output == "on\n"


def test_redirecting_the_shell_itself_does_not_silence_it(sandbox: Sandbox) -> None:
    """``exec >file`` lasts for its own command only."""
    sandbox.run("exec >gone 2>&1; echo hidden")
    assert sandbox.run("echo seen; cat gone").output == "seen\nhidden\n"


def test_a_file_cannot_grow_beyond_its_limit(sandbox: Sandbox) -> None:
    """Ten gigabytes are asked for and eight megabytes are written."""
    done = sandbox.run("dd if=/dev/zero of=big bs=1M count=10240")
    assert done.exit_code != 0
    assert sandbox.run("stat -c %s big").output == f"{8 << 20}\n"


def test_many_files_cannot_fill_the_disk(sandbox: Sandbox, tmp_path: Path) -> None:
    """The sum is bounded too, though not to the byte."""
    done = sandbox.run("for i in $(seq 1000); do dd if=/dev/urandom of=f$i bs=1M count=4 status=none; done")
    written = sum(file.stat().st_size for file in tmp_path.iterdir())
    assert "the work folder grew" in done.notice
    assert written < 1_000 << 20


def test_a_memory_hog_is_stopped(sandbox: Sandbox) -> None:
    """One process is refused by the kernel."""
    done = sandbox.run("python3 -c 'x = bytearray(2 << 30); print(len(x))'")
    assert done.exit_code == 1
    assert "MemoryError" in done.output


def test_memory_is_bounded_over_all_processes_and_kinds(sandbox: Sandbox) -> None:
    """Many processes together, and memory shared between them, count as well."""
    hog = "import mmap,time; m = mmap.mmap(-1, 150 << 20); m.write(b'x' * (150 << 20)); time.sleep(3)"
    done = sandbox.run(f'for i in 1 2 3 4 5 6; do python3 -c "{hog}" & done; wait')
    assert "MB of memory" in done.notice or "Killed" in done.output
    assert sandbox.run("echo on").output == "on\n"


def test_too_many_processes_are_stopped_together(sandbox: Sandbox) -> None:
    """They run into the limit, are killed whole, and the next command works."""
    done = sandbox.run("for i in $(seq 200); do sleep 5 & done; wait")
    assert "more than 60 processes" in done.notice or "annot fork" in done.output or "unavailable" in done.output
    assert sandbox.run("echo on").output == "on\n"


def test_nothing_of_the_hosts_environment_is_visible(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys live in variables: none is passed on, not even to a shell that is started later."""
    monkeypatch.setenv("SECRET_KEY_FOR_TEST", "swordfish")
    sandbox.run("exit")
    seen = sandbox.run("env; set; cat /proc/self/environ /proc/1/environ 2>/dev/null").output
    assert "swordfish" not in seen if sandbox.root == "/repo" else "swordfish" not in sandbox.run("env").output


def test_a_helper_runs_beside_the_shell_and_outlives_it(sandbox: Sandbox) -> None:
    """Its pipes are the caller's; it sees the same work folder."""
    helper = sandbox.spawn(["bash", "-c", 'while read -r line; do echo "$line" >>log; echo "got $line"; done'])
    assert helper.stdin is not None
    assert helper.stdout is not None
    helper.stdin.write(b"one\n")
    assert helper.stdout.readline() == b"got one\n"
    sandbox.run("exit")
    sandbox.run("sleep 9", 0.1)
    helper.stdin.write(b"two\n")
    assert helper.stdout.readline() == b"got two\n"
    assert sandbox.run("cat log").output == "one\ntwo\n"
    sandbox.close()
    assert helper.poll() is not None


@pytest.mark.parametrize("name", BACK_ENDS)
def test_closing_leaves_nothing_behind(name: str, opened: Open, tmp_path: Path) -> None:
    """No process, no descriptor; closing twice is allowed."""
    opened(name, tmp_path).close()
    before = len(list(Path("/proc/self/fd").iterdir()))
    second = opened(name, tmp_path)
    second.run("sleep 1000.125 & sleep 0.01")
    second.close()
    second.close()
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                assert b"1000.125" not in (entry / "cmdline").read_bytes()
            except (FileNotFoundError, ProcessLookupError):
                continue


def test_an_unknown_sandbox_is_refused_by_name(tmp_path: Path) -> None:
    """And a weaker one is never taken instead."""
    with pytest.raises(SandboxError, match="bubblewrap, docker, host"):
        open_sandbox("auto", tmp_path)
    with pytest.raises(SandboxError, match="does not exist"):
        open_sandbox("host", tmp_path / "none")


def test_a_closed_sandbox_runs_nothing(sandbox: Sandbox) -> None:
    """It does not come back to life."""
    sandbox.close()
    with pytest.raises(SandboxError, match="closed"):
        sandbox.run("echo on")


def test_a_shell_that_cannot_start_is_an_error_and_no_observation(tmp_path: Path) -> None:
    """The agent has no part in it, so it must not be told about it."""
    work = tmp_path / "work"
    work.mkdir()
    if available()["bubblewrap"] is not None:
        pytest.skip("bubblewrap does not work here")
    sandbox = open_sandbox("bubblewrap", work)
    sandbox.run("exit")
    work.rmdir()
    with pytest.raises(SandboxError, match="does not start"):
        sandbox.run("echo on")
    sandbox.close()


def test_an_interrupted_command_does_not_answer_for_the_next(sandbox: Sandbox) -> None:
    """Ctrl-C in the caller ends the command too."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(KeyboardInterrupt):
            sandbox.run("echo old; sleep 0.3; echo old")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert sandbox.run("sleep 0.3; echo new").output == "new\n"
