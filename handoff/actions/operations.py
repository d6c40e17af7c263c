"""What one action does, as a tagged union, and the key under which actions are compared (``docs/science.md §4``).

An operation keeps what a replay needs to know (texts, line numbers); a key keeps only (kind, target). How an action
is read as operations is in ``tools.py`` (structured tools), ``windowed.py`` (SWE-agent's editor) and ``lines.py``
(shell lines).
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple, TypeAlias, assert_never

import msgspec

Kind: TypeAlias = Literal[
    "read", "search", "list", "edit", "create", "delete", "test", "run", "install", "vcs", "other"
]

Dialect: TypeAlias = Literal[
    "",
    "str_replace",
    "str_replace_expands",
    "str_replace_keeps",
    "sweagent",
    "openhands",
    "openhands_expands",
    "openhands_keeps",
    "windowed",
    "windowed_0",
    "windowed_1",
    "windowed_1_before",
    "windowed_1_after",
    "claude_code",
    "some_edit",
    "gemini",
    "cline",
    "aider",
    "pi",
]
"""Whose editor carries an edit out. Editors under one name differ in what they do to tabs, line ends and near misses.

Empty: plain bytes. ``str_replace`` and ``openhands`` are families of versions; ``_expands`` and ``_keeps``: it was seen
what its version does to tabs. ``windowed_0``, ``windowed_1``: SWE-agent's by its major version, ``_before`` and
``_after``: where its ``insert`` puts lines. ``some_edit``: an ``Edit`` of an unknown harness. What the editors do is in
``states/editing.py``.
"""

CHANGING_KINDS = frozenset({"edit", "create", "delete"})
"""Kinds of keys that change the repository."""


class Key(NamedTuple):
    """(kind, target): the headline level of comparison. A plain pair, so that it equals ``(kind, target)``."""

    kind: str
    target: str


class _Base(msgspec.Struct, frozen=True, kw_only=True, tag=True, gc=False):
    pass


class Read(_Base, frozen=True, kw_only=True):
    """A file is shown, or a part of it."""

    path: str
    first: int | None = None
    """First line shown, from 1; ``None``: from the beginning."""
    last: int | None = None
    """Last line shown; ``None``: to the end."""
    form: Literal["plain", "numbered", "windowed"] = "plain"
    """``numbered``: as ``cat -n``; ``windowed``: a viewer with a frame around it."""
    is_alone: bool = False
    """True when the observation holds this read and nothing else."""


class Search(_Base, frozen=True, kw_only=True):
    """A pattern is looked for; ``path`` is where, ``.`` for the whole repository."""

    path: str = "."
    pattern: str = ""


class ListFiles(_Base, frozen=True, kw_only=True):
    """Names of files are shown."""

    path: str = "."


class WriteFile(_Base, frozen=True, kw_only=True):
    """The whole text of a file is set."""

    path: str
    text: str
    must_be_new: bool = False
    """True for tools that refuse to overwrite."""
    dialect: Dialect = ""


class AppendFile(_Base, frozen=True, kw_only=True):
    """Text is added at the end; the file is made when there is none."""

    path: str
    text: str


class Replace(_Base, frozen=True, kw_only=True):
    """A literal text is replaced. ``one``: it must occur exactly once. ``all``: every occurrence, none is no error.
    ``loose``: the first occurrence, by an editor that also accepts what only resembles it."""

    path: str
    old: str
    new: str
    count: Literal["one", "all", "loose"] = "one"
    first: int | None = None
    """First of the lines, from 1, that a windowed editor looks at; ``None``: the whole file."""
    last: int | None = None
    """Last of them; ``None``: to the end."""
    dialect: Dialect = ""


class ReplaceEach(_Base, frozen=True, kw_only=True):
    """Several texts of one file are replaced in one call, by an editor that looks for them in its own order."""

    path: str
    pairs: tuple[tuple[str, str], ...]
    """Old and new text of each, as written."""
    dialect: Dialect = ""


class InsertLines(_Base, frozen=True, kw_only=True):
    """Text is put after line ``line``; 0 is before the first. ``None``: at the end, and no line feed follows it."""

    path: str
    line: int | None
    text: str
    dialect: Dialect = ""


class EditLines(_Base, frozen=True, kw_only=True):
    """Lines ``first`` to ``last``, inclusive and from 1, become ``text`` (empty: they go)."""

    path: str
    first: int
    last: int
    text: str
    dialect: Dialect = ""


LAST_LINE = -1
"""An address that is the last line."""


class LineEdit(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One command of a line-by-line edit, and the lines that it is for.

    ``start`` alone chooses single lines: by number, by a pattern, or the last. With ``end`` or ``extra`` it opens a
    range. Without ``start`` the command is for every line. Patterns are Python's, on bytes.
    """

    kind: Literal["substitute", "delete", "insert", "append", "change"]
    start: int | str | None = None
    end: int | str | None = None
    extra: int | None = None
    """Lines of the range after its first, instead of ``end``."""
    is_negated: bool = False
    """For all lines but those."""
    pattern: str = ""
    literal: str = ""
    """The text that ``pattern`` stands for, when it is nothing but text."""
    replacement: tuple[str | int, ...] = ()
    """Text, and numbers of groups (0: the whole match). For the kinds that bring lines: their text."""
    is_every: bool = False
    """Whether every match of a line is replaced."""
    nth: int = 1
    """Otherwise: which match."""


