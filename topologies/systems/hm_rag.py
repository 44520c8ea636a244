"""HM-RAG: decomposition, three retrieval agents with a base each, and a decision by consistency (Liu et al. 2025).

1. Decomposition (3.2): an agent reads the question's text alone and counts its intents; if there are several, it
   puts two or three sub-questions.
2. Retrieval (3.3): the vector agent searches texts and captions of pictures by vectors (Eqs. 4-6), the graph agent the
   knowledge graph by keywords and by themes (Eqs. 10, 11) and the web agent the web (Eq. 12). Each answers from its own
   base (Eq. 7). They read no picture: a picture is its caption to them (T_m, Eq. 2).
3. Decision (3.4): where the answers are the same, a light model merges them; otherwise an expert model decides, with
   all that was retrieved and the question's picture.

Decided here:
- All answers must be the same (the paper's Figs. 4 and 5 ask the expert where two of three are). The paper compares
  summaries instead (Eqs. 13, 14; `systems.consistency=summaries`), against a threshold that it does not give. A missing
  answer is not compared, and fewer than two never agree.
- Several intents: each agent answers the sub-questions one after the other and then the question with these answers.
- An agent whose base does not have the answer answers unknown; of choices it picks one in any case.
- Eq. 10's threshold tau is the number of triples retrieved, and its attention the similarity of words and vectors. The
  graph agent also reads descriptions of the first entities, as LightRAG adds: as many sources as there are texts at
  most, those nearest to the question.
- Captions come with the data, and are found by their pictures' vectors; a picture without one is its title. Triples
  are those of the run's graph (Eqs. 1-3 make both by models).
- A decomposition that cannot be read leaves the question whole; keywords that cannot be read are the question's own
  words; for a summary that cannot be read, or does not name the answer, the answer itself is compared.
- The light and the expert model are two roles of one pool; the paper has Qwen2.5-7B and GPT-4o, at temperature 0.
- Without the decision agent the most frequent answer wins, of equally frequent ones the more confident one.
"""

from asyncio import gather
from collections import Counter
from collections.abc import Awaitable, Sequence
from dataclasses import replace
from itertools import chain, zip_longest
from typing import Any

from actors.messages import Field, FieldKind, Kind, Message, Modality, Question, Role, Source, Task, Triple
from topologies.answers import ballot, text_form
from topologies.defences.majority import vote
from topologies.method import PICTURES, Method, MethodContext, query_of, system
from topologies.systems.helpers import together
from topologies.systems.hm_rag_agreement import THRESHOLD, least_agreement
from topologies.systems.session import Session, System, about, in_order, input_lines, sources

VECTOR = "vector"
GRAPH = "graph"
WEB = "web"
BASES = (VECTOR, GRAPH, WEB)
AGENTS = {base: f"{base}_retriever" for base in BASES}
_READS = {
    VECTOR: "passages and captions of pictures that are near to the question",
    GRAPH: "statements of a knowledge graph, each with its two ends, and what is known of these",
    WEB: "results of a web search",
}
DECOMPOSER = Role(
    "decomposer",
    Modality.TEXT,
    "You are a logic expert who takes questions apart. You say how many things a question asks, and you never add any.",
)
LIGHT = Role(
    "light_decider",
    Modality.TEXT,
    "You are the decision agent for clear cases. Your colleagues agree: put what they say into one answer.",
)
EXPERT = Role(
    "expert_decider",
    Modality.BOTH,
    "You are the decision agent for hard cases. Your colleagues do not agree: go back to the evidence itself, find out "
    "who is mistaken, and give the answer that it bears out.",
)
RETRIEVERS = [
    Role(agent, Modality.TEXT, f"You are the scientist of the team who reads {_READS[base]}.")
    for base, agent in AGENTS.items()
]
ROLES = (DECOMPOSER, *RETRIEVERS, LIGHT, EXPERT)
# Instructions of turns that answer.
FROM_FOUND = "Answer from what your search found; say unknown where it found nothing, or nothing that tells."
CHOOSE = "Answer from what your search found; where it found nothing, or nothing that tells, pick what fits best."
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
SUB_QUESTIONS = 3  # as many as the prompt asks for at most
ENTITIES = 3  # whose descriptions the graph agent reads


