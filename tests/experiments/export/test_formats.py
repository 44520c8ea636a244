"""Exports as the libraries of their formats read them, and what is refused."""

import json
import math
import shutil
import sys
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

from experiments.api import load_run
from experiments.records.recorder import RunFolder
from run import main
from tests.experiments.export.conftest import FAILED


def test_parquet_files_have_all_tables(folder: RunFolder, target: Path) -> None:
    assert main([f"export={folder.path}", "export.format=parquet", f"export.to={target}"]) == 0
    tables = load_run(folder.path).tables
    assert {path.stem for path in target.glob("*.parquet")} == set(tables)
    for name, table in tables.items():
        assert pq.read_table(target / f"{name}.parquet").equals(table.to_arrow())
    frame = pd.read_parquet(target / "scores.parquet")
    assert list(frame["utility"]) == [scored.utility for scored in folder.scores()]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the library's own code
def test_inspect_reads_its_logs(folder: RunFolder, target: Path) -> None:
    log = pytest.importorskip("inspect_ai.log")
    analysis = pytest.importorskip("inspect_ai.analysis")
    assert main([f"export={folder.path}", "export.format=inspect", f"export.to={target}"]) == 0
    scores = list(folder.scores())
    methods = json.loads(folder.metrics.read_text())["methods"]
    assert {path.stem for path in target.glob("*.eval")} == set(methods)
    for method, row in methods.items():
        read = log.read_eval_log(target / f"{method}.eval")
        assert (read.status, read.eval.solver, read.eval.model) == ("success", method, "reader")
        means = {score.name: score.metrics["mean"].value for score in read.results.scores}
        assert math.isclose(means["utility"], row["utility"], abs_tol=1e-6)
        traces = {trace.question: trace for trace in folder.traces(f"evaluate-{method}")}
        for sample in read.samples:
            assert [message.metadata["agent"] for message in sample.messages[1:]] == [
                turn.agent for turn in traces[sample.id].turns
            ]
    frame = analysis.samples_df(str(target), quiet=True)
    found = {(row["metadata_method"], row["id"]): row for _, row in frame.iterrows()}
    assert set(found) == {(scored.method, scored.question) for scored in scores}
    for scored in scores:
        row = found[scored.method, scored.question]
        assert row["total_tokens"] == scored.prompt_tokens + scored.completion_tokens
        if (scored.method, scored.question) == ("m3prune", FAILED):
            assert row["error"]
            assert pd.isna(row["score_utility"])
        else:
            assert (row["score_utility"], row["error"]) == (scored.utility, "")
    turns = sum(len(trace.turns) for method in methods for trace in folder.traces(f"evaluate-{method}"))
    assert len(analysis.messages_df(str(target), quiet=True)) == turns + len(scores)


def test_an_export_is_written_over_only_where_it_is_allowed(folder: RunFolder, target: Path) -> None:
    words = [f"export={folder.path}", "export.format=parquet", f"export.to={target}"]
    target.mkdir(parents=True)
    (target / "own.txt").write_text("kept")
    assert main(words) == 2
    assert [path.name for path in target.iterdir()] == ["own.txt"]
    assert main([*words, "export.replace=true"]) == 0
    assert (target / "own.txt").read_text() == "kept"
    assert (target / "scores.parquet").is_file()
    # A file takes no folder's place.
    assert main([f"export={folder.path}", "export.format=otel", f"export.to={target}", "export.replace=true"]) == 2
    assert (target / "own.txt").read_text() == "kept"


@pytest.mark.parametrize(
    ("words", "key"),
    [
        (["export.format=parquet"], "export.to"),
        (["export.to=x"], "export.format"),
        (["export.format=csv", "export.to=x"], "export.format"),
        (["export.format=parquet", "export.to=x", "export.sed=1"], "export.sed"),
    ],
)
def test_wrong_settings_are_one_line(
    words: list[str],
    key: str,
    folder: RunFolder,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([f"export={folder.path}", *words]) == 2
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n"), key in said.err) == ("", 1, True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("format", ["otel", "parquet", "inspect"])
@pytest.mark.parametrize("damage", ["no folder", "a trace is missing", "a trace is no JSON", "no configuration"])
def test_a_damaged_folder_is_one_line_and_leaves_nothing(
    format: str, damage: str, folder: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if format == "inspect":
        pytest.importorskip("inspect_ai")
    copy = tmp_path / "copy"
    traces = copy / "traces" / "evaluate-m3prune.jsonl"
    if damage != "no folder":
        shutil.copytree(folder.path, copy)
    if damage == "a trace is missing":
        traces.write_text("".join(traces.read_text().splitlines(keepends=True)[1:]))
    if damage == "a trace is no JSON":
        traces.write_text("x" + traces.read_text())
    if damage == "no configuration":
        (copy / "config.yaml").write_text("seed: 1\n")
    out = tmp_path / "out"
    code = main([f"export={copy}", f"export.format={format}", f"export.to={out / 'made'}"])
    assert code == 2
    if code:
        assert capsys.readouterr().err.count("\n") == 1
        assert list(tmp_path.glob("out/*")) == []


def test_a_missing_library_is_one_line_with_the_command_that_installs_it(
    folder: RunFolder, target: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "inspect_ai", None)
    monkeypatch.delitem(sys.modules, "experiments.export.inspect", raising=False)
    assert main([f"export={folder.path}", "export.format=inspect", f"export.to={target}"]) == 2
    said = capsys.readouterr().err
    assert (said.count("\n"), "pip install '.[export]'" in said) == (1, True)
