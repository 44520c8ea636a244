"""A setting without effect in a run is refused at its start; fields declare when they count."""

import re
import shlex
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest

from actors.errors import UserError
from experiments.attacks.arguing import Contagion
from experiments.config.keys import declared, paths
from experiments.config.loading import Overrides, experiments, load, load_overrides, varied
from experiments.jobs import plan_of
from experiments.planning.plan import Plan
from experiments.sweeps.expansion import combinations, expand, plan_sweep
from experiments.unused import FACTS, PARTS, Varied, check_used, conditions
from tests.support.paths import ROOT

PRUNE = "experiment=mmqa_prune"
OPENAI = ["model=openai", "model.name=x", "model.base_url=http://x/v1"]
DATA = ["data=mmqa", "data.root=/x"]


def notes(*arguments: str) -> list[str]:
    """The notes on these arguments; trials of a sweep are those of one seed."""
    config, overrides = load_overrides(arguments)
    assert overrides is not None
    if not config.is_sweep:
        return noted(overrides, plan_of(config))
    trials = expand(config)
    return noted(overrides, replace(trials[0].plan, config=config), [(trial.values, trial.plan) for trial in trials])


def noted(overrides: Overrides, plan: Plan, trials: Sequence[Varied] = ()) -> list[str]:
    with redirect_stdout(StringIO()) as output:
        check_used(overrides, plan, trials)
    return [line.removeprefix("note: ") for line in output.getvalue().splitlines()]


@pytest.mark.parametrize(
    ("arguments", "key"),
    [
        (["data=scienceqa", "data.root=/x", "data.selection=paper"], "data.selection"),
        (["data.root=/x", "data.allow_links=true"], "data.root"),
        (["model.name=Qwen/Qwen2.5-VL-7B-Instruct"], "model.name"),
        (["model.abilities.pictures=false"], "model.abilities.pictures"),
        ([*OPENAI, "reader.error_rate=0"], "reader.error_rate"),
        (["judge_rubric=graded"], "judge_rubric"),
        (["roles.text_critic.model.base_url=http://x/v1"], "roles.text_critic.model.base_url"),
        (["attack.number=2"], "attack.number"),
        (["attack=response", "attack.agents=[0]", "attack.number=3"], "attack.number"),
        (["retrieval.graph=model"], "retrieval.graph"),
        (["retrieval.web_file=x", "methods=[hm_rag]"], "retrieval.web_file"),
        (["systems.paths=9"], "systems.paths"),
        (["roles.text_critc.instruction=hi"], "roles.text_critc.instruction"),
        (["methods=[hm_rag_vector]", "systems.consistency=majority"], "systems.consistency"),
        (["defence.dropped=2"], "defence.dropped"),
        (["methods=[full,effects]", "training.samples=20"], "training.samples"),
        (["methods=[cot]", "sweep.axes.systems.paths=[1,2]"], "sweep: systems.paths"),
        (["sweep.axes.data.task=[informative,damage]"], "sweep: data.task"),
        (["redundancy.questions=3"], "redundancy.questions"),
        (["sweep.parallel=4"], "sweep.parallel"),
        (["sweep.search=random", "sweep.stop=asha"], "sweep.search"),
        (["sweep.seeds=2", "sweep.samples=5"], "sweep.samples"),
        *(
            (["experiment=planted", f"{key}={value}"], key)
            for key, value in (("data.limit", 5), ("topology.rounds", 4))
        ),
        *(
            (["experiment=recall", f"{key}={value}"], key)
            for key, value in (("systems.paths", 2), ("agents.retries", 9))
        ),
        *(
            (["experiment=behaviour", f"{key}={value}"], key)
            for key, value in (("ablation", "no_inter"), ("learner.epsilon", 2))
        ),
    ],
)
def test_a_setting_without_effect_is_refused_by_its_key(arguments: list[str], key: str) -> None:
    with pytest.raises(UserError, match=rf"^(.*, )?{re.escape(key)}(,.*)? would have no effect: .") as refused:
        notes(*arguments) if arguments[0].startswith("experiment=") else notes(PRUNE, *arguments)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "arguments",
    [
        ["roles.file=paper"],
        ["roles.text_mine.instruction=hi", "topology.text=[critic,mine]"],
        [*DATA, "data.selection=paper", "data.allow_links=true"],
        ["data=scienceqa", "data.root=/x", "data.selection=all"],  # at its default
        ["attack=sleeper", "attack.from_round=1", "attack.agents=[0]"],
        ["judge=reader", "judge.replicas=2", "judge_rubric=graded"],
        ["model=vllm", "model.name=x", "model.engine.seed=1", "judge=reader", "reader.error_rate=0"],
        ["pruning.steps=3", "methods=[full]"],
        ["training.samples=20", "methods=[m3prune,effects]"],
        ["sweep.seeds=2", "sweep.stop=asha", "sweep.grace=3", "sweep.parallel=4"],
        [*OPENAI, "roles.text_critic.model=reader", "roles.text_critic.reader.conformity=0.9"],
        ["attack=response", "attack.when=train", "methods=[anomaly]"],
        ["ablation=no_inter", "methods=[single,m3prune]"],
        ["ablation=dummy_text", "methods=[full]"],
    ],
)
def test_a_setting_with_an_effect_is_not_refused(arguments: list[str]) -> None:
    assert notes(PRUNE, *arguments) == []


@pytest.mark.parametrize("arguments", [["ablation=no_inter"], ["attack=response", "attack.when=train"]])
def test_what_only_learning_goes_through_is_refused_where_nothing_learns(arguments: list[str]) -> None:
    with pytest.raises(UserError, match=re.escape(arguments[-1].partition("=")[0])):
        plan_of(load([PRUNE, "methods=[full]", *arguments]))


