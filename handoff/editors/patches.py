"""Patches as text, applied: unified diffs as ``git apply`` or ``patch`` do it, and the ``*** Begin Patch`` form.

What does not fit raises ``Misfit``. Reading diffs is in ``unified``; the tools' ways are in ``git_apply``,
``gnu_patch`` and ``begin_patch``.
"""

from __future__ import annotations

from typing import Literal

from handoff.editors import begin_patch, gnu_patch
from handoff.editors.begin_patch import is_begin_patch
from handoff.editors.git_apply import apply_file, apply_hunks
from handoff.editors.plain import Misfit
from handoff.editors.unified import Change, FilePatch, Hunk, Read, parse_unified, stripped, turned

__all__ = [
    "Change",
    "FilePatch",
    "Hunk",
    "Read",
    "apply_file",
    "apply_hunks",
    "apply_patch",
    "is_begin_patch",
    "parse_unified",
    "stripped",
]


def apply_patch(
    text: str, read: Read, strip: int = 1, *, is_reversed: bool = False, program: Literal["git", "patch"] = "git"
) -> list[Change]:
    """What a patch leaves of each file it names, in order; a file may come twice, its last state then holds.

    ``read`` gives a file's present bytes. ``Misfit``: it does not fit. ``Unknowable``: what it leaves depends on more
    than the text. ``program``: who applies a unified diff; the ``*** Begin Patch`` form has its own tool.
    """
    seen: dict[str, bytes | None] = {}

    def read_again(path: str) -> bytes | None:
        return seen[path] if path in seen else read(path)

    if is_begin_patch(text):
        made = (Change(path, data) for path, data in begin_patch.changes(text, read_again))
    else:
        patches = parse_unified(text)
        if not patches:
            raise Misfit("no file is named in the patch")
        if is_reversed:
            patches = [turned(patch) for patch in reversed(patches)]
        if program == "patch":
            made = (change for patch in patches for change in gnu_patch.apply_file(patch, read_again, strip))
        else:
            made = (change for patch in patches for change in apply_file(patch, read_again, strip, is_strict=True))
    found: list[Change] = []
    for change in made:
        seen[change.path] = change.data
        found.append(change)
    return found
