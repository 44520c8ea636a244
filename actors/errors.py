"""Every error that the project raises on purpose.

    AgoraError
    ├── UserError       bad input; `run.py` prints its one line and exits with code 2
    ├── ClusterError    Ray, or an actor on it, does not come up
    ├── StoreError      a folder of LanceDB tables cannot be used
    ├── WebError        the web could not be searched
    ├── AgentLost       an agent's process died with turns in flight: the discussion is replayed
    ├── MemoryLost      an agent does not remember its earlier turns: the discussion is replayed
    ├── ModelGone       no replica is left and none will come: the run ends, and nothing is recorded of it
    └── ModelError      no completion this time; asking again may work
        ├── ModelLost   the model will not answer again: its process has to be started anew
        └── ReplicaFull a replica has as many requests as it takes: the request goes to another one

Failures of single turns are no errors but data: the message's status says `unparsed` or `failed`.
"""

from __future__ import annotations

from typing import TypeVar

from actors.visible import visible

E = TypeVar("E", bound=BaseException)


class AgoraError(Exception):
    """The base of all; its text is one line."""


class UserError(AgoraError):
    """Bad input: its text is one line that says what was wrong, what was expected and what to do.

    `run.py` prints that line and exits with code 2, without a traceback.
    """

    def __str__(self) -> str:
        # Names of files and ids that it quotes may come from others: none of them breaks the line or moves the cursor.
        return visible(super().__str__())


class ClusterError(AgoraError):
    """Ray, or an actor on it, does not come up."""


class StoreError(AgoraError):
    """A folder of LanceDB tables cannot be written, read, or is damaged."""


class WebError(AgoraError):
    """The web cannot be searched, or a query was not recorded."""


class AgentLost(AgoraError):
    """An agent's process died with turns in flight; Ray starts it again, without its memory."""


class MemoryLost(AgoraError):
    """An agent does not remember its earlier turns: the discussion has to be replayed from its start."""


class ModelGone(AgoraError):
    """No replica is left and none will come: the end of the run and not one turn's failure, so it is never recorded."""


class ModelError(AgoraError):
    """No completion this time (a replica died, an endpoint refused); asking again may work."""


class ModelLost(ModelError):
    """The model will not answer again (its engine died or hangs): its process has to be started anew."""


class ReplicaFull(ModelError):
    """The replica has as many requests as it takes; this one was not begun."""


def first_of(kind: type[E], group: BaseExceptionGroup[BaseException]) -> E | None:
    """The first exception of a kind in a group, which may be nested: an error in one of many discussions is wrapped."""
    for error in group.exceptions:
        # Groups nest once per group of tasks that the error has passed.
        first = first_of(kind, error) if isinstance(error, BaseExceptionGroup) else error
        if isinstance(first, kind):
            return first
    return None
