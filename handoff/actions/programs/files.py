"""Programs that make, move, remove and fetch whole files."""

from __future__ import annotations

import re
from itertools import pairwise

from handoff.actions.operations import (
    AppendFile,
    Copy,
    Delete,
    MakeDirectory,
    Move,
    Opaque,
    Operation,
    Other,
    Read,
    Run,
    SetMode,
    WriteFile,
)
from handoff.actions.paths import is_outside, is_unknown
from handoff.actions.programs.call import Call, anywhere, guarded, is_wild


def tee(call: Call) -> list[Operation]:
    """``tee``: what it is given goes to files."""
    is_append = call.has("-a", "--append")
    made: list[Operation] = []
    for word in call.words[1:]:
        if word.text.startswith(("-", "/dev/")):
            continue
        path = call.path(word.text)
        if is_unknown(path) or (not word.is_literal and not is_outside(path)):
            made.append(anywhere("tee to an unknown file"))
        elif is_outside(path):
            made.append(Other(tool="write", target=path))
        elif call.stdin is None:
            made.append(Opaque(reason="output of a pipe", paths=(path,)))
        else:
            made.append((AppendFile if is_append else WriteFile)(path=path, text=call.stdin))
    return made


def _literal_paths(call: Call, valued: tuple[str, ...] = ()) -> list[str] | None:
    """The paths of the call; ``None`` when the shell would expand one that may lie in the repository."""
    plain = call.plain(valued)
    paths = [call.path(text) for text in plain]
    for text, path in zip(plain, paths, strict=True):
        if is_unknown(path) or (is_wild(call, text) and not is_outside(path)):
            return None
    return paths


def move_or_copy(call: Call) -> list[Operation]:
    """``mv`` and ``cp``: one target, or several sources into a folder."""
    name = "mv" if call.name in ("mv", "git-mv") else "cp"
    valued = ("-t", "-S", "--target-directory", "--suffix")
    paths = _literal_paths(call, valued)
    if paths is None and name == "cp" and len(ends := call.plain(valued)) > 1:
        end = call.path(ends[-1])
        if is_outside(end) and not is_unknown(end):
            return [Other(tool=name, target=end)]
    if paths is None or call.has("-t", "--target-directory"):
        return [anywhere(f"{name} of files not named")]
    if len(paths) < 2:
        return []
    *sources, target = paths
    is_into = len(sources) > 1 or call.plain()[-1].endswith("/") or target == "."
    made: list[Operation] = []
    for source in sources:
        end = _under(target, source) if is_into else target
        if is_outside(source) and is_outside(end):
            made.append(Other(tool=name, target=end))
        elif is_outside(source):
            made.append(Opaque(reason=f"{name} from outside the repository", paths=(end,)))
        elif is_outside(end):
            made.append(Delete(path=source, is_recursive=True) if name == "mv" else Read(path=source))
        else:
            made.append((Move if name == "mv" else Copy)(source=source, target=end))
    return made


def _under(folder: str, source: str) -> str:
    name = source.rsplit("/", 1)[-1]
    return name if folder == "." else f"{folder}/{name}"


def rm(call: Call) -> list[Operation]:
    """``rm`` and ``unlink``."""
    is_recursive = call.has("-r", "-R", "--recursive")
    made: list[Operation] = []
    for text in call.plain():
        path = call.path(text)
        if is_wild(call, text) and not is_outside(path):
            made.append(anywhere("rm of files not named"))
        else:
            made.append(guarded(path, Delete(path=path, is_recursive=is_recursive), "rm"))
    return made


def mkdir(call: Call) -> list[Operation]:
    """``mkdir``."""
    return [guarded(path, MakeDirectory(path=path), "mkdir") for path in _literal_paths(call, ("-m",)) or []]


def touch(call: Call) -> list[Operation]:
    """``touch``: a file is there afterwards."""
    paths = _literal_paths(call, ("-t", "-d", "-r"))
    if paths is None:
        return [anywhere("touch of files not named")]
    return [guarded(path, AppendFile(path=path, text=""), "touch") for path in paths]


def truncate(call: Call) -> list[Operation]:
    """``truncate``: exact for size 0."""
    sizes = call.values("-s", "--size")
    is_empty = sizes == ["0"] or "-s0" in call.arguments or "--size=0" in call.arguments
    return [
        guarded(
            path, WriteFile(path=path, text="") if is_empty else Opaque(reason="truncate", paths=(path,)), "truncate"
        )
        for path in _literal_paths(call, ("-s", "-r", "--size")) or []
    ]


_MODE_OPTION = re.compile(r"-[Rvfc]+|--[\w-]+(?:=.*)?", re.S)
_EXECUTABLE = re.compile(r"[ua]?\+x|0?7[0-7]{2}")
_NOT_EXECUTABLE = re.compile(r"[ua]?-x|0?6[0-7]{2}")


def chmod(call: Call) -> list[Operation]:
    """``chmod``: only the owner's executable bit is part of a state."""
    mode, *texts = [text for text in call.arguments if _MODE_OPTION.fullmatch(text) is None] or [""]
    made: list[Operation] = []
    for text in texts:
        path = call.path(text)
        if _EXECUTABLE.fullmatch(mode):
            made.append(guarded(path, SetMode(path=path, is_executable=True), "chmod"))
        elif _NOT_EXECUTABLE.fullmatch(mode):
            made.append(guarded(path, SetMode(path=path, is_executable=False), "chmod"))
    return made


def ln(call: Call) -> list[Operation]:
    """``ln``: the link is a file whose content the line does not give."""
    paths = _literal_paths(call) or []
    return [guarded(paths[-1], Opaque(reason="ln", paths=(paths[-1],)), "ln")] if len(paths) > 1 else []


def download(call: Call) -> list[Operation]:
    """``curl`` and ``wget``: a file is written only when one is named or the program always does."""
    out = next(iter(call.values(*_OUTPUT[call.name])), None)
    if out is None:
        writes = call.has("-O", "--remote-name") if call.name == "curl" else not call.has("--spider")
        return [Run(target=call.name), *([Opaque(reason=call.name, is_possible=True)] if writes else [])]
    if out in ("-", "/dev/null"):
        return [Run(target=call.name)]
    path = call.path(out)
    return [Run(target=call.name), guarded(path, Opaque(reason=call.name, paths=(path,)), call.name)]


_OUTPUT = {"curl": ("-o", "--output"), "wget": ("-O", "--output-document")}


def archive(call: Call) -> list[Operation]:
    """``tar``, ``zip``, ``unzip``: unpacking writes files that the line does not name."""
    name = call.name
    if name == "tar":
        first = next(iter(call.arguments), "")
        flags = "" if first.startswith("--") else first
        if "t" in flags and "x" not in flags:
            return [Run(target="tar")]
        if "x" not in flags and not call.has("--extract"):
            at = next((b for a, b in pairwise(call.arguments) if a.endswith("f")), "")
            path = call.path(at) if at else ""
            return [Run(target="tar"), *([guarded(path, Opaque(reason="tar", paths=(path,)), "tar")] if path else [])]
    if name == "unzip" and call.has("-l", "-p", "-t", "-Z"):
        return [Run(target=name)]
    return [Run(target=name), Opaque(reason=name, is_possible=True)]
