"""Programs that make, move, remove and change whole files, carried out on the state as coreutils do it."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable

from handoff.actions.operations import Copy, Opaque, Replace, StreamEdit
from handoff.actions.paths import is_outside, is_unknown, resolve
from handoff.actions.programs.call import Call
from handoff.actions.programs.sed import sed as read_sed
from handoff.editors import plain as editors
from handoff.editors.plain import Misfit, Unknowable
from handoff.editors.stream import stream_edit
from handoff.git.importer import FileState
from handoff.git.objects import EXECUTABLE, FILE, SYMLINK
from handoff.shell import Word
from handoff.states.shell.disk import Place
from handoff.states.shell.machine import Builtin, Machine
from handoff.states.shell.streams import Refused, Result, Status, Streams, Unsupported, ordered
from handoff.states.shell.words import Arg
from handoff.states.versions import EVERYTHING, UNSURE


def options_of(args: list[Arg], allowed: str, long: Iterable[str] = (), beyond: str = "") -> tuple[set[str], list[str]]:
    """The short options given (long ones by name) and the other words. ``beyond``: further letters that the program
    knows and, after a colon, those that take a value. ``Unsupported``: one of those, or a word that is not known.
    ``Refused``: no option of the program's."""
    given: set[str] = set()
    words: list[str] = []
    has_ended = False
    for arg in args[1:]:
        text = arg.text
        if not arg.is_known:
            raise Unsupported
        if has_ended or not text.startswith("-") or text == "-":
            words.append(text)
        elif text == "--":
            has_ended = True
        elif text.startswith("--"):
            if text not in long:
                raise Unsupported
            given.add(text)
        else:
            _check(text[1:], allowed, *beyond.split(":"))
            given |= set(text[1:])
    return given, words


def _check(letters: str, allowed: str, beyond: str, valued: str = "") -> None:
    is_beyond = False
    for letter in letters:
        if letter in valued:
            raise Unsupported
        if letter not in allowed and letter not in beyond:
            raise Refused
        is_beyond = is_beyond or letter not in allowed
    if is_beyond:
        raise Unsupported


def both(statuses: Iterable[Status]) -> Status:
    """The status of a program that does several things: it fails when one fails."""
    found = list(statuses)
    return False if False in found else None if None in found else True


def _result(statuses: Iterable[Status], out: bytes | None = b"") -> Result:
    return Result(both(statuses), out)


# -- removing -----------------------------------------------------------------------------------


def rm(machine: Machine, args: list[Arg], streams: Streams) -> Result:
    """``rm`` and ``unlink``."""
    given, words = options_of(args, "rRfvd", ("--recursive", "--force", "--verbose"), "iI")
    is_recursive = bool(given & {"r", "R", "--recursive"})
    is_forced = bool(given & {"f", "--force"})
    if any(word.rstrip("/").rsplit("/", 1)[-1] in ("", ".", "..") for word in words):
        raise Unsupported
    statuses: list[Status] = [] if words or is_forced else [False]
    for word in words:
        place = machine.place(word, follows=False)
        kind = machine.disk.kind(place)
        if word.endswith("/") and kind in ("link", "file", "unknown"):
            raise Unsupported
        if kind == "none":
            statuses.append(is_forced or machine.lacks(place))
        elif kind == "folder" and not is_recursive:
            has_left = "d" in given and place.is_inside and not machine.disk.files.names(place.path)
            if has_left:
                machine.disk.remove(place.path)
            statuses.append(has_left)
        else:
            statuses.append(True if kind != "unknown" or is_forced else None)
            _remove(machine, place, is_recursive)
    is_told = bool(given & {"v", "--verbose"})
    return _result(statuses, None if is_told else b"")


def _remove(machine: Machine, place: Place, is_recursive: bool) -> None:
    if place.is_inside:
        machine.disk.remove(place.path)
        return
    outside = machine.effects.outside
    if not place.is_certain:
        if place.path.startswith("$"):
            machine.effects.forget("rm of files not named", ())
        return
    if place.path.startswith(".git"):
        machine.effects.versions.lose("a part of .git was removed")
    machine.effects.links.pop(place.path, None)
    outside[place.path] = None
    for path in [path for path in outside if path.startswith(place.path + "/")]:
        outside[path] = None


def rmdir(machine: Machine, args: list[Arg], streams: Streams) -> Result:
    """``rmdir``: only empty folders go."""
    _, words = options_of(args, "v", (), "p")
    statuses: list[Status] = []
    for word in words:
        place = machine.place(word)
        if not place.is_inside or not place.path or machine.effects.has_run_programs:
            statuses.append(None)
        elif machine.disk.kind(place) != "folder" or machine.disk.files.names(place.path):
            statuses.append(False)
        else:
            machine.disk.remove(place.path)
            statuses.append(True)
    return _result(statuses)


