"""CoRe-MMRAG: cross-source knowledge reconciliation in four stages (Tian et al. 2025; M3Prune, section 8).

1. An internal answer, from the model's own knowledge and the question's own picture. 2. The most relevant evidence,
chosen by the pictures and the passages jointly, since each alone may point to another entity. 3. An external answer,
from that evidence. 4. Both are reconciled: where they differ, the model decides which source to trust.

Trained into the original and asked for here: the choice and the reconciliation. Left open and decided: stage 2 may
choose several sources, as an answer may lie in two; if none is named, all that was retrieved goes on;
where nothing is retrieved, or nothing that bears on the question, the internal answer stands; a failed answer is not
read in stage 4.
"""

from __future__ import annotations

import asyncio

from actors.messages import Field, FieldKind, Question, Task, Trace, Value
from topologies.library import PICTURES, query_of
from topologies.method import system
from topologies.single import SINGLE_AGENT
from topologies.systems.helpers import numbered, together
from topologies.systems.session import System, about, sources
from topologies.topology import Ask

INTERNAL = "Answer from what you know and what the question itself shows. Nothing has been looked up."
CHOOSE = (
    "Passages and pictures were retrieved for the question. Judge them jointly, what is written together with what is "
    "seen, and pick those that are about the thing the question asks about and that its answer depends on."
)
ANY = Field(FieldKind.RELEVANT, "whether anything retrieved bears on the question", ("yes", "no"))
CHOSEN = Field(
    FieldKind.SELECTED,
    "the numbers of the passages and pictures picked, separated by commas",
    optional=True,
    value=Value.NUMBERS,
)
EXTERNAL = "Answer from the evidence and the pictures alone, whatever you would have thought without them."
RECONCILE = (
    "Two answers were given before: the first from knowledge alone, the second from retrieved evidence. Where they "
    "agree, keep the answer. Where they differ, find out why: whether the evidence is about something else, or the "
    "knowledge mistaken, and give the answer of the more reliable source."
)


class CoreMmrag(System):
    """Four turns of one agent: internal answer, choice of evidence, external answer, reconciliation."""

    async def answer(self, question: Question, ask: Ask, seed: int, sample: int = 0) -> Trace:
        session = self.session(question, ask, seed, sample)
        own = await session.own()
        internal = await session.ask(SINGLE_AGENT, question=about(question, own), instruction=INTERNAL)
        query = query_of(question)
        results = await asyncio.gather(
            session.search(query, self.reach.texts, radius=self.reach.radius),
            session.search(query, self.reach.pictures, kinds=PICTURES, radius=self.reach.radius),
        )
        retrieved = together(*map(sources, results))
        if not retrieved:
            return session.trace(internal)
        # One sequence for both: the reply's numbers count the sources in the order in which they were shown.
        seen = together(retrieved, own)
        choice = await session.ask(SINGLE_AGENT, question=about(question, seen), task=Task(CHOOSE, (ANY, CHOSEN)))
        chosen = numbered(choice, FieldKind.SELECTED, seen)
        # Numbers outweigh a "no" beside them.
        if not chosen and choice.said(FieldKind.RELEVANT) == ("no",):
            return session.trace(internal)
        shown = about(question, together(own, chosen or retrieved))
        external = await session.ask(SINGLE_AGENT, question=shown, instruction=EXTERNAL)
        final = await session.ask(SINGLE_AGENT, question=shown, heard=[internal, external], instruction=RECONCILE)
        return session.trace(final)


METHOD = system("core_mmrag", "closed-book and evidence answers, reconciled", CoreMmrag)
