"""Replies as real models write them: what is stated is read, and nothing else is."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from actors.messages import Field, FieldKind, Message, Value
from actors.prompting.form import ANSWER_FIELDS, Form, in_lines
from actors.prompting.reply import parse_reply, read
from actors.prompting.safe_text import one_line
from tests.actors.prompting.forms import FORMS

THREE_LINES = "Reasoning: [t1] says so.\nAnswer: Tarn Hollow\nConfidence: 0.75"
FORM = in_lines(Form(ANSWER_FIELDS))


def stating(content: str, answer: str | None, confidence: float | None) -> Message:
    return Message("1/", "", 1, content, answer, confidence)


def fill_in(reply: Message) -> str:
    """The form filled in, as an agent that keeps to it writes it."""
    lines = [f"Reasoning: {reply.content}", f"Answer: {'unknown' if reply.answer is None else one_line(reply.answer)}"]
    return "\n".join(lines if reply.confidence is None else [*lines, f"Confidence: {reply.confidence!r}"])


READ = stating("[t1] says so.", "Tarn Hollow", 0.75)
CHOICES = ("red ball", "blue ball", "Green")


@pytest.mark.parametrize(
    "text",
    [
        THREE_LINES,
        f"\n\n  {THREE_LINES}\n",
        THREE_LINES.replace("\n", "\r\n"),
        "**Reasoning:** [t1] says so.\n**Answer:** Tarn Hollow\n**Confidence:** 0.75",
        "**Reasoning**: [t1] says so.\n**Answer**: **Tarn Hollow**\n**Confidence**: *0.75*",
        "**Reasoning: [t1] says so.**\n**Answer: Tarn Hollow**\n**Confidence: 0.75**",
        "__Reasoning__: [t1] says so.\n__Answer__: `Tarn Hollow`\n__Confidence__: 75%",
        "- Reasoning: [t1] says so.\n- Answer: Tarn Hollow\n- Confidence: 0.75",
        "1. Reasoning: [t1] says so.\n2. Answer: Tarn Hollow\n3. Confidence: 0.75",
        "> Reasoning: [t1] says so.\n> Answer: Tarn Hollow\n> Confidence: 0.75",
        "### Reasoning\n[t1] says so.\n\n### Answer\nTarn Hollow\n\n### Confidence\n0.75",
        "## Reasoning:\n\n[t1] says so.\n\n## Final Answer:\n\n**Tarn Hollow**\n\n## Confidence level:\n\n3/4",
        "Reasoning:\n[t1]\nsays so.\nAnswer:\nTarn Hollow\nConfidence:\n0.75",
        "REASONING: [t1] says so.\nFINAL ANSWER: Tarn Hollow\nCONFIDENCE SCORE: 0.75",
        "Reasoning：[t1] says so.\nAnswer：Tarn Hollow\nConfidence：0.75",
        f"```\n{THREE_LINES}\n```",
        f"Here you are:\n\n```text\n{THREE_LINES}\n```\n\nI hope this helps!",
        f"{THREE_LINES}\n\nLet me know if you need anything else.",
        'Reasoning: [t1] says so.\nAnswer: "Tarn Hollow"\nConfidence: 0.75',
        "Reasoning: [t1] says so.\nAnswer: “Tarn Hollow”.\nConfidence: 0.75",
        "Reasoning: [t1] says so.\nAnswer: $\\boxed{\\text{Tarn Hollow}}$\nConfidence: 0.75",
        "Reasoning: [t1] says so.\nAnswer:\n\\[\n\\boxed{Tarn Hollow}\n\\]\nConfidence: 0.75",
        "Reasoning: [t1] says so.\nAnswer: The answer is: Tarn Hollow\nConfidence: 0.75",
        "Reasoning: [t1] says so. Answer: Tarn Hollow. Confidence: 0.75",
        "Reasoning: [t1] says so.\nAnswer: Tarn Hollow (confidence 0.75)",
        f"<think>Perhaps Salt Quay.\nAnswer: Salt Quay\nConfidence: 1</think>\n{THREE_LINES}",
        f"Perhaps Salt Quay.\nAnswer: Salt Quay\n</think>\n\n{THREE_LINES}",
        f"{THREE_LINES}\n<think>Or Salt Quay?\nAnswer: Salt Quay",
        f"<think>a<think>Answer: b</think>Answer: c</think>{THREE_LINES}",
        "<reasoning>[t1] says so.</reasoning>\n<answer>Tarn Hollow</answer>\n<confidence>0.75</confidence>",
        '{"reasoning": "[t1] says so.", "answer": "Tarn Hollow", "confidence": 0.75}',
        'Sure!\n{"answer": "Tarn Hollow", "confidence": 0.75, "reasoning": "[t1] says so."} Anything else?',
        '{"reasoning": "[t1] says so.", "answer": ["Tarn Hollow"], "confidence": 0.75',
        f"<|im_start|>assistant\n{THREE_LINES}<|im_end|>\n<|im_start|>user\nAnswer: Salt Quay",
        f"{THREE_LINES}\n\n## Question\nWho?\nReasoning: None.\nAnswer: Ana Brix\nConfidence: 0.1",
        f"{FORM}\n\n{THREE_LINES}",
        f"{THREE_LINES}\nAnswer:",
        f"\u200f{THREE_LINES.replace('Tarn', chr(0x202B) + 'Ta' + chr(0) + 'rn')}\u200e",
    ],
)
def test_three_lines_are_read_whatever_a_model_makes_of_them(text: str) -> None:
    assert parse_reply(text) == READ


def test_choices_that_differ_in_capitals_or_line_breaks_alone_are_told_apart_by_how_they_are_spelt() -> None:
    choices = ("See you soon,\nJanet", "See You Soon,\nJanet")
    for choice in choices:
        reply = parse_reply(f"Reasoning: x\nAnswer: {' '.join(choice.split())}\nConfidence: 0.5", choices)
        assert reply is not None
        assert reply.answer == choice
    assert parse_reply("Reasoning: x\nAnswer: SEE YOU SOON, JANET\nConfidence: 0.5", choices) is None


def test_of_several_answers_the_last_counts_with_its_own_confidence() -> None:
    assert parse_reply("Answer: a\nConfidence: 0.9\nSo rather:\nFinal answer: b") is None
    assert parse_reply("Answer: a\nConfidence: 0.9\nSo rather:\nAnswer: b") is None
    assert parse_reply("Answer: a\nConfidence: 0.9\nFinal answer: a") == stating("", "a", 0.9)
    assert parse_reply("Confidence: 0.9\nAnswer: a") == stating("", "a", 0.9)
    assert parse_reply("Answer: (A)\nFinal answer: both", CHOICES) is None


def test_the_last_line_of_a_reply_that_was_cut_off_states_nothing() -> None:
    assert parse_reply("Reasoning: r\nAnswer: Tarn Hol", cut_off=True) is None
    assert parse_reply("Reasoning: r\nAnswer: Tarn Hollow\nConfidence: 0", cut_off=True) == stating(
        "r", "Tarn Hollow", None
    )
    assert parse_reply('{"answer": "Tarn', cut_off=True) is None


@pytest.mark.parametrize(
    ("said", "whole"),
    [
        ("The sign of A shows a house. The sign of B shows a yel", "The sign of A shows a house."),
        (
            "It is of 1918. [2] adds (it is the older one). Then St. Ann",
            "It is of 1918. [2] adds (it is the older one).",
        ),
        ("The sign of A shows a house, Dr. Brix says, and", None),
        ("It weighs 3.5 kg, i.e. Much less than what", None),
    ],
)
@pytest.mark.parametrize("style", ["Reasoning: {}", '{{"reasoning":"{}', "**Reasoning:** {}", "<reasoning>{}"])
def test_of_reasoning_that_was_cut_off_the_whole_sentences_are_kept(style: str, said: str, whole: str | None) -> None:
    reading = read(Form(ANSWER_FIELDS), style.format(said), cut_off=True)
    assert reading.value(FieldKind.REASONING) == whole
    assert [fault.field.name for fault in reading.faults] == (
        ["Answer"] if whole else ["Reasoning", "Answer", "Confidence"]
    )


@pytest.mark.parametrize("said", ['{"enough":"no","triple":[{"head":"a"', "Enough: no\nTriple: a | b"])
def test_what_a_reply_was_cut_off_in_and_what_it_did_not_come_to_is_asked_for_again(said: str) -> None:
    enough = Field(FieldKind.ENOUGH, "", values=("yes", "no"))
    triples = Field(FieldKind.TRIPLE, "", many=True, optional=True, value=Value.TRIPLE)
    query, share = (
        Field(FieldKind.QUERY, "", optional=True),
        Field(FieldKind.CONFIDENCE, "", optional=True, value=Value.SHARE),
    )
    reading = read(Form((enough, triples, query, share)), said, cut_off=True)
    assert reading.values == (("Enough", "no"),)
    asked = [fault.field.name for fault in reading.faults]
    assert asked == ["Triple", "Query", "Confidence"]
    # What stands before what was cut off was left out, as it may be.
    reading = read(Form((query, enough, triples)), said, cut_off=True)
    assert "Query" not in [fault.field.name for fault in reading.faults]


def test_a_text_of_an_object_that_was_cut_off_is_no_answer_and_no_list() -> None:
    assert parse_reply('{"reasoning":"It is on the sea. It says so.","answer":"Tarn. Hol', cut_off=True) is None
    assert parse_reply('{"answer":"Tarn Hollow\\nis a', cut_off=True) is None
    thought = Form((Field(FieldKind.THOUGHT, ""), Field(FieldKind.QUERY, "", many=True)))
    assert read(thought, '{"thought":"Who built it? The pla', cut_off=True).values == ()


@pytest.mark.parametrize("behind", ['","confidence', '","confidence":', '","conf', '",', '"'])
def test_a_text_of_an_object_that_was_cut_off_behind_it_is_whole(behind: str) -> None:
    said = f'{{"reasoning":"[t1] says so.","answer":"Tarn Hollow{behind}'
    assert parse_reply(said, cut_off=True) == stating("[t1] says so.", "Tarn Hollow", None)


@pytest.mark.parametrize(
    "copied",
    [
        "One or two sentences that name what the answer rests on.",
        "<the answer itself in as many words as possible, or something unknown>",
        "The answer is: '<the answer itself in as few words as possible, or unknown>",
        "You could <the answer itself in as few words as possible, or unknown>",
        "<the answer itself in 2 to 5 sentences.",
        "<the answer is none of the above, or it is a lie, or it is one in a certain way>",
    ],
)
def test_words_of_the_form_are_no_answer_and_state_no_lack_of_one(copied: str) -> None:
    assert parse_reply(f"Answer: {copied}\nConfidence: 0.5") is None


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        ("The answer rests on facts, not on opinions or the evidence.", "asked again"),
        ("The tree is tall, but the answer lies in the album Vangel Waltz", "asked again"),
        ("1. The sentence: The answer is: The answer is 1", "asked again"),
        ("The answer is either ", "asked again"),
        ("Tarn Hollow,", "Tarn Hollow"),
        ("The answer is not in the passages.", None),
        ("The answer is unknown. No evidence was provided.", None),
        ("The answer is not defined.", None),
        ("<not stated in the passages>", None),
    ],
)
def test_a_sentence_about_the_answer_is_neither_one_nor_a_lack_unless_it_says_so(said: str, answer: str | None) -> None:
    message = parse_reply(f'{{"answer":"{said}"}}')
    assert ("asked again" if message is None else message.answer) == answer


def test_no_letter_counts_in_a_reply_that_lists_the_choices_under_other_letters() -> None:
    listed = "(A) red ball\n(B) {}\n(C) {}\n\n## Answer\nThe answer is: (C)"
    as_asked = parse_reply(listed.format("blue ball", "Green"), CHOICES)
    assert as_asked is not None
    assert as_asked.answer == "Green"
    assert parse_reply(listed.format("Green", "blue ball"), CHOICES) is None


def test_a_form_s_own_description_is_no_value() -> None:
    draft = Field(FieldKind.ANSWER, "the draft, in as few words as possible", value=Value.ANSWER)
    assert read(Form((draft,)), "Answer: The draft, in as few words as possible, or unknown").values == ()


@pytest.mark.parametrize("answer", ["[1]", "[1].", "[1], [3]", "[2] and [14]", "source [2]", "Picture [3]", "see [1]"])
def test_numbers_of_sources_alone_are_no_answer(answer: str) -> None:
    assert parse_reply(f"Reasoning: It is named there.\nAnswer: {answer}\nConfidence: 1") is None


@pytest.mark.parametrize("answer", ["Table 3", "[1] Paris", "Paris [1]", "1", "(1)", "[Paris]", "arr[1]"])
def test_an_answer_may_have_a_number_of_a_source_or_be_one_without_brackets(answer: str) -> None:
    assert parse_reply(f"Reasoning: It is named there.\nAnswer: {answer}\nConfidence: 1") is not None


def test_a_reply_that_begins_as_the_prompt_does_states_nothing() -> None:
    reply = "## Question\nWho founded it?\n## Answer\nAna Brix"
    assert parse_reply(reply) is None
    assert parse_reply(f"Answer: Ida Holm\n{reply}") == stating("", "Ida Holm", None)


def test_lone_surrogates_can_be_stored() -> None:
    reply = parse_reply("Reasoning: \ud800\nAnswer: x\udfff\nConfidence: 1")
    assert reply == stating("\ufffd", "x\ufffd", 1.0)
    assert parse_reply('{"answer": "\\ud800"}') == stating("", "\ufffd", None)


FRAGMENTS = r"""Answer answer: Reasoning: Confidence: : ： ** _ ` ``` { } "answer": ' " [ ] , \boxed{ \ $ <think>
</think> <answer> </answer> (B) B. 0.8 80% 8/10 nan -1 unknown # > </s> <|im_end|> é Paris""".split()
SPACED = [
    "Final answer",
    "(confidence 0.5)",
    "I can't",
    "- ",
    "1. ",
    "## Question",
    "red ball",
    "\n",
    "\n\n",
    " ",
    "\r",
]
PIECES = st.sampled_from([*FRAGMENTS, *SPACED, "\0", "\ud800", "\u200f", "\u2028", "\x1f"])


