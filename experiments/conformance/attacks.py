"""Checks of an attack: the agents that it may touch, and the labels that it must not know."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from actors.agents.roles import DECISION, ROLES
from actors.messages import Turn
from experiments.attacks.attack import Attack
from experiments.attacks.catalogue import attack_kind
from experiments.attacks.kind import NONE, AttackSettings
from experiments.conformance.methods import TEAM
from experiments.conformance.parts import check_reads, noting, require
from experiments.conformance.scripted import ScriptedSpeaker, improvised
from experiments.datasets.item import Item
from experiments.datasets.mmqa import Mmqa
from experiments.datasets.sample.release import write_sample
from experiments.running.speakers import attacked_discussion
from topologies.baselines import complete_wiring
from topologies.topology import Wired

SEED = 5
ROUNDS = 2
# Settings that a run reads whatever the attack does with them.
OF_RUN = {"kind", "agents", "number", "when", "clean", "target"}


def check_attack(name: str) -> None:
    """Compares discussions with and without an attack. Raises UserError, and NotConforming with the first fault."""
    kind = attack_kind(name)
    read = set[str]()
    settings = noting(AttackSettings(kind=name, number=2), read)
    with TemporaryDirectory() as folder:
        write_sample(Path(folder) / "sample", seed=3, train=0, dev=8)
        data = Mmqa.at(Path(folder) / "sample")
        items = list(data.evaluate())[:3]
        for number, item in enumerate(items):
            attack = Attack(settings, TEAM, data, SEED)
            clean = _turns(Attack(AttackSettings(kind=NONE), TEAM, data, SEED), item, number)
            turns, again = _turns(attack, item, number), _turns(attack, item, number)
            require(turns == again, f"{name}: it changes the same turn in another way the second time")
            require(turns.keys() == clean.keys(), f"{name}: other turns are taken than without it")
            for id, turn in turns.items():
                # All that an attack may change is made equal.
                before = replace(clean[id], heard=(), inputs=(), instruction="", memories=())
                own = replace(turn, heard=(), inputs=(), instruction="", memories=(), directive=before.directive)
                kept = replace(own, question=before.question) == before
                require(kept, f"{name}: it changes the agent, round, seed or memory of {id}")
            if kind.acts_on == "turns":
                # Other agents may rightly hear other messages: only an instruction would be the attack's own.
                untouched = {turn.id for turn in turns.values() if turn.agent not in attack.attackers}
                same = all(turns[id].instruction == clean[id].instruction for id in untouched & clean.keys())
                require(same, f"{name}: it gives an instruction to an agent that is not compromised")
            # Not the gold answer: the target is chosen against it, so another one may rightly change the attack.
            relabelled = replace(item, supporting=())
            require(_turns(attack, relabelled, number) == turns, f"{name}: it knows which sources support the answer")
    check_reads(kind, "attack", "attack", read - OF_RUN)
    reads_target = "attack.target" in kind.reads
    require(kind.aimed == reads_target, f"{name}: `aimed` is {kind.aimed}, so `reads` has attack.target or not")


def _turns(attack: Attack, item: Item, number: int) -> Mapping[str, Turn]:
    """Returns the turns of one discussion as they reach the agents, by id."""
    topology = Wired("full", TEAM, complete_wiring(len(TEAM), ROUNDS))
    team = ScriptedSpeaker([*(ROLES[name] for name in TEAM), DECISION], improvised(1))
    asyncio.run(attacked_discussion(attack, topology, item, item.question, team, SEED, phase="evaluate", number=number))
    return {turn.id: turn for turn in team.turns}
