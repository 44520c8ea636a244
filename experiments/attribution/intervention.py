"""Interventions on a recorded discussion. Turns downstream are asked again, and the record answers all others."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

from actors.agents.role_agent import RoleAgent
from actors.errors import UserError
from actors.messages import Message, Status, Trace, Turn, TurnResult, derive_seed
from actors.runtime.inline import Inline
from actors.runtime.team import distinct_roles, make_agent
from experiments.inspection.held_again import HeldAgain
from experiments.inspection.opened_run import OpenedRun
from experiments.records.attribution import By
from experiments.running.launching import launch_pools


@asynccontextmanager
async def agents_of(opened: OpenedRun) -> AsyncIterator[dict[str, RoleAgent]]:
    """Launches the agents of a run in this process, for a block. They use its models and completion cache."""
    with Inline() as runtime:
        plan, reuse = opened.plan, launch_pools(opened.plan, runtime, print)
        models = {key: runtime.model(reuse[key], key) for key in plan.models.of_agents}
        made = {
            name: make_agent(role, models[plan.models.of_role(name).key], plan.config.agents)
            for name, role in distinct_roles(plan.roles.launched).items()
        }
        try:
            yield {role.name: made[role.played] for role in plan.roles.launched}
        finally:
            await runtime.unload()


class Replay:
    """Holds a recorded discussion, the first of `held`, with interventions. What one has `asked` serves the others, and
    so do other discussions of the question."""

    def __init__(self, held: Sequence[HeldAgain], agents: Mapping[str, RoleAgent]) -> None:
        if note := next((each.note for each in held if each.note), ""):
            raise UserError(f"{held[0].folder.path}: {note}")
        self.held, self.asked, self._agents = held[0], list[Message](), agents
        self._known: dict[tuple[Turn, tuple[Message, ...]], asyncio.Future[Message]] = {}
        for each in held:
            for id, turn in each.turns.items():
                own = {t.round: each.memories[other] for other, t in each.turns.items() if t.agent == turn.agent}
                known = self._known[_received(turn, own)] = asyncio.get_running_loop().create_future()
                known.set_result(each.memories[id])

    async def hold(
        self,
        turns: Collection[str] = (),
        by: By = "counterpart",
        unheard: tuple[str, str] = ("", ""),
        sent: Mapping[str, Message] | None = None,
    ) -> Trace:
        """Holds it with an intervention on turns or messages, named by their ids.

        turns: replaced `by` their honest counterparts (the attack off, the same seed), silence or another sample.
        unheard: a turn, and the message that it does not hear. sent: messages in place of recorded ones.
        """
        spoken: dict[str, dict[int, Message]] = {}

        async def take(turn: Turn) -> TurnResult:
            id, own = f"{turn.round}/{turn.agent}", spoken.setdefault(turn.agent, {})
            instead = by if id in turns else "counterpart"
            if id == unheard[0]:
                turn = replace(turn, heard=tuple(each for each in turn.heard if each.message.id != unheard[1]))
            if instead == "sample":
                turn = replace(turn, seed=derive_seed(turn.seed, "sample"))
            if sent and id in sent:
                own[turn.round] = sent[id]
            elif instead == "silence":
                own[turn.round] = Message(id, turn.agent, turn.round, status=Status.FAILED, seed=turn.seed)
            else:
                if (received := _received(turn, own)) not in self._known:
                    # A discussion for each turn: agents remember by its name, and several are held at once.
                    named = replace(turn, discussion=str(len(self._known)))
                    self._known[received] = asyncio.ensure_future(self._ask(named, dict(own)))
                own[turn.round] = await self._known[received]
            return TurnResult(own[turn.round])

        return await self.held.discuss(
            Intervening(take), self.held.attack.sparing(turns if by == "counterpart" else ())
        )

    async def _ask(self, turn: Turn, own: Mapping[int, Message]) -> Message:
        agent = self._agents[turn.agent]
        for round, earlier in own.items():
            agent.memory.remember(replace(turn, round=round), earlier)
        message = (await agent.take(turn)).message
        agent.memory.forget([turn.discussion])
        self.asked.append(message)
        return message


class Intervening:
    """Speaker of a discussion with an intervention."""

    def __init__(self, take: Callable[[Turn], Awaitable[TurnResult]]) -> None:
        self._take = take

    async def take(self, turn: Turn) -> TurnResult:
        return await self._take(turn)

    def close(self, discussion: str) -> None:
        """Does nothing: agents forget every turn at once."""


def _received(turn: Turn, own: Mapping[int, Message]) -> tuple[Turn, tuple[Message, ...]]:
    recalled = [own[round] for round in sorted(own) if round < turn.round] if turn.recall else []
    return replace(turn, discussion=""), tuple(replace(each, heard=(), tampered=()) for each in recalled)
