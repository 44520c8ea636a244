"""Whatever layout a model gives a reply, the values in it are read back as they were."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from actors.messages import Field, FieldKind, Value
from actors.prompting.form import Form, key
from actors.prompting.reply import read
from tests.actors.prompting.forms import FORMS

# One to three words that no reader takes for a label, a bullet, a remark or `none`.
NAMES = st.lists(
    st.sampled_from("Tarn Hollow Élan Kilda Brix 1931 东京 O'Hara Ferry-Bridge Łódź Quay Zug".split()),
    min_size=1,
    max_size=3,
).map(" ".join)
SENTENCES = st.builds("{} lies north of {}, near {}".format, NAMES, NAMES, NAMES).map("The town of {}".format)
PROSE = (FieldKind.REASONING, FieldKind.THOUGHT, FieldKind.SUMMARY, FieldKind.DESCRIPTION)

# (field, its values) in the form's order; optional fields may be left out.
Reply = list[tuple[Field, list[str]]]
Style = Callable[[Reply], str]


def values(field: Field, choices: Sequence[str]) -> st.SearchStrategy[str]:
    if field.values:
        return st.sampled_from(field.values)
    match field.value:
        case Value.ANSWER:
            return st.sampled_from(choices) if choices else NAMES
        case Value.SHARE:
            return st.integers(0, 100).map(lambda percent: repr(percent / 100))
        case Value.NUMBERS:
            return st.lists(st.integers(1, 40), min_size=1, max_size=4, unique=True).map(
                lambda numbers: ", ".join(map(str, numbers))
            )
        case Value.PAIR:
            return st.builds("Who built {}? | {}".format, NAMES, NAMES | st.just("uncertain"))
        case Value.TRIPLE:
            return st.builds("{} | lies near | {}".format, NAMES, NAMES)
        case Value.CALL:
            return st.builds("{} | {}".format, st.sampled_from(("texts", "pictures", "web")), NAMES)
    if field.kind is FieldKind.SUB_QUESTION:
        return NAMES.map("Who built {}?".format)
    return SENTENCES if field.kind in PROSE else NAMES


@st.composite
def replies(draw: st.DrawFn, form: Form) -> Reply:
    reply: Reply = []
    for field in form.fields:
        # With nothing else to say, a reply has to say something.
        if field.optional and len(form.fields) > 1 and draw(st.booleans()):
            continue
        one = values(field, form.choices)
        most = 4 if field.many else 1
        reply.append((field, draw(st.lists(one, min_size=1, max_size=most, unique=True))))
    return reply or [(form.fields[0], [draw(values(form.fields[0], form.choices))])]


def plural(name: str) -> str:
    return f"{name[:-1]}ies" if name.endswith("y") else name if name.endswith("s") else f"{name}s"


def lines(reply: Reply, line: str = "{name}: {value}") -> str:
    return "\n".join(line.format(name=field.name, value=value) for field, held in reply for value in held)


def marked(reply: Reply, line: str) -> str:
    """Marks around values other than prose."""
    return "\n".join(lines([part], "{name}: {value}" if part[0].kind in PROSE else line) for part in reply)


def listed(reply: Reply, bullet: str = "- ") -> str:
    """Lists as bullets under a plural label."""
    blocks = [
        "\n".join([f"{plural(field.name)}:", *(f"{bullet}{value}" for value in held)])
        if field.many
        else f"{field.name}: {held[0]}"
        for field, held in reply
    ]
    return "\n".join(blocks)


def headed(reply: Reply, heading: str = "## {}", bullet: str = "- ") -> str:
    blocks = []
    for field, held in reply:
        below = "\n".join(f"{bullet}{value}" for value in held) if field.many else held[0]
        blocks.append(f"{heading.format(field.name)}\n{below}")
    return "\n\n".join(blocks)


def as_object(reply: Reply) -> dict[str, Any]:
    held = {}
    for field, said in reply:
        items = [in_json(field, value) for value in said]
        held[key(field)] = items if field.many else items[0]
    return held


def in_json(field: Field, value: str) -> Any:
    match field.value:
        case Value.SHARE:
            return float(value)
        case Value.NUMBERS:
            return [int(number) for number in value.split(", ")]
        case Value.PAIR:
            return dict(zip(("question", "answer"), value.split(" | "), strict=True))
        case Value.TRIPLE:
            return dict(zip(("head", "relation", "tail"), value.split(" | "), strict=True))
        case Value.CALL:
            return dict(zip(("tool", "query"), value.split(" | "), strict=True))
    return value


def tagged(reply: Reply) -> str:
    return "\n".join(f"<{key(field)}>{value}</{key(field)}>" for field, held in reply for value in held)


STYLES: dict[str, Style] = {
    "labelled lines": lines,
    "bold labels": lambda r: lines(r, "**{name}:** {value}"),
    "bold labels, colon outside": lambda r: lines(r, "**{name}**: {value}"),
    "bold lines": lambda r: lines(r, "**{name}: {value}**"),
    "bold values": lambda r: marked(r, "{name}: **{value}**"),
    "values in quotes": lambda r: marked(r, '{name}: "{value}"'),
    "names in capitals": lambda r: "\n".join(f"{f.name.upper()}: {v}" for f, held in r for v in held),
    "blank lines between": lambda r: lines(r, "{name}: {value}\n"),
    "bullets": lambda r: lines(r, "- {name}: {value}"),
    "bullets with bold labels": lambda r: lines(r, "* **{name}:** {value}"),
    "numbered": lambda r: "\n".join(f"{n}. {line}" for n, line in enumerate(lines(r).split("\n"), 1)),
    "wide colons": lambda r: lines(r, "{name}：{value}"),
    "windows": lambda r: lines(r).replace("\n", "\r\n"),
    "fenced lines": lambda r: f"```\n{lines(r)}\n```",
    "headings": headed,
    "bold headings": lambda r: headed(r, "**{}**"),
    "headings with numbered lists": lambda r: headed(r, "### {}", "1. "),
    "values on the next line": lambda r: lines(r, "{name}:\n{value}"),
    "lists as bullets": listed,
    "lists as numbers": lambda r: listed(r, "1. "),
    "JSON": lambda r: json.dumps(as_object(r)),
    "JSON as it is spelt": lambda r: json.dumps(as_object(r), ensure_ascii=False, indent=2),
    "fenced JSON with chatter": lambda r: (
        f"Here is the JSON:\n\n```json\n{json.dumps(as_object(r))}\n```\n\nI hope it helps!"
    ),
    "tags": tagged,
    "think block": lambda r: f"<think>\nIt may be none.\n{lines(r[:1])} or not\n</think>\n\n{lines(r)}",
    "farewell": lambda r: f"{lines(r)}\n\nLet me know if you need anything else!",
    "rule and sources": lambda r: f"{lines(r)}\n\n---\nSources: the passages alone.",
}
CHOICES = ("Tarn Hollow", "Salt Quay", "neither of them")


@pytest.mark.parametrize("style", STYLES)
@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_what_was_said_is_read_back(style: str, data: st.DataObject) -> None:
    choices = data.draw(st.sampled_from([(), CHOICES]))
    form = Form(data.draw(st.sampled_from(list(FORMS.values()))), choices)
    reply = data.draw(replies(form))
    text = STYLES[style](reply)
    reading = read(form, text)
    assert [fault.reason for fault in reading.faults] == []
    assert reading.values == tuple((field.name, value) for field, held in reply for value in held)
