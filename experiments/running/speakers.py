"""Wrappers of a speaker, from the inside out: metering, counting, and the attack on a discussion."""

import time
from collections import defaultdict
from collections.abc import Callable

from actors.messages import Message, Question, Source, Trace, Turn, TurnResult, Usage
from experiments.attacks.attack import Attack, AttackedDiscussion
from experiments.attacks.kind import Phase
from experiments.datasets.item import Item
from experiments.records.failures import Breaker
from experiments.records.progress import Bar
from topologies.topology import Speaker, Topology, run_discussion

OnTurn = Callable[[Turn, TurnResult, float], None]
"""Gets each turn as its agent received it, its result, and when it was asked, in seconds of the monotonic clock."""


class Wrapper:
    """A speaker around another one, whose discussions end with its own."""

    _speaker: Speaker

    def close(self, discussion: str) -> None:
        self._speaker.close(discussion)


class Metered(Wrapper):
    """Measures a speaker's use of the model, by agent (`usage`), and reports each answered turn to `on_turn`."""

    def __init__(self, speaker: Speaker, on_turn: OnTurn | None = None) -> None:
        self.usage: defaultdict[str, Usage] = defaultdict(Usage)
        self._speaker = speaker
        self._on_turn = on_turn

    async def take(self, turn: Turn) -> TurnResult:
        asked_s = time.monotonic()
        # A turn that is lost with its process reports nothing.
        result = await self._speaker.take(turn)
        self.usage[turn.agent] += result.usage
        if self._on_turn:
            self._on_turn(turn, result, asked_s)
        return result


class Counted(Wrapper):
    """Counts turns in a progress bar, before their discussion ends, and in the run's circuit breaker.

    Turns of a repeated discussion count again.
    """

    def __init__(self, speaker: Speaker, bar: Bar, breaker: Breaker | None) -> None:
        self._speaker = speaker
        self._bar = bar
        self._breaker = breaker

    async def take(self, turn: Turn) -> TurnResult:
        """Returns the result of a turn. Raises TooManyFailures where turns keep failing."""
        self._bar.ask()
        result = await self._speaker.take(turn)
        self._bar.turn()
        if self._breaker:
            method = turn.discussion.partition("/")[0]
            self._breaker.turn(method, turn.question.id, result.message)
        return result


class Attacked(Wrapper):
    """Changes the turns of one attacked discussion before agents receive them.

    added: the messages and sources of the attacker that turns had.
    """

    def __init__(self, speaker: Speaker, attacked: AttackedDiscussion) -> None:
        self.added: set[Message | Source] = set()
        self._speaker = speaker
        self._attacked = attacked

    async def take(self, turn: Turn) -> TurnResult:
        received = self._attacked.change(turn)
        if received is not turn:
            self.added |= self._attacked.added(turn, received)
        if not self._attacked.applies:
            return await self._speaker.take(turn)
        result = await self._speaker.take(received)
        message = self._attacked.as_sent(result.message, turn, received)
        return TurnResult(message, result.usage, result.calls)


async def attacked_discussion(
    attack: Attack,
    topology: Topology,
    item: Item,
    question: Question,
    speaker: Speaker,
    seed: int,
    *,
    phase: Phase,
    number: int,
    sample: int = 0,
) -> Trace:
    """Holds one discussion of an item's `question`, number `number` (from 0) of the phase. It may be attacked."""
    attacked = await attack.discussion(item, question, phase=phase, number=number)
    if attacked is None:
        return await run_discussion(topology, question, speaker, seed, sample)
    attacked_speaker = Attacked(speaker, attacked)
    trace = await run_discussion(topology, attacked.question, attacked_speaker, seed, sample)
    return attacked.marked(trace, attacked_speaker.added)
