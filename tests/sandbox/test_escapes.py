"""An attacker's commands. Each is stopped or comes to nothing, the next command works, and nothing is left behind.

Where it does no harm the same attack is made on the bare host first, to know that it would have worked.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from handoff.sandbox import Limits, Sandbox
from tests.sandbox.conftest import JAILS, Open

LIMITS = Limits(memory_mb=512, processes=60, file_mb=8, disk_mb=32, files=2_000, wall_s=20, output_kb=16)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture(params=JAILS)
def jail(request: pytest.FixtureRequest, opened: Open, work: Path) -> Sandbox:
    return opened(request.param, work, limits=LIMITS)


def python(code: str) -> str:
    """A command that runs a program."""
    return f"python3 - <<'END'\n{textwrap.dedent(code)}\nEND"


def escaped(output: str) -> bool:
    """Whether an attack said that it came through. Bash tells of a killed program by its text: that does not count."""
    return any(line.startswith("ESCAPED") for line in output.splitlines())


# -- what lies outside ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """A host with secrets and servers: what the attacks below try to reach."""
    folder = tmp_path_factory.mktemp("outside")
    folder.chmod(0o755)
    (folder / "key").write_text("swordfish")
    with contextlib.ExitStack() as stack:
        tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        udp = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        udp.bind(("127.0.0.1", 0))
        named = stack.enter_context(socket.socket(socket.AF_UNIX))
        named.bind(str(folder / "socket"))
        named.listen()
        abstract = stack.enter_context(socket.socket(socket.AF_UNIX))
        abstract.bind(f"\0{folder.name}-{os.getpid()}")
        abstract.listen()
        before = os.environ.get("SECRET_KEY_FOR_TEST")
        os.environ["SECRET_KEY_FOR_TEST"] = "swordfish"
        yield {
            "folder": folder, "tcp": tcp.getsockname()[1], "udp": udp.getsockname()[1],
            "abstract": f"{folder.name}-{os.getpid()}", "me": os.getpid(), "checkout": Path(__file__).parent,
        }  # fmt: skip
        if before is None:
            del os.environ["SECRET_KEY_FOR_TEST"]


REACHING = {
    "a file of another folder": "cat {folder}/key && echo ESCAPED",
    "a file beside the work folder": "cat ../outside*/key && echo ESCAPED; echo bad > ../key",
    "a folder of the host by its processes": "ls /proc/{me}/root/etc && echo ESCAPED",
    "a link out": "ln -s {folder}/key a; cat a && echo ESCAPED",
    "a link to a folder out": "ln -s {folder} b; echo bad > b/new && echo ESCAPED",
    "a hard link out": "ln {folder}/key hard && echo ESCAPED",
    "our own code": "ls {checkout} && echo ESCAPED",
    "a tcp server": "exec 9<>/dev/tcp/127.0.0.1/{tcp} && echo ESCAPED",
    "a unix socket": python(
        "import socket; socket.socket(socket.AF_UNIX).connect('{folder}/socket'); print('ESCAPED')"
    ),
    "an abstract socket": python(
        "import socket; socket.socket(socket.AF_UNIX).connect('\\0{abstract}'); print('ESCAPED')"
    ),
    "another process": "kill -0 {me} && echo ESCAPED",
    "keyring": python("""
        import ctypes, platform
        libc = ctypes.CDLL(None, use_errno=True)
        number = dict(x86_64=250, aarch64=219)[platform.machine()]
        libc.syscall(number, 0, -3, 1) > 0 and print('ESCAPED')
    """),
}
"""What works on the bare host, harmlessly."""

FURTHER = {
    "write to the system": "for f in /usr/x /etc/x /x /bin/x /lib/x; do echo bad > $f && echo ESCAPED; done",
    "change a program": "cp /bin/true $(command -v git) && echo ESCAPED; chmod u+s /bin/bash && echo ESCAPED",
    "the account's secrets": "cat /etc/shadow /root/.ssh/* /root/.bash_history && echo ESCAPED",
    "docker.sock": "ls /var/run/docker.sock /run/docker.sock /run/containerd && echo ESCAPED",
    "an address of the net": "timeout 3 bash -c 'exec 9<>/dev/tcp/192.0.2.1/80' && echo ESCAPED",
    "udp": python("""
        import socket
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        s.connect(('192.0.2.1', 53)); s.send(b'x'); print('ESCAPED')
    """),
    "ipv6": python("""
        import socket
        s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
        s.connect(('2001:db8::1', 53)); s.send(b'x'); print('ESCAPED')
    """),
    "a name": python("import socket; socket.getaddrinfo('example.org', 80); print('ESCAPED')"),
    "raw packets": python("""
        import socket
        for family, kind in ((socket.AF_PACKET, socket.SOCK_RAW), (socket.AF_INET, socket.SOCK_RAW)):
            try: socket.socket(family, kind, 1); print('ESCAPED')
            except OSError: pass
    """),
    "mount": "mount -t tmpfs none /tmp && echo ESCAPED; mount --bind / /tmp && echo ESCAPED",
    "unshare": "unshare -Ur true && echo ESCAPED; unshare -m true && echo ESCAPED; unshare -n true && echo ESCAPED",
    "namespaces of the first process": "nsenter -t 1 -m -p true && echo ESCAPED",
    "a device": "mknod dev b 8 0 && echo ESCAPED; mknod dev c 1 1 && echo ESCAPED; ls /dev/[sv]d* && echo ESCAPED",
    "memory of the machine": "head -c 1 /dev/mem /dev/kmem /proc/kcore && echo ESCAPED",
    "kernel settings": python("""
        import os
        for base in ('/proc', '/sys'):
            for at, folders, files in os.walk(base):
                folders[:] = [f for f in folders if not (at == '/proc' and (f.isdigit() or 'self' in f))]
                for name in files:
                    if at == '/proc/pressure' or not os.path.isfile(f'{at}/{name}'): continue
                    # Opened, never written to: it would be this machine's. (Anybody may ask to be told of pressure.)
                    try: os.close(os.open(f'{at}/{name}', os.O_WRONLY | os.O_NONBLOCK)); print('ESCAPED', at, name)
                    except OSError: pass
    """),
    "root": "id -u | grep -qx 0 && echo ESCAPED; su -c true && echo ESCAPED; sudo -n true && echo ESCAPED",
    "a set-user-id program": python("""
        import os, subprocess
        for name in ('/bin/su', '/bin/mount', '/usr/bin/passwd', '/usr/bin/newgrp'):
            if os.path.exists(name):
                subprocess.run([name], stdin=subprocess.DEVNULL, capture_output=True, timeout=5)
        with open('/proc/self/status') as f:
            'CapEff:\\t0000000000000000' in f.read() or print('ESCAPED')
        try: os.setuid(0); print('ESCAPED')
        except OSError: pass
    """),
    "more of a limit": "ulimit -f unlimited && echo ESCAPED; ulimit -d unlimited && echo ESCAPED",
    "the first process": python("""
        import ctypes
        libc = ctypes.CDLL(None)
        libc.ptrace(16, 1, 0, 0) == 0 and open('/proc/1/environ').read().find('SECRET') >= 0 and print('ESCAPED')
    """),
    "variables of the host": "cat /proc/*/environ 2>/dev/null | grep -a swordfish && echo ESCAPED; "
    "env | grep swordfish && echo ESCAPED",
    "descriptors of the host": "for f in /proc/[0-9]*/fd/*; do readlink $f; done 2>/dev/null | "
    "grep -aE '^/(tmp|root|home)/.+(work|outside)' && echo ESCAPED",
    "typing into the terminal": python("""
        import fcntl, os
        for name in ('/dev/tty', '/proc/1/fd/0', '/dev/pts/0', '/dev/console'):
            try:
                fcntl.ioctl(os.open(name, os.O_RDWR | os.O_NOCTTY), 0x5412, b'x'); print('ESCAPED')
            except OSError: pass
    """),
    "new privileges": "grep -q 'NoNewPrivs:.1' /proc/self/status || echo ESCAPED",
}  # fmt: skip


def fill(command: str, outside: dict[str, Any]) -> str:
    for key, value in outside.items():
        command = command.replace(f"{{{key}}}", str(value))
    return command


@pytest.mark.parametrize("attack", REACHING)
def test_the_attack_works_on_the_bare_host(attack: str, outside: dict[str, Any], work: Path) -> None:
    """Else it would prove nothing."""
    (work.parent / "outside1").mkdir()
    (work.parent / "outside1" / "key").write_text("swordfish")
    (work.parent / "key").write_text("swordfish")
    if attack == "a folder of the host by its processes" and os.getuid() != 0:
        pytest.skip("only root may look there at all")
    done = subprocess.run(["bash", "-c", fill(REACHING[attack], outside)], capture_output=True, cwd=work, check=False)
    assert b"ESCAPED" in done.stdout, done.stderr.decode()


@pytest.mark.parametrize("attack", [*REACHING, *FURTHER])
def test_nothing_outside_is_reached(attack: str, jail: Sandbox, outside: dict[str, Any], work: Path) -> None:
    """Not read, not written, not called, not even seen."""
    (work.parent / "outside1").mkdir()
    (work.parent / "outside1" / "key").write_text("swordfish")
    (work.parent / "key").write_text("swordfish")
    done = jail.run(fill({**REACHING, **FURTHER}[attack], outside), 15)
    assert not escaped(done.output), done.output
    assert "swordfish" not in done.output
    assert jail.run("echo on").output == "on\n"
    assert sorted(p.name for p in work.parent.iterdir()) == ["key", "outside1", "work"]
    assert (outside["folder"] / "key").read_text() == "swordfish"


@pytest.mark.parametrize("name", ["AF_VSOCK", "AF_ALG", "AF_KEY", "AF_BLUETOOTH", "AF_TIPC"])
def test_sockets_past_the_network_namespace_do_not_exist(name: str, opened: Open, work: Path) -> None:
    """A virtual machine's vsock reaches its host from any network namespace."""
    jail = opened("bubblewrap", work, limits=LIMITS)
    done = jail.run(python(f"import socket; socket.socket(socket.{name}, socket.SOCK_STREAM if '{name}' != 'AF_ALG' "
                           "else socket.SOCK_SEQPACKET); print('ESCAPED')"))  # fmt: skip
    assert not escaped(done.output)
    assert "not supported" in done.output or "no attribute" in done.output


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
def test_calls_of_the_kernel_that_attacks_begin_with_are_refused(opened: Open, work: Path) -> None:
    """By number, as an attacker would call them."""
    from handoff.sandbox import seccomp

    machine = os.uname().machine
    if seccomp.program() is None:
        pytest.skip(f"no filter for {machine}")
    column = seccomp._MACHINES[machine].column
    numbers = {**seccomp._REFUSED, **seccomp._ABSENT}
    wanted = {name: both[column] for name, both in numbers.items() if both[column] is not None}
    jail = opened("bubblewrap", work, limits=LIMITS)
    done = jail.run(python(f"""
        import ctypes
        libc = ctypes.CDLL(None, use_errno=True)
        for name, number in {wanted!r}.items():
            ctypes.set_errno(0)
            print(name, libc.syscall(number, -1, -1, -1, -1, -1), ctypes.get_errno())
    """))  # fmt: skip
    answers = {line.split()[0]: line.split()[1:] for line in done.output.splitlines()}
    assert answers == {name: ["-1", "1" if name in seccomp._REFUSED else "38"] for name in wanted}


