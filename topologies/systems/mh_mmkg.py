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
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Literal

from actors.messages import Field, FieldKind, Kind, Message, Modality, Role, Source, Task, Triple, Value
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
        question, library, setting = session.question, self.context.library, SETTINGS[self.method]
        own = await session.own()
        # Agents that do not see read people's captions from here on, as texts of the question.
        texts, pictures = read_and_seen(own, by_people=not setting.see)
        heard: list[Message] = []
        if setting.knowledge == "searched" and pictures:
            heard = [await session.ask(PERCEIVER.name, evidence=pictures, task=Task(PERCEIVE, (DESCRIPTION,)))]
        # Made in every setting: it also writes annotated paths.
        session.question = about(question, texts)
        search = _Search(session, heard, setting, await library.topics(question))
        paths: tuple[GraphPath, ...] = ()
        if setting.knowledge == "searched":
            paths = await search.run(self.context.systems.paths, self.context.directed, self.context.advice)
            # Empty, and not None: a search that found nothing.
            session.paths = tuple(path.entities for path in paths)
            session.descriptions = tuple(search.descriptions.items())
        elif setting.knowledge == "annotated":
            paths = await search.follow(await library.annotated(question))
        # Not `together`: each path is shown in full, even where it repeats an earlier one.
        knowledge = [line for path in paths for line in search.written(path)]
        offline = setting.captions == "offline"
        evidence = (*texts, *(() if offline else pictures), *knowledge)
        instruction = SUMMARIZE if knowledge else ""
        return await session.ask(
            SUMMARIZER.name, evidence=evidence, heard=heard if offline else (), instruction=instruction
        )


