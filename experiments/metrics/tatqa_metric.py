"""TAT-QA's official metric: exact match and F1 of an answer with its scale. The script is tatqa_metric.py of
NExTplusplus/TAT-QA.

A number counts with its sign and scale, a list in any order. Unlike the script, `.5` is 0.5, not the same as any other
number without a leading zero, and U+2212 is a minus.
"""

from collections.abc import Sequence

from topologies.amounts import are_numbers, is_clear, listed, normalised, number_of, scaled, written
from topologies.answers import wording


def official_score(answer: str, gold: Sequence[str], scale: str, *, computed: bool) -> tuple[float, float]:
    """Exact match and F1 in [0, 1], of the better reading. Of a `computed` gold answer, half right is wrong."""
    if not scale and wording(answer) == wording("; ".join(gold)):
        return 1.0, 1.0  # whatever the script makes of its numbers

    gold_text = normalised(written(gold, scale))
    best = (0.0, 0.0)
    whole = scaled((answer.strip(),))

    for reading in (whole, *listed(answer)):
        spans, reading_scale = reading
        # Only a clear list, or numbers, can be partly right: commas and "and" in a sentence are words of it.
        lists_numbers = len(gold) > 1 and are_numbers(spans)
        counts_parts = not computed and (reading == whole or is_clear(answer) or lists_numbers)
        texts = [written(spans, reading_scale)]
        if len(spans) == 1 and not reading_scale and "%" not in spans[0]:
            value = number_of(spans[0])
            if value is not None:
                texts.append(f"{value:.4f}")  # 0.2342 may stand for 23.42%, and `written` would round it

        for text in map(normalised, texts):
            exact = float(text == gold_text)
            f1 = _bag_f1(text, gold_text) if counts_parts else exact
            best = max(best, (exact, round(f1, 2)))

    return best


def _bag_f1(text: str, gold_text: str) -> float:
    """F1 of two sets of words. Two texts without words are equal."""
    words = set(text.split())
    gold_words = set(gold_text.split())
    common = len(words & gold_words)
    if not common:
        return float(words == gold_words)
    precision = common / len(words)
    recall = common / len(gold_words)
    return 2 * precision * recall / (precision + recall)  # in the script's order, as it is rounded
