"""The papers' tables: cells cut from records by tag, beside reported figures, in three formats that agree."""

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from actors.errors import UserError
from experiments.analysis.intervals import ScoreGroup, crossed_interval, mean_interval
from experiments.analysis.scores import FinishedRun
from experiments.analysis.tables.formats import (
    TEMPLATES,
    Best,
    ShownTable,
    latex,
    lay_out,
    markdown,
    table_csv,
    write_tables,
)
from experiments.analysis.tables.measured import FEWEST, MeasuredCell, measure
from experiments.analysis.tables.paper_table import (
    FOLDER,
    PaperColumn,
    PaperRow,
    PaperTable,
    ReportedFigure,
    reported,
    tables_of,
)
from experiments.config.loading import experiments, load
from experiments.config.saved import save
from experiments.jobs import plan_of
from experiments.judging.judge import Judgement
from experiments.judging.judgements import JudgementRecord
from experiments.records.recorder import JUDGEMENTS, RunFolder
from experiments.records.records import Scored
from experiments.records.trials import RESULTS
from experiments.running.inputs import open_dataset
from experiments.sweeps.expansion import expand
from run import main
from tests.experiments.running.test_run_models import serving
from tests.support.endpoint import Asked, Server, Told, completion
from tests.support.sessions import folder_of
from topologies.catalogue import METHODS, find_methods

TABLES = {table.name: table for path in FOLDER.glob("*.yaml") for table in tables_of(path.stem)}
Answers = Mapping[str, Sequence[tuple[str, Mapping[str, str], float]]]  # by method: question, tags, utility


def run_of(
    folder: Path,
    answers: Answers,
    data: str = "scienceqa",
    model: str = "m",
    values: Mapping[str, Any] | None = None,
    seed: int = 0,
    split: str = "test",
    grades: Mapping[tuple[str, str], int] | None = None,
) -> FinishedRun:
    """A finished run with records made by hand."""
    folder.mkdir(parents=True)
    config = load(["experiment=table1", f"data.kind={data}", f"data.split={split}", f"seed={seed}"])
    save(config, folder / "config.yaml")
    lines = [
        Scored(method, question, "?", ("yes",), "yes", utility, utility, 90, 10, 3, 0, 0, tags=tags)
        for method, read in answers.items()
        for question, tags, utility in read
    ]
    (folder / "scores.jsonl").write_text("".join(f"{line.encode()}\n" for line in lines))
    judged = [
        JudgementRecord(method, question, "d", Judgement(grade, ""))
        for (method, question), grade in (grades or {}).items()
    ]
    (folder / JUDGEMENTS).write_text("".join(f"{line.encode()}\n" for line in judged))
    metrics = (
        {"model": model, "dataset": data, "judged": {"judge": "j"}} if grades else {"model": model, "dataset": data}
    )
    return FinishedRun(RunFolder(folder), values or {}, seed, metrics)


def questions(count: int, right: int, name: str, **tags: str) -> list[tuple[str, Mapping[str, str], float]]:
    return [(f"{name}{i}", tags, float(i < right)) for i in range(count)]


def table_of(
    *columns: PaperColumn, rows: Sequence[PaperRow] = (PaperRow("sp", "SP"), PaperRow("cot", "CoT")), ours: str = "cot"
) -> PaperTable:
    data = tuple(dict.fromkeys(column.data for column in columns if column.data))
    return PaperTable("t", "A paper", "1", "What it is.", data, columns, tuple(rows), ours)


def cells_of(table: PaperTable, *runs: FinishedRun) -> dict[str, dict[str, MeasuredCell]]:
    [block] = measure(table, runs, 0)
    return {row.paper_row.key: dict(row.cells) for row in block.rows}


def caption_of(table: PaperTable, *runs: FinishedRun) -> str:
    return lay_out(table, measure(table, runs, 0), (), runs).title


SUBJECTS = [
    *questions(10, 7, "a", subject="NAT", context="IMG+TXT", grade="G1-6"),
    *questions(5, 1, "b", subject="SOC", context="TXT", grade="G7-12"),
    *questions(4, 4, "c", subject="LAN", context="NO", grade="G1-6"),
]


