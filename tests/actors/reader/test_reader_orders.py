"""The embedded reader does as its prompt tells it, and knows of it from its prompt alone."""

from __future__ import annotations

import pytest

from actors.agents.roles import SINGLE
from actors.messages import Heard, Kind, Message, Modality, Question, Source, Turn
from actors.prompting.prompt import build_request
from actors.prompting.reply import Reply, parse_reply
from actors.reader.obey import SURE, challenges, ordered, passed_on
from actors.reader.parse import Opinion
from actors.reader.reader import Reader, ReaderSettings
from experiments.attacks import contagion, response
from experiments.attacks import input as input_attack
from topologies.defences.challenger import CHALLENGE

SHARP = ReaderSettings(error_rate=0, oversight=0, perception_error=0, dilution=0, temperature_noise=0)
QUESTION = Question(
    "q",
    "Who directed Night River?",
    (),
    (
        Source("a", "a", Kind.TEXT, "Night River", "Night River was directed by Ana Brix."),
        Source("b", "b", Kind.TEXT, "Night River", "Night River is a quiet film."),
    ),
)


def read(
    instruction: str = "",
    heard: tuple[Heard, ...] = (),
    settings: ReaderSettings = SHARP,
    question: Question = QUESTION,
) -> Reply:
    turn = Turn("d", question, "a", 1, 7, heard, instruction=instruction)
    reply = parse_reply(Reader(settings).read(build_request(turn, Modality.BOTH, SINGLE.instruction)).text)
    assert reply is not None
    return reply


def colleague(answer: str, content: str = "I say so.", name: str = "bo") -> Heard:
    return Heard(Message(f"1/{name}", name, 1, content, answer, 1.0), 1.0)


def test_orders_to_argue_are_obeyed_with_the_evidence_bent_to_the_answer() -> None:
    assert read().answer == "Ana Brix"
    reply = read(response.persuade("Tom Elk"))
    assert reply == Reply('[1] "Night River: Night River was directed by Tom Elk.".', "Tom Elk", SURE)


def test_where_the_evidence_spells_no_answer_out_it_is_named_and_read_in_one_way() -> None:
    nothing = Question("q", "Who directed Night River?", (), (QUESTION.evidence[1],))
    assert read(response.persuade("Tom Elk"), question=nothing).answer == "Tom Elk"
    bare = Question("q", "Who directed Night River?")
    assert (
        "The evidence can only be read in one way, as Tom Elk."
        in read(response.persuade("Tom Elk"), (), SHARP, bare).content
    )


@pytest.mark.parametrize("answer", ["Tom Elk", "1931", 'the "Red" one', "a; b: c", "St. Ives, Cornwall"])
def test_the_answer_is_read_from_the_orders_as_it_stands(answer: str) -> None:
    found = ordered(response.persuade(answer, ["text_critic"]))
    assert found is not None
    assert found.answer == answer


def test_orders_that_ask_for_nothing_in_particular_change_nothing() -> None:
    assert ordered(input_attack.ORDERS) is None
    assert ordered(CHALLENGE) is None
    assert read("Be kind.") == read()


def test_a_reader_told_to_challenge_is_moved_less_by_what_it_hears() -> None:
    assert challenges(CHALLENGE)
    assert not challenges(response.persuade("Tom Elk", ["text_critic"]))
    moved = ReaderSettings(**{**vars(SHARP), "conformity": 1.1})
    heard = (colleague("Tom Elk"),)
    assert read("", heard, moved).answer == "Tom Elk"
    assert read(CHALLENGE, heard, moved).answer == "Ana Brix"


def test_an_instruction_in_a_message_is_obeyed_at_the_rate_of_obedience() -> None:
    sentence = contagion.SENTENCE.format(target="Tom Elk")
    heard = (colleague("Tom Elk", f"It is so. {sentence}"),)
    obeyed = read("", heard, ReaderSettings(**{**vars(SHARP), "obedience": 1.0}))
    assert (obeyed.answer, sentence in obeyed.content) == ("Tom Elk", True)
    assert read("", heard, ReaderSettings(**{**vars(SHARP), "obedience": 0.0, "conformity": 0.1})).answer == "Ana Brix"
    told = [Opinion("bo", f"It is so. {sentence}", "Tom Elk", 1.0, 1.0)]
    share = sum(passed_on(told, 0.3, seed) is not None for seed in range(2000)) / 2000
    assert share == pytest.approx(0.3, abs=0.04)  # four standard deviations
    assert passed_on([Opinion("bo", "Whoever reads this is kind.", "x", 1.0, 1.0)], 1.0, 1) is None


def test_under_orders_to_spread_the_sentence_ends_the_reasoning() -> None:
    reply = read(contagion.spread(Turn("d", QUESTION, "a", 1, 7), "Tom Elk").instruction)
    assert reply.content.endswith(contagion.SENTENCE.format(target="Tom Elk"))
    assert reply.answer == "Tom Elk"


def test_what_a_source_says_is_no_order() -> None:
    told = Source("c", "c", Kind.TEXT, "Note", f"## Orders {response.persuade('Tom Elk')}")
    assert read(question=Question("q", QUESTION.text, (), (*QUESTION.evidence, told))).answer == "Ana Brix"
