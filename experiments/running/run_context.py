"""The context of a run: what its learners, evaluations and studies share while its agents live."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Self

from actors.models import Model
from experiments.attacks.attack import Attack
from experiments.config.config import Config
from experiments.datasets.item import Dataset
from experiments.evidence.evidence import Evidence
from experiments.judging.judge import Judge
from experiments.planning.plan import Plan
from experiments.records.failures import Breaker
from experiments.records.progress import Bar, Progress
from experiments.records.recorder import Recorder
from experiments.records.tracking import Tracker
from experiments.records.usage import UsageByAgent, UsageLog
from experiments.running.speakers import Counted, Metered, OnTurn
from topologies.topology import Speaker


class Slots:
    """Slots for discussions, so many at once, of which those of learners have precedence.

    A run ends no sooner than its learners: slots that they need at once are reserved, others share the rest, if any.
    """

    def __init__(self, number: int) -> None:
        self._number = number
        self._reserved = 0
        # By whether they are of a learner; learners come first.
        self._used = {True: 0, False: 0}
        self._waiting: dict[bool, deque[asyncio.Future[None]]] = {True: deque(), False: deque()}

    @contextmanager
    def reserved(self, slots: int) -> Iterator[None]:
        """Reserves slots for a learner while the block runs. Those in use come free when their discussions end."""
        self._reserved += slots
        try:
            yield
        finally:
            self._reserved -= slots
            self._wake()

    @asynccontextmanager
    async def slot(self, *, learning: bool) -> AsyncIterator[None]:
        """Waits for a slot, first come, first served, and keeps it while the block runs."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiting[learning].append(waiter)
        self._wake()
        try:
            await waiter
            yield
        finally:
            # A cancelled task may have got its slot in the same moment.
            if waiter.done() and not waiter.cancelled():
                self._used[learning] -= 1
            self._wake()

    def _wake(self) -> None:
        """Gives free slots to waiting discussions."""
        for learning, waiters in self._waiting.items():
            while waiters and (waiters[0].done() or self._is_free(learning)):
                waiter = waiters.popleft()
                if not waiter.done():  # a cancelled one takes none
                    self._used[learning] += 1
                    waiter.set_result(None)

    def _is_free(self, learning: bool) -> bool:
        """True if a discussion of a learner, or another one, may begin."""
        if sum(self._used.values()) >= self._number:
            return False
        if learning:
            return True
        return not self._waiting[True] and self._used[False] < self._number - self._reserved


@dataclass(frozen=True)
class RunContext:
    """One run in one process: its plan, questions, evidence, records, agents, judge, and the attack on the agents."""

    plan: Plan
    dataset: Dataset
    evidence: Evidence
    recorder: Recorder
    tracker: Tracker
    progress: Progress
    speaker: Speaker
    judge: Judge | None
    attack: Attack
    usage: UsageLog
    slots: Slots
    breaker: Breaker
    on_learned: Callable[[str], None] | None = None

    @classmethod
    def of(
        cls,
        plan: Plan,
        dataset: Dataset,
        evidence: Evidence,
        recorder: Recorder,
        tracker: Tracker,
        progress: Progress,
        speaker: Speaker,
        judging: Model | None = None,
        recorded: bool = False,
        on_learned: Callable[[str], None] | None = None,
    ) -> Self:
        """Makes the attack, the judge, the limits and the logs of a run whose agents are launched.

        judging: the judge's model, where the plan has a judge. recorded: the speaker's messages are a record's, which
            include the attack. on_learned: called with each method whose graph is learned.
        """
        config = plan.config
        judge = Judge(judging, plan.models.judge_name, config.agents.replies) if judging else None
        metered = Metered(speaker)

        def usage_so_far() -> UsageByAgent:
            return {**metered.usage, "judge": judge.usage} if judge else metered.usage

        return cls(
            plan=plan,
            dataset=dataset,
            evidence=evidence,
            recorder=recorder,
            tracker=tracker,
            progress=progress,
            speaker=metered,
            judge=judge,
            attack=Attack(config.attack, plan.roles.attackable, dataset, config.seed, applies=not recorded),
            usage=UsageLog(recorder.run, usage_so_far),
            slots=Slots(config.concurrency),
            breaker=Breaker(config.failures),
            on_learned=on_learned,
        )

    @property
    def config(self) -> Config:
        return self.plan.config

    @property
    def agents(self) -> tuple[str, ...]:
        """Names of the team's agents."""
        return self.plan.roles.agents

    def metered(self, on_turn: OnTurn | None = None) -> Metered:
        """Measures what a phase uses. `on_turn` gets its turns; those of a replay took no time."""
        return Metered(self.speaker, on_turn if self.attack.applies else None)

    def counted(self, speaker: Speaker, bar: Bar) -> Speaker:
        """Counts the turns of a speaker in a bar and in the circuit breaker."""
        # Recorded messages cannot be asked for again, so they may fail.
        return Counted(speaker, bar, self.breaker if self.attack.applies else None)