def test_a_cell_is_the_mean_over_the_questions_with_its_tag(tmp_path: Path) -> None:
    run = run_of(tmp_path / "r", {"sp": SUBJECTS})
    cells = cells_of(TABLES["table1"], run)["sp"]
    means = {"NAT": 0.7, "SOC": 0.2, "IMG": 0.7, "Average": 12 / 19, "Tokens": 100, "G1-6": 11 / 14, "TXT": 8 / 15}
    assert {name: cells[name].mean for name in means} == pytest.approx(means)
    # A question with hint and picture counts under both, and a cell of few questions is empty.
    assert (cells["TXT"].questions, cells["IMG"].questions, FEWEST) == (15, 10, 5)
    assert cells["LAN"] == MeasuredCell(None, None, 4)
    layout = lay_out(TABLES["table1"], measure(TABLES["table1"], [run], 0), (), [run])
    assert layout.rows[1][3] == ""


def test_questions_that_need_a_table_are_not_in_the_columns_of_text_and_image(tmp_path: Path) -> None:
    read = [
        *questions(6, 6, "a", modalities="text"),
        *questions(6, 0, "b", modalities="image+text"),
        *questions(6, 0, "c", modalities="table+text"),
    ]
    run = run_of(tmp_path / "r", {"sp": read}, data="mmqa")
    cells = cells_of(TABLES["table2"], run)["sp"]
    assert (cells["MMQA Text EM"].mean, cells["MMQA Text EM"].questions) == (0.5, 12)
    assert (cells["MMQA Image EM"].mean, cells["MMQA Image EM"].questions) == (0.0, 6)


def test_an_average_of_columns_weighs_them_alike_and_needs_them_all(tmp_path: Path) -> None:
    table = table_of(
        PaperColumn("A", data="mmqa"),
        PaperColumn("B", data="scienceqa"),
        PaperColumn("Average", mean_of=("A", "B")),
        ours="sp",
    )
    first = run_of(tmp_path / "a", {"sp": questions(20, 5, "a")}, data="mmqa", values={"data.kind": "mmqa"})
    other = run_of(tmp_path / "b", {"sp": questions(5, 5, "b")}, values={"data.kind": "scienceqa"})
    both = cells_of(table, first, other)["sp"]["Average"]
    assert (both.mean, both.questions) == (0.625, 25)
    assert both.ci95 is not None
    assert both.ci95[0] < 0.625 < both.ci95[1]
    assert cells_of(table, first)["sp"]["Average"].mean is None
    assert "ScienceQA" in caption_of(table, first)


def test_the_interval_of_a_mean_of_equal_columns_is_that_of_the_column() -> None:
    """Its questions are drawn together: two columns of the same ones are no more certain than one."""
    values = (np.arange(60).reshape(2, 30) % 3 == 0).astype(float)
    part = ScoreGroup("d", values)
    twice = mean_interval([part, part], 0, draws=4000)
    assert twice == pytest.approx(crossed_interval(values, 1, draws=4000), abs=0.03)
    apart = mean_interval([part, ScoreGroup("e", values)], 0, draws=4000)
    assert apart[1] - apart[0] < 0.85 * (twice[1] - twice[0])


def test_the_caption_has_numbers_of_questions_here_and_in_the_paper(tmp_path: Path) -> None:
    run = run_of(tmp_path / "r", {"sp": SUBJECTS})
    table = table_of(
        PaperColumn("All", data="scienceqa", size=19), PaperColumn("NAT", data="scienceqa", where={"subject": ["NAT"]})
    )
    assert "All 19." in caption_of(table, run)
    other = replace(table, columns=(table.columns[0], replace(table.columns[1], size=2252)))
    assert all(part in caption_of(other, run) for part in ("NAT 10 (paper 2,252)", "All 19."))


