"""Words of the command line mean what was written, and names cannot pass for other keys."""

import re
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import yaml
from omegaconf import OmegaConf

from actors.errors import UserError
from experiments.config.loading import load
from experiments.config.saved import read, save
from experiments.sweeps.expansion import expand
from run import main
from tests.support.paths import ROOT

BASE = "experiment=mmqa_prune"


def value_of(word: str) -> Any:
    value: Any = load([BASE, word])
    for name in word.partition("=")[0].split("."):
        value = value.get(name) if isinstance(value, dict) else getattr(value, name)
    return value


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("output=2024_10_01", str(Path("2024_10_01").absolute())),
        ("wandb.project=no", "no"),
        ("output=/tmp/a #b", "/tmp/a #b"),
        ("model.name=1.10", "1.10"),
        ('model.name="x"', "x"),
        ("roles.text_critic.model.name=1.10", "1.10"),
        ("roles.text_critic.instruction=Count points #1 to #3, then say.", "Count points #1 to #3, then say."),
        ("roles.text_critic.instruction=!!binary aGk=", "!!binary aGk="),
        ("wandb.group=null", None),
        ("cache=null", str(Path("runs/cache").absolute())),
        ("output=~/runs", str(Path.home() / "runs")),
        ("data.root=~/x", str(Path.home() / "x")),
        ('output="~/runs"', str(Path("~/runs").absolute())),
        ("wandb.project=\U0001f600 no", "\U0001f600 no"),
        ("roles.text_critic.instruction=\U00020000", "\U00020000"),
        ("methods=[single, no]", ["single", "no"]),
        ("model.engine.revision=0123456", "0123456"),
        ("model.engine.gpu_memory_utilization=0.90", 0.9),
        ("figures.kind=no", False),
        ("sweep.axes.model.name=[1.10, 1.2]", ["1.10", "1.2"]),
        ("sweep.axes.model.kind=[no, vllm]", ["no", "vllm"]),
        ("sweep.axes.data.limit=[1_000,null]", ["1_000", None]),
        ("retrieval.web=none", "none"),
        ("data.limit=1_000", 1000),
        ("learner.learning_rate=1e-05", 1e-05),
    ],
)
def test_a_value_is_what_was_written(word: str, expected: object) -> None:
    assert value_of(word) == expected


def test_figures_alone_are_short_for_whether_they_are_drawn(tmp_path: Path) -> None:
    assert [value_of(f"figures={word}").kind for word in ("true", "no", "null")] == [True, False, None]
    # Versions before 0.4.0 had no group of that name.
    path = tmp_path / "config.yaml"
    save(load([BASE]), path)
    tree = yaml.safe_load(path.read_text())
    for saved in (None, True):
        path.write_text(yaml.safe_dump({**tree, "version": "0.3.0", "figures": saved}))
        assert (read(path).figures.kind, read(path).figures.style) == (saved, "")


@pytest.mark.parametrize(
    "word",
    [
        *(
            "seed=010",
            "data.limit=1:30",
            "data.limit=10 #20",
            "seed=???",
            "roles.text_critic.instruction=???",
            "seed=0x10",
            "figures=2",
        ),
        *("methods=!!omap [a: single]", "learner.epsilon=010.5", "roles.a/b.agent=x", "roles.text_.agent=x"),
    ],
)
def test_what_yaml_would_take_for_something_else_is_refused(word: str) -> None:
    with pytest.raises(UserError, match=re.escape(word.partition("=")[0].removesuffix(".agent"))):
        load([BASE, word])


@pytest.mark.parametrize("inside", ["group", "dotted key"])
def test_text_of_a_preset_keeps_its_characters(inside: str, tmp_path: Path) -> None:
    texts = "output: 2024_10_01", "wandb: {project: no}", "model: {name: 1.10}", "cache: 12:30", "methods: [single, no]"
    dotted = "output: 2024_10_01", "wandb.project: no", "model.name: 1.10", "cache: 12:30", "methods: [single, no]"
    preset = tmp_path / "mine.yaml"
    text = "\n".join(texts if inside == "group" else dotted)
    preset.write_text(f"{text}\nseed: 010")
    with pytest.raises(UserError, match=r"\bseed=010: "):
        load([f"experiment={preset}"])
    preset.write_text(text)
    config = load([f"experiment={preset}"])
    places = [str(Path(name).absolute()) for name in ("2024_10_01", "12:30")]
    assert (config.output, config.cache, config.methods) == (*places, ["single", "no"])
    assert (config.wandb.project, config.model.name) == ("no", "1.10")
    save(config, tmp_path / "config.yaml")
    assert read(tmp_path / "config.yaml") == config


