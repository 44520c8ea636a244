"""metrics.json and its tables have what the records have, whatever the order they came in."""

import io
import json
import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from actors.messages import Message, Status, Trace
from experiments.analysis.compare import arms_of_trials
from experiments.analysis.discussion_records import read_turn_counts
from experiments.analysis.paired import differences, verdicts
from experiments.analysis.phase_tables import phase_tables
from experiments.analysis.reports import write_run_report
from experiments.analysis.result_table import ResultTable
from experiments.analysis.run_facts import EMBEDDED_NOTE, Metrics
from experiments.analysis.run_table import run_table
from experiments.analysis.scores import read_trials
from experiments.analysis.statistics import holm
from experiments.analysis.summary import summarise, write
from experiments.analysis.sweep_report import sweep_rows, sweep_sections, sweep_table, write_sweep_report
from experiments.analysis.sweep_report import write as write_sweep
from experiments.analysis.turn_counts import MOST_REASONS, TurnCounts, count_turns, reasons_table, turns_table
from experiments.datasets.item import Score
from experiments.records.failures import UNREAD
from experiments.records.recorder import LearningRecorder, Recorder, RunFolder
from experiments.records.trials import TrialResult
from tests.support.fake_run import FACTS, METHODS, carry_on, cut, evaluate, item, learn, make_run, trace

AT_ONCE = Message("1/a", "a", 1, calls=1, prompt_tokens=90, completion_tokens=10)
REPAIRED = Message("1/b", "b", 1, calls=2, prompt_tokens=180, completion_tokens=20, repair_tokens=100)
UNPARSED = replace(REPAIRED, id="1/c", status=Status.UNPARSED)
FAILED = Message("1/d", "d", 1, status=Status.FAILED, error="timed out after 30 s")
DUMMY = Message("1/e", "e", 1, content="I have nothing to add.")
OLD = replace(REPAIRED, repair_tokens=0)  # as in a trace that was written before they were counted


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return make_run(tmp_path_factory.mktemp("runs"), steps=1, questions=30)


@pytest.fixture(scope="module")
def metrics(run: RunFolder) -> Metrics:
    return summarise(run, FACTS)


def printed(metrics: Metrics, further: Iterable[str] = ()) -> str:
    output = io.StringIO()
    run_table(metrics).print(Console(file=output), further)
    return output.getvalue()


def line_of(method: str, text: str) -> list[str]:
    (line,) = (line for line in text.splitlines() if line.startswith(f"{method} "))
    return line.split()


def counted(*discussions: Trace) -> TurnCounts:
    return count_turns(phase_tables(discussions).turns)


def of(*turns: Message, method: str = "m3prune") -> Trace:
    return replace(trace(1, method), turns=turns)


def recorded(tmp_path: Path, **turns: Sequence[Message]) -> tuple[RunFolder, Metrics]:
    """A run in which every method answered one question with these turns."""
    run = RunFolder.create(tmp_path, "x")
    run.config.write_text("")
    with LearningRecorder(run.learned("m3prune")) as learning:
        learn(learning, 1)
    with Recorder(run) as recorder:
        for method, of_method in turns.items():
            recorder.evaluated(of(*of_method, method=method), item(1), Score(1, 1))
    return run, summarise(run, replace(FACTS, methods=tuple(turns), pairs=()))


def test_metrics_have_exactly_the_documented_form(metrics: Metrics) -> None:
    columns = ["utility", "ci95", "f1", "prompt_tokens", "completion_tokens", "calls", "edges", "failed_turns"]
    columns += ["turns", "read_at_once", "read_after_repair", "repairs", "repair_tokens", "repair_share"]
    assert list(metrics) == ["experiment", "model", "dataset", "metric", "questions", "methods", "paired"]
    assert list(metrics["methods"]) == list(METHODS)
    assert all(list(row) == columns for row in metrics["methods"].values())
    assert list(metrics["paired"]) == ["m3prune vs full-graph", "m3prune vs random-graph"]
    assert all({"difference", "ci95", "p_value", "n"} <= test.keys() for test in metrics["paired"].values())


