"""Features of a question, which graphs by question depend on: its embedding and the kinds of its evidence."""

import numpy as np
import numpy.typing as npt

from actors.messages import Kind, Question
from topologies.wiring import Floats


def features_of(question: Question, embedding: npt.ArrayLike) -> Floats:
    """Joins the direction of an embedding (of several [m, d], their mean) and a 1 per kind of evidence, [d + 3]."""
    mean = np.atleast_2d(np.asarray(embedding, dtype=np.float64)).mean(0)
    kinds = {source.kind for source in question.evidence}
    return np.concatenate([mean / max(float(np.linalg.norm(mean)), 1e-12), [float(kind in kinds) for kind in Kind]])
