"""A repair shows the reply as it was, says what could not be read and why, and asks for that alone."""

from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from actors.agents.role_agent import RoleAgent
from actors.messages import (
    Abilities,
    Completion,
    Field,
    FieldKind,
    Heard,
    Kind,
    Message,
    Modality,
    Question,
    Request,
    Role,
    Source,
    Status,
    Task,
    Turn,
    Value,
    derive_seed,
)
from actors.prompting.form import Form, as_json, form_of, in_lines, schema
from actors.prompting.prompt import REPAIRED_CHARACTERS, build_request, repair_request
from actors.prompting.reply import read
from actors.settings import AgentSettings

ENOUGH = Field(FieldKind.ENOUGH, "whether that suffices", ("yes", "no"))
SUB = Field(FieldKind.SUB_QUESTION, "a smaller question", many=True)
TRIPLES = Field(FieldKind.TRIPLE, "a relation", many=True, optional=True, value=Value.TRIPLE)
TURN = Turn("m/q/0", Question("q", "Who built it?"), "single", 1, 7, task=Task("Say what is missing.", (ENOUGH, SUB)))
DRAW = replace(TURN, task=Task("Draw it.", (ENOUGH, TRIPLES)))
ALONE = Role("single", Modality.BOTH, "You work alone.")
PERHAPS = "Enough: perhaps so,\nand who knows\n\nSub-question: Who?"


class Scripted:
    """A model that gives its replies in turn and keeps what it was asked."""

    def __init__(self, *replies: str | Completion, schema: bool = False) -> None:
        self.replies, self.asked, self.schema = list(replies), list[Request](), schema

    async def abilities(self) -> Abilities:
        return Abilities(schema=self.schema)

    async def complete(self, request: Request) -> Completion:
        self.asked.append(request)
        reply = self.replies.pop(0)
        return Completion(request.id, reply, 10, 5) if isinstance(reply, str) else reply


async def taken(turn: Turn, *replies: str | Completion, schema: bool = False) -> tuple[Message, list[Request]]:
    """The message of an agent whose model replies so, and what the model was asked."""
    model = Scripted(*replies, schema=schema)
    message = (await RoleAgent(ALONE, model).take(turn)).message
    assert model.replies == []
    return message, model.asked


def repaired(turn: Turn, reply: str, enforced: bool = False) -> tuple[Request, Request]:
    abilities = Abilities(schema=enforced)
    request = build_request(turn, Role("", Modality.BOTH, "You work alone."), abilities=abilities)
    form = form_of(turn)
    return request, repair_request(request, reply, form, read(form, reply).faults)


def test_a_repair_is_the_same_request_with_the_reply_as_it_was_and_a_correction() -> None:
    request, repair = repaired(TURN, f"\n{PERHAPS}\n")
    assert repair.rejected == PERHAPS
    assert repair.id == f"{request.id}/repair"
    assert repair.seed == derive_seed(7, "repair")
    assert replace(repair, id=request.id, seed=request.seed, rejected="", correction="") == request


def test_a_correction_names_what_could_not_be_read_with_the_reason_and_asks_for_that_alone() -> None:
    _, repair = repaired(TURN, PERHAPS)
    wrong, form = repair.correction.split("\n", 1)
    assert wrong.endswith("the Enough (`perhaps so,` is none of yes, no).")
    assert form == in_lines(Form((ENOUGH,)))


def test_of_several_faults_each_is_named_and_has_its_field() -> None:
    _, repair = repaired(TURN, "Hm.")
    said, asked = repair.correction.split("\n", 1)
    reasons = "the Enough (`Hm.` is none of yes, no); the Sub-question (it is missing)."
    assert said == f"Part of your reply could not be read: {reasons}"
    assert asked == in_lines(form_of(TURN))


@pytest.mark.parametrize("value", [" ", ":", "..."])
async def test_a_triple_without_words_in_one_part_and_one_that_repeats_what_was_wrong_are_not_read(value: str) -> None:
    broken = f'{{"enough": "no", "triple": [{{"head": "{value}", "relation": "has", "tail": "a mill"}}]}}'
    for said, status in (
        ('{"head": "the Triple", "relation": "has", "tail": "another form"}', Status.UNPARSED),
        ('{"head": ":the Triple", "relation": ":has", "tail": "another form"}', Status.UNPARSED),
        ('{"head": "the town", "relation": "has", "tail": "a mill"}', Status.OK),
    ):
        message, _ = await taken(DRAW, broken, f'{{"triple": [{said}]}}', schema=True)
        assert message.status is status
        expected = () if status is Status.UNPARSED else ("the town | has | a mill",)
        assert message.values(FieldKind.TRIPLE) == expected


