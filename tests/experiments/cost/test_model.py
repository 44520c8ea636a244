"""What bounds a run's time, and what a fit finds in measured runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from actors.errors import UserError
from experiments.config.config import Config
from experiments.cost.demand import Demand
from experiments.cost.file import MODELS, find_model, read_model, write_model
from experiments.cost.fit import fit, least_squares
from experiments.cost.model import CostModel, Resources, linear, predict
from experiments.cost.observed import Observed
from experiments.records.starts import AGENT, DRIVER, LEARNER, RAY, REPLICA, Machine, Start, Taken

MACHINE = Machine("a processor", 4, 16.0)
MODEL = CostModel(
    machine=MACHINE,
    speed=4000.0,
    runtime="ray",
    kind="reader",
    name="reader",
    runs=3,
    replicas=2,
    own_cores=True,
    work={DRIVER: {"call": 0.001}, AGENT: {"call": 0.002}, REPLICA: {"prompt": 0.01}},
    slowdown=1.5,
    start_s=5.0,
    start_each_s=0.5,
    end_s={"run": 2.0, "answer": 0.01, "figure": 0.5},
    memory_mb={DRIVER: 400.0, AGENT: 80.0, REPLICA: 100.0, RAY: 300.0},
    disk_kb={"graph": 100.0, "call": 2.0},
    prefix_cache=False,
    reply_tokens={"": 70.0},
)
# 10 s of the driver, 20 of agents, 20 of replicas.
DEMAND = Demand(
    calls=10_000, made=8_000, prompt=2_500_000, cached=500_000, completion=500_000, graphs=1, answers=100
).drawn
HAS = Resources(agents=11, replicas=2, learners=1, cores=4)


def discussing(model: CostModel = MODEL, demand: Demand = DEMAND, resources: Resources = HAS) -> float:
    return predict(model, demand, resources).discussing_s / model.slowdown


def test_processes_share_the_cores_and_no_run_is_faster_than_the_one_that_holds_it() -> None:
    assert discussing() == pytest.approx(50 / 4)
    assert "all processes on 4 cores" in predict(MODEL, DEMAND, HAS).busiest
    assert discussing(resources=replace(HAS, cores=100, replicas=50)) == pytest.approx(10)
    assert discussing(resources=replace(HAS, cores=100, replicas=1)) == pytest.approx(20)


def test_replicas_on_gpus_take_no_core_and_twice_as_many_take_half_the_time() -> None:
    rated = MODEL.at_rates(2_000_000 / 200, 500_000 / 200, replicas=2)
    assert discussing(rated) == pytest.approx(400)
    assert predict(rated, DEMAND, HAS).busiest == "2 replicas"
    # The rates are those of all replicas together, whatever their number.
    assert discussing(MODEL.at_rates(2_000_000 / 200, 500_000 / 200, 8), resources=replace(HAS, replicas=8)) == 400
    assert discussing(rated, resources=replace(HAS, replicas=4)) == pytest.approx(200)
    assert discussing(rated, resources=replace(HAS, replicas=400)) == pytest.approx(10)


def test_trials_at_once_share_the_work_of_their_processes_but_not_their_cores() -> None:
    sweep = replace(HAS, parallel=8, cores=400, replicas=400)
    assert discussing(demand=DEMAND.times(80), resources=sweep) == pytest.approx(80 * 10 / 8)
    assert discussing(demand=DEMAND.times(80), resources=replace(sweep, cores=4)) == pytest.approx(80 * 50 / 4)
    # Two trials cannot use eight processes.
    assert discussing(demand=DEMAND.times(2), resources=sweep) == pytest.approx(10)


def test_memory_disk_and_gpu_hours_go_by_processes_calls_and_the_whole_time() -> None:
    cost = predict(MODEL, DEMAND, replace(HAS, gpus=2))
    assert cost.start_s == 5.0 + 0.5 * 13
    assert cost.end_s == 2.0 + 1.0 + 0.5 * (3 + 1)
    assert predict(MODEL, replace(DEMAND, figures=0), HAS).end_s == 2.0 + 1.0
    assert cost.memory_mb == 400 + 300 + 11 * 80 + 2 * 100
    assert cost.disk_mb == pytest.approx((100 + 20_000) / 1000)
    assert cost.gpu_hours == pytest.approx(2 * cost.total_s / 3600)
    of_ten = predict(MODEL, DEMAND.times(10), replace(HAS, parallel=4))
    assert of_ten.memory_mb == cost.memory_mb + 4 * 400
    assert of_ten.disk_mb == pytest.approx(10 * cost.disk_mb)


def test_least_squares_finds_planted_coefficients_and_none_below_zero() -> None:
    rows = [(1.0, 3.0), (2.0, 1.0), (5.0, 5.0), (1.0, 9.0)]
    assert least_squares(rows, [2 * a + 0.25 * b for a, b in rows]) == pytest.approx([2, 0.25], rel=1e-3)
    assert min(least_squares(rows, [a for a, _ in rows])) >= 0


def observed(
    calls: int, kind: str = "reader", runtime: str = "ray", machine: Machine = MACHINE, speed: float = MODEL.speed
) -> Observed:
    """A run that took exactly what the model above says at that speed, on whose machine others had a tenth of the time
    besides."""
    model = MODEL.at_speed(speed)
    config = Config()
    config.model.kind, config.runtime = kind, "ray" if runtime == "ray" else "inline"
    demand = replace(DEMAND, calls=calls, made=calls, prompt=200 * calls, cached=0, answers=calls // 20)
    cost = predict(model, demand, HAS)
    taken = {k: Taken(1, linear(model.work[k], demand), 1.0) for k in (DRIVER, AGENT, REPLICA)}
    taken[AGENT] = replace(taken[AGENT], count=11, memory_mb=880.0)
    taken[REPLICA] = replace(taken[REPLICA], count=2, memory_mb=200.0)
    took = cost.start_s, cost.discussing_s, cost.total_s
    waited = took[0] / 10, took[1] / 10, took[2] / 10
    return Observed(
        path=Path(f"runs/{calls}"),
        config=config,
        start=Start(
            machine,
            *(t + w for t, w in zip(took, waited, strict=True)),
            waited=waited,
            speeds=(speed,) * 3,
            taken=taken,
        ),
        demand=demand,
        phases=((demand, cost.discussing_s),),
        replies={"decision": (10, 800), "critic": (30, 1800)},
        turns=calls,
        repairs=0,
        disk_kb=cost.disk_mb * 1000,
    )


def test_a_fit_on_runs_finds_what_they_took_without_what_others_had_of_the_machine() -> None:
    found = fit([observed(calls) for calls in (1000, 4000, 20_000)])
    for calls in (2500, 100_000):
        wanted = observed(calls)
        cost = predict(found, wanted.demand, HAS)
        assert cost.total_s == pytest.approx(sum(wanted.undisturbed), rel=0.01)
        assert cost.disk_mb * 1000 == pytest.approx(wanted.disk_kb, rel=0.01)
    assert found.memory_mb[AGENT] == 80.0
    assert found.reply_tokens == {"": 65.0, "decision": 80.0, "critic": 60.0}
    assert LEARNER not in found.work


def test_runs_at_different_speeds_of_the_machine_tell_of_the_same_model() -> None:
    """Half as fast, a run takes twice the processor time: fitted as it stands, that would be another demand's."""
    found = fit([observed(1000, speed=5000), observed(4000, speed=2500), observed(20_000, speed=6000)])
    assert found.speed == 4500
    for calls, speed in ((2500, 4500), (2500, 1500), (100_000, 7000)):
        cost = predict(found.at_speed(speed), observed(calls).demand, HAS)
        assert cost.total_s == pytest.approx(sum(observed(calls, speed=speed).undisturbed), rel=0.01)


