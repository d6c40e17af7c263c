"""What a user says about running the tests of a repository: ``[tests."owner/name"]`` in ``handoff.toml``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import msgspec

from handoff.errors import InputError
from handoff.git.names import canonical
from handoff.identity import identify
from handoff.instances.reading import is_image

SECONDS = 900.0
"""A run of a task's tests may take so long unless a setting says otherwise."""


class TestRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How tests of one repository are run, and with which programs its successors work."""

    __test__ = False  # pytest takes the name for a test's

    command: str | None = None
    """A shell line, run at the repository's root. ``{files}`` stands for the task's test files, ``{modules}`` for their
    names with dots (``tests.test_a``), ``{labels}`` for those without a leading ``tests.`` (Django's). ``None``: as the
    instance says, else pytest where its tests have pytest's names."""
    timeout_s: Annotated[float, msgspec.Meta(gt=0)] | None = None
    """Of one run of the tests. ``None``: 900."""
    programs: tuple[str, ...] = ()
    """Folders of this machine that are shown read-only, such as a virtual environment; their ``bin`` comes first on
    the path. Only in bubblewrap."""
    image: str | None = None
    """A docker image with the task's programs, where an instance names none. ``{id}`` stands for the instance's id in
    lower case, ``{id:_1776_}`` for the same with that in place of each ``__``."""
    env: dict[str, str] = {}
    """Variables of every shell there, such as a ``PATH`` that begins with an environment's programs. An agent sees
    them: nothing secret belongs here."""

    def __post_init__(self) -> None:
        for place in self.programs:
            if not Path(place).is_absolute():
                raise InputError(f"programs: {place!r} is no absolute path; write it from the root")
        if self.image is not None and not is_image(_ID.sub("x", self.image)):
            raise InputError(f"image: {self.image!r} is no name of a docker image")
        for name, value in self.env.items():
            if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name, re.A) is None or "\0" in value:
                raise InputError(f"env: {name!r} cannot be a variable")

    def image_of(self, instance_id: str | None) -> str | None:
        """The image of one task; ``None`` where there is none, or the id makes no name."""
        if self.image is None:
            return None
        id_ = (instance_id or "").lower()
        name = _ID.sub(lambda found: id_.replace("__", found[1]) if found[1] else id_, self.image)
        return name if is_image(name) else None


_ID = re.compile(r"\{id(?::([A-Za-z0-9_]{1,20}))?\}")
NO_RULE = TestRule()


def rule_for(rules: Mapping[str, TestRule], repo: str | None) -> TestRule:
    """The rule of a repository: its own, else its owner's (``owner/*``), else that of all (``*``)."""
    named = canonical(repo) if repo else ""
    own = {canonical(name): rule for name, rule in rules.items() if "*" not in name}
    owner = f"{named.partition('/')[0]}/*"
    others = {name.lower(): rule for name, rule in rules.items() if "*" in name}
    return own.get(named) or others.get(owner) or others.get("*") or NO_RULE


def programs_version(places: tuple[str, ...]) -> str:
    """A hash that changes when a package is added to one of these folders or taken away: names only, no times."""
    named: list[str] = []
    for place in places:
        root = Path(place)
        folders = [root, root / "bin", *sorted(root.glob("lib/python*/site-packages"))]
        named += [place, *(f"{folder}/{name}" for folder in folders for name in _names(folder))]
    return identify("i", *named) if named else ""


def _names(folder: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in folder.iterdir())
    except OSError:
        return []