async def test_a_text_in_which_a_long_reason_is_repeated_is_not_read() -> None:
    turn = replace(TURN, task=Task("Go on.", (Field(FieldKind.THOUGHT, "what is missing"), ENOUGH)))
    cut_off = Completion("", "Thought: We know that we know that we", 10, 5, stop="length")
    told = "Thought: The reply was too long and was cut off there. The Enough (the reply was too long).\nEnough: yes"
    message, _ = await taken(turn, cut_off, told)
    assert (message.status, message.error) == (Status.UNPARSED, "Thought: the reply was too long and was cut off there")
    message, _ = await taken(turn, cut_off, "Thought: The reply was too short.\nEnough: yes")
    assert message.values(FieldKind.THOUGHT) == ("The reply was too short.",)


def test_a_relation_may_be_a_sign_and_a_text_of_marks_alone_says_nothing() -> None:
    signs = read(Form((TRIPLES,)), '{"triple": [{"head": "7", "relation": "<", "tail": "9"}]}')
    assert signs.values == (("Triple", "7 | < | 9"),)
    charged = read(Form((TRIPLES,)), '{"triple": [{"head": "+", "relation": "is", "tail": "a positive charge"}]}')
    assert charged.values == (("Triple", "+ | is | a positive charge"),)
    [said] = read(Form((TRIPLES,)), '{"triple": [{"head": "P", "relation": ">", "tail": ">"}]}').faults
    assert "has another form" in said.reason
    keywords = Field(FieldKind.KEYWORD, "one name or thing", many=True)
    assert read(Form((keywords,)), '{"keyword": ["nature", ":"]}').values == (("Keyword", "nature"),)
    faults = Field(FieldKind.THOUGHT, "the faults", optional=True)
    assert read(Form((ENOUGH, faults)), '{"enough": "no", "thought": ","}').values == (("Enough", "no"),)


def test_of_a_long_reply_a_repair_shows_the_end() -> None:
    _, repair = repaired(TURN, "so " * 10_000 + "the end")
    assert repair.rejected.startswith("... ")
    assert repair.rejected.endswith("so the end")
    assert len(repair.rejected) == REPAIRED_CHARACTERS + len("... ")


def test_a_repair_of_an_enforced_reply_is_kept_to_the_schema_of_what_is_missing() -> None:
    request, repair = repaired(TURN, '{"enough": "yes", "sub_question": [" "]}', enforced=True)
    assert request.schema == schema(Form((ENOUGH, SUB)), request.max_tokens)
    assert repair.schema == schema(Form((SUB,)), request.max_tokens)
    assert repair.correction.endswith(as_json(Form((SUB,))))


def test_with_choices_a_repair_asks_for_a_letter() -> None:
    answer = replace(TURN, task=None, question=Question("q", "Which?", ("rain", "snow")))
    _, repair = repaired(answer, "Reasoning: It is cold.\nAnswer: fog\nConfidence: 0.4")
    assert "the Answer (`fog` is not one of the choices A, B).\n" in repair.correction
    assert repair.correction.endswith("Answer: <the letter of one choice: A or B>")


@pytest.mark.parametrize("repair", ["Enough: no", "no", "Enough: no\nSub-question: Something else?"])
async def test_what_was_read_at_first_is_kept_and_only_what_was_asked_for_counts(repair: str) -> None:
    message, asked = await taken(TURN, PERHAPS, repair)
    assert message.status is Status.OK
    assert sorted(message.fields) == [("Enough", "no"), ("Sub-question", "Who?")]
    assert (asked[1].rejected, message.calls) == (PERHAPS, 2)


async def test_an_answer_keeps_its_reasoning_when_it_is_repaired() -> None:
    turn = replace(TURN, task=None)
    message, asked = await taken(turn, "Reasoning: The plaque says so.\nConfidence: 0.7", "Answer: Ana Brix")
    assert (message.content, message.answer, message.confidence) == ("The plaque says so.", "Ana Brix", 0.7)
    assert "the Answer (it is missing)" in asked[1].correction


async def test_an_enforced_reply_is_repaired_in_json() -> None:
    message, asked = await taken(TURN, '{"enough": "yes", "sub_question": ', '{"sub_question": ["Who?"]}', schema=True)
    assert sorted(message.fields) == [("Enough", "yes"), ("Sub-question", "Who?")]
    assert asked[1].schema == schema(Form((SUB,)), asked[1].max_tokens)


async def test_a_model_that_is_to_reply_in_text_is_kept_to_no_schema() -> None:
    model = Scripted(PERHAPS, "Enough: no", schema=True)
    await RoleAgent(ALONE, model, AgentSettings(replies="text")).take(TURN)
    assert [request.schema for request in model.asked] == ["", ""]


