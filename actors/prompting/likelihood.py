"""Computes the probabilities that a model gives to its choices, from its tokens' log-probabilities."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import accumulate
from math import exp

from actors.messages import Completion, Field, Value
from actors.prompting.form import Form, key, letters
from actors.prompting.reply import ParsedReply


def likelihoods(form: Form, reply: ParsedReply, completion: Completion) -> tuple[tuple[str, float], ...]:
    """Returns (name, probability) of each field that has one of several values, and of an answer.

    A choice has the product of its tokens' probabilities. An answer in words has their geometric mean, or long answers
    would always be unlikely. A value that is not found again in the reply has none.
    """
    if not completion.tokens or "".join(token for token, _ in completion.tokens) != completion.text:
        return ()
    stated = dict(reply.fields) if reply.fields else {}
    found = []
    for field in form.fields:
        if field.value is Value.ANSWER:
            value = stated.get(field.name, reply.answer)
        elif field.values and not field.many:
            value = stated.get(field.name)
        else:
            continue
        if value is not None and (tokens := _tokens_of(field, value, form.choices, completion)):
            mean = field.value is Value.ANSWER and not form.choices
            found.append((field.name, exp(sum(tokens) / (len(tokens) if mean else 1))))
    return tuple(found)


def _tokens_of(field: Field, value: str, choices: Sequence[str], completion: Completion) -> list[float]:
    """Returns the log-probabilities of the tokens of a field's value, after its last label."""
    spellings = [value]
    if field.value is Value.ANSWER and value in choices:
        spellings.append(letters(choices)[list(choices).index(value)])
    label = rf"(?:\"{re.escape(key(field))}\"|{re.escape(field.name)})\W{{0,8}}?"
    spelt = "|".join(re.escape(spelling) for spelling in sorted(spellings, key=len, reverse=True))
    matches = list(re.finditer(rf"{label}(?P<value>{spelt})(?!\w)", completion.text, re.IGNORECASE))
    if not matches:
        return []
    start, end = matches[-1].span("value")
    ends = list(accumulate(len(token) for token, _ in completion.tokens))
    begins = [0, *ends[:-1]]
    return [
        log
        for (_, log), begin, stop in zip(completion.tokens, begins, ends, strict=True)
        if begin < end and stop > start
    ]
