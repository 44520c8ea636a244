"""MH-Benchmark (Wang et al. 2025): questions about monsters of a game, and MH-MMKG, the knowledge graph they need.

One folder holds both parts of the release:

- questions_mh/question_list.xlsx, one question a row; the picture `Image` of the question `File` is
  questions_mh/<File>/<Image>, one file or a folder of video frames.
- mmkg/<monster>/Node.xlsx, a row per entity, and mmkg/<monster>/Relations.xlsx, a row per edge. Columns count by their
  places, whatever their headers. Pictures are in mmkg/<monster>/Knowledge_Images, one file or a folder of frames.

A monster's sheets and the question list's paths name entities within that monster's part of the graph: `Bite` of
Rathian is here, as in the release's own code, the entity `Rathian Bite`. Monsters, elements and the Pierce Pod belong
to no monster. A path that passes through another monster continues in that one's part.

Videos are not read: no model here takes them, and the authors use the key frames too. A picture whose file is not there
has only its caption, which people wrote: methods that have to see for themselves ignore it. An edge's condition is part
of its relation; its `information` is left out, as the authors do.
"""

import re
from collections import Counter
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from actors.errors import UserError
from actors.messages import Kind, Question, Source, Triple
from experiments.datasets.benchmark import Benchmark, Parts, docs_of, text_source
from experiments.datasets.fields import Id, Label, NonBlank, Text
from experiments.datasets.item import Item
from experiments.datasets.reading import placed
from experiments.datasets.sheets import read_sheet

QUESTIONS = "questions_mh/question_list.xlsx"
TASKS = {  # Table 1; the release numbers its questions from 0, and in other proportions than the table
    "0": "individual information",
    "1": "attack recognition",
    "2": "combo premonition",
    "3": "condition awareness",
    "4": "proc effect insight",
    "5": "cross monster analysis",
}
BATTLE = "battle screen"  # the title of questions' pictures; by a monster's name they would be that entity's
OF_NO_MONSTER = ("Element", "Pierce Pod")  # parts of names that mean the same in every monster's sheets
NODES = ("Node.xlsx",)
EDGES = ("Relation.xlsx", "Relations.xlsx")  # in the authors' description, and in their code
ADVICE = (  # the rules of the game that the authors give their expansion agent
    "Pick attacks always, unless they clearly have nothing to do with the question. Of several phases of one monster "
    "pick only the one that the question is about."
)
SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".bmp")


@dataclass(frozen=True, slots=True)
class MhQuestion:
    """A row of question_list.xlsx, by its columns."""

    file: Annotated[Id, Field(alias="File")]
    image: Annotated[Label, Field(alias="Image")]
    question: Annotated[NonBlank, Field(alias="Question")]
    monster: Annotated[Id, Field(alias="Monster Name")]
    extra: Annotated[Text, Field(alias="Extra Information")]
    perception: Annotated[Text, Field(alias="Perception")]
    route: Annotated[Label, Field(alias="Search Route")]
    answer: Annotated[NonBlank, Field(alias="Answer")]
    task: Annotated[Literal["0", "1", "2", "3", "4", "5"], Field(alias="Type")]

    @property
    def text(self) -> str:
        """Question after its extra information, with the monster's name in every gap."""
        text = f"In Monster Hunter: World, in a fight with {self.monster}: {self.extra} {self.question}"
        # Gaps have no spaces around them.
        text = " ".join(text.replace("{}", f" {self.monster} ").split())
        # A space may now be before punctuation ("Rathian 's").
        return re.sub(r" (?=[.,?!'\u2019])", "", text)


@dataclass(frozen=True, slots=True)
class MhNode:
    """A row of a monster's Node.xlsx. `caption` is what people wrote about the clip."""

    name: Label
    picture: Label
    video: Text
    caption: Text
    information: Text


@dataclass(frozen=True, slots=True)
class MhEdge:
    """A row of a monster's Relations.xlsx."""

    head: Label
    relation: Label
    information: Text
    condition: Label
    tail: Label


