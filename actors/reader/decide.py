"""Questions that are not answered by copying a phrase: comparisons, yes or no, given choices."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from actors.reader.ask import Want, parse_ask
from actors.reader.find import Entry, Found, View, answers, chains, ranked
from actors.reader.lexicon import COLOURS, NUMBERS
from actors.reader.text import content_stems, name_spans, normal_name, stem, words

_YEAR = re.compile(r"\b(?:1[0-9]{3}|20[0-9]{2})\b")
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
_COLOUR_STEMS = frozenset(map(stem, COLOURS))
_NEGATION = frozenset(("not", "never", "no", "without", "none"))
HINTED = 0.3
REPEATED = 0.05
FAINT = 0.1


def compare(at: View, entries: Sequence[Entry], hops: int) -> list[Found]:
    """Resolve both alternatives to something named in the evidence, read a number for each, order them."""
    resolved = [_resolve(at, entries, option, hops) for option in at.ask.options]
    group, smallest = at.ask.order or ("time", True)
    values: list[tuple[float, str, float, tuple[int, ...]]] = []
    for name, sure, chain in resolved:
        number = _number_of(at, entries, normal_name(name), group)
        if number is None:
            continue
        values.append((number[0], name, sure * number[1], (number[2], *chain)))
    if len(values) < 2 or values[0][0] == values[1][0]:
        return [
            Found(name, normal_name(name), 0.3 * sure * (1 - 0.1 * i), chain)
            for i, (_, name, sure, chain) in enumerate(values)
        ]
    values.sort(key=lambda v: v[0], reverse=not smallest)
    chain = tuple(dict.fromkeys((*values[0][3], *values[1][3])))
    sure = min(values[0][2], values[1][2])
    return [
        Found(values[0][1], normal_name(values[0][1]), sure, chain),
        Found(values[1][1], normal_name(values[1][1]), 0.6 * sure, chain),
    ]


def _resolve(at: View, entries: Sequence[Entry], option: str, hops: int) -> tuple[str, float, tuple[int, ...]]:
    spelt = [option, *(name for name, _, _ in name_spans(option) if len(words(option)) - len(words(name)) <= 2)]
    for name in spelt:  # "Night River" or "the film Night River"
        for i, entry in enumerate(entries):
            if any(normal_name(name) == known for known, _ in entry.said.names):
                return name, 1.0, (i,)
    ask = parse_ask(option)
    inner = View(ask, _renormalised(at, ask.stems), at.kinds)
    described = [inner.entry(entry.said) for entry in entries]
    found = answers(described, chains(inner, described, hops))
    if not found:
        return option, 0.2, ()
    return found[0].text, found[0].value, found[0].chain


def _renormalised(at: View, stems: Sequence[str]) -> dict[str, float]:
    weights = {s: at.weights.get(s, 0.05) for s in stems}
    total = sum(weights.values()) or 1.0
    return {s: weight / total for s, weight in weights.items()}


def _number_of(at: View, entries: Sequence[Entry], key: str, group: str) -> tuple[float, float, int] | None:
    """The year or number that the statements about a name give it: (number, how sure, entry)."""
    best: tuple[float, float, int] | None = None
    asked = set(at.ask.stems)
    for i, entry in enumerate(entries):
        said = entry.said
        if not any(key == name for name, _ in said.names):
            continue
        options = [(header, value) for header, value in said.cells] or [(said.text, said.text)]
        for header, value in options:
            match = (
                _YEAR.search(value)
                if group == "time"
                else _NUMBER.search(_YEAR.sub("", value) if not said.cells else value)
            )
            if not match or key == normal_name(value):
                continue
            named = bool(asked & {stem(word) for word in words(header)}) if said.cells else False
            own = said.cells or normal_name(said.title) == key
            sure = said.trust * (0.5 + 0.25 * bool(own) + 0.15 * named + 0.1 * at.covered(entry.mask))
            if best is None or sure > best[1]:
                best = (float(match[0].replace(",", "")), sure, i)
    return best


def yes_or_no(at: View, entries: Sequence[Entry], hops: int) -> list[Found]:
    """Yes when a chain covers (nearly) all that is asked; no when it is about the subject and says something else."""
    reached = chains(at, entries, hops)
    if not reached:
        return []
    best = max(range(len(entries)), key=lambda i: (reached[i][0], -i))
    strength, chain = reached[best]
    stated: set[str] = set()
    for i in chain:
        stated.update(entries[i].said.stems)
    missing = [s for s in at.ask.stems if s not in stated and at.weights[s] > 0]
    lacking = sum(at.weights[s] for s in missing)
    named = {stem(word) for name in at.ask.names for word in name.split()}
    contradicted = any(s in _COLOUR_STEMS or s in NUMBERS or s in named or s.isdigit() for s in missing)
    negated = bool(_NEGATION & {word for i in chain for word in words(entries[i].said.text)} - set(words(at.ask.text)))
    if strength < 0.3:
        return []
    yes = 1 - lacking if not contradicted else 0.4 * (1 - lacking)
    no = lacking * 1.6 + 0.35 * contradicted + 0.3 * negated
    total = yes + no or 1.0
    return ranked([Found("yes", "yes", strength * yes / total, chain), Found("no", "no", strength * no / total, chain)])


def choose(at: View, entries: Sequence[Entry], choices: Sequence[str], hops: int) -> list[Found]:
    """Each choice by its overlap with what bears on the question, words that fewer choices have counting more.

    A choice of which no word occurs may still have the faint support of its spelling (`magnetic` where `magnets` is
    said); one that nothing supports is not an option.
    """
    reached = chains(at, entries, hops)
    own = [set(content_stems(choice)) for choice in choices]
    shares = Counter(stem for stems in own for stem in stems)
    asked = set(at.ask.stems)
    there = [set(entry.said.stems) for entry in entries]
    spelt = _runs(" ".join([at.ask.text, *(f"{e.said.title} {e.said.text}" for e in entries)]))
    found = []
    for choice, stems in zip(choices, own, strict=True):
        rare = {stem: 1.0 / shares[stem] for stem in sorted(stems)}
        total = sum(rare.values()) or 1.0
        best: tuple[int, ...] = ()
        support = repeated = 0.0
        for entry, said, (strength, chain) in zip(entries, there, reached, strict=True):
            overlap = sum(weight for stem, weight in rare.items() if stem in said) / total
            value = overlap * (0.3 + 0.7 * strength) * entry.said.trust
            repeated += value
            if value > support:
                best, support = chain, value
        hinted = sum(weight for stem, weight in rare.items() if stem in asked) / total
        parts = _runs(choice)
        faint = FAINT * len(parts & spelt) / (len(parts) or 1)
        found.append(
            Found(
                choice,
                normal_name(choice),
                min(1.0, support + REPEATED * (repeated - support) + HINTED * hinted + faint),
                best,
            )
        )
    return ranked(f for f in found if f.value > 0)


def _runs(text: str) -> set[str]:
    """Runs of four letters within content stems."""
    return {stem[i : i + 4] for stem in set(content_stems(text)) for i in range(len(stem) - 3)}


def listed(found: Sequence[Found], at: View, nearly: float = 0.93) -> Sequence[Found]:
    """For a question that asks for several: all answers that stand nearly as well as the best, as one."""
    if not found or not at.ask.several or at.ask.want not in (Want.THING, Want.PERSON, Want.PLACE):
        return found
    together = [f for f in found if f.value >= nearly * found[0].value]
    if len(together) < 2:
        return found
    text = ", ".join(f.text for f in together)
    chain = tuple(dict.fromkeys(i for f in together for i in f.chain))
    return [Found(text, normal_name(text), found[0].value, chain), *found[len(together) :]]
