"""Computes the probabilities that a model gives to its choices, from the tokens of its reply."""

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from math import exp

from actors.messages import Completion, Field, Message, Value
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
    stated = dict(reply.fields)
    shares: list[tuple[str, float]] = []
    for field in form.fields:
        value = None
        if field.value is Value.ANSWER:
            value = stated.get(field.name, reply.answer)
        elif field.values and not field.many:
            value = stated.get(field.name)
        logs = [] if value is None else _logs_of(field, value, form.choices, completion)
        if logs:
            is_free = field.value is Value.ANSWER and not form.choices
            shares.append((field.name, exp(sum(logs) / (len(logs) if is_free else 1))))
    return tuple(shares)


def _logs_of(field: Field, value: str, choices: tuple[str, ...], completion: Completion) -> list[float]:
    """Returns the log-probabilities of the tokens of a field's value, behind its last label."""
    spellings = [value]
    if field.value is Value.ANSWER and value in choices:
        spellings.append(letters(choices)[choices.index(value)])
    longest_first = "|".join(re.escape(spelling) for spelling in sorted(spellings, key=len, reverse=True))
    label = rf"(?:\"{re.escape(key(field))}\"|{re.escape(field.name)})\W{{0,8}}?"
    start = end = 0
    for stated in re.finditer(rf"{label}(?P<value>{longest_first})(?!\w)", completion.text, re.IGNORECASE):
        start, end = stated.span("value")

    logs = []
    place = 0
    for token, log in completion.tokens:
        if place < end and place + len(token) > start:
            logs.append(log)
        place += len(token)
    return logs


def of_text(tokens: Iterable[tuple[str, float]], text: str) -> Tokens:
    """Selects the tokens that make up a text, with their natural log-probabilities, from all generated tokens.

    Engines also list tokens outside of the text: the end of the turn, or the model's thoughts. Returns () where no
    sequence of whole tokens equals the text.
    """
    listed = tuple(tokens)
    # Reversed, since the time of `rfind` can grow with the product of both lengths.
    reversed_whole = "".join(token for token, _ in listed)[::-1]
    behind = reversed_whole.find(text[::-1])
    if behind < 0 or not text:
        return ()
    end = len(reversed_whole) - behind
    begin = end - len(text)
    ends = accumulate(len(token) for token, _ in listed)
    selected = []
    for token, token_end in zip(listed, ends, strict=True):
        if begin <= token_end - len(token[0]) and token_end <= end:
            selected.append(token)
    return tuple(selected) if "".join(token for token, _ in selected) == text else ()


def pieces(decode: Callable[[Sequence[int]], str], ids: Sequence[int], text: str) -> list[str]:
    """Splits a text into one piece per token by decoding ever more tokens, for texts with bytes that are no characters.

    An incomplete character belongs to the token that completes it, or to the last one. Takes time quadratic in the
    number of tokens.
    """
    found: list[str] = []
    begin = 0
    for number in range(1, len(ids) + 1):
        whole = decode(ids[:number]).rstrip(INCOMPLETE)
        end = begin
        if number == len(ids):
            end = len(text)
        elif text.startswith(whole):
            end = max(begin, len(whole))
        found.append(text[begin:end])
        begin = end
    return found
