"""``mv`` and ``cp``, carried out on the state as coreutils do them."""

from __future__ import annotations

from handoff.git.objects import EXECUTABLE, FILE, SYMLINK
from handoff.states.shell.disk import Place
from handoff.states.shell.machine import Builtin, Machine
from handoff.states.shell.programs import both, options_of
from handoff.states.shell.streams import Result, Status, Streams, Unsupported
from handoff.states.shell.words import Arg
from handoff.states.versions import UNSURE, Known


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
    if any(word.startswith(("/dev/std", "/dev/fd/")) for word in words):
        raise Unsupported
    place = machine.place(target)
    kind = machine.disk.kind(place)
    is_into = kind == "folder" and not given & {"T", "--no-target-directory"}
    if any(source.rstrip("/").rsplit("/", 1)[-1] == ".." or not source.strip("/") for source in sources):
        raise Unsupported
    if len(sources) > 1 and not is_into and kind != "unknown":
        return Result(False, b"")
    is_folder_name = is_into
    may_be_folder = place.is_inside and not machine.disk.files.exists(place.path)
    if len(sources) == 1 and not target.endswith("/") and _is_copy_name(sources[0], target):
        may_be_folder = False
    if kind == "unknown" and (len(sources) > 1 or target.endswith("/") or may_be_folder):
        is_folder_name = machine.decided(None, f"test -d {target}")
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
    return Result(both(statuses), None if given & {"v", "--verbose"} else b"")


def _is_copy_name(source: str, target: str) -> bool:
    """Whether the target is named after the file it is a copy of, such as ``a.py.bak``: nobody names a folder so."""
    old, new = source.rsplit("/", 1)[-1], target.rsplit("/", 1)[-1]
    return "." in old.strip(".") and new.startswith(old) and len(new) > len(old)


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
        return None if given & {"n", "--no-clobber"} else False
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
    if old.path.startswith(".git") and not old.is_inside:
        machine.effects.versions.lose("a part of .git was moved")
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
        return None if given & {"n", "--no-clobber"} else False
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


PROGRAMS: dict[str, Builtin] = {"mv": mv, "cp": cp}
"""Programs by name."""
