"""A placebo hears another question's messages, by sender and round; graph, turns and own memory are the method's."""

import asyncio
from dataclasses import replace

from actors.messages import Message, Question, Status, Trace, Turn
from topologies.baselines import complete_wiring
from topologies.controls.placebo import NEAREST, Placebo, substitutes
from topologies.topology import DECISION_AGENT, Topology, Wired

AGENTS = ("a", "b", "c")


def team() -> Wired:
    return Wired("full", AGENTS, complete_wiring(3, 2))


def held(topology: Topology, question: str, turns: list[Turn] | None = None, failing: str = "") -> Trace:
    async def ask(turn: Turn) -> Message:
        if turns is not None:
            turns.append(turn)
        id = f"{turn.round}/{turn.agent}"
        status = Status.FAILED if id == failing else Status.OK
        heard = tuple(each.message.id for each in turn.heard)
        return Message(id, turn.agent, turn.round, f"of {turn.question.id}", turn.question.id, 0.5, status, heard=heard)

    return asyncio.run(topology.answer(Question(question, "When?"), ask, 0))


def test_every_message_of_another_agent_is_the_substitute_s_and_the_rest_is_the_method_s() -> None:
    method, turns, heard = held(team(), "q"), list[Turn](), 0
    placebo = held(Placebo(team(), {"q": [held(team(), "other")]}), "q", turns)
    assert [turn.id for turn in placebo.turns] == [turn.id for turn in method.turns]
    assert (placebo.spatial, placebo.temporal) == (method.spatial, method.temporal)
    assert [turn.seed for turn in placebo.turns] == [turn.seed for turn in method.turns]
    asked = {(turn.round, turn.agent): turn for turn in turns}
    ids = {turn.id for turn in placebo.turns}
    for turn in method.turns:
        now = asked[turn.round, turn.agent]
        assert len(now.heard) == len(turn.heard)
        for each in now.heard:
            own = each.message.agent == turn.agent
            assert each.message.answer == ("q" if own else "other")
            assert (each.message.id in ids) is own
            heard += not own
        # In the same place: sender and round.
        assert [each.message.id.removeprefix("other/") for each in now.heard] == list(turn.heard)
    assert heard > 10
    assert asked[1, "a"].recall == 0
    assert asked[2, "a"].recall == 1
    assert asked[3, DECISION_AGENT].heard


def test_a_message_that_the_first_substitute_lacks_is_the_next_one_s_and_is_else_not_heard() -> None:
    turns: list[Turn] = []
    first, second = held(team(), "first", failing="1/b"), held(team(), "second")
    held(Placebo(team(), {"q": [first, second]}), "q", turns)
    by_sender = {each.message.agent: each.message.answer for turn in turns if turn.round == 1 for each in turn.heard}
    assert by_sender == {"a": "first", "b": "second"}
    turns.clear()
    assert len(held(Placebo(team(), {}), "q", turns).turns) == 7
    assert {each.message.agent for turn in turns for each in turn.heard if each.message.agent != turn.agent} == set()


def test_substitutes_are_as_long_come_from_elsewhere_and_depend_on_the_seed() -> None:
    def of_length(number: int) -> Trace:
        whole = held(team(), f"q{number}")
        long = replace(whole.turns[0], content="word " * number)
        return replace(whole, turns=(long, *whole.turns[1:]), evidence=("shared",) if number in (20, 22) else ())

    traces = [of_length(number) for number in range(40)]
    chosen = substitutes(traces, 0)
    for number in range(40):
        numbers = [int(other.question[1:]) for other in chosen[f"q{number}"]]
        assert number not in numbers
        assert all(abs(other - number) <= NEAREST for other in numbers)
        assert len(set(numbers)) == len(numbers) >= NEAREST
    assert chosen["q20"][-1].question == "q22"
    assert substitutes(traces[::-1], 0) == chosen != substitutes(traces, 1)