def test_a_preset_s_setting_may_lose_its_effect_by_the_command_line(tmp_path: Path) -> None:
    # BDoG's presets ask for questions with pictures, which MMBench has only.
    assert notes("experiment=bdog_rounds", "data.kind=mmbench", "data.root=/x") == []
    own = tmp_path / "mine.yaml"
    own.write_text("# Mine\ndata: {kind: scienceqa, root: /x, split: val}\nmethods: [mh_mmkg]\nsystems: {paths: 2}\n")
    lost = notes(f"experiment={own}", "data.kind=tatqa", "methods=[single]")
    assert [note.split()[0] for note in lost] == ["data.split", "systems.paths"]
    own.write_text("# Mine\ndata: {kind: tatqa, root: /x, split: val}\n")
    with pytest.raises(UserError, match=r"\bdata\.split "):
        notes(f"experiment={own}")


def test_a_setting_without_effect_in_a_part_of_a_sweep_is_noted(capsys: pytest.CaptureFixture[str]) -> None:
    points = "sweep.points=[{data.kind: mmqa, data.root: /x}, {data.kind: scienceqa, data.root: /x}]"
    [note] = notes(PRUNE, points, "data.selection=paper")
    assert note.startswith("data.selection has no effect in 1 of 2 settings ")
    arguments = [PRUNE, "methods=[omnisearch,single]", "attack.share=0.2", "sweep.axes.attack.kind=[none,tamper]"]
    config, overrides = load_overrides(arguments)
    plan_sweep(config, overrides)
    assert capsys.readouterr().out.startswith("note: attack.share ")


def test_every_preset_says_in_one_line_what_it_is_and_none_is_refused() -> None:
    for name, description in experiments().items():
        assert 20 < len(description) < 120
        config, overrides = load_overrides([f"experiment={name}"])
        assert config.experiment == name
        assert overrides is not None
        # A few settings of each sweep: to make all of them takes minutes.
        settings = combinations(config.sweep, 0) if config.is_sweep else []
        some = [(values, plan_of(varied(config, values))) for values in settings[:: 1 + len(settings) // 2]]
        assert noted(overrides, replace(some[0][1] if some else plan_of(config), config=config), some) == [], name


def test_no_example_of_the_readme_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    lines = [
        line for page in pages for line in re.findall(r"^ {4}python run\.py (experiment=.*)$", page.read_text(), re.M)
    ]
    examples = [shlex.split(line) for line in lines if not re.search(r"<|\.\.\.|my_package|mine[./]|path/to", line)]
    assert len(examples) > 25
    for arguments in examples:
        config, overrides = load_overrides(arguments)
        assert overrides is not None
        for name in filter(None, (config.model.key_env, config.judge.get("key_env"))):
            monkeypatch.setenv(name, "a-key")
        assert config.is_sweep or noted(overrides, plan_of(config)) == [], arguments


def test_each_part_of_the_project_names_settings_alone() -> None:
    for named_by, parts in PARTS.items():
        for part in parts:
            assert [key for key in part.reads if declared(key) is None] == [], (named_by, part.name)


@pytest.mark.parametrize(
    ("words", "key"),
    [
        (["attack=mine.parts:Bribe", "attack.share=0.9"], "attack.share"),
        (["data=mine.parts:load", "data.split=val"], "data.split"),
        (["model=mine.parts:Parrot", "model.timeout_s=9"], "model.timeout_s"),
        (["methods=[mine.parts:Asks]", "systems.paths=2"], "systems.paths"),
        (["methods=[mine.parts:Asks]", "retrieval.web=none"], "retrieval.web"),
    ],
)
def test_parts_of_others_are_held_to_what_they_declare(
    words: list[str], key: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "parts.py").write_text(PARTS_OF_OTHERS)
    monkeypatch.syspath_prepend(tmp_path)
    for module in ("mine", "mine.parts"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    with pytest.raises(UserError, match=re.escape(f"{key} would have no effect: ")):
        notes(PRUNE, *words)
    declared_words = [
        "attack=mine.parts:Bribe",
        "attack.phrasing=authority",
        "attack.number=2",
        "data=mine.parts:load",
        "data.root=/x",
        "data.task=damage",
        "model=mine.parts:Parrot",
        "model.extra.word=Oslo",
        "methods=[mine.parts:Asks]",
        "systems.rounds=2",
    ]
    assert notes(PRUNE, *declared_words) == []


PARTS_OF_OTHERS = """
from experiments.attacks.kind import AttackKind

class Bribe(AttackKind):
    name = "bribe"
    reads = (*AttackKind.reads, "attack.phrasing")

def load(request): ...
load.reads = ("data.root", "data.task")

class Parrot:
    reads = ("model.extra",)

class Asks:
    reads = ("systems.rounds",)
    def __init__(self, context):
        self.method = context.method
"""


def test_a_part_that_names_no_setting_is_told_the_nearest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Contagion, "reads", ("attack.phrasng",))
    with pytest.raises(UserError, match=r"^attack=contagion: .*'attack\.phrasng'.*'attack\.phrasing'"):
        notes(PRUNE, "attack=contagion")


def test_every_condition_names_a_fact_or_a_sibling() -> None:
    """A misspelt condition would refuse a setting that has an effect."""
    for key in paths():
        for condition in conditions(key):
            name, equals, values = condition.partition("=")
            sibling = f"{key.rpartition('.')[0]}.{name.removesuffix('!')}"
            assert (declared(sibling) and values) if equals else condition in FACTS, key
