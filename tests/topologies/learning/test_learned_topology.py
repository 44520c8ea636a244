"""A learned method answers along one graph, or along graphs that are drawn anew for each question."""

from typing import get_args

import pytest

from actors.messages import Question
from actors.runtime.inline import Local
from tests.topologies.test_discussion import Recording
from topologies.learning.learned_topology import Inference, LearnedTopology
from topologies.learning.learner import Learner
from topologies.learning.learner_settings import PruningSettings


async def test_m3prune_answers_along_one_wiring_or_a_sampled_one() -> None:
    names = [f"a{number}" for number in range(9)]
    wirings = []
    for inference in get_args(Inference):
        learner = Learner(["text"] * 5 + ["visual"] * 4, pruning=PruningSettings(steps=6))
        topology = LearnedTopology("m3prune", names, Local(learner), inference)
        with pytest.raises(RuntimeError, match="freeze"):
            _ = topology.common
        await topology.freeze()
        traces = [await topology.answer(Question(f"q{n}", "?"), Recording().ask, seed=1) for n in range(2)]
        wirings.append([trace.spatial for trace in traces])
    deterministic, sampled = wirings
    assert deterministic[0] == deterministic[1]
    assert sampled[0] != sampled[1]
