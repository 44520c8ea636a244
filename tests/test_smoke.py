"""Runs the program as its users do: one command each, killed, resumed, interrupted, over endpoints and full disks."""

import json
import os
import signal
from pathlib import Path

import pytest
from autogen_agentchat.teams import GraphFlow

from experiments.records.tracking import MOST_CHARACTERS
from tests.support.endpoint import Asked, Server, Told, completion, serving
from tests.support.sessions import assert_same_records, begin, finish, folder_of, interrupt, run_folder, wait_for
from tests.support.wandb_log import OfflineRun, assert_has_all_of
from tests.support.words import joined

pytestmark = pytest.mark.smoke

SMALL = [
    *("experiment=mmqa_prune", "data.limit=4", "pruning.steps=3", "training.samples=3", "figures=false"),
    *("topology.text=[critic,scientist]", "topology.visual=[critic]", "methods=[single,full,m3prune,effects]"),
]
LEARNING = "*-mmqa_prune/learned/m3prune/learning.jsonl"
KEY = "sk-of-the-tests-0123456789abcdef"


@pytest.fixture(scope="module")
def default(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder of a run over Ray with an offline W&B run, and what the run printed."""
    output = tmp_path_factory.mktemp("default")
    with_figures = [word for word in SMALL if word != "figures=false"]
    printed = finish(begin(*with_figures, "wandb.mode=offline", f"output={output}"))
    return run_folder(output), printed


def test_a_default_run_prints_its_table_and_fills_its_folder(default: tuple[Path, str]) -> None:
    folder, printed = default
    assert printed.rstrip().endswith(f"run: {folder}")
    for method in ("single", "full", "m3prune", "effects"):
        assert f"\n{method} " in printed
        assert (folder / "traces" / f"evaluate-{method}.jsonl").read_text().count("\n") == 4
    for name in ("config.yaml", "model.json", "metrics.json", "report.html", "scores.jsonl", "usage.jsonl"):
        assert (folder / name).stat().st_size
    assert (folder / "learned" / "m3prune" / "topology.safetensors").stat().st_size


def test_the_offline_wandb_run_has_the_tables_figures_and_graphs_of_a_default_run(default: tuple[Path, str]) -> None:
    folder, printed = default
    assert "W&B" not in printed
    tracked = OfflineRun(folder)
    assert_has_all_of(tracked, folder)
    assert {f"{folder.name}-effects", f"{folder.name}-m3prune"} <= set(tracked.artifacts)
    # A list of texts of any length.
    doubts = json.loads((folder / "metrics.json").read_text())["methods"]["effects"]["doubts"]
    assert tracked.tables["methods"]["doubts"][3] == " | ".join(doubts)[:MOST_CHARACTERS]


def test_a_default_run_logs_no_warning(default: tuple[Path, str]) -> None:
    log = (default[0] / "run.log").read_text()
    assert " INFO " in log
    assert " WARNING " not in log
    assert " ERROR " not in log


def test_a_run_killed_while_it_learns_resumes_to_the_same_bytes(default: tuple[Path, str], tmp_path: Path) -> None:
    process = begin(*SMALL, "wandb.mode=disabled", f"output={tmp_path}")
    wait_for(process, tmp_path, LEARNING)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    finish(begin(f"resume={run_folder(tmp_path)}", "runtime=inline"))
    assert_same_records(default[0], run_folder(tmp_path))


def test_an_interrupted_run_prints_how_to_resume_and_leaves_no_process(tmp_path: Path) -> None:
    process = begin(*SMALL, "wandb.mode=disabled", f"output={tmp_path}")
    wait_for(process, tmp_path, LEARNING)
    assert f"resume={run_folder(tmp_path)}" in interrupt(process)


def test_a_sweep_of_two_trials_gives_what_each_run_gives_alone(default: tuple[Path, str], tmp_path: Path) -> None:
    overrides = ["sweep.axes.topology.rounds=[1,2]", "runtime=inline", "wandb.mode=offline", f"output={tmp_path}"]
    printed = finish(begin(*SMALL, *overrides))
    folder = folder_of(printed)
    assert (folder / "trials.jsonl").read_text().count("\n") == 2
    assert (folder / "sweep.csv").stat().st_size
    [two_rounds] = (folder / "trials").glob("*rounds=2*")
    assert_same_records(default[0], two_rounds)
    for trial in (folder / "trials").iterdir():
        assert_has_all_of(OfflineRun(trial), trial)


def test_a_replay_answers_without_a_model_and_without_wandb_where_that_fails(
    default: tuple[Path, str], tmp_path: Path
) -> None:
    replay = ["model=replay", f"replay.run={default[0]}", "wandb.mode=offline", "runtime=inline", f"output={tmp_path}"]
    printed = finish(begin(*SMALL, *replay, WANDB_SERVICE="no service"))
    [problem] = [line for line in printed.splitlines() if line.startswith("W&B could not start")]
    assert printed.index(problem) > printed.index("\neffects ")
    assert f"python run.py track={run_folder(tmp_path)}" in problem
    recorded, replayed = (json.loads((run / "metrics.json").read_text()) for run in (default[0], run_folder(tmp_path)))
    assert recorded["methods"] == replayed["methods"]


async def test_an_exported_team_answers_by_itself(default: tuple[Path, str]) -> None:
    team = GraphFlow.load_component(json.loads((default[0] / "learned" / "m3prune" / "team.json").read_text()))
    result = await team.run(task="Where was Ana Brix born?")
    spoke = {message.source for message in result.messages}
    assert spoke >= {"decision", "text_critic_2", "text_scientist_2", "visual_critic_2"}


def test_a_run_over_an_endpoint_that_limits_its_rate_ends_and_keeps_the_key_secret(tmp_path: Path) -> None:
    refused: list[Asked] = []

    async def answer(asked: Asked) -> Told:
        if asked.path.endswith("/models"):
            return Told({"data": [{"id": "m"}]})
        if len(refused) < 3 and len(server.asked) > 10:
            refused.append(asked)
            return Told("slow down", status=429, headers={"retry-after": "0.1"})
        return Told(completion("Reasoning: I looked.\nAnswer: unknown\nConfidence: 0.6"))

    server = Server(answer)
    with serving(server):
        model = ["model=openai", f"model.base_url={server.base_url}", "model.name=m", "model.key_env=SMOKE_KEY"]
        small = joined(*SMALL, "methods=[single,full]", "wandb.mode=disabled", "runtime=inline", f"output={tmp_path}")
        finish(begin(*small, *model, SMOKE_KEY=KEY))
    assert len(refused) == 3
    assert server.asked[-1].headers["authorization"] == f"Bearer {KEY}"
    metrics = json.loads((run_folder(tmp_path) / "metrics.json").read_text())
    assert metrics["model"] == "m"
    assert all(row["failed_turns"] == 0 for row in metrics["methods"].values())
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]


def test_a_full_disk_is_one_line_and_the_run_resumes_when_there_is_room_to_the_bytes_of_a_run_over_ray(
    default: tuple[Path, str], tmp_path: Path
) -> None:
    # Data and index exist already, so that the run's records are the first files to grow.
    cache = f"cache={default[0].with_name('cache')}"
    inline = [*SMALL, "wandb.mode=disabled", "runtime=inline", "completions.reuse=false", f"output={tmp_path}", cache]
    error = finish(begin(*inline, most_bytes=12_000), 2)
    assert error.count("\n") == 1
    assert f"resume={run_folder(tmp_path)} {cache}" in error
    finish(begin(f"resume={run_folder(tmp_path)}", cache))
    assert_same_records(default[0], run_folder(tmp_path))


def test_bad_input_is_one_line_with_exit_code_2_and_leaves_no_folder(tmp_path: Path) -> None:
    error = finish(begin(*SMALL, "model=openai", f"output={tmp_path / 'runs'}"), 2)
    assert "model.base_url" in error
    assert error.count("\n") == 1
    assert not (tmp_path / "runs").exists()
