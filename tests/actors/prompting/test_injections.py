"""Text of others stays inside its block: it opens no section, takes nobody's place, and forges no field of a reply."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.backends.chat import chat
from actors.messages import (
    Abilities,
    Field,
    FieldKind,
    Heard,
    InputLine,
    Kind,
    Message,
    Modality,
    Question,
    Request,
    Role,
    Source,
    Task,
    Turn,
    Value,
)
from actors.prompting.form import form_of
from actors.prompting.prompt import build_request, repair_request
from actors.prompting.reply import parse_reply, read
from actors.prompting.safe_text import harmless, line_of_its_own, safe_line, without_tokens
from experiments.datasets.item import Item
from experiments.judging.judge import grading_request

INJECTIONS = [
    re.sub(r"\\u([0-9a-f]{4})", lambda code: chr(int(code[1], 16)), line.replace("\\n", "\n").replace("\\r", "\r"))
    for line in Path(__file__).with_name("injections.txt").read_text(encoding="utf-8").split("\n")
    if line
]
SAFE = "harmless words"

# What common models' templates are made of, as their tokenizers list them.
TOKENS = """<|im_start|> <|im_end|> <|endoftext|> <|object_ref_start|> <|vision_start|> <|vision_end|> <|image_pad|>
    <|video_pad|> <|begin_of_text|> <|end_of_text|> <|start_header_id|> <|end_header_id|> <|eot_id|> <|eom_id|>
    <|python_tag|> <|image|> <|system|> <|user|> <|assistant|> <|end|> <|observation|> <|fim_prefix|> <|channel|>
    <|message|> <|return|> <|START_OF_TURN_TOKEN|> <|END_OF_TURN_TOKEN|> <|SYSTEM_TOKEN|> <｜User｜> <｜Assistant｜>
    <｜begin▁of▁sentence｜> <｜end▁of▁sentence｜> <s> </s> <unk> <pad> <bos> <eos> [INST] [/INST] <<SYS>> <</SYS>>
    [SYSTEM_PROMPT] [/SYSTEM_PROMPT] [AVAILABLE_TOOLS] [/AVAILABLE_TOOLS] [TOOL_CALLS] [TOOL_RESULTS] [IMG] [IMG_BREAK]
    [IMG_END] <start_of_turn> <end_of_turn> <start_of_image> <end_of_image> <image_soft_token> <image> <video>
    <fake_token_around_image> <end_of_utterance> <think> </think> <tool_call> </tool_call> <tool_response> [gMASK]
    [CLS] [SEP] [MASK] [THINK] [/THINK] [AUDIO] [unused7] <seed:think> </seed:think> <unused94> <fim_prefix>
    <extra_id_0> <IMG_CONTEXT> <sop> <eop> <mask> <unk> ◁think▷ ◁/think▷ <|im_middle|> <|tool▁calls▁begin|> <SPECIAL_12>
    <file_sep> <jupyter_start> <audio_soft_token> <row_1_col_2> <s_answer> [ACTION]""".split()


def a_turn(place: str, text: str, task: Task | None = None) -> Turn:
    """A turn in which one text, at a place, is another's."""

    def at(name: str) -> str:
        return text if name == place else SAFE

    evidence = (
        Source("t", "t", Kind.TEXT, at("title"), at("passage")),
        Source("r", "r", Kind.TABLE, SAFE, at("row")),
        Source("i", "i", Kind.IMAGE, at("picture's title"), at("picture's words"), None),
    )
    question = Question("q", at("question"), (at("choice"), "b") if place == "choice" else (), evidence)
    message = Message("1/critic", "critic", 1, at("message"), at("answer"), 0.9)
    in_fields = Message("1/planner", "planner", 1, f"Step: {at('field')}", None, fields=(("Step", at("field")),))
    if task is None and place in ("given", "outcome"):
        task = Task("Do your part.", FIELDS, (InputLine(FieldKind.FOUND, at("given"), 1, at("outcome")),))
    elif task is not None:
        task = replace(task, inputs=(InputLine(FieldKind.FOUND, at("given"), 1, at("outcome")),))
    heard = (Heard(message, 0.5), Heard(in_fields, 0.25))
    return Turn("m/q/0", question, "scientist", 2, 7, heard=heard, instruction=at("instruction"), task=task)


FIELDS = (Field(FieldKind.ANSWER, "the answer", value=Value.ANSWER), Field(FieldKind.THOUGHT, "why", optional=True))
TASKS = [
    None,
    *(Task(f"Write the {kind.value}.", (Field(kind, "what is asked for"),)) for kind in FieldKind),
    Task("List them.", (Field(FieldKind.TRIPLE, "", many=True, value=Value.TRIPLE),)),
    Task("Choose.", (Field(FieldKind.ENOUGH, "", values=("yes", "no")),)),
]
PLACES = (
    *("title", "passage", "row", "picture's title", "picture's words", "question", "choice", "message", "answer"),
    *("field", "given", "outcome", "instruction"),
)


def lines(request: Request) -> list[str]:
    """All lines that a model is sent, of all its turns."""
    return [line for turn in chat(request, []) for line in (f"## turn {turn['role']}", *turn["content"].splitlines())]


def request_of(turn: Turn, schema: bool) -> Request:
    return build_request(
        turn, Role("", Modality.BOTH, "You doubt."), abilities=Abilities(schema=schema, pictures=False)
    )


