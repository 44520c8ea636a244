"""A setting that nothing of a run goes by is refused at its start, in one line that says what would go by it."""

from __future__ import annotations

import asyncio
import re
import shlex
from dataclasses import fields
from pathlib import Path

import pytest

from actors.backends.backends import BACKENDS
from actors.backends.model_settings import ModelSettings
from actors.errors import UserError
from experiments.attacks.attack import ATTACKS
from experiments.attacks.kind import AttackSettings
from experiments.config.config import is_sweep
from experiments.config.loading import experiments, load, said, varying
from experiments.conformance.methods import MethodInWorld
from experiments.conformance.scripted import improvised, sample_world
from experiments.datasets.catalogue import DATASETS
from experiments.datasets.kind import DataSettings
from experiments.running.methods import METHODS
from experiments.running.unused import check_used
from experiments.sweeps.trials import combinations, expand, tell_unused
from tests.support.paths import ROOT
from topologies.method import SystemSettings

PRUNE = "experiment=mmqa_prune"
OPENAI = ["model=openai", "model.name=x", "model.base_url=http://x/v1"]


def notes(*words: str) -> list[str]:
    """What is told of these words; a sweep's trials are those of one seed."""
    config, chosen = load(words), said(words)
    assert chosen is not None
    trials = [(trial.values, trial.config) for trial in expand(config)] if is_sweep(config) else []
    return check_used(chosen, config, trials)


def refusal(*words: str) -> str:
    with pytest.raises(UserError) as refused:
        notes(*words)
    return str(refused.value)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            ["data=scienceqa", "data.root=/x", "data.selection=paper"],
            "data.selection would have no effect: data=scienceqa has no such setting and goes by data.limit, "
            "data.root, data.allow_links, data.split and data.pictures; it is for data=mmqa, or leave it out",
        ),
        (["data.root=/x", "data.allow_links=true"], "data.root, data.allow_links would have no effect: data=sample"),
        (["data=mmqa", "data.root=/x", "data.split=val"], "it is for data=scienceqa"),
        (["model.name=Qwen/Qwen2.5-VL-7B-Instruct"], "it is for model=vllm and model=openai"),
        (["model=vllm", "model.name=x", "model.base_url=http://x/v1"], "model.base_url would have no effect"),
        (["model=openai", "model.name=x", "model.base_url=http://x/v1", "model.replicas=8"], "model=openai goes by"),
        (["model=reader", "model.abilities.pictures=false"], "model.abilities.pictures"),
        (
            ["model=openai", "model.name=x", "model.base_url=http://x/v1", "reader.error_rate=0"],
            "is the embedded reader",
        ),
        (["judge.name=deepseek-ai/DeepSeek-V3"], "nobody judges (judge=none)"),
        (["judge_rubric=graded"], "nobody judges (judge=none)"),
        (["judge=reader", "judge.base_url=http://x/v1"], "judge.base_url would have no effect: judge=reader goes by"),
        (["roles.text_critic.model.base_url=http://x/v1"], "roles.text_critic.model=reader goes by"),
        (
            [*OPENAI, "roles.text_critic.reader.conformity=0.9"],
            "roles.text_critic.reader.conformity would have no effect: the model of text_critic is openai and not",
        ),
        (["attack.number=2"], "nobody attacks"),
        (["attack=response", "attack.when=train", "methods=[full]"], "so that nobody is ever attacked"),
        (["ablation=no_inter", "methods=[single,full]"], "none of the methods learns a graph"),
        (["attack=response", "attack.share=0.9"], "attack=response does not go by it; it is for attack=tamper"),
        (["attack=response", "attack.agents=[0]", "attack.number=3"], "leave one of the two out"),
        (["attack=tamper", "attack.number=3"], "compromises none but those that attack.agents names"),
        (["retrieval.gleaning=2"], "it is for retrieval.graph=model"),
        (["retrieval.graph=model"], "none of the methods searches a knowledge graph"),
        (["retrieval.web=none"], "none of the methods searches the web"),
        (["retrieval.web_file=x", "methods=[hm_rag]"], "it is for retrieval.web=recorded"),
        (["systems.paths=9"], "none of the methods goes by it; mh_perceptive, mh_offline, mh_dfs and mh_mmkg would"),
        (["methods=[hm_rag]", "systems.epsilon=1"], "bdog would"),
        (["defence.dropped=2"], "agreement and anomaly do"),
        (["redundancy.questions=3"], "that is for job=redundancy"),
        (["methods=[cot]", "sweep.axes.systems.paths=[1,2]"], "sweep: systems.paths would have no effect"),
        (["methods=[full]", "sweep.axes.learner.epsilon=[0.1,0.2]"], "none of the methods learns a graph"),
        (["sweep.parallel=4"], "sweep.parallel would have no effect: this is no sweep"),
        (["sweep.search=random", "sweep.stop=asha"], "sweep.search, sweep.stop would have no effect: this is no sweep"),
        (["sweep.seeds=2", "sweep.samples=5"], "it is for sweep.search=random"),
        (["sweep.seeds=2", "sweep.grace=3"], "it is for sweep.stop=asha"),
        (["sweep.axes.data.task=[informative,damage]"], "sweep: data.task would have no effect"),
    ],
)
def test_a_setting_without_effect_is_refused_with_what_would_go_by_it(words: list[str], says: str) -> None:
    assert says in refusal(PRUNE, *words)


