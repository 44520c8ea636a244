"""Reports in a real browser: ten thousand turns are searched, filtered and read, and no message runs anything."""

import itertools
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from actors.messages import Lookup, Message, Question, Status, Trace
from experiments.analysis.compare import arms_of_trials
from experiments.analysis.figures.draw import draw_run
from experiments.analysis.reports import write_run_report
from experiments.analysis.scores import read_trials
from experiments.analysis.summary import summarise
from experiments.analysis.sweep_report import sweep_rows, sweep_sections, sweep_table, write_sweep_report
from experiments.attacks.attack_metrics import Harm
from experiments.datasets.item import Item, Score
from experiments.records.recorder import Recorder, RunFolder
from experiments.records.records import encode_trace
from experiments.records.trials import TrialResult
from tests.support.browser import Browser, browser, find
from tests.support.fake_run import FACTS, METHODS, make_run, trace
from tests.support.hostile import HOSTILE, write_report

pytestmark = [pytest.mark.slow, pytest.mark.skipif(find() is None, reason="no Chromium or Chrome on this machine")]

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
    return write_run_report(run, summarise(run, FACTS), "m3prune", [])


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
    return write_run_report(run, metrics, "m3prune", [])


def shown(page: Page) -> str:
    return str(page.text_content("#count"))


def count(page: Page, selector: str) -> int:
    return page.locator(selector).count()


def test_a_figure_says_what_is_under_the_pointer_and_leads_to_its_discussions(browser: Browser, tmp_path: Path) -> None:
    run = make_run(tmp_path, steps=2, questions=3)
    metrics = summarise(run, FACTS)
    page = browser.open(write_run_report(run, metrics, "full", draw_run(run, metrics)))
    title = page.locator(".drawing a title", has_text="stage 2, step 1, rank").first
    box = title.locator("..")
    box.click()
    expect(page.locator("#discussion h3")).to_be_visible()
    assert page.evaluate("location.hash").startswith("#m3prune.train-2/1")
    assert page.input_value("#group") == "m3prune.train-2"
    assert not browser.complaints


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
    # The more questions, the lower the mean score of these records.
    for rounds, questions in ((2, 4), (8, 5), (4, 7)):
        trials = tmp_path / "trials"
        trials.mkdir(exist_ok=True)
        run = make_run(trials, steps=0, questions=questions)
        folder = trials / f"rounds={rounds}-0"
        run.path.rename(folder)
        metrics = summarise(RunFolder(folder), replace(FACTS, methods=("m3prune",), pairs=()))
        (folder / "report.html").write_text(f"<title>{rounds} rounds</title>")
        results.append(TrialResult(folder.name, {"topology.rounds": rounds}, 0, metrics))
    results.append(TrialResult("rounds=16-0", {"topology.rounds": 16}, 0, {}, stopped=7, utility=0.1))
    settings = sweep_table(sweep_rows(arms_of_trials(read_trials(tmp_path, results)), results, seed=0), "EM", "reader")
    write_sweep_report(tmp_path, sweep_sections(tmp_path, results, "EM", [], settings))
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


def test_the_address_holds_the_whole_view_and_an_old_one_still_opens(browser: Browser, large: Path) -> None:
    page = browser.open(large, "#m3prune/q007/7%2F0%2F2%2Fscene")
    page.select_option("#result", "wrong")
    page.select_option("#versus", "full-graph")
    page.select_option("#sort", "tokens")
    page.fill("#search", "tower")
    page.wait_for_url("**q=tower**")
    page.click("[data-cell=there]")
    expect(page.locator("[data-cell=there]")).to_have_attribute("aria-pressed", "true")
    found, fragment = shown(page), str(page.evaluate("location.hash"))
    again = browser.open(large, fragment)
    assert shown(again) == found
    assert again.evaluate("location.hash") == fragment
    assert [again.input_value(f"#{name}") for name in ("result", "versus", "sort")] == ["wrong", "full-graph", "tokens"]
    assert count(again, ".side") == 2
    assert count(again, ".turn.chosen") == 2  # the turn of both methods
    again.click("#filters button[type=reset]")
    expect(again.locator("#count")).to_have_text(re.compile(f"^{QUESTIONS * len(METHODS) + 4} of"))


def test_choices_have_their_numbers_of_discussions(browser: Browser, large: Path) -> None:
    page = browser.open(large, "#?group=")

    def offered(choice: str, value: str) -> int:
        return int(re.sub(r".*\(([\d,]+)\)$", r"\1", str(page.text_content(f"#{choice} option[value={value}]"))))

    assert offered("group", "m3prune") == QUESTIONS
    failed = offered("trouble", "failed")
    page.select_option("#trouble", "failed")
    assert shown(page).startswith(f"{failed} of")
    # Choices of the same filter still count what they would show, those of others what is left of it.
    assert offered("trouble", "failed") == failed
    assert offered("group", "m3prune") == offered("group", "full-graph") == QUESTIONS // 5
    assert 0 < offered("size", "dear") < failed
    page.select_option("#group", "m3prune")
    dear = offered("size", "dear")
    page.select_option("#size", "dear")
    assert shown(page).startswith(f"{dear} of")


