"""A run that is refused leaves no folder behind; one that has recorded something, or is resumed, keeps it."""

import socket
from pathlib import Path

import pytest

from actors.errors import ClusterError, ModelGone
from actors.runtime.cluster import Cluster
from experiments.records.run_files import discard, is_recorded
from experiments.running.discussions import Discussions
from run import main

SMALL = ["wandb.mode=disabled", "data.limit=2", "pruning.steps=1", "training.samples=2", "concurrency=4"]
INLINE = ["experiment=mmqa_prune", "runtime=inline", *SMALL, "methods=[single,m3prune]"]


@pytest.fixture
def closed() -> str:
    """The address of an endpoint that is not there."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}/v1"


def left(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.iterdir()) if folder.exists() else []


def test_a_folder_of_the_users_own_stays(tmp_path: Path) -> None:
    (kept := tmp_path / "kept").mkdir()
    assert main(["experiment=recall", "data=scienceqa", f"output={kept}", f"cache={tmp_path / 'cache'}"]) == 2
    assert left(kept) == []
    assert kept.exists()


def test_a_model_that_is_not_there_leaves_nothing_but_the_cache(
    closed: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = ["model=openai", "model.name=x", f"model.base_url={closed}", "model.retries=0", "model.timeout_s=2"]
    assert main([*INLINE, *model, f"output={tmp_path}"]) == 2
    assert "resume=" not in capsys.readouterr().err
    assert left(tmp_path) == ["cache"]


@pytest.mark.parametrize("sweep", [[], ["sweep.seeds=2"]])
def test_a_ray_that_does_not_start_leaves_nothing_but_the_cache(
    sweep: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(cluster: Cluster) -> Cluster:
        raise ClusterError("Ray does not start")

    monkeypatch.setattr(Cluster, "__enter__", fails)
    assert main(["experiment=mmqa_prune", *SMALL, *sweep, f"output={tmp_path}"]) == 2
    assert left(tmp_path) == ["cache"]


def test_a_run_that_has_recorded_something_stays_and_says_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def gone(discussions: Discussions) -> None:
        (discussions.context.recorder.run.path / "scores.jsonl").write_text("a record\n")
        raise ModelGone("no replica is left")

    monkeypatch.setattr(Discussions, "run", gone)
    assert main([*INLINE, f"output={tmp_path}"]) == 2
    [folder] = [path for path in tmp_path.iterdir() if path.name != "cache"]
    assert f"run.py resume={folder}" in capsys.readouterr().err


def test_a_run_that_is_resumed_and_refused_keeps_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def interrupted(discussions: Discussions) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Discussions, "run", interrupted)
    assert main([*INLINE, f"output={tmp_path}"]) == 130
    [folder] = [path for path in tmp_path.iterdir() if path.name != "cache"]

    async def gone(discussions: Discussions) -> None:
        raise ModelGone("no replica is left")

    monkeypatch.setattr(Discussions, "run", gone)
    assert main([f"resume={folder}"]) == 2
    assert (folder / "config.yaml").exists()


def test_what_somebody_else_has_put_into_a_folder_keeps_it(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "one"
    (folder / "wandb").mkdir(parents=True)
    (folder / "config.yaml").write_text("seed: 1\n")
    (folder / "scores.jsonl").touch()
    (folder / "wandb" / "latest-run").symlink_to(tmp_path)
    assert not is_recorded(folder)
    (folder / "notes.txt").write_text("mine\n")
    discard(folder, [tmp_path / "runs"])
    assert (folder / "config.yaml").exists()
    (folder / "notes.txt").unlink()
    discard(folder, [tmp_path / "runs"])
    assert list(tmp_path.iterdir()) == []
