"""Reads a reply in the form that was asked for, or in what models make of it. Nothing uncertain is read.

reply -> own words -> lines of each field (reply_fields) -> values (field_values) -> Reading -> Message
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

from actors.messages import Completion, Field, FieldKind, Message, Question, Turn, Value
from actors.prompting.field_values import read_values, value_and_rest
from actors.prompting.form import FieldFault, FieldText, Form, Outcome, Values, form_of, is_long, letters, still_asked
from actors.prompting.plain_value import SENTENCE_ENDS, THE_ANSWER_IS, answer_last, plain, takes_nothing_back
from actors.prompting.reply_fields import field_in_sentences, find_fields
from actors.prompting.safe_text import one_line

_CUT_OFF = "the reply was too long and was cut off there"
_LISTED_CHOICE = re.compile(r"^[ \t]{0,8}\((?P<letter>[A-Z])\) (?P<text>\S.{0,400})$", re.MULTILINE)
_AFTER_SHARE = re.compile(r"\d\s?%?[^\w(]{0,8}[.;!?–—-]\s+(\w.*)")


@dataclass(frozen=True, slots=True)
class Reading:
    """The values of a reply, and its faults.

    values: (field's name, value) in the form's order. faults: the fields that have to be asked for again.
    preamble: the text before the first field.
    """

    values: tuple[tuple[str, str], ...]
    faults: tuple[FieldFault, ...]
    preamble: str = ""

    def value(self, kind: FieldKind) -> str | None:
        """Returns the last value of a field."""
        return dict(self.values).get(kind)

    def repaired_by(self, form: Form, completion: Completion) -> "Reading | None":
        """Adds the values of a repair. A field whose repair repeats the fault's reason stays a fault.

        None where the model gave no reply.
        """
        repair = read_completion(still_asked(form, self.faults), completion, form)
        if repair is None:
            return None

        fault_by_name = {fault.field.name: fault for fault in self.faults}
        repeated_faults: dict[str, FieldFault] = {}
        for name, value in repair.values:
            if fault_by_name[name].is_repeated_by(value):
                repeated_faults[name] = fault_by_name[name]
        values = [(name, value) for name, value in repair.values if name not in repeated_faults]

        # Others read no text of a reply in which nothing could be read.
        preamble = self.preamble if self.values else repair.preamble
        return Reading((*self.values, *values), (*repair.faults, *repeated_faults.values()), preamble)


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
    answer = share = None
    if turn.task is None or turn.task.answers:  # in a step of a system, an answer is one to something else
        answer = reading.value(FieldKind.ANSWER)
        confidence = reading.value(FieldKind.CONFIDENCE)
        share = None if confidence is None else float(confidence)

    if turn.task is None:
        content = reading.value(FieldKind.REASONING) or one_line(reading.preamble)
        return message_in(turn, content=content, answer=answer, confidence=share)
    content = "; ".join(f"{name}: {value}" for name, value in reading.values)
    return message_in(turn, content=content, answer=answer, confidence=share, fields=reading.values)


def message_in(turn: Turn, **read: Any) -> Message:
    """Makes the message of a turn, with the fields that were `read` of its reply."""
    ids = tuple(heard.message.id for heard in turn.heard)
    return Message(f"{turn.round}/{turn.agent}", turn.agent, turn.round, heard=ids, seed=turn.seed, **read)


def read_completion(form: Form, completion: Completion, full_form: Form | None = None) -> Reading | None:
    """Reads a completion as `read` reads its text. None where the model gave no reply."""
    if completion.stop not in ("stop", "length"):
        return None
    return read(form, completion.text, completion.stop == "length", full_form)


@lru_cache(maxsize=1024)
def read(form: Form, text: str, cut_off: bool = False, full_form: Form | None = None) -> Reading:
    """Reads the fields of a form, which may be a part of a full form.

    Of several values of a field that has one, the last counts. `cut_off`: the text ended at a limit, so its last line
    may lack words. Cached: a completion that is reused is read once.
    """
    preamble, field_texts = find_fields(text, form, full_form or form, cut_off)
    outcomes: dict[str, Outcome] = {}
    for field in form.fields:
        outcomes[field.name] = read_field(field, field_texts, form.choices)

    # The first lists in a form that is filled in twice may be of a draft.
    first_field = form.fields[0]
    drafts = {tuple(field_text.lines) for field_text in field_texts if field_text.field == first_field}
    if len(drafts) > 1 and not first_field.many and isinstance(outcomes[first_field.name], tuple):
        for field in form.fields:
            if field.many:
                outcomes[field.name] = FieldFault(field, "the form is filled in twice")
    outcomes |= taken_back(field_texts, form.choices, outcomes)
    if renames_choices(text, form.choices):
        for field in form.fields:
            if field.value is Value.ANSWER and outcomes[field.name]:
                outcomes[field.name] = FieldFault(field, "the reply lists the choices under other letters")

    is_any_read = any(isinstance(outcome, tuple) for outcome in outcomes.values())
    is_reached = True
    reason_of_absence = _CUT_OFF if cut_off else "it is missing"
    values: list[tuple[str, str]] = []
    faults: list[FieldFault] = []
    for field in form.fields:
        outcome = outcomes[field.name]
        if isinstance(outcome, FieldFault) and outcome.reason == _CUT_OFF:
            is_reached = False
        # Where no field is read, optional ones are missing too, and where the reply was cut off before them.
        if outcome is None and not (is_any_read and is_reached and field.optional):
            outcome = FieldFault(field, reason_of_absence)
        if isinstance(outcome, FieldFault):
            faults.append(outcome)
        else:
            for value in outcome or ():
                values.append((field.name, value))
    return Reading(tuple(values), tuple(faults), preamble)


def renames_choices(text: str, choices: tuple[str, ...]) -> bool:
    """True for a reply that lists a choice under another one's letter, so that no letter in it is certain."""
    if not choices:
        return False
    choice_by_letter = dict(zip(letters(choices), map(plain, choices), strict=True))
    for listed in _LISTED_CHOICE.finditer(text):
        choice = plain(listed["text"])
        own_choice = choice_by_letter.get(listed["letter"])
        if choice != own_choice and choice in choice_by_letter.values():
            return True
    return False


def read_field(field: Field, field_texts: Sequence[FieldText], choices: tuple[str, ...]) -> Outcome:
    """Reads a field from all places that state it. None where none of them does."""
    is_extra = field.optional and (field.value is Value.SHARE or field.kind is FieldKind.REASONING)
    outcomes: list[Values | FieldFault] = []
    for field_text in field_texts:
        if field_text.field != field:
            continue
        if field_text.is_cut:
            outcome = read_cut_off(field_text)
        else:
            outcome = read_values(field_text, choices)
        # An unreadable confidence, as in words, counts as none.
        is_ignored = is_extra and isinstance(outcome, FieldFault)
        if outcome is not None and not is_ignored:
            outcomes.append(outcome)

    values = {outcome for outcome in outcomes if isinstance(outcome, tuple)}
    if not outcomes:
        return None
    if field.many and values:
        return joined(field, outcomes)
    # Two different values contradict each other, except in texts, of which the later one is the better.
    if len(values) > 1 and (field.values or field.value in (Value.ANSWER, Value.NUMBERS)):
        return FieldFault(field, "there are two different ones")
    return outcomes[-1]


def joined(field: Field, outcomes: Sequence[Values | FieldFault]) -> Outcome:
    """Joins the items that several places state of a list."""
    items: list[str] = []
    for outcome in outcomes:
        if isinstance(outcome, FieldFault):
            return outcome
        items += outcome
    if field.value is Value.PAIR and len({" | " in item for item in items}) > 1:
        return FieldFault(field, "it is not certain which answer is to which question")
    if items and () in outcomes:
        return FieldFault(field, "it is stated as none, and has a value")
    return tuple(items)


def read_cut_off(field_text: FieldText) -> Outcome:
    """Reads a field in which the reply was cut off. Only whole sentences of reasoning count."""
    text = "\n".join(field_text.lines)
    last_end = 0
    for sentence_end in SENTENCE_ENDS.finditer(text):
        last_end = sentence_end.end()
    if last_end and field_text.field.kind is FieldKind.REASONING:
        return (one_line(text[:last_end]),)
    return FieldFault(field_text.field, _CUT_OFF)


def taken_back(
    field_texts: Sequence[FieldText], choices: tuple[str, ...], outcomes: Mapping[str, Outcome]
) -> dict[str, FieldFault]:
    """Returns the fields whose value may be changed by text behind its last statement."""
    last_texts = {field_text.field.name: field_text for field_text in field_texts}
    faults: dict[str, FieldFault] = {}
    decided: Field | None = None
    for field_text in field_texts:
        field = field_text.field
        is_read = isinstance(outcomes[field.name], tuple)
        if is_read and not is_long(field) and field.value is not Value.SHARE:
            decided = None
            if last_texts[field.name] is field_text:
                decided = field
        if decided is None:
            continue

        is_restated = partial(restates, decided, outcomes[decided.name], choices)
        if not takes_nothing_back(lines_behind(field_text), is_restated):
            faults[decided.name] = FieldFault(decided, "text that follows it may change it")
    return faults


def lines_behind(field_text: FieldText) -> Sequence[str]:
    """Returns the lines below a value, which may take it back. Of a text only lines that call something the answer."""
    if is_long(field_text.field):
        return [line for line in map(answer_last, field_text.lines) if THE_ANSWER_IS.search(line)]
    if field_text.field.value is Value.SHARE:
        remark = _AFTER_SHARE.search(field_text.lines[0])
        if remark:
            return (remark[1], *field_text.lines[1:])
    return list(map(answer_last, value_and_rest(field_text)[1]))


def restates(field: Field, outcome: Outcome, choices: tuple[str, ...], line: str) -> bool:
    """True for a line that is a field's value once more: `So the answer is B.`"""
    again = field_in_sentences(line, Form((field,), choices), field) or FieldText(field, [line])
    return read_values(again, choices) == outcome