class Mh(Benchmark):
    """Questions of the release's single split, in the order of the list. Training questions are not evaluated ones.

    A question names its monster and the authors' extra information (z in the paper); its picture is its own source,
    with people's description as text. Its pool is that picture and the whole knowledge graph. Most gold answers are
    sentences, which the paper has a model judge.
    """

    name = "mh"
    release = "the data of github.com/wbw520/MH-MMKG"
    parts: ClassVar[Parts] = {QUESTIONS: (QUESTIONS,), "mmkg": ("mmkg",)}
    evaluated = "all"
    directed = True
    advice = ADVICE
    rubric = "same_answer"

    def split(self, name: str, count: int | None) -> Iterator[Item]:
        ids = list(self.questions)
        if name == "train":
            # Without a limit every question is evaluated, and none is left to learn from.
            evaluated = set(self.chosen(ids, str, self.settings.limit))
            ids = [id for id in ids if id not in evaluated]
        return map(self.item, self.chosen(ids, str, count))

    def item(self, id: str) -> Item:
        question = self.questions[id]
        paths = paths_of(question.route, question.monster, self.monsters)
        pictures = docs_of(self.pictures_of(id))
        path_entities = dict.fromkeys(chain.from_iterable(paths))
        # A path of n entities has n - 1 edges.
        hops = max(map(len, paths)) - 1
        return Item(
            question=Question(id, question.text),
            gold=(question.answer,),
            pool=(*pictures, *self.entities),
            # An entity that the sheets only name has no source, so it is in no pool and cannot support.
            supporting=tuple(entity for entity in path_entities if entity in self.entities),
            own=pictures,
            paths=paths,
            topics=self.folders,
            tags={"task": TASKS[question.task], "monster": question.monster, "hops": str(hops)},
            cluster=question.monster,
        )

    def sources(self) -> Iterator[Source]:
        """Every entity's information and key frames, then the questions' pictures."""
        yield from chain.from_iterable(self.entities.values())
        yield from chain.from_iterable(map(self.pictures_of, self.questions))

    def triples(self) -> Iterator[Triple]:
        """Every edge once. Raises UserError for a sheet that is missing or of another form."""
        triples: dict[str, Triple] = {}
        for monster in self.folders:
            for _, edge in read_sheet(self.folder.find(*sheet_of(monster, EDGES)), MhEdge, by_name=False):
                head = entity_name(edge.head, monster, self.monsters)
                tail = entity_name(edge.tail, monster, self.monsters)
                relation = f"{edge.relation} (if {edge.condition})" if edge.condition else edge.relation
                # Several monsters' sheets may state one edge, which counts once by its text.
                id = f"{head} | {relation} | {tail}"
                triples[id] = Triple(id, head, relation, tail)

        return iter(triples.values())

    def captions(self) -> Mapping[str, str]:
        """Lists people's captions, by entity: a label of Table 4's Sim., hidden from agents that describe."""
        captions: dict[str, str] = {}
        for source in chain.from_iterable(self.entities.values()):
            if source.kind is Kind.IMAGE and source.text:
                captions[source.doc] = source.text
        return captions

    def pictures_of(self, id: str) -> list[Source]:
        question = self.questions[id]
        with placed(f"{self.path(QUESTIONS)}, question {id}"):
            files = self.frames("questions_mh", question.file, question.image)
        return clip(f"{id}:picture", BATTLE, question.perception, files)

    def check_files(self) -> None:
        super().check_files()
        nodes = [sheet_of(monster, NODES) for monster in self.folders]
        edges = [sheet_of(monster, EDGES) for monster in self.folders]
        self.folder.require([*nodes, *edges])

    @cached_property
    def questions(self) -> dict[str, MhQuestion]:
        """Questions by id: the `File`, with a number where several questions are about one."""
        counts: Counter[str] = Counter()
        questions: dict[str, MhQuestion] = {}
        for where, question in read_sheet(self.path(QUESTIONS), MhQuestion, by_name=True):
            if not paths_of(question.route, question.monster, ()):
                raise UserError(f"{where}: Search Route: expected a path such as A>B, found {question.route!r}")
            counts[question.file] += 1
            # The first question on a file keeps its name, so that ids of files with one question have no number.
            id = question.file if counts[question.file] == 1 else f"{question.file}#{counts[question.file]}"
            if id in questions:
                raise UserError(f"{where}: the id {id} is there twice: give one of the files another name")
            questions[id] = question

        return questions

    @cached_property
    def monsters(self) -> frozenset[str]:
        return frozenset(question.monster for question in self.questions.values()) | set(self.folders)

    @cached_property
    def folders(self) -> tuple[str, ...]:
        # Sorted: the first sheet with content for an entity wins.
        return tuple(self.folder.folders("mmkg"))

    @cached_property
    def entities(self) -> dict[str, list[Source]]:
        """Information and frames of every entity, as one document. Of several rows the first with content counts."""
        entities: dict[str, list[Source]] = {}
        for monster in self.folders:
            for where, node in read_sheet(self.folder.find(*sheet_of(monster, NODES)), MhNode, by_name=False):
                name = entity_name(node.name, monster, self.monsters)
                # Another monster's sheet may only mention it, with empty columns.
                if name in entities:
                    continue
                with placed(where):
                    files = self.frames("mmkg", monster, "Knowledge_Images", node.picture)
                sources = [text_source(name, name, node.information)] if node.information else []
                sources += clip(name, name, node.caption, files)
                if sources:
                    entities[name] = sources

        return entities

    def frames(self, *place: str) -> list[str]:
        """Lists the files of a clip. `place`: folders, and the name of a picture or of a folder of frames, or empty."""
        if not place[-1]:
            return []
        if not self.folder.folder(*place):
            picture = self.picture(*place)
            return [picture] if picture else []
        frames = [file for file in self.folder.files_below(*place) if file.suffix.lower() in SUFFIXES]
        # In their order in time, by number: frame-10 comes after frame-9.
        frames.sort(key=lambda file: ([int(number) for number in re.findall(r"\d+", file.stem)], file.name))
        return list(map(str, frames))


def sheet_of(monster: str, names: tuple[str, ...]) -> list[str]:
    return [f"mmkg/{monster}/{name}" for name in names]


def clip(doc: str, title: str, caption: str, files: list[str]) -> list[Source]:
    """Makes the sources of a clip, which all have its caption."""
    if caption and not files:
        # An image source too: agents that read pictures get its text.
        return [Source(f"{doc}:1", doc, Kind.IMAGE, title, caption)]
    sources: list[Source] = []
    for number, file in enumerate(files, start=1):
        sources.append(Source(f"{doc}:{number}", doc, Kind.IMAGE, title, caption, file))
    return sources


def entity_name(name: str, monster: str, monsters: Container[str]) -> str:
    """Names an entity in the whole graph, from its name in one monster's part."""
    if not name or name in monsters or any(word in name for word in OF_NO_MONSTER):
        return name
    return f"{monster} {name}"


def paths_of(route: str, monster: str, monsters: Container[str]) -> tuple[tuple[str, ...], ...]:
    """Reads the annotated paths, written `A>B;A>C>D` in the list, each from its root on."""
    paths: list[tuple[str, ...]] = []
    for path in route.split(";"):
        if not path.strip():
            continue
        part = monster
        entities: list[str] = []

        for name in map(str.strip, path.split(">")):
            if name in monsters:
                part = name  # further names are of that monster's part
            entities.append(entity_name(name, part, monsters))

        paths.append(tuple(entities))

    return tuple(paths)
