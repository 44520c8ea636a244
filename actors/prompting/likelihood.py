"""Computes the probabilities that a model gives to its choices, from the tokens of its reply."""

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from math import exp

from actors.messages import Completion, Message, Value
from actors.prompting.form import Form, key, letters

INCOMPLETE = "\ufffd"  # replaces bytes that are no character, or not yet

Tokens = tuple[tuple[str, float], ...]


def likelihoods(form: Form, reply: Message, completion: Completion) -> tuple[tuple[str, float], ...]:
    """Returns (name, probability) of each field that has one of several values, and of an answer.

    A choice has the product of its tokens' probabilities. An answer in words has their geometric mean, or long answers
    would always be unlikely.
    """
    if not completion.tokens or "".join(token for token, _ in completion.tokens) != completion.text:
        return ()
    stated = dict(reply.fields) if reply.fields else {}
    ends = list(accumulate(len(token) for token, _ in completion.tokens))
    begins = [0, *ends[:-1]]
    found = []
    for field in form.fields:
        if field.value is Value.ANSWER:
            value = stated.get(field.name, reply.answer)
        elif field.values and not field.many:
            value = stated.get(field.name)
        else:
            continue
        if value is None:
            continue
        spellings = [value]
        if field.value is Value.ANSWER and value in form.choices:
            spellings.append(letters(form.choices)[form.choices.index(value)])
        label = rf"(?:\"{re.escape(key(field))}\"|{re.escape(field.name)})\W{{0,8}}?"
        spelt = "|".join(re.escape(spelling) for spelling in sorted(spellings, key=len, reverse=True))
        matches = list(re.finditer(rf"{label}(?P<value>{spelt})(?!\w)", completion.text, re.IGNORECASE))
        if not matches:
            continue
        start, end = matches[-1].span("value")  # after the last label
        spans = zip(completion.tokens, begins, ends, strict=True)
        logs = [log for (_, log), begin, stop in spans if begin < end and stop > start]
        mean = field.value is Value.ANSWER and not form.choices
        if logs:
            found.append((field.name, exp(sum(logs) / (len(logs) if mean else 1))))
    return tuple(found)


def of_text(tokens: Iterable[tuple[str, float]], text: str) -> Tokens:
    """Selects the tokens that make up a text, with their natural log-probabilities, from all generated tokens.

    Engines also list tokens outside of the text: the end of the turn, or the model's thoughts. Returns () where no
    sequence of whole tokens equals the text.
    """
    listed = tuple(tokens)
    ends = list(accumulate(len(token) for token, _ in listed))
    whole = "".join(token for token, _ in listed)
    # Reversed, since the time of `rfind` can grow with the product of both lengths.
    begin = whole[::-1].find(text[::-1])
    begin = len(whole) - len(text) - begin if begin >= 0 else begin
    if begin < 0 or not text:
        return ()
    kept = tuple(
        token
        for token, end in zip(listed, ends, strict=True)
        if begin <= end - len(token[0]) and end <= begin + len(text)
    )
    return kept if "".join(token for token, _ in kept) == text else ()


def pieces(decode: Callable[[Sequence[int]], str], ids: Sequence[int], text: str) -> list[str]:
    """Splits a text into one piece per token by decoding ever more tokens, for texts with bytes that are no characters.

    An incomplete character belongs to the token that completes it, or to the last one. Takes time quadratic in the
    number of tokens.
    """
    found, begin = [], 0
    for number in range(1, len(ids) + 1):
        whole = decode(ids[:number]).rstrip(INCOMPLETE)
        end = len(text) if number == len(ids) else len(whole) if text.startswith(whole) else begin
        end = max(begin, end)
        found.append(text[begin:end])
        begin = end
    return found
