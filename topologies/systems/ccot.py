"""CCoT: compositional chain of thought (Mitra et al. 2024; BDoG, section 2.3): a scene graph first, then the answer.

The scene graph takes the place of the rationale: objects, attributes and relations that bear on the question, drawn
from the pictures with question and hint in view. Then the question is answered with the pictures and the graph.

Different from the authors' code:
- The graph is stated in triples instead of JSON, and an unreadable one is left out (theirs pastes any reply).
- Choices are shown when the graph is drawn, as in all their scripts but LLaVA's.
- The hint stays for the answer, as in their scripts for Sphinx.
- A question without a picture, which theirs does not meet, is answered directly.
"""

from __future__ import annotations

from actors.messages import Field, FieldKind, Given, Question, Task, Trace, Value
from topologies.method import system
from topologies.systems.direct import DIRECT
from topologies.systems.helpers import ANSWER, SOLO, in_view, pictures_among
from topologies.systems.session import System
from topologies.topology import Ask

SCENE_GRAPH = (
    "Draw up the scene graph of the pictures for this question: the objects in them that bear on it, their attributes "
    "(colour, number, lettering, state) and how the objects relate to each other. Only what can be seen."
)
EDGE = Field(
    FieldKind.TRIPLE, "object | relation | object, or object | attribute | value", many=True, value=Value.TRIPLE
)
WITH_GRAPH = (
    "The triples below are the scene graph of the pictures. Answer the question from the pictures and this graph, "
    "without any explanation."
)


class CCoT(System):
    """Two turns of one agent: the pictures' scene graph, and the answer with it."""

    async def answer(self, question: Question, ask: Ask, seed: int, sample: int = 0) -> Trace:
        session = self.session(question, ask, seed, sample)
        shown = await in_view(session, self.context)
        triples: tuple[str, ...] = ()
        if pictures_among(shown.evidence):
            graph = await session.ask(SOLO.name, question=shown, task=Task(SCENE_GRAPH, (EDGE,)))
            triples = graph.said(EDGE.name)
        # As lines of the task instead of a message: there is no other agent to weigh.
        given = tuple(Given(FieldKind.TRIPLE, triple) for triple in triples)
        task = Task(WITH_GRAPH, (ANSWER,), given) if given else DIRECT
        return session.trace(await session.ask(SOLO.name, question=shown, task=task))


METHOD = system(
    "ccot", "a scene graph of the pictures, then the answer with it, without retrieval", CCoT, (SOLO,), ("context",)
)