# -- making -------------------------------------------------------------------------------------


def mkdir(machine: Machine, args: list[Arg], streams: Streams) -> Result:
    """``mkdir``."""
    given, words = options_of(args, "pv", ("--parents", "--verbose"), "Z:m")
    makes_parents = bool(given & {"p", "--parents"})
    statuses: list[Status] = []
    for word in words:
        place = machine.place(word, follows=makes_parents)
        if not place.is_inside:
            statuses.append(True if makes_parents else None)
            continue
        kind = machine.disk.kind(place)
        if kind == "folder":
            statuses.append(makes_parents)
        elif kind in ("file", "link"):
            statuses.append(False)
        else:
            parts = place.path.split("/")
            above = [machine.disk.kind(Place("/".join(parts[:n]))) for n in range(1, len(parts))]
            if "file" in above or (not makes_parents and "none" in above):
                statuses.append(False)
                continue
            if "unknown" not in above or makes_parents:
                machine.disk.files.make_folder(place.path)
            statuses.append(None if "unknown" in above or kind == "unknown" else True)
    return _result(statuses)


def touch(machine: Machine, args: list[Arg], streams: Streams) -> Result:
    """``touch``: a file is there afterwards."""
    given, words = options_of(args, "camf", ("--no-create",), "h:drt")
    statuses: list[Status] = []
    for word in words:
        place = machine.place(word)
        kind = machine.disk.kind(place)
        if kind in ("file", "folder"):
            statuses.append(kind == "folder" or not word.endswith("/"))
            if kind == "file" and place.is_inside:
                machine.disk.set_state(place.path, machine.disk.state(place.path), "touch")  # git may mind its time
        elif given & {"c", "--no-create"}:
            statuses.append(True)
        elif word.endswith("/"):
            statuses.append(False if kind == "none" else None)
        elif kind == "none":
            statuses.append(machine.disk.write(place, b"", "touch"))
        else:
            statuses.append(machine.disk.write(place, None, "touch") if place.is_inside else True)
    return _result(statuses)


def ln(machine: Machine, args: list[Arg], streams: Streams) -> Result:
    """``ln -s``. A hard link ties two files together; neither is known afterwards."""
    given, words = options_of(args, "sfnvT", ("--symbolic", "--force", "--no-dereference", "--verbose"), "bdFiLPrT:St")
    if len(words) != 2:
        raise Unsupported
    target, name = words
    place = machine.place(name, follows=not given & {"n", "--no-dereference", "T"})
    if machine.disk.kind(place) == "folder" and "T" not in given:
        name = f"{name.rstrip('/')}/{target.rstrip('/').rsplit('/', 1)[-1]}"
    place = machine.place(name.rstrip("/"), follows=False)
    if not given & {"s", "--symbolic"}:
        for each in (place, machine.place(target, follows=False)):
            if each.is_inside:
                machine.effects.forget_place(each.path, "a hard link")
                machine.effects.moving.setdefault(each.path, "a hard link")
            else:
                machine.effects.outside.pop(each.path, None)
        return Result(None)
    if not place.is_inside:
        _link_outside(machine, place, target)
        return Result(None)
    kind = machine.disk.kind(place)
    if kind != "none" and machine.place(target, follows=False) == place:
        return Result(False)  # a file and itself
    if not target or name.endswith("/"):
        raise Unsupported
    has_parent = machine.disk.has_parent(place)
    if kind == "folder" or has_parent is False:
        return Result(False)
    if kind in ("file", "link") and not given & {"f", "--force"}:
        return Result(False)
    if has_parent is None:
        machine.effects.forget_place(place.path, "ln over a file that is not known")
        return Result(None)
    if kind == "unknown" and not machine.decided(None, f"ln of {name}"):
        return Result(False)
    machine.disk.put_link(place.path, target)
    return Result(True)


def _link_outside(machine: Machine, place: Place, target: str) -> None:
    """A link outside the repository; one that leads into it is another name of what is there."""
    folder = posixpath.dirname(place.path)
    path = resolve(target if target.startswith("/") else f"{folder}/{target}", machine.context)
    if path.startswith("../") and machine.context.prefixes:
        path = resolve(f"{machine.context.prefixes[0]}/{path}", machine.context)
    machine.effects.outside.pop(place.path, None)
    if not place.is_certain or is_unknown(path) or path.startswith(".."):
        machine.effects.forget_place(EVERYTHING, "a link outside the repository that leads somewhere")
    elif not is_outside(path):
        machine.effects.links[place.path] = "" if path == "." else path


