"""A form is asked for in lines, as JSON, or by a schema: what each of them says of every kind of field."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from actors.messages import Field, FieldKind, InputLine, Kind, Question, Source, Task, Turn, Value
from actors.prompting.form import (
    ANSWER_FIELDS,
    AS_JSON,
    IN_LINES,
    FieldFault,
    Form,
    as_json,
    form_of,
    in_lines,
    key,
    schema,
    still_asked,
)
from actors.prompting.reply import read
from tests.actors.prompting.forms import FORMS

ANSWER = Form(ANSWER_FIELDS)
CHOSEN = replace(ANSWER, choices=("rain", "snow", "hail"))
ENOUGH = Field(FieldKind.ENOUGH, "whether it suffices", ("yes", "no"))
TRIPLE = Field(FieldKind.TRIPLE, "a relation", many=True, value=Value.TRIPLE)
STEP = Field(FieldKind.STEP, "what to look for", many=True, tools=("texts", "web"), value=Value.CALL)
SELECTED = Field(FieldKind.SELECTED, "their numbers", value=Value.NUMBERS)
QUERY = Field(FieldKind.QUERY, "what to look for")


def line_of(field: Field) -> str:
    """What a form of this field alone asks for."""
    head, line = in_lines(Form((field,))).split("\n")
    assert head == IN_LINES
    return line


def item_of(field: Field) -> str:
    head, line = as_json(Form((field,))).split("\n")
    assert head == AS_JSON
    return line


def schema_of(field: Field, *choices: str) -> dict[str, Any]:
    whole = json.loads(schema(Form((field,), choices)))
    assert whole["required"] == [key(field)]
    assert whole["additionalProperties"] is False
    held: dict[str, Any] = whole["properties"][key(field)]
    return held


def test_an_answer_is_asked_for_in_words_or_by_the_letter_of_a_choice() -> None:
    assert "\nAnswer: <the answer itself in as few words as possible, or unknown>\n" in in_lines(ANSWER)
    assert "\nAnswer: <the letter of one choice: A, B or C>\n" in in_lines(CHOSEN)
    assert '"answer":"<the letter of one choice: A, B or C>"' in as_json(CHOSEN)
    assert schema_of(ANSWER_FIELDS[1]) == {"type": "string"}
    assert schema_of(ANSWER_FIELDS[1], *CHOSEN.choices) == {"type": "string", "enum": ["A", "B", "C"]}


def test_the_form_of_a_turn_is_its_tasks_or_that_of_an_answer() -> None:
    turn = Turn("d", Question("q", "Which?", ("rain", "snow", "hail")), "single", 1, 7)
    assert form_of(turn) == CHOSEN
    assert form_of(replace(turn, task=Task("Search.", (ENOUGH, QUERY)))) == Form((ENOUGH, QUERY), CHOSEN.choices)


def test_fields_come_in_their_order_and_a_part_of_a_form_has_those_that_are_named() -> None:
    form = Form((ENOUGH, QUERY, SELECTED), ("a",))
    assert [line.split(":")[0] for line in in_lines(form).split("\n")[1:]] == ["Enough", "Query", "Selected"]
    assert list(json.loads(schema(form))["properties"]) == ["enough", "query", "selected"]
    assert still_asked(form, [FieldFault(SELECTED, ""), FieldFault(ENOUGH, "")]) == Form((ENOUGH, SELECTED), ("a",))


def test_one_of_several_values_is_asked_for_by_naming_them() -> None:
    assert line_of(ENOUGH) == "Enough: <whether it suffices: yes or no>"
    assert item_of(ENOUGH) == '{"enough":"<whether it suffices: yes or no>"}'
    assert schema_of(ENOUGH) == {"type": "string", "enum": ["yes", "no"]}
    assert line_of(replace(ENOUGH, asks="")) == "Enough: <yes or no>"


def test_a_list_has_a_line_for_each_and_is_an_array() -> None:
    assert line_of(TRIPLE) == "Triple: <a relation; one such line for each>"
    assert line_of(replace(TRIPLE, most=8)) == "Triple: <a relation; one such line for each (at most 8)>"
    assert item_of(TRIPLE) == '{"triple":[{"head":"<head>","relation":"<relation>","tail":"<tail>"},...]}'
    known = replace(TRIPLE, asks="entity | relation | entity, or entity | has attribute | value")
    assert item_of(known) == (
        '{"triple":[{"head":"<entity>","relation":"<relation>","tail":"<entity>"},'
        '{"head":"<entity>","relation":"<has attribute>","tail":"<value>"},...]}'
    )
    assert line_of(STEP) == "Step: <texts or web> | <what to look for> (one such line for each)"
    assert item_of(STEP) == '{"step":[{"tool":"<texts or web>","query":"<what to look for>"},...]}'
    assert (schema_of(TRIPLE)["minItems"], schema_of(replace(TRIPLE, most=8))["maxItems"]) == (1, 8)
    assert schema_of(STEP)["items"]["properties"]["tool"]["enum"] == ["texts", "web"]
    assert schema_of(SELECTED)["items"]["type"] == "integer"
    assert item_of(SELECTED) == '{"selected":["<their numbers>"]}'


def test_a_list_has_no_more_items_than_a_reply_has_room_for() -> None:
    def most(field: Field, max_tokens: int) -> object:
        return json.loads(schema(Form((field,)), max_tokens))["properties"][key(field)].get("maxItems")

    assert (most(TRIPLE, 512), most(TRIPLE, 24), most(TRIPLE, 1)) == (21, 1, 1)
    assert most(replace(TRIPLE, most=8), 512) == 8  # as the form says
    assert "maxItems" not in schema_of(TRIPLE)


def test_numbers_are_of_what_the_prompt_shows() -> None:
    evidence = tuple(Source(f"t{n}", f"t{n}", Kind.TEXT, "A town", "By the sea.") for n in range(3))
    nodes = tuple(InputLine(FieldKind.NODE, "Question: where?", number) for number in (1, 2, 4))

    def numbers(material: tuple[InputLine, ...], *evidence: Source) -> dict[str, Any]:
        task = Task("Pick.", (SELECTED,), material)
        turn = Turn("m/q/0", Question("q", "Where?", (), evidence), "it", 1, 7, task=task)
        listed: dict[str, Any] = json.loads(schema(form_of(turn), 512))["properties"][key(SELECTED)]
        return listed

    for material, sources, highest in (((), evidence, 3), (nodes, (), 4), (nodes, evidence, 4)):
        listed = numbers(material, *sources)
        assert (listed["items"]["maximum"], listed["maxItems"]) == (highest, highest)
    assert "maxItems" not in numbers(())
    one = Form((replace(SELECTED, most=1),), shown=4)
    assert json.loads(schema(one, 512))["properties"][key(SELECTED)]["maxItems"] == 1


def test_an_optional_field_may_be_none_null_or_empty() -> None:
    assert line_of(replace(QUERY, optional=True)) == "Query: <what to look for; or none>"
    assert line_of(replace(TRIPLE, optional=True)) == "Triple: <a relation; one such line for each, or none>"
    assert schema_of(replace(QUERY, optional=True)) == {"anyOf": [{"type": "string"}, {"type": "null"}]}
    assert "minItems" not in schema_of(replace(TRIPLE, optional=True))
    assert "minItems" not in schema_of(replace(SELECTED, optional=True))
    # A confidence that is left out is not said to be none.
    assert in_lines(ANSWER).endswith("\nConfidence: <how sure you are, a number from 0 to 1>")
    assert schema_of(ANSWER_FIELDS[2])["anyOf"][1] == {"type": "null"}


def test_an_optional_field_that_is_expected_is_asked_for_as_a_required_one_and_none_is_read() -> None:
    for field in (QUERY, TRIPLE, SELECTED):
        expected = replace(field, optional=True, expected=True)
        assert (line_of(expected), item_of(expected)) == (line_of(field), item_of(field))
        assert schema_of(expected) == schema_of(field)
        for reply in (f"{field.name}: none", json.dumps({key(field): []})):
            reading = read(Form((expected,)), reply)
            assert (reading.faults, reading.values) == ((), ())


WORDS = st.lists(st.sampled_from("copper tower 1931 São Kilda's harbour-side bridge Élan".split()), min_size=1).map(
    " ".join
)


def instances(kind: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values that the schemas of forms allow; strings are a few words."""
    if "anyOf" in kind:
        return st.one_of(*map(instances, kind["anyOf"]))
    if "enum" in kind:
        return st.sampled_from(kind["enum"])
    match kind["type"]:
        case "null":
            return st.none()
        case "string":
            return WORDS
        case "integer":
            return st.integers(kind["minimum"], kind["maximum"])
        case "number":
            return st.floats(kind["minimum"], kind["maximum"])
        case "array":
            least, most = kind.get("minItems", 0), kind.get("maxItems", 4)
            return st.lists(instances(kind["items"]), min_size=least, max_size=most)
    assert kind["type"] == "object", kind
    return st.fixed_dictionaries({name: instances(held) for name, held in kind["properties"].items()})


@pytest.mark.parametrize("choices", [(), ("rain", "snow", "hail")])
@pytest.mark.parametrize("name", FORMS)
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_what_a_schema_allows_is_read_and_null_is_left_out(
    name: str, choices: tuple[str, ...], data: st.DataObject
) -> None:
    form = Form(tuple(replace(f, tools=STEP.tools) if f.kind is FieldKind.STEP else f for f in FORMS[name]), choices)
    instance = data.draw(instances(json.loads(schema(form))))
    reading = read(form, json.dumps(instance))
    assert reading.faults == ()
    for field in form.fields:
        held = instance[key(field)]
        assert (field.name in dict(reading.values)) is (held not in (None, []))
        if field.many:
            assert len([name for name, _ in reading.values if name == field.name]) == len(held)
