"""Learners that are networks, by the name of their variant."""

from topologies.learning.agp import AgpLearner
from topologies.learning.eib_learner import EibLearner
from topologies.learning.g_designer import GDesignerLearner
from topologies.learning.network_learner import NetworkLearner

NETWORKS: dict[str, type[NetworkLearner]] = {
    "g_designer": GDesignerLearner,
    "agp": AgpLearner,
    "eib_learner": EibLearner,
}
