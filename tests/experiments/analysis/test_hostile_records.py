"""Reports and tables of records that mean harm: everything is shown as text, and nothing navigates or runs."""

import io
import itertools
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from actors.errors import UserError, visible
from experiments.analysis.compare import arms_of_trials
from experiments.analysis.result_table import ResultTable
from experiments.analysis.scores import read_trials
from experiments.analysis.sweep_report import sweep_rows, sweep_sections, sweep_table, write_sweep_report
from experiments.judging.judge import Judgement
from experiments.judging.judgements import JudgementRecord
from experiments.records.progress import Progress
from experiments.records.records import Scored, decode_trace, encode_trace
from experiments.records.trials import RESULTS, TrialResult, read_results
from tests.support.fake_run import make_run, trace
from tests.support.fake_sweep import make_sweep
from tests.support.hostile import HOSTILE, write_report


class Page(HTMLParser):
    """Collects what could make a browser act."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def check_harmless(text: str) -> None:
    """No element or attribute but those of our own templates."""
    page = Page(text)
    metas = [attrs for tag, attrs in page.tags if tag == "meta"]
    assert [meta.get("name") or meta.get("http-equiv") or "charset" for meta in metas] == [
        "charset",
        "Content-Security-Policy",
        "viewport",
        "color-scheme",
    ]
    for tag, attrs in page.tags:
        assert tag not in ("base", "iframe", "object", "embed", "link", "svg", "math", "frame")
        assert not [name for name in attrs if name.startswith("on") or name in ("action", "formaction", "srcdoc")]
        assert (attrs.get("src") or "data:").startswith("data:")
        assert re.match(r"(#|trials/)", attrs.get("href") or "#")
        assert tag != "script" or attrs.get("type", "") in ("", "application/gzip")
    assert sum(tag == "script" and "type" not in attrs for tag, attrs in page.tags) == 1


FIELDS = ("key", "value", "list", "map", "experiment", "model", "dataset")


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[TrialResult]]:
    folder = tmp_path_factory.mktemp("sweep")
    results = make_sweep(folder, [{"a": 1}, {"a": 2}], ["single", "full"], lambda *_: 0.5, seeds=1, questions=4)
    for result in results:
        for row in result.metrics["methods"].values():
            row |= {"failed_turns": 0, "edges": 9.0}
    return folder, results


@pytest.mark.parametrize(("number", "text"), list(enumerate(HOSTILE)))
def test_a_sweep_s_report_shows_every_field_as_text(
    sweep: tuple[Path, list[TrialResult]], number: int, text: str
) -> None:
    folder, (result, other) = sweep
    field = FIELDS[number % len(FIELDS)]
    values = {"key": {text: 1}, "value": {"a": text}, "list": {"a": [text]}, "map": {"a": {text: text}}}
    metrics = result.metrics if field in values else {**result.metrics, field: text}
    result = replace(result, values=values.get(field, result.values), metrics=metrics)
    (folder / RESULTS).write_text(f"{result.encode()}\n{other.encode()}\n")
    results = read_results(folder)
    table = sweep_table(sweep_rows(arms_of_trials(read_trials(folder, results)), results, 0), text, text, [text])
    write_sweep_report(folder, sweep_sections(folder, results, text, [], table))
    check_harmless((folder / "report.html").read_text())


@pytest.mark.parametrize("start", range(0, len(HOSTILE), 8))
def test_a_run_s_report_shows_every_field_as_text(tmp_path: Path, start: int) -> None:
    run = make_run(tmp_path, steps=0, questions=2)
    write_report(run, itertools.cycle(HOSTILE[start : start + 8]).__next__)
    check_harmless(run.report.read_text())


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_reaches_a_terminal_as_a_command_to_it(text: str) -> None:
    for terminal in (True, False):
        out = io.StringIO()
        console = Console(file=out, force_terminal=terminal, color_system=None, width=200)
        ResultTable((text, "n"), [(text, text)], notes=(text,), title=text).print(console, further=[text])
        with Progress(console) as progress:
            progress.print(text)
            progress.phase(text, 1, note=text).advance()
        shown = out.getvalue()
        assert "\x1b]" not in shown
        assert "\x1b[2J\r" not in shown
        assert "\x07" not in shown
        assert "\u202e" not in shown
        assert visible(text).split()[0][:8] in shown


def test_printed_text_shows_its_hidden_characters() -> None:
    assert visible("a b\x1b[1m\n\u202e\ud800") == "a b\\x1b[1m\\n\\u202e\\ud800"
    assert visible("Café 日本\u00a0x") == "Café 日本\u00a0x"


LINES = ["[1]", "3", "null", '"x"', "{}", "[" * 50_000, "9" * 10_000, '{"method": "../../x"}']


@pytest.mark.parametrize("line", LINES)
def test_a_line_that_is_no_record_is_named(line: str, tmp_path: Path) -> None:
    run = make_run(tmp_path, steps=1, questions=2)
    graph = run.learned("m3prune")
    for path, read in (
        (run.path / "scores.jsonl", lambda: list(run.scores())),
        (run.path / "traces" / "evaluate-m3prune.jsonl", lambda: list(run.traces("evaluate-m3prune"))),
        (graph.path / "learning.jsonl", lambda: list(graph.learning())),
        (tmp_path / RESULTS, lambda: read_results(tmp_path)),
    ):
        before = path.read_text() if path.exists() else ""
        path.write_text(f"{before}{line}\n")
        with pytest.raises(UserError, match=rf"{path.name}, line {before.count(chr(10)) + 1}:") as raised:
            read()
        assert "\n" not in str(raised.value)
        assert len(str(raised.value)) < 800


def pairs(values: dict[str, list[Any]]) -> list[tuple[str, Any]]:
    return [(field, value) for field, several in values.items() for value in several]


SCORES = {
    "utility": [9.0, -0.1, float("nan"), "1"],
    "f1": [None],
    "prompt_tokens": [-1, 2**63, 1.5],
    "method": ["../../x", "", "a" * 300],
    "question": [None],
    "gold": ["yes"],
    "tags": [{"a": 1}],
    "infection": [[2.0]],
    "more": [1],
}


@pytest.mark.parametrize(("field", "value"), pairs(SCORES))
def test_a_score_that_no_run_writes_is_refused(field: str, value: object, tmp_path: Path) -> None:
    run = make_run(tmp_path, steps=0, questions=1)
    scored = json.loads(next(run.scores()).encode()) | {field: value}
    with pytest.raises(ValueError, match=field):
        Scored.decode(json.dumps(scored))


def test_a_trial_s_name_is_a_folder_s(tmp_path: Path) -> None:
    for name in ("../../x", "/etc", "", ".", "a/b", "x\n"):
        (tmp_path / RESULTS).write_text(f"{TrialResult(name, {}, 0, {'methods': {}}).encode()}\n")
        with pytest.raises(UserError, match=r"line 1: .*\(name\b"):
            read_results(tmp_path)


TURN = {"id": "1", "agent": "a", "round": 1}
TRACES = {
    "agents": ["abc", [1]],
    "answer": [3],
    "seed": ["1"],
    "spatial": [[[0, "x", 1]], [[0, -1, 1]]],
    "turns": [1, *([TURN | change] for change in ({"id": 1}, {"confidence": float("nan")}, {"heard": [1]}))],
    "more": [1],
}


@pytest.mark.parametrize(("field", "value"), pairs(TRACES))
def test_a_discussion_that_no_run_writes_is_refused(field: str, value: object) -> None:
    line = json.dumps(json.loads(encode_trace(trace(1))) | {field: value})
    with pytest.raises(ValueError, match="not a trace"):
        decode_trace(line)


@pytest.mark.parametrize(
    "change", [{"grade": 9}, {"grade": "5"}, {"calls": -1}, {"reason": 1}, {"method": 1}, {"x": 1}]
)
def test_a_judgement_that_no_judge_gives_is_refused(change: dict[str, Any]) -> None:
    line = json.loads(JudgementRecord("full", "q", "digest", Judgement(4)).encode()) | change
    with pytest.raises((ValueError, TypeError)):
        JudgementRecord.decode(json.dumps(line))
