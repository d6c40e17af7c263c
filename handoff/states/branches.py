"""A git branch read as a predecessor's work: from a repository to the record that ``adapters/git_branch.py`` reads.

Which commits: those of the branch beyond its base, along first parents, oldest first. A branch that was merged is
found by the merge on the base's own line; its first parent then is the base. Git works on a mirror, without the
repository's configuration, filters, hooks or network; the repository itself is only cloned and asked for its refs. No
name that a user gives reaches git: it is looked up among those refs.

What is left out on purpose: names and addresses of people. Git's author is looked at to tell programs from people;
lines of a message that name people (``Co-authored-by: …``) go, and addresses in the rest are masked. Content of files
is what it is.
"""

from __future__ import annotations

import codecs
import re
import subprocess
import tempfile
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import NamedTuple

from handoff.adapters.git_branch import VERSION, Branch, Commit, trajectory_of
from handoff.errors import InputError, StateError
from handoff.framing import label
from handoff.git.objects import EMPTY_TREE
from handoff.git.repositories import TRUSTED, Repositories, Repository, git_environment, git_program, run_git
from handoff.states.commits import CommitObject, read_commit
from handoff.trajectory import Trajectory

MOST_COMMITS = 1_000
"""Commits of one branch. A longer one is the history of a project and no piece of work."""

_LONGEST_DIFF = 16 << 20
"""Bytes of one commit's diff. A longer one only names its files."""
_MOST_TEXT = 64 << 20
"""Bytes of all diffs of a branch; the commits after that only name their files."""
_LARGE_FILE = "1m"
"""A larger file is named and not shown, as a binary one is."""

