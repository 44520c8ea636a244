"""A failure never ends in a verdict: runs whose turns keep failing stop, and what failed is counted and asked again."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import pytest

from actors.backends.model_settings import ModelSettings
from actors.errors import CONTENT_FILTER, NOT_DECODED, TooManyFailures
from actors.messages import Abilities, Completion, Message, Request, Status
from actors.reader.reader import Reader, ReaderSettings
from experiments.records.failures import Breaker, FailureSettings
from experiments.records.recorder import JUDGEMENTS, RunFolder
from run import main

HERE = "tests.experiments.running.test_failures"
WORDS = ["experiment=mmqa_prune", "runtime=inline", "wandb.mode=disabled", "figures=false", f"model={HERE}:Failing"]
WORDS += ["topology.text=[critic,scientist]", "topology.visual=[critic]", "pruning.steps=2", "training.samples=2"]
WORDS += ["concurrency=4"]
Ended = tuple[str, str, Status, str]  # a turn: its method and agent, and how it ended
NO_CREDIT = "HTTP 403: {n} credits left, add some at the billing page"


class Failing:
    """The embedded reader, which fails where `fails` gives a reason for a request and the number of those before."""

    fails: ClassVar[Callable[[str, int], str]] = lambda request, before: ""
    asked: ClassVar[list[str]] = []

    def __init__(self, settings: ModelSettings) -> None:
        self._reader = Reader(ReaderSettings())

    async def abilities(self) -> Abilities:
        return Abilities()

    async def complete(self, request: Request) -> Completion:
        reason = Failing.fails(request.id, len(Failing.asked))
        Failing.asked.append(request.id)
        if reason == "babble":
            return Completion(request.id, "", 5, 5)
        if reason:
            return Completion(request.id, "", stop="error", error=reason.format(n=len(Failing.asked)))
        return await self._reader.complete(request)


def go(fails: Callable[[str, int], str], *words: str) -> int:
    Failing.fails, Failing.asked = staticmethod(fails), []  # type: ignore[assignment]
    return main([*words])


def sound(id: str, before: int) -> str:
    return ""


def start(output: Path, fails: Callable[[str, int], str], *words: str) -> tuple[int, Path]:
    code = go(fails, *WORDS, f"output={output}", "data.limit=8", *words)
    [folder] = output.glob("*-mmqa_prune")
    return code, folder


def resume(folder: Path, *words: str) -> int:
    return go(sound, f"resume={folder}", f"model={HERE}:Failing", f"cache={folder.parent / 'cache'}", *words)


def records(folder: Path) -> dict[str, object]:
    """Metrics, what was learned, and scores and traces in any order."""
    files = [*folder.glob("learned/*/*.json*"), folder / "metrics.json"]
    lines = [folder / "scores.jsonl", *folder.glob("**/traces/*.jsonl")]
    return {
        **{str(path.relative_to(folder)): path.read_bytes() for path in files},
        **{str(path.relative_to(folder)): sorted(path.read_text().splitlines()) for path in lines},
    }


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return start(tmp_path_factory.mktemp("healthy"), sound)[1]


def credit_ends_in_training() -> Callable[[str, int], str]:
    """Credit ends with the third question that is learned from. Its step fails whole: one with few failures counts."""
    learned: list[str] = []

    def fails(id: str, n: int) -> str:
        phase, question, *_ = id.split("/")
        if not phase.startswith("train."):
            return NO_CREDIT if len(learned) > 2 else ""
        if question not in learned:
            learned.append(question)
        return NO_CREDIT if learned.index(question) >= 2 else ""

    return fails


UNREAD_PICTURE = f"image mill.png {NOT_DECODED} (FileNotFoundError): copy it again or remove it"
QUESTION_TURNS = 19


def ended(breaker: Breaker, turns: list[Ended]) -> int | None:
    """The number of turns after which the breaker stops the run."""
    for n, (method, agent, status, error) in enumerate(turns, 1):
        try:
            question = f"q{n // QUESTION_TURNS}"
            breaker.turn(method, question, Message(f"1/{agent}", agent, 1, status=status, error=error, calls=1))
        except TooManyFailures:
            return n
    return None


def turns(
    count: int, fails: Callable[[int], str], status: Status = Status.FAILED
) -> list[tuple[str, str, Status, str]]:
    """Turns of two methods and five agents."""
    of = ((n, f"m{n % 2}", f"a{n % 5}", fails(n)) for n in range(count))
    return [(method, agent, status if error else Status.OK, error) for _, method, agent, error in of]


@pytest.mark.parametrize(
    ("fails", "at"),
    [
        pytest.param(lambda n: f"HTTP 40{n % 4}: {'plan' * (n % 3)}" if n > 50 else "", 71, id="dead half-way"),
        pytest.param(lambda n: "timed out" if n % 4 == 0 else "", 77, id="one of four replicas"),
        pytest.param(lambda n: "KeyError: 'x'" if n % 5 == 3 else "", 99, id="one agent"),
        pytest.param(lambda n: "schema refused" if n % 2 else "", 40, id="one method"),
        pytest.param(lambda n: "timed out" if n % 27 == 0 else "", None, id="now and then"),
        pytest.param(lambda n: f"{CONTENT_FILTER}: question {n}" if n % 3 else "", None, id="content filter"),
        pytest.param(lambda n: f"endpoint: {UNREAD_PICTURE}" if n < 95 else "", None, id="pictures of five questions"),
        pytest.param(lambda n: f"endpoint: {UNREAD_PICTURE}", 172, id="every picture"),
    ],
)
def test_turns_that_keep_failing_stop_a_run_whatever_the_reason(fails: Callable[[int], str], at: int | None) -> None:
    assert ended(Breaker(FailureSettings()), turns(1_000, fails)) == at


@pytest.mark.parametrize(
    ("fails", "part"),
    [
        pytest.param(lambda n: "down", "all turns", id="all"),
        pytest.param(lambda n: "down" if n % 5 == 3 else "", "a3", id="one agent"),
        pytest.param(lambda n: "down" if n % 2 else "", "method m1", id="one method"),
    ],
)
def test_a_stopped_run_names_the_part_that_fails(fails: Callable[[int], str], part: str) -> None:
    breaker = Breaker(FailureSettings())
    *before, (method, agent, status, error) = turns(ended(Breaker(FailureSettings()), turns(1_000, fails)) or 0, fails)
    assert ended(breaker, before) is None
    with pytest.raises(TooManyFailures, match=f"^{part}: 20 "):
        breaker.turn(method, "q", Message(f"1/{agent}", agent, 1, status=status, error=error, calls=1))


def test_unreadable_replies_stop_a_run_only_where_there_is_nothing_else() -> None:
    breaker = FailureSettings()
    assert ended(Breaker(breaker), turns(1_000, lambda n: "no answer", Status.UNPARSED)) == breaker.window
    assert ended(Breaker(breaker), turns(1_000, lambda n: "no answer" if n % 51 else "", Status.UNPARSED)) is None


@pytest.mark.slow
@pytest.mark.parametrize(
    "fails",
    [
        pytest.param(lambda id, n: NO_CREDIT, id="from the start"),
        pytest.param(credit_ends_in_training(), id="in training"),
        pytest.param(lambda id, n: NO_CREDIT if n >= 60 and not id.startswith("train.") else "", id="in evaluation"),
    ],
)
def test_a_run_whose_model_is_gone_stops_and_goes_on_as_if_it_had_not_been(
    healthy: Path, tmp_path: Path, fails: Callable[[str, int], str], capsys: pytest.CaptureFixture[str]
) -> None:
    code = go(fails, *WORDS, f"output={tmp_path}", "data.limit=8")
    said = capsys.readouterr()
    assert code == 2
    assert "credits left" in said.err
    assert "failures.share" in said.err
    assert len(Failing.asked) < 150
    folders = list(tmp_path.glob("*-mmqa_prune"))
    if folders:  # one with records; else there is nothing to go on from
        assert not (folders[0] / "metrics.json").exists()
        assert resume(folders[0]) == 0
        assert records(folders[0]) == records(healthy)


@pytest.mark.slow
def test_a_method_that_fails_alone_has_no_figure_and_no_verdict(
    healthy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, folder = start(tmp_path, lambda id, n: "HTTP 400: schema refused" if id.startswith("single/") else "")
    assert code == 1
    assert "single: 8 of 8 " in " ".join(capsys.readouterr().out.split())
    metrics = json.loads((folder / "metrics.json").read_text())
    before = json.loads((healthy / "metrics.json").read_text())
    assert metrics["methods"]["single"]["utility"] is None
    assert not any("single" in pair for pair in metrics["paired"])
    assert metrics["methods"]["full"] == before["methods"]["full"]
    assert resume(folder) == 0
    assert records(folder) == records(healthy)


@pytest.mark.slow
def test_a_few_failed_questions_are_counted_and_left_out_of_comparisons(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lost: list[str] = []

    def fails(id: str, n: int) -> str:
        method, question, *_ = id.split("/")
        if method == "full" and (not lost or lost == [question]):
            lost[:] = [question]
            return f"{CONTENT_FILTER}: refused"
        return ""

    code, folder = start(tmp_path, fails, "methods=[single,full,m3prune]")
    assert code == 0
    metrics = json.loads((folder / "metrics.json").read_text())
    counted = metrics["failures"]["full"]
    assert (counted["questions"], counted["concluded"]) == (1, True)
    assert metrics["paired"]["m3prune vs full"]["n"] == 7
    assert counted["reason"] in " ".join(capsys.readouterr().out.split())
    # It was refused for what it holds: a resumed run does not ask it again.
    assert resume(folder) == 0
    assert not any(id.startswith("full/") for id in Failing.asked)


@pytest.mark.slow
def test_nothing_is_learned_from_a_stage_that_was_refused(tmp_path: Path) -> None:
    refused = f"{CONTENT_FILTER}: refused"
    code, folder = start(tmp_path, lambda id, n: refused if id.startswith("train.m3prune/") else "")
    assert code == 2
    assert not (folder / "learned" / "m3prune" / "topology.json").exists()
    assert resume(folder) == 2, "the state of such learning is not gone on from"


@pytest.mark.slow
def test_a_judge_that_fails_stops_the_run_and_judges_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    judged = [
        f"judge={HERE}:Failing",
        "methods=[closed_book,single,full]",
        "completions.reuse=false",
        "failures.window=30",
    ]
    code, folder = start(tmp_path, lambda id, n: NO_CREDIT if id.startswith("judge/") and n % 3 else "", *judged)
    assert code == 2
    assert "the judge" in capsys.readouterr().err
    held = (folder / JUDGEMENTS).read_text().splitlines()
    assert any('"grade":null' in line for line in held)
    assert resume(folder, f"judge={HERE}:Failing") == 0
    assert '"grade":null' not in (folder / JUDGEMENTS).read_text()
    first = next(i for i, line in enumerate(held) if '"grade":null' in line)
    assert (folder / JUDGEMENTS).read_text().splitlines()[:first] == held[:first]


@pytest.mark.slow
def test_unreadable_answers_alone_make_no_run_that_goes_well(tmp_path: Path) -> None:
    code, folder = start(tmp_path, lambda id, n: "babble", "failures.window=20")
    assert code == 2
    assert not RunFolder(folder).metrics.exists()
