"""Reads a reply in the form that was asked for, or what models make of it. What is not certain is not read: no guess is
ever made."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from actors.messages import Field, FieldKind, Question, Turn, Value
from actors.prompting.answers import answer_text
from actors.prompting.faults import Fault, Values
from actors.prompting.form import Form, form_of
from actors.prompting.line_parts import on_lines_of_their_own
from actors.prompting.marks import TAKES_BACK, chatter
from actors.prompting.pairs import paired
from actors.prompting.part import Part
from actors.prompting.parts import find_parts
from actors.prompting.spoken import spoken
from actors.prompting.stated import BOXED, stated_answer
from actors.prompting.text import clean, one_line, whole_sentences
from actors.prompting.unlabelled import said_to_be, sentence, unlabelled_parts
from actors.prompting.values import PROSE, SHORT, read_values

_MISSING = "it is missing"
# What may stand for more than it says: tags, objects, lists of lists, LaTeX, a node's parents beside its type.
_MARKED = re.compile(r"[<◁{\\]|\[\s{0,80}\[|\(from ")
# Words with which a reply takes back what it said.
_RECONSIDERS = re.compile(
    r"\b(?:wait|actually|rather|correct(?:ion|ed|ing)?|check|recheck|on second|instead|however|revis\w+|hmm"
    r"|mistake|not right|wrong)\b",
    re.IGNORECASE,
)
_CUT_OFF = "the reply was too long and was cut off there"


@dataclass(frozen=True, slots=True)
class Reading:
    """What could be read of a reply, and what could not.

    values: (field's name, value) in the reply's order. An answer that is said not to be known has no value.
    stated: names of fields about which something was said, if only that there is none.
    faults: the fields that have to be asked for again. `before` is the text before the first field.
    """

    values: tuple[tuple[str, str], ...]
    stated: frozenset[str]
    faults: tuple[Fault, ...]
    before: str = ""

    def value(self, kind: FieldKind) -> str | None:
        """The last value of a field."""
        return next((value for name, value in reversed(self.values) if name == kind), None)

    def repaired_by(self, later: Reading) -> Reading:
        """This reading with what a second reply says of the fields that could not be read. One of which it repeats what
        was wrong with it cannot be read either."""
        asked = {fault.field.name: fault for fault in self.faults}
        kept = tuple((name, value) for name, value in self.values if name not in asked)
        repeated = {name for name, value in later.values if name in asked and asked[name].is_repeated_by(value)}
        said = tuple((name, value) for name, value in later.values if name not in repeated)
        faults = (*later.faults, *(fault for name, fault in asked.items() if name in repeated))
        # Of a reply that could not be read at all, nothing is told to others.
        before = self.before if kept else later.before
        return Reading((*kept, *said), self.stated | later.stated, faults, before)


@dataclass(frozen=True, slots=True)
class Reply:
    """`content` is one line. `answer` is None when the agent says that it does not know, and one of the choices where
    there are any; `confidence` is None when it states none in [0, 1]. The reply to a task has `fields`, and no answer
    unless the task is a role's way to answer.
    """

    content: str
    answer: str | None
    confidence: float | None
    fields: tuple[tuple[str, str], ...] = ()


def read(form: Form, text: str, cut_off: bool = False, among: Form | None = None) -> Reading:
    """What a reply says of each field of a form, which is a part of the form `among`.

    Of several values of a field that has one, the last counts: models restate the form, or draft, before they settle.
    What stands in `<think>` blocks is not said. `cut_off` says that the text ended at a limit: its last line may lack
    words, so it states nothing.
    """
    if not cut_off and (parts := _as_asked(form, text)):
        settled = _settled(form, parts)
        if not (settled.faults or settled.misses(form) or settled.lacks_share(form)):
            return Reading(tuple(settled.values(parts)), frozenset(settled.outcomes), ())
    text = spoken(text, thought_is_asked=any(field.kind is FieldKind.THOUGHT for field in form.fields))
    kinds = {field.value for field in form.fields}
    if Value.PAIR in kinds and Value.ANSWER not in kinds:
        text = paired(text)
    before, parts = _parts(text, form, among or form, cut_off)
    broken = _broken_off(parts) if cut_off else None
    settled = _settled(form, parts, broken)
    if not cut_off and (settled.faults or settled.misses(form) or settled.lacks_share(form)):
        apart = on_lines_of_their_own(text, form)
        if apart != text:
            before, parts = _parts(apart, form, among or form)
            settled = _settled(form, parts)
    missing = [
        field for field in form.fields if field.name not in settled.outcomes and field.name not in settled.faults
    ]
    if not cut_off and (not parts or settled.misses(form)):
        # Beside labelled parts only the text before them can be of a field without a label.
        more = unlabelled_parts(before if parts else text, form, missing)
        if more:
            before = "" if parts else before
            parts = [*more, *parts]
            settled = _settled(form, parts)
    # A reply in which no field can be found says that there is none only where it says so.
    silent = not parts
    missed = _missed(form, broken.field) if broken and broken.field.name in settled.faults else ()
    unread = [
        settled.faults.get(field.name) or Fault(field, _CUT_OFF if cut_off else _MISSING)
        for field in form.fields
        if field.name in settled.faults
        or (field.name not in settled.outcomes and (silent or not field.optional or field in missed))
    ]
    return Reading(tuple(settled.values(parts)), frozenset(settled.outcomes), tuple(unread), before)


def _missed(form: Form, broken: Field) -> Sequence[Field]:
    """What a reply that was cut off in a field did not come to, other than what an answer can do without."""
    behind = form.fields[form.fields.index(broken) + 1 :]
    return [field for field in behind if field.value is not Value.SHARE and field.kind is not FieldKind.REASONING]


def _as_asked(form: Form, text: str) -> list[Part]:
    """The quick way: the parts of a reply in exactly the lines that were asked for. None for any other, nor where a
    value has marks that may mean more."""
    fields = {field.name: field for field in form.fields}
    lines = clean(text).strip().split("\n")
    parts = []
    for number, line in enumerate(lines, 1):
        name, _, value = line.partition(": ")
        if name not in fields or not (value := value.strip()):
            return []
        # In the middle of a whole form, reasoning may speak of marks.
        if fields[name].kind is not FieldKind.REASONING and _MARKED.search(value):
            return []
        parts.append(Part(fields[name], (value,), closed=number < len(lines)))
    return parts


def _parts(text: str, form: Form, among: Form, cut_off: bool = False) -> tuple[str, list[Part]]:
    """The parts of a form; those of the other fields `among` which it stands end them, and are left out."""
    before, parts = find_parts(text, among, cut_off)
    return before, [part for part in parts if part.field in form.fields]


def read_reply(turn: Turn, text: str, cut_off: bool = False) -> Reply | None:
    """The reply to a turn in the form that it asked for; None when that cannot be read."""
    return reply_of(turn, read(form_of(turn), text, cut_off))


def reply_of(turn: Turn, reading: Reading) -> Reply | None:
    """The reply that was read; None where anything has to be asked for again."""
    if reading.faults:
        return None
    answer, confidence = reading.value(FieldKind.ANSWER), reading.value(FieldKind.CONFIDENCE)
    share = None if confidence is None else float(confidence)
    if turn.task is not None:
        content = "; ".join(f"{name}: {value}" for name, value in reading.values)
        # In a step of a system, an answer is one to something else.
        return Reply(content, *((answer, share) if turn.task.answers else (None, None)), reading.values)
    return Reply(reading.value(FieldKind.REASONING) or one_line(reading.before), answer, share)


def parse_reply(text: str, choices: Sequence[str] = (), cut_off: bool = False) -> Reply | None:
    """The reply to a question; None when no answer is stated."""
    return read_reply(Turn("", Question("", "", tuple(choices)), "", 1, 0), text, cut_off)


@dataclass(frozen=True, slots=True)
class _Settled:
    """What a reply comes to: values by field's name (none where it says so), and what could not be read."""

    outcomes: dict[str, Values]
    faults: dict[str, Fault]

    def misses(self, form: Form) -> bool:
        """True where a required field is missing."""
        known = {*self.outcomes, *self.faults}
        return any(not field.optional and field.name not in known for field in form.fields)

    def lacks_share(self, form: Form) -> bool:
        """True for a verdict without a share that may be left out: it may stand on the verdict's own line."""
        shares = [field for field in form.fields if field.value is Value.SHARE]
        verdict = all(field.values or field in shares for field in form.fields)
        return verdict and any(field.name not in self.outcomes for field in shares)

    def values(self, parts: Sequence[Part]) -> list[tuple[str, str]]:
        """(name, value), fields in the order in which the reply first has them."""
        order = dict.fromkeys([*(part.field.name for part in parts), *self.outcomes])
        return [(name, value) for name in order for value in self.outcomes.get(name, ())]


def _broken_off(parts: Sequence[Part]) -> Part | None:
    """The last part of a reply that ended at a limit, unless its value had ended before."""
    if not parts or not parts[-1].lines:
        return None
    last = parts[-1]
    if len(last.lines) > 1 and any(map(chatter, last.lines[1:])):
        return None  # what was cut off speaks about the reply
    goes_on = last.field.many or last.field.kind in PROSE
    return last if goes_on or len(last.lines) == 1 else None


def _of_broken(part: Part) -> Values | Fault | None:
    """What a part states that was cut off: nothing, but for the whole sentences of reasoning, each of which stands for
    itself."""
    whole = whole_sentences("\n".join(part.lines)) if part.field.kind is FieldKind.REASONING else ""
    return read_values(replace(part, lines=tuple(whole.split("\n")))) if whole else Fault(part.field, _CUT_OFF)


def _settled(form: Form, parts: Sequence[Part], broken: Part | None = None) -> _Settled:
    """The last value of each field that has one, and all of one that may have many."""
    outcomes: dict[str, list[str]] = {}
    faults: dict[str, Fault] = {}
    last: dict[str, tuple[Values, bool]] = {}  # the value so far, and whether its label said that it was settled
    place: dict[str, int] = {}  # of the field's part before
    # Of several parts of a field, the lines between them may take the earlier one back.
    reconsiders = [len(part.lines) > 1 and any(map(_RECONSIDERS.search, part.lines[1:])) for part in parts]
    for number, part in enumerate(parts):
        field, name = part.field, part.field.name
        reconsidered = any(reconsiders[place.get(name, number) : number])
        place[name] = number
        outcome: Values | Fault | None = _of_broken(part) if part is broken else read_values(part, form.choices)
        if outcome is None:
            continue
        if isinstance(outcome, tuple) and not field.many and _holds_one(field):
            before, was_settled = last.get(name, (outcome, False))
            if before != outcome and not (part.settled and not was_settled) and not reconsidered:
                outcome = Fault(field, "there are two different ones")
            else:
                last[name] = outcome, part.settled
        if isinstance(outcome, Fault):
            # A confidence in words is none; there need not be one.
            if not (field.optional and (field.value is Value.SHARE or field.kind is FieldKind.REASONING)):
                faults[name] = outcome
        elif not field.many:
            faults.pop(name, None)
            if field.value is Value.ANSWER:
                _take_confidence(form, part, outcomes, outcome)
            follows = bool(number) and parts[number - 1].field == field and not reconsidered
            if field.value is Value.NUMBERS and field.most != 1 and follows:
                outcome = _together(outcomes.get(name, []), outcome)  # numbers on a line each
            outcomes[name] = [*outcome]
        elif name not in outcomes or reconsidered:
            outcomes[name] = [*outcome]
        else:
            if bool(outcomes[name]) != bool(outcome):
                faults[name] = Fault(field, "it is said to be none, and there is one")
            outcomes[name] += outcome
    answered = next((outcomes.get(field.name) for field in form.fields if field.value is Value.ANSWER), None)
    boxed = BOXED.findall("\n".join(line for part in parts for line in part.lines[1:]))
    other_box = answered and boxed and stated_answer(boxed[-1], form.choices)[0] not in ("", *answered)
    if other_box or (answered and _takes_back(_behind_answer(parts), answered[-1], form.choices)):
        faults |= {f.name: Fault(f, "there are two different ones") for f in form.fields if f.value is Value.ANSWER}
    return _Settled({name: tuple(values) for name, values in outcomes.items() if name not in faults}, faults)


def _behind_answer(parts: Sequence[Part]) -> list[str]:
    """The lines behind the last answer's own."""
    later = next(number for number, part in enumerate(reversed(parts)) if part.field.value is Value.ANSWER)
    lines: list[str] = []
    for part in parts[len(parts) - 1 - later :]:
        # What stands on an answer's or a confidence's own line is theirs.
        own = 1 if part.field.value in (Value.ANSWER, Value.SHARE) else 0
        lines += [*part.lines[own:], *part.after]
    return lines


def _takes_back(lines: Sequence[str], answer: str, choices: Sequence[str]) -> bool:
    """True where lines behind an answer take it back, or call another one the answer."""
    if not lines:
        return False
    if any(map(TAKES_BACK.search, lines)):
        return True
    for said in map(sentence, said_to_be("\n".join(lines))):
        stated = stated_answer(said, choices)[0]
        if not stated or said.lower().startswith("not "):
            continue
        if choices:
            if stated != answer:
                return True
        # `The answer is based on ...` speaks of the answer and names none.
        elif len(stated.split()) <= 3 or not stated[0].islower():
            shorter, longer = sorted((stated.casefold(), answer.casefold()), key=len)
            if shorter.rstrip(".") not in longer:
                return True
    return False


def _together(numbers: Sequence[str], more: Values) -> Values:
    """Numbers as one list, each of them once."""
    listed = ", ".join([*numbers, *more])
    return (", ".join(dict.fromkeys(listed.split(", "))),) if listed else ()


def _holds_one(field: Field) -> bool:
    """True for a field of which two different values contradict each other; of a text the later one is the better."""
    return bool(field.values) or field.value in (Value.ANSWER, Value.NUMBERS)


def _take_confidence(form: Form, part: Part, outcomes: dict[str, list[str]], answer: Values) -> None:
    """Another answer takes back the confidence in the one before; one in the same breath is its own."""
    if outcomes.get(part.field.name, [*answer]) != [*answer]:
        outcomes.pop(FieldKind.CONFIDENCE, None)
    share = _confidence_beside(part, form)
    if share is not None and any(field.kind is FieldKind.CONFIDENCE for field in form.fields):
        outcomes[FieldKind.CONFIDENCE] = [repr(share)]


def _confidence_beside(part: Part, form: Form) -> float | None:
    """The confidence that is stated in the same breath as an answer: `Paris (confidence 0.80)`."""
    if len(part.lines) == 1 and len(part.lines[0]) <= SHORT:
        return _confidence_in(part.lines[0], part.closed, form.choices)
    text = answer_text(part.lines, part.closed) if part.lines else str(part.value)
    return stated_answer(text, form.choices)[1]


@lru_cache(maxsize=1024)
def _confidence_in(line: str, closed: bool, choices: tuple[str, ...]) -> float | None:
    return stated_answer(answer_text((line,), closed), choices)[1]
