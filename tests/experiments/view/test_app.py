"""The viewer's server shows runs, and nothing else of this machine."""

import asyncio
import gzip
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from shutil import copytree
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest
from starlette.testclient import TestClient

from experiments.analysis.embedded import embed
from experiments.attacks.attack_metrics import Harm
from experiments.attacks.kind import AttackSettings
from experiments.config.config import Config
from experiments.config.saved import save
from experiments.datasets.item import Score
from experiments.records.recorder import Recorder, RunFolder
from experiments.view import connections
from experiments.view.app import Watch, application
from experiments.view.folders import Root
from experiments.view.overview import Overviews
from tests.support.browser import served
from tests.support.fake_run import METHODS, carry_on, item, trace
from tests.support.sessions import begin, finish

TOKEN = "t0ken"
QUESTIONS = 12


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    run = RunFolder.create(folder, "fake")
    save(Config(), run.config)
    carry_on(run, steps=1, questions=QUESTIONS)
    return folder


def client(folder: Path, host: str = "127.0.0.1") -> TestClient:
    return TestClient(application(Root.open(str(folder)), TOKEN), base_url=f"http://{host}/{TOKEN}/")


def name_of(folder: Path) -> str:
    return next(path.name for path in folder.iterdir())


@pytest.fixture(scope="module")
def discussed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run whose discussions can go on."""
    folder = tmp_path_factory.mktemp("discussed")
    words = ["experiment=mmqa_prune", "methods=[full]", "data.limit=1", "runtime=inline", "figures=false"]
    finish(begin(*words, "wandb.mode=disabled", f"output={folder}"))
    return folder


EDIT = {"group": "full", "line": 1, "turn": "1/text_critic", "answer": "Atlantis"}


def test_an_edited_reply_goes_on_and_the_recorded_run_stays_as_it_is(discussed: Path) -> None:
    server = TestClient(
        application(Root.open(str(discussed)), TOKEN, edits=True), base_url=f"http://127.0.0.1/{TOKEN}/"
    )
    run = next(discussed.glob("*-mmqa_prune"))
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    address = f"run/{run.name}/continue.json"
    replied = server.post(address, json=EDIT, headers={"origin": "http://127.0.0.1"})
    assert replied.status_code == 200, replied.text
    answers = {turn["id"]: turn["answer"] for turn in replied.json()["turns"]}
    assert answers["1/text_critic"] == "Atlantis"
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before
    wrong = server.post(address, json={**EDIT, "turn": "9/nobody"}, headers={"origin": "http://127.0.0.1"})
    assert wrong.status_code == 422
    assert "\n" not in wrong.text


@pytest.mark.parametrize(
    ("edits", "headers"),
    [
        (False, {"origin": "http://127.0.0.1"}),
        (True, {}),
        (True, {"origin": "null"}),
        (True, {"origin": "http://other.example"}),
        (True, {"origin": "http://127.0.0.1:81"}),
        (True, {"origin": "http://127.0.0.1", "content-type": "text/plain"}),
    ],
)
def test_nothing_is_started_for_another_page_or_unasked(runs: Path, edits: bool, headers: dict[str, str]) -> None:
    server = TestClient(application(Root.open(str(runs)), TOKEN, edits=edits), base_url=f"http://127.0.0.1/{TOKEN}/")
    assert server.post(f"run/{name_of(runs)}/continue.json", json=EDIT, headers=headers).status_code == 404
    stranger = TestClient(server.app, base_url="http://127.0.0.1/wrong/")
    own = {"origin": "http://127.0.0.1"}
    assert stranger.post(f"run/{name_of(runs)}/continue.json", json=EDIT, headers=own).status_code == 404


@pytest.mark.parametrize("content", ["", "[]", "{", '{"group": 1}', '{"group":"a","line":"x","turn":"t"}', "[" * 9000])
def test_an_edit_that_is_none_is_one_line(runs: Path, content: str) -> None:
    server = TestClient(application(Root.open(str(runs)), TOKEN, edits=True), base_url=f"http://127.0.0.1/{TOKEN}/")
    own = {"origin": "http://127.0.0.1", "content-type": "application/json"}
    refused = server.post(f"run/{name_of(runs)}/continue.json", content=content, headers=own)
    assert refused.status_code == 422
    assert "\n" not in refused.text
    long = server.post(f"run/{name_of(runs)}/continue.json", content="x" * 2**17, headers=own)
    assert long.status_code == 422


def test_the_index_of_a_run_comes_from_its_scores_and_leads_to_its_traces(runs: Path) -> None:
    server, run = client(runs), name_of(runs)
    index = server.get(f"run/{run}/index.json").json()
    assert [group["name"] for group in index["groups"]] == list(METHODS)
    assert len(index["entries"]) == QUESTIONS * len(METHODS)
    for entry in index["entries"][:: QUESTIONS - 1]:
        trace = server.get(f"run/{run}/trace.json", params={"group": entry["group"], "line": entry["line"]}).json()
        assert (trace["question"], trace["method"]) == (entry["question"], entry["group"])
    words = "tower 7<\nnowhere"
    assert server.get(f"run/{run}/texts.json", params={"group": "m3prune", "words": words}).json() == [[8], []]


def test_every_request_for_damaged_scores_is_refused_until_they_are_whole_again(runs: Path, tmp_path: Path) -> None:
    copytree(runs / name_of(runs), tmp_path / "damaged")
    scores = tmp_path / "damaged" / "scores.jsonl"
    whole = scores.read_bytes()
    first, rest = whole.split(b"\n", 1)
    scores.write_bytes(first + b"\n{}\n" + rest)
    server = client(tmp_path)
    answers = [server.get("run/damaged/index.json") for _ in range(3)]
    assert [answer.status_code for answer in answers] == [422] * 3
    assert all("line 2" in answer.text for answer in answers)
    scores.write_bytes(whole)
    assert len(server.get("run/damaged/index.json").json()["entries"]) == QUESTIONS * len(METHODS)


def test_discussions_without_a_compromised_agent_are_not_attacked(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path, "fake")
    save(Config(attack=AttackSettings("response")), run.config)
    with Recorder(run) as recorder:
        for number in range(3):
            for method, attackers in (("single", ()), ("full", ("critic",))):
                hit = replace(trace(number, method), attack="response", attacked=attackers, target="tower 99")
                recorder.evaluated(hit, item(number), Score(1, 1), Harm(0.0))
    entries = client(tmp_path).get(f"run/{run.name}/index.json").json()["entries"]
    assert [entry["group"] for entry in entries if "attack" in entry] == ["full"] * 3
    groups = embed(run, ["single", "full"]).entries
    assert [entry["group"] for entry in groups if "attack" in entry] == ["full"] * 3


@pytest.mark.parametrize(
    ("address", "status"),
    [
        ("", 200),
        ("run/none/", 404),
        ("run/none/index.json", 404),
        ("run/%2e%2e/", 404),
        ("run/..%2fruns%2f..%2f/index.json", 404),
        ("run/%00/", 404),
        ("run/{run}/trace.json?group=../scores&line=1", 422),
        ("run/{run}/trace.json?group=m3prune&line=999", 422),
        ("run/{run}/trace.json?group=m3prune&line=-1", 400),
        ("run/{run}/texts.json?group=m3prune", 400),
        ("run/{run}/anything.json", 404),
        ("events?run=..", 404),
        ("events?run=/etc", 404),
        ("events?run=%00", 404),
        ("run/{run}/config.yaml", 404),
    ],
)
def test_only_addresses_of_runs_lead_anywhere(runs: Path, address: str, status: int) -> None:
    assert client(runs).get(address.format(run=name_of(runs))).status_code == status


def test_without_the_token_or_the_name_of_this_machine_nothing_is_found(runs: Path) -> None:
    assert client(runs).get("http://127.0.0.1/").status_code == 404
    assert client(runs).get("http://127.0.0.1/other/").status_code == 404
    assert client(runs).post("").status_code == 404
    assert client(runs, host="rebound.example").get("").status_code == 400
    answer = client(runs).get("")
    assert answer.status_code == 200
    assert answer.headers["referrer-policy"] == "no-referrer"


def test_a_link_out_of_the_folder_is_not_followed(runs: Path, tmp_path: Path) -> None:
    shown = tmp_path / "shown"
    shown.mkdir()
    (shown / "linked").symlink_to(runs / name_of(runs))
    assert client(shown).get("run/linked/").status_code == 404
    held = shown / "held"
    held.mkdir()
    (held / "config.yaml").write_bytes((runs / name_of(runs) / "config.yaml").read_bytes())
    (held / "scores.jsonl").symlink_to(runs / name_of(runs) / "scores.jsonl")
    assert client(shown).get("run/held/index.json").status_code == 422


def sparse(path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    with path.open("wb") as file:
        file.truncate(2**32)


def bomb(path: Path) -> None:
    """A few megabytes that unpack to gigabytes."""
    zeros = gzip.compress(b"\n" * 2**24, mtime=0)
    path.write_bytes(zeros * 200)


@pytest.mark.parametrize(
    ("name", "damage", "address", "status"),
    [
        ("metrics.json", sparse, "", 422),
        ("metrics.json", lambda path: path.write_text("[" * 100_000), "", 422),
        ("metrics.json", lambda path: path.write_text('{"methods": ' + "9" * 10_000 + "}"), "", 422),
        ("figures/x.png", sparse, "", 200),
        ("scores.jsonl", sparse, "index.json", 422),
        ("traces/evaluate-m3prune.jsonl", sparse, "trace.json?group=m3prune&line=1", 422),
        ("timings/evaluate-m3prune.jsonl", sparse, "trace.json?group=m3prune&line=1", 422),
        ("config.yaml", sparse, "", 422),
    ],
)
def test_no_file_of_a_run_fills_the_memory(
    runs: Path, tmp_path: Path, name: str, damage: Callable[[Path], object], address: str, status: int
) -> None:
    copytree(runs / name_of(runs), tmp_path / "damaged")
    damage(tmp_path / "damaged" / name)
    answer = client(tmp_path).get(f"run/damaged/{address}")
    assert answer.status_code == status
    assert name in answer.text
    assert client(tmp_path).get("").status_code == 200


@pytest.mark.slow
def test_a_file_that_unpacks_to_gigabytes_is_refused(runs: Path, tmp_path: Path) -> None:
    copytree(runs / name_of(runs), tmp_path / "damaged")
    (tmp_path / "damaged" / "scores.jsonl").unlink()
    bomb(tmp_path / "damaged" / "scores.jsonl.gz")
    server = client(tmp_path)
    assert server.get("").status_code == 200
    assert server.get("run/damaged/index.json").status_code == 422


def test_a_page_has_a_limited_number_of_figures(runs: Path, tmp_path: Path) -> None:
    copytree(runs / name_of(runs), tmp_path / "drawn")
    (tmp_path / "drawn" / "figures").mkdir()
    for number in range(300):
        (tmp_path / "drawn" / "figures" / f"{number:03}.png").write_bytes(b"x")
    text = client(tmp_path).get("run/drawn/").text
    assert text.count("<figure>") == 100
    assert "of 300 figures" in text


def test_a_request_that_is_not_complete_in_time_is_ended(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "REQUEST_S", 0.2)
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 20)
    with served(application(Root.open(str(runs)), TOKEN)) as address:
        place = (urlsplit(address).hostname, urlsplit(address).port)
        with urlopen(f"{address}{TOKEN}/events") as events:
            assert events.readline().startswith(b"data: ")
            half_sent = [socket.create_connection(place) for _ in range(30)]
            for connection in half_sent:
                connection.sendall(b"GET / HTTP/1.1\r\n")
            for connection in half_sent:
                connection.settimeout(60)
                with connection, suppress(ConnectionResetError):
                    assert connection.recv(1) == b""
            assert urlopen(f"{address}{TOKEN}/").status == 200
            assert not events.closed


async def test_a_folder_is_looked_at_once_for_all_that_listen(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    overviews = Overviews(Root.open(str(runs)))
    looks: list[object] = []
    read_all = overviews.all
    monkeypatch.setattr(overviews, "all", lambda *asked: looks.append(asked) or read_all(*asked))
    watch = Watch(overviews, None)
    latest = await asyncio.gather(*(watch.latest() for _ in range(200)))
    assert len(looks) == 1
    assert all(overviews is latest[0] for overviews in latest)


def test_one_run_is_shown_without_its_neighbours(runs: Path, tmp_path: Path) -> None:
    run = name_of(runs)
    neighbour = RunFolder.create(runs, "neighbour")
    save(Config(), neighbour.config)
    server = client(runs / run)
    assert server.get(f"run/{run}/").status_code == 200
    assert server.get(f"run/{neighbour.name}/").status_code == 404


@pytest.mark.slow
def test_ctrl_c_ends_the_viewer_with_one_line_while_a_browser_listens(runs: Path) -> None:
    process = begin(f"view={runs}")
    assert process.stdout
    address = process.stdout.readline().split(" at ")[1].split()[0]
    with urlopen(f"{address}events") as events:
        assert events.readline().startswith(b"data: ")
        process.send_signal(signal.SIGINT)
        assert finish(process, code=130).split() == ["interrupted"]


@pytest.mark.slow
def test_the_browser_s_arguments_lack_the_token(runs: Path, tmp_path: Path) -> None:
    arguments = tmp_path / "arguments"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\nprintf %s "$1" > {arguments}\n')
    browser.chmod(0o700)
    process = begin(f"view={runs}", "view.open=true", BROWSER=str(browser))
    assert process.stdout
    address = process.stdout.readline().split(" at ")[1].split()[0]
    with urlopen(f"{address}events") as events:
        events.readline()  # the server is up, and the browser was started before
        opened = arguments.read_text()
        assert urlsplit(address).path.strip("/") not in opened
        page = Path(urlsplit(opened).path)
        assert page.stat().st_mode & 0o077 == 0
        assert f"url={address}" in page.read_text()
        process.send_signal(signal.SIGINT)
        finish(process, code=130)
    assert not page.exists()
