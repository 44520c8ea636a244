"""Reads a reply in the form that was asked for, or in what models make of it. Nothing uncertain is read.

reply -> own words -> lines or items of each field (reply_fields) -> values (field_values) -> Reading -> Message
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from actors.messages import Completion, Field, FieldKind, Message, Question, Turn, Value
from actors.prompting.field_values import read_values, value_and_rest
from actors.prompting.form import FieldFault, Form, RawField, Values, form_of, is_long, still_asked
from actors.prompting.plain_value import SENTENCE_ENDS, takes_nothing_back
from actors.prompting.reply_fields import fields_in_sentences, find_fields
from actors.prompting.safe_text import one_line

Outcome = Values | FieldFault | None
_CUT_OFF = "the reply was too long and was cut off there"
_AFTER_SHARE = re.compile(r"\d\s?%?[^\w(]{0,8}[.;!?–—-]\s+(\w.*)")


@dataclass(frozen=True, slots=True)
class Reading:
    """The values of a reply, and its faults.

    values: (field's name, value) in the form's order. faults: the fields that have to be asked for again.
    before: the text before the first field.
    """

    values: tuple[tuple[str, str], ...]
    faults: tuple[FieldFault, ...]
    before: str = ""

    def value(self, kind: FieldKind) -> str | None:
        """Returns the last value of a field."""
        return dict(self.values).get(kind)

    def repaired_by(self, form: Form, completion: Completion) -> "Reading | None":
        """Adds the values of a repair. A field whose repair repeats the fault's reason stays a fault.

        None where the model gave no reply.
        """
        later = read_completion(still_asked(form, self.faults), completion, form)
        if later is None:
            return None
        faults = list(later.faults)
        repaired = list(later.values)
        for fault in self.faults:
            repeated = [pair for pair in repaired if pair[0] == fault.field.name and fault.is_repeated_by(pair[1])]
            if repeated:
                faults.append(fault)
                repaired = [pair for pair in repaired if pair[0] != fault.field.name]
        # Others read no text of a reply in which nothing could be read.
        before = self.before if self.values else later.before
        return Reading((*self.values, *repaired), tuple(faults), before)


def parse_reply(text: str, choices: Sequence[str] = (), cut_off: bool = False) -> Message | None:
    """Parses the reply to a question. None where it states no answer."""
    turn = Turn("", Question("", "", tuple(choices)), "", 1, 0)
    return reply_of(turn, read(form_of(turn), text, cut_off))


def reply_of(turn: Turn, reading: Reading) -> Message | None:
    """Makes the message of a reading. None where anything has to be asked for again.

    Its content is one line. Its answer is one of the choices where there are any, and None for a stated lack of
    knowledge; its confidence is in [0, 1] or None. The reply to a task has `fields`, and an answer only where the task
    is a role's way to answer.
    """
    if reading.faults:
        return None
    answer, confidence = reading.value(FieldKind.ANSWER), reading.value(FieldKind.CONFIDENCE)
    share = None if confidence is None else float(confidence)
    if turn.task is None:
        content = reading.value(FieldKind.REASONING) or one_line(reading.before)
        return replace(unread(turn), content=content, answer=answer, confidence=share)
    content = "; ".join(f"{name}: {value}" for name, value in reading.values)
    if not turn.task.answers:  # in a step of a system, an answer is one to something else
        answer = share = None
    return replace(unread(turn), content=content, answer=answer, confidence=share, fields=reading.values)


def unread(turn: Turn) -> Message:
    """Makes the message of a turn of which no reply was read."""
    heard = tuple(heard.message.id for heard in turn.heard)
    return Message(f"{turn.round}/{turn.agent}", turn.agent, turn.round, heard=heard, seed=turn.seed)


def read_completion(form: Form, completion: Completion, among: Form | None = None) -> Reading | None:
    """Reads a completion as `read` reads its text. None where the model gave no reply."""
    if completion.stop not in ("stop", "length"):
        return None
    return read(form, completion.text, completion.stop == "length", among)


def read(form: Form, text: str, cut_off: bool = False, among: Form | None = None) -> Reading:
    """Reads the fields of a form, which may be a part of the form `among`.

    Of several values of a field that has one, the last counts. `cut_off`: the text ended at a limit, so its last line
    may lack words.
    """
    before, raws = find_fields(text, form, among or form, cut_off)
    broken = raws[-1] if cut_off and raws else None
    if broken and len(broken.lines) > 1 and not is_long(broken.field):
        broken = None  # its value is whole, and a remark behind it was cut off
    outcomes = {field.name: read_field(field, raws, form.choices, broken) for field in form.fields}

    # The first lists in a form that is filled in twice may be of a draft.
    first = form.fields[0]
    drafts = {raw.lines for raw in raws if raw.field == first and not first.many}
    if len(drafts) > 1 and isinstance(outcomes[first.name], tuple):
        twice = "the form is filled in twice"
        outcomes |= {field.name: FieldFault(field, twice) for field in form.fields if field.many}
    outcomes |= taken_back(raws, form.choices, outcomes)

    # Where no field is read, optional ones are missing too, and where the reply was cut off before them.
    is_any_read = any(isinstance(outcome, tuple) for outcome in outcomes.values())
    is_broken_off = broken is not None and isinstance(outcomes[broken.field.name], FieldFault)
    behind = form.fields[form.fields.index(broken.field) :] if broken and is_broken_off else ()
    values: list[tuple[str, str]] = []
    faults: list[FieldFault] = []
    for field in form.fields:
        outcome = outcomes[field.name]
        if outcome is None and not (is_any_read and field.optional and field not in behind):
            outcome = FieldFault(field, _CUT_OFF if cut_off else "it is missing")
        if isinstance(outcome, FieldFault):
            faults.append(outcome)
        else:
            values += [(field.name, value) for value in outcome or ()]
    return Reading(tuple(values), tuple(faults), before)


def read_field(
    field: Field, raws: Sequence[RawField], choices: tuple[str, ...], broken: RawField | None = None
) -> Outcome:
    """Reads a field from all places that state it. None where none of them does.

    broken: the place in which the reply was cut off.
    """
    read = [read_broken(raw) if raw is broken else read_values(raw, choices) for raw in raws if raw.field == field]
    outcomes = [outcome for outcome in read if outcome is not None]
    readable = [outcome for outcome in outcomes if isinstance(outcome, tuple)]
    if field.optional and (field.value is Value.SHARE or field.kind is FieldKind.REASONING):
        outcomes = [*readable]  # an unreadable confidence, as in words, counts as none
    if not outcomes:
        return None
    if not field.many:
        # Two different values contradict each other, except in texts, of which the later one is the better.
        is_compared = field.values or field.value in (Value.ANSWER, Value.NUMBERS)
        is_contradicted = is_compared and len(set(readable)) > 1 and outcomes[-1] in readable
        return FieldFault(field, "there are two different ones") if is_contradicted else outcomes[-1]
    for outcome in outcomes:
        if isinstance(outcome, FieldFault):
            return outcome
    values = sum(readable, ())
    if field.value is Value.PAIR and len({" | " in value for value in values}) > 1:
        return FieldFault(field, "it is not certain which answer is to which question")
    if () in readable and values:
        return FieldFault(field, "it is stated as none, and has a value")
    return values


def read_broken(raw: RawField) -> Outcome:
    """Reads a field in which the reply was cut off. Only whole sentences of reasoning count."""
    text = "\n".join(raw.lines)
    ends = [end.end() for end in SENTENCE_ENDS.finditer(text)] if raw.field.kind is FieldKind.REASONING else []
    return (one_line(text[: ends[-1]]),) if ends else FieldFault(raw.field, _CUT_OFF)


def taken_back(
    raws: Sequence[RawField], choices: tuple[str, ...], outcomes: Mapping[str, Outcome]
) -> dict[str, FieldFault]:
    """Returns the fields whose value may be changed by text behind its last statement."""
    last = {raw.field.name: raw for raw in raws}
    faults: dict[str, FieldFault] = {}
    decided: Field | None = None
    for raw in raws:
        field, values = raw.field, outcomes[raw.field.name]
        if isinstance(values, tuple) and not is_long(field) and field.value is not Value.SHARE:
            decided = field if last[field.name] is raw else None
        if decided and not takes_nothing_back(
            lines_behind(raw), partial(restates, decided, outcomes[decided.name], choices)
        ):
            faults[decided.name] = FieldFault(decided, "text that follows it may change it")
    return faults


def lines_behind(raw: RawField) -> Sequence[str]:
    """Returns the lines below a value, which may take it back. None of a text or a list."""
    if is_long(raw.field):
        return ()
    if raw.field.value is Value.SHARE and (remark := _AFTER_SHARE.search(raw.lines[0])):
        return (remark[1], *raw.lines[1:])
    return value_and_rest(raw)[1]


def restates(field: Field, values: Outcome, choices: tuple[str, ...], line: str) -> bool:
    """True for a line that is a field's value once more: `So the answer is B.`"""
    again = fields_in_sentences(line, Form((field,), choices), field) or [RawField(field, (line,))]
    return read_values(again[-1], choices) == values
