"""MH-MMKG: agents search a multi-modal knowledge graph for paths that lead to the answer (Wang et al. 2025, section 4).

1. A perceiver describes the question's picture.
2. A topic agent picks the entity to start from.
3. An expansion agent judges all neighbours of every open entity (Eq. 5) and a validation agent whether the path up to
   each new one is enough (Eq. 8), in turn, breadth first.
4. The first paths found are written out (Eq. 11) and a summariser answers with them.

`SETTINGS` are the six of Table 2, and depth-first search (Fig. 6b), the order of the authors' code. Where agents see,
they see pictures that have a file, and the perceiver describes them to the others; elsewhere they read captions by
people. An entity's pictures are described by people, by the perceiver without the question (offline), or by the
validator who sees them with the question and the path in mind (online). Offline, the summariser reads the perceiver's
description and online it sees the question's pictures, as in the authors' code. An offline description depends on the
entity alone: it is computed once for a run, and every trace that meets the entity counts its tokens. `annotated` paths
are a label: that setting is an upper bound. A model that reads no pictures gets people's captions in every setting.

Decided here:
- Where the data set does not name topics (MH-Benchmark's monsters), the topic agent first names entities; it picks from
  the graph's entities of these names or else from the nearest. A topic may be enough alone.
- Found are the paths judged enough (Eq. 11 has all leaves of the search); where there is none, the question is answered
  without knowledge, and precision and recall are 0.
- The topic agent reads the perceiver's description; in the paper it reads the question alone.
- In a graph that was extracted from a corpus, edges are followed both ways.
- When the topic agent fails there is no search; an expansion that fails adds nothing, a validation that fails goes on,
  and a description that fails is missing. The search's own limits are in mh_mmkg_paths.py.
"""

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import Literal

from actors.messages import Field, FieldKind, InputLine, Kind, Message, Modality, Role, Source, Task, Triple, Value
from topologies.answers import wording
from topologies.method import system
from topologies.systems.helpers import numbered, pictures_among
from topologies.systems.mh_mmkg_paths import GraphPath, Order, PathSearch, same
from topologies.systems.session import Session, System, about, input_lines

PERCEIVER = Role(
    "perceiver", Modality.BOTH, "You put into words what pictures show, for colleagues who cannot see them."
)
TOPIC = Role("topic_selector", Modality.TEXT, "You decide at which entity of a knowledge graph a search should start.")
EXPANDER = Role("expander", Modality.TEXT, "You decide in which directions a search through a knowledge graph goes on.")
VALIDATOR = Role("validator", Modality.BOTH, "You decide whether what a search has found so far is enough.")
SUMMARIZER = Role(
    "summarizer",
    Modality.BOTH,
    "You answer questions, with the knowledge that a search through a graph has found where there is any.",
)
ROLES = (PERCEIVER, TOPIC, EXPANDER, VALIDATOR, SUMMARIZER)

PERCEIVE = (
    "Describe the pictures as far as it may matter to the question: who or what is there, postures and movements in "
    "their order, surroundings, effects. Say what can be seen and nothing that is only guessed."
)
CAPTION = "What do the pictures of {} show?"
NAME = (
    "Name the entities that the question is about, the main one first: a search through a knowledge graph starts there."
)
PICK = (
    "Each candidate is an entity of the knowledge graph. Pick the one that the question is mainly about, from which "
    "the knowledge that it needs can be reached."
)
EXPAND = (
    "A search through a knowledge graph for what the question needs has come as far as the findings say. Each "
    "candidate is an edge that leads on from there. Pick every one whose new entity may help to answer, or may lead to "
    "what does."
)
VALIDATE = (
    "Decide whether the findings, which lead through a knowledge graph to {}, are enough to answer the question with "
    "certainty. If anything is missing they are not."
)
LOOK = " The pictures show {}: describe them too, with the question and the findings in mind."
SUMMARIZE = "Answer with the knowledge found in the graph, which the evidence holds path by path."

DESCRIPTION = Field(FieldKind.DESCRIPTION, "what the pictures show")
PERCEPTION = Task(PERCEIVE, (DESCRIPTION,))
ENTITY = Field(FieldKind.ENTITY, "the name of one entity", many=True, most=1)
PICKED = Field(FieldKind.SELECTED, "the number of one candidate", most=1, value=Value.NUMBERS)
USEFUL = Field(
    FieldKind.SELECTED, "the numbers of the candidates picked, separated by commas", optional=True, value=Value.NUMBERS
)
ENOUGH = Field(FieldKind.ENOUGH, "", values=("yes", "no"))