def test_the_generated_sample_fills_the_columns_of_multimodalqa_and_the_caption_names_it(tmp_path: Path) -> None:
    run = run_of(tmp_path / "r", {"sp": questions(6, 3, "a", modalities="text")}, data="sample")
    assert cells_of(TABLES["table2"], run)["sp"]["MMQA Text EM"].mean == 0.5
    assert "generated sample" in caption_of(TABLES["table2"], run)


def test_another_split_fills_no_column_of_a_split(tmp_path: Path) -> None:
    read = questions(6, 3, "a", subject="NAT", context="IMG")
    cells = cells_of(TABLES["bdog_main"], run_of(tmp_path / "r", {"sp": read}, split="val"))["sp"]
    assert cells["SQA-IMG dev NAT"].mean == 0.5
    assert cells["SQA-IMG test NAT"].mean is None


def test_a_question_asked_several_times_counts_once_with_its_worst_score(tmp_path: Path) -> None:
    run = run_of(tmp_path / "r", {"sp": questions(24, 23, "q", ability="coarse_perception")}, data="mmbench")
    lines = [Scored.decode(line) for line in (run.folder.path / "scores.jsonl").read_text().splitlines()]
    grouped = [replace(line, group=f"g{int(line.question[1:]) // 4}") for line in lines]
    (run.folder.path / "scores.jsonl").write_text("".join(f"{line.encode()}\n" for line in grouped))
    cell = cells_of(TABLES["bdog_main"], run)["sp"]["MMBench CP"]
    assert (cell.questions, cell.mean) == (6, pytest.approx(5 / 6))


def test_acc_star_comes_from_the_judgements(tmp_path: Path) -> None:
    read = questions(6, 0, "a", modalities="text")
    grades = {("sp", f"a{i}"): 5 if i < 3 else 1 for i in range(6)}
    run = run_of(tmp_path / "r", {"sp": read}, data="mmqa", grades=grades)
    cells = cells_of(TABLES["table2"], run)["sp"]
    assert (cells["MMQA Text Acc*"].mean, cells["MMQA Text EM"].mean) == (0.5, 0.0)


def test_a_row_of_a_setting_is_of_the_trials_with_it(tmp_path: Path) -> None:
    ablations = ["none", "no_alignment"]
    runs = [
        run_of(
            tmp_path / f"{ablation}{seed}",
            {"m3prune": questions(10, 8 - 4 * i, "q")},
            data="mmqa",
            values={"ablation": ablation},
            seed=seed,
        )
        for i, ablation in enumerate(ablations)
        for seed in (0, 1)
    ]
    [block] = measure(TABLES["table3"], runs, 0)
    read = {row.paper_row.label: row.cells["MultimodalQA"].mean for row in block.rows}
    assert read == {"M³Prune": 0.8, "without alignment": 0.4}


def test_models_are_blocks_and_so_are_settings_of_one_model(tmp_path: Path) -> None:
    read = {"sp": questions(6, 3, "q")}
    table = table_of(PaperColumn("All", data="scienceqa"))
    one, other = (run_of(tmp_path / name, read, model=name) for name in ("one", "other"))
    assert [block.label for block in measure(table, [one, other], 0)] == ["one", "other"]
    hot = run_of(tmp_path / "hot", read, model="one", values={"agents.temperature": 1.0})
    assert [block.label for block in measure(table, [one, hot], 0)] == ["one", "one, agents.temperature=1.0"]


def test_ours_is_tested_against_every_other_row_on_the_same_questions(tmp_path: Path) -> None:
    read = {"sp": questions(30, 5, "q"), "cot": questions(30, 25, "q"), "single": questions(30, 25, "q")}
    table = table_of(PaperColumn("All", data="scienceqa"))
    run = run_of(tmp_path / "r", read)
    [block] = measure(table, [run], 0)
    compared = block.compared["scienceqa"]
    assert compared["CoT vs SP"]["difference"] == pytest.approx(20 / 30)
    assert compared["CoT vs SP"]["p_holm"] < 0.05
    assert compared["CoT vs single"]["difference"] == 0
    assert [row.paper_row.label for row in block.rows] == ["SP", "CoT", "single"], (
        "methods that it does not name come last"
    )
    notes = lay_out(table, [block], (), [run]).notes
    assert any("CoT minus SP: +0.667" in note for note in notes)


