"""Agreement of texts is what rouge-score and sacrebleu count, symmetric, and between 0 and 1 (HM-RAG, Eqs. 13, 14)."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rouge_score.rouge_scorer import RougeScorer  # type: ignore[import-untyped]
from sacrebleu.metrics.bleu import BLEU

from topologies.systems.hm_rag.consistency import agreement, bleu, least_agreement, rouge_l

PAIRS = [
    ("the old bridge crosses the wide river at noon", "the old bridge crosses the river at noon every day"),
    ("Amber Garden was filmed in Goskwick", "it was filmed in Goskwick, said Amber"),
    ("one two three four five six", "six five four three two one"),
    ("a red house stands here", "a red house stands here"),
]
TEXTS = st.lists(st.sampled_from("the old red bridge crosses été 1971 river".split()), max_size=9).map(" ".join)


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_rouge_l_is_the_lesser_of_the_librarys_precision_and_recall(first: str, second: str) -> None:
    theirs = RougeScorer(["rougeL"]).score(first, second)["rougeL"]
    assert rouge_l(first, second) == pytest.approx(min(theirs.precision, theirs.recall))


def test_rouge_l_is_the_common_subsequence_over_the_longer_text() -> None:
    assert rouge_l("the bridge is red", "the old bridge is painted red today") == pytest.approx(4 / 7)


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_bleu_is_sacrebleus_but_for_the_brevity_factor_of_the_paper(first: str, second: str) -> None:
    expected = []
    for said, reference in ((first, second), (second, first)):
        score = BLEU(effective_order=True, lowercase=True, tokenize="none").sentence_score(
            said.replace(",", ""), [reference.replace(",", "")]
        )
        geometric = math.exp(sum(math.log(p / 100) for p in score.precisions) / 4)
        expected.append(geometric * min(1.0, score.sys_len / score.ref_len))
    assert bleu(first, second) == pytest.approx(sum(expected) / 2, rel=1e-6)


@settings(max_examples=80)
@given(TEXTS, TEXTS, st.floats(0, 1))
def test_agreement_is_symmetric_and_bounded(first: str, second: str, weight: float) -> None:
    value = agreement(first, second, weight)
    assert 0.0 <= value <= 1.0
    assert value == pytest.approx(agreement(second, first, weight))


def test_equal_texts_agree_fully_and_texts_without_a_common_word_not_at_all() -> None:
    assert agreement("The Old Bridge", "the old bridge.") == pytest.approx(1.0)
    assert agreement("été", "été") == pytest.approx(1.0)
    assert agreement("red house", "blue boat") == 0.0
    assert agreement("", "") == 0.0 == agreement("...", "...")


def test_the_fusion_is_weighted() -> None:
    first, second = PAIRS[0]
    assert agreement(first, second, 1.0) == rouge_l(first, second)
    assert agreement(first, second, 0.0) == bleu(first, second)
    assert agreement(first, second, 0.25) == pytest.approx(0.25 * rouge_l(first, second) + 0.75 * bleu(first, second))


def test_the_least_agreeing_pair_counts_and_a_lone_text_agrees_with_nobody() -> None:
    same, other = "the bridge is red", "boats sail far"
    assert least_agreement([same, same, other]) == 0.0
    assert least_agreement([same, same, same]) == pytest.approx(1.0)
    assert least_agreement([same]) == 0.0 == least_agreement([])
