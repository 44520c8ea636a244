"""Reports in a real browser: ten thousand turns are searched, filtered and read there, and obeyed in nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from actors.messages import Question, Trace
from experiments.analysis.report import run as report
from experiments.analysis.report import sweep
from experiments.analysis.summary import summarise
from experiments.analysis.sweep_table import sweep_rows, sweep_table
from experiments.attacks.metrics import Harm
from experiments.datasets.item import Item, Score
from experiments.records.recorder import Recorder, RunFolder
from experiments.records.trials import TrialResult
from tests.experiments.analysis.test_summary import ABOUT
from tests.support.browser import Browser, find
from tests.support.fake_run import METHODS, make_run, trace

pytestmark = pytest.mark.skipif(find() is None, reason="no Chromium or Chrome on this machine")

QUESTIONS = 170
TURNS = QUESTIONS * (3 * 19 + 2)
MARKUP = "</script><script>window.obeyed = 1</script><img src=x onerror='window.obeyed = 1'>"
UGLY = f"{MARKUP}\x00\u202eright to left {'w' * 5000}"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten thousand turns of five methods, three of which discuss."""
    run = make_run(tmp_path_factory.mktemp("large"), steps=1, questions=QUESTIONS)
    return report.write(run, summarise(run, ABOUT), "EM", "m3prune", [])


