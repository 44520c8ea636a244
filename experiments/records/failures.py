"""Counts failed turns, and stops a run whose turns keep failing."""

import re
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil

from actors.errors import CONTENT_FILTER, DOES_NOT_FIT, TooManyFailures
from actors.messages import Message, Status, Trace
from actors.settings import setting

UNREAD = "the reply could not be read"
_NUMBER = re.compile(r"\d[\d.,]*(?<=\d)")


@dataclass
class FailureSettings:
    """What happens when turns fail. Failed questions are in no mean and no comparison."""

    share: float = setting(0.2, above=0, at_most=1)
    """Share of failed turns among the last `failures.window`, of all, of a method, of an agent or of the judge, at
    which the run stops; and share of a method's questions beyond which nothing is concluded about it."""
    window: int = setting(100, at_least=1, at_most=1_000_000)
    """Turns among which failures are counted."""

    @property
    def most(self) -> int:
        """Failures among the last turns at which a run stops."""
        return ceil(self.share * self.window)


class Breaker:
    """Counts how turns end, and stops a run whose turns keep failing, whatever the wording.

    There is a window for all turns, and one for each method, agent and judge: one part that always fails is found while
    others are healthy. Turns that failed for their question alone (`of_question`) are not counted. Unreadable replies
    are the model's own: they stop a run only if a full window has nothing else.
    """

    def __init__(self, settings: FailureSettings) -> None:
        self.settings = settings
        self._windows: dict[str, deque[tuple[Status, str]]] = {}

    def turn(self, method: str, message: Message) -> None:
        """Counts a turn. Raises TooManyFailures."""
        # Not the dummy agents' turns, for which no model is asked.
        if message.calls or message.status is not Status.OK:
            self.count(("all turns", f"method {method}", message.agent), message.status, message.error)

    def count(self, parts: Iterable[str], status: Status, error: str) -> None:
        """Counts a turn in the windows of some parts of the run. Raises TooManyFailures."""
        if status is Status.FAILED and of_question(error):
            return
        windows = {part: self._windows.setdefault(part, deque(maxlen=self.settings.window)) for part in parts}
        for window in windows.values():
            window.append((status, error))
        if status is Status.FAILED:
            failed = {part: [error for ended, error in window if ended is status] for part, window in windows.items()}
            reached = [part for part in failed if len(failed[part]) >= self.settings.most]
            if reached:
                # A method or an agent that fails more than all turns do is at fault, and is named.
                part = max(reached, key=lambda part: len(failed[part]) / len(windows[part]))
                raise TooManyFailures(
                    f"{part}: {len(failed[part]):,} of the last {len(windows[part]):,} failed (failures.share="
                    f"{self.settings.share:g}), most often: {commonest(failed[part])}"
                )
        for part, window in windows.items():
            unread = status is Status.UNPARSED and len(window) == self.settings.window
            if unread and all(ended is not Status.OK for ended, _ in window):
                raise TooManyFailures(
                    f"{part}: none of the last {len(window):,} replies could be read, most often: "
                    f"{commonest([error for _, error in window])}"
                )

    def check(self, what: str, traces: Iterable[Trace], remedy: str = "", questions: bool = True) -> None:
        """Raises TooManyFailures where too many turns failed, with `questions` also those failed for their question."""
        turns = [turn for trace in traces for turn in trace.turns if turn.calls or turn.status is not Status.OK]
        failed = [turn.error for turn in turns if turn.status is Status.FAILED]
        counted = failed if questions else [error for error in failed if not of_question(error)]
        if len(counted) > self.settings.share * len(turns):
            raise TooManyFailures(
                f"{what}: {len(counted):,} of {len(turns):,} turns failed, from which nothing is concluded "
                f"(failures.share={self.settings.share:g}), most often: {commonest(counted)}{remedy}"
            )


def of_question(error: str) -> bool:
    """True for a failure that comes from one question, and not from a broken model or endpoint."""
    return error.startswith((CONTENT_FILTER, DOES_NOT_FIT))


def kind_of(error: str) -> str:
    """Returns the reason of a failed turn in a printable line, with its numbers as N."""
    # A page can show it, whatever a model or an endpoint wrote.
    line = _NUMBER.sub("N", "".join(char if char.isprintable() else " " for char in error))
    return " ".join(line.split())[:200] or UNREAD


def commonest(errors: Iterable[str]) -> str:
    """Returns the last of the errors of the kind that most of them are."""
    latest = {kind_of(error): error for error in errors}
    counted = Counter(map(kind_of, errors))
    return " ".join(latest[max(counted, key=counted.__getitem__)].split())[:300] or UNREAD