# -- limits ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_fork_bomb_leaves_a_working_sandbox(jail: Sandbox) -> None:
    """The bomb has thirteen generations, 8,191 processes at once if nobody stops it: one that goes on for ever took the
    whole machine along when the watching thread came late (another thread held the interpreter and got no turn)."""
    most = [0]
    over = threading.Event()
    may_hurry = threading.Event()

    def count() -> None:
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(1))
            may_hurry.set()
        while not over.wait(0.01):
            most[0] = max(most[0], int(Path("/proc/loadavg").read_text().split()[3].partition("/")[2]))

    counting = threading.Thread(target=count)
    counting.start()
    try:
        generations = "bomb() { [ $1 -le 0 ] || { bomb $(($1 - 1)) | bomb $(($1 - 1)) & }; sleep 4; }"
        done = jail.run(f"{generations}; bomb 12; sleep 30", 5)
    finally:
        over.set()
        counting.join()
    assert done.notice or done.exit_code is not None
    if os.getuid() != 0 or may_hurry.is_set():  # else root's processes are neither counted nor overtaken
        assert most[0] < 6_000  # of the whole machine
    assert jail.run("echo on", 15).output == "on\n"
    assert int(jail.run("ls -d /proc/[0-9]* | wc -l").output.splitlines()[-1]) < 10


