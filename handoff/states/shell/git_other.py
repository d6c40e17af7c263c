"""``git`` commands that leave the files alone, or as good as: what they change of the repository all the same."""

from __future__ import annotations

import re

from handoff.actions.paths import is_outside, resolve
from handoff.states.shell.git_diff import printed
from handoff.states.shell.gitcall import Git
from handoff.states.shell.streams import Result, Unsupported

_HARMLESS_SETTING = re.compile(
    r"(?:user|color|advice|safe|init|push|remote|branch|credential|gc|fetch|https?|url|log|pager|alias|pull|rebase|merge|"
    r"commit|tag|gpg|format|help|status|column|sendemail|maintenance)\..*|core\.(?:pager|editor|abbrev|compression|quotepath)",
    re.I | re.S,
)
"""Settings that change neither files nor what the index takes from them."""


def config(git: Git) -> Result:
    """``git config``: a setting may change how files are written."""
    plain = [word for word in git.words if not word.startswith("-")]
    reads = any(word.startswith(("--get", "--list", "-l", "--name-only", "--show")) for word in git.words)
    is_unset = any(word.startswith("--unset") for word in git.words)
    if (plain[:1] in (["get"], ["list"]) or reads or len(plain) < 2) and not is_unset:
        return Result(None, None, False)
    key = plain[1] if plain[:1] in (["set"], ["unset"]) and len(plain) > 1 else plain[0] if plain else ""
    if not _HARMLESS_SETTING.fullmatch(key):
        git.versions.lose(f"git config {key}")
        git.effects.has_run_programs = True
    return Result(None, None, False)


def init(git: Git) -> Result:
    """``git init``: in a folder below, another repository begins."""
    plain = [word for word in git.words if not word.startswith("-")]
    _begin(git, plain[0] if plain else ".")
    return Result(None, None, False)


def clone(git: Git) -> Result:
    """``git clone``: another repository, with files that nobody knows."""
    plain = [word for word in git.words if not word.startswith("-")]
    if not plain:
        return Result(False, None, False)
    name = re.sub(r"(?:/?\.git)?/*\Z", "", plain[0]).rsplit("/", 1)[-1].rsplit(":", 1)[-1]
    is_told = len(plain) == 2 or not any(word.startswith("-") and "=" not in word for word in git.words)
    for text in plain[1:] if is_told and len(plain) > 1 else [*plain[1:], name]:
        _begin(git, text, is_known=False)
    return Result(None, None, False)


def worktree(git: Git) -> Result:
    """``git worktree``: another work tree, with an index of its own."""
    plain = [word for word in git.words if not word.startswith("-")]
    if plain[:1] in (["add"], ["move"], ["remove"]):
        for text in plain[1:]:
            path = resolve(text, git.context)
            if not is_outside(path) and not git.effects.files.exists(path):
                _begin(git, text, is_known=False)
    return Result(None, None, False)


def _begin(git: Git, text: str, *, is_known: bool = True) -> None:
    path = resolve(text, git.context)
    if is_outside(path) or path == ".":
        return
    git.versions.nested = git.versions.nested | {path}
    if not is_known:
        git.effects.forget_place(path, "another repository", with_mode=True)


def update_index(git: Git) -> Result:
    """``git update-index``."""
    if not set(git.words) <= {"--refresh", "--really-refresh", "-q"}:
        git.versions.lose("git update-index")
    return Result(None, None, False)


def symbolic_ref(git: Git) -> Result:
    """``git symbolic-ref``: with two names it moves HEAD."""
    if len([word for word in git.words if not word.startswith("-")]) > 1 or "-d" in git.words:
        git.versions.lose("git symbolic-ref")
    return Result(None, None, False)


def into_file(git: Git) -> Result:
    """Commands that print, or write a file that an option or a word names."""
    words = iter(git.words)
    for word in words:
        if word in ("-o", "--output", "--output-directory"):
            _written(git, next(words, ""))
        elif word.startswith(("--output=", "--output-directory=")):
            _written(git, word.partition("=")[2])
        elif re.match(r"-o.", word):
            _written(git, word[2:])
    if git.words[:1] == ["create"]:
        _written(git, next((word for word in git.words[1:] if not word.startswith("-")), ""))
    return Result(None, None, False)


def diff(git: Git) -> Result:
    """``git diff``."""
    is_told = any(word in ("--exit-code", "--quiet", "--check", "--no-index") for word in git.words)
    into_file(git)
    return Result(None if is_told else True, None if is_told else printed(git), False)


def format_patch(git: Git) -> Result:
    """``git format-patch``: files whose names the commits tell."""
    if "--stdout" not in git.words:
        git.effects.has_run_programs = True
        return into_file(git)
    return Result(None, None, False)


def _written(git: Git, text: str) -> None:
    if not text:
        raise Unsupported
    path = resolve(text, git.context)
    if not is_outside(path):
        git.effects.forget_place("" if path == "." else path, "written by git", with_mode=True)
