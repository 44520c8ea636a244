"""Twins and placebos of a run: the same at any concurrency, after a kill, and replayed; gains from the records."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from actors.errors import UserError
from experiments.analysis.gains import gains_table, independent_agents
from experiments.analysis.run_table import run_table
from experiments.config.loading import load, load_overrides
from experiments.jobs import plan_of
from experiments.records.recorder import RunFolder
from experiments.running.recorded_speaker import RecordedSpeaker
from experiments.sweeps.expansion import plan_sweep
from experiments.unused import check_used
from run import main
from tests.experiments.running.test_attacked_run import carry_out, contents
from tests.support.words import joined
from topologies.controls.twin import tokens_of
from topologies.wiring import Floats

TWINS = ["compare.twins=true", "methods=[single,full,m3prune]", "data.limit=6"]
SYSTEMS = [
    *("experiment=systems", "methods=[single,hm_rag]", "data.limit=4", "compare.twins=true", "runtime=inline"),
    *("figures=false", "wandb.mode=disabled"),
]


@pytest.fixture(scope="module")
def twins(output: Path) -> RunFolder:
    return carry_out([*TWINS, "attack=response", "attack.agents=[0]", "attack.clean=true", "concurrency=5"], output)


def files(folder: RunFolder) -> dict[str, bytes]:
    return {name: content for name, content in contents(folder).items() if name.endswith(".jsonl")}


def spent(folder: RunFolder, method: str) -> int:
    return sum(tokens_of(trace.turns) for trace in folder.traces(f"evaluate-{method}"))


def test_a_twin_spends_what_its_method_spends_and_a_placebo_takes_its_turns(twins: RunFolder) -> None:
    for method in ("full", "m3prune"):
        assert spent(twins, f"{method}-twin") == pytest.approx(spent(twins, method), rel=0.02)
        pairs = zip(twins.traces(f"evaluate-{method}"), twins.traces(f"evaluate-{method}-placebo"), strict=True)
        for of_method, placebo in pairs:
            assert [turn.id for turn in placebo.turns] == [turn.id for turn in of_method.turns]
            assert (placebo.attacked, placebo.target) == (of_method.attacked, of_method.target)
            told = {id for turn in placebo.turns for id in turn.heard}
            assert told
            # From another question, but for what an agent said itself.
            own = {turn.id for turn in placebo.turns}
            assert all((id in own) == (id.count("/") == 1) for id in told)
    singles = {trace.question: trace.turns[0] for trace in twins.traces("evaluate-single")}
    for trace in twins.traces("evaluate-full-twin"):
        assert trace.turns[0] == singles[trace.question]
        assert len(trace.turns) > 3
        # The agent that answers alone is not compromised.
        assert trace.attacked == ()
    scored = {scored.method for scored in twins.scores()}
    assert scored == {
        *("single", "full", "m3prune", "single-clean", "full-clean", "m3prune-clean"),
        *("full-twin", "full-placebo", "m3prune-twin", "m3prune-placebo"),
    }


def test_one_discussion_at_a_time_and_after_a_kill_it_is_the_same(twins: RunFolder, output: Path) -> None:
    words = [*TWINS, "attack=response", "attack.agents=[0]", "attack.clean=true"]
    before = files(twins)
    assert files(carry_out([*words, "concurrency=1"], output)) == before
    scores = twins.path / "scores.jsonl"
    lines = scores.read_bytes().splitlines(keepends=True)
    [last] = [number for number, line in enumerate(lines) if b'"full-twin"' in line][2:3]
    scores.write_bytes(b"".join(lines[: last + 1]))
    assert files(carry_out(words, output, twins)) == before


def test_it_is_replayed(twins: RunFolder, output: Path) -> None:
    words = [*TWINS, "attack=response", "attack.agents=[0]", "attack.clean=true"]
    assert files(carry_out(words, output, speaker=RecordedSpeaker(twins))) == files(twins)


@pytest.mark.parametrize("words", [["methods=[closed_book,single]"], ["job=behaviour"]])
def test_they_are_refused_where_nothing_has_any(words: list[str]) -> None:
    config, overrides = load_overrides(["experiment=mmqa_prune", *words, "compare.twins=true"])
    assert overrides is not None
    with pytest.raises(UserError, match=r"compare\.twins"):
        check_used(overrides, plan_of(config))


def test_a_sweep_tests_each_method_against_its_controls() -> None:
    pairs = plan_sweep(load(["experiment=twins"])).rivals([])
    assert pairs[-4:] == tuple(
        (name, f"{name}-{kind}") for name in ("majority", "full") for kind in ("twin", "placebo")
    )
    assert not any("twin" in name for pair in plan_sweep(load(["experiment=mmqa_prune"])).rivals([]) for name in pair)


@pytest.mark.slow
def test_a_run_of_the_command_line_has_gains_in_its_table_and_can_be_opened_and_replayed_with_fewer_questions(
    tmp_path: Path,
) -> None:
    output = f"output={tmp_path}"
    assert main(joined(*SYSTEMS, "methods=[single,majority,hm_rag]", output)) == 0
    [path] = tmp_path.glob("*-systems")
    metrics = json.loads((path / "metrics.json").read_text())
    gains = metrics["gains"]
    assert gains["methods"].keys() == {"majority", "hm_rag"}
    for method, of in gains["methods"].items():
        assert of["tokens_ratio"] == pytest.approx(
            spent(RunFolder(path), of["twin"]) / spent(RunFolder(path), method), abs=1e-6
        )
        assert (f"{method} vs {of['twin']}" in gains["paired"]) is (abs(of["tokens_ratio"] - 1) <= 0.02)
    assert f"hm_rag vs {gains['methods']['hm_rag']['placebo']}" in gains["paired"]
    assert f"majority vs {gains['methods']['majority']['placebo']}" not in gains["paired"]
    assert [row[0] for row in run_table(metrics).rows] == ["single", "majority", "hm_rag"]
    assert [row[0] for row in gains_table(metrics).rows] == ["majority", "hm_rag"]
    # The saved tokens of a method that is not worse are those of its twin, which has no row there.
    for test in gains["paired"].values():
        test |= {"ci95": [-0.01, 0.01], "margin": 0.02, "p_holm": 1.0, "p_margin_holm": 0.001}
    assert any("is not worse by 0.02 or more than" in note for note in gains_table(metrics).notes)
    # The twin reads what its method has read.
    pairs = zip(*(RunFolder(path).traces(f"evaluate-hm_rag{kind}") for kind in ("", "-twin")), strict=True)
    assert all(set(twin.evidence) <= set(method.evidence) for method, twin in pairs)
    replay = joined(
        *SYSTEMS,
        "methods=[hm_rag]",
        "data.limit=3",
        "model=replay",
        f"replay.run={path}",
        f"output={tmp_path / 'again'}",
    )
    assert main(replay) == 0
    [again] = (tmp_path / "again").glob("*-systems")
    whole = {(scored.method, scored.question): scored.answer for scored in RunFolder(path).scores()}
    replayed = {(scored.method, scored.question): scored.answer for scored in RunFolder(again).scores()}
    assert len(replayed) == 9
    assert replayed.items() <= whole.items()


def scores(draws: np.random.Generator, rho: float, agents: int, questions: int) -> Iterable[list[float]]:
    """Scores of agents of which each repeats the question's own draw with probability sqrt(rho)."""
    shared = draws.random(questions) < 0.4
    for one in shared:
        repeats, own = draws.random(agents) < rho**0.5, draws.random(agents) < 0.4
        yield np.where(repeats, one, own).astype(float).tolist()