def test_work_on_gpus_takes_no_longer_on_slower_cores_and_the_start_and_the_figures_do() -> None:
    rated = MODEL.at_rates(2_000_000 / 200, 500_000 / 200, replicas=2)
    assert discussing(rated.at_speed(2000)) == discussing(rated) == pytest.approx(400)
    slow, fast = predict(rated.at_speed(2000), DEMAND, HAS), predict(rated, DEMAND, HAS)
    assert (slow.start_s, slow.end_s) == (2 * fast.start_s, 2 * fast.end_s)
    assert discussing(MODEL.at_speed(2000)) == pytest.approx(2 * discussing())


def test_what_only_disturbed_runs_took_longer_is_not_taken_for_the_model() -> None:
    def disturbed(run: Observed) -> Observed:
        start = run.start
        times = {"up_s": 9 * start.up_s, "discussing_s": 9 * start.discussing_s}
        return replace(
            run, start=replace(start, **times, total_s=20 * start.total_s, waited=(0, 0, 15 * start.total_s))
        )

    calm = [observed(calls) for calls in (1000, 4000, 20_000)]
    found = fit([*calm, disturbed(observed(2000)), disturbed(observed(9000))])
    alone = fit(calm)
    assert (found.start_s, found.start_each_s, found.slowdown) == (alone.start_s, alone.start_each_s, alone.slowdown)


def test_a_model_on_gpus_or_behind_an_address_is_fitted_on_the_time_of_phases() -> None:
    found = fit([observed(calls, kind="openai") for calls in (1000, 4000, 20_000)])
    assert not found.own_cores
    assert predict(found, observed(7000).demand, HAS).discussing_s == pytest.approx(
        observed(7000).undisturbed[1], rel=0.05
    )


@pytest.mark.parametrize(
    ("other", "what"),
    [
        (observed(2000, kind="vllm"), "model"),
        (observed(2000, runtime="inline"), "runtime"),
        (observed(2000, machine=replace(MACHINE, cores=8)), "machine"),
    ],
)
def test_runs_of_different_models_runtimes_or_machines_are_not_fitted_together(other: Observed, what: str) -> None:
    with pytest.raises(UserError, match=f"has another {what} than runs/1000: fit a cost model for each"):
        fit([observed(1000), other])
    with pytest.raises(UserError, match="two runs or more"):
        fit([observed(1000)])


def test_a_cost_model_is_the_same_after_it_was_written_and_read(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    write_model(MODEL, path)
    assert read_model(path) == find_model(str(path), "ray") == MODEL
    assert find_model("none", "ray") is None


@pytest.mark.parametrize("text", ["", "- 1", "runs: many", "a: [", "machine: {}\n"])
def test_a_file_that_is_no_cost_model_is_refused_in_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(UserError, match=r"costs\.model=.*mine\.yaml is not a cost model \(.*fit one with") as raised:
        read_model(path)
    assert "\n" not in str(raised.value)


def test_there_is_a_model_for_each_runtime_that_says_where_it_was_measured() -> None:
    for path in MODELS.glob("*.yaml"):
        model = read_model(path)
        assert model.runtime == path.stem
        assert model.runs > 1
        assert model.machine.cores
    assert {path.stem for path in MODELS.glob("*.yaml")} == {"inline", "ray"}