@pytest.mark.parametrize(
    "words",
    [
        *(["experiment=planted", word] for word in ("data.limit=5", "topology.rounds=4", "methods=[full]")),
        *(["experiment=planted", word] for word in ("ablation=no_inter", "agents.max_tokens=99")),
        *(["experiment=recall", word] for word in ("systems.paths=2", "topology.rounds=4", "agents.max_tokens=99")),
        *(["experiment=behaviour", word] for word in ("topology.rounds=4", "learner.epsilon=0.2", "ablation=no_inter")),
    ],
)
def test_a_job_without_discussions_is_told_what_it_passes_over(words: list[str]) -> None:
    assert "does not go by" in refusal(*words)


def test_recall_searches_by_no_graph() -> None:
    assert "neither the web nor a knowledge graph" in refusal("experiment=recall", "retrieval.graph=model")


@pytest.mark.parametrize(
    "words",
    [
        ["data=mmqa", "data.root=/x", "data.selection=paper", "data.allow_links=true"],
        ["data=scienceqa", "data.root=/x", "data.selection=all"],
        ["attack=sleeper", "attack.from_round=1", "attack.agents=[0]"],
        ["judge=reader", "judge.replicas=2", "judge_rubric=graded"],
        ["model=vllm", "model.name=x", "model.engine.seed=1", "judge=reader", "reader.error_rate=0"],
        ["methods=[mine.second_opinion:SecondOpinion]", "systems.paths=2", "retrieval.web=none"],
        ["model=mine.parrot:Parrot", "model.name=x", "model.extra.word=Oslo"],
        ["pruning.steps=3", "methods=[full]"],
        ["sweep.seeds=2", "sweep.stop=asha", "sweep.grace=3", "sweep.parallel=4"],
        [*OPENAI, "roles.text_critic.model=reader", "roles.text_critic.reader.conformity=0.9"],
        ["attack=response", "attack.when=train", "methods=[anomaly]"],
        ["ablation=no_inter", "methods=[single,m3prune]"],
        ["ablation=dummy_text", "methods=[full]"],
    ],
)
def test_what_is_gone_by_is_not_refused(words: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "second_opinion.py").write_text(
        "class SecondOpinion:\n    def __init__(self, context):\n        self.method = context.method\n"
    )
    (tmp_path / "mine" / "parrot.py").write_text("class Parrot:\n    pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert notes(PRUNE, *words) == []


def test_what_a_preset_says_of_another_data_set_or_method_is_left_behind(tmp_path: Path) -> None:
    # BDoG's presets ask for questions with pictures, and say how MMBench is run.
    assert notes("experiment=bdog_rounds", "data.kind=mmbench", "data.root=/x") == []
    own = tmp_path / "mine.yaml"
    own.write_text("# Mine\ndata: {kind: scienceqa, root: /x, split: val}\nmethods: [mh_mmkg]\nsystems: {paths: 2}\n")
    assert notes(f"experiment={own}", "data=tatqa", "methods=[single]") == []
    own.write_text("# Mine\ndata: {kind: tatqa, root: /x, split: val}\n")
    assert "data.split would have no effect" in refusal(f"experiment={own}")


def test_what_is_without_effect_in_a_part_of_a_sweep_is_told_of(capsys: pytest.CaptureFixture[str]) -> None:
    points = "sweep.points=[{data.kind: mmqa, data.root: /x}, {data.kind: scienceqa, data.root: /x}]"
    [note] = notes(PRUNE, points, "data.selection=paper")
    assert note.startswith("data.selection has no effect in 1 of 2 settings of the sweep: data=scienceqa has no such")
    words = [PRUNE, "methods=[omnisearch,single]", "attack.number=1", "attack.share=0.2", "sweep.seeds=2"]
    config = load([*words, "sweep.axes.attack.kind=[none,tamper]"])
    tell_unused(said([*words, "sweep.axes.attack.kind=[none,tamper]"]), config, expand(config))
    assert capsys.readouterr().out.startswith(
        "note: attack.share has no effect in 1 of 2 settings of the sweep: nobody"
    )


def test_no_preset_is_refused() -> None:
    for name in experiments():
        words = [f"experiment={name}"]
        config, chosen = load(words), said(words)
        assert chosen is not None
        # A few settings of each sweep: to make all of them takes minutes.
        settings = combinations(config.sweep, 0) if is_sweep(config) else []
        varied = varying(config)
        some = [(values, varied(values)) for values in settings[:: 1 + len(settings) // 6]]
        assert check_used(chosen, config, some) == [], name


def test_no_example_of_the_readme_is_refused() -> None:
    lines = re.findall(r"^ {4}python run\.py (experiment=.*)$", (ROOT / "README.md").read_text(), re.MULTILINE)
    examples = [shlex.split(line) for line in lines if not re.search(r"<|\.\.\.|my_package|mine[./]|path/to", line)]
    assert len(examples) > 25
    for words in examples:
        config, chosen = load(words), said(words)
        assert chosen is not None
        assert is_sweep(config) or check_used(chosen, config) == [], words


class Watched(SystemSettings):
    """Settings that note which of them are asked for."""

    def __getattribute__(self, name: str) -> object:
        if name in SystemSettings.__dataclass_fields__:
            object.__getattribute__(self, "__dict__").setdefault("asked", set()).add(name)
        return object.__getattribute__(self, name)


@pytest.mark.slow
def test_a_method_goes_by_no_setting_that_it_does_not_state(tmp_path: Path) -> None:
    world = sample_world(tmp_path)
    for method in METHODS:
        for settings in (Watched(), Watched(epsilon=None, context="retrieved")):
            config = load(["experiment=sp"])
            config.systems = settings
            asyncio.run(MethodInWorld(method, config, world).observe(improvised(3)))
            assert settings.__dict__.get("asked", set()) <= set(method.reads), method.name


def test_every_setting_is_gone_by_somewhere() -> None:
    """A name that nothing reads, or that is misspelt where it is stated, would refuse what has an effect."""
    for stated, settings, everywhere in (
        ({name for method in METHODS for name in method.reads}, SystemSettings, set()),
        ({name for kind in DATASETS for name in kind.reads}, DataSettings, {"kind", "limit"}),
        ({name for kind in ATTACKS for name in kind.reads}, AttackSettings, {"kind", "agents", "number", "when"}),
        ({name for kind in BACKENDS for name in kind.reads} - {"key"}, ModelSettings, {"kind"}),
    ):
        assert stated | everywhere == {f.name for f in fields(settings)}
