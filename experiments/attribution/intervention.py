"""Interventions on a recorded discussion. Turns downstream are asked again, and the record answers all others."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from actors.agents.role_agent import RoleAgent
from actors.messages import Message, Status, Trace, Turn, TurnResult, derive_seed
from actors.runtime.inline import Inline
from actors.runtime.team import distinct_roles, make_agent
from experiments.attribution.opened_run import OpenedRun
from experiments.attribution.recorded_discussion import RecordedDiscussion, RecordedTurns
from experiments.records.attribution import By
from experiments.running.launching import launch_pools

WEIGHT_DIGITS = 9  # after the point, of a reading weight


@asynccontextmanager
async def agents_of(opened_run: OpenedRun) -> AsyncIterator[dict[str, RoleAgent]]:
    """Launches the agents of a run in this process, for a block. They use its models and completion cache."""
    with Inline() as runtime:
        plan = opened_run.plan
        reuse = launch_pools(plan, runtime, print)
        models = {key: runtime.model(reuse[key], key) for key in plan.models.of_agents}
        players = {}
        for name, role in distinct_roles(plan.roles.launched).items():
            players[name] = make_agent(role, models[plan.models.of_role(name).key], plan.config.agents)
        try:
            yield {role.name: players[role.played] for role in plan.roles.launched}
        finally:
            await runtime.unload()


class Replay:
    """Holds a recorded discussion with interventions. Turns that are as recorded get the recorded message, others are
    asked of agents.

    asked: the messages of agents. What one intervention has asked serves the others.
    """

    def __init__(self, discussion: RecordedDiscussion, agents: Mapping[str, RoleAgent]) -> None:
        self.discussion = discussion
        self.asked: list[Message] = []
        self._agents = agents
        self._answers: dict[TurnKey, asyncio.Future[Message]] = {}

    def add(self, discussion_turns: RecordedTurns, only: Collection[str] | None = None) -> None:
        """Adds recorded turns of a discussion of the question, or only those with some ids."""
        own_messages: defaultdict[str, dict[int, Message]] = defaultdict(dict)
        for id, turn in discussion_turns.turns.items():
            own_messages[turn.agent][turn.round] = discussion_turns.memories[id]
        for id, turn in discussion_turns.turns.items():
            if only is None or id in only:
                answer = asyncio.get_running_loop().create_future()
                answer.set_result(discussion_turns.memories[id])
                self._answers[turn_key(turn, own_messages[turn.agent])] = answer

    async def hold(
        self,
        turns: Collection[str] = (),
        by: By = "counterpart",
        unheard: tuple[str, str] = ("", ""),
        sent: Mapping[str, Message] = MappingProxyType({}),
    ) -> Trace:
        """Holds it with an intervention on turns or messages, named by their ids.

        turns: replaced `by` their honest counterparts (the attack off, the same seed), silence or another sample. Of an
            attack in transit also an edge, `<turn> -> <hearer's turn>`, of which the message arrives as sent.
        unheard: a turn, and the message that it does not hear. sent: messages in place of recorded ones.
        """
        return await self._hold(Intervention(self, turns, by, unheard, sent))

    async def most_tokens(self, turns: Collection[str], by: By, unheard: tuple[str, str]) -> int:
        """Returns the tokens that an intervention takes if no turn that it may change stays as it was.

        A turn that has to be asked counts with its recorded tokens. Nothing is asked.
        """
        prediction = Prediction(self, turns, by, unheard, {})
        await self._hold(prediction)
        return prediction.tokens

    async def _hold(self, intervention: "Intervention") -> Trace:
        spared = intervention.turns if intervention.by == "counterpart" else ()
        return await self.discussion.hold(intervention, self.discussion.attack.sparing(spared))

    def has_answer(self, turn: Turn, own_messages: Mapping[int, Message]) -> bool:
        """True for a turn that need not be asked again."""
        return turn_key(turn, own_messages) in self._answers

    async def answer(self, turn: Turn, own_messages: Mapping[int, Message]) -> Message:
        """Returns the message of a turn whose agent has sent `own_messages` before, by round."""
        key = turn_key(turn, own_messages)
        if key not in self._answers:
            # A discussion for each turn: agents remember by its name, and several go on at once.
            turn = replace(turn, discussion=str(len(self._answers)))
            self._answers[key] = asyncio.ensure_future(self._ask(turn, dict(own_messages)))
        return await self._answers[key]

    async def _ask(self, turn: Turn, own_messages: Mapping[int, Message]) -> Message:
        agent = self._agents[turn.agent]
        for round, message in own_messages.items():
            agent.memory.remember(replace(turn, round=round), message)
        message = (await agent.take(turn)).message
        agent.memory.forget([turn.discussion])
        self.asked.append(message)
        return message


@dataclass
class Intervention:
    """Speaker of one discussion with an intervention; arguments as for `Replay.hold`."""

    replay: Replay
    turns: Collection[str]
    by: By
    unheard: tuple[str, str]
    sent: Mapping[str, Message]
    _own_messages: defaultdict[str, dict[int, Message]] = field(default_factory=lambda: defaultdict(dict))

    async def take(self, turn: Turn) -> TurnResult:
        id = f"{turn.round}/{turn.agent}"
        own_messages = self._own_messages[turn.agent]
        if id == self.unheard[0]:
            _, removed_id = self.unheard
            remaining = [message_heard for message_heard in turn.heard if message_heard.message.id != removed_id]
            turn = replace(turn, heard=tuple(remaining))
        if id in self.sent:
            message = self.sent[id]
        elif id in self.turns and self.by == "silence":
            message = Message(id, turn.agent, turn.round, status=Status.FAILED, seed=turn.seed)
        else:
            if id in self.turns and self.by == "sample":
                turn = replace(turn, seed=derive_seed(turn.seed, "sample"))
            message = await self._answer(turn, own_messages)
        own_messages[turn.round] = message
        return TurnResult(message)

    async def _answer(self, turn: Turn, own_messages: Mapping[int, Message]) -> Message:
        return await self.replay.answer(turn, own_messages)

    def close(self, discussion: str) -> None:
        """Does nothing: agents forget every turn at once."""


@dataclass
class Prediction(Intervention):
    """Counts the tokens of turns that an intervention would ask, as if each of them changed those after it."""

    tokens: int = 0

    async def _answer(self, turn: Turn, own_messages: Mapping[int, Message]) -> Message:
        if self.replay.has_answer(turn, own_messages):
            return await super()._answer(turn, own_messages)
        id = f"{turn.round}/{turn.agent}"
        recorded_turns = {message.id: message for message in self.replay.discussion.trace.turns}
        # A turn without a record counts as the last one.
        message = recorded_turns.get(id, self.replay.discussion.trace.turns[-1])
        self.tokens += message.tokens
        # With another seed it equals no message that was heard before.
        return replace(message, id=id, agent=turn.agent, round=turn.round, seed=-1)


TurnKey = tuple[Turn, tuple[Message, ...]]


def turn_key(turn: Turn, own_messages: Mapping[int, Message]) -> TurnKey:
    """Returns all that the message of a turn depends on."""
    recalled = []
    if turn.recall:
        recalled = [own_messages[round] for round in sorted(own_messages) if round < turn.round]
    # The weights of a wiring that is made of its trace differ in their last digits.
    rounded = []
    for heard_message in turn.heard:
        rounded.append(replace(heard_message, weight=round(heard_message.weight, WEIGHT_DIGITS)))
    return (
        replace(turn, discussion="", heard=tuple(rounded)),
        tuple(replace(message, heard=(), tampered=()) for message in recalled),
    )
