"""The report is one file that needs nothing else, and no browser can take its messages for markup."""

import base64
import gzip
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from actors.errors import UserError
from actors.messages import Lookup, Question, Usage
from experiments.analysis.agents import FILE, agent_rows
from experiments.analysis.embedded import learned_graphs
from experiments.analysis.phase_tables import phase_tables
from experiments.analysis.reports import write_run_report
from experiments.analysis.run_facts import EMBEDDED_NOTE
from experiments.analysis.summary import summarise
from experiments.datasets.item import Item, Score, text_score
from experiments.judging.judge import Judgement
from experiments.judging.judgements import JudgementRecord
from experiments.records import jsonl
from experiments.records.recorder import JUDGEMENTS, LearningRecorder, Recorder, RunFolder
from experiments.records.start import STARTS, Start
from experiments.records.timings import DiscussionTimes, TurnTime
from experiments.records.usage import UsageLog
from tests.support.fake_run import FACTS, METHODS, cut, evaluate, item, learn, make_run, trace

VOID = {"meta", "img", "br", "input"}


class Outline(HTMLParser):
    """Refuses tags that do not nest, and keeps every tag and its text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.links: list[str] = []
        self.packed: dict[str, str] = {}
        self.scripts = 0
        self.text = ""
        self._packing: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]
        self._packing = named.get("id") if tag == "script" and "type" in named else None
        self.scripts += tag == "script" and "type" not in named
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
        self._packing = None

    def handle_data(self, data: str) -> None:
        if self._packing:
            self.packed[self._packing] = self.packed.get(self._packing, "") + data
        elif not {"script", "style"} & set(self.open):
            self.text += data

    def unpacked(self, name: str) -> Any:
        return json.loads(gzip.decompress(base64.b64decode(self.packed[name])))

    def entries(self, group: str) -> list[dict[str, Any]]:
        return [entry for entry in self.unpacked("index")["entries"] if entry["group"] == group]

    def trace(self, entry: dict[str, Any]) -> dict[str, Any]:
        trace: dict[str, Any] = self.unpacked(f"chunk-{entry['chunk']}")[entry["place"]]
        return trace


def outline(path: Path) -> Outline:
    read = Outline()
    read.feed(path.read_text(encoding="utf-8"))
    assert read.open == []
    return read


def write(run: RunFolder, **options: Any) -> Outline:
    """The report of a run of the one method m3prune."""
    metrics = summarise(run, replace(FACTS, methods=("m3prune",), pairs=()))
    return outline(write_run_report(run, metrics, "m3prune", [], **options))


def a_run(tmp_path: Path) -> RunFolder:
    run = RunFolder.create(tmp_path, "x")
    run.config.write_text("")
    return run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return make_run(tmp_path_factory.mktemp("runs"), steps=1, questions=12)


@pytest.fixture(scope="module")
def page(run: RunFolder) -> Outline:
    run.figures.mkdir()
    drawn = [run.figures / name for name in ("curves.png", "curves.svg", "edges.png")]
    for figure in drawn:
        figure.write_bytes(figure.name.encode())
    return outline(write_run_report(run, summarise(run, FACTS), "m3prune", [drawn[0], *drawn[2:]]))


def test_the_report_needs_no_other_file_and_no_network(run: RunFolder, page: Outline) -> None:
    assert [link for link in page.links if link.startswith("data:")] == [
        f"data:image/svg+xml;base64,{base64.b64encode(b'curves.svg').decode()}",  # rather than its PNG
        f"data:image/png;base64,{base64.b64encode(b'edges.png').decode()}",
    ]
    assert all(link.startswith(("data:image/", "#")) for link in page.links)
    assert not {"link", "iframe", "object"} & set(page.tags)
    assert "default-src 'none'; img-src data:;" in run.report.read_text()


def test_the_report_shows_methods_tests_configuration_and_model(page: Outline) -> None:
    for expected in (*METHODS, "m3prune minus full-graph", EMBEDDED_NOTE, "model:\n  name: reader"):
        assert expected in page.text


def test_the_summary_says_when_and_how_the_run_was_started_and_metrics_do_not(tmp_path: Path) -> None:
    run = make_run(tmp_path, steps=1, questions=2)
    metrics = summarise(run, FACTS)
    before = outline(write_run_report(run, metrics, "m3prune", [], seed=7)).text
    start = Start("1.2.3", "python run.py note=<b>", "2026-01-02T03:04:05+00:00", "abc")
    (run.path / STARTS).write_text(f"{start.encode()}\n")
    after = outline(write_run_report(run, metrics, "m3prune", [], seed=7))
    for fact in ("Seed7", start.time, "1.2.3, commit abc", start.command):
        assert fact in after.text
    # Without a record of its start nothing of the page comes from a clock.
    assert "Started" not in before
    assert json.dumps(summarise(run, FACTS)) == json.dumps(metrics)
    (run.path / STARTS).write_text(start.encode().replace("03:04", "25:04") + "\n")
    with pytest.raises(UserError, match=STARTS):
        write_run_report(run, metrics, "m3prune", [])


def test_agents_have_tables_with_their_names_escaped(tmp_path: Path) -> None:
    run = make_run(tmp_path, steps=1, questions=2)
    [row, *_] = agent_rows("m3prune", phase_tables([trace(1)], {"q001": item(1)}, text_score))
    rows = [replace(row, agent=name) for name in ("<i>liar</i>", "honest")]
    (run.path / FILE).write_text("".join(f"{row.encode()}\n" for row in rows))
    page = outline(write_run_report(run, summarise(run, FACTS), "m3prune", []))
    assert "Agents of m3prune" in page.text
    assert "<i>liar</i>" in page.text


def test_every_discussion_is_embedded_with_all_its_turns(page: Outline) -> None:
    for method in METHODS:
        entries = page.entries(method)
        assert [entry["question"] for entry in entries] == [f"q{number:03}" for number in range(12)]
    fifth = page.trace(page.entries("m3prune")[5])
    assert len(fifth["turns"]) == 19
    assert fifth["turns"][14]["heard"] == ["5/0/2/planner", "5/0/1/scene"]
    assert [turn["agent"] for turn in fifth["turns"] if turn.get("status") == "unparsed"] == ["scene"]


def test_discussions_of_training_are_embedded_too_and_have_no_score(page: Outline) -> None:
    entries = page.entries("m3prune.train-1")
    assert [(entry["line"], entry.get("sample", 0)) for entry in entries] == [(1, 0), (2, 1)]
    assert "utility" not in entries[0]


def test_compressed_discussions_of_training_are_carried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run(tmp_path, steps=2, questions=2)
    metrics = summarise(run, FACTS)
    plain = outline(write_run_report(run, metrics, "m3prune", []))
    monkeypatch.setattr(jsonl, "COMPRESS_BYTES", 0)
    for path in run.learned("m3prune").training_traces():
        jsonl.compress(path)
        assert not path.exists()
    assert outline(write_run_report(run, metrics, "m3prune", [])).packed == plain.packed


def test_too_many_turns_leave_the_same_questions_of_every_method_and_a_note(run: RunFolder) -> None:
    metrics = summarise(run, FACTS)
    few = outline(write_run_report(run, metrics, "m3prune", [], limit_turns=200))
    chosen = [entry["question"] for entry in few.entries("m3prune")]
    assert 2 <= len(chosen) < 12
    assert [entry["question"] for entry in few.entries("single-agent")] == chosen
    assert sum(entry["turns"] for method in METHODS for entry in few.entries(method)) <= 200
    assert f"{len(chosen)} of 12 of m3prune (all: traces/evaluate-m3prune.jsonl)" in few.text
    again = outline(write_run_report(run, metrics, "m3prune", [], limit_turns=200))
    assert again.packed == few.packed
    write_run_report(run, metrics, "m3prune", [])


def test_evidence_that_was_left_out_is_shown_with_its_turn(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    with Recorder(run) as recorder:
        recorder.evaluated(cut(trace(1)), Item(Question("q001", "?"), gold=("a",)), Score(1, 1))
    read = write(run)
    [entry] = read.entries("m3prune")
    assert entry["cut"] == 2
    assert [turn["cut"] for turn in read.trace(entry)["turns"] if "cut" in turn] == [["p7", "p3"], ["i2"]]


def test_judgements_are_shown_with_each_answer(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    with Recorder(run) as recorder:
        recorder.evaluated(trace(1), item(1), Score(0, 0))
    line = JudgementRecord("m3prune", "q001", "digest", Judgement(4, "the same tower by another name"))
    (run.path / JUDGEMENTS).write_text(line.encode() + "\n")
    [entry] = write(run).entries("m3prune")
    assert (entry["grade"], entry["judged"]) == (4, "the same tower by another name")


def test_usage_is_shown_by_phase(tmp_path: Path, page: Outline) -> None:
    assert "<caption>Usage</caption>" not in page.text
    run = a_run(tmp_path)
    with Recorder(run) as recorder:
        recorder.evaluated(trace(1), item(1), Score(0, 0))
    used = {"reader": Usage()}
    with UsageLog(run, lambda: used).phase("evaluating m3prune"):
        used["reader"] = Usage(12345, 99000, 88000, 700, reused=3, reused_tokens=2)
    read = write(run)
    assert re.search(r"evaluating m3prune[\d.]+ s[\d.]+ s12,345399,00088,000700", read.text)


def test_no_message_is_in_the_page_unescaped(tmp_path: Path) -> None:
    attack = "</script></details><script>alert('x')</script>\"><img src=http://a.example/x>&lt;<!--\x00\u202e\ud800"
    whole = trace(1)
    turns = tuple(replace(turn, content=attack, answer=attack, agent=attack, error=attack) for turn in whole.turns)
    run = a_run(tmp_path)
    plain = attack[:-3]
    run.config.write_text(f"note: {plain}")
    with Recorder(run) as recorder:
        hostile = replace(whole, turns=turns, answer=attack, decision=(attack,), evidence=(attack,))
        recorder.evaluated(hostile, Item(Question("q001", attack), gold=(attack,)), Score(0, 0))
    about = replace(FACTS, experiment=plain, dataset=plain, methods=("m3prune",), pairs=())
    read = outline(write_run_report(run, summarise(run, about), "m3prune", []))
    assert all(link.startswith("#") for link in read.links)
    assert read.scripts == 1
    [entry] = read.entries("m3prune")
    # Half of a surrogate pair is no character.
    assert entry["text"] == entry["answer"] == attack.replace("\ud800", "?")
    assert {turn["content"] for turn in read.trace(entry)["turns"]} == {attack.replace("\ud800", "?")}
    assert plain in read.text


def test_no_script_or_style_ends_itself() -> None:
    for asset in (files("experiments.analysis") / "assets").iterdir():
        if asset.name.endswith((".js", ".css")):
            assert not re.search("</|<!--|<script", asset.read_text(encoding="utf-8")), asset.name


def test_the_report_does_not_depend_on_the_order_of_completion(tmp_path: Path) -> None:
    orders = []
    for numbers in ((3, 1, 2), (1, 2, 3)):
        run = a_run(tmp_path)
        with Recorder(run) as recorder:
            for number in numbers:
                recorder.evaluated(trace(number), Item(Question(f"q{number:03}", "?"), gold=("a",)), Score(1, 1))
        read = write(run)
        orders.append([(entry["question"], read.trace(entry)["question"]) for entry in read.entries("m3prune")])
    assert orders[0] == orders[1] == [(f"q00{n}", f"q00{n}") for n in (1, 2, 3)]


def test_a_run_that_was_killed_and_resumed_has_the_same_report(tmp_path: Path) -> None:
    whole, resumed = a_run(tmp_path), a_run(tmp_path)
    with Recorder(whole) as recorder, LearningRecorder(whole.learned("m3prune")) as learning:
        learn(learning, 1)
        evaluate(recorder, 4)
    for questions in (2, 4):
        with Recorder(resumed) as recorder, LearningRecorder(resumed.learned("m3prune")) as learning:
            learn(learning, 1)
            evaluate(recorder, questions)
    assert write(whole).packed == write(resumed).packed


def test_two_methods_are_compared_question_by_question_with_the_tests_of_the_metrics(run: RunFolder) -> None:
    metrics = summarise(run, FACTS)
    index = outline(write_run_report(run, metrics, "m3prune", [], seed=FACTS.seed)).unpacked("index")
    pairs = {(pair["a"], pair["b"]): pair for pair in index["pairs"]}
    assert len(pairs) == len(METHODS) * (len(METHODS) - 1) / 2
    for pair, test in metrics["paired"].items():
        found = pairs[tuple(pair.split(" vs "))]
        assert (found["only_a"], found["only_b"]) == (test["wins"], test["losses"])
        assert found["both"] + found["only_a"] + found["only_b"] + found["neither"] == test["n"]
        assert f"p = {test['p_value']:.2g}," in found["test"]


def test_sources_that_were_shown_searched_or_left_out_have_titles(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    found = Lookup("graph", "towers", ("p2#4", "p3"))
    whole = cut(replace(trace(1), evidence=("p1",), lookups=(found,)))
    with Recorder(run) as recorder:
        recorder.evaluated(whole, item(1), Score(1, 1))
    sources = write(run, titles_of=lambda ids: {id: f"Title of {id}" for id in ids}).unpacked("index")["sources"]
    assert sources == {id: f"Title of {id}" for id in ("p1", "p2", "p3", "p7", "i2")}
    assert write(run).unpacked("index")["sources"] == {}


def test_turns_have_their_seconds_where_these_were_recorded(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    with Recorder(run) as recorder:
        recorder.evaluated(trace(1), item(1), Score(1, 1))
    times = DiscussionTimes("q001", 0, 5.0, {"1/0/1/reader": TurnTime(0.0, 2.5)})
    (run.path / "timings").mkdir()
    (run.path / "timings" / "evaluate-m3prune.jsonl").write_text(f"{times.encode()}\n")
    page = write(run)
    reader, *others = page.trace(page.entries("m3prune")[0])["turns"]
    assert reader["seconds"] == 2.5
    assert not any("seconds" in turn for turn in others)


def test_a_learned_graph_is_thinned_to_the_ends_of_its_stages_and_steps_between(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path, steps=40, questions=2)
    (graph,) = learned_graphs(run)
    assert len(graph["steps"]) == 82
    monkeypatch.setattr("experiments.analysis.embedded.MOST_VALUES", 10 * 2 * 81)
    (thinned,) = learned_graphs(run)
    kept = [(step["stage"], step["step"]) for step in thinned["steps"]]
    assert {(1, 0), (1, 40), (2, 0), (2, 40)} < set(kept)
    assert len(kept) <= 10 + 2
    assert thinned["steps"][0]["probabilities"]["spatial"][0][:2] == [None, 50]
    assert write(run).unpacked("learned") == json.loads(json.dumps([thinned]))
