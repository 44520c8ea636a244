"""HM-RAG: decomposition, three retrieval agents with a base each, and a decision by consistency (Liu et al. 2025).

1. Decomposition (3.2): an agent says whether the question has several intents, and if so, puts two or three
   sub-questions.
2. Retrieval (3.3): for every sub-question, the vector agent searches texts and pictures by their vectors (Eqs. 4-6),
   the graph agent the knowledge graph by keywords and by themes (Eqs. 10, 11) and the web agent the web (Eq. 12). Each
   answers from its own base (Eq. 7): the sub-questions one after the other, and then the question with these answers.
3. Decision (3.4): the summaries of the answers are compared (Eqs. 13, 14). Where any two agree by the threshold or
   more, a light model merges the answers; below it, an expert model decides, with all that was retrieved.

Left open and decided:
- The threshold and the weights of ROUGE-L and BLEU are settings. All pairs must agree; who has no answer is not
  compared, and fewer than two answers never agree.
- Eq. 10's threshold tau is the number of triples retrieved. The attention that it speaks of is the similarity of words
  and vectors. The graph agent also reads what is known of the first entities (LightRAG adds their descriptions).
- A decomposition that cannot be read leaves the question whole; keywords that cannot be read are the question's own
  words; for a summary that cannot be read, or does not name the answer, the answer itself is compared.
- The light and the expert model are two roles of one pool here; the paper has Qwen2.5-7B and GPT-4o.
- Without the decision agent the most frequent answer wins, of equally frequent ones the one given with more confidence:
  the paper's line for it repeats that of the web agent alone.
"""

from __future__ import annotations

from asyncio import gather
from collections.abc import Awaitable, Collection, Mapping, Sequence
from functools import partial

from actors.messages import (
    Field,
    FieldKind,
    Given,
    Hit,
    Kind,
    Message,
    Modality,
    Question,
    Role,
    Source,
    Task,
    Trace,
    Triple,
)
from topologies.answers import normalised
from topologies.defences.majority import vote
from topologies.library import PICTURES, Library, Reach, query_of
from topologies.systems.helpers import together
from topologies.systems.hm_rag.consistency import least_agreement
from topologies.systems.session import Steps, about, sources
from topologies.topology import Ask

PICTURES_TOO = "pictures"
VECTOR, GRAPH, WEB = BASES = ("vector", "graph", "web")
AGENTS = {base: f"{base}_retriever" for base in BASES}
_READS = {
    VECTOR: "passages and pictures that are near to the question",
    GRAPH: "statements of a knowledge graph, each with its two ends, and what is known of these",
    WEB: "results of a web search",
}
DECOMPOSER = Role(
    "decomposer",
    Modality.BOTH,
    "You are a logic expert who takes questions apart. You say how many things a question asks, and you never add any.",
)
LIGHT = Role(
    "light_decider",
    Modality.BOTH,
    "You are the decision agent for clear cases. Your colleagues agree: put what they say into one answer.",
)
EXPERT = Role(
    "expert_decider",
    Modality.BOTH,
    "You are the decision agent for hard cases. Your colleagues do not agree: go back to the evidence itself, find out "
    "who is mistaken, and give the answer that it bears out.",
)
ROLES = (
    DECOMPOSER,
    *(
        Role(
            agent,
            Modality.BOTH,
            f"You are the scientist of the team who reads {_READS[base]}. Answer from these; say unknown where they do "
            "not tell.",
        )
        for base, agent in AGENTS.items()
    ),
    LIGHT,
    EXPERT,
)
INTENTS = Task(
    "Say how many different things have to be found out to answer the question: 1 where it has a single intent.",
    (Field(FieldKind.INTENTS, "how many things are asked", ("1", "2", "3")),),
)
DECOMPOSE = Task(
    "Put the steps that lead to the answer as two or three simple sub-questions, each following from the one before. "
    "Keep the words that matter, names above all, as the question has them.",
    (Field(FieldKind.SUB_QUESTION, "one smaller question that can be understood by itself", many=True),),
)
KEYWORDS = Task(
    "Name what to look up in a knowledge graph: as keywords the things, people, places and works that the question is "
    "about, and as themes the relations between things that it asks for.",
    (
        Field(FieldKind.KEYWORD, "one name or thing", many=True),
        Field(FieldKind.THEME, "one relation or topic, in a few words", many=True, optional=True),
    ),
)
SUMMARISE = "State the answer below in one short sentence, with the fact that it rests on."
SUMMARY = (Field(FieldKind.SUMMARY, "the sentence"),)
SUB_QUESTIONS = 3
ENTITIES = 3  # of which the graph agent reads the description and the pictures


