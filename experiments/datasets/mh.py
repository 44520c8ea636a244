"""MH-Benchmark (Wang et al. 2025): questions about monsters of a game, and MH-MMKG, the knowledge graph they need.

One folder holds both parts of the release:

- questions_mh/question_list.xlsx, with the columns of `COLUMNS` and one question a row; the picture `Image` of the
  question `File` is questions_mh/<File>/<Image>, one file or a folder of video frames.
- mmkg/<monster>/Node.xlsx, a row per entity: name, picture, video, what the clip shows, and further information;
  mmkg/<monster>/Relations.xlsx, a row per edge: head, relation, information, condition, tail. Columns count by their
  places, whatever their headers. Pictures lie in mmkg/<monster>/Knowledge_Images, one file or a folder of frames.

In a monster's sheets and in the question list's paths, entities go by their names within that monster's part of the
graph: `Bite` of Rathian is here, as in the release's own code, the entity `Rathian Bite`. Monsters, elements and the
Pierce Pod belong to no monster. A path that passes through another monster goes on in that one's part.

Videos are not read: no model here takes them, and the authors use the key frames too. A picture whose file is not there
has only its caption, which people wrote: methods that have to see for themselves pass it over. An edge's condition is
part of its relation; its `information` is left out, as the authors do.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from actors.errors import UserError
from actors.messages import Kind, Question, Source, Triple
from experiments.datasets.files import find
from experiments.datasets.item import Item, Score, text_score
from experiments.datasets.kind import DatasetKind
from experiments.datasets.sheets import read_records, read_rows
from experiments.datasets.subset import choose, limited

RELEASE = "the data of github.com/wbw520/MH-MMKG"
COLUMNS = tuple("File,Image,Question,Monster Name,Extra Information,Perception,Search Route,Answer,Type".split(","))
TASKS = {  # Table 1; the release numbers its questions from 0, and in other proportions than the table
    "0": "individual information",
    "1": "attack recognition",
    "2": "combo premonition",
    "3": "condition awareness",
    "4": "proc effect insight",
    "5": "cross monster analysis",
}
BATTLE = "battle screen"  # the title of questions' pictures; by a monster's name they would be that entity's
NODE_COLUMNS, RELATION_COLUMNS = 5, 5  # at least; they are read by their places
OF_NO_MONSTER = ("Element", "Pierce Pod")  # parts of names that mean the same in every monster's sheets
SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".bmp")


@dataclass(frozen=True, slots=True)
class Entity:
    """A node: its key frames, what its clip shows (written by people), and what is known of it beside that."""

    name: str
    frames: tuple[str, ...]
    caption: str
    information: str


class Mh:
    """Questions of the release's single split, in the order of the list.

    `limit` caps the evaluated ones, chosen by `seed` (None: all 238); of the others, up to `train` are there to learn
    from.

    A question names its monster and what the authors add to it (z in the paper); its picture is its own source, with
    the description that people wrote as text. Its pool is that picture and the whole knowledge graph.
    """

    name = "mh"
    metric = "EM"

    def __init__(self, root: Path, *, train: int | None = None, limit: int | None = None, seed: int = 0) -> None:
        self._root = root
        self._train = train
        self._limit = limit
        self._seed = seed

    def train(self) -> Iterator[Item]:
        evaluated = choose(self._records, self._limit, self._seed)
        # Without a limit every question is evaluated, and none is left to learn from.
        others = [] if evaluated is None or self._train == 0 else [id for id in self._records if id not in evaluated]
        # `choose` refuses a count of 0: None takes all of `others`, which are none then.
        return map(self._item, limited(others, str, self._train or None, self._seed))

    def evaluate(self) -> Iterator[Item]:
        return map(self._item, limited(list(self._records), str, self._limit, self._seed))

    def corpus(self, docs: Container[str] | None = None) -> Iterator[Source]:
        """Every entity's information and key frames, then the questions' pictures; with `docs`, those only.

        Pictures are not decoded here: there are thousands, and they are of 4K.
        """
        for entity in self._entities.values():
            if docs is None or entity.name in docs:
                yield from sources_of(entity)
        for id in self._records:
            for source in self._pictures(id):
                if docs is None or source.doc in docs:
                    yield source

    def triples(self) -> Iterator[Triple]:
        """Every edge once. Raises UserError for a sheet that is missing or of another form."""
        return iter(self._triples.values())

    def captions(self) -> Mapping[str, str]:
        """What people wrote of the entities' pictures, by entity: a label of Table 4's Sim., and in no agent's prompt
        where agents describe the pictures themselves."""
        return {entity.name: entity.caption for entity in self._entities.values() if entity.caption}

    def score(self, item: Item, answer: str | None) -> Score:
        """EM and F1 against the one gold answer, most of which are sentences: the paper has a model judge them."""
        return text_score(item, answer)

    def _item(self, id: str) -> Item:
        record = self._records[id]
        paths = paths_of(record["Search Route"], record["Monster Name"], self._monsters)
        own = tuple(dict.fromkeys(source.doc for source in self._pictures(id)))
        return Item(
            question=Question(id, question_text(record)),
            gold=(record["Answer"],),
            pool=(*own, *self._documents),
            # An entity that the sheets only name has no source, so it is in no pool and cannot support.
            supporting=tuple(entity for entity in dict.fromkeys(sum(paths, ())) if entity in self._documents),
            own=own,
            paths=paths,
            topics=self._topics,
            tags={
                "task": TASKS[record["Type"]],
                "monster": record["Monster Name"],
                # A path of n entities has n - 1 edges.
                "hops": str(max(map(len, paths)) - 1),
            },
        )

    def _pictures(self, id: str) -> tuple[Source, ...]:
        record = self._records[id]
        if not record["Image"] and not record["Perception"]:
            return ()
        frames = frames_of(self._root / "questions_mh" / record["File"], record["Image"])
        return pictures(f"{id}:picture", BATTLE, record["Perception"], frames)

    @cached_property
    def _records(self) -> dict[str, dict[str, str]]:
        """The rows by id: the `File`, with a number where several questions are about one."""
        path = find(self._root / "questions_mh", "question_list.xlsx", RELEASE)
        counted: Counter[str] = Counter()
        records = {}
        for record in read_records(path, COLUMNS):
            file = record["File"]
            counted[file] += 1
            where = f"{path}, question {file}"
            if record["Type"] not in TASKS or not record["Search Route"]:
                raise UserError(f"{where}: expected a Type from 0 to 5 and a Search Route; copy the file again")
            # The first question on a file keeps its name, so that ids of files with one question have no number.
            records[file if counted[file] == 1 else f"{file}#{counted[file]}"] = record
        return records

    @cached_property
    def _monsters(self) -> frozenset[str]:
        return frozenset(record["Monster Name"] for record in self._records.values()) | set(self._folders)

    @cached_property
    def _topics(self) -> tuple[str, ...]:
        return tuple(sorted(self._folders))

    @cached_property
    def _folders(self) -> dict[str, Path]:
        graph = self._root / "mmkg"
        if not graph.is_dir():
            raise UserError(f"missing folder {graph}, the knowledge graph: unpack it there from {RELEASE}")
        # Sorted: file systems list in different orders, and the first sheet with content for an entity wins.
        return {folder.name: folder for folder in sorted(graph.iterdir()) if folder.is_dir()}

    @cached_property
    def _entities(self) -> dict[str, Entity]:
        """By name; an entity that several monsters' sheets name has the first row with any content."""
        entities: dict[str, Entity] = {}
        for monster, folder in self._folders.items():
            for name, picture, _, caption, information, *_ in read_rows(
                find(folder, "Node.xlsx", RELEASE), NODE_COLUMNS
            ):
                entity = entity_name(name, monster, self._monsters)
                known = entities.get(entity)
                # Another monster's sheet may only mention it, with empty columns.
                if known is None or not (known.frames or known.caption or known.information):
                    frames = frames_of(folder / "Knowledge_Images", picture)
                    entities[entity] = Entity(entity, frames, caption, information)
        return entities

    @cached_property
    def _documents(self) -> dict[str, None]:
        """The documents of the graph: entities that have a source."""
        return dict.fromkeys(entity.name for entity in self._entities.values() if any(sources_of(entity)))

    @cached_property
    def _triples(self) -> dict[str, Triple]:
        triples = {}
        for monster, folder in self._folders.items():
            # The authors' description calls it Relation.xlsx, their code Relations.xlsx.
            name = "Relation.xlsx" if (folder / "Relation.xlsx").is_file() else "Relations.xlsx"
            for head, relation, _, condition, tail, *_ in read_rows(find(folder, name, RELEASE), RELATION_COLUMNS):
                ends = [entity_name(end, monster, self._monsters) for end in (head, tail)]
                stated = f"{relation} (if {condition})" if condition else relation
                # Several monsters' sheets may state one edge: by its text it counts once.
                id = f"{ends[0]} | {stated} | {ends[1]}"
                triples[id] = Triple(id, ends[0], stated, ends[1])
        return triples