@pytest.mark.parametrize(
    ("stated", "number"),
    [
        ("2", "2"),
        ("two.", None),
        ("2, because it names two", "2"),
        ("2 - one about cats, one about dogs", None),
        ("2/3", None),
        ("two or three", None),
        ("2 and a half", None),
        ("1.7", None),
    ],
)
def test_one_of_several_numbers_is_read_where_no_other_is_meant(stated: str, number: str | None) -> None:
    field = Field(FieldKind.INTENTS, "", values=("1", "2", "3"))
    assert read(Form((field,)), f"Intents: {stated}").value(FieldKind.INTENTS) == number


UGLY = st.one_of(st.text(max_size=200), st.lists(PIECES, max_size=30).map("".join))
OFFERED = st.sampled_from([(), CHOICES, ("yes", "no"), ("5", "-5", "5.5"), ("", "a", "A"), ("(B)", "B.", "unknown")])


@settings(max_examples=300)
@given(UGLY, OFFERED, st.booleans())
@example("Answer: (B)", ("(B)", "B.", "unknown"), False)
@example("{{}}", (), False)
def test_no_text_is_too_ugly(text: str, choices: tuple[str, ...], cut_off: bool) -> None:
    reply = parse_reply(text, choices, cut_off)
    if reply is None:
        return
    assert reply.answer is None or reply.answer in choices or not choices
    assert reply.confidence is None or 0 <= reply.confidence <= 1
    assert reply.content == one_line(reply.content)
    for said in (reply.content, reply.answer or ""):
        said.encode()
        assert "\0" not in said


