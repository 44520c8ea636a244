"""A rate limit: at most so many requests and tokens in any sixty seconds. First come, first served.

The window slides: a token bucket lets up to twice as much through in its first minute. A request counts with an
estimate of its tokens until its reply reports them.
"""

import asyncio
import contextlib
import time
from collections import deque
from dataclasses import dataclass

WINDOW_S = 60.0


@dataclass(slots=True)
class Admission:
    """An admitted request: its time (seconds of the clock) and its number of tokens."""

    at: float
    tokens: int


class RateLimit:
    """The requests admitted in the last sixty seconds, by the callers of one event loop.

    A caller that is cancelled while it waits uses up nothing. Times are seconds of `time.monotonic`.
    """

    def __init__(self, requests_per_minute: float | None, tokens_per_minute: float | None) -> None:
        self._requests = None if requests_per_minute is None else max(1, int(requests_per_minute))
        self._tokens = tokens_per_minute
        self._admitted: deque[Admission] = deque()
        self._paused_until = 0.0
        self._turn = asyncio.Lock()  # wakes its waiters in order of arrival
        self._changed = asyncio.Event()

    async def admit(self, tokens: int) -> Admission:
        """Waits until a request of about that many tokens may go."""
        async with self._turn:
            while (wait := self.wait_s(time.monotonic(), tokens)) > 0:
                self._changed.clear()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._changed.wait(), wait)
            return self.add(time.monotonic(), tokens)

    def correct(self, admission: Admission, tokens: int) -> None:
        """Replaces the estimate by the tokens that the request took."""
        admission.tokens = tokens
        self._changed.set()

    def pause(self, seconds: float) -> None:
        """Admits no request of any caller for that long. An endpoint's limit is the account's."""
        self._paused_until = max(self._paused_until, time.monotonic() + seconds)

    def wait_s(self, time_s: float, tokens: int) -> float:
        """Returns the seconds until a request of that many tokens may go. One above the limit goes alone."""
        while self._admitted and self._admitted[0].at <= time_s - WINDOW_S:
            self._admitted.popleft()
        free_at = self._paused_until
        if self._requests is not None and len(self._admitted) >= self._requests:
            # Once this one leaves the window, the window holds one request below the limit.
            free_at = max(free_at, self._admitted[-self._requests].at + WINDOW_S)
        if self._tokens is not None:
            # Summed anew each time: `correct` changes the tokens of admitted requests.
            excess = sum(admission.tokens for admission in self._admitted) + tokens - self._tokens
            for admission in self._admitted:
                if excess <= 0:
                    break
                excess -= admission.tokens
                free_at = max(free_at, admission.at + WINDOW_S)
        return max(0.0, free_at - time_s)

    def add(self, time_s: float, tokens: int) -> Admission:
        """Counts a request as admitted at a time."""
        admission = Admission(time_s, tokens)
        if self._requests is not None or self._tokens is not None:
            self._admitted.append(admission)
        return admission
