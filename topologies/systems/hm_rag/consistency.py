"""Agreement of texts: ROUGE-L and BLEU, both symmetric, and their weighted fusion (HM-RAG, Eqs. 13 and 14).

rouge-score and sacrebleu count; the equations' own factors are applied to what they count. Left open and decided:

- Eq. 13 prints the same length twice in its maximum: it is read as that of the longer text, so that R_L is the smaller
  of ROUGE-L's precision and recall.
- Eq. 14 is not symmetric: the mean of both directions is taken. Its factor min(1, |S_j| / |S_i|) is kept, and is not
  BLEU's own brevity penalty exp(1 - |S_i| / |S_j|).
- n-grams up to four words with equal weights w_n, or up to as many words as the text has; a precision of zero is
  smoothed by halving (sacrebleu's `exp`), as summaries are short.
- A text without a word agrees with nothing, itself included.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations
from typing import Any

_WORD = re.compile(r"\w+")


def rouge_l(first: str, second: str) -> float:
    """Eq. 13: the longest common subsequence of words over the longer text's length, in [0, 1]."""
    if not _words(first) or not _words(second):
        return 0.0
    score = _rouge().score(first, second)["rougeL"]
    # The smaller of the two divides by the longer text (see Eq. 13 above).
    return float(min(score.precision, score.recall))


def bleu(first: str, second: str) -> float:
    """Eq. 14, the mean of both directions, in [0, 1]."""
    return (_bleu(first, second) + _bleu(second, first)) / 2


def agreement(first: str, second: str, rouge_weight: float = 0.5) -> float:
    """The fusion of both, in [0, 1]; the paper does not give the weights."""
    return rouge_weight * rouge_l(first, second) + (1 - rouge_weight) * bleu(first, second)


def least_agreement(texts: Sequence[str], rouge_weight: float = 0.5) -> float:
    """The agreement of the two texts that agree least; 0 for fewer than two texts, as nothing bears out a lone one."""
    return min((agreement(first, second, rouge_weight) for first, second in combinations(texts, 2)), default=0.0)


def _bleu(reference: str, candidate: str) -> float:
    """The n-gram precision of S_j = `candidate` against S_i = `reference`, times min(1, |S_j| / |S_i|)."""
    candidate_words, reference_words = " ".join(_words(candidate)), " ".join(_words(reference))
    if not candidate_words or not reference_words:
        return 0.0
    score = _sacrebleu().sentence_score(candidate_words, [reference_words])
    # sacrebleu reports percent and multiplies by its own brevity penalty, which Eq. 14 does not have.
    precision = score.score / 100 / score.bp
    # Rounding may lift a full precision a little above 1.
    return float(min(1.0, precision) * min(1.0, score.sys_len / score.ref_len))


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


class _Words:
    """rouge-score's own tokeniser drops every letter that is not English."""

    def tokenize(self, text: str) -> list[str]:
        return _words(text)


@lru_cache(maxsize=1)
def _rouge() -> Any:
    from rouge_score.rouge_scorer import RougeScorer  # takes half a second, which only this system should

    return RougeScorer(["rougeL"], tokenizer=_Words())


@lru_cache(maxsize=1)
def _sacrebleu() -> Any:
    from sacrebleu.metrics.bleu import BLEU

    # Texts are split by `_words` before; short ones have no 4-grams, which would make every score 0.
    return BLEU(effective_order=True, tokenize="none")
