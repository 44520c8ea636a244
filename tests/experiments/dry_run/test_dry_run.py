"""A dry run counts turns exactly, and tokens as the prompts that the run would send have them."""

import asyncio
import functools
import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from rich.console import Console

from actors.agents.role_agent import RoleAgent
from actors.agents.roles import DECISION, SINGLE
from actors.errors import UserError
from actors.messages import Kind, Message, Question, Source, Turn
from actors.reader.reader import Reader
from actors.runtime.inline import Local
from experiments.config.config import Config
from experiments.config.loading import load
from experiments.datasets.item import Dataset
from experiments.dry_run import counting
from experiments.dry_run.counting import count_run
from experiments.dry_run.counts import PhaseCounts, RunCounts, hours
from experiments.dry_run.counts_table import counts_table
from experiments.dry_run.dry_sweep import dry_run_sweep
from experiments.dry_run.simulated_speaker import SimulatedAgents, SimulatedCache, SimulatedSpeaker
from experiments.dry_run.token_count import TokenCounter, tokens_of_size
from experiments.evidence.evidence import Evidence
from experiments.jobs import plan_of
from experiments.running.calibration import watched_topology
from experiments.running.inputs import open_dataset, watched_items
from experiments.sweeps.expansion import plan_sweep
from retrieval.embed import make_encoder
from retrieval.store import Store
from tests.support.topologies import topology as topology_of
from tests.support.words import joined
from topologies.baselines import Single
from topologies.catalogue import find_methods
from topologies.learning.course import Course, StepScores, TrainingStep
from topologies.learning.learned_topology import LearnedTopology, make_learner
from topologies.topology import run_discussion

WORDS = """experiment=mmqa_prune data.limit=6 pruning.steps=3 training.samples=2 topology.text=[critic,scientist]
topology.visual=[scientist] retrieval.texts=3 retrieval.pictures=1""".split()


def world(cache: Path, *words: str) -> tuple[Config, Dataset, Evidence]:
    config = load([*WORDS, *words])
    dataset = open_dataset(plan_of(config), cache)
    store = Store.open(cache / "indexes", dataset.corpus, make_encoder(config.retrieval.encoder))
    return config, dataset, Evidence(store, config.retrieval)


@functools.cache
def planned(cache: Path, *words: str) -> RunCounts:
    return count_run(plan_of(load(joined(*WORDS, f"cache={cache}", *words))))


async def discussed(cache: Path, *words: str) -> dict[str, list[Message]]:
    """The turns of a whole small run with the embedded reader, without any process but this."""
    config, dataset, evidence = world(cache, *words)
    roles = plan_of(config).roles.team
    reader = Reader(config.reader)
    agents = {role.name: RoleAgent(role, reader, config.agents) for role in (*roles, *plan_of(config).roles.helpers)}

    async def ask(turn: Turn) -> Message:
        message = (await agents[turn.agent].take(turn)).message
        return message

    names = [role.name for role in roles]
    turns: dict[str, list[Message]] = {}
    watched = []
    methods = find_methods(config.methods)
    if any(method.needs_calibration for method in methods):
        heard = turns.setdefault("watching unlabelled discussions", [])
        for item in watched_items(dataset, plan_of(config)):
            walk = watched_topology(names, config.topology.rounds)
            question = await evidence.question(item)
            watched.append((question, await walk.answer(question, ask, 0)))
            heard += watched[-1][1].turns
    learners = {name: make_learner(spec) for name, spec in plan_of(config).learners.items()}
    learned = {
        name: LearnedTopology(name, names, Local(learner), config.topology.inference)
        for name, learner in learners.items()
    }
    items, sources = list(dataset.train()), plan_of(config).shared_from

    async def learn(name: str) -> None:
        async def discuss(step: TrainingStep) -> StepScores:
            heard = turns.setdefault(f"learning {name}, stage {step.stage}", [])
            question = await evidence.question(items[(step.stage - 1) * config.pruning.steps + step.number - 1])
            for sample, walk in enumerate(learned[name].along(step)):
                heard += (await walk.answer(replace(question, id=f"{question.id}/{sample}"), ask, 0, sample)).turns
            return StepScores(np.zeros((step.samples, config.topology.rounds, len(roles))), np.zeros(step.samples))

        students = [Local(learners[other]) for other, source in sources.items() if source == name]
        course = Course(Local(learners[name]), students, samples=config.training.samples)
        async for _ in course.train(discuss):
            pass

    for name in (*(name for name in learners if name not in sources), *sources):
        await learn(name)
    for topology in learned.values():
        await topology.freeze()
    first = next(iter(learned.values()), None)
    for method in methods:
        made = topology_of(method.name, None, config, names, learned.get(method.name, first), watched)
        heard = turns.setdefault(f"evaluating {method.name}", [])
        for item in dataset.evaluate():
            heard += (await made.answer(await evidence.question(item), ask, config.seed)).turns
    return turns


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("ablation=dummy_visual", "topology.rounds=3"),
        ("ablation=no_inter",),
        ("training.share=true",),
        ("topology.evidence=own_modality", "methods=[full]"),
        ("methods=[chain,star,tree,layered,debate,challenger,inspector,majority]",),
        ("methods=[agreement,anomaly]", "defence.calibration=5"),
        ("methods=[probes,agreement]", "defence.calibration=56", "defence.least_accuracy=0.5"),
    ],
)
def test_turns_and_calls_are_those_of_the_real_discussions(cache: Path, words: tuple[str, ...]) -> None:
    real = asyncio.run(discussed(cache, *words))
    plan = planned(cache, *words)
    assert [phase.name for phase in plan.phases] == list(real)
    for one in plan.phases:
        assert one.turns == len(real[one.name])
        assert one.calls == sum(turn.calls for turn in real[one.name])
        prompts = sum(turn.prompt_tokens for turn in real[one.name])
        assert one.prompt == pytest.approx(prompts, rel=0.15)  # replies have lengths of their own


