"""Programs that change text inside files, apart from ``sed``: ``patch``, ``perl -i``."""

from __future__ import annotations

import re
from typing import Literal

from handoff.actions.operations import ApplyPatch, Opaque, Operation, Other, Run, patch_paths
from handoff.actions.paths import Context, is_outside, resolve
from handoff.actions.programs.call import Call, is_wild
from handoff.actions.programs.scripts import perl_writes

_STRIP = re.compile(r"(?:-p|--strip=)(\d{1,2})")
_DIGITS = frozenset("0123456789")


def patch(call: Call) -> list[Operation]:
    """``patch``: exact when the line holds the patch."""
    if call.has("--dry-run", "--check"):
        return [Run(target="patch --dry-run")]
    texts = call.arguments
    strip = next((int(m[1]) for text in texts if (m := _STRIP.fullmatch(text))), None)
    if strip is None:
        strip = next((int(value) for value in call.values("-p") if value in _DIGITS), None)
    named = call.plain(("-i", "-d", "-p", "--input", "--directory"))
    if call.stdin is None or named or call.has("-i", "-d", "--input", "--directory"):
        paths = tuple(path for path in map(call.path, named[:1]) if not is_outside(path))
        return [Opaque(reason="patch", paths=paths or (".",))]
    if strip is None and any("/" in path for path in patch_paths(call.stdin, 0)):
        return [Opaque(reason="patch without -p", paths=(".",))]  # it goes by base names that exist
    return [patch_of(call.stdin, strip or 0, call.context, call.has("-R", "--reverse"), "patch")]


def patch_of(
    text: str, strip: int, context: Context, is_reversed: bool = False, program: Literal["git", "patch"] = "git"
) -> Operation:
    """A patch with the files it touches inside the repository."""
    paths = [resolve(path, context) for path in patch_paths(text, strip)]
    inside = tuple(dict.fromkeys(path for path in paths if not is_outside(path) and path != "."))
    if not inside:
        return Other(tool="patch", target=paths[0] if paths else "")
    root = context.cwd if context.cwd and not is_outside(context.cwd) else ""
    if "*** Begin Patch" in text and any(match[2].strip().startswith(("/", "..")) for match in _SECTION.finditer(text)):
        text, root = _rooted(text, context), ""
    return ApplyPatch(text=text, strip=strip, root=root, is_reversed=is_reversed, program=program, paths=inside)


_SECTION = re.compile(r"^(\*\*\* (?:Add File|Update File|Delete File|Move to): )(.+)$", re.M)


def _rooted(text: str, context: Context) -> str:
    """A ``*** Begin Patch`` text whose paths are all seen from the repository; files outside of it are left out."""
    kept: list[str] = []
    is_inside = True
    for line in text.split("\n"):
        match = _SECTION.match(line)
        if match is not None:
            path = resolve(match[2].strip(), context)
            if "Move to" not in match[1]:
                is_inside = not is_outside(path) and path != "."
            line = match[1] + path
        elif line.strip() == "*** End Patch":
            is_inside = True
        if is_inside:
            kept.append(line)
    return "\n".join(kept)


def apply_patch(call: Call) -> list[Operation]:
    """Codex's ``apply_patch``: the patch is its argument or its input."""
    text = next(iter(call.plain()), call.stdin) or ""
    return [patch_of(text, 0, call.context)] if "*** Begin Patch" in text else [Other(tool="apply_patch")]


_IN_PLACE = re.compile(r"-[A-Za-hj-z0-9]*i(.*)", re.S)
_PERL_VALUED = re.compile(r"-[A-Za-z0-9]*e|-[IMm]")


def perl(call: Call) -> list[Operation]:
    """``perl``: edits the files named after its code with ``-i``, runs a script otherwise."""
    files: list[str] = []
    codes: list[str] = []
    suffix = ""
    is_in_place = has_code = takes = False
    for text in call.arguments:
        if takes:
            codes.append(text)
            takes = False
        elif text.startswith("-") and len(text) > 1:
            if (in_place := _IN_PLACE.match(text)) is not None:
                is_in_place, suffix = True, in_place[1]
            takes = _PERL_VALUED.fullmatch(text) is not None
            has_code = has_code or text.endswith("e")
        else:
            files.append(text)
    writes: list[Operation] = []
    if any(perl_writes(code) for code in codes):
        writes = [Opaque(reason="perl -e", is_possible=True)]
    if not is_in_place:
        return [Run(target="perl -e" if has_code else call.path(files[0]) if files else "perl"), *writes]
    suffix = "" if suffix.isalpha() and set(suffix) <= set("pnewlas") else suffix
    if any(is_wild(call, file) for file in files) or not files:
        return [Opaque(reason="perl -i", paths=(".",))]
    made: list[Operation] = []
    for path in map(call.path, files):
        kept = (path, path + suffix) if suffix and "*" not in suffix else ((".",) if suffix else (path,))
        made.append(Other(tool="perl", target=path) if is_outside(path) else Opaque(reason="perl -i", paths=kept))
    return [*made, *writes]
