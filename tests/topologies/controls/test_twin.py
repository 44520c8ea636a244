"""A twin spends its method's tokens, whatever the order in which replies come, and goes on after a kill as before."""

import asyncio
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from actors.errors import UserError
from actors.messages import Kind, Message, Question, Source, Status, Trace, Turn, derive_seed
from topologies.baselines import Single
from topologies.controls.twin import Twin, left_over, tokens_of
from topologies.topology import Ask

QUESTIONS = [Question(f"q{number}", "When?") for number in range(60)]


def cost(turn: Turn) -> tuple[int, int]:
    """Tokens of a prompt, which depend on the question, and of a reply, which differ by sample."""
    drawn = random.Random(derive_seed(0, turn.question.id, turn.round))
    return 200 + derive_seed(0, turn.question.id) % 400, drawn.randint(20, 400)


def asking(failing: str = "", delays: int | None = None) -> Ask:
    drawn = random.Random(delays)

    async def ask(turn: Turn) -> Message:
        await asyncio.sleep(drawn.random() / 1000 if delays is not None else 0)
        prompt, reply = cost(turn)
        status = Status.FAILED if turn.question.id == failing and turn.round == 3 else Status.OK
        answer = "yes" if turn.seed % 3 else "no"
        id = f"{turn.round}/{turn.agent}"
        return Message(
            *(id, turn.agent, turn.round, "because", answer, 0.5, status),
            seed=turn.seed,
            prompt_tokens=prompt,
            completion_tokens=reply,
        )

    return ask


async def unchanged(question: Question) -> Question:
    return question


def budget(samples: float = 9.4) -> dict[str, int]:
    """Tokens of a method that takes about so many samples' worth, each question another number."""
    drawn = random.Random(1)
    return {question.id: round(samples * 600 * drawn.uniform(0.5, 1.5)) for question in QUESTIONS}


def answers(tokens: Mapping[str, int], ask: Ask, known: Sequence[Trace] = ()) -> list[Trace]:
    """All questions at once, without those that are known."""

    async def hold() -> list[Trace]:
        left = {trace.question: left_over(tokens[trace.question], trace.turns) for trace in known}
        twin = Twin("full-twin", tokens, left, unchanged)
        return await asyncio.gather(*(twin.answer(each, ask, 7) for each in QUESTIONS if each.id not in left))

    return asyncio.run(hold())


@pytest.mark.parametrize("samples", [1.5, 9.4, 27.0])
def test_its_tokens_are_the_method_s(samples: float) -> None:
    tokens = budget(samples)
    traces = answers(tokens, asking())
    # Within half a sample, and what the last replies of each question differ from the mean.
    assert sum(left_over(tokens[trace.question], trace.turns) for trace in traces) == pytest.approx(0, abs=500)
    assert sum(tokens_of(trace.turns) for trace in traces) == pytest.approx(sum(tokens.values()), rel=0.02)


def test_the_order_of_replies_changes_nothing() -> None:
    tokens = budget()
    assert answers(tokens, asking(delays=1)) == answers(tokens, asking(delays=2)) == answers(tokens, asking())


def test_a_resumed_twin_answers_the_rest_as_before() -> None:
    tokens = budget()
    whole = answers(tokens, asking())
    assert answers(tokens, asking(), known=whole[:31]) == whole[31:]
    # Of one question that failed and is asked again, those after it are known.
    assert answers(tokens, asking(), known=[*whole[:9], *whole[10:]]) == whole[9:10]


def test_a_failed_question_is_in_no_balance() -> None:
    tokens = budget()
    traces = answers(tokens | {"q5": 0}, asking(failing="q20"))
    assert len(traces[5].turns) == 1
    sound = [trace for trace in traces if trace.question not in ("q5", "q20")]
    assert sum(tokens_of(t.turns) for t in sound) == pytest.approx(sum(tokens[t.question] for t in sound), rel=0.02)


def test_agents_that_report_no_tokens_end() -> None:
    async def free(turn: Turn) -> Message:
        return Message(f"{turn.round}/{turn.agent}", turn.agent, turn.round, answer="yes")

    assert all(len(trace.turns) == 1 for trace in answers(budget(), free))


def test_a_question_that_its_method_has_not_answered_is_refused() -> None:
    async def hold() -> Trace:
        return await Twin("full-twin", {}, {}, unchanged).answer(QUESTIONS[59], asking(), 7)

    with pytest.raises(UserError, match="q59"):
        asyncio.run(hold())


def test_its_first_sample_is_the_turn_of_single_and_the_most_frequent_answer_wins() -> None:
    turns: list[Turn] = []

    async def ask(turn: Turn) -> Message:
        turns.append(replace(turn, discussion=""))
        return await asking()(turn)

    shown = (Source("a", "a", Kind.TEXT, "A", "text"),)

    async def read(question: Question) -> Question:
        return replace(question, evidence=shown)

    async def hold() -> tuple[Trace, Trace]:
        twin = Twin("full-twin", {"q0": 20_000}, {}, read)
        return await twin.answer(QUESTIONS[0], ask, 7), await Single("single").answer(await read(QUESTIONS[0]), ask, 7)

    trace, single = asyncio.run(hold())
    assert turns[0] == turns[-1]
    assert trace.turns[0] == single.turns[0]
    assert len({turn.seed for turn in trace.turns}) == len(trace.turns) > 5
    answered = [turn.answer for turn in trace.turns]
    assert trace.answer == max(("yes", "no"), key=answered.count)
    assert trace.evidence == ("a",)