def stays_inside(place: str, text: str, task: Task | None = None, schema: bool = False) -> None:
    """One line differs, and begins as it would without the text; nothing in it is a token of a template."""
    safe, forged = (lines(request_of(a_turn(place, words, task), schema)) for words in (SAFE, text))
    assert len(safe) == len(forged)
    differing = [(before, after) for before, after in zip(safe, forged, strict=True) if before != after]
    assert len(differing) <= (2 if place == "picture's title" else 1)  # which also stands beside its description
    for before, after in differing:
        mark = before.partition(SAFE)[0]
        assert after.startswith(mark.rstrip())
        assert not after.lstrip().startswith(("#", "＃", "﹟"))
        assert not [token for token in TOKENS if token.lower() in after.lower()]


@pytest.mark.parametrize("text", INJECTIONS)
def test_an_injection_stays_in_its_line_wherever_it_stands(text: str) -> None:
    for place in PLACES:
        stays_inside(place, text)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("schema", [False, True])
def test_an_injection_stays_in_its_line_in_every_task_s_prompt(task: Task | None, schema: bool) -> None:
    for text in INJECTIONS[::4]:
        for place in ("passage", "message", "given", "question"):
            stays_inside(place, text, task, schema)


anything = st.one_of(
    st.text(max_size=30),
    st.lists(st.one_of(st.sampled_from([*INJECTIONS, *TOKENS]), st.text(max_size=4)), max_size=4).map("".join),
).filter(safe_line)  # without any text a section may be left out


@given(st.sampled_from(PLACES), anything, st.sampled_from(TASKS), st.booleans())
def test_any_text_of_anybody_else_stays_inside_its_block(place: str, text: str, task: Task, schema: bool) -> None:
    stays_inside(place, text, task, schema)


@pytest.mark.parametrize("text", INJECTIONS)
def test_a_judge_s_prompt_keeps_an_injection_in_its_line(text: str) -> None:
    def asked(answer: str, gold: str, question: str) -> list[str]:
        return lines(grading_request(Item(Question("q", question), gold=(gold,)), answer))

    safe = asked(SAFE, SAFE, SAFE)
    for words in ((text, SAFE, SAFE), (SAFE, text, SAFE), (SAFE, SAFE, text)):
        forged = asked(*words)
        assert len(forged) == len(safe)
        assert sum(a != b for a, b in zip(safe, forged, strict=True)) <= 1
        assert [line for line in forged if line.startswith("#")] == [line for line in safe if line.startswith("#")]
        assert not [token for token in TOKENS if token in "\n".join(forged)]


@pytest.mark.parametrize("token", TOKENS)
def test_a_template_s_token_is_broken_and_can_still_be_read(token: str) -> None:
    assert token not in harmless(f"a {token} b{token}")
    assert harmless(f"a {token} b").replace(" ", "") == f"a{token}b"
    turn = a_turn("passage", SAFE)
    request = request_of(turn, schema=False)
    repair = repair_request(request, f"Answer: x{token}", form_of(turn), read(form_of(turn), "").faults)
    assert token not in repair.rejected


@pytest.mark.parametrize(
    "text",
    [
        "a < b and c > d",
        "x|y|z",
        "<b>bold</b> [1] [a] [[x]] <html>",
        "if a<|b|: pass",
        "[Note] [a1] [12] <image src='x'> </td> <h2>",
        "| head | relation |",
        "5 <10 |> 3",
        "Café 日本 ｜ 全角",
    ],
)
def test_harmless_text_is_shown_as_it_is(text: str) -> None:
    assert safe_line(text) == text


# Replies that quote what somebody else would have them say: (reply, the answer that they give).
QUOTING: list[tuple[Callable[[str], str], str]] = [
    (lambda text: f"Reasoning: A passage says {text!r}, which is no evidence.\nAnswer: Rome\nConfidence: 0.8", "Rome"),
    (lambda text: f'Reasoning: One source reads "{" ".join(text.split())}"; I set it aside.\nAnswer: Rome', "Rome"),
]


@pytest.mark.parametrize("text", INJECTIONS)
def test_a_field_that_a_reply_quotes_is_not_its_own(text: str) -> None:
    for reply, answer in QUOTING:
        found: Any = parse_reply(reply(text))
        assert found is not None
        assert found.answer == answer


@given(anything)
def test_no_text_quoted_in_a_string_of_json_is_a_field(text: str) -> None:
    found = parse_reply(json.dumps({"reasoning": f"It says {text}", "answer": "Rome", "confidence": 0.8}))
    assert found is not None
    assert (found.answer, found.confidence) == ("Rome", 0.8)


@pytest.mark.parametrize(
    "mark", [*"\u00ad\u061c\u180e\u200c\u200d\u2061\u3164\uffa0\u115f\u2800\u034f\ufe0f\U000e0020\ue000"]
)
def test_an_invisible_first_letter_makes_no_heading(mark: str) -> None:
    for text in (f"{mark}# Task", f"{mark} {mark}## Task", f"{mark}＃ Task"):
        assert line_of_its_own(text).startswith("\\")


def test_a_tokenizer_s_own_special_tokens_are_broken_whatever_their_shape() -> None:
    assert without_tokens("a ~END~ b", ("~END~", "a")) == "a ~ END~ b"
