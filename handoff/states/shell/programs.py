"""Programs that make, move, remove and change whole files, carried out on the state as coreutils do it."""

from __future__ import annotations

import re
from collections.abc import Iterable

from handoff.actions.operations import Copy, Replace, StreamEdit
from handoff.actions.programs.call import Call
from handoff.actions.programs.sed import sed as read_sed
from handoff.shell import Word
from handoff.states import editors
from handoff.states.editors import Misfit, Unknowable
from handoff.states.importer import FileState
from handoff.states.objects import EXECUTABLE, FILE, SYMLINK
from handoff.states.shell.disk import Place
from handoff.states.shell.machine import Builtin, Machine, Refused, Result, Status, Streams, Unsupported, ordered
from handoff.states.shell.words import Arg
from handoff.states.stream import stream_edit
from handoff.states.versions import UNSURE, Known


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


# -- moving and copying -------------------------------------------------------------------------


def mv(machine: Machine, args: list[Arg], streams: Streams) -> Result:
    """``mv``."""
    given, words = options_of(
        args, "fvnT", ("--force", "--no-clobber", "--verbose", "--no-target-directory"), "biuZ:tS"
    )
    return _transfer(machine, words, given, _move)


def cp(machine: Machine, args: list[Arg], streams: Streams) -> Result:
    """``cp``."""
    long = ("--recursive", "--force", "--no-clobber", "--verbose", "--archive", "--no-target-directory")
    given, words = options_of(args, "rRapfvnT", long, "bdHilLPsuxZ:St")
    if given & {"a", "--archive", "--recursive", "R"}:
        given.add("r")
    return _transfer(machine, words, given, _copy)


def _transfer(machine: Machine, words: list[str], given: set[str], act: object) -> Result:
    if len(words) < 2:
        return Result(False, b"")
    *sources, target = words
    place = machine.place(target)
    kind = machine.disk.kind(place)
    is_into = kind == "folder" and not given & {"T", "--no-target-directory"}
    if any(source.rstrip("/").rsplit("/", 1)[-1] == ".." or not source.strip("/") for source in sources):
        raise Unsupported
    if len(sources) > 1 and not is_into and kind != "unknown":
        return Result(False, b"")
    is_folder_name = is_into
    if kind == "unknown" and (len(sources) > 1 or target.endswith("/")):
        is_folder_name = machine.decided(None, f"whether {target} is a folder")
        if not is_folder_name and len(sources) > 1:
            return Result(False, b"")
    for source in sources:  # nothing is changed before all is understood
        found = machine.place(source, follows=False)
        if found.is_inside and not found.path:
            raise Unsupported
    names = [source.rstrip("/").rsplit("/", 1)[-1] for source in sources]
    if len(set(names)) < len(names):
        raise Unsupported
    statuses: list[Status] = []
    for source, name in zip(sources, names, strict=True):
        end = target.rstrip("/") + ("" if name == "." else f"/{name}") if is_folder_name else target
        statuses.append(act(machine, source, end or "/", given))  # type: ignore[operator]
    return _result(statuses, None if given & {"v", "--verbose"} else b"")


