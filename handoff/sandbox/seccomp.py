"""A filter of system calls for bubblewrap's jails: what no build or test needs, and namespaces do not close.

Refused: the kernel's keyrings (they are the user's, not the namespace's), sockets other than Unix, Internet and
netlink (a virtual machine's vsock reaches its host past every network namespace), memory that no limit counts
(memfd, larger System V segments and queues), new namespaces, mounts, and large parts of the kernel that only attacks
use there: io_uring, bpf, userfaultfd, perf, modules. A call of another architecture than the machine's does not exist.
"""

from __future__ import annotations

import errno
import platform
import struct
from collections.abc import Iterator
from typing import NamedTuple


class _Machine(NamedTuple):
    """Numbers of one architecture."""

    audit: int
    """What the kernel calls it."""
    column: int
    """Of ``_REFUSED``."""
    ioctl: int
    clone: int
    shmget: int
    sockets: tuple[int, int]
    """socket, socketpair"""


_MACHINES = {
    "x86_64": _Machine(0xC000003E, 0, ioctl=16, clone=56, shmget=29, sockets=(41, 53)),
    "aarch64": _Machine(0xC00000B7, 1, ioctl=29, clone=220, shmget=194, sockets=(198, 199)),
}
_REFUSED: dict[str, tuple[int | None, int | None]] = {
    "acct": (163, 89), "add_key": (248, 217), "bpf": (321, 280), "delete_module": (176, 106),
    "fanotify_init": (300, 262), "finit_module": (313, 273), "fsconfig": (431, 431), "fsmount": (432, 432),
    "fsopen": (430, 430), "fspick": (433, 433), "init_module": (175, 105), "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427), "io_uring_setup": (425, 425), "ioperm": (173, None), "iopl": (172, None),
    "kexec_file_load": (320, 294), "kexec_load": (246, 104), "keyctl": (250, 219), "lookup_dcookie": (212, 18),
    "mount": (165, 40), "mount_setattr": (442, 442), "move_mount": (429, 429), "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265), "open_tree": (428, 428), "perf_event_open": (298, 241), "pivot_root": (155, 41),
    "quotactl": (179, 60), "quotactl_fd": (443, 443), "reboot": (169, 142), "request_key": (249, 218),
    "setns": (308, 268), "swapoff": (168, 225), "swapon": (167, 224), "syslog": (103, 116), "umount2": (166, 39),
    "unshare": (272, 97), "userfaultfd": (323, 282), "vhangup": (153, 58),
}  # fmt: skip
"""Name → number on x86_64 and on aarch64."""
_ABSENT: dict[str, tuple[int | None, int | None]] = {
    "clone3": (435, 435), "memfd_create": (319, 279), "memfd_secret": (447, 447), "msgget": (68, 186),
}  # fmt: skip
"""Said not to exist, so that programs take another way."""
_FAMILIES = (1, 2, 10, 16)  # AF_UNIX, AF_INET, AF_INET6, AF_NETLINK
_TERMINAL = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX: they type into the terminal
_NAMESPACES = 0x7E020000  # CLONE_NEW*, every kind that this call can make
_SEGMENT = 64 << 10
"""Bytes of a System V segment: databases need a small one, and there may be 4,096."""

_LOAD, _EQUAL, _AT_LEAST, _ABOVE, _ANY_OF, _RETURN = 0x20, 0x15, 0x35, 0x25, 0x45, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16


def program(machine: str | None = None) -> bytes | None:
    """The filter as the kernel takes it; ``None`` for an architecture whose numbers are not known here."""
    found = _MACHINES.get(machine or platform.machine())
    return None if found is None else b"".join(_instructions(found))


def _instructions(machine: _Machine) -> Iterator[bytes]:
    yield _one(_LOAD, _ARCHITECTURE)
    yield _one(_EQUAL, machine.audit, 1, 0)
    yield _refuse(errno.ENOSYS)
    yield _one(_LOAD, _NUMBER)
    yield from _if(_AT_LEAST, 0x40000000, errno.ENOSYS)  # x32, on x86_64
    for table, code in ((_REFUSED, errno.EPERM), (_ABSENT, errno.ENOSYS)):
        for numbers in table.values():
            number = numbers[machine.column]
            if number is not None:
                yield from _if(_EQUAL, number, code)
    for number in machine.sockets:
        yield from _call(
            number,
            _one(_LOAD, _ARGUMENTS),
            *(_one(_EQUAL, family, len(_FAMILIES) - at, 0) for at, family in enumerate(_FAMILIES)),
            _refuse(errno.EAFNOSUPPORT),
        )
    yield from _call(machine.clone, _one(_LOAD, _ARGUMENTS), *_if(_ANY_OF, _NAMESPACES, errno.EPERM))
    yield from _call(
        machine.ioctl,
        _one(_LOAD, _ARGUMENTS + 8),
        *(part for code in _TERMINAL for part in _if(_EQUAL, code, errno.EPERM)),
    )
    yield from _call(
        machine.shmget,
        _one(_LOAD, _ARGUMENTS + 12),
        *_if(_AT_LEAST, 1, errno.ENOSPC),
        _one(_LOAD, _ARGUMENTS + 8),
        *_if(_ABOVE, _SEGMENT, errno.ENOSPC),
    )
    yield _one(_RETURN, _ALLOW)


def _one(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


def _refuse(code: int) -> bytes:
    return _one(_RETURN, _ERRNO | code)


def _if(test: int, value: int, code: int) -> tuple[bytes, bytes]:
    return _one(test, value, 0, 1), _refuse(code)


def _call(number: int, *body: bytes) -> Iterator[bytes]:
    """What decides about one call by its arguments; who comes to its end may go on."""
    yield _one(_EQUAL, number, 0, len(body) + 1)
    yield from body
    yield _one(_RETURN, _ALLOW)
