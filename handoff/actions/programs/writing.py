"""Programs that write files in ways of their own: editors in batch mode, ``install``, ``rsync``, ``split``, ``awk``.

What they leave is not derived; which files it may be is.
"""

from __future__ import annotations

import re
from itertools import pairwise

from handoff.actions.operations import MakeDirectory, Opaque, Operation, Read, Run
from handoff.actions.paths import is_outside
from handoff.actions.programs.call import Call, anywhere, guarded, is_wild


def forgotten(call: Call, text: str) -> Operation:
    """One file that the program writes, by the word that names it."""
    if is_wild(call, text):
        return anywhere(f"{call.name} of files not named")
    path = call.path(text)
    return guarded(path, Opaque(reason=call.name, paths=(path,)), call.name)


def perhaps_anywhere(call: Call) -> list[Operation]:
    """Programs that run what they are given, or write files whose names they make up."""
    return [Run(target=call.name), Opaque(reason=call.shown, is_possible=True)]


def named(call: Call) -> list[Operation]:
    """Programs that write every file they are given."""
    return [forgotten(call, text) for text in call.plain(("-l", "-o", "-n", "-s", "-S", "-m"))]


def last(call: Call) -> list[Operation]:
    """Programs that read one file and write the other, when there are two."""
    plain = call.plain(("-f", "-s", "-w", "-c", "-l", "-o"))
    return [*(Read(path=call.path(text)) for text in plain[:1]), *(forgotten(call, text) for text in plain[1:2])]


def sort(call: Call) -> list[Operation]:
    """``sort``: with ``-o`` it writes."""
    out = [*call.values("-o", "--output"), *(text[9:] for text in call.arguments if text.startswith("--output="))]
    out += [text[2:] for text in call.arguments if re.match(r"-o[^-]", text)]
    plain = [text for text in call.plain(("-k", "-t", "-o", "-S", "-T", "--output", "--key")) if text != "-"]
    return [*(Read(path=call.path(text)) for text in plain), *(forgotten(call, text) for text in out)]


def install(call: Call) -> list[Operation]:
    """``install``: copies with a mode."""
    plain = call.plain(("-m", "-o", "-g", "-S", "--mode", "--owner", "--group"))
    if call.has("-d", "--directory"):
        return [guarded(path, MakeDirectory(path=path), "install") for path in map(call.path, plain)]
    if call.has("-t", "--target-directory") or not plain:
        return [anywhere("install")]
    return [forgotten(call, plain[-1])]


def rsync(call: Call) -> list[Operation]:
    """``rsync``: to another machine it changes nothing here."""
    plain = call.plain(("-e", "--exclude", "--include", "--filter", "-f", "--rsh"))
    if call.has("--dry-run") or any("n" in text for text in call.arguments if re.fullmatch(r"-[A-Za-z]+", text)):
        return [Run(target="rsync")]
    if len(plain) < 2 or ":" in plain[-1]:
        return [Run(target="rsync")]
    return [forgotten(call, plain[-1])]


def text_editor(call: Call) -> list[Operation]:
    """``ed``, ``ex``, ``vim`` …: they may write every file they open."""
    valued = ("-c", "-S", "-s", "-u", "--cmd", "-p") if call.name not in ("ed", "red") else ("-p",)
    plain = call.plain(valued if call.name in ("vim", "vi", "nvim") else tuple(v for v in valued if v != "-s"))
    found = [forgotten(call, text) for text in plain]
    return found or perhaps_anywhere(call)


_PRINT_TO = re.compile(r"""\bprintf?\b[^;}\n]*?(?:>>?\s*("[^"]*"|[\w$(])|\|&?\s*")""")
_PRINT_TO_FILE = re.compile(r"""\bprintf?\b[^;}\n]*?>>?\s*"([^"\\]+)"(?=\s*(?:[;}\n]|\Z))""")
_PASSES_ON = re.compile(r'\|\s*"(?:sort|uniq|head|tail|wc|cat|tr|column)\b[^">|;&]*"')


def awk(call: Call) -> list[Operation]:
    """``awk``: a program, then files; the program may write files of its own."""
    plain = call.plain(("-F", "-v", "-f", "-i"))
    has_script = call.has("-f")
    files = plain if has_script else plain[1:]
    paths = [call.path(file) for file in files if "=" not in file]
    if "inplace" in call.arguments:
        return [Opaque(reason="awk -i inplace", paths=(path,)) for path in paths if not is_outside(path)]
    made: list[Operation] = [Read(path=path) for path in paths]
    code = "" if has_script or not plain else plain[0]
    quiet = re.sub(r'/(?:[^/\\\n]|\\.)+/|\((?:[^()"\n]|"[^"\n]*")*\)', " ", _PASSES_ON.sub("", code))
    if "system(" in code.replace(" ", ""):
        return [*made, *perhaps_anywhere(call)]
    if _PRINT_TO.search(quiet) is None:
        return made
    named_files = _PRINT_TO_FILE.findall(quiet)
    if len(named_files) == quiet.count(">"):
        paths = [call.path(text) for text in named_files if not text.startswith("/dev/")]
        return [*made, *(guarded(path, Opaque(reason="awk", paths=(path,)), "awk") for path in paths)]
    return [*made, *perhaps_anywhere(call)]


def mktemp(call: Call) -> list[Operation]:
    """``mktemp``: a new file of a name that nobody knows."""
    return [Run(target="mktemp")] if call.plain() or call.has("-p", "--tmpdir") else []


_SUFFIXES = {"gzip": ".gz", "bzip2": ".bz2", "xz": ".xz", "zstd": ".zst"}
_UNPACKED = {"gunzip": ".gz", "bunzip2": ".bz2", "unxz": ".xz", "unzstd": ".zst"}


def compressor(call: Call) -> list[Operation]:
    """``gzip`` and its kin: each file is replaced by another one."""
    if call.has("-c", "--stdout", "-t", "-l", "--test", "--list"):
        return [Read(path=call.path(text)) for text in call.plain()]
    made: list[Operation] = [Run(target=call.name)]
    for text in call.plain(("-S", "-o")):
        suffix = _SUFFIXES.get(call.name) or _UNPACKED[call.name]
        unpacks = call.name in _UNPACKED or call.has("-d", "--decompress")
        other = text.removesuffix(suffix) if unpacks else text + suffix
        paths = tuple(path for path in (call.path(text), call.path(other)) if not is_outside(path))
        if is_wild(call, text) or paths:
            made.append(Opaque(reason=call.name, paths=() if is_wild(call, text) else paths, is_possible=True))
    return made


_PATHS_OUT = ("-o", "--output", "-out", "--out")


def with_output(call: Call) -> list[Operation]:
    """Programs that print, or write the file that ``-o`` names."""
    made: list[Operation] = [Run(target=call.name)]
    return made + [forgotten(call, value) for option, value in pairwise(call.arguments) if option in _PATHS_OUT]
