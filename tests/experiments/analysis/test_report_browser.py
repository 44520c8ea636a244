"""Reports in a real browser: ten thousand turns are searched, filtered and read, and no message runs anything."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from actors.messages import Question, Trace
from experiments.analysis.reports import write_run_report, write_sweep_report
from experiments.analysis.summary import summarise
from experiments.analysis.sweep_table import sweep_rows, sweep_table
from experiments.attacks.attack_metrics import Harm
from experiments.datasets.item import Item, Score
from experiments.records.recorder import Recorder, RunFolder
from experiments.records.trials import TrialResult
from tests.support.browser import Browser, browser, find
from tests.support.fake_run import FACTS, METHODS, make_run, trace
from tests.support.hostile import HOSTILE, write_report

pytestmark = pytest.mark.skipif(find() is None, reason="no Chromium or Chrome on this machine")

QUESTIONS = 170
TURNS = QUESTIONS * (3 * 19 + 2)
MARKUP = "</script><script>window.obeyed = 1</script><img src=x onerror='window.obeyed = 1'>"
UGLY = f"{MARKUP}\x00\u202eright to left {'w' * 5000}"


@pytest.fixture(scope="module", name="browser")
def opened() -> Iterator[Browser]:
    with browser() as one:
        yield one


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten thousand turns of five methods, three of which discuss."""
    run = make_run(tmp_path_factory.mktemp("large"), steps=1, questions=QUESTIONS)
    return write_run_report(run, summarise(run, FACTS), "EM", "m3prune", [])


def attacked(number: int) -> Trace:
    """The critic argues for another tower, the planner hears it rewritten, and one turn was not held."""
    whole = trace(number)
    target = "tower 99"
    turns = [
        replace(
            turn,
            answer=target if turn.agent == "critic" else turn.answer,
            tampered=turn.heard[:1] if turn.agent == "planner" else (),
        )
        for turn in whole.turns
        if (turn.agent, turn.round) != ("layout", 2)
    ]
    return replace(whole, turns=tuple(turns), attack="response", attacked=("critic",), target=target, answer=target)


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
            hit = attacked(number)
            item = Item(Question(hit.question, f"City {number}?"), gold=("tower 1",), tags={"type": f"Kind{number}"})
            recorder.evaluated(hit, item, Score(1 - success, 1 - success), Harm(success))
        recorder.evaluated(ugly, Item(Question(ugly.question, UGLY), gold=(UGLY,), tags={UGLY: UGLY}), Score(0, 0))
    metrics = summarise(run, replace(FACTS, methods=("m3prune",), pairs=()))
    return write_run_report(run, metrics, "EM", "m3prune", [])


def shown(page: Page) -> str:
    return str(page.text_content("#count"))


def count(page: Page, selector: str) -> int:
    return page.locator(selector).count()


def test_ten_thousand_turns_are_searched_filtered_and_opened(browser: Browser, large: Path) -> None:
    assert TURNS >= 10_000
    page = browser.open(large)
    total = QUESTIONS * len(METHODS) + 4
    assert shown(page) == f"{QUESTIONS} of {total} discussions"
    assert count(page, "#list li") == 50
    page.select_option("#result", "wrong")
    wrong = int(shown(page).split()[0])
    assert 0 < wrong < QUESTIONS
    assert count(page, "#list .badge.wrong") == 50
    page.select_option("#result", "")
    page.click("#search")
    page.keyboard.insert_text('NAMES "tower 123</i>"')
    expect(page.locator("#count")).to_have_text(re.compile("^1 of"))
    page.click("#list a")
    page.wait_for_selector("#discussion h3")
    assert page.text_content("#discussion h3") == "Which tower <b>is</b> in city 123?"
    assert page.evaluate("location.hash").startswith("#m3prune/q123?q=NAMES")
    assert count(page, "#discussion .turn") == 19
    assert page.text_content("#discussion .turn .content") == "The passage names <i>tower 123</i> & no other."
    page.select_option("#group", "")
    expect(page.locator("#count")).to_have_text(re.compile(f"^3 of {total}"))
    page.click("#filters button[type=reset]")
    expect(page.locator("#count")).to_have_text(re.compile(f"^{total} of"))
    page.select_option("#trouble", "failed")
    assert int(shown(page).split()[0]) == 3 * QUESTIONS // 5
    assert browser.complaints == []
    assert {address for address in browser.requests if not address.startswith("about:")} == {large.as_uri()}


def test_an_address_opens_a_turn_and_links_lead_to_its_senders(browser: Browser, large: Path) -> None:
    page = browser.open(large, "#m3prune/q007/7%2F0%2F2%2Fscene")
    assert page.text_content(".turn.chosen h5 a") == "scene"
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "scene, round 2"
    assert "planner, round 2; scene, round 1" in page.text_content(".neighbours")
    assert count(page, ".edge.in") == 2
    page.click(".turn.chosen a.voice")
    expect(page.locator(".turn.chosen")).to_have_attribute("aria-label", "planner, round 2")
    page = browser.open(large, "#m3prune/nowhere")
    assert "does not carry" in page.text_content("#discussion")


