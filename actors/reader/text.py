"""Words, stems, names, sentences and tokens: how the embedded reader takes English text apart."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise

from actors.reader.lexicon import NUMBERS, STOP_WORDS

_WORD = re.compile(r"[^\W_]+(?:[.'’\-][^\W_]+)*")
_TOKEN = re.compile(r"\w+|[^\w\s]")
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"”']?\s+(?=[\"“(\[]?[A-Z0-9])")
_ABBREVIATION = re.compile(r"(?:\b(?:Mr|Mrs|Ms|Dr|St|Jr|Sr|No|vs)|\b[A-Z])\.$")
_CAPITAL = r"[A-Z0-9À-ÖØ-Þ][\w'’.&\-]*\w|[A-Z]\b"
_NAME = re.compile(rf"(?:{_CAPITAL})(?:\s+(?:(?:of|the|de|von|van|la|du)\s+){{0,2}}(?:{_CAPITAL}))*")
_IRREGULAR = dict(
    pair.split(":")
    for pair in """
        won:win wrote:write written:write sang:sing sung:sing birth:born color:colour colors:colour
        built:build held:hold began:begin made:make men:man women:woman children:child people:person
        took:take led:lead gray:grey shown:show worn:wear wore:wear taught:teach ran:run feet:foot
        mice:mouse lettering:letter grew:grow
    """.split()
)
LIST_SEPARATOR = re.compile(r",\s+(?:and\s+)?|\s+and\s+")
# In this order, as the first that fits is taken off: `ations` before `ions` before `s`.
_SUFFIXES = "ations ation ings ing ions ion ers ors er or ies ied ed es s y e".split()


def words(text: str) -> list[str]:
    """Words and numbers in order, lower case, possessive endings removed."""
    return [word.replace("’", "'").removesuffix("'s") for word in _WORD.findall(text.lower())]


@lru_cache(maxsize=1 << 16)
def stem(word: str) -> str:
    """A light stem of a lower-case word: `directed`, `director` and `directs` meet in `direct`."""
    word = _IRREGULAR.get(word, word)
    if word.isdigit() or len(word) < 4:
        return word
    for suffix in _SUFFIXES:
        # `glass` is no plural.
        if suffix == "s" and word.endswith("ss"):
            continue
        # Three letters have to be left, or short words would lose what tells them apart.
        if word.endswith(suffix) and len(word) - len(suffix) >= 3:
            word = word[: -len(suffix)]
            break
    # `running` and `runs` meet in `run`.
    if len(word) > 3 and word[-1] == word[-2]:
        return word[:-1]
    return word.rstrip("e") if len(word) > 4 else word


def content_stems(text: str) -> list[str]:
    """Stems of the words that carry content, in order, repetitions kept."""
    return [stem(word) for word in words(text) if word not in STOP_WORDS]


def features(text: str) -> list[str]:
    """Content stems and pairs of neighbours, which tell "red ball, blue hat" from "blue ball, red hat"."""
    single = content_stems(text)
    return [*single, *(f"{first} {second}" for first, second in pairwise(single) if first != second)]


@lru_cache(maxsize=1 << 14)
def normal_name(name: str) -> str:
    """The form under which two mentions of a name are one: lower case, no article, no bracketed addition."""
    # A name that is all in brackets is kept.
    parts = words(re.sub(r"\s*\([^)]*\)", "", name) or name)
    return " ".join(parts[1:] if len(parts) > 1 and parts[0] in ("the", "a", "an") else parts)


def name_spans(text: str) -> list[tuple[str, int, int]]:
    """Capitalised names in a sentence as (name, start, end), without an opening function word."""
    spans = []
    for match in _NAME.finditer(text):
        start, name = match.start(), match[0]
        first, _, rest = name.partition(" ")
        if first.lower() in STOP_WORDS:  # an opening "The" or "In" belongs to the sentence, not to the name
            if not rest or not rest[0].isupper():
                continue
            start, name = start + len(first) + 1, rest
        # Numbers name nothing, in digits or in words.
        if not name.isdigit() and name.lower() not in NUMBERS:
            spans.append((name, start, match.end()))
    return spans


def sentences(text: str) -> list[str]:
    """Sentences of a passage; initials and titles such as `Dr.` do not end one."""
    parts: list[str] = []
    for part in _SENTENCE_END.split(text):
        if parts and _ABBREVIATION.search(parts[-1]):
            parts[-1] = f"{parts[-1]} {part}"
        elif part.strip():
            parts.append(part.strip())
    return parts


def count_tokens(text: str) -> int:
    """Words and punctuation marks: a deterministic stand-in for a tokeniser's count."""
    return len(_TOKEN.findall(text))


def cut_to_tokens(text: str, limit: int) -> str:
    """The longest beginning of `text` that has at most `limit` tokens."""
    for number, match in enumerate(_TOKEN.finditer(text)):
        if number == limit:
            return text[: match.start()].rstrip()
    return text