MARKS = set("<>{}[]()`*_$\\|\"':：#")


@settings(max_examples=300)
@given(UGLY, st.sampled_from([(), CHOICES, ("yes", "no"), ("5", "-5", "5.5")]))
@example("'(CONFIDENCE 0)", ())
def test_what_was_read_is_read_again_as_it_was(text: str, choices: tuple[str, ...]) -> None:
    reply = parse_reply(text, choices)
    # Marks that are left in an answer may wrap something else once it stands on a line of its own.
    if reply is not None and not set(reply.answer or "") & MARKS:
        assert parse_reply(fill_in(reply), choices) == reply


REPEATED = r"""a * " '" { '" answer: \boxed{ \text{ ( $ ` _ \ confidence (confidence <think> </think> <answer>
"answer":" 'answer':" {"answer":""".split()
LEADS = ("", "Answer: ", "Reasoning: r\nAnswer: ", 'Answer: "', '{"answer": "', "Confidence: ")


LISTED = """| a | b | -> → ([ {"head": "head": { [1, "x", texts( - [x] <triple> Triple: Triple:|a Relevant: Enough:
&amp; Query:Thought: no,""".split()
LINES = [
    "Triple: a | b | c\n",
    "a | b | c\n",
    "- a -> b -> c\n",
    "| a | b | c |\n",
    "Selected: 1\n",
    "Enough: no\nwait\n",
    "Thought: a\nTriple: a | b | c\n",
    "<triple>a | b | c</triple>\n",
    '{"triple": "a | b | c"}\n',
    "Step: texts | a\n",
    "2\n",
    "[2]\n",
]


