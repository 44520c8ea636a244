"""Agreement of texts: ROUGE-L and BLEU, both symmetric, and their mean (HM-RAG, Eqs. 13 and 14).

rouge-score and sacrebleu count; the equations' own factors are applied to their counts. Decided here:

- Eq. 13 prints the same length twice in its maximum, read here as the length of the longer text: R_L is the smaller of
  ROUGE-L's precision and recall.
- Eq. 14 is not symmetric: the mean of both directions is taken. Its factor min(1, |S_j| / |S_i|) replaces BLEU's own
  brevity penalty exp(1 - |S_i| / |S_j|).
- n-grams have up to four words with equal weights w_n. sacrebleu's `exp` smooths a precision of zero by halving.
- A text without a word agrees with nothing, not even itself.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations
from types import SimpleNamespace
from typing import Any

# The paper gives neither the weights nor the threshold.
ROUGE_WEIGHT = 0.5  # the rest is BLEU's
THRESHOLD = 0.5  # least agreement of any two summaries


def least_agreement(texts: Sequence[str]) -> float:
    """Agreement of the two texts that agree least, in [0, 1]. 0 for fewer than two texts."""
    return min((agreement(first, second) for first, second in combinations(texts, 2)), default=0.0)


def agreement(first: str, second: str) -> float:
    """Weighted mean of ROUGE-L and BLEU, in [0, 1]."""
    bleu = (_bleu(first, second) + _bleu(second, first)) / 2
    return ROUGE_WEIGHT * rouge_l(first, second) + (1 - ROUGE_WEIGHT) * bleu


def rouge_l(first: str, second: str) -> float:
    """Eq. 13: the longest common subsequence of words over the longer text's length, in [0, 1]."""
    score = _scorers()[0].score(first, second)["rougeL"]
    return float(min(score.precision, score.recall))


def _bleu(reference: str, candidate: str) -> float:
    """Eq. 14: n-gram precision of S_j = `candidate` against S_i = `reference`, times min(1, |S_j| / |S_i|)."""
    reference, candidate = (" ".join(words(text)) for text in (reference, candidate))
    if not reference or not candidate:
        return 0.0
    score = _scorers()[1].sentence_score(candidate, [reference])
    # In percent, with a brevity penalty that Eq. 14 lacks. Rounding may lift a full precision a little above 1.
    return float(min(1.0, score.score / 100 / score.bp) * min(1.0, score.sys_len / score.ref_len))


def words(text: str) -> list[str]:
    """Splits a text into words; rouge-score's own tokeniser drops every letter that is not English."""
    return re.findall(r"\w+", text.lower())


@lru_cache(maxsize=1)
def _scorers() -> tuple[Any, Any]:
    # Takes half a second, which only this system should.
    from rouge_score.rouge_scorer import RougeScorer
    from sacrebleu.metrics.bleu import BLEU

    # `_bleu` passes words. Short texts have no 4-grams, which would make every score 0 without `effective_order`.
    rouge = RougeScorer(["rougeL"], tokenizer=SimpleNamespace(tokenize=words))
    return rouge, BLEU(effective_order=True, tokenize="none")
