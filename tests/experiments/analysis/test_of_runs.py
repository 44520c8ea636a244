"""One table of any runs: the figures of their metrics, the best in bold, and texts that no format takes for marks."""

import csv
import io
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from experiments.analysis.summary import summarise, write
from experiments.config.loading import load
from experiments.config.saved import save
from experiments.records.recorder import RunFolder
from run import main
from tests.support.fake_run import FACTS, METHODS, make_run
from tests.support.fake_sweep import make_sweep

TEX = shutil.which("pdflatex") or shutil.which("tectonic")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[RunFolder]:
    made = [make_run(tmp_path_factory.mktemp("runs"), steps=1, questions=n) for n in (8, 30)]
    # Named alike, whichever second each was made in.
    folders = [RunFolder(run.path.rename(run.path.with_name("alike"))) for run in made]
    for run in folders:
        save(load(["experiment=mmqa_prune"]), run.config)
        write(run, summarise(run, FACTS))
    return folders


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(list(arguments)) == 0
    return capsys.readouterr().out


def cells(line: str, mark: str) -> list[str]:
    return [cell.strip() for cell in line.removesuffix("\\\\").strip(" |").split(mark)]


def test_each_run_is_a_heading_over_its_methods(runs: list[RunFolder], capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, f"table=[{runs[0].path},{runs[1].path}]", "table.format=csv")
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["method"] for row in rows] == [*METHODS, *METHODS]
    # Folders of one name are told apart by their paths.
    assert [row["run"] for row in rows] == [str(run.path) for run in runs for _ in METHODS]
    for row in rows:
        of = json.loads((Path(row["run"]) / "metrics.json").read_text())["methods"][row["method"]]
        assert [float(row[name]) for name in ("utility", "low", "high")] == [of["utility"], *of["ci95"]]
    markdown = printed(capsys, f"table=[{runs[0].path},{runs[1].path}]", "table.format=markdown")
    lines = [line for line in markdown.splitlines() if line.startswith("| m3prune")]
    assert len(lines) == 2
    # m3prune is the best of the larger run, whose column of costs has no best.
    assert cells(lines[1], "|")[1].startswith("**0.")
    assert "**" not in cells(lines[1], "|")[-1]


def test_columns_can_be_runs_with_labels_and_a_file_says_its_format(
    runs: list[RunFolder], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    named = f"table={{clean & 100%: {runs[0].path}, b_1: {runs[1].path}}}"
    printed(capsys, named, "table.columns=runs", f"table.to={tmp_path / 'x.tex'}")
    tex = (tmp_path / "x.tex").read_text()
    assert r"clean \& 100\%" in tex
    assert r"b\_1" in tex
    body = tex.partition(r"\midrule")[2].partition(r"\bottomrule")[0].strip().splitlines()[1:]
    assert [cells(line.replace(r"\&", ""), "&")[0] for line in body] == [
        method.replace("_", r"\_") for method in METHODS
    ]
    assert {line.count("&") for line in body} == {2}
    assert (body[0].count(r"\textbf"), body[-1].count(r"\textbf")) == (0, 2)
    printed(capsys, named, f"table.to={tmp_path / 'x.md'}")
    assert (tmp_path / "x.md").read_text().startswith("**")


@pytest.mark.skipif(TEX is None, reason="no LaTeX here")
def test_latex_compiles(runs: list[RunFolder], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tex = printed(capsys, f"table=[{runs[0].path},{runs[1].path}]")
    page = rf"\documentclass{{article}}\usepackage{{booktabs,graphicx}}\begin{{document}}{tex}\end{{document}}"
    (tmp_path / "page.tex").write_text(page)
    assert TEX is not None
    subprocess.run([TEX, "page.tex"], cwd=tmp_path, check=True, stdin=subprocess.DEVNULL, capture_output=True)
    assert (tmp_path / "page.pdf").exists()


def test_a_sweep_has_a_heading_for_each_setting(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = [{"topology.rounds": 2}, {"topology.rounds": 4}]
    results = make_sweep(tmp_path, settings, ["full"], lambda method, values, seed: values["topology.rounds"] / 5)
    for result in results:
        for name in ("calls", "edges"):
            result.metrics["methods"]["full"][name] = 1
    save(load(["experiment=mmqa_prune", "sweep.axes.topology.rounds=[2,4]", "sweep.seeds=3"]), tmp_path / "config.yaml")
    rows = list(csv.DictReader(io.StringIO(printed(capsys, f"table={tmp_path}", "table.format=csv"))))
    assert [row["run"] for row in rows] == [f"{tmp_path.name}, topology.rounds={n}" for n in (2, 4)]
    assert float(rows[0]["low"]) < float(rows[0]["utility"]) < float(rows[1]["utility"])


@pytest.mark.parametrize("table", ["", "[", "[]", "[[a]]", "{a: }", "nowhere"])
def test_what_names_no_run_is_refused_in_one_line(table: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([f"table={table}"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_unknown_options_and_unfinished_runs_are_refused(
    runs: list[RunFolder], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for option in ("table.format=word", "table.size=3", f"table.to={tmp_path / 'none' / 'x.tex'}", "seed=1"):
        assert main([f"table={runs[0].path}", option]) == 2
        assert option.partition("=")[0] in capsys.readouterr().err
    run = RunFolder.create(tmp_path, "x")
    save(load(["experiment=mmqa_prune"]), run.config)
    assert main([f"table={run.path}"]) == 2
    run.metrics.write_text('{"methods": {"m": {"utility": "high"}}}')
    assert main([f"table={run.path}"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 2
