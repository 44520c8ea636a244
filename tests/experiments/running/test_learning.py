"""Which scores a learner gets of a discussion."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

from actors.messages import Message, Status, Trace
from experiments.config.loading import load
from experiments.jobs import plan_of
from experiments.running.training import Training


def test_an_agent_whose_form_has_no_answer_has_no_score_and_is_not_wrong() -> None:
    words = ["roles.file=paper", "topology.text=[critic,knowledge_expert]", "topology.visual=[]", "topology.rounds=1"]
    config = load(["experiment=mmqa_prune", *words])
    roles = plan_of(config).roles.team
    context: Any = SimpleNamespace(config=config, plan=plan_of(config))
    anything: Any = None
    training = Training(context, anything, anything, anything, anything, anything)
    turns = tuple(Message(f"1/{role.name}", role.name, 1, answer="yes" if role.answers else None) for role in roles)
    trace = Trace("q", "m3prune", 0, tuple(role.name for role in roles), turns, "yes", Status.OK, 0)
    [[critic, expert]] = training._turn_scores(lambda answer: float(answer == "yes"), trace)
    assert critic == 1.0
    assert math.isnan(expert)
