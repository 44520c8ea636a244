"""The policy gradient beside AgentPrune's and GPTSwarm's own code.

`records/` holds what the authors' training did at the commits that `steps/` names, with a scripted model. Of each step:
the four wirings that it drew (bits, row by row; AgentPrune's of two rounds, spatial and temporal, GPTSwarm's of one
pass with the column to the decision), their utilities, the logits after it, and of AgentPrune the edges left before.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

from topologies.learning.learner import Learner
from topologies.learning.learner_settings import LearnerSettings, PruningSettings
from topologies.learning.variants import AGENTPRUNE, GPTSWARM, Variant
from topologies.wiring import Bools, Edges, Wirings

RECORDS = Path(__file__).parent / "records"
TOLERANCE = 1e-5  # of single precision after as many steps


def record(name: str) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((RECORDS / f"{name}.json").read_text(encoding="utf-8"))
    return read


def edges(bits: str, agents: int) -> Bools:
    """Bits as matrices [any, sender, receiver]."""
    return flags(bits).reshape(-1, agents, agents)


def flags(bits: str) -> Bools:
    return np.array([bit == "1" for bit in bits])


def drawable(taken: Bools, left: Bools) -> Bools:
    """The edges that a draw row by row comes to: those left that close no cycle with the ones taken before."""
    reached, allowed = np.eye(len(left), dtype=bool), np.zeros_like(left)
    for sender, receiver in np.ndindex(left.shape):
        if left[sender, receiver] and not reached[receiver, sender]:
            allowed[sender, receiver] = True
            if taken[sender, receiver]:
                reached[np.flatnonzero(reached[:, sender])] |= reached[receiver]
    return allowed


def learner(variant: Variant, agents: int, rounds: int, steps: int) -> Learner:
    settings, pruning = LearnerSettings(rank_weight=0), PruningSettings(steps=steps)
    return Learner(["text"] * agents, rounds=rounds, variant=variant, settings=settings, pruning=pruning)


def learn(ours: Learner, step: dict[str, Any], wirings: Wirings) -> None:
    # Each wiring is of another question, as theirs are; turn scores have no part in the gradient.
    scores = np.zeros(wirings.spatial.shape[:3])
    ours.learn(wirings, scores, step["utilities"], groups=np.arange(len(scores)))


def apart(ours: Learner, step: dict[str, Any], kind: str, edge: Bools) -> float:
    """The largest difference of a logit from theirs, of these edges."""
    logits = ours.state()[f"logits.{kind}"][0]
    return float(np.abs(logits - np.reshape(step["logits"][kind], logits.shape))[edge].max())


def test_a_step_of_the_policy_gradient_is_agentprune_s_own() -> None:
    run = record("agentprune")
    n, rounds = run["agents"], run["rounds"]
    ours = learner(AGENTPRUNE, n, rounds, len(run["steps"]))
    for step in run["steps"]:
        left = {kind: edges(bits, n)[0] for kind, bits in step["left"].items()}
        # The cuts are theirs: they cut while they learn.
        state = ours.state()
        for kind, mask in left.items():
            state[f"mask.{kind}"] &= mask
        ours.load(state)
        spatial, temporal = (np.stack([edges(pair[kind], n) for pair in step["wirings"]]) for kind in (0, 1))
        ways = np.stack([[drawable(taken, left["spatial"]) for taken in wiring] for wiring in spatial])
        later = np.broadcast_to(left["temporal"], temporal.shape).copy()
        later[:, 0] = False
        everyone = np.ones((len(spatial), n), dtype=bool)
        order = np.tile(np.arange(n), (len(spatial), rounds, 1))
        learn(ours, step, Wirings(spatial, temporal, Edges(ways, later), order, everyone, everyone))
        # The diagonal is an edge of the temporal matrix only.
        assert apart(ours, step, "spatial", left["spatial"] & ~np.eye(n, dtype=bool)) < TOLERANCE
        assert apart(ours, step, "temporal", left["temporal"]) < TOLERANCE


def test_a_step_of_the_policy_gradient_is_gptswarm_s_own() -> None:
    run = record("gptswarm")
    n = run["agents"]
    ours = learner(GPTSWARM, n, 1, len(run["steps"]))
    others = ~np.eye(n, dtype=bool)
    for step in run["steps"]:
        spatial = np.stack([edges(wiring, n) for wiring, _ in step["wirings"]])
        read = np.stack([flags(column) for _, column in step["wirings"]])
        ways = np.stack([[drawable(wiring[0], others)] for wiring in spatial])
        none, order = np.zeros_like(spatial), np.tile(np.arange(n), (len(spatial), 1, 1))
        learn(ours, step, Wirings(spatial, none, Edges(ways, none), order, read, np.ones_like(read)))
        assert apart(ours, step, "spatial", others) < TOLERANCE
        assert apart(ours, step, "decision", np.ones((n, 1), dtype=bool)) < TOLERANCE
