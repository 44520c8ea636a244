"""Labelled questions over a corpus of sources, as a loader yields them. No agent or method sees a label."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from actors.messages import Question, Source
from experiments.metrics.answer_metrics import choice_of, exact_match, list_f1, strict_exact_match


@dataclass(frozen=True, slots=True)
class Item:
    """A question with its label.

    `pool` and `supporting` are `Source.doc` ids: the question's own sources (distractors included) and those that
    hold its answer. `own` are those that are part of the question itself (its hint, its picture), which even a method
    that retrieves nothing is shown; they are in the pool as well. A source named in `withheld` would give the label
    away and is never retrieved for this question.
    `paths` are those through the data set's own knowledge graph that lead to the answer, each as its entities from the
    first to the last, and `topics` the entities that a search in that graph may start from. `tags` are what reports
    group by (question type, subject, grade, ...). Items with the same `group` are one question asked several times
    over: it counts once, with the least that any of them scores.
    """

    question: Question
    gold: tuple[str, ...]
    pool: tuple[str, ...] = ()
    supporting: tuple[str, ...] = ()
    withheld: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    paths: tuple[tuple[str, ...], ...] = ()
    topics: tuple[str, ...] = ()
    tags: Mapping[str, str] = field(default_factory=dict)
    group: str = ""


@dataclass(frozen=True, slots=True)
class Score:
    """The score of an answer, all values in [0, 1].

    `utility` is the data set's own metric (exact match or accuracy), the phi of Eq. 7. Where that accepts an answer
    which merely contains the gold one, `strict_em` is the exact match that does not; None elsewhere.
    """

    utility: float
    f1: float
    strict_em: float | None = None


def text_score(item: Item, answer: str | None) -> Score:
    """M3Prune's EM (containment), and F1 and strict EM of MultimodalQA's script, of an answer in free text."""
    if answer is None:
        return Score(0.0, 0.0, 0.0)
    gold = item.gold
    return Score(exact_match(answer, gold), list_f1(answer, gold), strict_exact_match(answer, gold))


def choice_score(item: Item, answer: str | None) -> Score:
    """Accuracy of multiple choice, without partial credit: the answer names the right choice and no other."""
    if answer is None:
        return Score(0.0, 0.0)
    choices = item.question.choices
    # An answer that names no choice, or several, is None here and equals no index.
    accuracy = float(choice_of(answer, choices) == choices.index(item.gold[0]))
    return Score(accuracy, accuracy)


class Dataset(Protocol):
    """A benchmark on disk. Iterators read lazily, in a fixed order; the two splits never share a question."""

    name: str
    metric: str

    def train(self) -> Iterator[Item]: ...

    def evaluate(self) -> Iterator[Item]: ...

    def corpus(self) -> Iterator[Source]:
        """Every source of the benchmark, once."""

    def score(self, item: Item, answer: str | None) -> Score:
        """An answer of None (no usable reply) scores zero and is never replaced by a guess."""
