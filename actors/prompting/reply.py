"""Reads a reply in the form that was asked for, or in what models make of it. Nothing uncertain is read.

reply -> spoken (reply_text) -> fields as text or JSON (reply_fields)
      -> values (field_values) -> Reading -> Message
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from actors.messages import Field, FieldKind, Message, Question, Turn, Value
from actors.prompting.answer_value import answer_text, stated_answer
from actors.prompting.field_values import lines_behind, paired, read_values
from actors.prompting.form import PROSE, FieldFault, Form, RawField, Values, form_of
from actors.prompting.reply_fields import (
    called_the_answer,
    fields_as_asked,
    find_fields,
    labels,
    on_lines_of_their_own,
    unlabelled_fields,
)
from actors.prompting.reply_text import chatter, may_follow, spoken, whole_sentences
from actors.prompting.safe_text import one_line

_ITEM = re.compile(r"\||^\W*[-*•\d]")
_CUT_OFF = "the reply was too long and was cut off there"


@dataclass(frozen=True, slots=True)
class Reading:
    """The values of a reply, and its faults.

    values: (field's name, value) in the reply's order. stated: names of the fields that the reply states, if only as
    empty.
    faults: the fields that have to be asked for again. before: the text before the first field.
    """

    values: tuple[tuple[str, str], ...]
    stated: frozenset[str]
    faults: tuple[FieldFault, ...]
    before: str = ""

    def value(self, kind: FieldKind) -> str | None:
        """Returns the last value of a field."""
        return next((value for name, value in reversed(self.values) if name == kind), None)

    def missing(self, form: Form) -> list[Field]:
        """Lists the form's fields that the reply does not state, readable or not."""
        known = self.stated | {fault.field.name for fault in self.faults}
        return [field for field in form.fields if field.name not in known]

    def is_complete(self, form: Form) -> bool:
        """True where nothing is missing or a fault. A verdict's share counts, as it may be on the verdict's line."""
        verdict = all(field.values or field.value is Value.SHARE for field in form.fields)
        optional = (field.optional and not (verdict and field.value is Value.SHARE) for field in self.missing(form))
        return not self.faults and all(optional)

    def repaired_by(self, later: "Reading") -> "Reading":
        """Adds the values of a repair. A field whose repair repeats the fault's reason stays a fault."""
        asked = {fault.field.name: fault for fault in self.faults}
        read = tuple((name, value) for name, value in self.values if name not in asked)
        repeated = {name for name, value in later.values if name in asked and asked[name].is_repeated_by(value)}
        repaired = tuple((name, value) for name, value in later.values if name not in repeated)
        faults = (*later.faults, *(fault for name, fault in asked.items() if name in repeated))
        # Others read no text of a reply in which nothing could be read.
        before = self.before if read else later.before
        return Reading((*read, *repaired), self.stated | later.stated, faults, before)


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


def read(form: Form, text: str, cut_off: bool = False, among: Form | None = None) -> Reading:
    """Reads the fields of a form, which may be a part of the form `among`.

    Of several values of a field that has one, the last counts. `cut_off`: the text ended at a limit, so its last line
    may lack words.
    """
    if not cut_off and (raws := fields_as_asked(text, form)):
        reading = _reading(form, raws)
        if reading.is_complete(form):
            return reading
    among = among or form
    text = spoken(text, labels(among.fields).field)
    kinds = {field.value for field in form.fields}
    if Value.PAIR in kinds and Value.ANSWER not in kinds:
        text = paired(text)
    before, raws = find_fields(text, form, among, cut_off)
    broken = None
    if cut_off and raws and not any(map(chatter, raws[-1].lines[1:])):  # else a comment was cut off
        last = raws[-1]
        broken = last if last.field.many or last.field.kind in PROSE or len(last.lines) == 1 else None
    reading = _reading(form, raws, broken)
    if not cut_off and not reading.is_complete(form):
        apart = on_lines_of_their_own(text, form)
        if apart != text:
            before, raws = find_fields(apart, form, among)
            reading = _reading(form, raws)
    missing = reading.missing(form)
    if not cut_off and (not raws or not all(field.optional for field in missing)):
        # Where some fields have labels, only the text before them can be of a field without one.
        more = unlabelled_fields(before if raws else text, form, missing)
        if more:
            before = "" if raws else before
            raws = [*more, *raws]
            reading = _reading(form, raws)
    # Where no field is found, optional ones are missing too: an empty one would be stated.
    required = {field.name for field in form.fields if not raws or not field.optional}
    known = {fault.field.name: fault for fault in reading.faults}
    if broken and broken.field.name in known:
        # The reply was cut off before these fields, though an answer can do without some of them.
        behind = form.fields[form.fields.index(broken.field) + 1 :]
        required |= {f.name for f in behind if f.value is not Value.SHARE and f.kind is not FieldKind.REASONING}
    missing_reason = _CUT_OFF if cut_off else "it is missing"
    faults = [
        known.get(field.name) or FieldFault(field, missing_reason)
        for field in form.fields
        if field.name in known or (field.name not in reading.stated and field.name in required)
    ]
    return replace(reading, faults=tuple(faults), before=before)


def _reading(form: Form, raws: Sequence[RawField], broken: RawField | None = None) -> Reading:
    """Reads the last value of each field, and all values of one that may have many."""
    asks_share = any(field.kind is FieldKind.CONFIDENCE for field in form.fields)
    outcomes: dict[str, list[str]] = {}
    faults: dict[str, FieldFault] = {}
    last: dict[str, tuple[Values, bool]] = {}  # the value so far, and whether its label called it final
    remarked = False
    for raw in raws:
        field, name = raw.field, raw.field.name
        # A list that text follows which is none of its items.
        remarked |= field.many and any(line.strip() and not _ITEM.search(line) for line in raw.lines[1:])
        if field == form.fields[0] and not field.many and name in outcomes and remarked:
            for other in form.fields:  # the form once more, after a remark: lists of the draft do not count
                outcomes.pop(other.name if other.many else "", None)
        outcome: Values | FieldFault | None
        if raw is broken:
            # Of a field that was cut off, only the whole sentences of reasoning count.
            whole = whole_sentences("\n".join(raw.lines)) if field.kind is FieldKind.REASONING else ""
            outcome = (one_line(whole),) if whole else FieldFault(field, _CUT_OFF)
        else:
            outcome = read_values(raw, form.choices)
        if outcome is None:
            continue
        # Two different values contradict each other, except in texts, of which the later one is the better.
        contradicts = bool(field.values) or field.value in (Value.ANSWER, Value.NUMBERS)
        if isinstance(outcome, tuple) and not field.many and contradicts:
            before, was_final = last.get(name, (outcome, False))
            if before != outcome and not (raw.final and not was_final):
                outcome = FieldFault(field, "there are two different ones")
            else:
                last[name] = outcome, raw.final
        if isinstance(outcome, FieldFault):
            # An unreadable confidence, as in words, counts as none.
            if not (field.optional and (field.value is Value.SHARE or field.kind is FieldKind.REASONING)):
                faults[name] = outcome
        elif not field.many:
            faults.pop(name, None)
            if field.value is Value.ANSWER:
                if outcomes.get(name, [*outcome]) != [*outcome]:
                    outcomes.pop(FieldKind.CONFIDENCE, None)  # it is that in another answer
                line = answer_text(raw.lines or (str(raw.value),), raw.closed)[0] if asks_share else ""
                if (share := stated_answer(line, form.choices)[1]) is not None:
                    outcomes[FieldKind.CONFIDENCE] = [repr(share)]
            outcomes[name] = [*outcome]
        elif name not in outcomes:
            outcomes[name] = [*outcome]
        elif bool(outcomes[name]) != bool(outcome):
            faults[name] = FieldFault(field, "it is stated as none, and has a value")
        else:
            outcomes[name] += outcome
    # A value of one field counts only where nothing behind its last statement may change it.
    decided: RawField | None = None
    stated_last = {raw.field.name: number for number, raw in enumerate(raws)}
    for number, raw in enumerate(raws):
        if raw.field.name in outcomes and (raw.field.values or raw.field.value is Value.ANSWER):
            decided = raw if stated_last[raw.field.name] == number else None
        if decided and (lines := lines_behind(raw)):
            value = outcomes[decided.field.name]
            if not may_follow(lines, partial(_restates, decided, value, form.choices)):
                faults[decided.field.name] = FieldFault(decided.field, "text that follows it may change it")
    order = dict.fromkeys([*(raw.field.name for raw in raws), *outcomes])
    stated = {name: outcomes[name] for name in order if name in outcomes and name not in faults}
    pairs = [(name, value) for name, values in stated.items() for value in values]
    return Reading(tuple(pairs), frozenset(stated), tuple(faults.values()))


def _restates(raw: RawField, values: Sequence[str], choices: tuple[str, ...], line: str) -> bool:
    """True for a line that is a field's value once more: `So the answer is B.`"""
    called = called_the_answer(line) or [line]
    return read_values(RawField(raw.field, (called[-1],)), choices) == tuple(values)
