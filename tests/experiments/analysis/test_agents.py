"""Rows of agents: who is right, who changes an answer, who convinces and misleads, and who takes no turn."""

from pathlib import Path

import pytest

from actors.errors import UserError
from actors.messages import Message, Question, Status, Trace
from experiments.analysis.agents import FILE, MOST_ROWS, AgentRow, agent_rows, agent_tables, read
from experiments.analysis.phase_tables import phase_tables
from experiments.datasets.item import Item, text_score
from experiments.records.recorder import RunFolder

ITEMS = {id: Item(Question(id, "?"), gold=("blue",)) for id in ("q1", "q2")}


def turn(round_: int, agent: str, answer: str | None, *heard: str, **rest: object) -> Message:
    content = "because" if answer is None else ""
    return Message(f"{round_}/{agent}", agent, round_, content, answer, heard=heard, prompt_tokens=10, calls=1, **rest)  # type: ignore[arg-type]


def discussion(question: str, *turns: Message, agents: tuple[str, ...] = ("a", "b"), attacked: str = "") -> Trace:
    named = (attacked,) if attacked else ()
    return Trace(question, "m", 0, agents, turns, turns[-1].answer, Status.OK, 0, attacked=named)


def listed(*traces: Trace) -> list[AgentRow]:
    return agent_rows("m", phase_tables(traces, ITEMS, text_score))


def rows_of(*traces: Trace) -> dict[str, AgentRow]:
    return {row.agent: row for row in listed(*traces)}


GOOD = discussion(
    "q1",
    turn(1, "a", "blue"),
    turn(1, "b", "red", "1/a"),  # has no earlier answer to change
    turn(2, "a", "Blue.", "1/b"),
    turn(2, "b", "blue", "1/a", "1/b", "2/a"),
    turn(3, "decision", "blue", "2/a", "2/b"),
)
BAD = discussion(
    "q2",
    turn(1, "a", "green"),
    turn(1, "b", "blue"),
    turn(2, "b", "green", "1/a"),
    turn(3, "decision", "green", "2/b"),
    agents=("a", "b", "c"),
    attacked="a",
)


def test_an_agent_convinces_who_takes_over_its_right_answer_and_misleads_who_takes_over_its_wrong_one() -> None:
    rows = rows_of(GOOD, BAD)
    # In q1 b takes over a's answer, which it hears in two messages; in q2 it leaves its right one for a's.
    assert (rows["a"].convinced, rows["a"].misled) == (1, 1)
    assert (rows["b"].better, rows["b"].worse) == (1, 1)
    assert rows_of(GOOD)["a"].contribution == 1
    assert rows_of(BAD)["a"].contribution == -1
    assert (rows["b"].convinced, rows["b"].misled) == (0, 0)


def test_right_is_a_mean_by_the_agent_s_own_turns_and_of_answers_that_were_read() -> None:
    failed = discussion("q2", turn(1, "a", "blue"), turn(2, "a", None, status=Status.FAILED), agents=("a",))
    rows = rows_of(GOOD, failed)
    assert rows["a"].right == (1.0, 1.0)
    assert rows["a"].failed_turns == 1
    assert rows["b"].right == (0.0, 1.0)
    assert rows["decision"].right == (1.0,)
    # An agent that knows no answer is wrong; a step that gives fields does not answer.
    steps = discussion("q1", turn(1, "a", None), turn(2, "b", None, fields=(("Step", "look"),)))
    assert (rows_of(steps)["a"].right, rows_of(steps)["b"].right) == ((0.0,), ())


def test_an_agent_without_a_turn_has_a_row_and_attacks_are_counted() -> None:
    rows = rows_of(GOOD, BAD)
    assert (rows["c"].turns, rows["c"].discussions) == (0, 0)
    assert (rows["a"].attacked, rows["a"].discussions) == (1, 2)
    assert list(rows) == ["a", "b", "c", "decision"]
    # Four messages in q1, of which one reaches the decision, and one in q2; b's own is none of b.
    assert (rows["a"].heard, rows["b"].heard) == (5, 3)
    assert rows["decision"].decides


def test_rows_do_not_depend_on_the_order_of_discussions() -> None:
    assert listed(GOOD, BAD) == listed(BAD, GOOD)
    assert listed() == []


def test_steps_that_contribute_alike_stay_in_their_order() -> None:
    system = discussion("q1", turn(1, "plan", "x"), turn(2, "find", "y"), turn(3, "answer", "z"), agents=())
    assert list(rows_of(system)) == ["plan", "find", "answer"]


def test_a_large_team_shows_its_first_and_last_agents() -> None:
    names = [f"agent {n}" for n in range(100)]
    rows = listed(discussion("q1", *(turn(1, name, "blue") for name in names)))
    [table] = agent_tables(rows)
    assert len(table.rows) == MOST_ROWS
    assert [len(row) for row in table.rows] == [len(table.columns)] * MOST_ROWS
    # One agent alone is no team.
    assert agent_tables(listed(discussion("q1", turn(1, "a", "blue"), agents=()))) == []


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    assert list(read(run)) == []
    [row, *_] = listed(GOOD)
    (tmp_path / FILE).write_text(f"{row.encode()}\n")
    assert list(read(run)) == [row]
    (tmp_path / FILE).write_text(row.encode().replace('"turns":2', '"turns":-2') + "\n")
    with pytest.raises(UserError, match=FILE):
        list(read(run))
