"""What the common programs do, by their arguments: one room per family, one table of names.

An unknown program is ``Run``. Options that take a value are listed where they matter; a wrong guess there costs a
key's target, never an edit.
"""

from __future__ import annotations

import re

from handoff.actions.operations import Operation, Run
from handoff.actions.programs import editors, files, packages, reading, runners, scripts, sed, vcs, writing
from handoff.actions.programs.call import Call, Program, listed
from handoff.actions.programs.wrappers import unwrapped

_MOST = 8
"""Programs that run one another in one command."""


NO_EFFECT = listed(
    """
    pwd whoami date env printenv uname id history hostname nproc rmdir tr basename dirname realpath readlink seq
    expr tput stty jobs fg bg disown yes echo printf sleep wait which whereis cd pushd popd export set unset
    true false : exit return alias unalias shopt ulimit trap test [ [[ local declare readonly typeset read clear
    reset break continue umask hash type command let
    """
)
"""Programs that do nothing that counts; what they print may still go to a file."""


def _named(program: Program, names: str) -> dict[str, Program]:
    return dict.fromkeys(names.split(), program)


_PROGRAMS: dict[str, Program] = {
    **_named(reading.cat, "cat nl less more bat batcat"),
    **_named(reading.head, "head"),
    **_named(reading.tail, "tail"),
    **_named(reading.reads, "wc file stat diff cmp tac od hexdump strings md5sum sha1sum sha256sum readelf objdump"),
    **_named(reading.filters, "jq yq xxd cut column fold paste comm join rev"),
    **_named(writing.awk, "awk gawk mawk"),
    **_named(writing.sort, "sort"),
    **_named(writing.last, "uniq"),
    **_named(reading.ls, "ls tree ll dir du exa eza"),
    **_named(reading.grep, "grep egrep fgrep zgrep rg ag ack"),
    **_named(reading.find, "find fd fdfind"),
    **_named(reading.xargs, "xargs"),
    **_named(sed.sed, "sed gsed"),
    **_named(editors.perl, "perl"),
    **_named(editors.patch, "patch"),
    **_named(editors.apply_patch, "apply_patch applypatch"),
    **_named(files.tee, "tee"),
    **_named(files.move_or_copy, "mv cp"),
    **_named(files.rm, "rm unlink"),
    **_named(files.mkdir, "mkdir"),
    **_named(files.touch, "touch"),
    **_named(files.truncate, "truncate"),
    **_named(files.chmod, "chmod"),
    **_named(files.ln, "ln"),
    **_named(files.download, "curl wget"),
    **_named(files.archive, "tar unzip zip"),
    **_named(writing.compressor, "gzip gunzip bzip2 bunzip2 xz unxz zstd unzstd"),
    **_named(writing.text_editor, "ed red ex vi vim nvim nano emacs pico micro"),
    **_named(writing.install, "install"),
    **_named(writing.rsync, "rsync"),
    **_named(writing.named, "shred fallocate mkfifo mknod sponge link"),
    **_named(
        writing.perhaps_anywhere, "split csplit flock su script watch parallel entr rename prename cpio pax busybox"
    ),
    **_named(writing.with_output, "iconv openssl convert magick ffmpeg pandoc dot"),
    **_named(writing.mktemp, "mktemp"),
    **_named(vcs.git, "git"),
    **dict.fromkeys(runners.RUNNERS, runners.tests),
    **dict.fromkeys(runners.LINTERS, runners.lint),
    **dict.fromkeys(runners.FORMATTERS, runners.formatter),
    **dict.fromkeys(runners.BUILDERS, runners.build),
    **dict.fromkeys(packages.MANAGERS, packages.manager),
    **dict.fromkeys(packages.PIPS, packages.install),
    **_named(runners.compiled, "py_compile compileall"),
    **_named(scripts.python, "python python2 python3 pypy pypy3"),
    **_named(scripts.other_script, "node ruby php tsx ts-node lua Rscript julia"),
    **_named(scripts.shell_script, "bash sh zsh dash ash fish"),
    **_named(scripts.source, "source ."),
}
_VERSIONED = re.compile(r"(python|pip|pypy)[\d.]+")
_BY_FOLDER = frozenset((*runners.RUNNERS, *runners.LINTERS, "mvnw", "gradlew"))
"""Programs known by their last name even when called by a path in the repository (``./gradlew``, ``bin/rspec``)."""


def operations_of(call: Call) -> list[Operation]:
    """What one command does. Empty when it does nothing that counts."""
    for _ in range(_MOST):
        name = call.words[0].text
        if name in NO_EFFECT:
            return []
        found = _PROGRAMS.get(name) or _found(name)
        if found is None:
            break
        made = found(call)
        if not isinstance(made, Call):
            return made
        call = made.inner(unwrapped(made.words))
    name = call.words[0].text
    return [Run(target=call.path(name) if "/" in name else name)]


def _found(name: str) -> Program | None:
    """The program of a name with a folder or a version."""
    found: Program | None = None
    if "/" in name:
        base = name.rsplit("/", 1)[-1]
        is_system = name.startswith(("/usr/", "/bin/", "/opt/", "~/")) or "/bin/" in name
        found = _PROGRAMS.get(base) if is_system or base in _BY_FOLDER else None
        name = base if is_system else name
    if found is None and (match := _VERSIONED.fullmatch(name)):
        found = _PROGRAMS.get(match[1])
    return found
