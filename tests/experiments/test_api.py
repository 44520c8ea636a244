"""The project from Python: tables of run folders, whatever their state, with the columns that the guide lists."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow as pa
import pytest

from actors.errors import UserError
from experiments.analysis import summary
from experiments.analysis.arrow_tables import run_tables
from experiments.api import Run, load_run
from experiments.config.loading import load
from experiments.config.saved import save
from experiments.records import jsonl
from experiments.records.recorder import Recorder, RunFolder
from tests.support.fake_run import AGENTS, FACTS, make_run
from tests.support.fake_sweep import make_sweep
from tests.support.paths import ROOT


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    run = make_run(tmp_path_factory.mktemp("runs"), steps=2, questions=6)
    save(load(["experiment=mmqa_prune", "topology.rounds=4"]), run.config)
    summary.write(run, summary.summarise(run, FACTS))
    return run


@pytest.fixture
def run(folder: RunFolder) -> Run:
    return load_run(folder.path)


def test_tables_have_all_records(run: Run, folder: RunFolder) -> None:
    scores = run.scores.to_pandas()
    assert [(row.method, row.question, row.utility) for row in scores.itertuples()] == [
        (scored.method, scored.question, scored.utility) for scored in folder.scores()
    ]
    traces = list(run.traces("m3prune"))
    discussions, turns, edges = (
        table.to_arrow().filter(pa.compute.field("method") == "m3prune").to_pylist()
        for table in (run.discussions, run.turns, run.edges)
    )
    assert [row["answer"] for row in discussions] == [trace.answer for trace in traces]
    assert [row["id"] for row in turns] == [turn.id for trace in traces for turn in trace.turns]
    assert [tuple(row["heard"]) for row in turns] == [turn.heard for trace in traces for turn in trace.turns]
    assert (edges[0]["kind"], edges[0]["round"], edges[0]["sender"], edges[0]["receiver"]) == (
        "spatial",
        1,
        *AGENTS[:2],
    )
    assert len(edges) == sum(len(trace.spatial) + len(trace.temporal) for trace in traces)
    assert run.trace("m3prune", traces[3].question) == traces[3]
    assert set(run.training_turns.to_arrow()["method"].to_pylist()) == {"m3prune"}
    steps = run.learning.to_arrow().to_pylist()
    assert [dict(row["terms"]) for row in steps] == [step.terms for step in folder.learned("m3prune").learning()]


def test_configuration_and_results_are_typed(run: Run) -> None:
    assert run.config.topology.rounds == 4
    values = dict(zip(*run.settings.to_arrow().to_pydict().values(), strict=True))
    assert json.loads(values["topology.rounds"]) == 4
    row = run.metrics.to_pandas().set_index("method").loc["m3prune"]
    assert row.utility == run.results["methods"]["m3prune"]["utility"]
    assert run.tests.to_pandas()[["first", "second"]].values.tolist() == [list(pair) for pair in FACTS.pairs]


def test_a_table_is_read_in_batches(run: Run) -> None:
    batches = list(run.turns.reader(rows=50))
    assert max(batch.num_rows for batch in batches) == 50
    assert pa.Table.from_batches(batches) == run.turns.to_arrow() == pa.table(run.turns)


def test_a_compressed_folder_and_one_that_is_still_written_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make_run(tmp_path, steps=1, questions=3)
    save(load(["experiment=mmqa_prune"]), made.config)
    plain = load_run(made.path).turns.to_arrow()
    assert not load_run(made.path).metrics.to_arrow().num_rows
    with (made.path / "traces" / "evaluate-m3prune.jsonl").open("a") as file:
        file.write('{"question": "q00')
    assert load_run(made.path).turns.to_arrow() == plain
    monkeypatch.setattr(jsonl, "COMPRESS_BYTES", 0)
    with Recorder(made):
        pass
    assert list(made.path.glob("traces/*.gz"))
    assert load_run(made.path).turns.to_arrow() == plain


def test_tables_of_a_sweep_have_the_settings_of_each_trial(tmp_path: Path) -> None:
    points = [{"topology.rounds": rounds, "attack": attack} for rounds in (2, 4) for attack in ("none", "collude")]
    results = make_sweep(tmp_path, points, ["single", "full"], lambda method, values, seed: 0.5, seeds=2, questions=3)
    save(
        load(["experiment=mmqa_prune", f"sweep.points={json.dumps(points)}", "sweep.seeds=2"]), tmp_path / "config.yaml"
    )
    for result in results:
        words = [f"{key}={value}" for key, value in result.values.items()]
        trial = load(["experiment=mmqa_prune", f"seed={result.seed}", *words])
        save(trial, tmp_path / "trials" / result.name / "config.yaml")
    sweep = load_run(tmp_path)
    assert [run.varied["run"] for run in sweep.runs] == [result.name for result in results]
    scores = sweep.scores.to_pandas()
    assert list(scores.columns[:4]) == ["run", "seed", "topology.rounds", "attack"]
    assert scores.groupby(["topology.rounds", "attack", "seed"]).size().tolist() == [6] * 8


def test_the_guide_lists_every_column_with_its_type(run: Run) -> None:
    rows = re.findall(
        r"^\| ([a-z, ]+) \| ([a-z_0-9, ]+) \| ([^|]+) \|", (ROOT / "docs" / "python.md").read_text(), re.M
    )
    listed: dict[str, list[tuple[str, str]]] = {}
    for tables, columns, kind in rows:
        for table in tables.split(", "):
            listed.setdefault(table, []).extend((column, kind) for column in columns.split(", "))
    tables = {name: table for name, table in run.tables.items() if not name.startswith("training_")}
    assert {name: [(field.name, str(field.type)) for field in t.schema] for name, t in tables.items()} == {
        name: listed[name] for name in tables
    }


@pytest.mark.parametrize(
    "content",
    ["{", "[]", '{"methods": []}', '{"methods": {"full": {"utility": "high"}}}', '{"methods": {"full": 1}}'],
)
def test_damaged_metrics_are_refused(folder: RunFolder, tmp_path: Path, content: str) -> None:
    own = RunFolder(tmp_path)
    own.metrics.write_text(content)
    with pytest.raises(UserError):
        run_tables(own)["metrics"].to_arrow()


def test_other_folders_and_methods_are_refused(run: Run, tmp_path: Path) -> None:
    with pytest.raises(UserError):
        load_run(tmp_path)
    with pytest.raises(UserError):
        run.traces("m3prun")
    with pytest.raises(UserError):
        run.trace("m3prune", "no such question")
