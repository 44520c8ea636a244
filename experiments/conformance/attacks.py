"""Checks of an attack: the agents that it may touch, and the labels that it must not know."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

from actors.messages import Turn
from experiments.attacks.attack import Attack
from experiments.attacks.catalogue import attack_kind
from experiments.attacks.kind import Phase
from experiments.conformance.methods import plan_small
from experiments.conformance.requirements import check_reads, checking, noting, require
from experiments.conformance.sample_world import SampleWorld, sample_world
from experiments.datasets.item import Item
from experiments.planning.plan import Plan
from experiments.running.calibration import watched_topology
from experiments.running.speakers import attacked_discussion
from experiments.scripted.replies import improvising

ITEMS = 3  # of each phase
OF_RUN = {"kind", "agents", "number", "when", "clean", "target"}
"""Settings that a run reads whatever the attack does with them."""


def check_attack(name: str) -> None:
    """Compares discussions with and without an attack. Raises UserError, and NotConforming with the first fault."""
    plan = plan_small("full", f"attack.kind={name}", "attack.number=2")
    with checking(name), TemporaryDirectory() as folder:
        asyncio.run(AttackInWorld(plan, sample_world(Path(folder))).check())


class AttackInWorld:
    """The attack of a plan, on discussions of everyone with everyone."""

    def __init__(self, plan: Plan, world: SampleWorld) -> None:
        self._plan = plan
        self._world = world
        self._evidence = world.evidence(plan.retrieval)
        self._kind = attack_kind(plan.config.attack.kind)
        self._names_read: set[str] = set()
        settings = noting(plan.config.attack, self._names_read)
        self._attack = Attack(settings, plan.roles.attackable, world.dataset, plan.config.seed)

    async def check(self) -> None:
        """Attacks discussions of training and of the evaluation. Raises NotConforming with the first fault."""
        await asyncio.to_thread(self._attack.prepare, self._evidence)
        for number, item in enumerate(islice(self._world.dataset.train(), ITEMS)):
            await self._check_discussion(item, "train", number)
        for number, item in enumerate(islice(self._world.dataset.evaluate(), ITEMS)):
            await self._check_discussion(item, "evaluate", number)
        check_reads(self._kind, "attack", "attack", self._names_read - OF_RUN)
        aimed = self._kind.aimed
        reads_target = "attack.target" in self._kind.reads
        require(aimed == reads_target, f"`aimed` is {aimed}, so `reads` has attack.target or not")

    async def _check_discussion(self, item: Item, phase: Phase, number: int) -> None:
        clean_turns = await self._turns(self._attack.absent(), item, phase, number)
        turns = await self._turns(self._attack, item, phase, number)
        repeated_turns = await self._turns(self._attack, item, phase, number)
        require(turns == repeated_turns, "it changes the same turn in another way the second time")
        require(turns.keys() == clean_turns.keys(), "other turns are taken than without it")
        for id, turn in turns.items():
            clean_turn = clean_turns[id]
            # All that an attack may change is made equal.
            unchanged = replace(
                turn,
                question=clean_turn.question,
                heard=clean_turn.heard,
                inputs=clean_turn.inputs,
                instruction=clean_turn.instruction,
                memories=clean_turn.memories,
                directive=clean_turn.directive,
            )
            require(unchanged == clean_turn, f"it changes the agent, round, seed or memory of {id}")
            # Other agents may rightly hear other messages: only an instruction would be the attack's own.
            is_honest = self._kind.acts_on == "turns" and turn.agent not in self._attack.attackers
            is_instructed = turn.instruction != clean_turn.instruction
            require(not (is_honest and is_instructed), "it gives an instruction to an agent that is not compromised")

        # Not the gold answer: the target is chosen against it, so another one may rightly change the attack.
        relabelled = replace(item, supporting=())
        relabelled_turns = await self._turns(self._attack, relabelled, phase, number)
        require(relabelled_turns == turns, "it knows which sources support the answer")

    async def _turns(self, attack: Attack, item: Item, phase: Phase, number: int) -> Mapping[str, Turn]:
        """Returns the turns of one discussion as they reach the agents, by id."""
        team = improvising(self._plan.roles.launched)
        await attacked_discussion(
            attack,
            watched_topology(self._plan.roles.agents, self._plan.config.topology.rounds),
            item,
            await self._evidence.question(item),
            team,
            self._plan.config.seed,
            phase=phase,
            number=number,
        )
        return {turn.id: turn for turn in team.turns}