EDGES = 20  # looked at for entities that are near to what the topic agent named


@dataclass(frozen=True, slots=True)
class MhSetting:
    """One setting of Table 2.

    see: the question's pictures are seen and not read of; knowledge: the paths that agents get.
    captions: who describes an entity's pictures; offline also the question's, for the answer.
    rivals: methods that `experiment=<name>` evaluates before it.
    """

    description: str
    rivals: tuple[str, ...]
    see: bool
    knowledge: Literal["none", "annotated", "searched"]
    captions: Literal["people", "offline", "online"] = "people"
    order: Order = "breadth"


SETTINGS = {
    "mh_vanilla": MhSetting("Vanilla: the question and its picture, no knowledge graph", (), True, "none"),
    "mh_vanilla_plus": MhSetting(
        "Vanilla+: the picture as people describe it, no knowledge graph", ("mh_vanilla",), False, "none"
    ),
    "mh_knowledgeable": MhSetting(
        "Know.: captions by people and the annotated paths (upper bound)", ("mh_vanilla_plus",), False, "annotated"
    ),
    "mh_perceptive": MhSetting(
        "Perceptive: captions by people; the knowledge graph is searched", ("mh_vanilla_plus",), False, "searched"
    ),
    "mh_offline": MhSetting(
        "Unaided-Offline: entities described without the question", ("mh_vanilla",), True, "searched", "offline"
    ),
    "mh_dfs": MhSetting(
        "Unaided-Online, depth first (Fig. 6b)", ("mh_vanilla",), True, "searched", "online", order="depth"
    ),
    "mh_mmkg": MhSetting(
        "Unaided-Online: paths through the knowledge graph, searched by agents",
        ("single", "mh_vanilla"),
        True,
        "searched",
        "online",
    ),
}


class MhMmkg(System):
    """One setting, by the method's name. Directed edges are followed from head to tail only."""

    async def discuss(self, session: Session) -> Message:
        setting = SETTINGS[self.method]
        library = self.context.library
        question = session.question
        # Agents that do not see read people's captions from here on, as texts of the question.
        texts, pictures = read_and_seen(await session.own(), by_people=not setting.see)
        perceived: list[Message] = []
        if setting.knowledge == "searched" and pictures:
            perceived = [await session.ask(PERCEIVER.name, evidence=pictures, task=PERCEPTION)]
        session.question = about(question, texts)

        # Made in every setting: it also writes annotated paths.
        search = GraphSearch(session, perceived, setting, await library.topics(question))
        paths: tuple[GraphPath, ...] = ()
        if setting.knowledge == "searched":
            paths = await search.run(self.context.systems.paths, self.context.directed, self.context.advice)
            # Empty, and not None: a search that found nothing.
            session.paths = tuple(path.entities for path in paths)
            session.descriptions = tuple(search.descriptions.items())
        elif setting.knowledge == "annotated":
            paths = await search.follow(await library.annotated(question))

        # Not `together`: each path is shown in full, even where it repeats an earlier one.
        knowledge = list(chain.from_iterable(search.written(path) for path in paths))
        instruction = SUMMARIZE if knowledge else ""
        if setting.captions == "offline":
            evidence = (*texts, *knowledge)
            return await session.ask(SUMMARIZER.name, evidence=evidence, heard=perceived, instruction=instruction)
        evidence = (*texts, *pictures, *knowledge)
        return await session.ask(SUMMARIZER.name, evidence=evidence, instruction=instruction)