class HmRag:
    """`bases` are those of the agents that take part; each finds `reach.texts` passages, triples or results, and the
    vector agent `reach.pictures` besides. A system of one base has no decision to make.

    Args:
        threshold: of the fused agreement, in [0, 1]; `rouge_weight` is ROUGE-L's share in it.
        decompose, decide: False for the ablations.
    """

    def __init__(
        self,
        method: str,
        library: Library,
        *,
        reach: Reach,
        threshold: float,
        rouge_weight: float,
        bases: Collection[str] = BASES,
        decompose: bool = True,
        decide: bool = True,
    ) -> None:
        self.method = method
        self._library = library
        self._reach = reach
        self._threshold = threshold
        self._rouge_weight = rouge_weight
        self._bases = [base for base in BASES if base in bases]
        self._decompose = decompose
        self._decide = decide

    async def answer(self, question: Question, ask: Ask, seed: int, sample: int = 0) -> Trace:
        steps = Steps(self.method, question, ask, self._library, seed, sample)
        own = await steps.own()
        asked = await self._sub_questions(steps, own) if self._decompose else ()
        answers, read = await self._answers(steps, asked, own)
        if len(self._bases) == 1:
            return steps.trace(answers[0])
        if not self._decide:
            return steps.trace(vote(answers))
        usable = [message for message in answers if message.answer is not None]
        summaries = await self._summaries(steps, usable)
        if least_agreement(summaries, self._rouge_weight) >= self._threshold:
            return steps.trace(await steps.ask(LIGHT.name, question=about(question, own), heard=usable))
        everything = about(question, together(own, *read.values()))
        return steps.trace(await steps.ask(EXPERT.name, question=everything, heard=usable))

    async def _sub_questions(self, steps: Steps, own: Sequence[Source]) -> tuple[str, ...]:
        """Two or three of them; none where the question has a single intent, or nothing could be read."""
        shown = about(steps.question, own)
        judged = await steps.ask(DECOMPOSER.name, question=shown, task=INTENTS)
        if judged.said(FieldKind.INTENTS) in ((), ("1",)):
            return ()
        parts = await steps.ask(DECOMPOSER.name, question=shown, task=DECOMPOSE, remembers=True)
        return tuple(dict.fromkeys(parts.said(FieldKind.SUB_QUESTION)))[:SUB_QUESTIONS]

    async def _answers(
        self, steps: Steps, asked: Sequence[str], own: Sequence[Source]
    ) -> tuple[list[Message], Mapping[str, tuple[Source, ...]]]:
        """What each agent answers, and what each has read of its base."""
        read: dict[str, tuple[Source, ...]] = dict.fromkeys(self._bases, ())
        replies: dict[str, list[Message]] = {base: [] for base in self._bases}
        for text in asked or (None,):
            part = about(steps.question, own, text) if text else about(steps.question, own)
            found = await self._retrieve(steps, part)
            read = {base: together(read[base], found[base]) for base in self._bases}
            said = await gather(
                *(
                    steps.ask(
                        AGENTS[base], question=about(part, together(own, found[base])), heard=tuple(replies[base])
                    )
                    for base in self._bases
                )
            )
            for base, message in zip(self._bases, said, strict=True):
                replies[base].append(message)
        if not asked:
            return [replies[base][0] for base in self._bases], read
        return list(
            await gather(
                *(
                    steps.ask(
                        AGENTS[base],
                        question=about(steps.question, together(own, read[base])),
                        heard=replies[base],
                    )
                    for base in self._bases
                )
            )
        ), read

    async def _retrieve(self, steps: Steps, part: Question) -> dict[str, tuple[Source, ...]]:
        """What each base has on a part of the question, all bases searched at once."""
        query, of = query_of(part), None
        triples: list[Awaitable[tuple[Triple, ...]]] = []
        found: dict[str, Awaitable[tuple[Hit, ...]]] = {}
        if GRAPH in self._bases:
            of = await steps.ask(AGENTS[GRAPH], question=part, task=KEYWORDS)
            triples.append(steps.graph(of.said(FieldKind.KEYWORD) or (query,), self._reach.texts, of=of))
            triples.append(steps.graph(of.said(FieldKind.THEME) or (query,), self._reach.texts, themes=True, of=of))
        if VECTOR in self._bases:
            near = partial(steps.search, query, mode="vector", radius=self._reach.radius)
            found |= {VECTOR: near(self._reach.texts), PICTURES_TOO: near(self._reach.pictures, kinds=PICTURES)}
        if WEB in self._bases:
            found[WEB] = steps.web(query, self._reach.texts)
        edges, hits = await gather(gather(*triples), gather(*found.values()))
        of_base = dict(zip(found, map(sources, hits), strict=True))
        read = {base: of_base[base] for base in (VECTOR, WEB) if base in of_base}
        if VECTOR in read:
            read[VECTOR] += of_base[PICTURES_TOO]
        if GRAPH in self._bases:
            subgraph = {triple.id: triple for level in edges for triple in level}.values()
            names = list(dict.fromkeys(triple.head for triple in subgraph))[:ENTITIES]
            known = await gather(*(steps.entity(name, of=of) for name in names))
            read[GRAPH] = together([stated(triple) for triple in subgraph], *known)
        return read

    async def _summaries(self, steps: Steps, answers: Sequence[Message]) -> list[str]:
        """S_v, S_g and S_w, each by the agent whose answer it is."""
        tasks = [Task(SUMMARISE, SUMMARY, (Given(FieldKind.ANSWER, str(told.answer), 1),)) for told in answers]
        asked = about(steps.question, ())
        said = await gather(
            *(
                steps.ask(told.agent, question=asked, task=task, heard=(told,))
                for told, task in zip(answers, tasks, strict=True)
            )
        )
        return [_compared(str(told.answer), message) for told, message in zip(answers, said, strict=True)]


def _compared(answer: str, summary: Message) -> str:
    """The summary, as long as it is one of this answer: two that tell what was read, and not what was concluded, would
    agree about nothing."""
    for text in summary.said(FieldKind.SUMMARY):
        if (normalised(answer) or answer) in (normalised(text) or ""):
            return text
    return answer


def stated(triple: Triple) -> Source:
    """A triple as agents read it: its head, and what is said of that."""
    return Source(triple.id, triple.source or triple.id, Kind.TEXT, triple.head, f"{triple.relation} {triple.tail}.")
