"""Every error a user can meet, and what each one says.

::

    HandoffError                 anything this project raises on purpose
    ├── InputError               a path, option or file that cannot be used at all
    ├── RecordError              one record is unusable: file, record, field, remedy
    ├── StateError               a repository or a state in it cannot be had
    ├── LakeError                a table cannot be written or read
    ├── WorkerError              a process that helps died
    ├── SandboxError             the sandbox cannot start, or broke
    └── SuccessorError           a successor could not act (endpoint, policy, budget file)
        ├── ContextLimitError    its conversation has outgrown what its model reads
        ├── NoAnswerError        its endpoint gave no answer in all attempts; what it answered before is kept
        └── EndpointError        its endpoint cannot be used until someone mends the key, the name or the account

``RecordError`` keeps its four parts as attributes, so that the quarantine table is built without
parsing messages. Errors cross process boundaries, so all of them survive pickling.
"""

from __future__ import annotations


class HandoffError(Exception):
    """Base of all errors raised on purpose. ``str(error)`` is a sentence a user can act on."""


class InputError(HandoffError):
    """A path, option or whole file that cannot be used."""


class StateError(HandoffError):
    """A repository, commit or tree that is missing or does not fit."""


class LakeError(HandoffError):
    """A table that cannot be written or read."""


class WorkerError(HandoffError):
    """A process that helped this one died."""


class SandboxError(HandoffError):
    """The sandbox cannot start on this machine, or broke while running."""


class SuccessorError(HandoffError):
    """A successor that could not act."""


class ContextLimitError(SuccessorError):
    """The conversation is longer than the model's context."""


class NoAnswerError(SuccessorError):
    """An endpoint that did not answer, however often it was asked. It may when the run is gone on with later."""


class EndpointError(SuccessorError):
    """An endpoint that only the user can make work: no key, no such model, nothing left to spend."""


class RecordError(HandoffError):
    """One record that cannot be used.

    ``file``: path as given; ``record``: 1-based position in the file; ``field``: a JSON path such as
    ``$.messages[3].tool_calls[0].id``, or ``$`` for the whole record; ``remedy``: what the reader can do.
    """

    def __init__(self, problem: str, *, file: str = "", record: int = 0, field: str = "$", remedy: str = "") -> None:
        super().__init__(problem)
        self.problem = problem
        self.file = file
        self.record = record
        self.field = field
        self.remedy = remedy

    def __str__(self) -> str:
        place = f"{self.file}, record {self.record}, {self.field}" if self.file else self.field
        return f"{place}: {self.problem}" + (f" {self.remedy}" if self.remedy else "")

    def at(self, file: str, record: int) -> RecordError:
        """The same error, placed in a file."""
        return RecordError(self.problem, file=file, record=record, field=self.field, remedy=self.remedy)

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (self.problem, self.file, self.record, self.field, self.remedy))


def _rebuild(problem: str, file: str, record: int, field: str, remedy: str) -> RecordError:
    return RecordError(problem, file=file, record=record, field=field, remedy=remedy)
