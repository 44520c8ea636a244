"""Whole runs through the command line with judge, replay, cache, endpoint and AutoGen agents, on real Ray."""

import asyncio
import json
import signal
import tempfile
from collections.abc import Iterator
from contextlib import redirect_stdout
from hashlib import blake2b
from io import StringIO
from pathlib import Path

import pytest
from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.base import ChatAgent
from autogen_core.models import ChatCompletionClient
from autogen_core.tools import FunctionTool

from actors.agents.roles import ROLES
from actors.autogen.conversation import TOOL_RESULT, TOOLS, call_line
from actors.messages import Role, Usage
from actors.runtime.head import Head
from experiments.config.loading import load
from experiments.dry_run.dry_run import dry_run
from experiments.jobs import plan_of
from experiments.records import usage
from experiments.records.recorder import RunFolder
from run import main
from tests.support.endpoint import Asked, Server, Told, completion, serving
from tests.support.sessions import assert_same_records, begin, folder_of, wait_for
from tests.support.words import joined

pytestmark = pytest.mark.ray

SMALL = [
    *("experiment=mmqa_prune", "data.limit=6", "pruning.steps=3", "training.samples=3", "wandb.mode=disabled"),
    *("topology.text=[critic,scientist]", "topology.visual=[critic]", "figures=false"),
]
KEY = "sk-of-the-tests-0123456789abcdef"
METHODS = "methods=[closed_book,single,full,m3prune]"
JUDGED = "judgements.jsonl"


def words(output: Path, *more: str) -> list[str]:
    return joined(*SMALL, f"output={output}", *more)


def ran(output: Path, *more: str) -> tuple[Path, str]:
    """The folder of a run in this process, and what it printed."""
    with redirect_stdout(StringIO()) as printed:
        assert main(words(output, *more)) == 0
    return folder_of(printed.getvalue()), printed.getvalue()


def spent(folder: Path) -> Usage:
    return usage.total(RunFolder(folder))