def attacked(number: int) -> Trace:
    """The critic argues for another tower, the planner hears it rewritten, and one turn was not held."""
    told = trace(number)
    target = "tower 99"
    turns = [
        replace(
            turn,
            answer=target if turn.agent == "critic" else turn.answer,
            tampered=turn.heard[:1] if turn.agent == "planner" else (),
        )
        for turn in told.turns
        if (turn.agent, turn.round) != ("layout", 2)
    ]
    return replace(told, turns=tuple(turns), attack="response", attacked=("critic",), target=target, answer=target)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three questions: one attacked with success, one attacked in vain, and one that is ugly in every word."""
    run = RunFolder.create(tmp_path_factory.mktemp("small"), "x")
    run.config.write_text("")
    ugly = trace(3)
    turns = (replace(turn, content=UGLY, answer=UGLY, agent=UGLY[:60], error=UGLY) for turn in ugly.turns)
    ugly = replace(
        ugly, turns=tuple(turns), answer=UGLY, evidence=(UGLY,), agents=(UGLY[:60],), spatial=(), temporal=()
    )
    with Recorder(run) as recorder:
        for number, success in ((1, 1.0), (2, 0.0)):
            told = attacked(number)
            item = Item(Question(told.question, f"City {number}?"), gold=("tower 1",), tags={"type": f"Kind{number}"})
            recorder.evaluated(told, item, Score(1 - success, 1 - success), Harm(success))
        recorder.evaluated(ugly, Item(Question(ugly.question, UGLY), gold=(UGLY,), tags={UGLY: UGLY}), Score(0, 0))
    metrics = summarise(run, replace(ABOUT, methods=("m3prune",), pairs=()))
    return report.write(run, metrics, "EM", "m3prune", [])


def shown(browser: Browser) -> str:
    return browser.text("#count")


def test_ten_thousand_turns_are_searched_filtered_and_opened(browser: Browser, large: Path) -> None:
    assert TURNS >= 10_000
    browser.open(large)
    total = QUESTIONS * len(METHODS) + 4
    assert shown(browser) == f"{QUESTIONS} of {total} discussions"
    assert browser.count("#list li") == 50
    browser.choose("#result", "wrong")
    wrong = int(shown(browser).split()[0])
    assert 0 < wrong < QUESTIONS
    assert browser.count("#list .badge.wrong") == 50
    browser.choose("#result", "")
    browser.click("#search")
    browser.type('NAMES "tower 123</i>"')
    browser.wait("document.getElementById('count').textContent.startsWith('1 of')")
    browser.click("#list a")
    browser.wait("document.querySelector('#discussion h3') !== null")
    assert browser.text("#discussion h3") == "Which tower <b>is</b> in city 123?"
    assert browser.run("location.hash") == "#m3prune/q123"
    assert browser.count("#discussion .turn") == 19
    assert browser.text("#discussion .turn .said") == "The passage names <i>tower 123</i> & no other."
    browser.choose("#group", "")
    browser.wait(f"document.getElementById('count').textContent.startsWith('3 of {total}')")
    browser.click("#filters button[type=reset]")
    browser.wait(f"document.getElementById('count').textContent.startsWith('{total} of')")
    browser.choose("#trouble", "failed")
    assert int(shown(browser).split()[0]) == 3 * QUESTIONS // 5
    assert browser.complaints == []
    assert {address for address in browser.asked if not address.startswith("about:")} == {large.as_uri()}


def test_an_address_opens_a_turn_and_links_lead_to_those_who_were_heard(browser: Browser, large: Path) -> None:
    browser.open(large, "#m3prune/q007/7%2F0%2F2%2Fscene")
    assert browser.text(".turn.chosen h5 a") == "scene"
    assert browser.run("document.activeElement.getAttribute('aria-label')") == "scene, round 2"
    assert "planner, round 2; scene, round 1" in browser.text(".told")
    assert browser.count(".edge.in") == 2
    browser.click(".turn.chosen a.voice")
    browser.wait("document.querySelector('.turn.chosen').getAttribute('aria-label') === 'planner, round 2'")
    browser.open(large, "#m3prune/nowhere")
    assert "does not carry" in browser.text("#discussion")


def test_keys_are_enough(browser: Browser, large: Path) -> None:
    browser.open(large, "#m3prune/q007")
    browser.press("j")
    browser.wait(
        "location.hash === '#m3prune/q008' && document.querySelector('#discussion h3').textContent.includes('8')"
    )
    browser.press("k")
    browser.wait("location.hash === '#m3prune/q007'")
    browser.wait("document.querySelector('#discussion h3').textContent.includes('city 7')")
    browser.run("document.querySelector('.node[tabindex=\"0\"]').focus()")
    browser.press("ArrowDown")
    browser.press("ArrowRight")
    assert browser.run("document.activeElement.getAttribute('aria-label')").startswith("tables, round 2")
    browser.press("Enter")
    browser.wait("document.querySelector('.turn.chosen')?.getAttribute('aria-label') === 'tables, round 2'")
    browser.press("/")
    assert browser.run("document.activeElement.id") == "search"


def test_who_heard_whom_is_drawn_and_shown_where_the_mouse_points(browser: Browser, large: Path) -> None:
    browser.open(large, "#m3prune/q005")
    assert browser.count(".node[role]") == 19
    # Eight spatial edges in each round and nine temporal ones; nine to a decision that heard nobody.
    assert browser.count(".edge.spatial") == 16
    assert browser.count(".edge.temporal:not(.unheard)") == 9
    assert browser.count(".edge.unheard") == 9
    browser.point(".node[aria-label^='tables, round 2']")
    assert browser.text(".told").startswith("tables, round 2 heard reader, round 2; tables, round 1.")
    assert browser.count(".marking .edge.in") == 2
    assert browser.count(".marking .edge.out") == 1
    assert browser.count(".node.failed") == 1


def test_attacks_are_marked_and_filtered(browser: Browser, small: Path) -> None:
    browser.open(small, "#m3prune/q001")
    assert browser.count(".node.attacked") == 2
    assert browser.count(".turn.attacked") == 2
    assert browser.count(".edge.tampered") == 2
    assert browser.count(".node.absent") == 1
    assert "reached" in browser.text("#discussion .facts")
    browser.choose("#attack", "attacked")
    assert shown(browser) == "2 of 3 discussions"
    browser.choose("#attack", "fooled")
    assert shown(browser) == "1 of 3 discussions"
    assert browser.text("#list .question") == "City 1?"
    browser.choose("#attack", "resisted")
    browser.choose("[data-tag=type]", "Kind2")
    assert shown(browser) == "1 of 3 discussions"
    browser.choose("[data-tag=type]", "Kind1")
    assert shown(browser) == "0 of 3 discussions"


def test_what_was_said_is_shown_and_never_obeyed(browser: Browser, small: Path) -> None:
    browser.complaints.clear()
    browser.open(small, "#m3prune/q003")
    assert browser.run("document.querySelector('.said').textContent") == UGLY
    assert browser.run("document.querySelector('#list li:last-child .question').textContent") == UGLY
    assert browser.count("img") == 0
    assert browser.run("window.obeyed") is None
    assert browser.run("document.documentElement.scrollWidth <= innerWidth")
    assert browser.complaints == []


def test_a_sweeps_trials_are_sorted_and_lead_to_their_reports(browser: Browser, small: Path, tmp_path: Path) -> None:
    results = []
    for number, rounds in enumerate((2, 8, 4)):
        trials = tmp_path / "trials"
        trials.mkdir(exist_ok=True)
        run = make_run(trials, steps=0, questions=3)
        folder = trials / f"rounds={rounds}-0"
        run.path.rename(folder)
        metrics = summarise(RunFolder(folder), replace(ABOUT, methods=("m3prune",), pairs=()))
        metrics["methods"]["m3prune"]["utility"] = 0.5 - number / 10
        (folder / "report.html").write_text(f"<title>{rounds} rounds</title>")
        results.append(TrialResult(folder.name, {"topology.rounds": rounds}, 0, metrics))
    results.append(TrialResult("rounds=16-0", {"topology.rounds": 16}, 0, {}, stopped=7, utility=0.1))
    settings = sweep_table(sweep_rows(tmp_path, results, seed=0), "EM", "reader")
    sweep.write(tmp_path, results, "EM", [], settings)
    browser.open(tmp_path / "report.html")
    column = "[...document.querySelectorAll('#trials tbody tr')].map(row => row.cells[1].textContent).join()"
    assert browser.run(column) == "2,8,4,16"
    browser.click("#trials th:nth-child(2) button")
    assert browser.run(column) == "2,4,8,16"
    browser.click("#trials th:nth-child(5) button")
    browser.click("#trials th:nth-child(5) button")
    assert browser.run(column).startswith("2,8,4")
    assert "stopped after 7 steps" in browser.text("#trials")
    assert "2, 4, 8, 16" in browser.text("#summary")
    browser.click("#trials tbody a")
    browser.wait("document.title === '2 rounds'")
