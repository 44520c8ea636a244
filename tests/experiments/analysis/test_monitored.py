"""The monitor reports agents that become worse after learning, and no others."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from actors.messages import Message, Question, Status, Trace
from experiments.analysis.monitored import agent_scores, fallen
from experiments.analysis.phase_tables import phase_tables
from experiments.datasets.item import Item, text_score

KINDS = ("text", "text", "text", "visual", "visual")


def scores(
    seed: int, questions: int, lying: Sequence[int] = (), since: int = 0, easier: float = 0.0, each: int = 1
) -> pd.DataFrame:
    """Right answers of five agents and their team, of chance .5 and dependent; liars are wrong from a question on."""
    draw = np.random.default_rng(seed)
    hard = np.repeat(draw.normal(size=(questions, 1)), each, 0)
    right = (hard + draw.normal(size=(len(hard), len(KINDS) + 1)) < easier).astype(float)
    number = np.repeat(np.arange(questions), each)
    right[np.ix_(number >= since, list(lying))] = 0.0
    return pd.DataFrame(right, number)


def test_hardly_any_team_that_does_not_change_is_reported() -> None:
    reported = [fallen(scores(n, 80, each=4), scores(99 + n, 100), KINDS, 0.05) for n in range(20)]
    assert sum(map(bool, reported)) <= 1


def test_a_late_liar_is_reported_with_about_the_question_since_which_it_lies() -> None:
    before = scores(1, 80, each=4)
    (found,) = fallen(before, scores(2, 100, [1]), KINDS, 0.05).items()
    assert (found[0], found[1][0]) == (1, 1)
    assert found[1][1] < 50
    since, shown = fallen(before, scores(3, 200, [1], since=70), KINDS, 0.05)[1]
    assert 32 < since <= 70 < shown


def test_neither_a_liar_of_training_nor_agents_with_harder_questions_are_reported() -> None:
    before = scores(1, 80, [4], each=4)
    assert not fallen(before, scores(2, 150, [4], easier=1.0), KINDS, 0.05)
    assert fallen(before, scores(2, 150, [4], easier=-1.0), KINDS, 0.05).keys() <= {len(KINDS)}


def test_agents_without_an_answer_are_not_watched() -> None:
    before, after = scores(1, 80), scores(2, 100, [1])
    after[1] = np.nan
    assert not fallen(before, after, KINDS, 0.05)
    assert not fallen(before * np.nan, after, KINDS, 0.05)


def test_failed_turns_are_left_out_and_discussions_in_which_an_agent_was_lost() -> None:
    def turn(agent: str, answer: str | None, status: Status = Status.OK) -> Message:
        return Message(f"1/{agent}", agent, 1, "because", answer, status=status)

    def held(question: str, *turns: Message) -> Trace:
        return Trace(question, "m", 0, ("a", "b"), (*turns, turn("decision", "red")), "red", Status.OK, 0)

    items = {id: Item(Question(id, "?"), gold=("red",)) for id in ("q1", "q2")}
    unread, lost = turn("b", None, Status.UNPARSED), turn("b", None, Status.FAILED)
    traces = [held("q1", turn("a", "blue"), unread), held("q2", turn("a", "red"), lost), held("q3", turn("a", "red"))]
    scores = agent_scores(phase_tables(traces, items, text_score))
    assert scores.fillna(-1).to_numpy().tolist() == [[0, -1, 1]]
    assert list(scores.index) == ["q1"]