def _move(machine: Machine, source: str, target: str, given: set[str]) -> Status:
    disk, effects = machine.disk, machine.effects
    old, new = machine.place(source, follows=False), machine.place(target.rstrip("/") or "/", follows=False)
    kind = disk.kind(old)
    if source.endswith("/") and kind != "folder":
        return False if kind in ("file", "none") else None if kind == "unknown" else False
    if kind == "none":
        return machine.lacks(old)
    if kind == "unknown" and not machine.decided(None, f"mv of {source}"):
        return False
    if old == new or (kind == "link" and machine.place(source) == new):
        return False
    if target.endswith("/") and kind in ("file", "link") and disk.kind(new) != "folder":
        return None if given & {"n", "--no-clobber"} else False
    existing = disk.kind(new)
    if given & {"n", "--no-clobber"} and existing != "none":
        if existing == "unknown":
            return _doubt(machine, old, new, f"mv -n of {source}")
        return None
    if not new.is_inside or not old.is_inside:
        return _across(machine, old, new, kind)
    if new.path.startswith(f"{old.path}/"):
        return False
    if kind == "unknown":
        effects.forget_place(new.path, f"moved from {old.path}, which is not known")
        disk.set_state(old.path, None, "")
        return True
    has_parent = disk.has_parent(new)
    if has_parent is False:
        return False
    if existing == "folder":
        if kind != "folder" or disk.files.names(new.path):
            return False
        disk.remove(new.path)
    elif existing in ("file", "link") and kind == "folder":
        return False
    elif existing == "unknown" and kind == "folder":
        return _doubt(machine, old, new, f"mv of {source}")
    if has_parent is None:
        return _doubt(machine, old, new, f"mv of {source}")
    for item, state in _states(machine, old.path, kind):
        disk.set_state(new.path + item, state, f"moved from {old.path}{item}, which is not known")
    for folder in _folders(machine, old.path):
        disk.files.make_folder(new.path + folder)
    disk.remove(old.path)
    return True


def _states(machine: Machine, path: str, kind: str) -> list[tuple[str, Known]]:
    """What is at a path and below it, by the rest of the path; unknown files among them."""
    if kind != "folder":
        return [("", machine.disk.state(path))]
    unknown = [item for item in machine.effects.unknown if item.startswith(f"{path}/")]
    items = sorted({*machine.disk.below(path), *unknown})
    return [(item[len(path) :], machine.disk.state(item)) for item in items]


def _folders(machine: Machine, path: str) -> list[str]:
    return [folder[len(path) :] for folder in machine.disk.files.folders_below(path)]


def _doubt(machine: Machine, old: Place, new: Place, reason: str) -> Status:
    for place in (old, new):
        if place.is_inside:
            machine.effects.forget_place(place.path, reason)
        else:
            machine.effects.outside.pop(place.path, None)
    return None


def _across(machine: Machine, old: Place, new: Place, kind: str) -> Status:
    """A move with one end outside the repository."""
    status = _bring(machine, old, new, kind)
    if status is False:
        return False
    if old.is_inside:
        machine.disk.remove(old.path)
    elif old.is_certain:
        machine.effects.outside[old.path] = None
    return status


def _bring(machine: Machine, old: Place, new: Place, kind: str) -> Status:
    """A copy with one end outside the repository."""
    disk, effects = machine.disk, machine.effects
    if kind == "folder":
        if new.is_inside:
            effects.forget_place(new.path, "a folder from outside the repository")
        else:
            outside = effects.outside
            for path in [path for path in outside if path.startswith(new.path + "/")]:
                del outside[path]
            for item in disk.below(old.path) if old.is_inside else []:
                data = disk.read(Place(item))
                if isinstance(data, bytes) and new.is_certain:
                    outside[new.path + item[len(old.path) :]] = data
        return None if new.is_inside else True
    data = disk.read(machine.disk.locate(old.path, machine.context)) if old.is_inside else disk.read(old)
    if old.is_inside:
        followed = disk.files.locate(old.path)
        data = UNSURE if followed is None else disk.read(Place(followed))
    if data is None:
        return False
    known = data if isinstance(data, bytes) else None
    if new.is_inside and disk.kind(new) == "link":
        followed = disk.files.locate(new.path)
        new = Place(followed) if followed is not None else new
    mode_known = new.is_inside and disk.files.exists(new.path) and not effects.is_unknown(new.path)
    status = disk.write(new, known, f"copied from {old.path}")
    if status is not False and new.is_inside and known is not None and not mode_known and not old.is_inside:
        mode = effects.outside_modes.get(old.path, FILE)
        disk.set_state(new.path, (mode, known), "")
    if status is not False and not new.is_inside and old.is_inside and new.is_certain:
        state = disk.state(old.path)
        effects.outside_modes[new.path] = EXECUTABLE if isinstance(state, tuple) and state[0] == EXECUTABLE else FILE
    return status if known is not None else None if status else status