@dataclass
class _Search:
    """Search of one discussion.

    heard: the perceiver's description, if any, which every agent reads.
    entity_texts: known facts of each entity met, as text; descriptions: agents' descriptions of its pictures.
    """

    session: Session
    heard: Sequence[Message]
    setting: MhSetting
    topics: tuple[str, ...]
    entity_texts: dict[str, tuple[Source, ...]] = field(default_factory=dict)
    descriptions: dict[str, str] = field(default_factory=dict)

    async def run(self, paths: int, directed: bool, advice: str) -> tuple[GraphPath, ...]:
        """Searches for paths, at most `paths`; none without a topic. `advice` is for the expander."""
        if not (topics := self.topics):
            named = await self.session.ask(TOPIC.name, task=Task(NAME, (ENTITY,)), heard=self.heard)
            names = named.values(ENTITY.name)
            near = await self.session.graph(names, EDGES, of=named) if names else ()
            ends = [(edge.head,) if directed else (edge.head, edge.tail) for edge in near]
            nearest = tuple(dict.fromkeys(entity for edge_ends in ends for entity in edge_ends))
            # The graph's entities with the names that the topic agent gave, or else the nearest ones.
            topics = tuple(entity for entity in nearest if any(same(entity, name) for name in names)) or nearest
        if not topics:
            return ()
        task = Task(PICK, (PICKED,), input_lines(FieldKind.CANDIDATE, topics, numbered=True))
        picked = await self.session.ask(TOPIC.name, task=task, heard=self.heard)
        if not (chosen := numbered(picked, PICKED.name, topics)):
            return ()
        topic = chosen[0]
        search = PathSearch(topic, self.setting.order, paths=paths)
        # The topic alone may be enough.
        search.judge(await self._validated((GraphPath((topic,)),)))
        while batch := search.batch():
            edges = await asyncio.gather(*(self.session.neighbours(path.end) for path in batch))
            # All paths of a batch look ahead before any grows; `grow` drops an entity that two of them reach.
            ahead = [(path, search.ahead(path, around, directed)) for path, around in zip(batch, edges, strict=True)]
            leading = [(path, on) for path, on in ahead if on]
            expansions = []
            for path, on in leading:
                found = input_lines(FieldKind.FOUND, self._findings(path))
                candidates = input_lines(FieldKind.CANDIDATE, map(stated, on), numbered=True)
                task = Task(f"{EXPAND} {advice}".rstrip(), (USEFUL,), (*found, *candidates))
                expansions.append(self.session.ask(EXPANDER.name, task=task, heard=self.heard))
            grown: list[GraphPath] = []
            for (path, on), useful in zip(leading, await asyncio.gather(*expansions), strict=True):
                grown += search.grow(path, numbered(useful, USEFUL.name, on))
            search.judge(await self._validated(grown))
        return search.result()

    async def follow(self, annotated: Sequence[Sequence[str]]) -> tuple[GraphPath, ...]:
        """Looks the entities of annotated paths up. An edge that the graph lacks is left out."""
        for name in dict.fromkeys(entity for path in annotated for entity in path):
            self.entity_texts[name], _ = read_and_seen(await self.session.entity(name), by_people=True)
        paths = []
        for entities in annotated:
            edges: list[Triple] = []
            for head, tail in pairwise(entities):
                around = await self.session.neighbours(head)
                # Of parallel edges the first will do.
                edges += [edge for edge in around if same(edge.head, head) and same(edge.tail, tail)][:1]
            paths.append(GraphPath(tuple(entities), tuple(edges)))
        return tuple(paths)

    def written(self, path: GraphPath) -> tuple[Source, ...]:
        """Writes a path as text: each entity's facts, and after them the edge to the next, under the path so far."""
        lines: list[Source] = []
        for place, entity in enumerate(path.entities):
            before = path.entities[max(0, place - 1)]
            for edge in path.edges:
                # Compared as a set, since an edge may have been followed against its direction.
                if place and {wording(edge.head), wording(edge.tail)} == {wording(before), wording(entity)}:
                    title = " > ".join(path.entities[: place + 1])
                    lines.append(Source(edge.id, edge.source or edge.id, Kind.TEXT, title, stated(edge)))
            lines += self.entity_texts.get(entity, ())
        return tuple(lines)

    async def _validated(self, paths: Sequence[GraphPath]) -> list[tuple[GraphPath, bool]]:
        """Looks the paths' ends up, describes their pictures, and has each path judged (Eq. 8)."""
        ask, captions = self.session.ask, self.setting.captions
        found = await asyncio.gather(*(self.session.entity(path.end) for path in paths))
        met = [read_and_seen(sources, by_people=captions == "people") for sources in found]
        # Before the verdicts: their findings include these texts.
        self.entity_texts |= {path.end: texts for path, (texts, _) in zip(paths, met, strict=True)}
        looked = [(path, pictures) for path, (_, pictures) in zip(paths, met, strict=True)]
        if captions == "offline":
            seen = {path.end: pictures for path, pictures in looked if pictures}
            asked = {end: about(self.session.question, of, CAPTION.format(end)) for end, of in seen.items()}
            task = Task(PERCEIVE, (DESCRIPTION,))
            turns = (ask(PERCEIVER.name, question=each, task=task, scene=end) for end, each in asked.items())
            for (end, pictures), caption in zip(seen.items(), await asyncio.gather(*turns), strict=True):
                self._describe(end, pictures, caption)
        # As in the authors' code, a monster's own pictures are not shown: its attacks have theirs.
        shown = [pictures if captions == "online" and path.end not in self.topics else () for path, pictures in looked]
        validations = []
        for path, pictures in zip(paths, shown, strict=True):
            instruction = VALIDATE.format(path.end) + (LOOK.format(path.end) if pictures else "")
            fields = (ENOUGH, DESCRIPTION) if pictures else (ENOUGH,)
            task = Task(instruction, fields, input_lines(FieldKind.FOUND, self._findings(path)))
            evidence = (*self.session.question.evidence, *pictures)
            validations.append(ask(VALIDATOR.name, evidence=evidence, task=task, heard=self.heard))
        verdicts = await asyncio.gather(*validations)
        for path, pictures, verdict in zip(paths, shown, verdicts, strict=True):
            # After the verdict: the validator's own description is for the turns that follow.
            self._describe(path.end, pictures, verdict)
        return [(path, verdict.values(ENOUGH.name) == ("yes",)) for path, verdict in zip(paths, verdicts, strict=True)]

    def _describe(self, entity: str, pictures: Sequence[Source], message: Message) -> None:
        """Stores an agent's description of pictures, if any, as the text of the first."""
        for description in message.values(DESCRIPTION.name)[:1]:
            # There is a first picture: a description is asked for only where there are pictures.
            self.entity_texts[entity] += (replace(pictures[0], kind=Kind.TEXT, image=None, text=description),)
            self.descriptions[entity] = description

    def _findings(self, path: GraphPath) -> list[str]:
        return [f"{line.title}: {line.text}" for line in self.written(path)] or [path.end]


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
    # Reversed twice: a caption that several pictures share goes with the first of them.
    captions = {picture.text: picture for picture in reversed(pictures) if picture.text}
    return (*texts, *(replace(each, kind=Kind.TEXT, image=None) for each in reversed(captions.values()))), ()


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
