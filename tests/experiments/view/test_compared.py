"""Two runs are compared on the questions that both asked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from experiments.config.config import Config
from experiments.config.saved import save
from experiments.datasets.item import Score
from experiments.records.recorder import Recorder, RunFolder
from experiments.view.app import application
from experiments.view.folders import Root
from tests.support.fake_run import item, trace

TOKEN = "t0ken"


def write_run(folder: Path, name: str, questions: range, right: int, seed: int) -> str:
    run = RunFolder.create(folder, name)
    save(replace(Config(), seed=seed), run.config)
    with Recorder(run) as recorder:
        for method in ("full", f"only_{name}"):
            for number in questions:
                recorder.evaluated(trace(number, method), item(number), Score(float(number % right == 0), 0.5))
    return run.path.name


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> TestClient:
    """Runs `a` and `b`, which share the questions 4 to 9, and `c`, which shares none with them."""
    folder = tmp_path_factory.mktemp("runs")
    names = [
        write_run(folder, "a", range(10), right=2, seed=1),
        write_run(folder, "b", range(4, 12), right=3, seed=2),
        write_run(folder, "c", range(50, 52), right=1, seed=1),
    ]
    client = TestClient(application(Root.open(str(folder)), TOKEN), base_url=f"http://127.0.0.1/{TOKEN}/")
    client.names = names  # type: ignore[attr-defined]
    return client


def both(server: TestClient, one: int = 0, other: int = 1) -> str:
    names: list[str] = server.names  # type: ignore[attr-defined]
    return f"run={names[one]}&run={names[other]}"


def test_methods_are_paired_over_the_shared_questions(server: TestClient) -> None:
    pairs = server.get(f"compare/pairs.json?{both(server)}").json()
    assert {(pair["a"], pair["b"]) for pair in pairs} == {
        (a, b) for a in ("A.full", "A.only_a") for b in ("B.full", "B.only_b")
    }
    # Of 4 to 9, 6 is right in both, 4 and 8 in `a` alone, 9 in `b` alone.
    assert all([pair[cell] for cell in ("both", "only_a", "only_b", "neither")] == [1, 2, 1, 2] for pair in pairs)


def test_the_index_leads_to_the_traces_of_each_run(server: TestClient) -> None:
    index = server.get(f"compare/index.json?{both(server)}").json()
    assert [group["name"] for group in index["groups"]] == ["A.full", "A.only_a", "B.full", "B.only_b"]
    assert len(index["entries"]) == 2 * 10 + 2 * 8
    for entry in index["entries"][::7]:
        address = f"run/{entry['run']}/trace.json"
        found = server.get(address, params={"group": entry["of"], "line": entry["line"]}).json()
        assert (found["question"], found["method"]) == (entry["question"], entry["of"])


def test_the_page_has_the_settings_that_differ(server: TestClient) -> None:
    text = server.get(f"compare?{both(server)}").text
    assert '<tr><th scope="row">seed</th><td>1</td><td>2</td></tr>' in text
    assert '<th scope="row">job</th>' not in text
    assert server.get(f"compare?{both(server, 0, 2)}").status_code == 200  # no shared question


@pytest.mark.parametrize("query", ["", "run={0}", "run={0}&run={0}", "run={0}&run={1}&run={2}", "run={0}&run=none"])
def test_two_runs_of_the_folder_must_be_named(server: TestClient, query: str) -> None:
    names: list[str] = server.names  # type: ignore[attr-defined]
    for address in ("compare", "compare/index.json", "compare/pairs.json"):
        assert server.get(f"{address}?{query.format(*names)}").status_code in (404, 422)


def test_a_run_has_its_agreements_learned_graphs_and_links_to_comparisons(server: TestClient) -> None:
    a, b, _ = server.names  # type: ignore[attr-defined]
    (pair,) = server.get(f"run/{a}/pairs.json").json()
    assert (pair["a"], pair["b"], pair["both"]) == ("full", "only_a", 5)
    assert server.get(f"run/{a}/learned.json").json() == []
    assert f'href="../../compare?run={a}&amp;run={b}"' in server.get(f"run/{a}/").text