@pytest.mark.parametrize("said", ["Triple: none", "Triples: none", "Triple:\n(none)", "Triple: []", ""])
async def test_an_optional_list_that_is_said_to_be_empty_or_left_out_needs_no_repair(said: str) -> None:
    message, asked = await taken(DRAW, f"Enough: yes\n{said}")
    assert message.fields == (("Enough", "yes"),)
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("said", "read_as"),
    [
        ("EBIT | 2019 | (2,252)", "EBIT | 2019 | (2,252)"),
        ("EBIT | change | (174%).", "EBIT | change | (174%)"),
        ("bridge | over | water (2)", "bridge | over | water"),
        ("bridge | over | water [3]", "bridge | over | water"),
    ],
)
async def test_a_number_in_brackets_is_a_part_of_a_triple_or_the_source_of_one(said: str, read_as: str) -> None:
    message, asked = await taken(DRAW, f"Enough: yes\nTriple: {said}")
    assert message.values("Triple") == (read_as,)
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("repair", "triples"), [("Triple: bridge | over | water", ("bridge | over | water",)), ("Triple: none", ())]
)
async def test_an_optional_list_that_cannot_be_read_is_asked_for_again(repair: str, triples: tuple[str, ...]) -> None:
    message, asked = await taken(DRAW, "Enough: yes\nTriple: a bridge over water", repair)
    assert (message.values("Enough"), message.values("Triple")) == (("yes",), triples)
    assert asked[1].correction.endswith(in_lines(Form((TRIPLES,))))


async def test_what_cannot_be_read_twice_was_not_said() -> None:
    message, _ = await taken(TURN, "Hm.", "Hm.")
    assert (message.status, message.fields, message.answer) == (Status.UNPARSED, (), None)
    assert message.values("Enough") == ()


async def test_what_a_repair_took_is_told_apart() -> None:
    message, _ = await taken(TURN, PERHAPS, Completion("", "Enough: no", 30, 2))
    assert (message.calls, message.prompt_tokens, message.completion_tokens) == (2, 40, 7)
    assert message.repair_tokens == 32
    message, _ = await taken(TURN, "Enough: no\nSub-question: Who?")
    assert message.repair_tokens == 0


ASKED = Question(
    "q", "Which sign hangs at the gate?", evidence=(Source("1", "1", Kind.TEXT, "Gate", "It bans parking."),)
)


@pytest.mark.parametrize(
    ("answer", "is_asked_again"),
    [
        ("no comment", True),
        ("not a human", True),
        ("a lie", True),
        ("I must decline", True),
        ("not for one who works alone", True),
        ("requires further study", True),
        ("Which town do you mean?", True),
        ("no parking", False),
        ("No Trespassing", False),
        ("Who's There?", True),
        ("none", False),
        ("trespassing", False),
    ],
)
async def test_an_answer_that_denies_or_requests_and_has_no_word_of_the_prompt_is_asked_again(
    answer: str, is_asked_again: bool
) -> None:
    turn = replace(TURN, question=ASKED, task=None)
    replies = [f"Answer: {answer}", "Answer: No Parking"][: 1 + is_asked_again]
    message, _ = await taken(turn, *replies)
    assert message.answer == replies[-1].removeprefix("Answer: ")


HEARD = Heard(Message("1/critic", "critic", 1, "It reads: a long row of words.", "words"), 0.333)


@pytest.mark.parametrize(
    ("answer", "is_asked_again"),
    [
        ("The weight of each message above, in order: 0.333", True),
        ("what the others said on its merits", False),
        ("a long row of words", False),
    ],
)
async def test_an_answer_in_the_words_about_the_turn_is_asked_again(answer: str, is_asked_again: bool) -> None:
    turn = replace(TURN, question=ASKED, task=None, heard=(HEARD,))
    replies = [f"Answer: {answer}", "Answer: No Parking"][: 1 + is_asked_again]
    message, asked = await taken(turn, *replies)
    assert message.answer == replies[-1].removeprefix("Answer: ")
    assert ["repeats words about the turn" in repair.correction for repair in asked[1:]] == [True] * is_asked_again


async def test_an_answer_that_denies_may_name_what_a_picture_shows(tmp_path: Path) -> None:
    Image.new("RGB", (8, 8)).save(tmp_path / "gate.png")
    picture = Source("2", "2", Kind.IMAGE, "Gate", "", str(tmp_path / "gate.png"))
    turn = replace(TURN, question=replace(ASKED, evidence=(picture,)), task=None)
    message, _ = await taken(turn, "Answer: do not enter")
    assert message.answer == "do not enter"
