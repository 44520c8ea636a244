"""A process that is lost for good ends a run with one line, wherever in its tasks that is noticed."""

from pathlib import Path

import pytest

from actors.errors import AgentLost, AgoraError, ClusterError, ModelGone, UserError
from experiments.config.loading import load
from experiments.jobs import plan_of
from experiments.records.recorder import RunFolder
from experiments.runner import run
from experiments.running.prune import Prune


@pytest.mark.parametrize("lost", [AgentLost("critic: it died"), ClusterError("the topology actor: it died")])
def test_a_lost_agent_or_learner_is_one_line(lost: AgoraError, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check(lost, str(lost), tmp_path, monkeypatch)


@pytest.mark.parametrize("kind", [AgentLost, ClusterError, ModelGone])
def test_one_in_a_group_of_tasks_is_one_line_and_says_how_to_go_on(
    kind: type[AgoraError], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = ExceptionGroup("unhandled errors in a TaskGroup", [ExceptionGroup("and in another", [kind("it died")])])
    said = f"it died; records stay: go on with: python run.py resume={tmp_path}"
    check(group, said, tmp_path, monkeypatch)


def test_how_to_go_on_has_what_a_resumption_wants_named_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    address = "model.base_url=http://127.0.0.1:9/v1"
    group = ExceptionGroup("unhandled errors in a TaskGroup", [ModelGone("nobody is there")])
    said = f"nobody is there; records stay: go on with: python run.py resume={tmp_path} model.name=m {address}"
    check(group, said, tmp_path, monkeypatch, "model=openai", "model.name=m", address)


def check(raised: Exception, said: str, folder: Path, monkeypatch: pytest.MonkeyPatch, *words: str) -> None:
    def fail(*_: object) -> None:
        raise raised

    monkeypatch.setattr(Prune, "run", fail)
    (folder / "scores.jsonl").write_text("a record\n")  # without any there is nothing to go on from
    config = load(["experiment=mmqa_prune", f"output={folder}", f"cache={folder / 'cache'}", *words])
    with pytest.raises(UserError) as error:
        run(plan_of(config), RunFolder(folder))
    assert str(error.value).startswith(said)
