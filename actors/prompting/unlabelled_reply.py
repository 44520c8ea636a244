"""Finds fields in text without labels, where it can only be of one field."""

from __future__ import annotations

import re
from collections.abc import Sequence

from actors.messages import Field, Value
from actors.prompting.answer_value import stated_answer
from actors.prompting.field_values import one_of, read_values
from actors.prompting.form import PROSE, FieldFault, Form, RawField
from actors.prompting.not_known import is_unknown
from actors.prompting.reply_text import BOXED, BULLET, chatter, ends_a_value, is_offer, may_follow
from actors.prompting.safe_text import one_line

_THE_ANSWER_IS = re.compile(
    r"(?:^|[\s,;(])(?:the|my|our|so the)\s(?:final\s|correct\s|right\s|best\s|most likely\s)?(?:answer|choice|option)\s"
    r"(?:to (?:the|this|your) question\s)?"
    r"(?:is|would be)\s?[:：]?\s+(?=[^\n])",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(
    r"(?<!\bSt)(?<!\bMt)(?<!\bFt)(?<!\bDr)(?<!\bMr)(?<!\bMs)(?<!\bMrs)(?<!\bProf)(?<=[\w\"'”’)*])[.!](?:\s|$)"
)
_AFTER_INITIAL = re.compile(r"(?:[\w'’-]{1,40}\s){0,4}[A-Z]\.\s+\S")
_REFUSES = re.compile(
    r"\b(?:sorry|help with|assist)\b|\b(?:am|'m|’m) (?:unable|not able)\b|\bi (?:cannot|can't|can’t)\b|\bas an ai\b"
    r"|\b(?:rather not|prefer not to|declines? to)\b",
    re.IGNORECASE,
)
_NOTHING = re.compile(r"\W*(?:none|nothing|no)\b(?:\s[^\n?]{0,80})?", re.IGNORECASE)
_BARE_NUMBER = re.compile(r"[^\w-]{0,8}\d(?:\W{1,3}(?:out of )?\d)?\W{0,8}")
_HEADING = re.compile(r"\s*#{1,4}\s")
_SHORT_WORDS = 6
_FEW_WORDS = 8
# Marks and words of a label or a sentence, in Chinese too.
_NO_BARE_ANSWER = re.compile(r"[:：?？是<{\[|]|答案|\b(?:is|are|was|I|it's|think|sure)\b")


def unlabelled_fields(text: str, form: Form, missing: Sequence[Field]) -> list[RawField]:
    """Finds the fields that are `missing` in text that names no field; none where that is not certain."""
    lines = [line for line in text.split("\n") if line.strip()]
    if not lines:
        return []
    answer = next((field for field in missing if field.value is Value.ANSWER), None)
    if answer and (found := _answer(text, answer, form)):
        return found
    if len(form.fields) == 1 and form.fields[0].optional and len(lines) == 1 and _NOTHING.fullmatch(lines[0].strip()):
        return [RawField(form.fields[0], ("none",))]
    required = [field for field in missing if not field.optional]
    left = required or (list(missing) if len(form.fields) == 1 else [])
    if len(left) != 1 or left[0].value is Value.ANSWER or left[0].many:
        return []
    return _sole(lines, left[0])


def _sole(lines: Sequence[str], field: Field) -> list[RawField]:
    """Takes the whole text for the one value that is missing."""
    numeric = field.values and all(map(str.isdigit, field.values))
    if numeric and not (len(lines) == 1 and _BARE_NUMBER.fullmatch(lines[0])):
        return []  # a sentence or a list may begin with a number
    if field.values:
        stated = [value for line in (lines[0], lines[-1]) if (value := one_of(line.strip(" *_`#>-"), field))]
        return [RawField(field, (stated[0],))] if len(set(stated)) == 1 else []
    if field.kind in PROSE:
        own = [
            line for line in lines if not (is_offer(line) or (chatter(line) and line.rstrip().endswith((":", "："))))
        ]
        whole = one_line(" ".join(own))
        if any(map(_HEADING.match, own)):
            return []  # the prompt, repeated
        if len(whole.split()) < 3 or is_unknown(whole) or _REFUSES.search(whole) or whole[:1] in "<{[":
            return []
        if _THE_ANSWER_IS.match(whole):
            return []  # an answer in place of the thought that was asked for
        return [RawField(field, tuple(own))]
    if field.value is Value.NUMBERS and len(lines) == 1:
        raw = RawField(field, (lines[0],))
        return [] if isinstance(read_values(raw), FieldFault) else [raw]
    return []


def _answer(text: str, field: Field, form: Form) -> list[RawField]:
    """Finds an answer in a box, after `the answer is`, or alone."""
    boxes = BOXED.findall(text)
    if boxes:
        return [RawField(field, (boxes[-1],))]
    if called := called_the_answer(text):
        # A letter's full stop may end a sentence or be a name's (`John F. Kennedy`), unless letters are the choices'.
        initials = not form.choices and any(map(_AFTER_INITIAL.match, called))
        values = {sentence(value) for value in called}
        last = sentence(called[-1])
        on_line, *behind = text[text.rfind(called[-1]) + len(last) :].split("\n")
        behind = behind if ends_a_value(on_line) else [on_line, *behind]
        negated = any(value.lower().startswith("not ") for value in values)
        one = (
            len(values) == 1 and not (initials or negated) and may_follow(behind, lambda line: sentence(line) in values)
        )
        return [RawField(field, (values.pop(),))] if one else []
    lines = [line for line in text.split("\n") if line.strip()]
    if lines and (heading := re.fullmatch(r"\s*#{2,6}\s+([^#:<>]{1,80})", lines[-1])):
        return [RawField(field, (heading[1],))]
    whole = one_line(text)
    if _REFUSES.search(whole):
        return []
    if len(lines) == 1 and len(whole.split()) <= _FEW_WORDS and is_unknown(whole):
        return [RawField(field, ("unknown",))]
    if len(lines) == 1 and _is_bare_answer(lines[0], form):
        return [RawField(field, (lines[0],))]
    return []


def called_the_answer(text: str) -> list[str]:
    """Returns the text after each `the answer is`, to the end of its line or the beginning of the next one."""
    found = list(_THE_ANSWER_IS.finditer(text))
    ends = [*(match.start() for match in found), len(text)][1:]
    called = [text[match.end() : min(end, match.end() + 300)] for match, end in zip(found, ends, strict=True)]
    return [value.partition("\n")[0].rstrip(" ,;(") for value in called]


def sentence(value: str) -> str:
    """Returns the first sentence."""
    end = _SENTENCE_END.search(value)
    return (value[: end.start()] if end else value).strip()


def _is_bare_answer(line: str, form: Form) -> bool:
    """True for a reply that is one of the choices, or a few words that are no sentence."""
    if form.choices:
        return bool(stated_answer(line, form.choices)[0])
    if BULLET.match(line):
        return False
    words = line.strip(" *_`\"'.").split()
    return 0 < len(words) <= _SHORT_WORDS and not _NO_BARE_ANSWER.search(line)
