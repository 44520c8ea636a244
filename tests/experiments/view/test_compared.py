"""Two runs are compared on the questions that both asked."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import expect
from starlette.testclient import TestClient

from experiments.config.config import Config
from experiments.config.saved import save
from experiments.datasets.item import Score
from experiments.records.recorder import Recorder, RunFolder
from experiments.view.app import application
from experiments.view.folders import Root
from tests.support.browser import browser, find, served
from tests.support.fake_run import item, trace

TOKEN = "t0ken"


def write_run(folder: Path, name: str, questions: range, right: int, seed: int) -> None:
    run = RunFolder.create(folder, name)
    save(replace(Config(), seed=seed), run.config)
    with Recorder(run) as recorder:
        for method in ("full", f"only_{name}"):
            for number in questions:
                recorder.evaluated(trace(number, method), item(number), Score(float(number % right == 0), 0.5))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs `a` and `b`, which share the questions 4 to 9, and `c`, which shares none with them."""
    folder = tmp_path_factory.mktemp("runs")
    write_run(folder, "a", range(10), right=2, seed=1)
    write_run(folder, "b", range(4, 12), right=3, seed=2)
    write_run(folder, "c", range(50, 52), right=1, seed=1)
    return folder


@pytest.fixture(scope="module")
def names(folder: Path) -> list[str]:
    return sorted((path.name for path in folder.iterdir()), key=lambda name: name[-1])


@pytest.fixture(scope="module")
def server(folder: Path) -> TestClient:
    return TestClient(application(Root.open(str(folder)), TOKEN), base_url=f"http://127.0.0.1/{TOKEN}/")


@pytest.fixture(scope="module")
def two(names: list[str]) -> str:
    return f"run={names[0]}&run={names[1]}"


def test_methods_are_paired_over_the_shared_questions(server: TestClient, two: str) -> None:
    pairs = {(pair["a"], pair["b"]): pair for pair in server.get(f"compare/pairs.json?{two}").json()}
    # Of 4 to 9, 6 is right in both, 4 and 8 in `a` alone, 9 in `b` alone.
    for pair in (("A.full", "B.full"), ("A.only_a", "B.full"), ("A.full", "B.only_b"), ("A.only_a", "B.only_b")):
        assert [pairs[pair][cell] for cell in ("both", "only_a", "only_b", "neither")] == [1, 2, 1, 2]
    assert pairs["A.full", "A.only_a"]["neither"] == 5  # methods of one run over all its questions


def test_the_index_leads_to_the_traces_of_each_run(server: TestClient, two: str) -> None:
    index = server.get(f"compare/index.json?{two}").json()
    assert [group["name"] for group in index["groups"]] == ["A.full", "A.only_a", "B.full", "B.only_b"]
    assert len(index["entries"]) == 2 * 10 + 2 * 8
    for entry in index["entries"][::7]:
        address = f"run/{entry['run']}/trace.json"
        found = server.get(address, params={"group": entry["of"], "line": entry["line"]}).json()
        assert (found["question"], found["method"]) == (entry["question"], entry["of"])


def test_the_page_has_the_settings_that_differ(server: TestClient, two: str, names: list[str]) -> None:
    text = server.get(f"compare?{two}").text
    assert '<tr><th scope="row">seed</th><td>1</td><td>2</td></tr>' in text
    assert '<th scope="row">job</th>' not in text
    assert server.get(f"compare?run={names[0]}&run={names[2]}").status_code == 200  # no shared question


@pytest.mark.parametrize("query", ["", "run={0}", "run={0}&run={0}", "run={0}&run={1}&run={2}", "run={0}&run=none"])
def test_two_runs_of_the_folder_must_be_named(server: TestClient, names: list[str], query: str) -> None:
    for address in ("compare", "compare/index.json", "compare/pairs.json"):
        assert server.get(f"{address}?{query.format(*names)}").status_code in (404, 422)


def test_a_run_has_its_agreements_and_learned_graphs(server: TestClient, names: list[str]) -> None:
    a, _, _ = names
    (pair,) = server.get(f"run/{a}/pairs.json").json()
    assert (pair["a"], pair["b"], pair["both"]) == ("full", "only_a", 5)
    assert server.get(f"run/{a}/learned.json").json() == []


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    """The address of a server that browsers reach."""
    with served(application(Root.open(str(folder)), TOKEN)) as server:
        yield f"{server}{TOKEN}/"


@pytest.mark.slow
@pytest.mark.skipif(find() is None, reason="no Chromium or Chrome on this machine")
def test_two_ticks_in_the_list_lead_to_a_comparison_while_rows_are_renewed(
    address: str, folder: Path, names: list[str]
) -> None:
    with browser() as opened:
        page = opened.page
        page.goto(address)
        for name in names[:2]:
            page.check(f"input[value='{name}']")
        (folder / names[2] / "config.yaml").touch()
        write_run(folder, "d", range(2), right=1, seed=1)
        expect(page.locator("#runs tbody tr")).to_have_count(4)
        assert page.locator("input:checked").count() == 2
        page.click("#compare")
        expect(page.locator("h1")).to_have_text("Two runs")
        assert opened.complaints == []


@pytest.mark.skipif(find() is None, reason="no Chromium or Chrome on this machine")
def test_a_question_of_two_runs_is_read_side_by_side(address: str, two: str) -> None:
    with browser() as opened:
        page = opened.page
        page.goto(f"{address}compare?{two}")
        page.wait_for_selector("html[data-ready=true]")
        # The last method of both runs, at first.
        assert [page.input_value(f"#{name}") for name in ("group", "versus")] == ["A.full", "B.full"]
        page.focus("[data-cell=here]")
        page.keyboard.press("Enter")
        expect(page.locator("#count")).to_have_text("2 of 36 discussions")
        page.fill("#search", '"tower 8</i>"')
        expect(page.locator("#list li")).to_have_count(1)
        page.click("#list a")
        expect(page.locator(".side")).to_have_count(2)
        assert page.locator(".side > .facts > div:first-child dd").all_text_contents() == ["A: full", "B: full"]
        assert page.evaluate("location.hash").startswith("#A.full/q008?")
        assert opened.complaints == []
