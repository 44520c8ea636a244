"""Which trials a sweep has, and what it writes of them: nothing here starts a process."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from actors.errors import UserError
from experiments.analysis.result_table import short_keys
from experiments.config.config import Config
from experiments.config.loading import experiments, load
from experiments.jobs import plan_of
from experiments.planning.plan import Plan
from experiments.records.recorder import RunFolder
from experiments.records.trials import RESULTS, TRIALS, TrialResult, read_results, results_written
from experiments.sweeps.expansion import Trial, expand, groups, plan_sweep
from experiments.sweeps.sweep import run_sweep
from experiments.sweeps.trial_folders import add_trials_run_alone
from run import main
from tests.support.sessions import run_folder
from tests.support.topologies import SYSTEMS as PAPERS
from tests.support.words import joined

pytestmark = pytest.mark.slow

SWEEPS = {
    "mmqa_attack": 39,
    "attack_matrix": 17,
    "table8": 15,
    "pruning_rates": 32,
    "table3": 15,
    "hm_rag_crisismmd": 9,
}


def trials(*words: str) -> list[Trial]:
    return expand(load(["experiment=mmqa_prune", *words]))


def test_every_combination_is_tried_once_for_every_seed() -> None:
    found = trials("sweep.axes.topology.rounds=[2,4,8]", "sweep.axes.pruning.rate=[0.1,0.3,0.5]", "sweep.seeds=5")
    assert len(found) == 45
    assert len({(str(trial.values), trial.seed) for trial in found}) == 45
    assert found[7].name == "0007-rounds=2,rate=0.3,seed=2"
    assert (found[7].config.topology.rounds, found[7].config.pruning.rate, found[7].config.seed) == (2, 0.3, 2)


def test_a_trial_is_a_run_and_no_sweep() -> None:
    assert not load(["experiment=mmqa_prune"]).is_sweep
    assert load(["experiment=mmqa_prune", "sweep.seeds=2"]).is_sweep
    assert not any(trial.config.is_sweep for trial in trials("sweep.seeds=2"))


def test_settings_that_go_together_are_combined_with_the_axes_and_not_with_each_other() -> None:
    found = trials(
        "sweep.points=[{attack.kind: none}, {attack.kind: input, attack.agents: [3]}]",
        "sweep.axes.topology.rounds=[1,2]",
    )
    told = [(t.config.attack.kind, t.config.attack.agents, t.config.topology.rounds) for t in found]
    assert told == [("none", [], 1), ("none", [], 2), ("input", [3], 1), ("input", [3], 2)]
    assert found[3].name == "0003-kind=input,agents=3,rounds=2,seed=0"


def test_a_value_may_be_a_list_or_a_group() -> None:
    listed = trials("sweep.axes.attack.agents=[[0],[1,2]]")
    assert [trial.config.attack.agents for trial in listed] == [[0], [1, 2]]
    assert [trial.name for trial in listed] == ["0000-agents=0,seed=0", "0001-agents=1+2,seed=0"]
    grouped = trials("sweep.axes.attack=[none, {kind: response, agents: [1]}]")
    assert [(t.config.attack.kind, t.config.attack.agents) for t in grouped] == [("none", []), ("response", [1])]
    assert grouped[0].name == "0000-attack=none,seed=0"
    # By the settings' whole keys, by which figures and tests find what is attacked.
    assert [t.values for t in grouped] == [{"attack.kind": "none"}, {"attack.kind": "response", "attack.agents": [1]}]


def test_keys_that_end_alike_are_told_apart() -> None:
    assert short_keys(["pruning.rate", "learner.rate", "topology.rounds"]) == {
        "pruning.rate": "pruning.rate",
        "learner.rate": "learner.rate",
        "topology.rounds": "rounds",
    }


def test_a_name_is_fit_for_a_folder() -> None:
    [odd] = trials('sweep.axes.model.name=["a/b: c"]')
    assert odd.name == "0000-name=a_b_c,seed=0"


def test_random_search_draws_different_combinations_by_seed() -> None:
    axes = ["sweep.axes.topology.rounds=[1,2,3,4,5]", "sweep.axes.pruning.rate=[0.1,0.2,0.3,0.4]"]
    drawn = [trial.values for trial in trials(*axes, "sweep.search=random", "sweep.samples=6")]
    assert len(drawn) == 6
    assert len({str(values) for values in drawn}) == 6
    assert drawn == [trial.values for trial in trials(*axes, "sweep.search=random", "sweep.samples=6")]
    assert drawn != [trial.values for trial in trials(*axes, "sweep.search=random", "sweep.samples=6", "seed=1")]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["sweep.axes.topology.rounds=[2,0]"], "0001-rounds=0,seed=0"),
        (["sweep.axes.pruning.rate=[0.1,2]"], "pruning.rate=2"),
        (["sweep.axes.topology.round=[2,4]"], "'topology.rounds'"),
        (["sweep.axes.topology.rounds=4"], "sweep.axes.topology.rounds=4"),
        (["sweep.axes.topology.rounds=[]"], "sweep.axes.topology.rounds=[]"),
        (["sweep.axes.seed=[1,2]"], "sweep.seeds="),
        (["sweep.axes.topology.rounds=['2',2]"], "0000-rounds=2,seed=0"),
        (["sweep.points=[{topology.rounds: 2},{topology.rounds: 2}]"], "0000-rounds=2,seed=0"),
        (["sweep.points=[{},{}]"], "trial 0000-seed=0"),
        (["sweep.axes.runtime=[ray,inline]"], "runtime "),
        (["sweep.axes.output=[a,b]"], "output "),
        (["sweep.axes.methods=[[full],[fulll]]"], "'fulll'"),
        (["sweep.axes.topology.rounds=[1,2]", "sweep.search=random", "sweep.samples=3"], "sweep.samples=<1 to 2>"),
        (["sweep.axes.topology.rounds=[1,2]", "sweep.search=random"], "got None"),
    ],
)
def test_what_cannot_be_run_is_said_in_one_line_before_anything_starts(words: list[str], told: str) -> None:
    with pytest.raises(UserError) as error:
        trials(*words)
    assert told in str(error.value)
    assert "\n" not in str(error.value)


def test_trials_that_learn_nothing_cannot_fall_behind() -> None:
    words = ["sweep.seeds=2", "sweep.stop=asha", "methods=[single]"]
    with pytest.raises(UserError, match=r"^sweep\.stop=asha "):
        plan_sweep(load(["experiment=mmqa_prune", *words]))


@pytest.mark.parametrize(("words", "steps"), [((), 160), (("training.share=true",), 80), (("methods=[effects]",), 80)])
def test_a_trial_has_the_steps_of_all_graphs_that_hold_discussions(words: tuple[str, ...], steps: int) -> None:
    asha = ["sweep.seeds=2", "sweep.stop=asha", "sweep.grace=1000", "methods=[full,m3prune,effects]"]
    with pytest.raises(UserError, match=rf"\b{steps} training steps"):
        plan_sweep(load(joined("experiment=mmqa_prune", *asha, *words)))


def test_only_trials_that_need_the_same_processes_share_them() -> None:
    assert len(groups(trials("sweep.axes.topology.rounds=[1,2]", "sweep.seeds=3"))) == 1
    by_ablation = groups(trials("sweep.axes.ablation=[none,no_inter,dummy_text]"))
    assert [[trial.config.ablation for trial in group] for group in by_ablation] == [
        ["none", "no_inter"],
        ["dummy_text"],
    ]
    assert len(groups(trials("sweep.axes.agents.temperature=[0,1]"))) == 2
    models = "[reader,{kind: openai, name: A, base_url: 'http://a'}]"
    assert len(groups(trials(f"sweep.axes.roles.single.model={models}"))) == 2


@pytest.mark.parametrize("name", SWEEPS)
def test_the_presets_are_sweeps_and_say_how_large(name: str) -> None:
    found = expand(load([f"experiment={name}"]))
    assert len(found) == SWEEPS[name]
    assert f"Sweep of {len(found)} runs" in experiments()[name]


def test_the_paper_s_other_systems_are_attacked_beside_the_team_in_every_agent_that_does_not_decide() -> None:
    attacked: dict[tuple[str, str], list[str]] = {}
    for trial in expand(load(["experiment=mmqa_attack"])):
        for method in trial.config.methods:
            attacked.setdefault((method, trial.config.attack.kind), []).extend(trial.config.attack.agents)
    deciders = {"synthesiser", "light_decider", "expert_decider", "search_planner"}
    for name in ("omnisearch", "vidorag", "hm_rag", "e_agent"):
        agents = {role.name for role in PAPERS[name].roles} - deciders or {"single"}
        assert attacked[name, "none"] == []
        assert set(attacked[name, "input"]) == set(attacked[name, "response"]) == agents
    assert attacked["m3prune", "response"] == attacked["effects", "input"] == list(range(9))


def test_trials_that_were_run_by_themselves_are_results_of_the_sweep(tmp_path: Path) -> None:
    words = ["methods=[single,full]", "data.limit=2", "runtime=inline", "wandb.mode=disabled", "figures=false"]
    words += ["sweep.seeds=3", "sweep.start=false", f"output={tmp_path}"]
    assert main(["experiment=mmqa_prune", *words]) == 0
    folder = run_folder(tmp_path)
    first, second, last = sorted((folder / TRIALS).iterdir())
    assert not (folder / RESULTS).exists()
    for trial in (first, second):
        assert main([f"resume={trial}"]) == 0
    sweep = plan_sweep(load([f"resume={folder}", "sweep.start=true"]))
    with results_written(folder) as add_result:
        finished: set[str] = set()
        add_trials_run_alone(folder, sweep.trials, add_result, finished)
        assert finished == {first.name, second.name}
    assert main([f"resume={last}"]) == 0
    assert run_sweep(sweep, RunFolder(folder))
    assert [result.name for result in read_results(folder)] == [first.name, second.name, last.name]
    assert json.loads((folder / "sweep.json").read_text())


def test_a_trial_that_was_killed_before_its_report_gets_one(tmp_path: Path) -> None:
    words = ["methods=[single]", "data.limit=1", "runtime=inline", "wandb.mode=disabled", "figures=false"]
    words += ["sweep.seeds=2", "sweep.start=false", f"output={tmp_path}"]
    assert main(["experiment=mmqa_prune", *words]) == 0
    folder = run_folder(tmp_path)
    killed, _ = sorted((folder / TRIALS).iterdir())
    assert main([f"resume={killed}"]) == 0
    report = killed / "report.html"
    report.unlink()
    (killed / "agents.jsonl").unlink()
    scores = (killed / "scores.jsonl").read_bytes()

    sweep = plan_sweep(load([f"resume={folder}", "sweep.start=true"]))
    assert run_sweep(sweep, RunFolder(folder))

    assert report.is_file()
    assert (killed / "agents.jsonl").is_file()
    assert (killed / "scores.jsonl").read_bytes() == scores


def result(name: str, **more: Any) -> TrialResult:
    return TrialResult(name, {"topology.rounds": 2}, 0, {"methods": {}}, **more)


def test_a_line_that_a_kill_cut_short_is_written_again(tmp_path: Path) -> None:
    with results_written(tmp_path) as results:
        results(result("0000"))
        results(result("0001", stopped=3, utility=0.5))
    whole = (tmp_path / RESULTS).read_bytes()
    (tmp_path / RESULTS).write_bytes(whole[:-10])
    assert [found.name for found in read_results(tmp_path, stopped=True)] == ["0000"]
    with results_written(tmp_path) as results:
        assert [found.name for found in read_results(tmp_path)] == ["0000"]
        results(result("0001", stopped=3, utility=0.5))
    assert (tmp_path / RESULTS).read_bytes() == whole
    assert [found.name for found in read_results(tmp_path)] == ["0000"], "one that was stopped early has no metrics"


def test_metrics_may_name_the_method_that_another_one_learned_from(tmp_path: Path) -> None:
    def of(source: object) -> TrialResult:
        rows = {"m3prune": {"utility": 0.5}, "effects": {"utility": 0.5, "learned_from": source}}
        return TrialResult("0000", {}, 0, {"methods": rows})

    with results_written(tmp_path) as results:
        results(of("m3prune"))
    assert read_results(tmp_path) == [of("m3prune")]
    for other in ("gptswarm", 3, ["m3prune"], None):
        (tmp_path / RESULTS).write_text(f"{of(other).encode()}\n")
        with pytest.raises(UserError, match=r"methods.effects.learned_from: "):
            read_results(tmp_path)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"name": "../../elsewhere"}, "line 1: "),
        ({"name": "0007-seed=0"}, "'0007-seed=0'"),
        ({"seed": 5}, "has another seed or other values"),
        ({"values": {"topology.rounds": 9}}, "has another seed or other values"),
        ({}, "is there twice"),
    ],
)
def test_a_result_that_is_of_no_trial_of_the_sweep_is_refused(
    change: dict[str, Any], says: str, tmp_path: Path
) -> None:
    config = load(["experiment=mmqa_prune", "sweep.axes.topology.rounds=[2,3]", f"output={tmp_path}"])
    [first, _] = expand(config)
    kept = result(first.name)
    lines = [replace(kept, **change), *([] if change else [kept])]
    (tmp_path / RESULTS).write_text("".join(f"{line.encode()}\n" for line in lines))
    with pytest.raises(UserError, match=re.escape(says)):
        run_sweep(plan_sweep(config), RunFolder(tmp_path))


def test_a_finished_trial_whose_records_are_gone_is_named(tmp_path: Path) -> None:
    config = load(["experiment=mmqa_prune", "sweep.axes.topology.rounds=[2,3]", f"output={tmp_path}"])
    trials = expand(config)
    rows = {"methods": {"full": {"utility": 0.5}}}
    lines = [TrialResult(trial.name, trial.values, trial.seed, rows).encode() for trial in trials]
    (tmp_path / RESULTS).write_text("".join(f"{line}\n" for line in lines))
    with pytest.raises(UserError, match=rf"{re.escape(trials[0].name)} .*\bfull\b"):
        run_sweep(plan_sweep(config), RunFolder(tmp_path))


def test_two_processes_cannot_run_one_sweep(tmp_path: Path) -> None:
    with results_written(tmp_path), pytest.raises(UserError, match=re.escape(str(tmp_path))):
        results_written(tmp_path).__enter__()


def test_a_damaged_line_is_told_of(tmp_path: Path) -> None:
    (tmp_path / RESULTS).write_text(json.dumps({"name": "0000"}) + "\n")
    with pytest.raises(UserError, match=r"trials\.jsonl, line 1: "):
        read_results(tmp_path)


def test_a_combination_is_checked_once_and_each_of_its_seeds_has_a_configuration_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    checked = []

    def counted(config: Config) -> Plan:
        checked.append(config)
        return plan_of(config)

    monkeypatch.setattr("experiments.sweeps.expansion.plan_of", counted)
    found = expand(load(["experiment=mmqa_prune", "sweep.axes.topology.rounds=[1,2]", "sweep.seeds=3", "seed=5"]))
    assert len(checked) == 2
    assert [(trial.config.topology.rounds, trial.config.seed) for trial in found] == [
        (rounds, seed) for rounds in (1, 2) for seed in (5, 6, 7)
    ]
    found[0].config.wandb.group = "mine"
    assert found[1].config.wandb.group != "mine"
