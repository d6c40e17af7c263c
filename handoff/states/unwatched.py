"""Programs of which nobody can tell whether they change files of the repository.

Tests, linters, compilers, code that stands in the line itself, scripts whose text is at hand and programs that only
look are taken for what they are. Any other program may write where it likes: what it left is as derived only when
something shows the whole tree.
"""

from __future__ import annotations

from collections.abc import Callable

from handoff.actions import Install, Operation, Run, Validate
from handoff.actions.programs.call import listed

_INLINE = tuple(
    f"{name} {option}"
    for name in ("python", "python3", "node", "ruby", "php", "perl", "deno", "bun", "lua", "Rscript", "julia")
    for option in ("-c", "-e", "-p", "-pe", "-r", "--eval", "--print", "-")
)
"""How code in a line is named, exactly."""
_LOOKING = listed(
    """
    python python3 node ruby php lua julia go npm pnpm yarn bun cargo mise pip pip3 conda make cmake gcc rustc javac
    gh glab curl wget mktemp ps pgrep pkill kill killall lsof fuser nc ncat ping dig nslookup host ip ifconfig netstat
    ss traceroute top htop uptime free df du mount umount man info tldr open xdg-open say osascript launchctl systemctl
    service journalctl dmesg sysctl sw_vers lscpu getconf locale tty w who groups finger md5 md5sum shasum sha1sum
    sha256sum cksum base64 base32 file xxd od hexdump strings nm otool ldd tmux screen at crontab openssl ssh-add
    ssh-keygen gpg diskutil cal bc dc factor numfmt column tabs yes watch timedatectl hostnamectl nvidia-smi
    """
)
"""Programs that leave a work tree alone, named alone (with ``--version`` and the like)."""
_LOOKING_VERBS = listed(
    """
    view list ls doc docs version env why outdated audit whoami root bin prefix config show search info metadata tree
    freeze check help tasks current dup where which exec status log ping owner access explain
    """
)
"""Second words with which a package manager only tells something."""
_MANAGERS = listed("npm pnpm yarn bun cargo go mise pip pip3 conda gem brew apt apt-get dnf poetry uv")
_COMPILERS = listed("go cargo mvn gradle py_compile compileall")
"""Builds that leave nothing but what they compiled, which is no part of a state."""
_MODULES = listed("json.tool site sysconfig platform pip pydoc timeit this calendar http.server ast tokenize dis")


def unwatched(operation: Operation, knows: Callable[[str], bool]) -> str | None:
    """The program that ``operation`` runs, when it may change files; ``None``: it does not, or others tell what it
    does. ``knows``: whether the text of a script, by its path, is at hand."""
    match operation:
        case Validate(kind="build", runner=runner, target=target):
            return None if runner in _COMPILERS else target
        case Install(target=target):
            return f"an installation of {target}" if any(word[:1] in "./" for word in target.split()) else None
        case Run(target=target):
            return None if _is_harmless(target) or knows(target) else target
        case _:
            return None


def _is_harmless(target: str) -> bool:
    if target in _INLINE or target in _LOOKING:
        return True
    first, _, rest = target.partition(" ")
    if rest.startswith("-m "):
        return rest[3:] in _MODULES
    return first in _MANAGERS and rest in _LOOKING_VERBS
