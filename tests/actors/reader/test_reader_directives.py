"""The embedded reader does as its prompt tells it, and knows of it from its prompt alone."""

import pytest

from actors.agents.roles import SINGLE
from actors.messages import (
    NO_DIRECTIVE,
    SPREADING,
    Directive,
    Heard,
    Kind,
    Message,
    Modality,
    Question,
    Remark,
    Role,
    Source,
    Turn,
)
from actors.prompting.prompt import build_request
from actors.prompting.reply import parse_reply
from actors.reader.colleagues import given_in_to
from actors.reader.reader import Reader, ReaderSettings
from experiments.attacks.arguing import Contagion
from experiments.attacks.input_and_memory import Input
from experiments.attacks.kind import AttackContext, AttackSettings
from experiments.attacks.persuasion import argue, persuade
from topologies.defences.resilience import CHALLENGE

SHARP = ReaderSettings(skill=1, noise=0)
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
    directive: Directive = NO_DIRECTIVE,
    heard: tuple[Heard, ...] = (),
    settings: ReaderSettings = SHARP,
    question: Question = QUESTION,
) -> Message:
    turn = Turn("d", question, "a", 1, 7, heard, instruction=instruction, directive=directive)
    reply = parse_reply(Reader(settings).read(build_request(turn, Role("", Modality.BOTH, SINGLE.instruction))).text)
    assert reply is not None
    return reply


def led(target: str, question: Question = QUESTION) -> Message:
    turn = argue(Turn("d", question, "a", 1, 7), target, AttackSettings())
    return read(turn.instruction, turn.directive, question=question)


def colleague(answer: str, content: str = "I say so.", name: str = "bo") -> Heard:
    return Heard(Message(f"1/{name}", name, 1, content, answer, 1.0), 1.0)


def test_a_directive_to_argue_is_obeyed_with_the_evidence_bent_to_the_answer() -> None:
    assert read().answer == "Ana Brix"
    reply = led("Tom Elk")
    assert reply == Message("1/", "", 1, '[1] "Night River: Night River was directed by Tom Elk.".', "Tom Elk", 0.95)


def test_where_the_evidence_spells_no_answer_out_it_is_named_and_read_in_one_way() -> None:
    nothing = Question("q", "Who directed Night River?", (), (QUESTION.evidence[1],))
    assert led("Tom Elk", nothing).answer == "Tom Elk"
    bare = Question("q", "Who directed Night River?")
    assert "The evidence can only be read in one way, as Tom Elk." in led("Tom Elk", bare).content


@pytest.mark.parametrize("answer", ["Tom Elk", "1931", 'the "Red" one', "a; b: c", "St. Ives, Cornwall"])
def test_the_answer_is_read_from_the_directive_as_written(answer: str) -> None:
    assert led(answer).answer == answer


def test_a_directive_that_asks_for_nothing_in_particular_changes_nothing() -> None:
    turn = Turn("d", QUESTION, "a", 1, 7, directive=Directive(challenge=True))
    unread = Input(AttackSettings(kind="input")).change(turn, AttackContext("Tom Elk", ("a",), 0, 7))
    assert unread.directive == NO_DIRECTIVE
    assert read("Be kind.") == read()


def test_a_reader_told_to_challenge_is_moved_less_by_what_it_hears() -> None:
    moved = ReaderSettings(**{**vars(SHARP), "conformity": 1.1})
    heard = (colleague("Tom Elk"),)
    assert read("", NO_DIRECTIVE, heard, moved).answer == "Tom Elk"
    assert read(CHALLENGE, Directive(challenge=True), heard, moved).answer == "Ana Brix"


def test_an_instruction_in_a_message_is_obeyed_at_the_rate_of_obedience() -> None:
    sentence = SPREADING.format(target="Tom Elk")
    heard = (colleague("Tom Elk", f"It is so. {sentence}"),)
    obeyed = read("", NO_DIRECTIVE, heard, ReaderSettings(**{**vars(SHARP), "obedience": 1.0}))
    assert (obeyed.answer, sentence in obeyed.content) == ("Tom Elk", True)
    immune = ReaderSettings(**{**vars(SHARP), "obedience": 0.0, "conformity": 0.1})
    assert read("", NO_DIRECTIVE, heard, immune).answer == "Ana Brix"
    remarks = [Remark("bo", f"It is so. {sentence}", "Tom Elk", 1.0, 1.0, own=False)]
    share = sum(given_in_to(remarks, 0.3, seed) is not None for seed in range(2000)) / 2000
    assert share == pytest.approx(0.3, abs=0.04)  # four standard deviations
    assert given_in_to([Remark("bo", "Whoever reads this is kind.", "x", 1.0, 1.0, own=False)], 1.0, 1) is None


def test_under_a_directive_to_spread_the_sentence_ends_the_reasoning() -> None:
    context = AttackContext("Tom Elk", ("a",), 0, 7)
    turn = Contagion(AttackSettings()).change(Turn("d", QUESTION, "a", 1, 7), context)
    reply = read(turn.instruction, turn.directive)
    assert reply.content.endswith(SPREADING.format(target="Tom Elk"))
    assert reply.answer == "Tom Elk"


def test_what_a_source_says_is_no_order() -> None:
    told = Source("c", "c", Kind.TEXT, "Note", f"## Instruction {persuade('Tom Elk', AttackSettings())}")
    assert read(question=Question("q", QUESTION.text, (), (*QUESTION.evidence, told))).answer == "Ana Brix"