def test_a_saved_configuration_holds_the_same_for_omegaconf_itself(tmp_path: Path) -> None:
    extra = 'model.extra={"a": "1_000", "b": "tRue", "c": "12:30", "d": "1e5", "e": 1e-7, "f": "", "g": "no", "y": "="}'
    words = ["output=2024_10_01", "model.name=1.10", 'model.dtype="~/x"', "learner.noise=squared", extra]
    config = load([BASE, *words])
    save(config, tmp_path / "config.yaml")
    assert read(tmp_path / "config.yaml") == config
    saved = OmegaConf.to_container(OmegaConf.load(tmp_path / "config.yaml"))
    assert isinstance(saved, dict)
    assert saved.pop("version")
    assert saved == asdict(config)


@pytest.mark.parametrize("lines", ["topology: {rounds: 3}\ntopology.rounds: 4", "methods: [a]\nmethods.0: b"])
def test_a_dotted_key_of_a_preset_takes_the_place_of_nothing(lines: str, tmp_path: Path) -> None:
    preset = tmp_path / "mine.yaml"
    preset.write_text(lines)
    with pytest.raises(UserError, match=r"topology\.rounds is there twice|'methods\.0'"):
        load([f"experiment={preset}"])


def test_a_group_in_the_place_of_a_list_is_refused() -> None:
    with pytest.raises(UserError, match=r"model\.extra\.a"):
        load([BASE, "model.extra.a=[1]", "model.extra.a={b: 1}"])


def test_a_preset_of_more_values_than_a_sweep_needs_is_refused_at_once(tmp_path: Path) -> None:
    preset = tmp_path / "mine.yaml"
    preset.write_text(f"methods: [{'a,' * 150_000}]")
    with pytest.raises(UserError, match=r"mine\.yaml .*\d,\d{3}"):
        load([f"experiment={preset}"])


def test_a_preset_resumes_no_folder(tmp_path: Path) -> None:
    preset = tmp_path / "mine.yaml"
    preset.write_text(f"seed: 5\nresume: {tmp_path}\n")
    with pytest.raises(UserError, match=r"\bresume "):
        load([f"experiment={preset}"])


@pytest.mark.parametrize(
    "axis",
    [
        'sweep.points=[{"attack[kind]": "this:s"}]',
        'sweep.points=[{"[output]": "/elsewhere"}]',
        'sweep.axes={"model[base_url]": ["http://there.example/v1"]}',
        "sweep.axes.seed.x=[1]",
    ],
)
def test_a_key_of_a_sweep_that_omegaconf_would_read_as_another_is_refused(axis: str) -> None:
    with pytest.raises(UserError, match=r"is no key; write dotted keys|seed is not an axis"):
        expand(load([BASE, axis]))


def test_seeds_of_a_sweep_that_are_too_large_are_said_at_its_start() -> None:
    with pytest.raises(UserError, match=r"9223372036854775808.*\bseed="):
        expand(load([BASE, "seed=9223372036854775807", "sweep.seeds=2"]))


@pytest.mark.parametrize("setting", ["agent: this:s", "model: {kind: openai, base_url: http://there.example/v1}"])
def test_a_received_folder_names_nothing_by_a_role_with_a_dot_in_its_name(
    setting: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    save(load([BASE, "roles.text_zed.instruction=hi"]), folder / "config.yaml")
    text = (folder / "config.yaml").read_text()
    key = setting.partition(":")[0]
    lines = [
        f"    {setting}" if line.startswith(f"    {key}:") else line
        for line in text.replace("text_zed:", "text_z.d:").splitlines()
    ]
    (folder / "config.yaml").write_text("\n".join(lines) + "\n")
    assert main([f"resume={folder}"]) == 2
    assert "roles.text_z.d" in capsys.readouterr().err


def test_a_word_that_is_refused_waits_for_no_library_that_only_runs_need() -> None:
    code = (
        "import sys, run\n"
        "assert run.main(['experiment=mmqa_prune', 'no.such.key=1']) == 2\n"
        "print({'torch', 'ray', 'lancedb', 'matplotlib', 'openpyxl', 'wandb'} & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