def test_the_turns_of_a_run_are_what_the_formula_says(cache: Path) -> None:
    plan = planned(cache, "methods=[closed_book,single,full,random,m3prune]")
    steps, k, agents, rounds, evaluated = 3, 2, 3, 2, 6
    turns = {phase.name: phase.turns for phase in plan.phases}
    each = agents * rounds + 1
    assert turns == {
        "learning m3prune, stage 1": steps * k * each,
        "learning m3prune, stage 2": steps * k * each,
        "evaluating closed_book": evaluated,
        "evaluating single": evaluated,
        **{f"evaluating {name}": evaluated * each for name in ("full", "random", "m3prune")},
    }
    assert plan.total.turns == sum(turns.values())


def test_what_depends_on_learning_is_said_to_be_an_estimate(cache: Path) -> None:
    plan = planned(cache, "methods=[full,random,effects]")
    assert [one.name for one in plan.phases if not one.exact] == ["evaluating random", "evaluating effects"]
    told = " ".join(counts_table(plan).notes)
    assert "evaluating random, evaluating effects" in told
    for certain in "learner.decision=all", "methods=[full,random,m3prune]":
        assert "Except in" not in " ".join(counts_table(planned(cache, certain)).notes)


def test_a_graph_that_is_learned_from_another_s_discussions_only_confirms_its_cut_and_that_is_said(cache: Path) -> None:
    told = "effects learns from the discussions of m3prune and holds none for its training except to confirm its cut."
    shared, apart = planned(cache, "training.share=true"), planned(cache)
    assert {one.name for one in apart.phases} - {one.name for one in shared.phases} == {"learning effects, stage 1"}
    # Of six steps, one confirms.
    assert shared.total.calls == apart.total.calls - 5 * 2 * (3 * 2 + 1)
    assert told in counts_table(shared).notes
    assert told not in counts_table(apart).notes
    assert told not in counts_table(planned(cache, "training.share=true", "methods=[full,effects]")).notes


def test_nothing_is_trained_that_no_method_needs(cache: Path) -> None:
    assert [phase.name for phase in planned(cache, "methods=[single,full]").phases] == [
        "evaluating single",
        "evaluating full",
    ]


def test_the_single_agents_prompts_are_counted_to_the_token(cache: Path) -> None:
    real = asyncio.run(discussed(cache, "methods=[closed_book,single]"))
    for one in planned(cache, "methods=[closed_book,single]").phases:
        prompts = [turn.prompt_tokens for turn in real[one.name]]
        assert (one.prompt, one.longest) == (sum(prompts), max(prompts))


def test_the_same_configuration_gives_the_same_plan(cache: Path) -> None:
    assert planned(cache) == planned.__wrapped__(cache)


def test_a_judge_is_asked_once_at_most_for_each_answer(cache: Path) -> None:
    assert planned(cache).judge is None
    judged = planned(cache, "judge=reader").judge
    assert judged
    assert judged.calls == 6 * 6


