"""Attacks on learning: honest while it is watched, and wrong where it makes others look bad."""

from typing import Any

import pytest

from actors.messages import Heard, Message, Turn
from experiments.attacks.attack import Attack
from experiments.attacks.kind import AttackSettings
from tests.experiments.attacks.test_attacks import SEED, TEAM, Films, Office, attack, discussed, everybody, item, said
from topologies.topology import run_discussion


async def test_a_late_attacker_is_honest_in_training_alone() -> None:
    by = attack(kind="late", agents=[0])
    clean = await run_discussion(everybody(), item(7).question, Office(), SEED)
    assert (await discussed(by, phase="train")).turns == clean.turns
    trace = await discussed(by)
    assert {said(trace, TEAM[0], round).answer for round in (1, 2)} == {trace.target}


def hearing(by: Attack, agent: str, phase: Any) -> bool:
    """True where the saboteur, hearing one agent, argues for the target."""
    message = Message(f"1/{agent}", agent, 1, "It is Ghent.", "Ghent", 0.8)
    turn = Turn("d", item(7).question, by.attackers[0], 2, 0, (Heard(message, 1.0),))
    return bool(by.change(item(7), 0, phase)(turn).instruction)


def test_a_saboteur_answers_wrong_where_it_hears_an_agent_that_it_frames() -> None:
    team = [f"agent_{number}" for number in range(40)]
    by = Attack(AttackSettings(kind="sabotage", agents=[0, 1], share=0.5), team, Films(), SEED)
    framed = [agent for agent in team[2:] if hearing(by, agent, "train")]
    assert 10 < len(framed) < 28
    assert not hearing(by, team[1], "train")  # an accomplice
    assert all(hearing(by, agent, "evaluate") for agent in team)
    none = Attack(AttackSettings(kind="sabotage", agents=[0], share=0.0), team, Films(), SEED)
    assert not any(hearing(none, agent, "train") for agent in team)


@pytest.mark.parametrize("kind", ["late", "sabotage"])
async def test_attackers_of_learning_share_a_target(kind: str) -> None:
    trace = await discussed(attack(kind=kind, agents=[1, 2]))
    assert {said(trace, TEAM[n], 1).answer for n in (1, 2)} == {trace.target}
