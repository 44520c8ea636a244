"""Ours conform, and what does not conform is caught, by each check."""

import asyncio
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
from experiments.conformance.methods import (
    MethodInWorld,
    check_labels,
    check_order,
    check_own,
    check_settings,
    check_transcript,
)
from experiments.conformance.parts import NotConforming, check_dataset, check_encoder, check_model
from experiments.conformance.scripted import SampleWorld, improvised, sample_world
from experiments.datasets.mmqa import Mmqa
from experiments.jobs import plan_of
from experiments.running.inputs import open_dataset
from retrieval.embed import make_encoder
from topologies.baselines import Single
from topologies.method import Method, MethodContext

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> SampleWorld:
    return sample_world(tmp_path_factory.mktemp("world"))


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


def method(answer: Any) -> Method:
    """A method of one agent whose `answer` is another one."""

    class Altered(Single):
        async def answer(self, question: Any, ask: Any, seed: int, sample: int = 0) -> Trace:
            altered: Trace = await answer(super().answer, question, ask, seed, sample)
            return altered

    def make(context: MethodContext) -> Altered:
        return Altered(context.method)

    return Method("altered", "for this test", make, asks_team=False)


def on(answer: Any, world: SampleWorld) -> MethodInWorld:
    return MethodInWorld(method(answer), load(["experiment=sp"]), world)


def test_a_method_whose_seed_is_its_own_is_caught(world: SampleWorld) -> None:
    draws = iter(range(100))

    async def unseeded(answer: Any, question: Any, ask: Any, seed: int, sample: int) -> Trace:
        trace: Trace = await answer(question, ask, seed, sample)
        return replace(trace, seed=next(draws))

    with pytest.raises(NotConforming):
        asyncio.run(check_order(on(unseeded, world)))


def test_a_method_that_knows_the_answer_is_caught(world: SampleWorld) -> None:
    labels = iter(("first", "second"))

    async def labelled(answer: Any, question: Any, ask: Any, seed: int, sample: int) -> Trace:
        trace: Trace = await answer(question, ask, seed, sample)
        return replace(trace, answer=next(labels))

    with pytest.raises(NotConforming):
        asyncio.run(check_labels(on(labelled, world)))


def test_a_method_that_takes_what_is_part_of_the_question_for_found_is_caught(world: SampleWorld) -> None:
    async def forgetful(answer: Any, question: Any, ask: Any, seed: int, sample: int) -> Trace:
        trace: Trace = await answer(replace(question, own=()), ask, seed, sample)
        return trace

    with pytest.raises(NotConforming):
        asyncio.run(check_own(on(forgetful, world)))


def test_a_message_that_is_left_out_of_the_trace_is_caught(world: SampleWorld) -> None:
    async def silent(answer: Any, question: Any, ask: Any, seed: int, sample: int) -> Trace:
        trace: Trace = await answer(question, ask, seed, sample)
        return replace(trace, turns=())

    subject = on(silent, world)
    observed = asyncio.run(subject.observe(improvised(1)))
    with pytest.raises(NotConforming):
        check_transcript(subject.method, observed)


def test_a_method_that_reads_a_setting_it_does_not_name_is_caught(world: SampleWorld) -> None:
    def make(context: MethodContext) -> Single:
        assert context.systems.paths
        return Single(context.method)

    subject = MethodInWorld(Method("reading", "for this test", make), load(["experiment=sp"]), world)
    with pytest.raises(NotConforming, match=r"systems\.paths"):
        asyncio.run(check_settings(subject))
    asyncio.run(check_settings(replace(subject, method=replace(subject.method, reads=("systems.paths",)))))


class Reseeds(AttackKind):
    """The attacker sees everything and rolls other dice."""

    name = "reseeds"

    def change(self, turn: Any, context: Any) -> Any:
        return replace(turn, seed=turn.seed + 1)


def test_an_attack_that_changes_which_turn_it_is_is_caught() -> None:
    with pytest.raises(NotConforming):
        check_attack(f"{__name__}:Reseeds")


class Shares(AttackKind):
    """The attacker reads a setting that it does not name."""

    name = "shares"

    def change(self, turn: Any, context: Any) -> Any:
        return replace(turn, instruction=f"{self.settings.share}")


def test_an_attack_that_reads_a_setting_it_does_not_name_is_caught() -> None:
    with pytest.raises(NotConforming, match=r"attack\.share"):
        check_attack(f"{__name__}:Shares")


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


class Waits:
    """A method that is not asynchronous."""

    def __init__(self, context: MethodContext) -> None:
        self.method = context.method

    def answer(self, question: Any, ask: Any, seed: int, sample: int = 0) -> Any:
        return None


class Raises(Waits):
    async def answer(self, question: Any, ask: Any, seed: int, sample: int = 0) -> Any:
        raise KeyError("nobody")


def test_the_command_line_says_what_conforms_and_what_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["attack=input", "model=reader"]) == 0
    assert capsys.readouterr().out == "conforms: input\nconforms: reader\n"
    assert main([f"attack={__name__}:Reseeds"]) == 1
    assert main(["seed=1"]) == 2
    for part in ("Waits", "Raises"):
        capsys.readouterr()
        assert main([f"methods=[{__name__}:{part}]"]) == 1
        error = capsys.readouterr().err
        assert error.startswith("does not conform: ")
        assert ("async def answer" if part == "Waits" else "KeyError") in error
        assert error.count("\n") == 1
