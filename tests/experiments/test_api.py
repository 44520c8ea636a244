"""The project from Python: tables of run folders, whatever their state, with the columns that the guide lists."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy
import pyarrow as pa
import pytest

from actors.errors import UserError
from experiments.analysis import summary
from experiments.analysis.arrow_tables import run_tables
from experiments.api import Run, dry_run, load_run, resume
from experiments.api import run as run_experiment
from experiments.config.loading import load
from experiments.config.saved import save
from experiments.records import jsonl
from experiments.records.recorder import Recorder, RunFolder
from experiments.records.start import project_version
from run import main
from tests.support.fake_run import AGENTS, FACTS, make_run
from tests.support.fake_sweep import make_sweep
from tests.support.paths import ROOT
from tests.support.waiting import until


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
    assert list(run.traces("m3prune", traces[3].question)) == [traces[3]]
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
    points = [{"topology.rounds": rounds, "attack": attack} for rounds in (2, 4) for attack in ("collude",)]
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
    assert scores.groupby(["topology.rounds", "attack", "seed"]).size().tolist() == [6] * 4


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
    "content", ["{", "[]", '{"methods": []}', '{"methods": {"full": {"utility": "high"}}}', '{"methods": {"full": 1}}']
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


def test_bad_input_raises_the_line_of_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UserError) as raised:
        run_experiment("mmqa_prune", topology={"round": 2}, output=tmp_path / "runs")
    assert main(["experiment=mmqa_prune", "topology.round=2"]) == 2
    assert capsys.readouterr().err == f"error: {raised.value}\n"
    with pytest.raises(UserError):
        run_experiment("mmqa_prune", seed=object())
    assert not list(tmp_path.iterdir())


SMALL: dict[str, object] = {
    "data.limit": 4,
    "methods": ["single"],
    "runtime": "inline",
    "figures": False,
    "wandb": {"mode": "disabled"},
}


@pytest.mark.slow
async def test_a_run_is_started_below_a_running_event_loop(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = {**SMALL, "output": tmp_path}
    dry_run("mmqa_prune", settings)
    assert re.search(r" 4 +4 +4 ", capsys.readouterr().out)
    assert not list(tmp_path.glob("*-mmqa_prune"))
    done = run_experiment("mmqa_prune", settings, seed=numpy.int64(3))
    assert done.config.seed == 3
    assert done.turns.to_arrow().num_rows == 4
    assert resume(done.path).scores.to_arrow() == done.scores.to_arrow()


@pytest.mark.slow
async def test_an_interrupted_run_is_resumed(tmp_path: Path) -> None:
    settings = {**SMALL, "data.limit": 40, "methods": ["full"], "concurrency": 1, "output": str(tmp_path)}
    script = f"from experiments.api import run\nrun('mmqa_prune', {settings})\n"
    process = subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, stderr=subprocess.PIPE, text=True)
    await until(lambda: any(path.stat().st_size for path in tmp_path.glob("*/scores.jsonl")))
    process.send_signal(signal.SIGINT)
    _, said = process.communicate()
    assert "KeyboardInterrupt" in said
    [folder] = tmp_path.glob("*-mmqa_prune")
    before = load_run(folder).scores.to_arrow().num_rows
    assert 0 < before < 40
    assert resume(folder).scores.to_arrow().num_rows == 40


@pytest.mark.slow
def test_a_learned_graph_is_evaluated_again_from_its_file(tmp_path: Path) -> None:
    team = {"topology.text": ["critic", "scientist"], "topology.visual": ["critic", "scientist"]}
    attack = {"attack": {"kind": "collude", "number": 2}, "attack.clean": False}
    settings = {**SMALL, **team, **attack, "output": str(tmp_path)}
    learning = {"pruning.steps": 2, "pruning.interim": 0, "training.samples": 4}
    learned = run_experiment("mmqa_prune", {**settings, "methods": ["effects"]}, **learning)
    method = f"graph:{learned.path / 'learned' / 'effects' / 'topology.graphml'}"
    methods = ["effects", method]
    # Both in one run, as the generated sample depends on the number of training questions.
    again = run_experiment("mmqa_prune", {**settings, "methods": methods}, **learning)
    of_question = {trace.question: trace for trace in again.traces("graph_effects")}
    for trace in again.traces("effects"):
        assert of_question[trace.question].turns == trace.turns
        assert of_question[trace.question].decision == trace.decision
    with pytest.raises(UserError):
        resume(again.path)
    assert resume(again.path, methods=methods).scores.to_arrow() == again.scores.to_arrow()


def test_packages_of_other_projects_are_named(tmp_path: Path) -> None:
    (tmp_path / "actors").mkdir()
    (tmp_path / "actors" / "__init__.py").touch()
    there = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    for code, status in (("import agora_mm; agora_mm.script()", 2), ("import experiments.api", 1)):
        command = [sys.executable, "-P", "-c", code, "help=methods"]
        done = subprocess.run(command, env=there, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == status
        assert str(tmp_path / "actors") in done.stderr.splitlines()[-1]


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert project_version() in capsys.readouterr().out
