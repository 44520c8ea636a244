"""Counts failed turns, and stops a run whose turns keep failing."""

import re
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil

from actors.errors import CONTENT_FILTER, DOES_NOT_FIT, NOT_DECODED, TooManyFailures
from actors.messages import Message, Status, Trace
from actors.settings import setting

UNREAD = "the reply could not be read"
_NUMBER = re.compile(r"\d[\d.,]*(?<=\d)")


@dataclass
class FailureSettings:
    """Limits on failed turns, beyond which a run stops. Failed questions are in no mean and no comparison."""

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
    others are healthy. Turns that failed for their question alone (`of_question`) are not counted. Pictures that cannot
    be read count once for each question of a method, however many turns need them. Unreadable replies are the model's
    own: they stop a run only if a full window has nothing else.
    """

    def __init__(self, settings: FailureSettings) -> None:
        self.settings = settings
        self._windows: dict[str, deque[tuple[Status, str]]] = {}
        self._unread_pictures: set[tuple[str, str]] = set()

    def turn(self, method: str, question: str, message: Message) -> None:
        """Counts a turn on the question with an id. Raises TooManyFailures."""
        if message.status is Status.FAILED and NOT_DECODED in message.error:
            failure = (method, question)
            if failure in self._unread_pictures:
                return
            self._unread_pictures.add(failure)
        if is_counted(message):
            self.count(("all turns", f"method {method}", message.agent), message.status, message.error)

    def count(self, parts: Iterable[str], status: Status, error: str) -> None:
        """Counts a turn in the windows of some parts of the run. Raises TooManyFailures."""
        if status is Status.FAILED and of_question(error):
            return
        windows = {part: self._windows.setdefault(part, deque(maxlen=self.settings.window)) for part in parts}
        for window in windows.values():
            window.append((status, error))
        if status is Status.FAILED:
            self._check_failed(windows)
        elif status is Status.UNPARSED:
            self._check_unread(windows)

    def _check_failed(self, windows: dict[str, deque[tuple[Status, str]]]) -> None:
        """Raises TooManyFailures, with the part that fails most, where one of the windows has too many failed turns."""
        worst_part, worst_errors, worst_share = "", list[str](), 0.0
        for part, window in windows.items():
            errors = [error for status, error in window if status is Status.FAILED]
            # A method or an agent that fails more than all turns do is at fault, and is named.
            share = len(errors) / len(window)
            if len(errors) >= self.settings.most and share > worst_share:
                worst_part, worst_errors, worst_share = part, errors, share

        if worst_part:
            raise TooManyFailures(
                f"{worst_part}: {len(worst_errors):,} of the last {len(windows[worst_part]):,} failed (failures.share="
                f"{self.settings.share:g}), most often: {commonest(worst_errors)}"
            )

    def _check_unread(self, windows: dict[str, deque[tuple[Status, str]]]) -> None:
        """Raises TooManyFailures for a full window without any reply that could be read."""
        for part, window in windows.items():
            is_full = len(window) == self.settings.window
            if is_full and all(status is not Status.OK for status, _ in window):
                raise TooManyFailures(
                    f"{part}: none of the last {len(window):,} replies could be read, most often: "
                    f"{commonest([error for _, error in window])}"
                )

    def check(self, what: str, traces: Iterable[Trace], remedy: str = "", questions: bool = True) -> None:
        """Raises TooManyFailures where too many turns failed, with `questions` also those failed for their question."""
        turns: list[Message] = []
        for trace in traces:
            turns += filter(is_counted, trace.turns)
        errors = [turn.error for turn in turns if turn.status is Status.FAILED]
        if not questions:
            errors = [error for error in errors if not of_question(error)]
        if len(errors) > self.settings.share * len(turns):
            raise TooManyFailures(
                f"{what}: {len(errors):,} of {len(turns):,} turns failed, from which nothing is concluded "
                f"(failures.share={self.settings.share:g}), most often: {commonest(errors)}{remedy}"
            )


def is_counted(message: Message) -> bool:
    """False for a turn of a dummy agent, for which no model is asked."""
    return message.calls > 0 or message.status is not Status.OK


def of_question(error: str) -> bool:
    """True for a failure that comes from one question, and not from a broken model or endpoint."""
    return error.startswith((CONTENT_FILTER, DOES_NOT_FIT))


def kind_of(error: str) -> str:
    """Returns the reason of a failed turn in a printable line, with its numbers as N."""
    # A page can show it, whatever a model or an endpoint wrote.
    printable = "".join(char if char.isprintable() else " " for char in error)
    return " ".join(_NUMBER.sub("N", printable).split())[:200] or UNREAD


def commonest(errors: Iterable[str]) -> str:
    """Returns the last of the errors of the kind that most of them are."""
    counts: Counter[str] = Counter()
    latest: dict[str, str] = {}
    for error in errors:
        kind = kind_of(error)
        counts[kind] += 1
        latest[kind] = error
    [(kind, _)] = counts.most_common(1)
    return " ".join(latest[kind].split())[:300] or UNREAD