@pytest.mark.parametrize("name", sorted(TABLES))
def test_rows_are_systems_here_and_means_are_of_columns(name: str) -> None:
    """A misspelt column of a mean would only show as an empty cell."""
    table = TABLES[name]
    columns = [column.name for column in table.columns]
    keys = [row.key for row in table.rows]
    for names in (columns, keys, [row.label for row in table.rows]):
        assert len(set(names)) == len(names)
    assert {row.method for row in table.rows} <= {method.name for method in METHODS}
    assert table.ours in keys
    assert {part for column in table.columns for part in column.mean_of} <= set(columns)
    assert {column.data for column in table.columns} <= {"", *table.data}


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.yaml")), ids=lambda path: path.stem)
def test_a_table_is_the_experiment_of_its_name_and_that_names_its_systems(path: Path) -> None:
    assert path.stem in experiments()
    config = load([f"experiment={path.stem}"])
    find_methods(config.methods)
    wanted = {row.method for table in tables_of(path.stem) for row in table.rows}
    assert set(config.methods) <= wanted
    assert {table.ours.split()[0] for table in tables_of(path.stem)} <= set(config.methods)


@pytest.mark.parametrize("name", ["table1", "hm_rag_table", "hm_rag_crisismmd", "bdog_table", "mh_mmkg_table"])
def test_a_table_that_needs_data_names_the_key(name: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"data\.root"):
        open_dataset(plan_of(load([f"experiment={name}"])), tmp_path)


@pytest.mark.parametrize("name", sorted(TABLES))
def test_reported_figures_are_of_rows_and_columns_of_the_table(name: str) -> None:
    table, figures = TABLES[name], reported(name)
    assert {path.stem for path in (FOLDER / "reported").glob("*.csv")} == set(TABLES)
    assert figures
    assert {figure.system for figure in figures} <= {row.key for row in table.rows}
    assert {figure.column for figure in figures} <= {column.name for column in table.columns}
    read = [(figure.system, figure.model, figure.column, figure.table) for figure in figures]
    assert len(set(read)) == len(read)
    most = 100 if table.percent else 1
    assert all(0 <= float(figure.value) <= most for figure in figures)
    assert {figure.paper for figure in figures} == {table.paper}
    assert {figure.table for figure in figures} <= set(table.number.split(", "))


def test_the_sweep_of_crisismmd_has_a_point_for_every_column_of_its_table() -> None:
    tasks = [trial.config.data.task for trial in expand(load(["experiment=hm_rag_crisismmd", "sweep.seeds=1"]))]
    read = [column.where["task"] for column in TABLES["hm_rag_crisismmd"].columns if "task" in column.where]
    assert [[task] for task in tasks] == read


def by_row(name: str) -> dict[tuple[str, str, str], dict[str, ReportedFigure]]:
    found: dict[tuple[str, str, str], dict[str, ReportedFigure]] = {}
    for figure in reported(name):
        found.setdefault((figure.table, figure.model, figure.system), {})[figure.column] = figure
    return found


SCIENCEQA = [(("NAT", "SOC", "LAN"), "Average", 0.05), (("G1-6", "G7-12"), "Average", 0.05)]
PARTS = {
    "table1": SCIENCEQA,
    "hm_rag_ablation": SCIENCEQA,
    "hm_rag_scienceqa": SCIENCEQA,
    "bdog_main": [
        (tuple(f"SQA-IMG test {part}" for part in ("NAT", "SOC", "LAN")), "SQA-IMG test average", 0.11),
        (tuple(f"MMBench {part}" for part in ("LR", "AR", "RR", "FP-S", "FP-C", "CP")), "MMBench average", 0.11),
    ],
}


