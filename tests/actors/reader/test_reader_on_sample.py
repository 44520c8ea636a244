"""The embedded reader on the generated sample, with the evidence chosen for it."""

from dataclasses import replace

import pytest

from actors.agents.roles import SINGLE
from actors.messages import Modality, Role, Source, Turn, derive_seed
from actors.prompting.prompt import build_request
from actors.prompting.reply import parse_reply
from actors.reader.reader import Reader, ReaderSettings
from experiments.datasets.mmqa import Mmqa
from experiments.datasets.sample.release import write_sample


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> tuple[Mmqa, dict[str, list[Source]]]:
    folder = tmp_path_factory.mktemp("data") / "sample"
    write_sample(folder, seed=3, train=0, dev=80)
    by_doc: dict[str, list[Source]] = {}
    data = Mmqa.at(folder)
    for source in data.corpus():
        by_doc.setdefault(source.doc, []).append(source)
    return data, by_doc


def on_the_sample(
    sample: tuple[Mmqa, dict[str, list[Source]]], modality: Modality, distractors: int = 6
) -> list[tuple[float, float]]:
    """(confidence, utility) per question, evidence being all that supports it and some that does not; 0 for unknown."""
    data, by_doc = sample
    reader = Reader(ReaderSettings())
    outcomes = []
    for item in data.evaluate():
        others = [doc for doc in item.pool if doc not in item.supporting][:: max(1, 24 // max(1, distractors))]
        docs = (*item.supporting, *others[:distractors]) if distractors >= 0 else ()
        evidence = tuple(source for doc in docs for source in by_doc[doc])
        turn = Turn("d", replace(item.question, evidence=evidence), "a", 1, derive_seed(1, item.question.id))
        parsed = parse_reply(reader.read(build_request(turn, Role("", modality, SINGLE.instruction))).text)
        assert parsed is not None
        outcomes.append((parsed.confidence or 0.0, data.score(item, parsed.answer).utility))
    return outcomes


def mean_utility(outcomes: list[tuple[float, float]]) -> float:
    return sum(utility for _, utility in outcomes) / len(outcomes)


def test_both_modalities_together_tell_more_than_either_and_nothing_is_known_without(
    sample: tuple[Mmqa, dict[str, list[Source]]],
) -> None:
    both = mean_utility(on_the_sample(sample, Modality.BOTH))
    assert both > 1.2 * mean_utility(on_the_sample(sample, Modality.TEXT))
    assert both > 1.2 * mean_utility(on_the_sample(sample, Modality.VISUAL))
    assert mean_utility(on_the_sample(sample, Modality.BOTH, distractors=-1)) < 0.1


def test_confidence_tells_right_from_wrong_answers(sample: tuple[Mmqa, dict[str, list[Source]]]) -> None:
    outcomes = on_the_sample(sample, Modality.BOTH)
    right = [confidence for confidence, utility in outcomes if utility == 1]
    wrong = [confidence for confidence, utility in outcomes if utility < 1]
    wins = sum((r > w) + 0.5 * (r == w) for r in right for w in wrong)
    assert wins / (len(right) * len(wrong)) > 0.6