BESIDE = [
    " (B)",
    " — C",
    "the answer is B. ",
    "Tarn. It is so. ",
    "Tarn! ",
    "\\frac",
    '"answer": 1,',
    "Oh no, wait. ",
    "<B>",
]


@pytest.mark.slow
@pytest.mark.parametrize(
    "piece", [*REPEATED, *SPACED, *BESIDE, "Answer: x\n", "0.8 ", "( ", '"answer": ', "\ud800", "\u200f"]
)
def test_a_reply_of_100_kb_is_read_at_once(piece: str) -> None:
    """In more than linear time this would take minutes; the pieces are those that patterns could trip over."""
    for number, lead in enumerate(LEADS):
        parse_reply(lead + piece * (100_000 // len(piece)), CHOICES if number % 2 else ())


# Forms whose fields are of all kinds, and lists that begin with the label of one.
TASKS = [("revise", "Answer: a\nTriple: "), ("inspect", "Answer: a\nTriple: ")]
TASKS += [("pick", "Selected:\n"), ("parts", "Sub-questions:\n"), ("intents", "Intents:\n")]


@pytest.mark.slow
@pytest.mark.parametrize("piece", [*LISTED, *LINES, "2, ", "1. Who?\nAnswer: a\n"])
def test_a_tasks_reply_of_100_kb_is_read_at_once(piece: str) -> None:
    for name, lead in TASKS:
        read(Form(FORMS[name]), lead + piece * (100_000 // len(piece)))
