"""Reads amounts as TAT-QA's official script does: with sign, percent and scale, alone or in a list.

`12%` is 0.12, `(12)` is -12 and `1.2 million` is 1,200,000. A minus may also be U+2212; the script reads only `-`.
"""

import math
import re
import string
from collections.abc import Sequence

SCALES = {"hundred": 100.0, "thousand": 1e3, "million": 1e6, "billion": 1e9, "percent": 0.01}
_WITHOUT_SIGNS = str.maketrans("", "", "'\"\\$€£¥%(),[]")
_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)
_CLEAR = re.compile(r"[;\n]")
_SEPARATORS = (re.compile(r",\s"), re.compile(r",\s|\band\b"))
_WITH_SCALE = re.compile(r"(.*\S)\s+\(?(?:in )?(thousand|million|billion|percent)s?\)?\.?", re.IGNORECASE | re.DOTALL)

Reading = tuple[tuple[str, ...], str]
"""Answers and their common scale, "" for none."""


def number_of(text: str) -> float | None:
    """Reads a number with or without a scale, to four places; None for any other text."""
    words = text.replace("\u2212", "-").translate(_WITHOUT_SIGNS).split()
    try:
        value = float(words[0])
    except (IndexError, ValueError):
        return None
    if not math.isfinite(value) or (len(words) > 1 and _scale(words[1]) is None):
        return None

    with_unit = re.search(r"(?<![\d.])[\d.]++\s?[a-zA-Z]+", text)
    if with_unit:
        value *= _scale(with_unit[0]) or 1.0
    if re.search(r"\([\d.\s]+\)", text):
        value = -value
    if re.search(r"[\d.\s]%", text):
        value *= 0.01
    return round(value, 4)


def _scale(text: str) -> float | None:
    return next((value for scale, value in SCALES.items() if scale in text.lower()), None)


def written(answers: Sequence[str], scale: str) -> str:
    """Writes answers and their common scale as one text, sorted, numbers with four places."""
    texts = []
    for text in sorted(answers):
        value = number_of(text)
        if value is None:
            texts.append(f"{text} {scale}".strip())
            continue
        # A number with a percent sign has its scale already.
        if "%" not in text:
            value = round(value, 2) * SCALES.get(scale, 1)
        texts.append(f"{value:.4f}")
    return " ".join(texts)


def normalised(text: str) -> str:
    """Lower case without articles and punctuation; each word that is a number as a float."""
    words: list[str] = []
    for token in text.lower().split(" "):
        without_punctuation = token.translate(_WITHOUT_PUNCTUATION)
        for form in (token, without_punctuation):
            value = number_of(form)
            if value is not None:
                # As the script does: 2019 in a text is not the 2019.0000 that `written` makes of a number alone.
                has_fraction = re.search(r"\.\d|%", form)
                words.append(str(value) if has_fraction else str(int(value)))
                break
        else:
            words += re.sub(r"\b(?:a|an|the)\b", " ", without_punctuation).split()
    return " ".join(words)


def listed(answer: str) -> tuple[Reading, ...]:
    """Returns the lists with a scale that a text may stand for, the longest last.

    The official script is given a list and a scale; a model writes both into one text, such as `4.1 and 4.6 percent`.
    Semicolons and line breaks clearly separate answers. Without them commas may, and commas and "and". A text of
    separators alone is one answer.
    """
    separators = (_CLEAR,) if is_clear(answer) else _SEPARATORS
    splits: list[tuple[str, ...]] = []
    for separator in separators:
        parts = [part.strip() for part in separator.split(answer)]
        splits.append(tuple(filter(None, parts)) or (answer.strip(),))
    return tuple(map(scaled, dict.fromkeys(splits)))


def is_clear(answer: str) -> bool:
    """True for a text with separators that no single answer has."""
    return _CLEAR.search(answer) is not None


def scaled(parts: tuple[str, ...]) -> Reading:
    """Takes out the scale that all numbers share. It follows the last number or each of them."""
    amounts = []
    scales = set()
    for part in parts:
        amount = part
        match = _WITH_SCALE.fullmatch(part)
        if match is not None and number_of(match[1]) is not None:
            amount = match[1]
            scales.add(match[2].lower())
        amounts.append(amount)

    last_has_scale = bool(parts) and amounts[-1] != parts[-1]
    if not last_has_scale or len(scales) > 1:
        return parts, ""
    return tuple(amounts), scales.pop()


def are_numbers(answers: Sequence[str]) -> bool:
    return bool(answers) and all(number_of(text) is not None for text in answers)


def amounts_form(answer: str) -> str | None:
    """Returns the form in which amounts are compared. None for an answer with other parts than numbers."""
    answers, scale = listed(answer)[-1]
    if not are_numbers(answers):
        return None
    return normalised(written(answers, scale))
