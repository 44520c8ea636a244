"""metrics.json says what the records say, whatever the order they came in, and the table says it to a person."""

from __future__ import annotations

import io
import json
import random
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from experiments.analysis.run_table import run_table
from experiments.analysis.statistics import holm
from experiments.analysis.summary import EMBEDDED_NOTE, Metrics, RunFacts, summarise, verdicts, write
from experiments.datasets.item import Score
from experiments.records import progress as progress_module
from experiments.records.progress import Progress, plain
from experiments.records.recorder import Recorder, RunFolder
from tests.support.fake_run import METHODS, carry_on, cut, evaluate, item, make_run, trace

ABOUT = RunFacts(
    experiment="fake",
    model="reader",
    dataset="sample",
    metric="EM",
    methods=tuple(METHODS),
    pairs=(("m3prune", "full-graph"), ("m3prune", "random-graph")),
    seed=3,
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return make_run(tmp_path_factory.mktemp("runs"), steps=1, questions=30)


@pytest.fixture(scope="module")
def metrics(run: RunFolder) -> Metrics:
    return summarise(run, ABOUT)


def printed(metrics: Metrics, **console: object) -> str:
    output = io.StringIO()
    run_table(metrics, "EM").print(Console(file=output, **console))  # type: ignore[arg-type]
    return output.getvalue()


def test_metrics_have_exactly_the_documented_form(metrics: Metrics) -> None:
    columns = ["utility", "ci95", "f1", "prompt_tokens", "completion_tokens", "calls", "edges", "failed_turns"]
    columns += ["turns", "read_at_once", "read_after_repair", "repairs", "repair_tokens", "repair_share"]
    assert list(metrics) == ["experiment", "model", "dataset", "questions", "methods", "paired"]
    assert list(metrics["methods"]) == list(METHODS)
    assert all(list(row) == columns for row in metrics["methods"].values())
    assert list(metrics["paired"]) == ["m3prune vs full-graph", "m3prune vs random-graph"]
    assert all({"difference", "ci95", "p_value", "n"} <= test.keys() for test in metrics["paired"].values())


def test_turns_without_some_of_their_evidence_are_shown_where_there_are_any(tmp_path: Path, metrics: Metrics) -> None:
    run = RunFolder.create(tmp_path, "x")
    with Recorder(run) as recorder:
        recorder.evaluated(trace(1), item(1), Score(1, 1))
        recorder.evaluated(cut(trace(1, "full-graph")), item(1), Score(1, 1))
    some = summarise(run, replace(ABOUT, methods=("m3prune", "full-graph"), pairs=()))
    assert [row["cut_turns"] for row in some["methods"].values()] == [0, 2]
    assert "2 turns were asked without some of their evidence" in printed(some)
    assert "cut" in printed(some).split("m3prune")[0]
    assert "cut" not in printed(metrics)


def strict_run(tmp_path: Path, strict: dict[str, tuple[float | None, ...]]) -> Metrics:
    """Methods whose answers are all right by containment, and strictly as told."""
    run = RunFolder.create(tmp_path, "x")
    with Recorder(run) as recorder:
        for method, values in strict.items():
            for number, value in enumerate(values):
                recorder.evaluated(trace(number, method), item(number), Score(1, 1, value))
    return summarise(run, replace(ABOUT, methods=tuple(strict), pairs=()))


def test_strict_exact_match_stands_beside_the_lenient_one_with_an_interval_of_its_own(tmp_path: Path) -> None:
    metrics = strict_run(tmp_path, {"m3prune": (1, 0, 0, 0), "full-graph": (1, 1, 1, 1)})
    row = metrics["methods"]["m3prune"]
    assert (row["utility"], row["strict_em"]) == (1, 0.25)
    assert row["strict_em_ci95"][0] <= 0.25 < row["strict_em_ci95"][1]
    assert "strict EM, by MultimodalQA's official script" in printed(metrics)
    (line,) = (line for line in printed(metrics).splitlines() if line.startswith("m3prune"))
    assert line.split()[1:4] == ["1.000", "(1.000-1.000)", "0.250"]


def test_a_data_set_whose_metric_is_strict_has_no_second_one(metrics: Metrics) -> None:
    assert not any("strict_em" in row for row in metrics["methods"].values())
    assert "strict" not in printed(metrics)


def test_a_method_with_older_records_has_no_strict_exact_match(tmp_path: Path) -> None:
    metrics = strict_run(tmp_path, {"m3prune": (1, None), "full-graph": (1, 0)})
    assert [row.get("strict_em") for row in metrics["methods"].values()] == [None, 0.5]
    (line,) = (line for line in printed(metrics).splitlines() if line.startswith("m3prune"))
    assert line.split()[1:4] == ["1.000", "(1.000-1.000)", "1.000"], "an empty cell, then F1"


def test_a_judges_verdict_stands_in_the_table_where_there_is_one(metrics: Metrics) -> None:
    rows = {method: {"acc_star": 0.125, "failed": 1} for method in METHODS}
    said = printed({**metrics, "judged": {"judge": "Justus", "correct_from": 4, "methods": rows, "paired": {}}})
    assert "Acc*" in said
    assert said.count("0.125") == len(METHODS)
    assert max(map(len, said.splitlines())) <= 110


def test_what_was_spent_can_stand_below_the_table(metrics: Metrics) -> None:
    output = io.StringIO()
    run_table(metrics, "EM").print(Console(file=output), further=["Spent in all: 3 model calls."])
    assert output.getvalue().endswith("Spent in all: 3 model calls.\n")


def test_metrics_are_means_over_the_questions(run: RunFolder, metrics: Metrics) -> None:
    scores = [scored for scored in run.scores() if scored.method == "full-graph"]
    row = metrics["methods"]["full-graph"]
    assert metrics["questions"] == len(scores) == 30
    assert row["utility"] == pytest.approx(sum(s.utility for s in scores) / 30, abs=1e-6)
    assert row["f1"] == pytest.approx(sum(s.f1 for s in scores) / 30, abs=1e-6)
    assert row["prompt_tokens"] == pytest.approx(sum(s.prompt_tokens for s in scores) / 30, abs=1e-6)
    assert (row["calls"], row["edges"], row["failed_turns"]) == (19, 17, 6)
    assert row["ci95"][0] <= row["utility"] <= row["ci95"][1]
    other = metrics["methods"]["m3prune"]["utility"]
    assert metrics["paired"]["m3prune vs full-graph"]["difference"] == pytest.approx(other - row["utility"], abs=2e-6)


def test_metrics_do_not_depend_on_the_order_of_completion(tmp_path: Path, run: RunFolder) -> None:
    write(run, summarise(run, ABOUT))
    other = RunFolder.create(tmp_path, "fake")
    lines = list(zip(run.scores(), (t for m in METHODS for t in run.traces(f"evaluate-{m}")), strict=True))
    random.Random(1).shuffle(lines)
    with Recorder(other) as recorder:
        for scored, told in lines:
            recorder.evaluated(told, item(told.seed), Score(scored.utility, scored.f1))
    write(other, summarise(other, ABOUT))
    assert other.metrics.read_bytes() == run.metrics.read_bytes()


def test_metrics_after_a_crash_are_those_of_a_whole_run(tmp_path: Path, run: RunFolder) -> None:
    other = make_run(tmp_path, steps=1, questions=30)
    scores = other.path / "scores.jsonl"
    scores.write_bytes(scores.read_bytes()[: scores.stat().st_size * 2 // 3])
    carry_on(other, steps=1, questions=30)
    assert summarise(other, ABOUT) == summarise(run, ABOUT)


def test_methods_that_answered_different_questions_are_not_compared(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path, "x")
    with pytest.raises(ValueError, match="answered 0"):
        summarise(run, ABOUT)
    with Recorder(run) as recorder:
        evaluate(recorder, 2)
    scores = run.path / "scores.jsonl"
    scores.write_bytes(b"".join(scores.read_bytes().splitlines(keepends=True)[:-1]))
    with pytest.raises(ValueError, match="m3prune has answered 1 questions, closed-book 2"):
        summarise(run, ABOUT)


def test_the_file_is_json_with_six_digits(run: RunFolder, metrics: Metrics) -> None:
    write(run, metrics)
    text = run.metrics.read_text()
    assert json.loads(text) == metrics
    numbers = [word.strip(",") for word in text.split() if word[0].isdigit()]
    assert all(len(number.partition(".")[2]) <= 6 for number in numbers)


def test_a_table_in_a_file_is_plain_and_no_wider_than_110(metrics: Metrics) -> None:
    shown = printed(metrics)
    assert "\x1b" not in shown
    assert max(map(len, shown.splitlines())) <= 110
    row = next(line.split() for line in shown.splitlines() if line.startswith("full-graph"))
    full = metrics["methods"]["full-graph"]
    assert row[1] == f"{full['utility']:.3f}"
    assert row[4:] == [f"{full['prompt_tokens']:,.0f}", "540", "19", "17", "6"]


def test_where_several_pairs_are_compared_the_verdict_goes_by_the_adjusted_p_value(metrics: Metrics) -> None:
    assert [test["p_holm"] for test in metrics["paired"].values()] == pytest.approx(
        holm([test["p_value"] for test in metrics["paired"].values()]), abs=1e-6
    )
    clear = {"difference": 0.1, "ci95": [0.02, 0.2], "p_value": 0.03, "n": 30, "wins": 9, "losses": 2}
    said = " ".join(
        verdicts({"a vs b": {**clear, "p_holm": 0.06}, "a vs c": {**clear, "p_value": 0.01, "p_holm": 0.02}}, "EM")
    )
    assert "p = 0.03, 0.06 adjusted; better on 9 and worse on 2 of 30 questions): no difference shown." in said
    assert "EM of a minus c: +0.100" in said
    assert "a is better. P-values are adjusted for the 2 comparisons by Holm's method" in said
    assert "adjusted" not in " ".join(verdicts({"a vs b": {**clear, "p_holm": 0.03}}, "EM"))


def test_the_paired_test_is_told_in_words(metrics: Metrics) -> None:
    test = metrics["paired"]["m3prune vs full-graph"]
    for ci95, verdict in (([-0.1, 0.2], "no difference"), ([0.1, 0.2], "m3prune is better"), ([-0.2, -0.1], "worse")):
        changed = metrics | {"paired": {"m3prune vs full-graph": test | {"ci95": ci95, "p_holm": 0.01}}}
        words = " ".join(printed(changed).split())
        assert f"EM of m3prune minus full-graph: {test['difference']:+.3f}" in words
        assert verdict in words


def test_the_embedded_readers_figures_are_labelled_as_its_own(metrics: Metrics) -> None:
    assert EMBEDDED_NOTE in printed(metrics)
    assert EMBEDDED_NOTE not in printed(metrics | {"model": "another"})


def test_the_seed_and_nothing_else_moves_an_interval(run: RunFolder, metrics: Metrics) -> None:
    assert summarise(run, ABOUT) == metrics
    moved = summarise(run, replace(ABOUT, seed=4))
    assert moved != metrics
    assert [row["utility"] for row in moved["methods"].values()] == [
        row["utility"] for row in metrics["methods"].values()
    ]


def test_progress_prints_a_plain_line_where_there_is_no_terminal() -> None:
    output = io.StringIO()
    with Progress(Console(file=output)) as progress:
        bar = progress.phase("stage 1", total=40, done=30)
        for _ in range(10):
            bar.advance()
    assert output.getvalue().startswith("stage 1: 40/40, ")
    assert output.getvalue().count("\n") == 1


def test_progress_prints_turns_that_end_before_any_unit_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_module, "PLAIN_EVERY_S", 0.0)
    output = io.StringIO()
    with Progress(Console(file=output)) as progress:
        bar = progress.phase("stage 1", total=40)
        bar.turn()
        bar.turn()
    said = [line.rpartition(", ")[0] for line in output.getvalue().splitlines()]
    assert said == ["stage 1: 0/40, 0.0/s; turns: 1", "stage 1: 0/40, 0.0/s; turns: 2"]


def test_turns_print_no_more_lines_than_units_do() -> None:
    output = io.StringIO()
    with Progress(Console(file=output)) as progress:
        bar = progress.phase("stage 1", total=40)
        for _ in range(1000):
            bar.turn()
    assert output.getvalue().count("\n") <= 1


def test_progress_shows_bars_on_a_terminal() -> None:
    output = io.StringIO()
    with Progress(Console(file=output, force_terminal=True, width=100)) as progress:
        learning, evaluation = progress.phase("stage 1", total=2), progress.phase("m3prune", total=4)
        learning.advance(2)
        evaluation.advance()
        evaluation.turn()
    assert "turns: 1, " in output.getvalue()
    assert "2/2" in output.getvalue()
    assert "1/4" in output.getvalue()


def test_a_plain_line_tells_rate_and_time_left_without_what_was_done_before() -> None:
    assert plain("m3prune", done=60, total=100, fresh=10, elapsed_s=5) == "m3prune: 60/100, 2.0/s, 0:00:20 left"
    assert plain("m3prune", done=0, total=100, fresh=0, elapsed_s=5) == "m3prune: 0/100, 0.0/s"


def test_a_plain_line_tells_turns_and_rates_below_one_a_second() -> None:
    slow = plain("m3prune", done=1, total=100, fresh=1, elapsed_s=80, turns=19)
    assert slow == "m3prune: 1/100, 0.013/s, 2:12:00 left; turns: 19, 0.24/s"
    fast = plain("m3prune", done=100, total=100, fresh=100, elapsed_s=4, turns=1900)
    assert fast == "m3prune: 100/100, 25.0/s, took 0:00:04; turns: 1,900, 475.0/s"
