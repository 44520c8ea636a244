"""The viewer in a real browser: it follows a run that goes on, by keyboard, on narrow and wide screens, at any size."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from experiments.analysis import summary
from experiments.config.config import Config
from experiments.config.saved import save
from experiments.datasets.item import Score
from experiments.records.recorder import LearningRecorder, Recorder, RunFolder
from experiments.records.start import write_start
from experiments.view.app import application
from experiments.view.folders import Root
from tests.support.browser import Scheme, browser, find, served
from tests.support.fake_run import FACTS, METHODS, carry_on, item, learn, trace

pytestmark = [pytest.mark.slow, pytest.mark.skipif(find() is None, reason="no Chromium or Chrome on this machine")]

TOKEN = "t0ken"
MANY = 2_000


@contextmanager
def viewed(folder: Path) -> Iterator[str]:
    """The address of the viewer of a folder."""
    with served(application(Root.open(str(folder)), TOKEN)) as server:
        yield f"{server}{TOKEN}/"


def begun(folder: Path, name: str = "fake") -> RunFolder:
    run = RunFolder.create(folder, name)
    save(Config(), run.config)
    write_start(run.path, [])
    return run


def answer(recorder: Recorder, numbers: range) -> None:
    for method, ability in METHODS.items():
        for number in numbers:
            right = random.Random(f"{method}/{number}").random() < ability
            recorder.evaluated(trace(number, method, right=right), item(number), Score(float(right), 1.0))


def test_a_page_follows_its_run_and_leaves_the_reader_in_place(tmp_path: Path) -> None:
    run = begun(tmp_path)
    with (
        viewed(tmp_path) as address,
        browser(1600, 900) as opened,
        Recorder(run) as recorder,
        LearningRecorder(run.learned("m3prune")) as learning,
    ):
        page = opened.page
        answer(recorder, range(30))
        page.goto(address)
        page.click(f"text={run.name}")
        page.wait_for_selector("html[data-ready=true]")
        expect(page.locator("#count")).to_have_text("150 of 150 discussions")
        page.click("#on")
        page.locator("#list a").nth(7).click()
        expect(page.locator("#discussion h3")).to_contain_text("city 27")
        where, place = page.url, page.evaluate("document.getElementById('list').scrollTop")
        assert page.locator("#learning").count() == 0
        answer(recorder, range(30, 40))
        learn(learning, 2)
        expect(page.locator("#count")).to_have_text("200 of 200 discussions")
        assert page.locator("#list a[aria-current=true]").count() == 1
        assert (page.url, page.evaluate("document.getElementById('list').scrollTop")) == (where, place)
        expect(page.locator("#results tbody tr").first.locator("td").first).to_have_text("40")
        expect(page.locator("#at")).to_contain_text("step 2")
        page.locator("#step").focus()
        page.keyboard.press("Home")
        expect(page.locator("#at")).to_contain_text("step 0")
    summary.write(run, summary.summarise(run, FACTS))
    with viewed(tmp_path) as address, browser(1600, 900) as opened:
        page = opened.page
        page.goto(f"{address}run/{run.name}/")
        expect(page.locator("#summary .badge")).to_have_text("finished")
        expect(page.locator("#results table")).not_to_have_count(1)  # the tables over all traces come last
        assert opened.complaints == []


@pytest.mark.parametrize(("width", "scheme"), [(400, "dark"), (1600, "light")])
def test_keys_lead_from_the_list_to_a_turn_on_any_screen(tmp_path: Path, width: int, scheme: Scheme) -> None:
    run = begun(tmp_path)
    carry_on(run, steps=1, questions=3)
    with viewed(tmp_path) as address, browser(width, 900, scheme) as opened:
        page = opened.page
        page.goto(address)
        reached(page, f"text={run.name}")
        page.keyboard.press("Enter")
        page.wait_for_selector("html[data-ready=true]")
        reached(page, "#list li:last-child a")
        page.keyboard.press("Enter")
        expect(page.locator("#discussion h3")).to_contain_text("city 2")
        reached(page, ".node[tabindex='0']")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        expect(page.locator(".turn.chosen")).to_have_count(1)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert opened.complaints == []


def reached(page: Page, selector: str) -> None:
    """Presses Tab until an element has the focus."""
    target = page.locator(selector).first
    target.wait_for()
    for _ in range(150):
        page.keyboard.press("Tab")
        if target.evaluate("one => document.activeElement === one"):
            return
    raise AssertionError(f"{selector} is out of reach of the keyboard")


def test_ten_thousand_discussions_are_listed_and_any_of_them_opens(tmp_path: Path) -> None:
    run = begun(tmp_path)
    with Recorder(run) as recorder:
        answer(recorder, range(MANY))
    with viewed(tmp_path) as address, browser(1600, 900) as opened:
        page = opened.page
        page.goto(f"{address}run/{run.name}/#m3prune/q1777")
        page.wait_for_selector("html[data-ready=true]")
        total = MANY * len(METHODS)
        expect(page.locator("#count")).to_have_text(f"{total:,} of {total:,} discussions")
        expect(page.locator("#discussion h3")).to_contain_text("city 1777")
        assert opened.complaints == []


def test_a_hostile_run_is_text(tmp_path: Path) -> None:
    run = begun(tmp_path, "<img src=x onerror=alert(1)>".replace("/", ""))
    mark = "</script><script>window.obeyed = 1</script>"
    run.config.write_text(f"note: {mark}\n")
    (run.path / "scores.jsonl").write_text(f"{mark}\n")
    with viewed(tmp_path) as address, browser(1600, 900) as opened:
        page = opened.page
        page.goto(address)
        expect(page.locator("#runs .note")).to_have_count(1)
        page.click("#runs tbody a")
        expect(page.locator(".note")).to_have_count(1)
        assert page.evaluate("window.obeyed") is None
        assert page.locator("img").count() == 0
