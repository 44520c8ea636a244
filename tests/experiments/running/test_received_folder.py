"""A run folder that somebody else made, through the command line: one line, exit code 2, and nothing else happens."""

import json
import os
import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import yaml

from actors.errors import UserError
from experiments.config.loading import load
from experiments.config.saved import answered_by, read, save
from experiments.evidence.extraction import CAPTIONS
from experiments.jobs import plan_of
from experiments.records.checkpoint import Checkpoint
from experiments.records.recorder import RunFolder
from experiments.running.autogen_team import load_team
from experiments.running.model_extraction import identity
from experiments.running.replayed_run import open_recorded
from experiments.sweeps.expansion import expand
from run import main


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run folder as a run leaves it that was killed at once."""
    output = tmp_path / "runs"
    run = RunFolder.create(output, "mmqa_prune")
    small = ["data.limit=2", "pruning.steps=1", "runtime=inline", "wandb.mode=disabled"]
    save(load(["experiment=mmqa_prune", *small, f"output={output}", f"cache={output / 'cache'}"]), run.config)
    return run.path


@pytest.fixture
def mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module `marking` that leaves a mark when it is imported."""
    mark, modules = tmp_path / "imported", tmp_path / "modules"
    modules.mkdir()
    code = f"open({str(mark)!r}, 'w').close()\n\n\ndef Thing(*args):\n    return None\n"
    (modules / "marking.py").write_text(code)
    monkeypatch.syspath_prepend(modules)
    return mark


Said = Callable[..., str]


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Said:
    """The one line that a resumption gets."""

    def say(folder: Path, *words: str) -> str:
        assert main([f"resume={folder}", *words]) == 2
        error = capsys.readouterr().err
        assert error.startswith("error: ")
        assert error.count("\n") == 1
        return error

    return say


def changed(folder: Path, **values: object) -> None:
    """Writes other values into the saved configuration, as somebody with an editor."""
    tree = yaml.safe_load((folder / "config.yaml").read_text())
    for key, value in values.items():
        *groups, name = key.split(".")
        group = tree
        for part in groups:
            group = group[part]
        group[name] = value
    (folder / "config.yaml").write_text(yaml.safe_dump(tree, sort_keys=False))


def test_a_style_file_is_read_only_where_it_is_named_again(folder: Path, tmp_path: Path, refused: Said) -> None:
    own = tmp_path / "mine.mplstyle"
    changed(folder, **{"figures.style": str(own)})
    # Not that there is no such file, which is looked for only then.
    assert f"add figures.style={own}" in refused(folder)
    assert f"figures.style={own} " in refused(folder, f"figures.style={own}")


def test_a_checkpoint_names_no_file_but_those_of_training(folder: Path, tmp_path: Path, refused: Said) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_text("mine")
    graph = folder / "learned" / "m3prune"
    graph.mkdir(parents=True)
    before = (folder / "config.yaml").read_bytes()
    for name in ("config.yaml", str(outside), "traces/../../../../outside.txt", "../../../outside.txt"):
        checkpoint = Checkpoint(1, 1, {"theta": np.zeros(2, dtype=np.float32)}, {name: 0})
        checkpoint.write(graph / "topology.safetensors")
        with pytest.raises(UserError, match="is not an intact checkpoint"):
            RunFolder(graph).checkpoint()
    assert "topology.safetensors" in refused(folder)
    assert outside.read_text() == "mine"
    assert (folder / "config.yaml").read_bytes() == before


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("model.base_url", "http://evil.example/v1"),
        ("judge.base_url", "http://evil.example/v1"),
        ("model.key_env", "AWS_SECRET_ACCESS_KEY"),
        ("judge.key_env", "AWS_SECRET_ACCESS_KEY"),
        ("roles.decision", {"model": {"kind": "openai", "base_url": "http://evil.example/v1"}}),
        ("retrieval.encoder", "evil/encoder"),
        ("retrieval.encoder", "late:evil/encoder"),
        ("retrieval.web", "serper"),
        ("ray.address", "10.0.0.1:6379"),
        ("wandb.mode", "online"),
        ("cache", "/tmp/elsewhere"),
        ("attack.kind", "marking:Thing"),
        ("roles.text_critic", {"agent": "marking:Thing"}),
        ("sweep.axes", {"model": ["reader", "marking:Thing"]}),
        ("sweep.axes", {"model": [{"kind": "marking:Thing"}]}),
        ("sweep.axes", {"model": {"base_url": ["http://evil.example/v1"]}}),
        ("sweep.axes", {"roles": [{"text_critic": {"agent": "marking:Thing"}}]}),
        ("sweep.axes", {"roles.file": ["/etc/hostname.yaml"]}),
        ("sweep.points", [{"roles.text_critic.agent": "marking:Thing"}]),
    ],
)
def test_what_leads_out_of_a_folder_is_named_again_or_nothing_happens(
    key: str, value: object, folder: Path, refused: Said, mark: Path
) -> None:
    if key.startswith("roles."):
        whole = {"agent": None, "model": {}, "reader": {}, "instances": None, "instruction": "", "form": []}
        value = {**whole, **(value if isinstance(value, dict) else {})}
    changed(folder, **{key: value})
    error = refused(folder)
    assert key.partition(".")[0] in error
    again = shlex.split(error.partition(" add ")[2])
    assert again[0].startswith(key.partition(".")[0])
    assert not mark.exists()


