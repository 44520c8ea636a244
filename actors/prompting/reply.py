"""Reads a reply in the form that was asked for, or in what models make of it. Nothing uncertain is read.

reply -> own words -> lines or items of each field (reply_fields) -> values (field_values) -> Reading -> Message
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from actors.messages import Completion, Field, FieldKind, Message, Question, Turn, Value
from actors.prompting.field_values import read_values, value_and_rest
from actors.prompting.form import PROSE, FieldFault, Form, RawField, Values, form_of, is_long, still_asked
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
    if broken and len(broken.lines) > 1 and not broken.field.many and broken.field.kind not in PROSE:
        broken = None  # its value is whole, and a remark behind it was cut off
    outcomes = read_raws(form, raws, broken)
    # Only the text before the fields with labels can be of a field without one.
    for field in form.fields if not cut_off else ():
        more = fields_in_sentences(before, form, field) if outcomes[field.name] is None else []
        if more and isinstance(read_raws(form, [*more, *raws])[field.name], tuple) and not (raws and field.optional):
            before, raws = "", [*more, *raws]
            outcomes = read_raws(form, raws)
    # The reply was cut off before the fields behind a broken one.
    last = form.fields.index(broken.field) if broken and isinstance(outcomes[broken.field.name], FieldFault) else None
    stated = any(isinstance(outcome, tuple) for outcome in outcomes.values())
    values: list[tuple[str, str]] = []
    faults: list[FieldFault] = []
    for number, field in enumerate(form.fields):
        outcome = outcomes[field.name]
        # Where no field is read, optional ones are missing too.
        is_missing = not stated or not field.optional or (last is not None and number > last)
        if outcome is None and is_missing:
            outcome = FieldFault(field, _CUT_OFF if cut_off else "it is missing")
        if isinstance(outcome, FieldFault):
            faults.append(outcome)
        elif outcome:
            values += [(field.name, value) for value in outcome]
    return Reading(tuple(values), tuple(faults), before)


def read_raws(form: Form, raws: Sequence[RawField], broken: RawField | None = None) -> dict[str, Outcome]:
    """Reads the fields that were found, by name. None for those that were not.

    broken: the field in which the reply was cut off.
    """
    outcomes: dict[str, Outcome] = {}
    for field in form.fields:
        stated = [raw for raw in raws if raw.field == field]
        read = [read_broken(raw) if raw is broken else read_values(raw, form.choices) for raw in stated]
        outcomes[field.name] = joined(field, [outcome for outcome in read if outcome is not None])
        first = [raw.lines for raw in raws if raw.field == form.fields[0] and not raw.field.many]
        if field.many and len(set(first)) > 1 and isinstance(outcomes[form.fields[0].name], tuple):
            outcomes[field.name] = FieldFault(field, "the form is filled in twice")  # the first list may be of a draft
    # A value of one field counts only where nothing behind its last statement may change it.
    decided: RawField | None = None
    last = {raw.field.name: number for number, raw in enumerate(raws)}
    for number, raw in enumerate(raws):
        if (
            isinstance(outcomes[raw.field.name], tuple)
            and not is_long(raw.field)
            and raw.field.value is not Value.SHARE
        ):
            decided = raw if last[raw.field.name] == number else None
        values = outcomes[decided.field.name] if decided else None
        if decided and not takes_nothing_back(
            lines_behind(raw), partial(restates, decided.field, values, form.choices)
        ):
            outcomes[decided.field.name] = FieldFault(decided.field, "text that follows it may change it")
    return outcomes


def read_broken(raw: RawField) -> Outcome:
    """Reads a field in which the reply was cut off. Only whole sentences of reasoning count."""
    text = "\n".join(raw.lines)
    ends = [end.end() for end in SENTENCE_ENDS.finditer(text)] if raw.field.kind is FieldKind.REASONING else []
    return (one_line(text[: ends[-1]]),) if ends else FieldFault(raw.field, _CUT_OFF)


def joined(field: Field, outcomes: Sequence[Values | FieldFault]) -> Outcome:
    """Joins what a reply states of a field in several places. None where it states nothing."""
    readable = [outcome for outcome in outcomes if isinstance(outcome, tuple)]
    if field.optional and (field.value is Value.SHARE or field.kind is FieldKind.REASONING):
        outcomes = readable  # an unreadable confidence, as in words, counts as none
    if not field.many or not outcomes:
        # Two different values contradict each other, except in texts, of which the later one is the better.
        compared = field.values or field.value in (Value.ANSWER, Value.NUMBERS)
        if compared and len(set(readable)) > 1 and outcomes[-1] in readable:
            return FieldFault(field, "there are two different ones")
        return outcomes[-1] if outcomes else None
    if len(readable) < len(outcomes):
        return next(outcome for outcome in outcomes if isinstance(outcome, FieldFault))
    values = sum(readable, ())
    answered = sum(" | " in value for value in values)
    if field.value is Value.PAIR and 0 < answered < len(values):
        return FieldFault(field, "it is not certain which answer is to which question")
    if () in readable and values:
        return FieldFault(field, "it is stated as none, and has a value")
    return values


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