def test_metrics_are_means_over_the_questions(run: RunFolder, metrics: Metrics) -> None:
    scores = [scored for scored in run.scores() if scored.method == "full-graph"]
    row = metrics["methods"]["full-graph"]
    assert metrics["questions"] == len(scores) == 30
    for name in ("utility", "f1", "prompt_tokens"):
        assert row[name] == pytest.approx(sum(getattr(s, name) for s in scores) / 30, abs=1e-6)
    assert (row["calls"], row["edges"], row["failed_turns"]) == (19, 17, 6)
    assert row["ci95"][0] <= row["utility"] <= row["ci95"][1]
    other = metrics["methods"]["m3prune"]["utility"]
    assert metrics["paired"]["m3prune vs full-graph"]["difference"] == pytest.approx(other - row["utility"], abs=2e-6)
    # The seed moves intervals and nothing else.
    assert summarise(run, FACTS) == metrics
    moved = summarise(run, replace(FACTS, seed=4))
    assert moved != metrics
    assert [row["utility"] for row in moved["methods"].values()] == [
        row["utility"] for row in metrics["methods"].values()
    ]


def test_metrics_depend_neither_on_the_order_of_completion_nor_on_a_crash(tmp_path: Path, run: RunFolder) -> None:
    write(run, summarise(run, FACTS))
    other = RunFolder.create(tmp_path, "fake")
    lines = list(zip(run.scores(), (t for m in METHODS for t in run.traces(f"evaluate-{m}")), strict=True))
    random.Random(1).shuffle(lines)
    with Recorder(other) as recorder:
        for scored, discussion in lines:
            recorder.evaluated(discussion, item(discussion.seed), Score(scored.utility, scored.f1))
    write(other, summarise(other, FACTS))
    assert other.metrics.read_bytes() == run.metrics.read_bytes()
    killed = make_run(tmp_path, steps=1, questions=30)
    scores = killed.path / "scores.jsonl"
    scores.write_bytes(scores.read_bytes()[: scores.stat().st_size * 2 // 3])
    carry_on(killed, steps=1, questions=30)
    assert summarise(killed, FACTS) == summarise(run, FACTS)


def test_methods_that_answered_different_questions_are_not_compared(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path, "x")
    with pytest.raises(ValueError, match="0"):
        summarise(run, FACTS)
    with Recorder(run) as recorder:
        evaluate(recorder, 2)
    scores = run.path / "scores.jsonl"
    scores.write_bytes(b"".join(scores.read_bytes().splitlines(keepends=True)[:-1]))
    with pytest.raises(ValueError, match="m3prune"):
        summarise(run, FACTS)


def test_the_file_is_json_with_six_digits(run: RunFolder, metrics: Metrics) -> None:
    write(run, metrics)
    text = run.metrics.read_text()
    assert json.loads(text) == metrics
    numbers = [word.strip(",") for word in text.split() if word[0].isdigit()]
    assert all(len(number.partition(".")[2]) <= 6 for number in numbers)


def test_a_table_in_a_file_is_plain_and_no_wider_than_110_and_the_log_has_all_notes(
    metrics: Metrics, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    shown = printed(metrics, ["3 model calls."])
    assert "\x1b" not in shown
    assert max(map(len, shown.splitlines())) <= 110
    full = metrics["methods"]["full-graph"]
    row = line_of("full-graph", shown)
    assert row[1] == f"{full['utility']:.3f}"
    assert row[4:] == [f"{full['prompt_tokens']:,.0f}", "540", "19", "17", "6"]
    assert [record.message for record in caplog.records] == [*run_table(metrics).notes, "3 model calls."]
    assert EMBEDDED_NOTE in shown
    assert EMBEDDED_NOTE not in printed(metrics | {"model": "another"})
    rows = {method: {"acc_star": 0.125, "failed": 1} for method in METHODS}
    judged = printed({**metrics, "judged": {"judge": "Justus", "correct_from": 4, "methods": rows, "paired": {}}})
    assert judged.count("0.125") == len(METHODS)
    assert max(map(len, judged.splitlines())) <= 110


@pytest.mark.parametrize("width", [40, 60, 80, 100, 160])
def test_a_table_on_a_terminal_of_any_width_cuts_no_figure(width: int, metrics: Metrics) -> None:
    output = io.StringIO()
    twins = {method: f"{method}-clean" for method in METHODS}
    rows = {method: {**row, "strict_em": 0.5, "attack_success": 0.25} for method, row in metrics["methods"].items()}
    rows |= {twins[method]: {**metrics["methods"][method], "utility": 0.875} for method in METHODS}
    table = run_table({**metrics, "methods": rows, "clean": twins})
    table.print(Console(file=output, force_terminal=True, width=width, color_system=None))
    shown = output.getvalue()
    assert max(map(len, shown.splitlines())) <= width
    assert "\u2026" not in shown
    for method in METHODS:
        row = metrics["methods"][method]
        low, high = row["ci95"]
        for figure in (f"{row['utility']:.3f} ({low:.3f}-{high:.3f})", f"{row['utility'] - 0.875:+.3f}"):
            assert figure in shown
    assert shown.count("0.875") == len(METHODS)


def test_certified_accuracy_counts_right_answers_that_f_agents_cannot_change(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, "certified")
    with Recorder(folder) as recorder:
        for number, f in enumerate((0, 1, 2, 4)):
            # The last is certified and wrong.
            right = float(number < 3)
            for method, certificate in (("majority", f), ("full", None)):
                discussed = replace(trace(number, method), certified=certificate)
                recorder.evaluated(discussed, item(number), Score(utility=right, f1=right))
    rows = summarise(folder, replace(FACTS, methods=("majority", "full"), pairs=()))["methods"]
    majority = rows["majority"]
    assert (majority["utility"], majority["certified_1"], majority["certified_2"]) == (0.75, 0.5, 0.25)
    assert "certified_1" not in rows["full"]
    assert [scored.certified for scored in folder.scores() if scored.method == "majority"] == [0, 1, 2, 4]
    assert {t.certified for t in folder.traces("evaluate-full")} == {None}


def test_a_name_between_colons_stays_a_name() -> None:
    output = io.StringIO()
    table = ResultTable(("name", ":parrot:"), [(":parrot:", "[red]1")], (":parrot:",), ":parrot:")
    table.print(Console(file=output, force_terminal=True, width=80, color_system=None))
    assert (output.getvalue().count(":parrot:"), output.getvalue().count("[red]1")) == (4, 1)


def test_only_differences_that_are_shown_are_named() -> None:
    clear = {"difference": 0.1, "ci95": [0.02, 0.2], "p_value": 0.03, "n": 30, "wins": 9, "losses": 2}
    paired = {"a vs b": {**clear, "p_holm": 0.06}, "a vs c": {**clear, "p_holm": 0.02}}
    (line,) = differences(paired, {})
    assert "a is better than c" in line
    assert "b" not in line.partition(": ")[2].replace("better", "")
    assert not list(differences({}, {}))


def test_as_good_with_fewer_tokens_is_a_finding_of_its_own_and_too_few_questions_are_named() -> None:
    same = {"difference": 0.0, "ci95": [-0.015, 0.015], "p_value": 1.0, "p_holm": 1.0, "margin": 0.02}
    same |= {"n": 900, "clusters": 300, "wins": 1, "losses": 1}
    rows = {"a": {"prompt_tokens": 70, "completion_tokens": 5}, "b": {"prompt_tokens": 90, "completion_tokens": 10}}
    (line,) = differences({"a vs b": {**same, "p_margin_holm": 0.01}}, rows)
    assert "a is not worse by 0.02 or more than b (25% fewer tokens)" in line
    (line,) = differences({"a vs b": {**same, "p_margin_holm": 0.06}}, rows)
    assert "not worse" not in line
    _, few = differences({"a vs b": {**same, "p_margin_holm": 1.0, "clusters": 5}}, rows)
    assert "5 independent questions" in few


def test_questions_of_one_cluster_are_no_further_evidence(tmp_path: Path) -> None:
    facts = replace(FACTS, methods=("a", "b"), pairs=(("a", "b"),), margin=0.02)
    wide, narrow = (summarise(clustered_run(tmp_path, size), facts) for size in (8, 1))
    tests = [metrics["paired"]["a vs b"] for metrics in (wide, narrow)]
    assert [(test["n"], test["clusters"], test["difference"]) for test in tests] == [(96, 12, 0.25), (96, 96, 0.25)]
    assert [test["verdict"] for test in tests] == ["not known", "better"]
    first, second = (metrics["methods"]["a"]["ci95"] for metrics in (wide, narrow))
    assert first[0] < second[0] < second[1] < first[1]


def clustered_run(folder: Path, size: int) -> RunFolder:
    """Two methods on 96 questions; a is right on three of twelve tables, of `size` questions by their clusters."""
    run = RunFolder.create(folder, "x")
    with Recorder(run) as recorder:
        for number in range(96):
            asked = replace(item(number), cluster=f"table {number // 8}" if size > 1 else "")
            right = float(number // 8 < 3)
            recorder.evaluated(trace(number, "a"), asked, Score(right, right))
            recorder.evaluated(trace(number, "b"), asked, Score(0, 0))
    return run


def test_columns_of_cut_turns_are_there_where_any_method_had_one(tmp_path: Path, metrics: Metrics) -> None:
    run = RunFolder.create(tmp_path, "x")
    with Recorder(run) as recorder:
        recorder.evaluated(trace(1), item(1), Score(1, 1))
        recorder.evaluated(cut(trace(1, "full-graph")), item(1), Score(1, 1))
    some = summarise(run, replace(FACTS, methods=("m3prune", "full-graph"), pairs=()))
    assert [row["cut_turns"] for row in some["methods"].values()] == [0, 2]
    assert "cut" in printed(some).split("m3prune")[0]
    assert "cut" not in printed(metrics)


def strict_run(tmp_path: Path, strict: dict[str, Sequence[float | None]]) -> Metrics:
    """Methods whose answers are all right by containment, and strictly as given."""
    run = RunFolder.create(tmp_path, "x")
    with Recorder(run) as recorder:
        for method, values in strict.items():
            for number, value in enumerate(values):
                recorder.evaluated(trace(number, method), item(number), Score(1, 1, value))
    return summarise(run, replace(FACTS, methods=tuple(strict), pairs=()))


def test_strict_exact_match_has_a_column_and_an_interval_where_all_answers_have_it(
    tmp_path: Path, metrics: Metrics
) -> None:
    both = strict_run(tmp_path, {"m3prune": (1, 0, 0, 0), "full-graph": (1, 1, 1, 1)})
    row = both["methods"]["m3prune"]
    assert (row["utility"], row["strict_em"]) == (1, 0.25)
    assert row["strict_em_ci95"][0] <= 0.25 < row["strict_em_ci95"][1]
    assert line_of("m3prune", printed(both))[1:4] == ["1.000", "(0.510-1.000)", "0.250"]
    older = strict_run(tmp_path, {"m3prune": (1, None), "full-graph": (1, 0)})
    assert [row.get("strict_em") for row in older["methods"].values()] == [None, 0.5]
    assert line_of("m3prune", printed(older))[1:4] == ["1.000", "(0.342-1.000)", "1.000"], "an empty cell, then F1"
    assert not any("strict_em" in row for row in metrics["methods"].values())
    assert "strict" not in printed(metrics)


def test_a_verdict_needs_the_adjusted_p_value_and_the_interval(metrics: Metrics) -> None:
    tests = metrics["paired"].values()
    assert [t["p_holm"] for t in tests] == pytest.approx(holm([t["p_value"] for t in tests]), abs=1e-6)
    clear = {"difference": 0.1, "ci95": [0.02, 0.2], "p_value": 0.03, "n": 30, "wins": 9, "losses": 2}
    unsure, better, note = verdicts({"a vs b": {**clear, "p_holm": 0.06}, "a vs c": {**clear, "p_holm": 0.02}}, "EM")
    assert unsure.endswith("not known which is better.")
    assert better.endswith("a is better.")
    assert "Holm" in note
    assert len(list(verdicts({"a vs b": {**clear, "p_holm": 0.03}}, "EM"))) == 1
    for ci95, verdict in (([-0.1, 0.2], "not known which is better"), ([-0.2, -0.1], "a is worse")):
        (line,) = verdicts({"a vs b": {**clear, "ci95": ci95, "p_holm": 0.01}}, "EM")
        assert line.endswith(f"{verdict}.")


def trial(folder: Path, name: str, rounds: int, seed: int, strict: Sequence[float | None]) -> TrialResult:
    """A finished trial whose answers are all right by containment, and strictly as given."""
    run = RunFolder(folder / "trials" / name)
    run.path.mkdir(parents=True)
    with Recorder(run) as recorder:
        for number, value in enumerate(strict):
            recorder.evaluated(trace(number), item(number), Score(1, 1, value))
    metrics = summarise(run, replace(FACTS, methods=("m3prune",), pairs=()))
    return TrialResult(name, {"topology.rounds": rounds}, seed, metrics)


def test_a_sweep_averages_strict_exact_match_over_all_trials_of_a_row_or_leaves_it_out(tmp_path: Path) -> None:
    results = [
        trial(tmp_path, "0", 2, 0, [1, 0, 0, 0]),
        trial(tmp_path, "1", 2, 1, [1, 1, 1, 0]),
        trial(tmp_path, "2", 4, 0, [1, 1, 1, 1]),
        trial(tmp_path, "3", 4, 1, [None, 1, 1, 1]),
    ]
    rows = sweep_rows(arms_of_trials(read_trials(tmp_path, results)), results, seed=0)
    assert [row.means.get("strict_em") for row in rows] == [0.5, None]
    table = sweep_table(rows, "EM", "reader")
    assert table.columns[:4] == ("rounds", "method", "EM (95% interval)", "strict EM")
    assert [row[3] for row in table.rows] == ["0.500", "-"]
    assert all(len(row) == len(table.columns) for row in table.rows)
    write_sweep(tmp_path, rows, {}, "fake")
    assert "utility,strict_em,f1" in (tmp_path / "sweep.csv").read_text()
    write_sweep_report(tmp_path, sweep_sections(tmp_path, results, "EM", [], table))
    page = (tmp_path / "report.html").read_text()
    assert page.count(">strict EM</button></th>") == 1
    assert "<td>0.500</td>" in page
    # A data set whose metric is strict has no second one.
    other = [trial(tmp_path, "4", 2, 0, [None, None])]
    table = sweep_table(sweep_rows(arms_of_trials(read_trials(tmp_path, other)), other, seed=0), "accuracy", "reader")
    assert "strict EM" not in table.columns
    assert all(len(row) == len(table.columns) for row in table.rows)


def test_every_turn_that_asked_a_model_ended_in_one_of_four_ways() -> None:
    counts = counted(of(AT_ONCE, AT_ONCE, REPAIRED, UNPARSED, FAILED, DUMMY))
    ends = (counts.read_at_once, counts.read_after_repair, counts.unread, counts.failed)
    assert (counts.turns, *ends) == (5, 2, 1, 1, 1)
    assert counts.repairs == 2, "the reply that could not be read in the end was asked for again too"


def test_repair_tokens_are_a_share_of_all_tokens_or_unknown() -> None:
    counts = counted(of(AT_ONCE, REPAIRED), of(AT_ONCE))
    assert (counts.tokens, counts.repair_tokens, counts.totals["repair_share"]) == (400, 100, 0.25)
    counts = counted(of(AT_ONCE, REPAIRED, OLD))
    assert (counts.repairs, counts.repair_tokens) == (2, None)
    assert "repair_share" not in counts.totals
    uncounted = replace(OLD, prompt_tokens=0, completion_tokens=0)
    assert counted(of(uncounted)).repair_tokens == 0, "a model that counts no tokens uses none"


def test_reasons_are_counted_without_their_numbers_the_most_frequent_first() -> None:
    late = [replace(FAILED, error=f"timed out after {n}.5 s") for n in (3, 40)]
    turns = [UNPARSED, *late, replace(FAILED, error="no\x00such\x00 page")]
    expected = {"timed out after N s": 2, "no such page": 1, UNREAD: 1}
    for order in (turns, turns[::-1]):
        assert list(counted(of(*order)).reasons.items()) == list(expected.items())
    many = [replace(FAILED, error=chr(ord("a") + n)) for n in range(MOST_REASONS + 3)]
    rows = reasons_table({"full": counted(of(*many))}).rows
    assert len(rows) == MOST_REASONS + 1
    assert rows[-1][:2] == ("full", "3")


def test_metrics_table_and_report_have_a_methods_repairs(tmp_path: Path) -> None:
    run, metrics = recorded(tmp_path, single=[AT_ONCE], full=[AT_ONCE, REPAIRED, UNPARSED, FAILED])
    row = metrics["methods"]["full"]
    assert (row["turns"], row["read_at_once"], row["read_after_repair"], row["repairs"]) == (4, 1, 1, 2)
    assert row["turns"] == row["read_at_once"] + row["read_after_repair"] + row["failed_turns"]
    assert (row["repair_tokens"], row["repair_share"]) == (200, 0.4)
    assert line_of("single", printed(metrics))[-2:] == ["0.0%", "(0.0%)"]
    assert line_of("full", printed(metrics))[-2:] == ["50.0%", "(40.0%)"]
    phases = read_turn_counts(run, metrics["methods"])
    assert list(phases) == ["single", "full", "learning m3prune, stage 1", "learning m3prune, stage 2"]
    cells = ("full", "4", "1 (25.0%)", "1 (25.0%)", "1 (25.0%)", "1 (25.0%)", "200 (40.0%)")
    assert turns_table(phases).rows[1] == cells
    page = write_run_report(run, metrics, "full", []).read_text()
    assert f"<td>1</td><td>{UNREAD}</td>" in page
    assert "timed out after N s" in page
    _, older = recorded(tmp_path, full=[AT_ONCE, OLD])
    assert not {"repair_tokens", "repair_share"} & older["methods"]["full"].keys()
    assert line_of("full", printed(older))[-1] == "50.0%"
    _, none = recorded(tmp_path, full=[AT_ONCE])
    assert "epairs" not in printed(none)


def test_silent_turns_are_counted_and_have_a_column_where_there_are_any(tmp_path: Path) -> None:
    spoke = [replace(AT_ONCE, content="x"), replace(REPAIRED, answer="y"), replace(AT_ONCE, fields=(("Query", "z"),))]
    assert counted(of(*spoke, AT_ONCE, UNPARSED, FAILED, DUMMY)).silent == 1
    assert counted(of(*spoke)).silent == 0
    _, metrics = recorded(tmp_path, single=spoke, full=[AT_ONCE, *spoke])
    assert ("silent_turns" in metrics["methods"]["single"], metrics["methods"]["full"]["silent_turns"]) == (False, 1)
    assert "25.0%" in printed(metrics)
    assert "ilent" not in printed({**metrics, "methods": {"single": metrics["methods"]["single"]}})


@pytest.mark.parametrize("turns", [(), (DUMMY,)])
def test_a_method_that_asks_no_model_has_no_turns(tmp_path: Path, turns: tuple[Message, ...]) -> None:
    run, metrics = recorded(tmp_path, full=turns)
    assert read_turn_counts(run, metrics["methods"])["full"].turns == 0
    assert metrics["methods"]["full"]["turns"] == 0
