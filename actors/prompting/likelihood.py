"""Computes the probabilities that a model gives to its choices, from the tokens of its reply."""

import re
from collections.abc import Callable, Iterable, Sequence
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
    if not completion.tokens or _text_of(completion.tokens) != completion.text:
        return ()
    values = dict(reply.fields)
    shares: list[tuple[str, float]] = []
    for field in form.fields:
        value = values.get(field.name)
        if field.value is Value.ANSWER:
            value = value or reply.answer
        elif field.many or not field.values:
            continue
        if not value:
            continue
        logs = _logs_of(field, value, form.choices, completion)
        if logs:
            is_free = field.value is Value.ANSWER and not form.choices
            number = len(logs) if is_free else 1
            shares.append((field.name, min(1.0, exp(sum(logs) / number))))
    return tuple(shares)


def _text_of(tokens: Tokens) -> str:
    return "".join(token for token, _ in tokens)


def _logs_of(field: Field, value: str, choices: tuple[str, ...], completion: Completion) -> list[float]:
    """Returns the log-probabilities of the tokens of a field's value, behind its last label."""
    spellings = [value]
    if field.value is Value.ANSWER and value in choices:
        spellings.append(letters(choices)[choices.index(value)])
    spellings.sort(key=len, reverse=True)
    spelling = "|".join(map(re.escape, spellings))
    label = rf"(?:\"{re.escape(key(field))}\"|{re.escape(field.name)})\W{{0,8}}?"
    start = 0
    end = 0
    for statement in re.finditer(rf"{label}(?P<value>{spelling})(?!\w)", completion.text, re.IGNORECASE):
        start, end = statement.span("value")

    logs = []
    token_end = 0
    for token, log in completion.tokens:
        token_start = token_end
        token_end += len(token)
        if token_start < end and token_end > start:
            logs.append(log)
    return logs


def of_text(tokens: Iterable[tuple[str, float]], text: str) -> Tokens:
    """Selects the last tokens that make up a text, with their natural log-probabilities, from all generated tokens.

    Engines also list tokens outside of the text: the end of the turn, or the model's thoughts. Returns () where no
    sequence of whole tokens equals the text.
    """
    generated = tuple(tokens)
    whole = _text_of(generated)
    bounds = [0]
    for token, _ in generated:
        bounds.append(bounds[-1] + len(token))
    number_at = {bound: number for number, bound in enumerate(bounds)}
    for begin in sorted(number_at, reverse=True):
        end = begin + len(text)
        if end in number_at and whole.startswith(text, begin):
            return generated[bounds.index(begin) : number_at[end]]
    return ()


def pieces(decode: Callable[[Sequence[int]], str], ids: Sequence[int], text: str) -> list[str]:
    """Splits a text into one piece per token by decoding ever more tokens, for texts with bytes that are no characters.

    An incomplete character belongs to the token that completes it, or to the last one. Takes time quadratic in the
    number of tokens.
    """
    parts: list[str] = []
    begin = 0
    for number in range(1, len(ids)):
        beginning = decode(ids[:number]).rstrip(INCOMPLETE)
        end = begin
        if text.startswith(beginning):
            end = max(begin, len(beginning))
        parts.append(text[begin:end])
        begin = end
    if ids:
        parts.append(text[begin:])
    return parts