def refused(capsys: pytest.CaptureFixture[str], *asked: str) -> str:
    """The one line with which a command is refused."""
    capsys.readouterr()
    assert main([*asked]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    return line


def almanac(query: str) -> str:
    return f"The almanac: {query.rstrip('?')} in Tarn Hollow."


def with_almanac(role: Role, client: ChatCompletionClient) -> ChatAgent:
    """What a user's own agent may be: an assistant of AutoGen's with a tool."""
    tool = FunctionTool(almanac, description="Knows where, who and what.")
    return AssistantAgent(role.name, client, tools=[tool], max_tool_iterations=3)


async def answer(asked: Asked) -> Told:
    """An endpoint that knows one model; what it says follows from what it is asked, and each fifth request is one too
    many."""
    if asked.headers.get("authorization") != f"Bearer {KEY}":
        return Told({"error": {"message": "Incorrect API key provided"}}, 401)
    if asked.path.endswith("/models"):
        return Told({"data": [{"id": "m"}]})
    body = asked.json()
    if body["model"] != "m":
        return Told({"error": {"message": f"The model `{body['model']}` does not exist."}}, 404)
    said = blake2b(asked.content, digest_size=2).digest()
    if said[1] % 5 == 0 and asked.content not in REFUSED:
        REFUSED.add(asked.content)
        return Told({"error": {"message": "slow down"}}, 429, {"retry-after": "0.05"})
    text = str(body["messages"])
    if TOOLS in text and TOOL_RESULT not in text:
        return Told(completion(call_line("almanac", {"query": "Where was she born?"})))
    if TOOL_RESULT in text:
        return Told(completion("Reasoning: [almanac] says so.\nAnswer: Tarn Hollow\nConfidence: 0.9"))
    if "Grade:" in text:
        await asyncio.sleep(0.3)
        return Told(completion(f"Reasoning: it is like the reference.\nGrade: {1 + said[0] % 5}"))
    return Told(completion(f"Reasoning: [1] says so.\nAnswer: {'yes' if said[0] % 2 else 'no'}\nConfidence: 0.6"))


REFUSED: set[bytes] = set()


@pytest.fixture(scope="module")
def first(output: Path) -> tuple[Path, str]:
    return ran(output, "judge=reader", "runtime=inline")


@pytest.fixture(scope="module")
def endpoint() -> Iterator[list[str]]:
    """The words with which a run asks the endpoint, for its agents and its judge."""
    server = Server(answer)
    with pytest.MonkeyPatch.context() as patch, serving(server):
        patch.setenv("KEY_OF_THE_TESTS", KEY)
        yield [
            word
            for model in ("model", "judge")
            for word in (
                f"{model}=openai",
                f"{model}.base_url={server.base_url}",
                f"{model}.name=m",
                f"{model}.key_env=KEY_OF_THE_TESTS",
            )
        ]


@pytest.fixture(scope="module")
def ray_folder() -> Iterator[Path]:
    """Where Ray keeps its logs; short, because its sockets lie there."""
    with tempfile.TemporaryDirectory(prefix="r") as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_TMPDIR", folder)
        # Else a run that ends well takes its logs away, and with them what they would tell.
        close = Head.close
        patch.setattr(Head, "close", lambda head, forget=False: close(head))
        yield Path(folder)


@pytest.fixture(scope="module")
def hosted(endpoint: list[str], ray_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """An undisturbed run against the endpoint, with its own cache."""
    return ran(tmp_path_factory.mktemp("hosted"), METHODS, *endpoint)


def test_the_judge_s_figures_stand_in_the_table_and_below_it_whose_they_are(first: tuple[Path, str]) -> None:
    folder, printed = first
    judged = json.loads((folder / "metrics.json").read_text())["judged"]
    assert judged["judge"] == "reader"
    assert "Acc*" in printed
    report = " ".join((folder / "report.html").read_text().split())
    assert "Acc* is the share of answers that reader grades 4 or 5." in report
    assert "it compares words and numbers and knows nothing of meaning" in report
    # But for those that say where the run is, at its start and at its end.
    assert [line for line in printed.splitlines() if len(line) > 120 and str(folder) not in line] == []


def test_a_second_run_over_the_same_cache_asks_no_model_and_ends_the_same(
    first: tuple[Path, str], output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("Ray was started")

    monkeypatch.setattr("ray.init", refuse)
    again, _ = ran(output, "judge=reader", "runtime=inline")
    assert_same_records(first[0], again, JUDGED)
    assert spent(again).calls == 0
    assert spent(again).reused == spent(first[0]).calls + spent(first[0]).reused
    assert "(100.0%) answered from the completion cache" in (again / "report.html").read_text()


def test_a_run_that_keeps_no_completions_computes_all_and_ends_the_same(first: tuple[Path, str], output: Path) -> None:
    other, _ = ran(output, "judge=reader", "completions.reuse=false", "runtime=inline")
    assert_same_records(first[0], other, JUDGED)
    assert spent(other).reused == 0


def test_a_dry_run_counts_just_the_turns_that_the_run_then_records_and_leaves_no_folder(
    first: tuple[Path, str], output: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = set(output.iterdir())
    plan = dry_run(plan_of(load(words(output, "judge=reader", f"cache={output}/cache", "dry_run=true"))))
    assert set(output.iterdir()) == before
    assert "Turns and calls are exact" in capsys.readouterr().out
    run = RunFolder(first[0])
    held = {
        path.stem.replace("evaluate-", "evaluating "): sum(len(trace.turns) for trace in run.traces(path.stem))
        for path in run.path.glob("traces/*.jsonl")
    }
    for graph in run.all_learned():
        for path in graph.path.glob("traces/*.jsonl"):
            stage = path.stem.replace("train-", f"learning {graph.name}, stage ")
            held[stage] = sum(len(trace.turns) for trace in graph.traces(path.stem))
    assert {phase.name for phase in plan.phases} == held.keys()
    assert {phase.name: phase.turns for phase in plan.phases if phase.exact}.items() <= held.items()
    estimated = {phase.name for phase in plan.phases if not phase.exact}
    assert estimated == {"evaluating effects"}, "whom its decision agent reads is learned"


def test_an_assistant_with_a_tool_holds_a_role_and_answers_from_what_the_tool_returns(
    output: Path, endpoint: list[str]
) -> None:
    held = "roles.text_critic.agent=tests.experiments.running.test_run_models:with_almanac"
    folder, _ = ran(output, "methods=[full]", held, "runtime=inline", *endpoint)
    turns = [turn for trace in RunFolder(folder).traces("evaluate-full") for turn in trace.turns]
    with_tool = [turn for turn in turns if turn.agent == "text_critic"]
    assert {(turn.answer, turn.error) for turn in with_tool} == {("Tarn Hollow", "")}
    assert all(turn.calls >= 2 for turn in with_tool), "one call to ask for the tool, one to answer"
    assert not any(turn.answer == "Tarn Hollow" for turn in turns if turn.agent != "text_critic")


def test_the_roles_with_a_model_of_their_own_ask_that_one_and_no_other(tmp_path: Path) -> None:
    """The run's own model is the embedded reader; two roles ask one model at an endpoint."""
    instructions = {name: ROLES[name].instruction for name in ("visual_critic", "decision")}

    async def eyes(asked: Asked) -> Told:
        if asked.path.endswith("/models"):
            return Told({"data": [{"id": "eyes"}]})
        return Told(completion("Reasoning: I looked at it.\nAnswer: unknown\nConfidence: 0.6"))

    server = Server(eyes)
    with serving(server):
        own = [
            word
            for role in instructions
            for word in (
                f"roles.{role}.model=openai",
                f"roles.{role}.model.name=eyes",
                f"roles.{role}.model.base_url={server.base_url}",
            )
        ]
        folder, printed = ran(tmp_path, "methods=[single,full]", "data.limit=2", "runtime=inline", *own)
    asked = [a.content.decode() for a in server.asked if "## Role" in a.content.decode()]
    for text in instructions.values():
        assert any(json.dumps(text)[1:-1] in content for content in asked)
    assert all(any(json.dumps(text)[1:-1] in content for text in instructions.values()) for content in asked)
    turns = [turn for trace in RunFolder(folder).traces("evaluate-full") for turn in trace.turns]
    assert {turn.agent for turn in turns if turn.content == "I looked at it."} == set(instructions)
    record = json.loads((folder / "model.json").read_text())
    assert record["name"] == "reader"
    assert {role: model["name"] for role, model in record["roles"].items()} == dict.fromkeys(instructions, "eyes")
    assert json.loads((folder / "metrics.json").read_text())["model"] == "reader + eyes"
    assert "model eyes of visual_critic, decision: " in printed
    assert "The model is the embedded reader" in printed, "it still answers for the others"


def test_the_key_is_in_no_file_of_the_run_nor_of_ray_nor_in_what_is_printed(
    hosted: tuple[Path, str], ray_folder: Path
) -> None:
    assert KEY not in hosted[1]
    logs = [path for path in ray_folder.rglob("*.log") if path.is_file()]
    assert logs
    files = [path for path in (*hosted[0].parent.rglob("*"), *ray_folder.rglob("*")) if path.is_file()]
    assert not [path for path in files if KEY.encode() in path.read_bytes()]


def test_a_run_interrupted_and_then_killed_while_its_judge_grades_ends_the_same(
    hosted: tuple[Path, str], endpoint: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Ray is started by the killed process alone; the others need it for nothing that is held here.
    begun = words(tmp_path, METHODS, *endpoint, "concurrency=2", "runtime=inline")
    folder, code, error = stopped(begun, tmp_path, 2, signal.SIGINT)
    assert code == 130, error
    assert f"resume={folder}" in error
    assert "Traceback" not in error
    # The endpoint is asked, and the key sent to it, only where the command line names them again.
    resumed = [f"resume={folder}", *(word for word in endpoint if "." in word.partition("=")[0])]
    assert "model.base_url=" in refused(capsys, resumed[0])
    _, code, error = stopped([*resumed, "concurrency=2"], tmp_path, 5, signal.SIGKILL)
    assert code == -signal.SIGKILL, error
    assert not (folder / "metrics.json").exists()
    assert main([*resumed, "runtime=inline"]) == 0
    capsys.readouterr()
    assert_same_records(hosted[0], folder, JUDGED)


def stopped(command: list[str], output: Path, judgements: int, how: signal.Signals) -> tuple[Path, int, str]:
    """The folder, exit code and errors of a run that gets a signal once so many answers are judged."""
    # The key: a run in this process has taken it out of the environment.
    process = begin(*command, KEY_OF_THE_TESTS=KEY)
    path = wait_for(
        process, output, "*-mmqa_prune/judgements.jsonl", lambda path: path.read_text().count("\n") >= judgements
    )
    process.send_signal(how)
    _, error = process.communicate(timeout=120)
    return path.parent, process.returncode, error


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ("model.base_url=http://127.0.0.1:9/v1", "http://127.0.0.1:9/v1"),
        ("model.name=mm", "The model `mm` does not exist."),
        ("judge.key_env=NO_SUCH_KEY", "judge.key_env: "),
        ("model.name=''", "model=openai needs model.base_url="),
        (
            "roles.text_critic.agent=tests.actors.autogen.test_hosted:wiht_tool",
            "'wiht_tool'",
        ),
    ],
)
def test_an_endpoint_or_an_agent_that_cannot_work_is_refused_in_one_line(
    asked: str, reason: str, endpoint: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert reason in refused(capsys, *words(tmp_path, "runtime=inline", *endpoint, *asked.split()))


def test_a_key_of_openai_without_an_address_is_told_the_address(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-nothing")
    told = refused(capsys, *words(tmp_path, "model=openai", "model.name=a"))
    assert "model.base_url=https://api.openai.com/v1 model.key_env=OPENAI_API_KEY" in told
    assert "sk-nothing" not in told
