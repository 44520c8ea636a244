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
    right = normalised(written(gold, scale))
    scores = [(0.0, 0.0)]
    whole = scaled((answer.strip(),))
    for reading in (whole, *listed(answer)):
        # Only a clear list, or numbers, can be partly right: commas and "and" in a sentence are words of it.
        numbers = len(gold) > 1 and are_numbers(reading[0])
        partly = not computed and (reading == whole or is_clear(answer) or numbers)
        (first, *others), of_answer = reading
        texts = [written(reading[0], of_answer)]
        if not others and not of_answer and "%" not in first and (value := number_of(first)) is not None:
            texts.append(f"{value:.4f}")  # 0.2342 may stand for 23.42%, and `written` would round it
        for text in map(normalised, texts):
            equal = f1 = float(text == right)
            words, own = set(text.split()), set(right.split())
            if partly and (common := len(words & own)):
                precision, recall = common / len(words), common / len(own)
                f1 = 2 * precision * recall / (precision + recall)  # in the script's order, as it is rounded
            elif partly:
                f1 = float(words == own)  # neither has any
            scores.append((equal, round(f1, 2)))
    return max(scores)