_DIFF = (
    *("diff-tree", "-p", "-U3", "--full-index", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color"),
    *("--diff-algorithm=myers", "--submodule=short", "--ignore-submodules=none", "--src-prefix=a/", "--dst-prefix=b/"),
)
_HEX = re.compile(r"[0-9a-f]{7,40}")
_ORIGIN = re.compile(r"(?<=[/:])([\w.-]+)/([\w.-]+?)(?:\.git)?/?\Z", re.A)
_ENCODINGS = ("iso8859-1", "iso8859-2", "iso8859-15", "cp1251", "cp1252", "koi8-r", "shift_jis", "euc_jp", "gbk")
"""Encodings that commits really name. Python knows others, some of which take forever on hostile bytes."""

_DATE = re.compile(rb"(-?\d{1,18}) ([+-])(\d\d)(\d\d)")
_PERSON = re.compile(
    r"[ \t]*[\w-]{1,60}:([^<\n]{0,200})<([^<>@\n]{0,200}@[^<>\n]{0,200})>\s*|[ \t]*[\w-]{1,60}-by:.*", re.I | re.S
)
"""A line that names a person: a trailer with an address, or one that ends in ``-by``."""
_ADDRESS = re.compile(r"(?<![\w.+-])(?!git@)[\w.+-]{1,254}@[\w-]{1,63}(?:\.[\w-]{1,63}){0,8}\.[^\W\d_]{2,24}(?![\w-])")
_PROGRAM = re.compile(
    r"(?:\d+\+)?(?:copilot|[\w-]+\[bot\])@users\.noreply\.github\.com|copilot@github\.com|noreply@anthropic\.com"
    r"|cursoragent@cursor\.com|openhands@all-hands\.dev|noreply@aider\.chat|(?:noreply|codex)@openai\.com",
    re.I,
)
"""Addresses under which agents commit."""


def refs_of(source: Path) -> dict[str, str]:
    """Refs of a local repository, ``HEAD`` among them, with what they point to. ``InputError`` when it is none."""
    if not source.is_dir():
        raise InputError(f"{label(source)}: no folder; a branch is read from a local git repository, so clone it first")
    try:
        listed = run_git("ls-remote", "--quiet", "--", source.resolve(), extra=TRUSTED)
    except StateError as error:
        raise InputError(f"{label(source)}: {error}; name the folder of a git repository, bare or not") from error
    pairs = (line.partition("\t")[::2] for line in listed.decode("utf-8", "surrogateescape").split("\n"))
    return {name: id_ for id_, name in pairs if name}


def repository_name(source: Path) -> str:
    """``owner/name`` as in the URL it was cloned from, else the name of its folder. No other part of a URL is kept."""
    folder = source.resolve()
    try:
        command = ("config", "--local", "--no-includes", "--get", "remote.origin.url")
        url = run_git("-C", folder, *command, extra=TRUSTED).decode("utf-8", "replace").strip()
    except StateError:
        url = ""
    if (found := _ORIGIN.search(url)) and not url.startswith("/"):
        return f"{found[1]}/{found[2]}"
    return label(folder.parent if folder.name == ".git" else folder).rsplit("/", 1)[-1].removesuffix(".git")


def look_at(source: Path, branch: str, *, base: str | None = None) -> Trajectory:
    """One branch as a run, through a mirror that is gone afterwards. Errors: see ``read_branch``."""
    repo = repository_name(source)
    with tempfile.TemporaryDirectory() as folder, Repositories(Path(folder), {repo: source}) as repositories:
        return trajectory_of(read_branch(repositories, repo, source, branch, base=base))


def read_branch(
    repositories: Repositories,
    repo: str,
    source: Path,
    branch: str,
    *,
    base: str | None = None,
    task: str | None = None,
) -> Branch:
    """The record of one branch of ``source``, read from the mirror of ``repo``.

    ``branch``, ``base``: a branch or another ref, in full or short, or a commit's id (7 to 40 digits). Default base:
    the repository's main branch. The task is ``task``, else what the merge says below its subject (a pull request's
    description), else the subject of the first commit that changes something. ``InputError`` or ``StateError`` says
    what cannot be read.
    """
    refs = refs_of(source)
    repository = repositories.open(repo)
    tip = _commit(repositories, repo, _resolve(branch, refs), branch)
    beyond = (
        _main(repositories, repo, refs, tip)
        if base is None
        else _commit(repositories, repo, _resolve(base, refs), base)
    )
    merge, ids = _range(repository, tip, beyond, branch)
    objects = [read_commit(repository, id_) for id_ in ids]
    first = objects[0].parents[0] if objects[0].parents else None
    start = EMPTY_TREE if first is None else repository.tree_of(first)
    commits = _commits(repository, start, objects)
    subjects = [commit.message.partition("\n")[0].strip() for commit in commits if commit.patch] or [""]
    whole = _diff(repository, start, objects[-1].tree, _LONGEST_DIFF)
    described = "" if merge is None else _cleaned(_message(read_commit(repository, merge)).partition("\n")[2])[0]
    return Branch(
        format=VERSION,
        repo=repo,
        branch=tip if _HEX.fullmatch(branch) and tip.startswith(branch) else label(Path(branch)),
        base=first,
        task=task or described or subjects[0],
        task_from="user" if task else "merge commit" if described else "first commit",
        merge=merge,
        patch=None if whole.is_cut else whole.text,
        commits=commits,
    )


# -- which commits ------------------------------------------------------------------------------


def _resolve(name: str, refs: Mapping[str, str]) -> str:
    """The id that a user's name stands for. Branches come before tags and what was fetched from elsewhere."""
    for place in ("", "refs/heads/", "refs/", "refs/remotes/origin/", "refs/remotes/", "refs/tags/"):
        for ending in ("^{}", ""):  # what an annotated tag points to
            if found := refs.get(f"{place}{name}{ending}"):
                return found
    if _HEX.fullmatch(name):
        return name
    some = ", ".join(sorted(ref.removeprefix("refs/heads/") for ref in refs if ref.startswith("refs/heads/"))[:5])
    raise InputError(f"no branch {name!r}; there are {some or 'none'}; a tag or a commit's id may be given too")


def _main(repositories: Repositories, repo: str, refs: Mapping[str, str], tip: str) -> str:
    """The main branch; when the branch is that itself, the next best."""
    for name in ("refs/remotes/origin/HEAD", "HEAD", "refs/heads/main", "refs/heads/master"):
        if name in refs and (id_ := _commit(repositories, repo, refs[name], name)) != tip:
            return id_
    raise InputError("this is the main branch; say with --base where the work began (a branch, a tag or a commit)")


def _commit(repositories: Repositories, repo: str, id_: str, name: str) -> str:
    try:
        return repositories.open(repo, id_).commit_id(id_)
    except StateError as error:
        raise InputError(f"{name}: {error}") from error


def _range(repository: Repository, tip: str, base: str, name: str) -> tuple[str | None, list[str]]:
    """The merge of the branch into the base, if there was one, and the branch's own commits, oldest first."""

    def line(of: str, without: str) -> list[str]:
        return repository.git("rev-list", "--first-parent", "--reverse", of, f"^{without}", "--").decode().split()

    def holds_branch(id_: str) -> bool:
        return not repository.git("rev-list", "--max-count=1", tip, f"^{id_}", "--")

    merge = None
    ids = line(tip, base)
    if not ids:
        later = line(base, tip)
        place = bisect_left(later, True, key=holds_branch)
        parents = read_commit(repository, later[place]).parents if place < len(later) else ()
        if len(parents) < 2 or parents[0] == tip:
            raise InputError(
                f"{name!r} lies on the base's own line of history, which does not say where the work began; "
                "give the commit before it as --base"
            )
        merge, ids = later[place], line(tip, parents[0])
    if len(ids) > MOST_COMMITS:
        raise InputError(
            f"{name!r} is {len(ids)} commits beyond its base; give a nearer --base (at most {MOST_COMMITS})"
        )
    return merge, ids


# -- one commit ---------------------------------------------------------------------------------


class _Diff(NamedTuple):
    text: str
    is_cut: bool
    """It only names the files."""
    replaced: int
    """Characters that stand for bytes which are no UTF-8."""


def _commits(repository: Repository, tree: str, objects: Sequence[CommitObject]) -> tuple[Commit, ...]:
    left = _MOST_TEXT
    commits: list[Commit] = []
    for each in objects:
        commits.append(_written(each, _diff(repository, tree, each.tree, min(left, _LONGEST_DIFF))))
        left = max(0, left - len(commits[-1].patch))
        tree = each.tree
    return tuple(commits)


def _written(commit: CommitObject, diff: _Diff) -> Commit:
    message, masked, helpers = _cleaned(_message(commit))
    name, address, date = _author(commit)
    return Commit(
        id=commit.id,
        parents=commit.parents,
        date=date,
        message=message,
        masked=masked,
        agent=_program(name, address),
        helpers=helpers,
        patch=diff.text,
        is_cut=diff.is_cut,
        replaced=diff.replaced,
    )


def _message(commit: CommitObject) -> str:
    try:
        name = codecs.lookup(commit.encoding).name
    except (LookupError, ValueError):
        name = ""
    return commit.message.decode(name if name in _ENCODINGS else "utf-8", "replace")


def _author(commit: CommitObject) -> tuple[str, str, str | None]:
    """Name, address and date of the author; the first two tell a program from a person, and are not kept."""
    who, _, when = commit.author.rpartition(b"> ")
    name, _, address = who.decode("utf-8", "replace").rpartition("<")
    found = _DATE.fullmatch(when)
    if found is None:
        return name.strip(), address, None
    offset = timedelta(hours=int(found[3]), minutes=int(found[4])) * (-1 if found[2] == b"-" else 1)
    try:
        date = datetime.fromtimestamp(int(found[1]), UTC).astimezone(timezone(offset)).isoformat()
    except (ValueError, OverflowError, OSError):
        date = None
    return name.strip(), address, date


def _program(name: str, address: str) -> str | None:
    return (name or address)[:100] if name.endswith("[bot]") or _PROGRAM.fullmatch(address) else None


def _cleaned(message: str) -> tuple[str, int, tuple[str, ...]]:
    """A message without people: the text, how much was left out or masked, and the programs that were named."""
    kept: list[str] = []
    programs: dict[str, None] = {}
    lines = message.split("\n")
    for line in lines:
        found = _PERSON.fullmatch(line)
        if found is None:
            kept.append(line)
        elif found[2] and (program := _program(found[1].strip(), found[2].strip())):
            programs[program] = None
    text, masked = _ADDRESS.subn("[address]", "\n".join(kept).strip())
    return text, masked + len(lines) - len(kept), tuple(programs)


def _diff(repository: Repository, before: str, after: str, limit: int) -> _Diff:
    """The diff of two trees; ``limit`` in bytes. ``StateError`` when even the names of its files are too many."""
    data = _output(repository, before, after, _LARGE_FILE, limit)
    is_cut = len(data) > limit
    if is_cut:
        data = _output(repository, before, after, "1", _LONGEST_DIFF)
        if len(data) > _LONGEST_DIFF:
            raise StateError(
                f"{before} and {after} differ in too many files to be one piece of work; choose other commits"
            )
    text = data.decode("utf-8", "replace")
    return _Diff(text, is_cut, text.count("\ufffd") - data.count("\ufffd".encode()))


def _output(repository: Repository, before: str, after: str, large: str, limit: int) -> bytes:
    """Git's diff, read no further than a byte beyond ``limit``. Files of ``large`` bytes are named and not shown."""
    command = [git_program(), "--git-dir", str(repository.git_dir), "-c", f"core.bigFileThreshold={large}", *_DIFF]
    environment = {**git_environment(), "GIT_ATTR_NOSYSTEM": "1", "GIT_ATTR_SOURCE": EMPTY_TREE}
    with subprocess.Popen(
        [*command, before, after, "--"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
    ) as process:
        assert process.stdout is not None
        data = process.stdout.read(limit + 1)
        if len(data) > limit:
            process.kill()
            return data
    if process.returncode:
        raise StateError(
            f"git cannot compare {before} and {after}: the clone lacks some of their files; fetch it whole"
        )
    return data