@pytest.mark.parametrize("name", sorted(PARTS))
def test_reported_averages_are_those_of_their_parts_unless_they_are_marked_as_doubtful(name: str) -> None:
    """A slip in a figure, or in the number of questions of a column, would show here."""
    sizes = {column.name: column.size for column in TABLES[name].columns}
    checked = 0
    for (row, figures), (parts, average, off) in product(by_row(name).items(), PARTS[name]):
        if {*parts, average} <= set(figures) and not figures[average].doubt:
            weights = [sizes[part] or 0 for part in parts]
            mean = np.average([float(figures[part].value) for part in parts], weights=weights)
            assert float(figures[average].value) == pytest.approx(mean, abs=off), (row, average)
            checked += 1
    assert checked >= 6


@pytest.mark.parametrize("name", ["table2", "table3", "table8", "hm_rag_crisismmd"])
def test_reported_means_of_columns_are_their_unweighted_means(name: str) -> None:
    for column in TABLES[name].columns:
        for row, figures in by_row(name).items() if column.mean_of else ():
            mean = np.mean([float(figures[part].value) for part in column.mean_of])
            assert float(figures[column.name].value) == pytest.approx(mean, abs=0.013), (row, column.name)


@pytest.fixture
def written(tmp_path: Path) -> tuple[ShownTable, str, str, list[dict[str, str]]]:
    read = {"sp": SUBJECTS, "m3prune": [(question, tags, 1.0) for question, tags, _ in SUBJECTS]}
    run = run_of(tmp_path / "r", read)
    [layout] = write_tables(tmp_path, "table1", [run], 0)
    texts = {kind: (tmp_path / "tables" / f"table1.{kind}").read_text() for kind in ("md", "tex", "csv")}
    return layout, texts["md"], texts["tex"], list(csv.DictReader(io.StringIO(texts["csv"])))


def rows_of_markdown(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("| ") and "---" not in line][1:]
    rows = [[cell.strip().strip("*") for cell in line.strip("|").split(" | ")] for line in lines]
    return [row for row in rows if not row[0].startswith(("Measured", "Reported"))]


def rows_of_latex(text: str) -> list[list[str]]:
    body = text[text.index("\\midrule") : text.index("\\bottomrule")]
    for mark, letter in {"--": "–", "$\\pm$": "±", "$^3$": "³"}.items():
        body = body.replace(mark, letter)
    rows = [line.strip().removesuffix("\\\\").split(" & ") for line in body.splitlines() if " & " in line]
    return [[re.sub(r"^\\textbf\{(.*)\}$", r"\1", cell.strip()) for cell in row] for row in rows]


def test_markdown_latex_and_csv_say_the_same(written: tuple[ShownTable, str, str, list[dict[str, str]]]) -> None:
    layout, md, tex, lines = written
    shown = [list(row) for row in layout.rows if row[1:]]
    assert rows_of_markdown(md) == shown
    assert rows_of_latex(tex) == shown
    measured = {(line["system"], line["column"]): line for line in lines if line["source"] == "measured"}
    for name, *cells in layout.rows[1:3]:
        system = {"SP": "sp", "M³Prune": "m3prune"}[name]
        for column, cell in zip(layout.columns[1:], cells, strict=True):
            line = measured[system, column]
            if line["value"] and column not in ("Tokens", "Calls"):
                low, high = (f"{100 * float(line[bound]):.1f}" for bound in ("ci95_low", "ci95_high"))
                assert cell == f"{100 * float(line['value']):.1f} ({low}–{high})"
            assert bool(line["value"]) == bool(cell)
    read = [line for line in lines if line["source"] == "reported"]
    assert [line["value"] for line in read] == [figure.value for figure in reported("table1")]
    assert not any(line["ci95_low"] for line in read)


def test_reported_figures_stand_apart_and_are_never_the_best(
    written: tuple[ShownTable, str, str, list[dict[str, str]]],
) -> None:
    layout, md, tex, _ = written
    measured, *others = [row[0] for row in layout.rows if not row[1:]]
    assert measured == "Measured here: m"
    assert len(others) == 3
    assert all(heading.startswith("Reported by M3Prune (Table ") for heading in others)
    assert all("not measured here" in heading for heading in others)
    best = {i: [isinstance(cell, Best) for cell in row] for i, row in enumerate(layout.rows) if row[1:]}
    assert [layout.rows[i][0] for i, marks in best.items() if any(marks)] == ["M³Prune"]
    assert best[2][1]
    assert "**100.0 (" in md
    assert "84.80 ± 1.3?" in md, "a doubtful figure"
    assert "\\textbf{100.0 (" in tex