def test_too_few_training_questions_are_found_out_before_anything_is_spent(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = open_dataset(plan_of(load(WORDS)), cache)
    monkeypatch.setattr(counting, "open_dataset", lambda plan, cache: opened)
    with pytest.raises(UserError, match=r"stage 1 .*\b300\b"):
        planned(cache, "pruning.steps=300")


def test_equal_prompts_are_counted_as_one_distinct_call() -> None:
    config = load(WORDS)
    roles = plan_of(config).roles.team
    agents = SimulatedAgents(
        (*roles, DECISION, SINGLE), config.agents, TokenCounter(plan_of(config).models.main), {}, {}
    )
    single, counts, cache = Single("single"), PhaseCounts(), SimulatedCache()
    for question in ("a", "b"):
        for sample in range(5):
            speaker = SimulatedSpeaker(agents, counts, cache)
            asyncio.run(run_discussion(single, Question(question, "Where?"), speaker, 0, sample))
    assert (counts.calls, counts.computed) == (10, 2)
    assert counts.scaled("x", 100).computed == 20


def test_a_system_that_reckons_with_stated_confidences_gets_numbers(cache: Path) -> None:
    [phase] = planned(cache, "methods=[llava_mr2ag]").phases
    assert phase.turns > 6


def test_hours_and_price_come_from_the_rates_and_from_nothing_else() -> None:
    config = load([*WORDS, "costs.prompt_price=2", "costs.completion_tokens_per_s=10"])
    counts = PhaseCounts(prompt=2e6, completion=36_000)
    assert config.costs.price(counts.prompt, counts.completion) == 4
    assert hours(config.costs, None, counts) == 1
    nothing = load(WORDS).costs
    assert (hours(nothing, None, counts), nothing.price(counts.prompt, counts.completion)) == (None, None)


def test_what_each_model_is_asked_is_counted_by_its_own_rule(cache: Path) -> None:
    own = ["roles.visual_scientist.model=openai", "roles.visual_scientist.model.name=eyes"]
    own += ["roles.visual_scientist.model.base_url=http://a/v1", "methods=[full]", "costs.prompt_price=2"]
    plan, alone = planned(cache, *own), planned(cache, "methods=[full]", "costs.prompt_price=2")
    shares = plan.total.by_model
    assert shares.keys() == {"model", "roles.visual_scientist.model"}
    assert sum(share.calls for share in shares.values()) == plan.total.calls == alone.total.calls
    assert sum(share.prompt for share in shares.values()) == pytest.approx(plan.total.prompt)
    # Two of the seven turns of a discussion; without a tokenizer characters are counted, and pictures by their size.
    assert shares["roles.visual_scientist.model"].calls == plan.total.calls * 2 // 7
    assert plan.total.prompt != alone.total.prompt
    notes = " ".join(counts_table(plan).notes)
    assert "model eyes of visual_scientist has 12 calls" in notes
    assert "of the price" in notes
    assert not alone.total.by_model


def test_a_prompt_that_will_not_fit_is_warned_of(cache: Path) -> None:
    assert planned(cache, "model.max_model_len=100000").warnings == ()
    [sure] = planned(cache, "model.max_model_len=900").warnings
    assert "evidence will be cut" in sure


def test_what_is_printed_is_plain_and_says_how_tokens_were_counted(cache: Path) -> None:
    output = io.StringIO()
    counts_table(planned(cache, "costs.prompt_price=1")).print(Console(file=output))
    said = output.getvalue()
    assert max(map(len, said.splitlines())) <= 110
    assert "…" not in said
    for expected in ("evaluating m3prune", "as the embedded reader counts them", "Price ", "cache"):
        assert expected in said


def test_without_a_tokenizer_characters_are_counted_and_that_is_said() -> None:
    counter = TokenCounter(
        plan_of(load([*WORDS, "model=openai", "model.name=x", "model.base_url=http://x/v1"])).models.main
    )
    assert "4 characters to a token (a guess)" in counter.rule
    assert counter.text("twelve chars") == 3


@pytest.mark.parametrize(("size", "tokens"), [((280, 280), 102), ((20, 20), 6), ((1400, 280), 502)])
def test_a_picture_has_a_token_for_each_28_pixels_squared(tmp_path: Path, size: tuple[int, int], tokens: int) -> None:
    Image.new("RGB", size).save(tmp_path / "p.png")
    counter = TokenCounter(
        plan_of(load([*WORDS, "model=openai", "model.name=x", "model.base_url=http://x/v1"])).models.main
    )
    assert counter.picture(Source("p", "p", Kind.IMAGE, "P", "", str(tmp_path / "p.png"))) == tokens


def test_a_large_picture_is_scaled_down_to_what_the_model_takes() -> None:
    assert tokens_of_size(20_000, 10_000) < 16_384 * 1.02
    assert tokens_of_size(5_000, 5_000, max_pixels=1_003_520) == pytest.approx(1_280, rel=0.02)


def test_a_sweep_is_predicted_as_a_whole_from_one_trial_of_each_combination(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [*WORDS, f"output={tmp_path}", "runtime=inline", "methods=[full]", "sweep.axes.topology.rounds=[1,2]"]
    dry_run_sweep(plan_sweep(load([*words, "sweep.seeds=500", "sweep.parallel=4", "costs.prompt_price=1"])))
    said = " ".join(capsys.readouterr().out.split())
    calls = 500 * 6 * (3 + 1) + 500 * 6 * (2 * 3 + 1)
    assert f"{calls:,} calls computed" in said
    assert "Price " in said
    assert "upper bounds" in said
    assert "trials end early" not in said
