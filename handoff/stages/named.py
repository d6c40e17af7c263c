"""The successors that a user's settings name: models on endpoints, and agents that are commands."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from typing import TypeAlias

from handoff.endpoints import Client, Endpoint
from handoff.errors import InputError
from handoff.identity import identify
from handoff.project import TAKEN_NAMES, Project
from handoff.successors import command, openai
from handoff.successors.command import CommandSuccessor
from handoff.successors.openai import OpenAISuccessor
from handoff.successors.settings import Command

NamedSuccessor: TypeAlias = OpenAISuccessor | CommandSuccessor


def described(project: Project, name: str) -> Endpoint | Command:
    """What the settings say of a successor. ``InputError`` that lists the others when there is none of that name."""
    known = project.settings.successors
    listed = ", ".join(sorted(known)) or "none yet"
    if name in TAKEN_NAMES:
        raise InputError(
            f"{name!r} acts only in rounds, studies and searches of the embedded world; name one of [successors.NAME]: "
            f"there are: {listed}"
        )
    if name not in known:
        place = project.root / "handoff.toml"
        raise InputError(
            f"no successor {name!r}: describe it under [successors.{name}] in {place}; there are: {listed}"
        )
    return known[name]


def endpoint_of(project: Project, name: str) -> Endpoint:
    """The endpoint of a named successor, or the one whose model its command uses. ``InputError`` when it has none."""
    found = described(project, name)
    if isinstance(found, Endpoint):
        return found
    if not found.endpoint:
        raise InputError(f"[successors.{name}] is a command without a model; name one in its endpoint")
    return endpoint_of(project, found.endpoint)


def model_of(project: Project, name: str) -> str:
    """The successor whose endpoint it uses: itself, where it is no command. Empty: a command without a model."""
    found = described(project, name)
    return found.endpoint if isinstance(found, Command) else name


def digest_of(project: Project, name: str) -> str:
    """What identifies a named successor: its name, and all that decides its behaviour. Two of one behaviour are run
    each for itself, as their rows say."""
    found = described(project, name)
    if isinstance(found, Endpoint):
        return identify("m", name, openai.digest_of(found))
    return identify("m", name, command.digest_of(found, endpoint_of(project, name).digest if found.endpoint else ""))


class Named:
    """Named successors, ready to act, with one client an endpoint. A context manager."""

    def __init__(self, project: Project, names: Iterable[str]) -> None:
        """``InputError``: as ``described``, and ``endpoint_of``."""
        self._project = project
        self._names = tuple(dict.fromkeys(names))
        self._clients: dict[str, Client] = {}
        self._opened = ExitStack()

    def __enter__(self) -> Named:
        for name in self._names:
            model = model_of(self._project, name)
            if model and model not in self._clients:
                self._clients[model] = self._opened.enter_context(Client(endpoint_of(self._project, name)))
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def successor(self, name: str, *, asks_logprobs: bool = False) -> NamedSuccessor:
        """One of those that were named. ``asks_logprobs``: as for ``OpenAISuccessor``; commands tell none."""
        found = described(self._project, name)
        client = self._clients.get(model_of(self._project, name))
        if isinstance(found, Command):
            return CommandSuccessor(found, name=name, client=client)
        assert client is not None, "it was named"
        return OpenAISuccessor(client, name=name, asks_logprobs=asks_logprobs)

    @property
    def at_once(self) -> int:
        """How many runs the settings allow at once, all together."""
        return sum(described(self._project, name).concurrency for name in self._names)

    def halt(self, reason: str) -> None:
        """Ask nothing more (``Client.halt``)."""
        for client in self._clients.values():
            client.halt(reason)
