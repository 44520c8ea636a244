"""Systems as runs: launched with their own agents, planned without a model, replayed, attacked."""

import json
from itertools import permutations
from pathlib import Path

import pytest

from experiments.config.config import Config
from experiments.config.loading import load
from experiments.dry_run.counting import count_run
from experiments.jobs import plan_of
from experiments.planning.topologies import compared_pairs
from experiments.records import usage
from experiments.records.recorder import RunFolder
from tests.support.topologies import SYSTEMS
from topologies.catalogue import find_methods


def test_a_run_of_systems_launches_no_team_and_only_their_agents() -> None:
    config = load(["experiment=mad"])
    names = [role.name for role in plan_of(config).roles.launched]
    assert names == ["single", "solo", *(role.name for role in SYSTEMS["mad"].roles)]
    with_team = load(["experiment=mad", "methods=[full,sp,mad]"])
    assert len(plan_of(with_team).roles.launched) == len(names) + 10


def test_what_is_named_last_is_tested_against_the_others_where_nothing_is_learned() -> None:
    methods = find_methods(Config(methods=["sp", "cot", "mad"]).methods)
    assert compared_pairs(methods) == (("mad", "sp"), ("mad", "cot"))
    assert not any(method.asks_team for method in find_methods(Config(methods=["sp", "single", "mad"]).methods))


def test_every_learned_method_is_tested_against_all_others_in_any_order() -> None:
    names = ["closed_book", "single", "full", "effects", "m3prune"]
    rivals = {(ours, rival) for ours in ("effects", "m3prune") for rival in ("single", "full")}
    for order in permutations(names):
        pairs = compared_pairs(find_methods(order))
        assert len(pairs) == 5
        assert rivals < set(pairs)


def test_the_agents_of_systems_can_be_compromised_where_no_team_is_asked() -> None:
    config = load(["experiment=mad"])
    assert plan_of(config).roles.attackable == ("single", "solo", *(role.name for role in SYSTEMS["mad"].roles))


def test_a_dry_run_estimates_what_a_system_would_take(tmp_path: Path) -> None:
    plan = count_run(plan_of(load(["experiment=cot", "data.limit=5", f"output={tmp_path}"])))
    assert [(phase.name, phase.turns, phase.exact) for phase in plan.phases] == [
        ("evaluating sp", 5, False),
        ("evaluating cot", 5, False),
    ]


@pytest.mark.ray
def test_a_system_runs_over_ray_is_replayed_to_the_same_traces_and_can_be_attacked(tmp_path: Path) -> None:
    from run import main

    words = ["experiment=mmapg", "methods=[mmapg]", "data.limit=2", f"output={tmp_path}"]
    words += ["wandb.mode=disabled", "figures=false"]
    assert main(words) == 0
    [first] = tmp_path.glob("*-mmapg*")
    words += ["runtime=inline"]
    assert main([*words, "model=replay", f"replay.run={first}"]) == 0
    [second] = set(tmp_path.glob("*-mmapg*")) - {first}
    traces = [(run / "traces" / "evaluate-mmapg.jsonl").read_bytes() for run in (first, second)]
    assert traces[0] == traces[1]
    assert json.loads(traces[0].splitlines()[0])["lookups"]
    assert main([*words, "attack=response", "attack.agents=[single]"]) == 0
    [third] = set(tmp_path.glob("*-mmapg*")) - {first, second}
    assert "attack_success" in json.loads((third / "metrics.json").read_text())["methods"]["mmapg"]


@pytest.mark.slow
def test_what_the_model_extracts_is_a_phase_of_its_own_and_later_runs_find_it(tmp_path: Path) -> None:
    from run import main

    words = ["experiment=hm_rag", "methods=[hm_rag_graph]", "data.limit=2", "wandb.mode=disabled", f"output={tmp_path}"]
    words += ["retrieval.graph=model", "retrieval.captions=model", "figures=false", "runtime=inline"]
    assert main(words) == 0
    [first] = tmp_path.glob("*-hm_rag")
    phases = usage.by_phase(RunFolder(first))
    assert list(phases) == ["writing captions", "extracting triples", "evaluating hm_rag_graph"]
    assert phases["writing captions"].agents.keys() == {"captioner"}
    # A replay has no model: it finds what the recorded run kept, or says where to look.
    assert main([*words, "model=replay", f"replay.run={first}"]) == 0
    [again] = set(tmp_path.glob("*-hm_rag")) - {first}
    assert (again / "scores.jsonl").read_bytes() == (first / "scores.jsonl").read_bytes()
    assert list(usage.by_phase(RunFolder(again))) == ["evaluating hm_rag_graph"]
    assert main([*words, "model=replay", f"replay.run={first}", f"cache={tmp_path / 'elsewhere'}"]) == 2
