"""Which scores a learner gets of a discussion."""

from types import SimpleNamespace
from typing import Any

from actors.messages import Message, Status, Trace
from experiments.config.loading import load
from experiments.datasets.item import Score
from experiments.jobs import plan_of
from experiments.running.recorded_learner import score_step
from tests.support.fake_run import item


def test_an_agent_whose_form_has_no_answer_has_no_score_and_is_not_wrong() -> None:
    words = ["roles.file=paper", "topology.text=[critic,knowledge_expert]", "topology.visual=[]", "topology.rounds=1"]
    config = load(["experiment=mmqa_prune", *words])
    plan = plan_of(config)
    roles = plan.roles.team
    turns = tuple(Message(f"1/{role.name}", role.name, 1, answer="yes" if role.answers else None) for role in roles)
    trace = Trace("q", "m3prune", 0, tuple(role.name for role in roles), turns, "yes", Status.OK, 0)
    dataset: Any = SimpleNamespace(score=lambda item, answer: Score(float(answer == "yes"), 0.0))
    # A learner knows no missing score: 0 in every discussion alike tells nothing.
    assert score_step(plan, dataset, [item(0)], [trace]).turns.tolist() == [[[1.0, 0.0]]]
