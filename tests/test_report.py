"""The report is one file that needs nothing else, and shows what was said without obeying it."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from actors.messages import Question, Usage
from experiments import figures, report
from experiments.datasets.item import Item, Score
from experiments.recorder import Recorder, RunFolder
from experiments.summary import EMBEDDED_NOTE, summarise
from experiments.usage import UsageLog
from tests.fake_run import METHODS, cut, make_run, trace
from tests.test_summary import ABOUT

VOID = {"meta", "img", "br"}


class Outline(HTMLParser):
    """Refuses tags that do not nest, and keeps every tag and its text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.links: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def outline(path: Path) -> Outline:
    read = Outline()
    read.feed(path.read_text(encoding="utf-8"))
    assert read.open == []
    return read


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return make_run(tmp_path_factory.mktemp("runs"), steps=1, questions=12)


@pytest.fixture(scope="module")
def page(run: RunFolder) -> Outline:
    metrics = summarise(run, ABOUT)
    return outline(report.write(run, metrics, "EM", "m3prune", figures.draw(run, metrics, "EM"), limit=10))


def test_the_report_needs_no_other_file_and_no_network(page: Outline) -> None:
    assert len(page.links) == 6
    assert all(link.startswith("data:image/png;base64,") for link in page.links)
    assert not {"script", "link", "iframe"} & set(page.tags)


def test_the_report_shows_methods_tests_configuration_and_whose_figures_they_are(page: Outline) -> None:
    for expected in (*METHODS, "EM of m3prune minus full-graph", EMBEDDED_NOTE, "model:\n  name: reader"):
        assert expected in page.text


def test_discussions_are_limited_and_told_turn_by_turn(page: Outline) -> None:
    assert page.tags.count("details") == 10
    assert "Discussions of m3prune (10 shown)" in page.text
    assert "Question q009" in page.text
    assert "Question q010" not in page.text
    assert re.search(r"lettering, round 2\s+heard scene \(2\), lettering \(1\)", page.text)
    assert "failed timed out" in page.text


def test_evidence_that_was_left_out_is_told_by_source_and_turn(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path, "x")
    run.config.write_text("")
    with Recorder(run) as recorder:
        recorder.evaluated(cut(trace(1)), Item(Question("q001", "?"), gold=("a",)), Score(1, 1))
    metrics = summarise(run, replace(ABOUT, methods=("m3prune",), pairs=()))
    read = outline(report.write(run, metrics, "EM", "m3prune", []))
    assert "Left out, for want of room: p7, p3 from reader, round 1." in read.text
    assert "Left out, for want of room: i2 from scene, round 2." in read.text
    assert read.text.count("asked without") == 3  # two turns, and the sentence below the table


def test_what_was_really_spent_is_shown_by_phase(tmp_path: Path, page: Outline) -> None:
    assert "really spent" not in page.text
    run = make_run(tmp_path, steps=0, questions=1)
    spent = {"reader": Usage()}
    with UsageLog(run, lambda: spent).phase("evaluating m3prune"):
        spent["reader"] = Usage(12345, 99000, 88000, 700, reused=3, reused_tokens=2)
    read = outline(report.write(run, summarise(run, ABOUT), "EM", "m3prune", []))
    assert re.search(r"evaluating m3prune[\d.]+ s12,345399,00088,000700", read.text)
    assert "12,345 model calls made" in read.text


def test_what_was_said_is_shown_and_never_obeyed(tmp_path: Path) -> None:
    attack = "</details><script>alert('x')</script>\"><img src=http://a.example/x>&lt;"
    said = trace(1)
    turns = tuple(replace(turn, content=attack, answer=attack, agent=attack, error=attack) for turn in said.turns)
    said = replace(said, turns=turns, answer=attack, decision=(attack,), evidence=(attack,))
    run = RunFolder.create(tmp_path, "x")
    run.config.write_text(f"note: {attack}")
    with Recorder(run) as recorder:
        recorder.evaluated(said, Item(Question("q001", attack), gold=(attack,)), Score(0, 0))
    metrics = summarise(run, replace(ABOUT, experiment=attack, dataset=attack, methods=("m3prune",), pairs=()))
    read = outline(report.write(run, metrics, "EM", "m3prune", []))
    assert read.links == []
    assert "script" not in read.tags
    assert read.text.count(attack) > 40


def test_the_report_does_not_depend_on_the_order_of_completion(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path, "x")
    run.config.write_text("")
    with Recorder(run) as recorder:
        for number in (3, 1, 2):
            recorder.evaluated(trace(number), Item(Question(f"q{number:03}", "?"), gold=("a",)), Score(1, 1))
    metrics = summarise(run, replace(ABOUT, methods=("m3prune",), pairs=()))
    read = outline(report.write(run, metrics, "EM", "m3prune", [], limit=2))
    assert re.findall(r"Question (q\d+)", read.text) == ["q001", "q002"]