def _copy(machine: Machine, source: str, target: str, given: set[str]) -> Status:
    disk, effects = machine.disk, machine.effects
    is_recursive = "r" in given
    old = machine.place(source.rstrip("/") or "/", follows=not is_recursive)
    new = machine.place(target.rstrip("/") or "/")
    kind = disk.kind(old)
    if source.endswith("/") and kind == "link":
        old = machine.place(source)
        kind = disk.kind(old)
    if kind == "none":
        return machine.lacks(old)
    if source.endswith("/") and kind == "file":
        return False
    if kind == "folder" and not is_recursive:
        return False
    if old == new:
        return False
    existing = disk.kind(new)
    if target.endswith("/") and kind != "folder" and existing != "folder":
        return False
    if given & {"n", "--no-clobber"} and existing != "none":
        if existing == "unknown" or kind == "folder":
            return _doubt(machine, new, new, f"cp -n of {source}")
        return None
    if not old.is_inside or not new.is_inside:
        return _bring(machine, old, new, kind)
    if kind == "unknown":
        effects.forget_place(new.path, f"copied from {old.path}, which is not known")
        return None
    if kind == "folder" and (new.path == old.path or new.path.startswith(f"{old.path}/") or not old.path):
        return _doubt(machine, new, new, "a folder copied into itself")
    has_parent = disk.has_parent(new)
    if has_parent is False or (existing == "folder") != (kind == "folder" and existing not in ("none", "unknown")):
        return False
    if kind == "folder" and existing in ("file", "link"):
        return False
    if has_parent is None or (kind == "link" and existing != "none"):
        return _doubt(machine, new, new, f"cp of {source}")
    is_through = kind == "file" and disk.kind(machine.place(target, follows=False)) == "link"
    if is_through and existing != "file":  # nothing is written through a link that leads nowhere
        return False
    if kind == "folder":
        disk.files.make_folder(new.path)
        for folder in _folders(machine, old.path):
            disk.files.make_folder(new.path + folder)
    for item, state in _states(machine, old.path, kind):
        _put(machine, new.path + item, state, f"copied from {old.path}{item}", given)
    return True


def _put(machine: Machine, path: str, state: Known, reason: str, given: set[str]) -> None:
    """A copy over what is there: an existing file keeps its own mode, unless modes are copied too."""
    disk = machine.disk
    there = disk.state(path)
    if not isinstance(state, tuple) or there is UNSURE or (there is not None and SYMLINK in (there[0], state[0])):
        machine.effects.forget_place(path, reason)
    elif there is not None and not given & {"p", "a", "--archive"}:
        disk.set_state(path, (there[0], state[1]), reason)
    else:
        disk.set_state(path, state, reason)


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
    if not place.is_inside:
        return Result(None)
    if not given & {"s", "--symbolic"}:
        other = machine.place(target, follows=False)
        for each in (place, other):
            if each.is_inside:
                machine.effects.forget_place(each.path, "a hard link")
        return Result(None)
    kind = machine.disk.kind(place)
    if not target or name.endswith("/"):
        raise Unsupported
    has_parent = machine.disk.has_parent(place)
    if kind == "folder" or has_parent is False:
        return Result(False)
    if kind in ("file", "link") and not given & {"f", "--force"}:
        return Result(False)
    if kind == "unknown" or has_parent is None:
        machine.effects.forget_place(place.path, "ln over a file that is not known")
        return Result(None)
    machine.disk.put_link(place.path, target)
    return Result(True)


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
    sizes = [text[2:] or following for text, following in zip(texts, [*texts[1:], ""], strict=True) if text[:2] == "-s"]
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
    if not any(re.match(r"-[nEres]*i|--in-place", arg.text) for arg in args[1:]):
        return Result(None, None)
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


def _edited(machine: Machine, operation: Replace | StreamEdit) -> Status:
    """One file; a link is replaced by the file it led to."""
    disk, effects = machine.disk, machine.effects
    name = effects.files.locate(operation.path, follow_last=False)
    target = effects.files.locate(operation.path)
    if name is None:
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
    "mv": mv,
    "cp": cp,
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