def test_latex_takes_no_letter_of_a_text_for_a_command(tmp_path: Path) -> None:
    assert TEMPLATES.filters["latex"]("50% & $_{x}#~^\\") == (
        "50\\% \\& \\$\\_\\{x\\}\\#\\textasciitilde{}\\textasciicircum{}\\textbackslash{}"
    )
    table = replace(table_of(PaperColumn("a_b & c", data="scienceqa")), caption="100% of R&D_1.")
    run = run_of(tmp_path / "r", {"sp": questions(6, 3, "q")}, model="an_8% {model}")
    layout = lay_out(table, measure(table, [run], 0), (), [run])
    tex = latex(layout)
    assert "100\\% of R\\&D\\_1." in tex
    assert "Measured here: an\\_8\\% \\{model\\}" in tex
    assert not re.search(r"(?<!\\)[&](?! )", tex)
    assert tex.count("{") - tex.count("\\{") == tex.count("}") - tex.count("\\}")
    assert "an\\_8% {model}" in markdown(layout)
    assert "a_b & c" in table_csv(table, measure(table, [run], 0), ())


def test_no_table_is_written_of_data_that_was_not_evaluated(tmp_path: Path) -> None:
    run = run_of(tmp_path / "r", {"hm_rag": questions(6, 3, "q")})
    assert [layout.name for layout in write_tables(tmp_path, "hm_rag_table", [run], 0)] == [
        "hm_rag_scienceqa",
        "hm_rag_ablation",
    ]
    assert write_tables(tmp_path, "mmqa_prune", [run], 0) == []


async def answers_yes(asked: Asked) -> Told:
    if asked.path.endswith("/models"):
        return Told({"data": [{"id": "m"}]})
    return Told(completion("Reasoning: so it is.\nAnswer: yes\nConfidence: 0.6"))


@pytest.mark.ray
def test_a_sweep_over_models_has_a_block_of_each_and_resumed_it_writes_the_same_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Three systems with the embedded reader and with an endpoint's model: a real sweep of two trials."""
    server = Server(answers_yes)
    with serving(server):
        models = (
            f"[{{kind: reader, replicas: 1}}, {{kind: openai, name: m, base_url: '{server.base_url}', replicas: 1}}]"
        )
        models_named = f"sweep.axes.model={models}"
        words = [
            *("experiment=table2", "methods=[sp,cot,single]", "data.limit=12", "sweep.seeds=1", models_named),
            *(f"output={tmp_path}", "wandb.mode=disabled", "figures=false", "runtime=inline"),
        ]
        assert main(words) == 0
        folder = folder_of(capsys.readouterr().out)
        tables = {path: path.read_bytes() for path in (folder / "tables").iterdir()}
        assert len(tables) == 3
        first, second = (folder / RESULTS).read_text().splitlines(keepends=True)
        (folder / RESULTS).write_text(first)
        for path in tables:
            path.unlink()
        # The endpoint is contacted only where the command line names it again.
        assert main([f"resume={folder}"]) == 2
        assert "sweep.axes.model=" in capsys.readouterr().err
        assert main([f"resume={folder}", models_named]) == 0
    assert (folder / RESULTS).read_text() == first + second
    assert {path: path.read_bytes() for path in (folder / "tables").iterdir()} == tables
    text = (folder / "tables" / "table2.md").read_text()
    assert text.index("**Measured here: reader**") < text.index("**Measured here: m**") < text.index("**Reported by")
    lines = list(csv.DictReader(io.StringIO((folder / "tables" / "table2.csv").read_text())))
    measured = {(line["model"], line["system"]) for line in lines if line["source"] == "measured"}
    assert measured == set(product(("reader", "m"), ("sp", "cot", "single")))
    assert "Reported by M3Prune (Table 2), not measured here: Qwen-VL-Max" in (folder / "report.html").read_text()