class StreamEdit(_Base, frozen=True, kw_only=True):
    """A file goes line by line through ``edits``, as ``sed -i`` does it. Matching nothing is no error."""

    path: str
    edits: tuple[LineEdit, ...]


class ApplyPatch(_Base, frozen=True, kw_only=True):
    """A patch is applied: unified diff, or the ``*** Begin Patch`` form. ``strip``: leading path parts to drop."""

    text: str
    strip: int = 1
    root: str = ""
    """Folder in the repository that the paths are relative to."""
    is_reversed: bool = False
    program: Literal["git", "patch"] = "git"
    """Who applies a unified diff: ``patch`` moves hunks and drops context where ``git apply`` refuses."""
    paths: tuple[str, ...] = ()
    """Files it touches, repo-relative; those outside the repository are left out."""


class Move(_Base, frozen=True, kw_only=True):
    """A file or folder is renamed."""

    source: str
    target: str


class Copy(_Base, frozen=True, kw_only=True):
    """A file or folder is copied."""

    source: str
    target: str


class Delete(_Base, frozen=True, kw_only=True):
    """A file, or with ``is_recursive`` a folder, is removed."""

    path: str
    is_recursive: bool = False


class MakeDirectory(_Base, frozen=True, kw_only=True):
    """A folder is made. Git does not see empty ones."""

    path: str


class SetMode(_Base, frozen=True, kw_only=True):
    """The executable bit is set or cleared."""

    path: str
    is_executable: bool


class Restore(_Base, frozen=True, kw_only=True):
    """Files are set back to a commit; ``.`` is the whole repository."""

    paths: tuple[str, ...]
    ref: str = "HEAD"


class Undo(_Base, frozen=True, kw_only=True):
    """The last edit of the file by the same tool is taken back."""

    path: str
    dialect: Dialect = ""


class Validate(_Base, frozen=True, kw_only=True):
    """Tests, a build or a linter run."""

    kind: Literal["test", "build", "lint"]
    target: str
    """Files or test names as given; ``.`` for all."""
    command: str = ""
    """The command, shortened for display."""
    runner: str = ""
    owns_exit_code: bool = True
    """False when a pipe or a later command decides the exit code."""


class Run(_Base, frozen=True, kw_only=True):
    """Something else is executed."""

    target: str


class Install(_Base, frozen=True, kw_only=True):
    """Packages are installed."""

    target: str


class Vcs(_Base, frozen=True, kw_only=True):
    """Version control, without effect on the work tree."""

    verb: str


class Commit(_Base, frozen=True, kw_only=True):
    """A commit of a branch that is read as a run: (create, edit or delete; path) of every file of its diff."""

    changes: tuple[tuple[str, str], ...]


class Other(_Base, frozen=True, kw_only=True):
    """Anything that is none of these. ``target``: a path outside the repository, when that is why."""

    tool: str
    target: str = ""