class HmRag(System):
    """Retrieval agents with a base each, and a decision between their answers.

    Each agent finds `top_k.texts` passages, triples of each level or results; the vector agent also `top_k.pictures`
    captions. A system of one base has no decision to make.
    """

    def __init__(
        self, context: MethodContext, bases: Sequence[str] = BASES, decompose: bool = True, decide: bool = True
    ) -> None:
        super().__init__(context)
        self._bases = bases
        self._decompose = decompose
        self._decide = decide

    async def discuss(self, session: Session) -> Message | str | None:
        own_sources = await session.own()
        captions = in_words(own_sources)
        sub_questions = await self._sub_questions(session) if self._decompose else []
        answers, evidence, order = await self._answers(session, sub_questions, captions)
        # One answer leaves nothing to compare, neither by vote nor by agreement.
        if len(self._bases) == 1:
            return answers[0]
        if not self._decide:
            return vote(session.question, answers)

        usable = [message for message in answers if message.answer is not None]
        numbers = Counter(ballot(session.question, message.answer) for message in usable)
        consistency = self.context.systems.consistency
        if consistency == "majority" and max(numbers.values(), default=0) > 1:
            return vote(session.question, usable)
        if consistency == "summaries":
            agreed = least_agreement(await self._summaries(session, usable)) >= THRESHOLD
        else:
            agreed = consistency == "answers" and len(usable) > 1 and len(numbers) == 1
        if agreed:
            return await session.ask(LIGHT.name, evidence=captions, heard=usable)
        question = in_order(session.question, order)
        return await session.ask(EXPERT.name, question=question, evidence=together(own_sources, evidence), heard=usable)

    async def _sub_questions(self, session: Session) -> list[str]:
        """Asks for the parts of a question with several intents."""
        # Its text alone: choices and pictures ask for nothing.
        question = about(session.question, (), session.question.text)
        intents = await session.ask(DECOMPOSER.name, question=question, task=INTENTS)
        # An unreadable count is taken for a single intent.
        if intents.values(FieldKind.INTENTS) in ((), ("1",)):
            return []
        # It remembers the count that it just gave.
        parts = await session.ask(DECOMPOSER.name, question=question, task=DECOMPOSE, remembers=True)
        return list(dict.fromkeys(parts.values(FieldKind.SUB_QUESTION)))[:SUB_QUESTIONS]

    async def _answers(
        self, session: Session, sub_questions: Sequence[str], own_sources: Sequence[Source]
    ) -> tuple[list[Message], Sequence[Source], Sequence[Source]]:
        """Returns the agents' answers, all sources that they read, and the order of the sources' numbers."""
        evidence: dict[str, tuple[Source, ...]] = dict.fromkeys(self._bases, ())
        answers: dict[str, list[Message]] = {base: [] for base in self._bases}
        # It only grows, so that references by number stay true for agents that hear them later.
        order = tuple(own_sources)
        whole = about(session.question, own_sources)
        # One after the other, as later sub-questions follow from earlier ones. The whole question comes last, and is
        # answered from all that was read for them.
        for part in (*(about(session.question, own_sources, text) for text in sub_questions), whole):
            part_evidence = evidence
            if part is not whole or not sub_questions:
                part_evidence = await self._retrieve(session, part)
                order = together(order, *part_evidence.values())
                evidence = {base: together(evidence[base], part_evidence[base]) for base in self._bases}
            # An agent always picks one of the choices: its reply's form has no other answer.
            instruction = CHOOSE if part.choices else FROM_FOUND
            messages = await gather(
                *(
                    session.ask(
                        AGENTS[base],
                        question=in_order(part, order),
                        evidence=together(own_sources, part_evidence[base]),
                        heard=answers[base],
                        instruction=instruction,
                    )
                    for base in self._bases
                )
            )
            for base, message in zip(self._bases, messages, strict=True):
                answers[base].append(message)
        return list(messages), together(*evidence.values()), order

    async def _retrieve(self, session: Session, part: Question) -> dict[str, tuple[Source, ...]]:
        """Searches each base for a part of the question, all bases at once."""
        searches: dict[str, Awaitable[tuple[Source, ...]]] = {}
        if GRAPH in self._bases:
            keywords = await session.ask(AGENTS[GRAPH], question=part, task=KEYWORDS)
            searches[GRAPH] = self._subgraph(session, query_of(part), keywords)
        if VECTOR in self._bases:
            searches[VECTOR] = self._near(session, query_of(part))
        if WEB in self._bases:
            searches[WEB] = self._of_web(session, part)
        results = dict(zip(searches, await gather(*searches.values()), strict=True))
        return {base: in_words(results[base]) for base in (VECTOR, WEB, GRAPH) if base in results}

    async def _near(self, session: Session, query: str) -> tuple[Source, ...]:
        """Finds passages and captions by vectors (Eqs. 4-6)."""
        radius = self.top_k.radius
        texts, captions = await gather(
            session.search(query, self.top_k.texts, mode="vector", radius=radius),
            session.search(query, self.top_k.pictures, mode="vector", radius=radius, kinds=PICTURES),
        )
        return sources((*texts, *captions))

    async def _subgraph(self, session: Session, query: str, keywords: Message) -> tuple[Source, ...]:
        """Finds edges by keywords and themes, and descriptions of their first entities (Eqs. 10, 11)."""
        k = self.top_k.texts
        near, themed = await gather(
            session.graph(keywords.values(FieldKind.KEYWORD) or (query,), k, of=keywords),
            session.graph(keywords.values(FieldKind.THEME) or (query,), k, themes=True, of=keywords),
        )
        triples = (*near, *themed)
        entities = list(dict.fromkeys(triple.head for triple in triples))[:ENTITIES]
        # A second step: which entities to look up is known only from the triples.
        descriptions = await gather(*(session.entity(name, k, near=query, of=keywords) for name in entities))
        # The nearest of each entity first, so that no entity takes all of the places.
        nearest = filter(None, chain.from_iterable(zip_longest(*descriptions)))
        # A triple that both levels found counts once.
        return together(map(stated, triples), together(nearest)[:k])

    async def _of_web(self, session: Session, part: Question) -> tuple[Source, ...]:
        """Searches the web for the question without its choices (Eq. 12)."""
        return sources(await session.web(part.text, self.top_k.texts))

    async def _summaries(self, session: Session, answers: Sequence[Message]) -> list[str]:
        """Asks for a summary of each answer (S_v, S_g, S_w). One that lacks the answer is the answer itself."""

        async def summary(message: Message) -> str:
            answer = str(message.answer)
            task = Task(SUMMARISE, SUMMARY, input_lines(FieldKind.ANSWER, [answer], numbered=True))
            # Without evidence, so that a summary adds nothing to the answer.
            reply = await session.ask(message.agent, evidence=(), task=task, heard=(message,))
            for text in reply.values(FieldKind.SUMMARY):
                if (text_form(answer) or answer) in (text_form(text) or ""):
                    return text
            return answer

        return await gather(*map(summary, answers))


