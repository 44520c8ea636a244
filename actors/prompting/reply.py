"""Reads a reply in the form that was asked for, or in what models make of it. Nothing uncertain is read.

reply -> spoken (reply_text) -> lines of each field (reply_fields)
      -> values (field_values) -> Reading -> Message
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate

from actors.messages import Completion, Field, FieldKind, Message, Question, Turn, Value
from actors.prompting.answer_value import answer_text, stated_answer
from actors.prompting.field_values import lines_behind, paired, read_values
from actors.prompting.form import PROSE, FieldFault, Form, RawField, Values, form_of, still_asked
from actors.prompting.reply_fields import (
    called_the_answer,
    fields_as_asked,
    find_fields,
    labels,
    on_lines_of_their_own,
    unlabelled_fields,
)
from actors.prompting.reply_text import may_follow, spoken, whole_sentences
from actors.prompting.safe_text import one_line

_CUT_OFF = "the reply was too long and was cut off there"


@dataclass(frozen=True, slots=True)
class Reading:
    """The values of a reply, and its faults.

    values: (field's name, value) in the form's order. stated: names of the fields that the reply states, if only as
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

    def repaired_by(self, form: Form, completion: Completion) -> "Reading | None":
        """Adds the values of a repair. A field whose repair repeats the fault's reason stays a fault.

        None where the model gave no reply.
        """
        later = read_completion(still_asked(form, self.faults), completion, form)
        if later is None:
            return None
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
        reading = read_raws(form, raws)
        if reading.is_complete(form):
            return reading
    among = among or form
    text = spoken(text, labels(among.fields).field)
    if any(field.value is Value.PAIR for field in form.fields):
        text = paired(text)
    before, raws = find_fields(text, form, among, cut_off)
    broken = raws[-1] if cut_off and raws else None
    if broken and len(broken.lines) > 1 and not broken.field.many and broken.field.kind not in PROSE:
        broken = None  # its value is whole, and a remark behind it was cut off
    reading = read_raws(form, raws, broken)
    if not cut_off and not reading.is_complete(form) and (apart := on_lines_of_their_own(text, form)) != text:
        before, raws = find_fields(apart, form, among)
        reading = read_raws(form, raws)
    missing = reading.missing(form)
    # Where some fields have labels, only the text before them can be of a field without one.
    whole = cut_off or (raws and all(field.optional for field in missing))
    if not whole and (more := unlabelled_fields(before if raws else text, form, missing)):
        before = "" if raws else before
        raws = [*more, *raws]
        reading = read_raws(form, raws)
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


def read_completion(form: Form, completion: Completion, among: Form | None = None) -> Reading | None:
    """Reads a completion as `read` reads its text. None where the model gave no reply."""
    if completion.stop not in ("stop", "length"):
        return None
    return read(form, completion.text, completion.stop == "length", among)


def read_raws(form: Form, raws: Sequence[RawField], broken: RawField | None = None) -> Reading:
    """Reads the values of the fields that were found. A missing field is no fault here.

    broken: the field in which the reply was cut off.
    """
    values: dict[str, Values] = {}
    faults: dict[str, FieldFault] = {}
    for field in form.fields:
        stated = [raw for raw in raws if raw.field == field]
        if field.kind is FieldKind.CONFIDENCE:
            stated = confidences(raws, field, form.choices)
        outcome = read_field(field, stated, form.choices, broken)
        first = form.fields[0]
        if field.many and not first.many and len({raw.lines for raw in raws if raw.field == first}) > 1:
            # The first lists may be of a draft.
            forms = accumulate(raw.field == first for raw in raws)
            if len({number for number, raw in zip(forms, raws, strict=True) if raw.field == field}) > 1:
                outcome = FieldFault(field, "the form is filled in twice")
        if isinstance(outcome, FieldFault):
            faults[field.name] = outcome
        elif outcome is not None:
            values[field.name] = outcome
    # A value of one field counts only where nothing behind its last statement may change it.
    decided: RawField | None = None
    stated_last = {raw.field.name: number for number, raw in enumerate(raws)}
    for number, raw in enumerate(raws):
        if raw.field.name in values and (raw.field.values or raw.field.value is Value.ANSWER):
            decided = raw if stated_last[raw.field.name] == number else None
        lines = lines_behind(raw) if decided else ()
        if decided and not may_follow(lines, partial(restates, decided, values[decided.field.name], form.choices)):
            faults[decided.field.name] = FieldFault(decided.field, "text that follows it may change it")
    stated_values = {name: each for name, each in values.items() if name not in faults}
    pairs = [(name, value) for name, each in stated_values.items() for value in each]
    return Reading(tuple(pairs), frozenset(stated_values), tuple(faults.values()))


def confidences(raws: Sequence[RawField], field: Field, choices: tuple[str, ...]) -> list[RawField]:
    """Returns the places that state the confidence in the answer: on the answer's line, or as a field."""
    answers = (answer_text(raw.lines)[0] for raw in raws if raw.field.value is Value.ANSWER)
    shares = [share for answer in answers if (share := stated_answer(answer, choices)[1]) is not None]
    return [*(RawField(field, (repr(share),)) for share in shares), *(raw for raw in raws if raw.field == field)]


def read_field(
    field: Field, stated: Sequence[RawField], choices: tuple[str, ...], broken: RawField | None
) -> Values | FieldFault | None:
    """Reads one field from all places that state it. None where none of them has content."""
    outcomes: list[Values | FieldFault] = []
    for raw in stated:
        outcome: Values | FieldFault | None
        if raw is broken:
            # Of a field that was cut off, only the whole sentences of reasoning count.
            whole = whole_sentences("\n".join(raw.lines)) if field.kind is FieldKind.REASONING else ""
            outcome = (one_line(whole),) if whole else FieldFault(field, _CUT_OFF)
        else:
            outcome = read_values(raw, choices)
        if outcome is not None:
            outcomes.append(outcome)
    # An unreadable confidence, as in words, counts as none.
    if field.optional and (field.value is Value.SHARE or field.kind is FieldKind.REASONING):
        outcomes = [outcome for outcome in outcomes if isinstance(outcome, tuple)]
    if not outcomes:
        return None
    if field.many:
        if fault := next((outcome for outcome in outcomes if isinstance(outcome, FieldFault)), None):
            return fault
        if () in outcomes and any(outcomes):
            return FieldFault(field, "it is stated as none, and has a value")
        return tuple(value for outcome in outcomes if isinstance(outcome, tuple) for value in outcome)
    # Two different values contradict each other, except in texts, of which the later one is the better.
    different = {outcome for outcome in outcomes if isinstance(outcome, tuple)}
    compared = field.values or field.value in (Value.ANSWER, Value.NUMBERS)
    if compared and isinstance(outcomes[-1], tuple) and len(different) > 1:
        return FieldFault(field, "there are two different ones")
    return outcomes[-1]


def restates(raw: RawField, values: Sequence[str], choices: tuple[str, ...], line: str) -> bool:
    """True for a line that is a field's value once more: `So the answer is B.`"""
    called = called_the_answer(line) or [line]
    return read_values(RawField(raw.field, (called[-1],)), choices) == tuple(values)