def together(discussions: Sequence[Sequence[float]]) -> tuple[Floats, npt.NDArray[np.int64]]:
    """The scores of all discussions, and the number of each one's discussion."""
    sizes = list(map(len, discussions))
    return np.array([score for scores in discussions for score in scores]), np.repeat(np.arange(len(sizes)), sizes)


@pytest.mark.parametrize("rho", [0.0, 0.25, 0.64])
def test_independent_agents_are_those_whose_mean_varies_as_much(rho: float) -> None:
    drawn = list(scores(np.random.default_rng(0), rho, 9, 10_000))
    found = independent_agents(*together(drawn))
    assert found["agents"] == 9
    assert found["correlation"] == pytest.approx(rho, abs=0.02)
    assert found["independent"] == pytest.approx(0.4 * 0.6 / np.var(np.mean(drawn, axis=1)), rel=0.1)


@pytest.mark.parametrize(
    ("drawn", "expected"),
    [
        ([], (None, None, None)),
        ([[1.0], [0.0]], (1.0, None, None)),
        ([[1.0, 1.0], [1.0, 1.0]], (2.0, None, None)),
        ([[1.0, 1.0], [0.0, 0.0, 0.0]], (2.5, 1.0, 1.0)),
        # Those that are right where others are wrong are no more than they are.
        ([[1.0, 0.0], [0.0, 1.0]], (2.0, -1.0, 2.0)),
    ],
)
def test_independent_agents_are_not_known_without_several_that_differ(
    drawn: list[list[float]], expected: tuple[float | None, ...]
) -> None:
    assert tuple(independent_agents(*together(drawn)).values()) == pytest.approx(expected, abs=1e-9)