class Opaque(_Base, frozen=True, kw_only=True):
    """The effect on files cannot be told from the recording. ``paths``: what it touches, as far as that is known;
    empty: anything."""

    reason: str
    paths: tuple[str, ...] = ()
    is_possible: bool = False
    """True when it may well touch nothing. Without paths it then has no key of its own: it says what else the
    operation beside it may have done."""


Operation: TypeAlias = (
    Read
    | Search
    | ListFiles
    | WriteFile
    | AppendFile
    | Replace
    | ReplaceEach
    | InsertLines
    | EditLines
    | StreamEdit
    | ApplyPatch
    | Move
    | Copy
    | Delete
    | MakeDirectory
    | SetMode
    | Restore
    | Undo
    | Validate
    | Run
    | Install
    | Vcs
    | Commit
    | Other
    | Opaque
)


def keys_of(operation: Operation) -> tuple[Key, ...]:
    """The keys of an operation: one for each file that it touches, none for thinking and talking."""
    match operation:
        case Read(path=path):
            return (Key("read", path),)
        case Search(path=path):
            return (Key("search", path),)
        case ListFiles(path=path):
            return (Key("list", path),)
        case WriteFile(path=path, must_be_new=True) | MakeDirectory(path=path):
            return (Key("create", path),)
        case (
            WriteFile(path=path)
            | AppendFile(path=path)
            | Replace(path=path)
            | ReplaceEach(path=path)
            | InsertLines(path=path)
            | EditLines(path=path)
            | StreamEdit(path=path)
            | SetMode(path=path)
            | Undo(path=path)
        ):
            return (Key("edit", path),)
        case ApplyPatch(paths=paths) | Restore(paths=paths):
            return tuple(Key("edit", path) for path in paths)
        case Move(source=source, target=target):
            return (Key("delete", source), Key("create", target))
        case Copy(target=target):
            return (Key("create", target),)
        case Delete(path=path):
            return (Key("delete", path),)
        case Validate(kind="test", target=target):
            return (Key("test", target),)
        case Validate(kind=kind, target=target):
            return (Key("run", f"{kind} {target}"),)
        case Run(target=target):
            return (Key("run", target),)
        case Install(target=target):
            return (Key("install", target),)
        case Vcs(verb=verb):
            return (Key("vcs", verb),)
        case Commit(changes=changes):
            return tuple(Key(kind, path) for kind, path in changes)
        case Other(tool="", target=_):
            return ()
        case Other(tool=tool, target=target):
            return (Key("other", target or tool),)
        case Opaque(paths=(), is_possible=True):
            return ()
        case Opaque(paths=(), reason=reason):
            return (Key("run", reason),)
        case Opaque(paths=paths):
            return tuple(Key("edit", path) for path in paths)
        case _:
            assert_never(operation)


def key_of(operation: Operation) -> Key | None:
    """The first of ``keys_of``; ``None`` when there is none."""
    keys = keys_of(operation)
    return keys[0] if keys else None


def changed_paths(operation: Operation) -> tuple[str, ...]:
    """Repository files that the operation changes, when it succeeds. Folders made do not count: git sees no folder."""
    if isinstance(operation, MakeDirectory):
        return ()
    return tuple(key.target for key in keys_of(operation) if key.kind in CHANGING_KINDS)


_PATCH_PATH = re.compile(
    r"^(?:\+\+\+ |--- |\*\*\* (?:Add|Update|Delete) File: |\*\*\* Move to: |rename (?:from|to) )([^\t\r\n]+)", re.M
)


def patch_paths(text: str, strip: int) -> tuple[str, ...]:
    """Paths named in a patch, each once, in order, as they stand after stripping; ``/dev/null`` is left out."""
    found: dict[str, None] = {}
    for match in _PATCH_PATH.finditer(text):
        path = match[1].strip().strip('"')
        if path == "/dev/null":
            continue
        if match[0].startswith(("+++", "---")):
            path = "/".join(path.split("/")[strip:]) if not path.startswith("/") else path
        if path:
            found[path] = None
    return tuple(found)