_CLAUSE = re.compile(r"([ugoa]*)((?:[+=-][rwxXst]*)+)")
_CHANGE = re.compile(r"([+=-])([rwxXst]*)")


def chmod(machine: Machine, args: list[Arg], streams: Streams) -> Result:
    """``chmod``: the owner's executable bit is what a state keeps."""
    if any(not arg.is_known for arg in args):
        raise Unsupported
    texts = [arg.text for arg in args[1:]]
    is_recursive = any(text in ("-R", "--recursive") for text in texts)
    words = [text for text in texts if text not in ("-R", "--recursive", "-v", "-f", "--")]
    if len(words) < 2:
        raise Unsupported
    mode, *names = words
    if any(name.startswith("-") for name in names) and "--" not in texts:
        return Result(False)
    if not re.fullmatch(r"0?[0-7]{3}", mode) and not all(_CLAUSE.fullmatch(part) for part in mode.split(",")):
        raise Unsupported
    statuses: list[Status] = []
    for name in names:
        place = machine.place(name)
        kind = machine.disk.kind(place)
        if kind == "none":
            statuses.append(machine.lacks(place))
            continue
        if not place.is_inside:
            statuses.append(None)
            continue
        items = machine.disk.below(place.path) if kind == "folder" and is_recursive else [place.path]
        for item in items:
            state = machine.disk.state(item)
            if isinstance(state, tuple) and state[0] != SYMLINK:
                is_set = _is_executable(mode, state[0] == EXECUTABLE)
                machine.disk.set_state(item, (EXECUTABLE if is_set else FILE, state[1]), "chmod")
        statuses.append(None if kind == "unknown" else True)
    return _result(statuses)


def _is_executable(mode: str, was: bool) -> bool:
    if mode[0].isdigit():
        return bool(int(mode, 8) & 0o100)
    for clause in mode.split(","):
        match = _CLAUSE.fullmatch(clause)
        assert match is not None
        if match[1] and not set(match[1]) & set("ua"):
            continue
        for sign, letters in _CHANGE.findall(match[2]):
            has_x = "x" in letters or ("X" in letters and was)
            was = has_x if sign == "=" else (was or has_x) if sign == "+" else was and not has_x
    return was


def truncate(machine: Machine, args: list[Arg], streams: Streams) -> Result:
    """``truncate -s N``."""
    texts = [arg.text for arg in args[1:]]
    if any(not arg.is_known for arg in args):
        raise Unsupported
    sizes = [
        text[2:] or following for text, following in zip(texts, [*texts[1:], ""], strict=False) if text[:2] == "-s"
    ]
    sizes += [text[7:] for text in texts if text.startswith("--size=")]
    names = [t for n, t in enumerate(texts) if not t.startswith("-") and (n == 0 or texts[n - 1] != "-s")]
    if (
        len(sizes) != 1
        or not re.fullmatch(r"\d{1,6}", sizes[0])
        or any(t[:2] not in ("-s", "--") for t in texts if t[:1] == "-")
    ):
        raise Unsupported
    size = int(sizes[0])
    statuses: list[Status] = []
    for name in names:
        place = machine.place(name)
        data = machine.disk.read(place) if size else b""
        if machine.disk.kind(place) == "folder":
            statuses.append(False)
            continue
        known = None if data is UNSURE else (data or b"")[:size].ljust(size, b"\0")
        statuses.append(machine.disk.write(place, known, "truncate"))
    return _result(statuses)


def tee(machine: Machine, args: list[Arg], streams: Streams) -> Result:
    """``tee``: what it is given goes to files, and on."""
    given, words = options_of(args, "ai", ("--append",), "p")
    is_append = bool(given & {"a", "--append"})
    statuses: list[Status] = []
    for word in words:
        if word.startswith(("/dev/std", "/dev/fd/")):
            raise Unsupported
        if word.startswith("/dev/"):
            continue
        place = machine.place(word)
        old = machine.disk.read(place) if is_append else b""
        given_text = ordered(streams.stdin)
        data = (old or b"") + given_text if given_text is not None and isinstance(old, bytes | None) else None
        statuses.append(machine.disk.write(place, data, "output of a pipe"))
    return _result(statuses, streams.stdin)