def test_code_of_an_installed_package_is_named_again_too(
    folder: Path, refused: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("actors.lookup.installed", lambda group: {"theirs": f"{group}:x"})
    changed(folder, **{"attack.kind": "theirs"})
    assert "add attack.kind=theirs" in refused(folder)


def test_the_words_that_are_missing_are_ready_for_a_shell(folder: Path, refused: Said) -> None:
    changed(folder, **{"model.kind": "openai", "model.base_url": "http://a/v1", "judge.key_env": "K"})
    assert "add model.base_url=http://a/v1 judge.key_env=K\n" in refused(folder)
    assert "add model.base_url=http://a/v1 judge.key_env=K\n" in refused(folder, "model.base_url=http://a/v1")
    words = ["model.base_url=http://a/v1", "model.name=m", "judge.key_env=OWN"]
    assert "model.name " in refused(folder, *words)


@pytest.mark.parametrize("text", ["${oc.env:HOME}", "a ${seed} b", "${oc.decode:x}", "${"])
def test_nothing_of_a_saved_configuration_is_filled_in(text: str, folder: Path, refused: Said) -> None:
    path = folder / "config.yaml"
    path.write_text(path.read_text().replace("experiment: mmqa_prune", f"experiment: '{text}'"))
    error = refused(folder)
    assert str(folder / "config.yaml") in error
    assert os.environ["HOME"] not in error.replace(str(folder), "")


@pytest.mark.parametrize(
    "content",
    [
        "",
        "seed: 1\n",
        "[]\n",
        "!!python/object/apply:os.system [touch mark]\n",
        "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n",
        "methods: " + "[" * 2000,
        "seed: ???\n",
        "\0\1\2",
        "seed: 1\nseed: 2\n",
        "x" * 3_000_000,
    ],
)
def test_a_configuration_that_is_not_whole_starts_no_other_job(content: str, folder: Path, refused: Said) -> None:
    (folder / "config.yaml").write_text(content)
    assert str(folder / "config.yaml") in refused(folder)
    assert [path.name for path in folder.iterdir()] == ["config.yaml"]


@pytest.mark.parametrize(
    "name",
    [
        *("scores.jsonl", "learned", "learned/m3prune/topology.safetensors", "run.log", ".metrics.json.partial"),
        *("wandb", "trials/0000/wandb", "trials/0000/more/wandb/latest-run"),
    ],
)
def test_no_link_in_a_folder_is_followed(name: str, folder: Path, tmp_path: Path, refused: Said) -> None:
    outside = tmp_path / "outside"
    outside.mkdir() if Path(name).name in ("learned", "wandb") else outside.write_text("mine\n")
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).symlink_to(outside)
    assert f"{name} is a link" in refused(folder)
    assert outside.is_dir() or outside.read_text() == "mine\n"
    assert outside.is_file() or not list(outside.iterdir())


def test_a_pipe_in_a_folder_hangs_nothing_and_wandb_keeps_its_own_links(folder: Path, refused: Said) -> None:
    for wandb in (folder / "wandb", folder / "trials" / "0000-kind=none,seed=0" / "wandb"):
        (wandb / "offline-run-1").mkdir(parents=True)
        (wandb / "latest-run").symlink_to("offline-run-1")
        assert RunFolder.open(folder).path == folder
        (wandb / "offline-run-1" / "debug-core.log").symlink_to("/nowhere/else.log")
        assert RunFolder.open(folder).path == folder
    os.mkfifo(folder / "scores.jsonl")
    assert "scores.jsonl" in refused(folder)


