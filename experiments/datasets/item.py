"""Labelled questions over a corpus of sources, as a loader yields them. No agent or method sees a label."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from actors.messages import Question, Source
from experiments.metrics.answer_metrics import exact_match, list_f1, strict_exact_match
from topologies.answers import choice_of

# Finds the titles of the sources with these ids, by id.
TitlesOf = Callable[[Collection[str]], dict[str, str]]


@dataclass(frozen=True, slots=True)
class Item:
    """A question with its label. Sources are named by their documents (`Source.doc`).

    pool: the question's own sources, distractors included.
    supporting: sources that hold its answer.
    withheld: sources that would give the label away, and are never retrieved for this question.
    own: sources that are part of the question (its hint, its picture), which every method is shown; also in the pool.
    paths: paths through the data set's own knowledge graph to the answer, each as its entities in order.
    topics: entities from which a search in that graph may start.
    tags: properties by which reports group questions (type, subject, grade, ...).
    group: items with one group are one question asked several times: it counts once, with the lowest of their scores.
    cluster: the document, table, lecture or picture that questions share, so that their scores are not independent;
        empty for a question that shares none.
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
    cluster: str = ""


@dataclass(frozen=True, slots=True)
class Score:
    """Score of an answer, all values in [0, 1].

    utility: the data set's own metric (exact match or accuracy), the phi of Eq. 7.
    strict_em: exact match without containment, where `utility` accepts an answer that contains the gold one; else None.
    """

    utility: float
    f1: float
    strict_em: float | None = None


def text_score(item: Item, answer: str | None) -> Score:
    """Scores free text: M³Prune's EM (containment), F1 and strict EM of MultimodalQA's script."""
    if answer is None:
        return Score(0.0, 0.0, 0.0)
    return Score(
        utility=exact_match(answer, item.gold),
        f1=list_f1(answer, item.gold),
        strict_em=strict_exact_match(answer, item.gold),
    )


def choice_score(item: Item, answer: str | None) -> Score:
    """Scores multiple choice. An answer that names the right choice and no other has 1, others 0."""
    choices = item.question.choices
    place = None if answer is None else choice_of(answer, choices)
    # By text, not by place: two choices of a question may be the same words.
    accuracy = float(place is not None and choices[place] == item.gold[0])
    return Score(accuracy, accuracy)


class Dataset(Protocol):
    """A benchmark on disk. Iterators read lazily, in a fixed order; the two splits never share a question.

    It may have `check_files()`, which raises UserError for missing files, and `notes` for the user on this copy.
    """

    name: str
    metric: str

    def train(self) -> Iterator[Item]: ...

    def evaluate(self) -> Iterator[Item]: ...

    def corpus(self) -> Iterator[Source]:
        """Every source of the benchmark, once."""

    def score(self, item: Item, answer: str | None) -> Score:
        """An answer of None (no usable reply) scores zero and is never replaced by a guess."""


class Subset:
    """Data set of which some questions are evaluated, `items`."""

    def __init__(self, dataset: Dataset, items: Sequence[Item]) -> None:
        self.whole = dataset
        self.name = dataset.name
        self.metric = dataset.metric
        self.items = items
        self.train = dataset.train
        self.corpus = dataset.corpus
        self.score = dataset.score

    def evaluate(self) -> Iterator[Item]:
        return iter(self.items)
