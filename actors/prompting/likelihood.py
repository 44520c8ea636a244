"""The probabilities that a model itself gives to what it chose, from its tokens' log-probabilities."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import accumulate
from math import exp

from actors.messages import Completion, Field, Value
from actors.prompting.form import Form, key, letters
from actors.prompting.reply import ParsedReply


def likelihoods(form: Form, reply: ParsedReply, completion: Completion) -> tuple[tuple[str, float], ...]:
    """(name, probability) of each field that holds one of several values, and of an answer in words.

    Of a choice it is the product over the tokens that spell it; of words the geometric mean, or a long answer would
    always be an unlikely one. A value that cannot be found again in the reply has none; all of them are empty where the
    completion has no tokens.
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
    """The log-probabilities of the tokens in which a field's value stands, where the last label of the field is."""
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
