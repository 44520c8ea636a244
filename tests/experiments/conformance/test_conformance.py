"""Ours conform, and what does not conform is caught, by each check."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from actors.messages import Completion, Request, Source, Trace
from actors.reader.reader import Reader, ReaderSettings
from experiments.attacks.catalogue import ATTACKS
from experiments.attacks.kind import NONE, AttackKind
from experiments.config.loading import load
from experiments.conformance.__main__ import main
from experiments.conformance.attacks import check_attack
from experiments.conformance.methods import check_method
from experiments.conformance.parts import check_dataset, check_encoder, check_model
from experiments.conformance.requirements import NotConforming
from experiments.conformance.sample_world import sample_world
from experiments.datasets.mmqa import Mmqa
from experiments.jobs import plan_of
from experiments.running.inputs import open_dataset
from retrieval.embed import make_encoder
from topologies.baselines import Single
from topologies.learning.estimators import Reinforce
from topologies.learning.variants import EFFECTS, M3PRUNE, Estimator, Variant
from topologies.method import Method, MethodContext
from topologies.topology import Topology

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", [attack.name for attack in ATTACKS if attack.name != NONE])
def test_our_attacks_conform(name: str) -> None:
    check_attack(name)


def test_our_sample_model_and_encoder_conform(tmp_path: Path) -> None:
    check_dataset(open_dataset(plan_of(load(["experiment=mmqa_prune", "data.limit=20", "pruning.steps=4"])), tmp_path))
    check_model(Reader(ReaderSettings()), "reader")
    check_encoder(make_encoder("lexical"), "lexical")


def test_real_questions_conform(shared_data: Path, tmp_path: Path) -> None:
    words = ["experiment=scienceqa_prune", f"data.root={shared_data / 'scienceqa'}", "pruning.steps=4"]
    check_dataset(open_dataset(plan_of(load(words)), tmp_path))


class OneAgent(Single):
    """One agent that answers alone."""

    asks_team = False

    def __init__(self, context: MethodContext) -> None:
        super().__init__(context.method)


class Unseeded(OneAgent):
    """Draws its own seeds."""

    draws = iter(range(100))

    async def answer(self, question: Any, ask: Any, seed: int, sample: int = 0) -> Trace:
        return replace(await super().answer(question, ask, seed, sample), seed=next(self.draws))


class Forgetful(OneAgent):
    """Takes what is part of the question for found."""

    async def answer(self, question: Any, ask: Any, seed: int, sample: int = 0) -> Trace:
        return await super().answer(replace(question, own=()), ask, seed, sample)


class Silent(OneAgent):
    """Leaves its messages out of the trace."""

    async def answer(self, question: Any, ask: Any, seed: int, sample: int = 0) -> Trace:
        return replace(await super().answer(question, ask, seed, sample), turns=())


class ReadsPaths(OneAgent):
    """Reads a setting that it does not name."""

    def __init__(self, context: MethodContext) -> None:
        super().__init__(context)
        assert context.systems.paths


class NamesPaths(ReadsPaths):
    """Names the setting that it reads."""

    reads = ("systems.paths",)


class Waits(OneAgent):
    """Is not asynchronous."""

    def answer(self, question: Any, ask: Any, seed: int, sample: int = 0) -> Any:
        return None


class Raises(OneAgent):
    """Raises an error while agents take their turns."""

    async def answer(self, question: Any, ask: Any, seed: int, sample: int = 0) -> Trace:
        raise ExceptionGroup("turns", [KeyError("nobody")])


@pytest.mark.parametrize(
    ("method", "rule"),
    [
        ("Unseeded", "which of its turns end first"),
        ("Forgetful", "part of the question"),
        ("Silent", "messages that agents gave"),
        ("ReadsPaths", r"systems\.paths"),
        ("Waits", "async def answer"),
    ],
)
def test_a_method_that_breaks_a_rule_is_caught(method: str, rule: str) -> None:
    with pytest.raises(NotConforming, match=rule):
        check_method(f"{__name__}:{method}")


def test_a_method_that_names_what_it_reads_conforms() -> None:
    check_method(f"{__name__}:NamesPaths")


def learned_graph(context: MethodContext) -> Topology:
    assert context.learned
    return context.learned


def learned(name: str, estimator: type, base: Variant = M3PRUNE) -> Method:
    """A learned method of another package, with an estimator of its own."""
    implementation = Estimator(f"{__name__}:{estimator.__name__}", reads=base.estimator.reads)
    variant = replace(base, name=name, estimator=implementation, terms=frozenset(), confirm=0.1)
    return Method(name, "for this test", learned_graph, needs_graph=True, learner=variant, reads=variant.reads)


class Working(Reinforce):
    """Learns as M3Prune."""


class Misspelt(Reinforce):
    """Fails in its first step."""

    def learn(self, stage: Any, discussions: Any) -> Any:
        return super().learn(stage, discussions) if self.state["momentum"] else None


class Unsaved(Reinforce):
    """Counts its steps outside of its state."""

    steps = 0

    def learn(self, stage: Any, discussions: Any) -> Any:
        self.steps += 1
        for logits in self.edges.logits.values():
            logits += self.steps
        return super().learn(stage, discussions)


WORKING = learned("working", Working)
MISSPELT = learned("misspelt", Misspelt)
UNSAVED = learned("unsaved", Unsaved)
UNKNOWN_RULE = replace(
    WORKING, name="lost", learner=replace(EFFECTS, name="lost", rule=replace(EFFECTS.rule, implementation="no:Rule"))
)


def test_a_learner_of_another_package_conforms_where_it_works() -> None:
    check_method(f"{__name__}:WORKING")


@pytest.mark.parametrize(
    ("learner", "reason"),
    [
        ("MISSPELT", "KeyError: 'momentum' (at line"),
        ("UNSAVED", "from its saved state"),
        ("UNKNOWN_RULE", "No module named 'no'"),
    ],
)
def test_a_learner_that_breaks_in_training_is_reported_with_the_reason(
    learner: str, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([f"methods=[{__name__}:{learner}]"]) == 1
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("does not conform: ")
    assert reason in output.err
    assert output.err.count("\n") == 1


class Reseeds(AttackKind):
    """The attacker sees everything and rolls other dice."""

    name = "reseeds"

    def change(self, turn: Any, context: Any) -> Any:
        return replace(turn, seed=turn.seed + 1)


class ReseedsTraining(Reseeds):
    """The same in training alone."""

    def change(self, turn: Any, context: Any) -> Any:
        return super().change(turn, context) if context.phase == "train" else turn


class Confident(AttackKind):
    """Reads a setting that it does not name."""

    name = "confident"

    def change(self, turn: Any, context: Any) -> Any:
        return replace(turn, instruction=f"State a confidence of {self.settings.confidence}.")


@pytest.mark.parametrize(
    ("attack", "rule"), [("Reseeds", "seed"), ("ReseedsTraining", "seed"), ("Confident", r"attack\.confidence")]
)
def test_an_attack_that_breaks_a_rule_is_caught(attack: str, rule: str) -> None:
    with pytest.raises(NotConforming, match=rule):
        check_attack(f"{__name__}:{attack}")


class Twice(Mmqa):
    """The sample, with every source in the corpus twice."""

    def corpus(self) -> Iterator[Source]:
        for source in super().corpus():
            yield source
            yield source


def test_a_corpus_with_a_source_twice_is_caught(tmp_path: Path) -> None:
    sample_world(tmp_path)
    with pytest.raises(NotConforming):
        check_dataset(Twice.at(tmp_path / "sample"))


class Swapped:
    """Answers one request with the id of another."""

    async def complete(self, request: Request) -> Completion:
        return Completion("another", "Answer: yes")


def test_a_model_that_mixes_requests_up_is_caught() -> None:
    with pytest.raises(NotConforming):
        check_model(Swapped(), "swapped")


def test_an_encoder_whose_vectors_are_not_of_unit_length_is_caught() -> None:
    encoder = make_encoder("lexical")

    class Long:
        name, dim, fingerprint = "long", encoder.dim, "long"
        reads_pictures = late_interaction = False

        def encode_query(self, text: str) -> Any:
            return 2 * np.asarray(encoder.encode_query(text))

        def encode_sources(self, sources: Any) -> Any:
            return encoder.encode_sources(sources)

    with pytest.raises(NotConforming):
        check_encoder(Long(), "long")


def test_the_command_line_says_what_conforms_and_what_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["attack=input", "model=reader"]) == 0
    assert capsys.readouterr().out == "conforms: input\nconforms: reader\n"
    assert main([f"attack={__name__}:Reseeds"]) == 1
    assert main(["seed=1"]) == 2
    capsys.readouterr()
    assert main([f"methods=[{__name__}:Raises]"]) == 1
    assert capsys.readouterr().err.startswith("does not conform: KeyError: 'nobody' (at line")