class GraphSearch:
    """Search of one discussion.

    perceived: the perceiver's description, if any, which every agent reads.
    topics: entities to start from, if the data set names them.
    entity_texts: known facts of each entity met, as text; descriptions: agents' descriptions of its pictures.
    """

    def __init__(
        self, session: Session, perceived: Sequence[Message], setting: MhSetting, topics: tuple[str, ...]
    ) -> None:
        self.descriptions: dict[str, str] = {}
        self._entity_texts: dict[str, tuple[Source, ...]] = {}
        self._session = session
        self._perceived = perceived
        self._setting = setting
        self._topics = topics

    async def run(self, paths: int, directed: bool, advice: str) -> tuple[GraphPath, ...]:
        """Searches for paths, at most `paths`; none without a topic. `advice` is for the expander."""
        topic = await self._topic(directed)
        if not topic:
            return ()
        search = PathSearch(topic, self._setting.order, paths=paths)
        # The topic alone may be enough.
        search.judge(await self._validated([GraphPath((topic,))]))
        while batch := search.batch():
            edges = await asyncio.gather(*(self._session.neighbours(path.end) for path in batch))
            # All paths of a batch look ahead before any grows; `grow` drops an entity that two of them reach.
            ahead = [search.ahead(path, around, directed) for path, around in zip(batch, edges, strict=True)]
            leading = [(path, onward) for path, onward in zip(batch, ahead, strict=True) if onward]
            expansions = await asyncio.gather(*(self._expand(path, onward, advice) for path, onward in leading))
            grown: list[GraphPath] = []
            for (path, onward), expansion in zip(leading, expansions, strict=True):
                grown += search.grow(path, numbered(expansion, USEFUL.name, onward))
            search.judge(await self._validated(grown))
        return search.result()

    async def follow(self, annotated: Sequence[Sequence[str]]) -> tuple[GraphPath, ...]:
        """Looks the entities of annotated paths up. An edge that the graph lacks is left out."""
        for name in dict.fromkeys(chain.from_iterable(annotated)):
            self._entity_texts[name], _ = read_and_seen(await self._session.entity(name), by_people=True)
        paths = []
        for entities in annotated:
            edges: list[Triple] = []
            for head, tail in pairwise(entities):
                around = await self._session.neighbours(head)
                # Of parallel edges the first will do.
                edges += [edge for edge in around if same(edge.head, head) and same(edge.tail, tail)][:1]
            paths.append(GraphPath(tuple(entities), tuple(edges)))
        return tuple(paths)

    def written(self, path: GraphPath) -> tuple[Source, ...]:
        """Writes a path as text: each entity's facts, and after them the edge to the next, under the path so far."""
        lines = list(self._entity_texts.get(path.entities[0], ()))
        for place, (before, entity) in enumerate(pairwise(path.entities), 2):
            ends = {wording(before), wording(entity)}
            title = " > ".join(path.entities[:place])
            for edge in path.edges:
                # Compared as a set, since an edge may have been followed against its direction.
                if {wording(edge.head), wording(edge.tail)} == ends:
                    lines.append(Source(edge.id, edge.source or edge.id, Kind.TEXT, title, stated(edge)))
            lines += self._entity_texts.get(entity, ())
        return tuple(lines)

    async def _topic(self, directed: bool) -> str:
        """Has an entity picked to start from: one that the data set names, or one near to what the agent names."""
        ask = self._session.ask
        topics = self._topics
        if not topics:
            naming = await ask(TOPIC.name, task=Task(NAME, (ENTITY,)), heard=self._perceived)
            names = naming.values(ENTITY.name)
            nearest: dict[str, None] = {}
            for edge in await self._session.graph(names, EDGES, of=naming) if names else ():
                nearest[edge.head] = None
                if not directed:
                    nearest[edge.tail] = None
            # The graph's entities with the names that the topic agent gave, or else the nearest ones.
            namesakes = []
            for entity in nearest:
                if any(same(entity, name) for name in names):
                    namesakes.append(entity)
            topics = tuple(namesakes or nearest)
        if not topics:
            return ""
        task = Task(PICK, (PICKED,), input_lines(FieldKind.CANDIDATE, topics, numbered=True))
        selection = await ask(TOPIC.name, task=task, heard=self._perceived)
        return next(iter(numbered(selection, PICKED.name, topics)), "")

    def _expand(self, path: GraphPath, onward: Sequence[Triple], advice: str) -> Awaitable[Message]:
        """Asks which edges are useful (Eq. 5)."""
        candidates = input_lines(FieldKind.CANDIDATE, map(stated, onward), numbered=True)
        task = Task(f"{EXPAND} {advice}".rstrip(), (USEFUL,), (*self._findings(path), *candidates))
        return self._session.ask(EXPANDER.name, task=task, heard=self._perceived)

    async def _validated(self, paths: Sequence[GraphPath]) -> list[tuple[GraphPath, bool]]:
        """Looks the paths' ends up, describes their pictures, and has each path judged (Eq. 8)."""
        captions = self._setting.captions
        pictures_of: dict[str, tuple[Source, ...]] = {}
        sources_of_ends = await asyncio.gather(*(self._session.entity(path.end) for path in paths))
        for path, sources in zip(paths, sources_of_ends, strict=True):
            # Before the verdicts: their findings include these texts.
            self._entity_texts[path.end], pictures_of[path.end] = read_and_seen(sources, captions == "people")
        if captions == "offline":
            await self._describe_offline({end: pictures for end, pictures in pictures_of.items() if pictures})

        validations = []
        for path in paths:
            # As in the authors' code, a monster's own pictures are not shown: its attacks have theirs.
            seen = captions == "online" and path.end not in self._topics
            pictures = pictures_of[path.end] if seen else ()
            validations.append(self._validate(path, pictures))
        verdicts = await asyncio.gather(*validations)
        for path, verdict in zip(paths, verdicts, strict=True):
            # After all verdicts: the validator's own description is for the turns that follow.
            self._keep_description(path.end, pictures_of[path.end], verdict)
        return [(path, verdict.values(ENOUGH.name) == ("yes",)) for path, verdict in zip(paths, verdicts, strict=True)]

    async def _describe_offline(self, pictures_of: Mapping[str, Sequence[Source]]) -> None:
        """Has the perceiver describe entities, without the question."""
        turns = []
        for entity, pictures in pictures_of.items():
            question = about(self._session.question, pictures, CAPTION.format(entity))
            turns.append(self._session.ask(PERCEIVER.name, question=question, task=PERCEPTION, scene=entity))
        for (entity, pictures), message in zip(pictures_of.items(), await asyncio.gather(*turns), strict=True):
            self._keep_description(entity, pictures, message)

    def _validate(self, path: GraphPath, pictures: Sequence[Source]) -> Awaitable[Message]:
        """Asks whether a path is enough and, where the validator sees pictures of its end, what these show."""
        instruction = VALIDATE.format(path.end)
        fields: tuple[Field, ...] = (ENOUGH,)
        if pictures:
            instruction += LOOK.format(path.end)
            fields = (ENOUGH, DESCRIPTION)
        return self._session.ask(
            VALIDATOR.name,
            evidence=(*self._session.question.evidence, *pictures),
            task=Task(instruction, fields, self._findings(path)),
            heard=self._perceived,
        )

    def _keep_description(self, entity: str, pictures: Sequence[Source], message: Message) -> None:
        """Stores an agent's description of pictures, if any, as the text of the first."""
        for description in message.values(DESCRIPTION.name)[:1]:
            # There is a first picture: a description is asked for only where there are pictures.
            self._entity_texts[entity] += (replace(pictures[0], kind=Kind.TEXT, image=None, text=description),)
            self.descriptions[entity] = description

    def _findings(self, path: GraphPath) -> tuple[InputLine, ...]:
        """Writes the facts along a path, or else its end, as lines of a task."""
        texts = [f"{line.title}: {line.text}" for line in self.written(path)]
        return input_lines(FieldKind.FOUND, texts or [path.end])


def stated(edge: Triple) -> str:
    """Writes an edge as a sentence."""
    return f"{edge.head} {edge.relation} {edge.tail}."


def read_and_seen(sources: Sequence[Source], by_people: bool) -> tuple[tuple[Source, ...], tuple[Source, ...]]:
    """Returns the texts that agents read and the pictures that they see, which have a file.

    by_people: they see none, and read the captions that people wrote, each once.
    """
    pictures = pictures_among(sources)
    texts = tuple(source for source in sources if source not in pictures)
    if not by_people:
        return texts, tuple(picture for picture in pictures if picture.image is not None)
    captions: dict[str, Source] = {}
    for picture in pictures:
        if picture.text:
            # A caption that several pictures share goes with the first of them.
            captions.setdefault(picture.text, replace(picture, kind=Kind.TEXT, image=None))
    return (*texts, *captions.values()), ()


METHODS = tuple(
    system(
        name,
        setting.description,
        MhMmkg,
        ROLES,
        reads=("systems.paths",) if setting.knowledge == "searched" else (),
        rivals=setting.rivals,
        settings={"agents.temperature": 0},
    )
    for name, setting in SETTINGS.items()
)
