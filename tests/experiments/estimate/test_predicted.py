"""A run is predicted before it is held: calls as they will be, tokens nearly, money from prices that were given."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from actors.errors import UserError
from actors.runtime.agent_actor import AgentActor
from actors.runtime.replica_actor import ReplicaActor
from actors.runtime.stateful_actor import StatefulActor
from experiments.config.config import Config
from experiments.config.loading import load
from experiments.config.references import words_again
from experiments.cost.demand import Demand
from experiments.cost.file import read_model
from experiments.cost.observed import observe
from experiments.estimate.__main__ import compared, main
from experiments.estimate.predicted import Predicted, duration, notes, predicted
from experiments.estimate.replies import Replies
from experiments.records import starts
from experiments.records.recorder import RunFolder
from experiments.records.starts import STARTS, read_starts
from experiments.runner import open_folder, run
from experiments.running.launch import team_roles

WORDS = ["experiment=mmqa_prune", "runtime=inline", "wandb.mode=disabled", "topology.text=[critic,scientist]"]
WORDS += ["figures=false", "topology.visual=[scientist]", "training.samples=4", "methods=[single,full,m3prune]"]
SPEED = 4000.0
DEMAND = Demand(calls=1000, made=900, prompt=1_000_000, cached=400_000, completion=100_000, steps=10, graphs=1)


def held(output: Path, *words: str) -> Path:
    """The folder of a small run in this process."""
    config = load([*WORDS, f"output={output}", *words])
    folder = open_folder(config)
    run(config, folder)
    return folder.path


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    output = tmp_path_factory.mktemp("runs")
    # A seed each: equal completions would come from the cache that they share.
    return [
        held(output, "data.limit=20", "pruning.steps=6"),
        held(output, "data.limit=6", "pruning.steps=2", "seed=1"),
    ]


def of(*words: str, demand: Demand = DEMAND) -> Predicted:
    config = load(["experiment=mmqa_prune", *words])
    found = predicted(config, team_roles(config), demand, SPEED)
    assert found
    return found


@pytest.mark.slow
def test_a_plan_before_the_run_has_its_calls_and_nearly_its_tokens(runs: list[Path]) -> None:
    told = compared(observe(runs[0]))
    assert told["calls"][0] == told["calls"][1] > 500
    assert told["training steps"] == (12, 12)
    for name in ("calls made", "prompt tokens", "completion tokens"):
        assert told[name][0] == pytest.approx(told[name][1], rel=0.08), name


@pytest.mark.slow
def test_a_run_records_what_it_took_once_and_a_resumed_one_nothing(runs: list[Path]) -> None:
    [start] = read_starts(runs[0])
    assert 0 < start.discussing_s < start.total_s
    assert start.taken["driver"].count == 1
    assert start.taken["driver"].cpu_s > 0
    assert start.taken["driver"].memory_mb > 50
    assert start.speeds
    assert min(start.speeds) > 0
    (runs[1] / STARTS).rename(runs[1] / "kept")
    run(load([f"resume={runs[1]}"]), RunFolder.open(runs[1]))
    assert list(read_starts(runs[1])) == []
    with pytest.raises(UserError, match="give a run of methods that ended well without being resumed"):
        observe(runs[1])
    # As earlier versions recorded it.
    kept = json.loads((runs[1] / "kept").read_text())
    (runs[1] / STARTS).write_text(json.dumps(kept | {"speeds": None}) + "\n")
    with pytest.raises(UserError, match="does not tell how fast its machine was"):
        observe(runs[1])
    (runs[1] / "kept").rename(runs[1] / STARTS)


@pytest.mark.slow
def test_a_cost_model_of_ones_own_is_fitted_and_predicts(
    runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = tmp_path / "mine.yaml"
    assert main(["fit", *map(str, runs), str(mine)]) == 0
    model = read_model(mine)
    assert (model.runs, model.runtime, model.kind) == (2, "inline", "reader")
    assert model.reply_tokens["decision"] > 10
    assert main(["check", str(runs[1]), f"costs.model={mine}"]) == 0
    errors = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert errors["calls"] == [0.0]
    # Two runs and two coefficients or more: what was fitted on is met.
    assert abs(errors["memory MB"][0]) < 0.3


def test_a_cost_model_that_a_received_folder_names_is_read_only_where_it_is_named_again(tmp_path: Path) -> None:
    assert words_again(load(["experiment=mmqa_prune", "costs.model=none"]), tmp_path) == []
    assert words_again(load(["experiment=mmqa_prune"]), tmp_path) == []
    mine = load(["experiment=mmqa_prune", "costs.model=mine.yaml"])
    assert words_again(mine, tmp_path) == ["costs.model=mine.yaml"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "usage: python -m experiments.estimate fit"),
        (["fit", "nowhere", "mine.yaml"], "is not a run folder"),
        (["check", "nowhere"], "is not a run folder"),
    ],
)
def test_bad_input_is_one_line(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    told = capsys.readouterr().err
    assert told.startswith("error: ")
    assert said in told
    assert len(told.splitlines()) == 1


def test_money_is_for_tokens_that_are_computed_or_cached_and_for_gpu_hours_and_only_for_what_has_a_price() -> None:
    rates = ["model=vllm", "model.name=x", "costs.prompt_tokens_per_s=1000", "costs.completion_tokens_per_s=500"]
    assert of(*rates).money.tokens is None
    assert "Money" not in " ".join(notes(of(*rates)))
    tokens = of(*rates, "costs.prompt_price=2", "costs.cached_price=1", "costs.completion_price=10").money
    assert tokens.tokens == pytest.approx(0.6 * 2 + 0.4 * 1 + 0.1 * 10)
    assert of(*rates, "costs.prompt_price=2").money.tokens == pytest.approx(2.0)
    found = of(*rates, "costs.gpu_hour_price=3", "model.replicas=4", "model.tensor_parallel=2")
    assert found.resources.gpus == 8
    # 600 s for prompts that no cache has, and 200 s for replies, however many replicas it takes.
    assert found.cost.discussing_s == pytest.approx(800 * found.model.slowdown)
    assert found.money.total == found.money.gpus == pytest.approx(3 * 8 * found.cost.total_s / 3600)
    assert "Money at the given prices" in " ".join(notes(found))


def test_a_model_that_was_not_measured_has_no_time_of_its_own_and_that_is_said() -> None:
    found = of("model=vllm", "model.name=x")
    assert not found.timed
    told = " ".join(notes(found))
    assert "Time: at least" in told
    assert "How long the model's replicas work is not known: give costs.prompt_tokens_per_s" in told
    assert of().timed
    assert "at least" not in " ".join(notes(of()))


def test_a_model_without_a_prefix_cache_is_served_nothing_from_it() -> None:
    assert of().demand.cached == 0
    assert of("model=vllm", "model.name=x").demand.cached == DEMAND.cached


def test_more_cores_more_trials_at_once_and_more_launches_count() -> None:
    one, many = of("runtime=inline"), of("runtime=inline", "costs.cores=64", "sweep.parallel=16", "sweep.seeds=100")
    assert many.cost.discussing_s == one.cost.discussing_s
    hundred = predicted(_config("costs.cores=64", "sweep.parallel=16"), team_roles(Config()), DEMAND.times(100), SPEED)
    assert hundred
    assert hundred.cost.discussing_s == pytest.approx(100 / 16 * one.cost.discussing_s)
    twice = predicted(_config(), team_roles(Config()), DEMAND, SPEED, launches=2)
    assert twice
    assert twice.cost.start_s == 2 * one.cost.start_s


def _config(*words: str) -> Config:
    return load(["experiment=mmqa_prune", "runtime=inline", *words])


def test_times_are_for_the_speed_that_was_read_unless_one_is_given_and_which_is_said() -> None:
    read, told = of(), of(f"costs.speed={SPEED / 2}")
    assert told.cost.total_s == pytest.approx(2 * read.cost.total_s)
    assert "of the speed 4,000, as read here meanwhile; of another" in " ".join(notes(read))
    assert "of the speed 2,000; of another" in " ".join(notes(told))


def test_agents_of_one_role_are_one_process() -> None:
    assert of().resources.agents == of("topology.instances=3").resources.agents == 11


def test_processes_are_told_apart_by_the_actors_that_there_are() -> None:
    assert {actor.__name__ for actor in (AgentActor, ReplicaActor, StatefulActor)} == set(starts.ACTORS)


def test_no_prediction_without_a_cost_model() -> None:
    config = load(["experiment=mmqa_prune", "costs.model=none"])
    assert predicted(config, team_roles(config), DEMAND, SPEED) is None


def test_replies_have_the_length_that_was_measured_and_never_more_than_is_allowed() -> None:
    def words(text: str) -> int:
        return len(text.split())

    measured = Replies(words, 200, {"": 60.0, "decision": 90.0, "chatty": 5000.0, "terse": 1.0})
    assert [measured.of(role).tokens for role in ("anybody", "decision", "chatty")] == [60, 90, 200]
    # Reasoning, answer and confidence are there in any case.
    assert measured.of("terse").tokens == words("Reasoning: k Answer: the northern bridge Confidence: 0.85")
    assert measured.of("decision").content("12ab").startswith("12ab ")
    assert Replies(words, 200, {}).of("anybody").tokens == Replies(words, 200, {}).of("decision").tokens


@pytest.mark.parametrize(
    ("taken_s", "shown"),
    [(7.25, "7.2 s"), (119, "119.0 s"), (600, "10.0 min"), (7200, "2.0 h"), (864_000, "10.0 days")],
)
def test_times_are_told_in_the_unit_that_is_easiest_to_read(taken_s: float, shown: str) -> None:
    assert duration(taken_s) == shown
