"""Defines every error that the project raises on purpose.

    AgoraError
    ├── UserError       bad input; `run.py` prints its one line and exits with code 2
    ├── RunFailed       a run that was started from Python has failed, or some of it
    ├── ClusterError    Ray, or an actor on it, does not come up
    ├── StoreError      a folder of LanceDB tables cannot be used
    ├── WebError        the web could not be searched
    ├── AgentLost       an agent's process died with turns in flight: the discussion is replayed
    ├── MemoryLost      an agent does not remember its earlier turns: the discussion is replayed
    ├── ModelGone       no replica is left and none will come: the run ends, and nothing is recorded of it
    ├── TooManyFailures turns keep failing: the run ends, and asks them again when it is resumed
    └── ModelError      no completion this time; asking again may work
        └── ModelLost   the model will not answer again: its process has to be started anew

The failure of a single turn is data and no error: the status of its message is `unparsed` or `failed`.
"""

from typing import TypeVar
from unicodedata import category

from actors.secrets import masked

E = TypeVar("E", bound=BaseException)

# Beginning of the error of a turn that failed for its question's content; a broken model or endpoint fails otherwise.
CONTENT_FILTER = "content filter"
DOES_NOT_FIT = "the prompt does not fit"
NOT_DECODED = "cannot be decoded"  # of a picture, in the error of a turn that reads it


class AgoraError(Exception):
    """Base of all errors; the text is one line."""


class UserError(AgoraError):
    """Bad input. One line names what was wrong, what was expected and what to do; exit code 2, without a traceback."""

    def __str__(self) -> str:
        # File names and ids in it may come from others: none of them breaks the line or moves the cursor.
        return visible(super().__str__())


class RunFailed(AgoraError):
    """A run from Python has ended with another exit code than 0 or 2."""


class ClusterError(AgoraError):
    """Ray or an actor does not come up."""


class StoreError(AgoraError):
    """A folder of LanceDB tables cannot be read or written, or is damaged."""


class WebError(AgoraError):
    """The web cannot be searched, or a query was not recorded."""


class AgentLost(AgoraError):
    """An agent's process died with turns in flight. Ray starts it again, without its memory."""


class MemoryLost(AgoraError):
    """An agent does not remember its earlier turns, so the discussion has to be replayed."""


class ModelGone(AgoraError):
    """No replica is left and none will come. It ends the run, and is never recorded as one turn's failure."""


class TooManyFailures(AgoraError):
    """Turns keep failing. It ends the run, which asks them again when it is resumed."""


class ModelError(AgoraError):
    """No completion this time, as an endpoint refused or a replica died. Asking again may work."""


class ModelLost(ModelError):
    """The model will not answer again, as its engine died or hangs. Its process has to be started anew."""


def first_of(kind: type[E], group: BaseExceptionGroup[BaseException]) -> E | None:
    """Returns the first exception of a kind in a group, or None. Groups may be nested."""
    for error in group.exceptions:
        # Groups nest once per group of tasks that the error has passed.
        first = first_of(kind, error) if isinstance(error, BaseExceptionGroup) else error
        if isinstance(first, kind):
            return first
    return None


def reason(error: BaseException) -> str:
    """Returns why something failed: an error's type and text, or the text alone of one raised on purpose.

    A group of errors (from discussions side by side) is reduced to its first one.
    """
    if isinstance(error, BaseExceptionGroup):
        error = first_of(UserError, error) or first_of(Exception, error) or error
    text = " ".join(str(error).split())
    return text if isinstance(error, AgoraError) else f"{type(error).__name__}: {text}".rstrip(": ")


def one_line(error: Exception) -> str:
    """Returns an error's text, without its type where the text is enough."""
    line = reason(error)
    if isinstance(error, (ValueError, OSError, ImportError)):
        line = line.removeprefix(f"{type(error).__name__}: ")
    return line


def visible(text: str) -> str:
    """Replaces unprintable characters by their escapes, such as `\\x1b`, and keys.

    Ids and names from data and folders could hold commands to a terminal, line breaks and marks of direction.
    """
    text = masked(text)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or category(c) == "Zs" else c.encode("unicode_escape").decode() for c in text)
