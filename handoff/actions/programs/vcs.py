"""``git``: what it does to the work tree. History and index matter only where a later restore takes from them."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from handoff.actions.operations import ListFiles, Operation, Restore, Vcs
from handoff.actions.paths import Context, is_outside, resolve
from handoff.actions.programs.call import Call, anywhere, guarded
from handoff.actions.programs.editors import patch_of
from handoff.actions.programs.files import move_or_copy, rm
from handoff.actions.programs.reading import git_grep
from handoff.shell import Word

_STRIP = re.compile(r"-p(\d{1,2})")


def git(call: Call) -> list[Operation]:
    """One git command."""
    words, context = _without_global_options(call)
    if not words:
        return [Vcs(verb="version" if call.has("--version", "-v") else "help")]
    verb = words[0].text
    inner = Call(words, call.stdin, context, call.is_alone)
    if context.cwd and is_outside(context.cwd):
        return [Vcs(verb=verb)]
    match verb:
        case "ls-files" | "ls-tree":
            return [ListFiles(path=".")]
        case "grep":
            return git_grep(inner)
        case "checkout":
            return _checkout(inner)
        case "restore":
            return _restore(inner)
        case "reset" if inner.has("--hard", "--merge", "--keep"):
            ref = next(iter(inner.plain()), "HEAD")
            return [Restore(paths=(".",), ref=ref) if ref == "HEAD" else anywhere("git reset --hard")]
        case "stash":
            action = next(iter(inner.plain()), "push")
            return [Vcs(verb=verb) if action in ("list", "show", "drop", "clear") else anywhere(f"git stash {action}")]
        case "clean":
            return [Vcs(verb=verb) if inner.has("-n", "--dry-run") else anywhere("git clean")]
        case "apply" | "am":
            return _apply(inner)
        case "rm":
            return [Vcs(verb=verb)] if inner.has("--cached") else rm(inner)
        case "mv":
            return move_or_copy(inner)
        case "bisect" if inner.plain()[:1] == ["log"]:
            return [Vcs(verb=verb)]
        case "revert" | "merge" | "rebase" | "cherry-pick" | "pull" | "switch" | "bisect" | "submodule":
            return [anywhere(f"git {verb}")]
        case _:
            return [Vcs(verb=verb)]


def _without_global_options(call: Call) -> tuple[tuple[Word, ...], Context]:
    """Subcommand and arguments, and where git was told to run."""
    if len(call.words) > 1 and call.words[1].text[:1] != "-":
        return call.words[1:], call.context
    words, context = list(call.words[1:]), call.context
    while words and words[0].text.startswith("-"):
        option = words.pop(0).text
        if option in ("-C", "-c", "--git-dir", "--work-tree") and words:
            value = words.pop(0).text
            if option == "-C":
                folder = resolve(value, context)
                context = msgspec.structs.replace(context, cwd="" if folder == "." else folder)
    return tuple(words), context


def _apply(call: Call) -> list[Operation]:
    if call.has("--check", "--stat", "--numstat", "--summary", "--cached"):
        return [Vcs(verb=call.name)]
    strip = next((int(m[1]) for text in call.arguments if (m := _STRIP.fullmatch(text))), 1)
    if call.stdin is not None and not [text for text in call.plain() if text != "-"]:
        return [patch_of(call.stdin, strip, call.context, call.has("-R", "--reverse"))]
    return [anywhere(f"git {call.name}")]


def _restored(call: Call, texts: Sequence[str], ref: str) -> list[Operation]:
    """``texts`` set back to ``ref``."""
    if any(not word.is_literal for word in call.words):
        return [anywhere(f"git {call.name}")]
    paths = [call.path(text) for text in texts]
    return [guarded(path, Restore(paths=(path,), ref=ref), call.name) for path in paths]


def _restore(call: Call) -> list[Operation]:
    sources = call.values("-s", "--source")
    sources += [text.partition("=")[2] for text in call.arguments if text.startswith("--source=")]
    if call.has("--staged", "-S") and not call.has("--worktree", "-W"):
        return [Vcs(verb="restore")]
    paths = call.plain(("-s", "--source"))
    return _restored(call, paths, sources[-1] if sources else "HEAD") or [Vcs(verb="restore")]


def _checkout(call: Call) -> list[Operation]:
    """Files set back, or another branch: without ``--`` the shape of the words decides."""
    texts = call.arguments
    if any(text in ("-b", "-B", "--orphan", "--detach") for text in texts):
        return [Vcs(verb="checkout")]
    if "--" in texts:
        at = texts.index("--")
        refs = [text for text in texts[:at] if not text.startswith("-")]
        return _restored(call, texts[at + 1 :], refs[0] if refs else "HEAD") or [Vcs(verb="checkout")]
    plain = call.plain()
    are_paths = [text == "." or "/" in text or "." in text.strip(".") for text in plain]
    if len(plain) >= 2 and not are_paths[0]:
        return _restored(call, plain[1:], plain[0])
    if plain == ["HEAD"]:
        return [Vcs(verb="checkout")]
    return _restored(call, plain, "HEAD") if plain and all(are_paths) else [anywhere("git checkout")]
