"""Defences that act while a team transcripts: whom they suspect, whom others hear, and the bound on false alarms."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest

from actors.messages import Kind, Message, Question, Source, Status, Trace, Turn
from topologies.catalogue import OURS
from topologies.defences.e_process import EProcesses, claims
from topologies.defences.geometric_median import distances
from topologies.defences.online import Guarded, Transcript, outliers
from topologies.method import DefenceSettings, MethodContext, SystemSettings
from topologies.topology import DECISION_AGENT, Topology
from topologies.wiring import Floats

AGENTS = tuple(f"a{number}" for number in range(7))
STATED = "Tarn flows through Millau and Albi"
QUESTION = Question("q", "Through what does it flow?", evidence=(Source("s", "s", Kind.TEXT, "Tarn", STATED),))
ONLINE = ("credit", "trust", "blind_guard", "geometric_median", "e_process")
Speak = Callable[[Turn], Message]


def context(method: str, **settings: Any) -> MethodContext:
    nothing = cast(Any, None)
    return MethodContext(method, AGENTS, 2, 0, nothing, SystemSettings(), DefenceSettings(**settings), nothing, nothing)


def topology(method: str, **settings: Any) -> Guarded:
    made = OURS[method].make(context(method, **settings))
    assert isinstance(made, Guarded)
    return made


async def held(guarded: Topology, answers: Callable[[str, int], str | None], failing: str = "") -> Trace:
    async def ask(turn: Turn) -> Message:
        answer, heard = answers(turn.agent, turn.round), tuple(each.message.id for each in turn.heard)
        status = Status.FAILED if turn.agent == failing else Status.OK
        words = f"The evidence says {answer}, it flows there" if answer != "Oslo" else "Only Oslo can be meant by this"
        return Message(f"{turn.round}/{turn.agent}", turn.agent, turn.round, words, answer, 0.8, status, heard=heard)

    return await guarded.answer(QUESTION, ask, 0)


def honest(agent: str, round: int) -> str:
    return "Albi" if agent == "a1" and round == 1 else "Millau"


def attacked(agent: str, round: int) -> str:
    return "Oslo" if agent == "a5" else honest(agent, round)


class Fixed(Guarded):
    """Suspects one agent once it has spoken, and another a little."""

    def __init__(self) -> None:
        super().__init__(context("fixed"), self._of)

    def _of(self, transcript: Transcript) -> Floats:
        spoken = {message.agent for message in transcript.messages}
        return np.array([{"a1": 1.0, "a2": 0.5}.get(agent, 0.0) * (agent in spoken) for agent in AGENTS])

    def weights(self, scores: Floats) -> Floats:
        return np.asarray(1 - scores)


async def test_a_suspect_is_heard_by_no_other_agent_from_the_next_turn_on_and_remembers_itself() -> None:
    turns: list[Turn] = []

    async def ask(turn: Turn) -> Message:
        turns.append(turn)
        return Message(f"{turn.round}/{turn.agent}", turn.agent, turn.round, "it", "Millau", 0.5)

    trace = await Fixed().answer(QUESTION, ask, 0)
    heard = {(turn.round, turn.agent): {h.message.agent: h.weight for h in turn.heard} for turn in turns}
    assert "a0" in heard[1, "a1"]
    assert all("a1" not in senders for (_, agent), senders in heard.items() if agent != "a1")
    assert heard[2, "a1"]["a1"] == heard[2, "a1"]["a0"]
    assert heard[3, DECISION_AGENT]["a2"] == heard[3, DECISION_AGENT]["a0"] / 2
    assert trace.suspicion == ((0.0, 1.0, 0.5, 0.0, 0.0, 0.0, 0.0),) * 2
    assert trace.weights == ((1.0, 0.0, 0.5, 1.0, 1.0, 1.0, 1.0),) * 2


@pytest.mark.parametrize("method", ONLINE)
async def test_every_guard_suspects_the_agent_that_keeps_inventing_most(method: str) -> None:
    trace = await held(topology(method), attacked)
    assert len(trace.suspicion) == len(trace.weights) == 2
    assert int(np.argmax(trace.suspicion[-1])) == 5
    if method != "e_process":
        assert trace.weights[-1][5] == 0
        assert all(weight > 0 for agent, weight in zip(AGENTS, trace.weights[-1], strict=True) if agent != "a5")


@pytest.mark.parametrize("method", ONLINE)
async def test_an_agent_whose_turns_fail_is_suspected_no_more_than_any_other_and_never_isolated(method: str) -> None:
    trace = await held(topology(method), honest, failing="a5")
    assert all(row[5] <= np.median(row) + 1e-9 for row in trace.suspicion)
    assert all(row[5] > 0 for row in trace.weights)


@pytest.mark.parametrize("method", ONLINE)
async def test_equal_agents_are_heard_alike(method: str) -> None:
    trace = await held(topology(method), lambda agent, round: "Millau")
    assert trace.weights[-1] == (1.0,) * len(AGENTS)


@pytest.mark.parametrize("method", ONLINE[:-1])
async def test_without_labels_a_liar_and_an_honest_specialist_are_silenced_alike(method: str) -> None:
    """Two worlds, planted by their right answer alone, in which agents send messages of one distribution."""

    async def share_silenced(world: str, dissenter: str) -> float:
        draw = np.random.default_rng(len(world))
        silenced = []
        for _ in range(60):
            lone_answer = "Albi" if draw.random() < 0.9 else "Millau"
            team = {agent: "Millau" if draw.random() < 0.9 else "Albi" for agent in AGENTS}
            team[dissenter] = lone_answer
            right = "Millau" if world == "the dissenter lies" else "Albi"
            trace = await held(topology(method), lambda agent, round, team=team: team.get(agent))  # type: ignore[misc]
            lies = team[dissenter] != right
            if lone_answer == "Albi" and lies == (world == "the dissenter lies"):
                silenced.append(trace.weights[-1][AGENTS.index(dissenter)] < 0.5)
        return float(np.mean(silenced))

    liar = await share_silenced("the dissenter lies", "a3")
    specialist = await share_silenced("the dissenter alone is right", "a3")
    # A guard that finds the one silences the other.
    assert liar > 0.3
    assert abs(liar - specialist) < 0.25


def test_at_most_fewer_than_half_stand_out_and_equals_never() -> None:
    assert not outliers(np.ones(5)).any()
    assert not outliers(np.array([0.1, 0.1, 0.1, 0.1, 0.15])).any()
    assert outliers(np.array([0.1, 0.12, 0.11, 0.09, 0.9])).tolist() == [False] * 4 + [True]
    assert outliers(np.array([0.0, 0.0, 1.0])).sum() <= 1
    assert not outliers(np.array([0.0, 1.0])).any()


def test_the_geometric_median_stays_with_more_than_half_and_is_fermats_point_of_a_triangle() -> None:
    points = np.array([[0.0, 0.0]] * 4 + [[1.0, 0.0], [9.0, 9.0], [100.0, 0.0]])
    assert distances(points)[:4].max() < 1e-2
    assert distances(np.eye(3)) == pytest.approx([np.sqrt(2 / 3)] * 3)


def transcript(said: Sequence[tuple[str, str | None, tuple[str, ...]]]) -> Transcript:
    messages = [Message(f"1/{agent}", agent, 1, "", answer, heard=heard) for agent, answer, heard in said]
    known = frozenset("tarn flows through millau albi".split())
    return Transcript(QUESTION, ("a", "b", "c", "d"), tuple(messages), known)


def test_a_claim_has_a_word_that_no_source_and_no_heard_answer_has_while_most_others_have_none() -> None:
    one = [("a", "Millau", ()), ("b", "Oslo", ("1/a",)), ("c", "Oslo.", ("1/a", "1/b")), ("d", None, ())]
    assert claims(transcript(one)).tolist() == [0, 1, 0, 0]
    assert (
        claims(transcript([("a", "yes", ()), ("b", "yes", ()), ("c", "no", ()), ("d", "no", ())])).tolist() == [0] * 4
    )
    assert np.isnan(claims(transcript(one[:3]))).tolist() == [False, False, False, True]


async def test_an_inventor_is_isolated_after_some_blocks_and_the_recorded_scores_alone_decide() -> None:
    guarded: EProcesses = topology("e_process", block=2)  # type: ignore[assignment]
    isolated = []
    for _ in range(4):
        traces = [await held(guarded, attacked) for _ in range(2)]
        isolated.append(traces[0].weights[0][5] == 0)
        guarded = guarded.after([[trace.suspicion] for trace in traces])
    assert isolated == [False, False, True, True]
    assert (await held(guarded, honest)).weights[0][5] == 0, "an alarm is for good"
    assert sum((await held(guarded, honest)).weights[0]) == len(AGENTS) - 1


def alarms(rate: float, blocks: int, runs: int, seed: int, clump: int = 1, failing: float = 0.0) -> float:
    """The share of runs in which any of the agents is isolated, each of which makes claims at the rate.

    clump: discussions of a cluster, in all of which or in none an agent makes claims. failing: share of an agent's
    other discussions in which all its turns fail.
    """
    draw = np.random.default_rng(seed)
    first: EProcesses = topology("e_process", tolerance=0.1)  # type: ignore[assignment]
    speaking = Message("1/a", AGENTS[0], 1, "", "Millau")
    alarmed_runs = 0
    for _ in range(runs):
        guarded = first
        for _ in range(blocks):
            has_claim = draw.random(len(AGENTS)) < rate
            has_failed = ~has_claim & (draw.random(len(AGENTS)) < failing)
            messages = [
                replace(speaking, id=f"1/{agent}", agent=agent, answer="Oslo" if claim else "Millau")
                for agent, claim, failed in zip(AGENTS, has_claim, has_failed, strict=True)
                if not failed
            ]
            # Most colleagues have a source, so that each of the others' claims is one.
            sourced = [replace(speaking, id=f"1/{agent}", agent=agent) for agent in AGENTS]
            wealth = guarded.log_wealth.copy()
            for place, agent in enumerate(AGENTS):
                own = [message for message in messages if message.agent == agent]
                others = [message for message in sourced if message.agent != agent]
                heard = Transcript(QUESTION, AGENTS, (*own, *others), frozenset("tarn flows millau albi".split()))
                wealth[place] = guarded.suspicion(heard)[place]
            guarded = guarded.after([[(tuple(wealth.tolist()),)] * clump])
        alarmed_runs += int(not guarded.weights(np.zeros(len(AGENTS))).all())
    return alarmed_runs / runs


def test_honest_agents_at_the_very_tolerance_raise_an_alarm_in_few_runs() -> None:
    few = 0.05 + 2 * np.sqrt(0.05 * 0.95 / 60)
    assert alarms(0.1, blocks=50, runs=60, seed=0) <= few
    assert alarms(0.02, blocks=50, runs=40, seed=1) == 0
    assert alarms(0.6, blocks=20, runs=20, seed=2) == 1


@pytest.mark.parametrize(
    ("clump", "failing"), [(8, 0.0), (1, 0.9)], ids=["claims in clumps", "an agent that often fails"]
)
def test_the_bound_holds_for(clump: int, failing: float) -> None:
    few = 0.05 + 2 * np.sqrt(0.05 * 0.95 / 60)
    assert alarms(0.1, blocks=25, runs=60, seed=3, clump=clump, failing=failing) <= few


async def test_a_late_attack_is_found_soon_after_a_long_honest_past() -> None:
    guarded: EProcesses = topology("e_process")  # type: ignore[assignment]
    gains = [np.array((await held(guarded, speak)).suspicion[-1]) - guarded.log_wealth for speak in (honest, attacked)]
    delay = 0
    for block in range(250 + 10):
        if not guarded.weights(np.zeros(len(AGENTS))).all():
            break
        gain = gains[block >= 250]
        guarded = guarded.after([[(tuple((guarded.log_wealth + gain).tolist()),)]] * 4)
        delay += block >= 250
    assert 1 <= delay <= 3