def test_two_methods_are_set_side_by_side_and_their_first_difference_is_marked(
    browser: Browser, tmp_path: Path
) -> None:
    run = make_run(tmp_path, steps=0, questions=20)
    path = run.path / "traces" / "evaluate-full-graph.jsonl"
    changed = [replace(one, turns=tuple(map(doubting, one.turns))) for one in run.traces("evaluate-full-graph")]
    path.write_text("".join(f"{encode_trace(one)}\n" for one in changed))
    page = browser.open(write_run_report(run, summarise(run, FACTS), "m3prune", []), "#m3prune/q002")
    assert count(page, "#agreement table") == 0
    for control in ("#same summary", "#same [data-versus=full-graph]"):
        page.focus(control)
        page.keyboard.press("Enter")
    expect(page.locator(".side")).to_have_count(2)
    assert count(page, ".badge.differs") == 2
    assert page.text_content(".turn:has(.badge.differs) h5 a") == "planner"
    assert count(page, ".node.differs") == 2
    # What its agents said at first differs from what they say then.
    assert count(page, ".side:last-child .former") == 1
    cells = [int(str(cell)) for cell in page.locator("#agreement td").all_text_contents()]
    assert sum(cells) == 20
    for cell, number in zip(("both", "here", "there", "neither"), cells, strict=True):
        page.click(f"[data-cell={cell}]")
        assert shown(page).startswith(f"{number} of")
        page.click(f"[data-cell={cell}]")
    assert shown(page).startswith("20 of")


def doubting(turn: Message) -> Message:
    return replace(turn, answer="tower 0") if (turn.agent, turn.round) == ("planner", 2) else turn


def test_a_learned_graph_moves_over_its_steps_by_keyboard(browser: Browser, large: Path) -> None:
    page = browser.open(large)
    pruned = count(page, ".likely.pruned")
    assert pruned > 0
    page.focus("#step")
    page.keyboard.press("Home")
    assert "stage 1, step 0" in page.text_content("#at")
    assert count(page, ".likely.pruned") < pruned
    page.keyboard.press("ArrowRight")
    assert "stage 1, step 1" in page.text_content("#at")
    page.keyboard.press("End")
    assert count(page, ".likely.pruned") == pruned
    assert count(page, "#graph figure") == 2  # spatial and temporal


def test_a_systems_steps_searches_and_sources_have_names(browser: Browser, tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path, "x")
    run.config.write_text("")
    turns = (
        Message("1/planner", "planner", 1, "Query: towers", fields=(("Query", "towers"),), calls=1),
        Message("2/reader", "reader", 2, "[2] has it.", "tower 1", heard=("1/planner",), calls=1),
        Message("3/reader", "reader", 3, "[1] has it.", "tower 2", heard=("1/planner",), calls=1),
    )
    lookups = (Lookup("texts", "towers", ("p1", "p2"), of="1/planner"),)
    system = Trace(
        "q1", "system", 0, ("planner", "reader"), turns, "tower 2", Status.OK, 0, ("p1", "p2"), lookups=lookups
    )
    single = Trace("q1", "single", 0, ("reader",), turns[1:2], "tower 1", Status.OK, 0, evidence=("p1", "p2"))
    with Recorder(run) as recorder:
        for one in (system, single):
            recorder.evaluated(one, Item(Question("q1", "Which tower?"), gold=("tower 1",)), Score(0, 0))
    metrics = summarise(run, replace(FACTS, methods=("system", "single"), pairs=()))
    report = write_run_report(run, metrics, "system", [], titles_of=lambda ids: {id: f"Page {id} <b>" for id in ids})
    page = browser.open(report, "#system/q1")
    assert "Page p1 <b>; Page p2 <b>" in page.text_content(".turn .sources")
    assert page.text_content(".node[aria-label^=planner] .cost") == "Query"
    assert "curves" not in page.text_content(".wiring")
    assert "edge" not in page.text_content("#discussion .facts")
    assert count(page, "abbr") == 0  # its turns may number their sources in other ways
    page = browser.open(report, "#single/q1")
    assert page.get_attribute("abbr", "title") == "Page p2 <b>"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_fit_from_phones_to_wide_screens(browser: Browser, large: Path, scheme: str) -> None:
    browser.page.emulate_media(color_scheme=scheme)
    for width in (400, 700, 1000, 1600):
        browser.page.set_viewport_size({"width": width, "height": 900})
        page = browser.open(large, "#m3prune/q007?versus=full-graph")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), width
        tops = page.locator(".side").evaluate_all("sides => sides.map(side => side.getBoundingClientRect().top)")
        assert (tops[0] == tops[1]) == (width > 960), width
    colours = "[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]"
    ink, paper = (sum(map(int, re.findall(r"\d+", colour)[:3])) for colour in page.evaluate(colours))
    assert (ink > paper) == (scheme == "dark")
    browser.page.emulate_media(color_scheme="light")
    browser.page.set_viewport_size({"width": 1400, "height": 1000})