def test_keys_are_enough(browser: Browser, large: Path) -> None:
    page = browser.open(large, "#m3prune/q007")
    page.keyboard.press("j")
    page.wait_for_url("**#m3prune/q008")
    expect(page.locator("#discussion h3")).to_contain_text("8")
    page.keyboard.press("k")
    page.wait_for_url("**#m3prune/q007")
    expect(page.locator("#discussion h3")).to_contain_text("city 7")
    page.evaluate("document.querySelector('.node[tabindex=\"0\"]').focus()")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')").startswith("tables, round 2")
    page.keyboard.press("Enter")
    expect(page.locator(".turn.chosen")).to_have_attribute("aria-label", "tables, round 2")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "search"


def test_senders_and_receivers_are_drawn_and_shown_where_the_mouse_points(browser: Browser, large: Path) -> None:
    page = browser.open(large, "#m3prune/q005")
    assert count(page, ".node[role]") == 19
    # Eight spatial edges in each round and nine temporal ones; nine to a decision that read none.
    assert count(page, ".edge.spatial") == 16
    assert count(page, ".edge.temporal:not(.unheard)") == 9
    assert count(page, ".edge.unheard") == 9
    page.hover(".node[aria-label^='tables, round 2']")
    assert page.text_content(".neighbours").startswith("tables, round 2 heard reader, round 2; tables, round 1.")
    assert count(page, ".marking .edge.in") == 2
    assert count(page, ".marking .edge.out") == 1
    assert count(page, ".node.unparsed") == 1


def test_attacks_are_marked_and_filtered(browser: Browser, small: Path) -> None:
    page = browser.open(small, "#m3prune/q001")
    assert count(page, ".node.attacked") == 2
    assert count(page, ".turn.attacked") == 2
    assert count(page, ".edge.tampered") == 2
    assert count(page, ".node.absent") == 1
    assert "reached" in page.text_content("#discussion .facts")
    page.select_option("#attack", "attacked")
    assert shown(page) == "2 of 3 discussions"
    page.select_option("#attack", "fooled")
    assert shown(page) == "1 of 3 discussions"
    assert page.text_content("#list .question") == "City 1?"
    page.select_option("#attack", "resisted")
    page.select_option("[data-tag=type]", "Kind2")
    assert shown(page) == "1 of 3 discussions"
    page.select_option("[data-tag=type]", "Kind1")
    assert shown(page) == "0 of 3 discussions"


def test_messages_are_shown_and_never_obeyed(browser: Browser, small: Path) -> None:
    browser.complaints.clear()
    page = browser.open(small, "#m3prune/q003")
    assert page.evaluate("document.querySelector('.content').textContent") == UGLY
    assert page.evaluate("document.querySelector('#list li:last-child .question').textContent") == UGLY
    assert count(page, "img") == 0
    assert page.evaluate("window.obeyed") is None
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert browser.complaints == []


def test_no_hostile_text_runs_navigates_or_asks_the_network(browser: Browser, tmp_path: Path) -> None:
    run = make_run(tmp_path, steps=0, questions=4)
    texts = itertools.cycle(HOSTILE)
    write_report(run, texts.__next__)
    dialogs: list[str] = []
    browser.page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    browser.complaints.clear()
    page = browser.open(run.report)
    browser.requests.clear()
    opened = page.locator("#list li")
    assert opened.count() > len(METHODS)
    shown = ""
    for number in range(opened.count()):
        opened.nth(number).click()
        shown += str(page.evaluate("document.body.textContent"))
    assert all(text.split("\x00")[0].split("\x1b")[0] in shown for text in HOSTILE)
    assert page.url.startswith(run.report.absolute().as_uri())
    assert dialogs == browser.complaints == browser.requests == []


def test_a_sweeps_trials_are_sorted_and_lead_to_their_reports(browser: Browser, small: Path, tmp_path: Path) -> None:
    results = []
    for number, rounds in enumerate((2, 8, 4)):
        trials = tmp_path / "trials"
        trials.mkdir(exist_ok=True)
        run = make_run(trials, steps=0, questions=3)
        folder = trials / f"rounds={rounds}-0"
        run.path.rename(folder)
        metrics = summarise(RunFolder(folder), replace(FACTS, methods=("m3prune",), pairs=()))
        metrics["methods"]["m3prune"]["utility"] = 0.5 - number / 10
        (folder / "report.html").write_text(f"<title>{rounds} rounds</title>")
        results.append(TrialResult(folder.name, {"topology.rounds": rounds}, 0, metrics))
    results.append(TrialResult("rounds=16-0", {"topology.rounds": 16}, 0, {}, stopped=7, utility=0.1))
    settings = sweep_table(sweep_rows(tmp_path, results, seed=0), "EM", "reader")
    write_sweep_report(tmp_path, results, "EM", [], settings)
    page = browser.open(tmp_path / "report.html")
    column = "[...document.querySelectorAll('#trials tbody tr')].map(row => row.cells[1].textContent).join()"
    assert page.evaluate(column) == "2,8,4,16"
    page.click("#trials th:nth-child(2) button")
    assert page.evaluate(column) == "2,4,8,16"
    page.click("#trials th:nth-child(5) button")
    page.click("#trials th:nth-child(5) button")
    assert page.evaluate(column).startswith("2,8,4")
    assert "stopped after 7 steps" in page.text_content("#trials")
    assert "2, 4, 8, 16" in page.text_content("#summary")
    page.click("#trials tbody a")
    expect(page).to_have_title("2 rounds")
