"""The tables of an attack matrix: methods by attacks with the worst case, and attacks by costs."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from experiments.analysis.sweep_report import attack_tables
from tests.support.fake_sweep import make_sweep, read_arms

KINDS = ("none", "drop", "collude")


def ability(method: str, values: Any, seed: int) -> float:
    return {"none": 0.8, "drop": 0.6, "collude": 0.2}[values["attack.kind"]] + (0.3 if method == "effects" else 0.0)


def test_a_matrix_has_the_worst_case_of_every_method_and_what_each_attack_costs(tmp_path: Path) -> None:
    settings = [{"attack.kind": kind} for kind in KINDS]
    results = make_sweep(tmp_path, settings, ("full", "effects"), ability, seeds=2)
    costs = {"none": {}, "drop": {"attack_messages": 40.0}, "collude": {"attack_messages": 5.0, "attack_agents": 2.0}}
    for number, result in enumerate(results):
        rows = result.metrics["methods"]
        rows = {method: {**row, **costs[result.values["attack.kind"]]} for method, row in rows.items()}
        results[number] = replace(result, metrics={"methods": rows})
    arms = read_arms(tmp_path, results)
    matrix, costly = attack_tables(arms, results, "EM", 0)
    assert list(matrix.columns) == ["method", *KINDS, "worst case", "by"]
    means = {(arm.method, arm.values["attack.kind"]): arm.mean for arm in arms}
    for method, *cells in matrix.rows:
        assert cells[:3] == [f"{means[method, kind]:.3f}" for kind in KINDS]
        assert cells[3].startswith(cells[2])
        assert cells[4] == "collude"
    assert list(costly.columns) == ["attack", "messages", "agents"]
    assert list(map(tuple, costly.rows)) == [("drop", "40", "-"), ("collude", "5", "2")]


def test_a_sweep_that_varies_more_than_attacks_or_none_has_no_matrix(tmp_path: Path) -> None:
    settings = [{"attack.kind": kind, "attack.share": share} for kind in KINDS for share in (0.1, 0.2)]
    results = make_sweep(tmp_path / "more", settings, ("full",), ability, seeds=1, questions=5)
    assert list(attack_tables(read_arms(tmp_path / "more", results), results, "EM", 0)) == []
    results = make_sweep(tmp_path / "none", [{"attack.kind": "none"}], ("full",), ability, seeds=1, questions=5)
    assert list(attack_tables(read_arms(tmp_path / "none", results), results, "EM", 0)) == []