def entity_name(name: str, monster: str, monsters: Container[str]) -> str:
    """An entity's name in the whole graph, from its name in one monster's part."""
    if not name or name in monsters or any(word in name for word in OF_NO_MONSTER):
        return name
    return f"{monster} {name}"


def paths_of(route: str, monster: str, monsters: Container[str]) -> tuple[tuple[str, ...], ...]:
    """The annotated paths, written `A>B;A>C>D` in the list, each from its root on."""
    paths = []
    for path in filter(None, (part.strip() for part in route.split(";"))):
        inside, entities = monster, []
        for name in map(str.strip, path.split(">")):
            inside = name if name in monsters else inside  # further names are of that monster's part
            entities.append(entity_name(name, inside, monsters))
        paths.append(tuple(entities))
    return tuple(paths)


def question_text(record: dict[str, str]) -> str:
    """The question after its extra information, with the monster's name in every gap; gaps have no spaces around."""
    monster, extra = record["Monster Name"], record["Extra Information"]
    parts = [f"In Monster Hunter: World, in a fight with {monster}:", extra, record["Question"]]
    text = " ".join(" ".join(parts).replace("{}", f" {monster} ").split())
    # A name filled into a gap may now be followed by a space and then punctuation ("Rathian 's").
    return re.sub(r" (?=[.,?!'\u2019])", "", text)


