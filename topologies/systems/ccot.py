"""CCoT: compositional chain of thought (Mitra et al. 2024; BDoG, section 2.3): a scene graph first, then the answer.

The scene graph takes the place of the rationale: objects, attributes and relations that bear on the question, made
from the pictures with the question in view; then the question is answered with the pictures and the graph. Left open
and decided: triples carry attributes too; a question without a picture has no scene, and a failed graph is no graph:
it is answered directly. Zero-shot: hint and picture of the question, nothing retrieved.
"""

from __future__ import annotations

from actors.messages import Field, FieldKind, Message, Question, Task, Trace, Value
from topologies.method import system
from topologies.single import SINGLE_AGENT
from topologies.systems.helpers import pictures_among
from topologies.systems.session import System, about
from topologies.topology import Ask

SCENE_GRAPH = (
    "Draw up the scene graph of the pictures for this question: the objects in them that bear on it, their attributes "
    "(colour, number, lettering, state) and how the objects relate to each other. Only what can be seen."
)
EDGE = Field(
    FieldKind.TRIPLE, "object | relation | object, or object | attribute | value", many=True, value=Value.TRIPLE
)
WITH_GRAPH = "Use the pictures and the scene graph that you drew up from them as the steps to your answer."


class CCoT(System):
    """Two turns of one agent: the pictures' scene graph, and the answer with it."""

    async def answer(self, question: Question, ask: Ask, seed: int, sample: int = 0) -> Trace:
        session = self.session(question, ask, seed, sample)
        own = await session.own()
        graph: list[Message] = []
        if pictures := pictures_among(own):
            task = Task(SCENE_GRAPH, (EDGE,))
            graph.append(await session.ask(SINGLE_AGENT, question=about(question, pictures), task=task))
        # The instruction must not refer to a graph that failed, which nobody reads.
        instruction = WITH_GRAPH if any(message.fields for message in graph) else ""
        return session.trace(
            await session.ask(SINGLE_AGENT, question=about(question, own), heard=graph, instruction=instruction)
        )


METHOD = system("ccot", "a scene graph of the pictures, then the answer with it, without retrieval", CCoT)
