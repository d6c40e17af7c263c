"""``git`` commands carried out on work tree, index, HEAD and stash (``states.versions``).

A command line that is not understood, or that merges texts, leaves HEAD and index unknown, and forgets the files that
it may have written. Nothing here asks for more of the repository's history than a run could name: commits by their id,
and the ancestors of the base.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from handoff.actions.paths import is_outside, resolve
from handoff.actions.programs.call import listed
from handoff.states.shell import git_back, git_more, git_other, git_stage
from handoff.states.shell.gitcall import Git, is_magic
from handoff.states.shell.machine import Builtin, Machine
from handoff.states.shell.streams import Result, Streams, Unsupported
from handoff.states.shell.words import Arg
from handoff.states.versions import EVERYTHING

_READING = listed(
    """
    status log diff show branch tag remote config rev-parse ls-files ls-tree grep blame shortlog
    describe reflog cat-file rev-list name-rev show-ref for-each-ref merge-base check-ignore version
    help fsck count-objects diff-tree diff-index diff-files whatchanged ls-remote credential var hash-object fetch
    difftool notes gc prune push check-attr check-ref-format annotate range-diff verify-commit verify-pack
    """
)
"""Commands that leave the files, the index and HEAD alone, or as good as."""


_COMMANDS: dict[str, Callable[[Git], Result]] = {
    "add": git_stage.add,
    "stage": git_stage.add,
    "commit": git_stage.commit,
    "rm": git_stage.rm,
    "mv": git_stage.mv,
    "checkout": git_back.checkout,
    "switch": git_back.switch,
    "restore": git_back.restore,
    "reset": git_back.reset,
    "stash": git_more.stash,
    "clean": git_more.clean,
    "apply": git_more.apply,
    "revert": lambda git: git_more.replay(git, reverses=True),
    "cherry-pick": lambda git: git_more.replay(git, reverses=False),
    "show": git_more.show,
    "branch": git_more.branch,
    "tag": git_more.branch,
    "config": git_other.config,
    "init": git_other.init,
    "clone": git_other.clone,
    "worktree": git_other.worktree,
    "update-index": git_other.update_index,
    "symbolic-ref": git_other.symbolic_ref,
    "archive": git_other.into_file,
    "bundle": git_other.into_file,
    "diff": git_other.diff,
    "format-patch": git_other.format_patch,
}


def git(machine: Machine, args: list[Arg], streams: Streams) -> Result:
    """One git command."""
    words = [arg.text for arg in args[1:]]
    context = machine.context
    if machine.has_odd_git:
        machine.effects.forget_place(EVERYTHING, "git with variables that point it elsewhere")
        return _unread(machine, words)
    if any(not arg.is_known for arg in args):
        return _unread(machine, words)
    while words and words[0].startswith("-"):
        option = words.pop(0)
        if option in ("-c", "-C") and words:
            value = words.pop(0)
            if option == "-C":
                folder = resolve(value, context)
                context = msgspec.structs.replace(context, cwd="" if folder == "." else folder)
            elif value.partition("=")[0].lower() not in _HARMLESS_SETTINGS:
                return _unread(machine, words)
        elif option in ("--git-dir", "--work-tree") or option.startswith(("--git-dir=", "--work-tree=")):
            return _unread(machine, words)
    if not words:
        return Result(True, None)
    if context.cwd and is_outside(context.cwd):
        return Result(None, None, False)
    nested = machine.effects.versions.nested
    if inside := [name for name in nested if context.cwd == name or context.cwd.startswith(f"{name}/")]:
        machine.effects.forget_place(inside[0], "git in another repository", with_mode=True)
        return Result(None, None, False)
    if nested and words[0] in ("add", "stage", "clean", "stash"):
        return _unread(machine, words)
    command = Git(machine, context, words[1:], streams.stdin)
    made = _COMMANDS.get(words[0])
    if made is not None:
        before = machine.effects.versions.index.copy()
        try:
            return made(command)
        except Unsupported:
            machine.effects.versions.index = before
            return _unread(machine, words)
    if words[0] in _READING:
        return Result(True, None, False)
    return _unread(machine, words)


_HARMLESS_SETTINGS = frozenset(
    ("user.name", "user.email", "core.pager", "color.ui", "advice.detachedhead", "safe.directory", "core.editor")
)


def _unread(machine: Machine, words: list[str]) -> Result:
    """A command that is not carried out: what it may have changed is not known."""
    verb = words[0] if words else ""
    effects = machine.effects
    if verb in _READING and not any(word.startswith(("-o", "--output")) for word in words):
        return Result(None, None, False)
    effects.versions.lose(f"git {verb}")
    if verb in ("add", "commit", "reset") and "--hard" not in words:
        return Result(None, None, False)
    if verb == "stash" and words[1:2] in (["list"], ["show"], ["drop"], ["clear"]):
        return Result(None, None, False)
    if verb in ("rm", "mv", "restore", "checkout") and "--" in words:
        named = [resolve(word, machine.context) for word in words[words.index("--") + 1 :]]
        if named and not any(is_outside(path) or is_magic(path) or path.startswith(":") for path in named):
            for path in named:
                effects.forget_place("" if path == "." else path, f"git {verb} that is not carried out")
            return Result(None, None, False)
    effects.forget_place(EVERYTHING, f"git {verb} that is not carried out")
    return Result(None, None, False)


PROGRAMS: dict[str, Builtin] = {"git": git}
"""Programs by name."""