def in_words(group: Sequence[Source]) -> tuple[Source, ...]:
    """Replaces pictures by captions, or else titles, for agents that read no pictures (T_m, Eq. 2)."""
    texts = []
    for source in group:
        words = source.text or source.title
        if source.kind is not Kind.IMAGE:
            texts.append(source)
        elif words:
            texts.append(replace(source, kind=Kind.TEXT, text=words, image=None))
    return tuple(texts)


def stated(triple: Triple) -> Source:
    """Writes a triple as agents read it: its head as the title, relation and tail as the text."""
    return Source(triple.id, triple.source or triple.id, Kind.TEXT, triple.head, f"{triple.relation} {triple.tail}.")


def _variant(
    name: str, description: str, *bases: str, decompose: bool = True, decide: bool = True, **declared: Any
) -> Method:
    # Only answers of several agents are merged.
    reads = ("systems.consistency",) if decide and len(bases) != 1 else ()
    return system(
        name,
        description,
        lambda context: HmRag(context, bases or BASES, decompose, decide),
        ROLES,
        reads=reads,
        **declared,
    )


METHODS = (
    _variant("hm_rag_vector", "one agent with texts and captions", VECTOR, decompose=False),
    _variant("hm_rag_graph", "one agent with a knowledge graph", GRAPH, decompose=False),
    _variant("hm_rag_web", "one agent with the web", WEB, decompose=False),
    _variant("hm_rag_no_vector", "HM-RAG without its vector agent", GRAPH, WEB),
    _variant("hm_rag_no_graph", "HM-RAG without its graph agent", VECTOR, WEB),
    _variant("hm_rag_no_web", "HM-RAG without its web agent", VECTOR, GRAPH),
    _variant("hm_rag_no_decomposition", "HM-RAG on the whole question", decompose=False),
    _variant("hm_rag_no_decision", "HM-RAG by a vote of its agents", decide=False),
    _variant(
        "hm_rag",
        "vector, graph and web agents, a decision by agreement",
        rivals=("hm_rag_vector", "hm_rag_graph", "hm_rag_web"),
        settings={"agents.temperature": 0},
    ),
)
