"""Makes learners from their specifications."""

from __future__ import annotations

from typing import TYPE_CHECKING

from topologies.learning.spec import LearnerSpec

if TYPE_CHECKING:
    from topologies.learning.learner import Learner


def make_learner(spec: LearnerSpec) -> Learner:
    """Makes a learner in the calling process, which imports PyTorch only now. Raises UserError on bad settings."""
    from topologies.learning.learner import Learner

    return Learner(**vars(spec))
