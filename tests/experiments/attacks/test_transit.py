"""Faults in transit and planted memories: what arrives, when, and what the trace records of it."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from actors.errors import UserError
from actors.messages import Trace
from experiments.attacks.attack_metrics import attack_cost
from experiments.attacks.catalogue import attack_kind
from experiments.attacks.kind import AttackSettings
from experiments.scripted.speaker import ScriptedSpeaker
from tests.experiments.attacks.test_attacks import SEED, TEAM, Office, attack, chain, discussed, everybody, item, said
from topologies.topology import Wired, run_discussion
from topologies.wiring import Wiring


def prompt(office: ScriptedSpeaker, round: int, agent: str) -> str:
    [request] = [request for request in office.requests if request.id.endswith(f"/{round}/{agent}")]
    return request.own


def along_the_rounds() -> Wired:
    """0 > 1 > 2, from each round to the next."""
    temporal = np.zeros((3, 4, 4), dtype=bool)
    temporal[1:, 0, 1] = temporal[1:, 1, 2] = True
    return Wired("rounds", TEAM, Wiring.of_matrices(np.zeros_like(temporal), temporal, np.ones(4, dtype=bool)))


async def faulty(kind: str, topology: Wired, **more: Any) -> tuple[Trace, Office]:
    office = Office()
    return await discussed(attack(kind=kind, share=1.0, **more), topology=topology, office=office), office


async def test_a_dropped_message_is_in_no_prompt_and_was_sent_all_the_same() -> None:
    trace, office = await faulty("drop", everybody())
    for request in office.requests:
        others = [name for name in TEAM if not request.id.endswith(f"/{name}")]
        assert not any(f"[{name}, round" in request.own for name in others)
    for turn in trace.turns:
        assert turn.tampered == tuple(id for id in turn.heard if not id.endswith(turn.agent))
    assert said(trace, "decision", 3).heard
    assert trace.planted == trace.written == 0


async def test_a_delayed_message_arrives_a_round_later() -> None:
    trace, office = await faulty("delay", along_the_rounds())
    assert f"[{TEAM[0]}, round 1]" not in prompt(office, 2, TEAM[1])
    assert f"[{TEAM[0]}, round 1]" in prompt(office, 3, TEAM[1])
    assert said(trace, TEAM[1], 2).tampered == (f"1/{TEAM[0]}",)
    assert said(trace, TEAM[1], 3).tampered == (f"2/{TEAM[0]}", f"1/{TEAM[0]}")
    assert said(trace, TEAM[1], 3).heard == (f"2/{TEAM[0]}",)
    assert "round" not in prompt(office, 4, "decision").partition("## Role")[0]


async def test_a_doubled_message_is_shown_twice() -> None:
    trace, office = await faulty("duplicate", chain())
    assert prompt(office, 1, TEAM[1]).count(f"[{TEAM[0]}, round 1]") == 2
    assert said(trace, TEAM[1], 1).tampered == said(trace, TEAM[1], 1).heard == (f"1/{TEAM[0]}",)


async def test_a_stray_message_reaches_those_that_hear_its_receiver() -> None:
    trace, office = await faulty("misroute", chain(), agents=[0])
    assert f"[{TEAM[0]}, round 1]" not in prompt(office, 1, TEAM[1])
    assert f"[{TEAM[0]}, round 1]" in prompt(office, 1, TEAM[2])
    assert said(trace, TEAM[2], 1).heard == (f"1/{TEAM[1]}",)
    assert said(trace, TEAM[2], 1).tampered == (f"1/{TEAM[0]}",)


async def test_a_forged_message_has_its_victims_name_and_the_target() -> None:
    trace, office = await faulty("impersonate", chain(), agents=[0])
    lines = [line for line in prompt(office, 1, TEAM[1]).splitlines() if line.startswith(f"[{TEAM[0]}, round 1]")]
    assert [str(trace.target) in line for line in sorted(lines, key=lambda line: str(trace.target) in line)] == [0, 1]
    assert trace.attacked == (TEAM[0],)
    assert trace.written > 0


@pytest.mark.parametrize("kind", ["drop", "delay", "duplicate", "misroute", "impersonate", "tamper"])
async def test_without_a_share_nothing_is_touched(kind: str) -> None:
    clean = await run_discussion(everybody(), item(7).question, Office(), SEED)
    trace = await discussed(attack(kind=kind, share=0.0))
    assert trace.turns == clean.turns


async def test_an_agent_takes_a_planted_turn_for_its_own() -> None:
    office = Office()
    trace = await discussed(attack(kind="memory", agents=[0]), topology=along_the_rounds(), office=office)
    clean = await run_discussion(along_the_rounds(), item(7).question, Office(), SEED)
    own = [line for line in prompt(office, 2, TEAM[0]).splitlines() if line.startswith(f"[{TEAM[0]}, round 1]")]
    assert len(own) == 1
    assert str(trace.target) in own[0]
    assert said(trace, TEAM[0], 1) == said(clean, TEAM[0], 1)
    # Its colleague heard what it said.
    assert str(trace.target) not in prompt(office, 2, TEAM[1])
    assert not any(turn.tampered for turn in trace.turns)


def test_a_planted_memory_needs_a_second_round() -> None:
    memory = attack_kind("memory")(AttackSettings(kind="memory"))
    memory.check_phases(2, None)
    with pytest.raises(UserError, match=r"topology\.rounds"):
        memory.check_phases(1, None)


async def test_an_attack_costs_what_it_compromised_changed_and_wrote() -> None:
    liar = await discussed(attack(kind="response", agents=[0]))
    turns = [turn for turn in liar.turns if turn.agent == TEAM[0]]
    cost = attack_cost([liar])
    assert (cost["attack_agents"], cost["attack_messages"], cost["attack_rounds"], cost["attack_sources"]) == (
        1,
        2,
        2,
        0,
    )
    assert cost["attack_tokens"] >= sum(len(turn.content.split()) for turn in turns)
    wire = attack_cost([(await faulty("drop", chain(), agents=[0]))[0]])
    # 0 is heard by 1 in two rounds, and by the decision agent.
    assert list(wire.values()) == [0, 3, 3, 0, 0]
    planted = attack_cost([await discussed(attack(kind="poison"))])
    assert (planted["attack_agents"], planted["attack_messages"], planted["attack_sources"]) == (0, 0, 1)
    memory = attack_cost([await discussed(attack(kind="memory", agents=[0]))])
    assert (memory["attack_agents"], memory["attack_messages"]) == (1, 0)
    assert memory["attack_tokens"] > 0
    assert attack_cost([replace(liar, attack="")]) == {}