def frames_of(folder: Path, name: str) -> tuple[str, ...]:
    """The files of a picture, which is one or a folder of frames, in their order in time; none where it is missing."""
    if not name:
        return ()
    path = folder / name
    if path.is_dir():
        files = [file for file in path.rglob("*") if file.suffix.lower() in SUFFIXES]
        return tuple(str(file) for file in sorted(files, key=_in_time))
    return (str(path),) if path.is_file() else ()


def _in_time(file: Path) -> tuple[list[int], str]:
    # By number: frame-10 comes after frame-9.
    return [int(number) for number in re.findall(r"\d+", file.stem)], file.name


def sources_of(entity: Entity) -> tuple[Source, ...]:
    """An entity's information as text, and its clip's frames with their caption; all one document."""
    name, text = entity.name, entity.information
    stated = (Source(name, name, Kind.TEXT, name, text),) if text else ()
    return (*stated, *pictures(name, name, entity.caption, entity.frames))


def pictures(doc: str, title: str, caption: str, frames: tuple[str, ...]) -> tuple[Source, ...]:
    """The frames of one clip, all with its caption; without any file, the caption alone, or nothing."""
    # A caption without a file is still an image source: those who see pictures get its text.
    files = frames or ((None,) if caption else ())
    return tuple(
        Source(f"{doc}:{number}", doc, Kind.IMAGE, title, caption, file) for number, file in enumerate(files, 1)
    )


ADVICE = (  # the rules of the game that the authors give their expansion agent
    "Pick attacks always, unless they clearly have nothing to do with the question. Of several phases of one monster "
    "pick only the one that the question is about."
)

MH = DatasetKind(
    "mh",
    RELEASE,
    lambda r: Mh(r.root, train=r.train, limit=r.settings.limit, seed=r.seed),
    directed=True,
    advice=ADVICE,
    rubric="same_answer",
)