def test_folders_without_end_in_a_folder_are_refused(folder: Path, refused: Said) -> None:
    inside = folder / "trials"
    for _ in range(70):
        inside.mkdir()
        inside = inside / "d"
    assert "nested folders" in refused(folder)


@pytest.mark.parametrize("how", ["working directory", "path"])
def test_no_module_is_looked_for_in_a_folder(
    how: str, folder: Path, refused: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "lancedb.py").write_text("raise SystemExit('ran')\n")
    if how == "path":
        monkeypatch.setattr(sys, "path", [*sys.path, str(folder / "learned")])
    else:
        monkeypatch.chdir(folder)
    assert "Python would import" in refused(folder if how == "path" else Path("."))


def test_a_replayed_folder_is_data_too(
    folder: Path, tmp_path: Path, mark: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["experiment=mmqa_prune", "data.limit=2", "model=replay", f"replay.run={folder}", "wandb.mode=disabled"]
    (folder / "run.log").symlink_to(tmp_path / "outside")
    assert main([*words, f"output={tmp_path / 'new'}"]) == 2
    assert "run.log " in capsys.readouterr().err
    (folder / "run.log").unlink()
    changed(folder, **{"methods": ["marking:Thing"], "data.limit": 2})
    with pytest.raises(UserError):
        open_recorded(plan_of(load(words)))
    assert not mark.exists()


def test_a_run_that_says_that_it_replays_itself_ends(folder: Path) -> None:
    changed(folder, **{"model.kind": "replay", "replay.run": str(folder)})
    config = read(folder / "config.yaml")
    assert answered_by(config).models_named == "replay"
    assert identity(config, CAPTIONS)


def test_a_sweep_s_trials_run_what_the_sweep_says(folder: Path, mark: Path, refused: Said) -> None:
    changed(folder, **{"sweep.axes": {"topology": {"rounds": [1, 2]}}, "methods": ["single"]})
    trial = expand(load([f"resume={folder}"]))[0]
    path = folder / "trials" / trial.name
    path.mkdir(parents=True)
    trial.config.attack.kind = "marking:Thing"
    save(trial.config, path / "config.yaml")
    assert " attack.kind " in refused(folder)
    assert not mark.exists()
    (path / "config.yaml").unlink()
    (folder / "trials.jsonl").write_text('{"name":"../../x","values":{},"seed":0,"metrics":{"methods":{}}}\n')
    assert "trials.jsonl, line 1: " in refused(folder)


def team(**client: object) -> dict[str, object]:
    speaker = {
        "role": {"name": "text_critic", "modality": "text", "instruction": "Answer."},
        "model_client": {
            "provider": "actors.autogen.client.ModelClient",
            "component_type": "model",
            "version": 1,
            "config": {"kind": "reader", "settings": {}, "key_env": "", **client},
        },
    }
    participant = {"provider": "actors.autogen.agent.RoleChatAgent", "component_type": "agent", "config": speaker}
    graph = {"nodes": {"text_critic": {"name": "text_critic", "edges": []}}, "default_start_node": None}
    config = {"name": "t", "participants": [participant], "graph": graph}
    return {"provider": "autogen_agentchat.teams.GraphFlow", "component_type": "team", "config": config}


def test_a_team_file_makes_no_class_but_ours_and_reaches_no_address_by_itself(tmp_path: Path, mark: Path) -> None:
    path = tmp_path / "team.json"
    path.write_text(json.dumps(team()))
    assert load_team(path).name == "t"
    hostile = []
    for place in ("team", "participant", "client"):
        foreign = team()
        member = foreign["config"]["participants"][0]  # type: ignore[index]
        at = {"team": foreign, "participant": member, "client": member["config"]["model_client"]}[place]
        at["provider"] = "marking.Thing"
        hostile.append(foreign)
    agent = team()
    agent["config"]["participants"][0]["config"]["role"]["agent"] = "marking:Thing"  # type: ignore[index]
    ended = team()
    ended["config"]["termination_condition"] = {"provider": "marking.Thing", "config": {}}  # type: ignore[index]
    endpoint = team(kind="openai", settings={"base_url": "http://evil.example/v1", "name": "m"}, key_env="HOME")
    for content in (*hostile, agent, ended, endpoint, [], {"provider": 1}, "[" * 100_000):
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        with pytest.raises(UserError, match=re.escape(path.name)) as raised:
            load_team(path)
        assert "\n" not in str(raised.value)
        assert not mark.exists()
    path.write_text(json.dumps(endpoint))
    assert load_team(path, trusted=["http://evil.example/v1", "HOME"]).name == "t"