def dd(machine: Machine, args: list[Arg], streams: Streams) -> Result:
    """``dd if=… of=…``."""
    pairs = dict(arg.text.partition("=")[::2] for arg in args[1:] if arg.is_known)
    if len(pairs) != len(args) - 1 or not pairs.keys() <= {"if", "of", "status"}:
        raise Unsupported
    data: object = machine.disk.read(machine.place(pairs["if"])) if "if" in pairs else streams.stdin
    if "if" in pairs and (pairs["if"].startswith("/dev/") or data is None):
        if pairs["if"].startswith("/dev/"):
            raise Unsupported
        return Result(False, b"", False)
    if "if" in pairs and "of" in pairs and machine.place(pairs["if"]) == machine.place(pairs["of"]):
        data = b"" if isinstance(data, bytes) else data  # it is emptied before it is read
    known = data if isinstance(data, bytes) else None
    is_sure = True if known is not None or "if" not in pairs else None
    if "of" not in pairs:
        return Result(is_sure, known, False)
    return Result(both([machine.disk.write(machine.place(pairs["of"]), known, "dd"), is_sure]), b"", False)


# -- changing in place --------------------------------------------------------------------------


def sed(machine: Machine, args: list[Arg], streams: Streams) -> Result:
    """``sed -i`` where it is exactly understood."""
    words = tuple(Word(arg.text, arg.is_known) for arg in args)
    operations = read_sed(Call(words, None, machine.context, is_alone=False))
    if any(isinstance(operation, Opaque) and operation.is_possible for operation in operations):
        raise Unsupported
    if not any(re.match(r"-[nEres]*i|--in-place", arg.text) for arg in args[1:]):
        return Result(None, None)
    if any(arg.text == "" for arg in args[1:]) and not _is_bsd(machine, streams):
        return Result(False, b"", False)
    if not operations or not all(isinstance(o, Replace | StreamEdit | Copy) for o in operations):
        raise Unsupported
    statuses: list[Status] = []
    for operation in operations:
        if isinstance(operation, Copy):
            raise Unsupported
        assert isinstance(operation, Replace | StreamEdit)
        statuses.append(_edited(machine, operation))
        name = machine.effects.files.locate(operation.path)
        if name is not None and machine.disk.kind(Place(name)) == "folder":
            break  # sed gives up there
    return _result(statuses)


def _is_bsd(machine: Machine, streams: Streams) -> bool:
    """Whether ``sed -i ''`` is what BSD takes it for. GNU takes the script for a file, and says it is not there."""
    if "sed: can't read" in machine.text:
        return False
    return streams.err is machine.screen or machine.decided(None, "sed -i ''")


def _edited(machine: Machine, operation: Replace | StreamEdit) -> Status:
    """One file; a link is replaced by the file it led to."""
    disk, effects = machine.disk, machine.effects
    name = effects.files.locate(operation.path, follow_last=False)
    target = effects.files.locate(operation.path)
    if name is None:
        if ".git/" in operation.path:
            effects.versions.lose("a file inside .git was written")
        return None
    if target is None:
        effects.forget_place(name, "sed -i through a link that leads out")
        return None
    kind = disk.kind(Place(target))
    if kind in ("none", "folder"):
        return machine.lacks(Place(target)) if kind == "none" else False
    state = disk.state(target)
    if kind == "unknown" or not isinstance(state, tuple):
        effects.forget_place(name, "sed -i on a file that is not known")
        return None
    try:
        if isinstance(operation, StreamEdit):
            after = stream_edit(state[1], operation.edits)
        else:
            after = editors.replace(state[1], operation.old, operation.new, operation.count)
    except (Unknowable, Misfit) as problem:
        effects.forget_place(name, str(problem.args[0]))
        return True
    made: FileState = (state[0], after)
    disk.set_state(name, made, "sed -i")
    return True


def dos2unix(machine: Machine, args: list[Arg], streams: Streams) -> Result:
    """``dos2unix`` and ``unix2dos`` on text files."""
    _, words = options_of(args, "q", (), "abcdefghijklmnoprstuvwxyzDFV")
    statuses: list[Status] = []
    for word in words:
        place = machine.place(word)
        data = machine.disk.read(place)
        if data is None:
            statuses.append(False)
        elif not isinstance(data, bytes) or b"\0" in data or not place.is_inside:
            if place.is_inside:
                machine.effects.forget_place(place.path, args[0].text)
            statuses.append(None)
        else:
            plain = data.replace(b"\r\n", b"\n")
            after = plain if args[0].text == "dos2unix" else plain.replace(b"\n", b"\r\n")
            statuses.append(machine.disk.write(place, after, args[0].text))
    return Result(both(statuses), b"", False)


PROGRAMS: dict[str, Builtin] = {
    "rm": rm,
    "unlink": rm,
    "rmdir": rmdir,
    "mkdir": mkdir,
    "touch": touch,
    "ln": ln,
    "chmod": chmod,
    "truncate": truncate,
    "tee": tee,
    "dd": dd,
    "sed": sed,
    "gsed": sed,
    "dos2unix": dos2unix,
    "unix2dos": dos2unix,
}
"""Programs by name."""