MEMORY = {
    "one process": python("x = bytearray(600 << 20); print('ESCAPED')"),
    "many processes": 'for i in 1 2 3 4 5 6 7 8; do python3 -c "x = bytearray(150 << 20); import time; time.sleep(4); '
    "open('/tmp/ok', 'a').write('x')\" & done; wait; [ \"$(cat /tmp/ok)\" = xxxxxxxx ] && echo ESCAPED",
    "files without a name": python("""
        import os
        kept = []
        for i in range(100):
            f = os.memfd_create('x'); kept.append(f)
            for j in range(7): os.write(f, b'x' * (1 << 20))
        print('ESCAPED')
    """),
    "System V segments": python("""
        import ctypes
        libc = ctypes.CDLL(None, use_errno=True)
        libc.shmat.restype = ctypes.c_void_p
        for i in range(20):
            key = libc.shmget(0, ctypes.c_size_t(50 << 20), 0o1600)
            place = libc.shmat(key, None, 0)
            ctypes.memset(place, 1, 50 << 20) if key >= 0 else exit(1)
            libc.shmdt(ctypes.c_void_p(place))
        print('ESCAPED')
    """),
    "temporary files": "cd /tmp; for i in $(seq 200); do head -c 7M /dev/zero > f$i || exit 1; done; echo ESCAPED",
    "shared memory": "cd /dev/shm; for i in $(seq 200); do head -c 7M /dev/zero > f$i || exit 1; done; echo ESCAPED",
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", MEMORY)
def test_memory_is_bounded_whatever_it_is_called(kind: str, jail: Sandbox) -> None:
    done = jail.run(MEMORY[kind], 15)
    assert not escaped(done.output)
    assert jail.run("cd; rm -rf /tmp/* /dev/shm/*; echo on").output.endswith("on\n")


FILLERS = {
    "many files": "for i in $(seq 1000); do head -c 4M /dev/urandom > f$i; done; echo ESCAPED",
    "empty files": python("for i in range(1_000_000): open(f'f{i}', 'w').close()\nprint('ESCAPED')"),
    "folders": python("import os\nfor i in range(1_000_000): os.mkdir(f'f{i}')\nprint('ESCAPED')"),
    "links": python("import os\nfor i in range(1_000_000): os.symlink('x' * 200, f'f{i}')\nprint('ESCAPED')"),
    "files with no name left": python("""
        import os
        kept = []
        for i in range(60):
            for j in range(20):
                f = os.open('f', os.O_RDWR | os.O_CREAT); os.unlink('f'); kept.append(f)
                for k in range(4): os.write(f, os.urandom(1 << 20))
        print('ESCAPED')
    """),
    "far down": python("""
        import os
        for i in range(1500): os.mkdir('d'); os.chdir('d')
        for i in range(1000):
            with open(f'f{i}', 'wb') as f: f.write(os.urandom(1 << 20))
        print('ESCAPED')
    """),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", FILLERS)
def test_a_disk_is_not_filled(kind: str, jail: Sandbox, work: Path) -> None:
    """In whatever way; what was written until then stays, and the work folder can be removed."""
    done = jail.run(FILLERS[kind], 60)
    assert not escaped(done.output)
    assert "the work folder grew" in done.notice, (done.output[-300:], done.notice)
    jail.close()
    from handoff import folders

    folders.remove(work)
    assert not work.exists()


@pytest.mark.slow
@pytest.mark.parametrize("place", ["/tmp", "/dev/shm"])
def test_empty_files_do_not_fill_the_memory(place: str, jail: Sandbox) -> None:
    """Each takes a kilobyte of the kernel's that no limit on bytes counts."""
    done = jail.run(python(f"""
        import os
        os.chdir('{place}')
        for i in range(1_000_000): open(f'f{{i}}', 'w').close()
        print('ESCAPED')
    """), 20)  # fmt: skip
    assert not escaped(done.output)
    assert "temporary files" in done.notice or any(w in done.output for w in ("No space", "Killed")) or done.timed_out
    assert jail.run("echo on", 15).output == "on\n"


FLOODS = {
    "lines": "yes",
    "no line end": "tr '\\0' x </dev/zero",
    "nothing but NUL": "cat /dev/zero",
    "escapes": "yes $'\\033]0;x\\007\\033[2J\\033[?1049h\\033c'",
    "both streams": "yes & yes >&2",
    "in the background": "yes & disown; sleep 60",
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", FLOODS)
def test_a_flood_is_cut_and_ended(kind: str, jail: Sandbox) -> None:
    done = jail.run(FLOODS[kind], 30)
    assert "MB of output" in done.notice
    assert len(done.output) < 2 * 16 * 1024 * 3
    assert jail.run("echo on").output == "on\n"


# -- the shell and what watches it ----------------------------------------------------------------

BREAKING = {
    "closes everything": 'for i in $(seq 0 255); do eval "exec $i>&-"; done',
    "closes its parents": "for f in /proc/$PPID/fd/*; do : > $f; done; for f in /proc/$$/fd/*; do echo junk > $f; done",
    "eats the next command": "cat /proc/$$/fd/3 & cat <&3 &",
    "speaks for the shell": "printf '0000000099 0 /repo\\0' >/proc/$$/fd/4; printf '%010d 7 /repo\\0' 2 >/proc/$$/fd/4",
    "kills the shell": "kill -9 $$",
    "stops the shell": "kill -STOP $$",
    "kills all": "kill -9 -1",
    "kills the first process": "kill -9 1; kill -TERM 1; kill -STOP 1; kill -9 $PPID",
    "becomes another": "exec cat",
    "traps": "trap 'echo again; sleep 1' EXIT DEBUG ERR; set -e; false",
    "hides its builtins": "printf() { :; }; read() { :; }; eval() { :; }; builtin() { :; }; cd() { :; }",
    "readonly": "readonly __serial __size __command __code; IFS=0; set -u; LC_ALL=nowhere",
    "aliases": "shopt -s expand_aliases; alias printf=: builtin=: read=:; enable -n printf read eval",
    "a huge variable": "export x=$(head -c 4000000 /dev/zero | tr '\\0' x); ls",
    "a huge folder name": "for i in $(seq 60); do n=$(printf 'd%.0s' $(seq 240)); mkdir $n; cd $n; done",
    "no folder": "mkdir gone; cd gone; rmdir ../gone",
    "a folder with any name": "mkdir $'a\\nb\\r\\033[0m'; cd $'a\\nb\\r\\033[0m'",
    "no rights": "chmod 000 .; umask 777",
}


@pytest.mark.slow
@pytest.mark.parametrize("how", BREAKING)
def test_a_broken_shell_is_replaced(how: str, jail: Sandbox) -> None:
    """At most one command more is lost, and the one after it is the agent's own again."""
    jail.run(BREAKING[how], 3)
    jail.run("echo maybe", 3)
    jail.run('cd /tmp; chmod 755 "$OLDPWD"; umask 022', 3)
    assert jail.run("(exit 3)", 3).exit_code in (3, None)
    jail.run("exit", 3)
    done = jail.run("echo on", 15)
    assert (done.output, done.exit_code) == ("on\n", 0)


SURVIVING = {
    "in the background": "{beat} &",
    "nohup": "nohup bash -c '{beat}' >/dev/null 2>&1 &",
    "a session of its own": "setsid bash -c '{beat}' &",
    "orphaned twice": "( ( setsid bash -c \"trap '' HUP TERM INT; {beat}\" & ) & ) ; sleep 0.1",
    "stopped": "bash -c '{beat}' & sleep 0.1; kill -STOP $!",
}
BEAT = "while :; do echo x >> beat; sleep 0.02; done"


@pytest.mark.slow
@pytest.mark.parametrize("how", SURVIVING)
@pytest.mark.parametrize("ended", ["close", "exit", "time"])
def test_no_process_survives_its_shell(how: str, ended: str, jail: Sandbox, work: Path) -> None:
    """However it was started, and however the shell ends."""
    jail.run(SURVIVING[how].replace("{beat}", BEAT), 5)
    time.sleep(0.15)
    if ended == "close":
        jail.close()
    elif ended == "exit":
        jail.run("exit", 5)
        jail.run("true", 15)
    else:
        jail.run("sleep 60", 0.2)
    size = (work / "beat").stat().st_size
    assert size > 0
    time.sleep(0.15)
    assert (work / "beat").stat().st_size == size
