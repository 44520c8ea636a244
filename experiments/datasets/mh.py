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
from experiments.datasets.files import check_image, from_record
from experiments.datasets.folder import Folder
from experiments.datasets.item import Item, Score, text_score
from experiments.datasets.kind import DataRequest, DatasetKind
from experiments.datasets.layouts.fields import checked_value
from experiments.datasets.layouts.mh import NODE, QUESTION, RELATION, AskedQuestion
from experiments.datasets.sheets import read_placed, read_records
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

    def __init__(
        self,
        root: Path,
        *,
        train: int | None = None,
        limit: int | None = None,
        seed: int = 0,
        allow_links: bool = False,
    ) -> None:
        self._release = Folder(root, RELEASE, allow_links=allow_links)
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

        Pictures are opened and not decoded here: there are thousands, and they are of 4K.
        """
        for source in self._sources():
            if docs is None or source.doc in docs:
                if source.image is not None:
                    check_image(Path(source.image), decode=False)
                yield source

    def _sources(self) -> Iterator[Source]:
        for entity in self._entities.values():
            yield from sources_of(entity)
        for id in self._records:
            yield from self._pictures(id)

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
        paths = paths_of(record.route, record.monster, self._monsters)
        own = tuple(dict.fromkeys(source.doc for source in self._pictures(id)))
        return Item(
            question=Question(id, question_text(record)),
            gold=(record.answer,),
            pool=(*own, *self._documents),
            # An entity that the sheets only name has no source, so it is in no pool and cannot support.
            supporting=tuple(entity for entity in dict.fromkeys(sum(paths, ())) if entity in self._documents),
            own=own,
            paths=paths,
            topics=self._topics,
            tags={
                "task": TASKS[record.task],
                "monster": record.monster,
                # A path of n entities has n - 1 edges.
                "hops": str(max(map(len, paths)) - 1),
            },
        )

    def _pictures(self, id: str) -> tuple[Source, ...]:
        record = self._records[id]
        if not record.image and not record.perception:
            return ()
        frames = self._frames(f"{self._list}, question {id}", record.image, "questions_mh", record.file)
        return pictures(f"{id}:picture", BATTLE, record.perception, frames)

    @property
    def _list(self) -> Path:
        return self._release.find("questions_mh/question_list.xlsx")

    @cached_property
    def _records(self) -> dict[str, AskedQuestion]:
        """The rows by id: the `File`, with a number where several questions are about one."""
        path = self._list
        counted: Counter[str] = Counter()
        records: dict[str, AskedQuestion] = {}
        for cells in read_records(path, COLUMNS):
            where = f"{path}, question {cells['File']}"
            record = checked_value(QUESTION, cells, where)
            if not paths_of(record.route, record.monster, ()):
                raise UserError(f"{where}: Search Route: expected a path such as A>B, found {record.route!r}")
            counted[record.file] += 1
            # The first question on a file keeps its name, so that ids of files with one question have no number.
            id = record.file if counted[record.file] == 1 else f"{record.file}#{counted[record.file]}"
            if id in records:
                raise UserError(f"{where}: the id {id} is there twice: give one of the files another name")
            records[id] = record
        if not records:
            raise UserError(f"{path} has no questions: copy it again from {RELEASE}")
        return records

    @cached_property
    def _monsters(self) -> frozenset[str]:
        return frozenset(record.monster for record in self._records.values()) | set(self._monster_folders)

    @cached_property
    def _topics(self) -> tuple[str, ...]:
        return tuple(self._monster_folders)

    @cached_property
    def _monster_folders(self) -> tuple[str, ...]:
        if self._release.folder("mmkg") is None:
            raise UserError(
                f"missing folder {self._release.root / 'mmkg'}, the knowledge graph: unpack it there from {RELEASE}"
            )
        # Sorted, as the first sheet with content for an entity wins.
        return tuple(self._release.folders("mmkg"))

    @cached_property
    def _entities(self) -> dict[str, Entity]:
        """By name; an entity that several monsters' sheets name has the first row with any content."""
        entities: dict[str, Entity] = {}
        for monster in self._monster_folders:
            path = self._release.find(f"mmkg/{monster}/Node.xlsx")
            for row in read_placed(path, NODE):
                entity = entity_name(row.name, monster, self._monsters)
                known = entities.get(entity)
                # Another monster's sheet may only mention it, with empty columns.
                if known is None or not (known.frames or known.caption or known.information):
                    frames = self._frames(
                        f"{path}, entity {row.name}", row.picture, "mmkg", monster, "Knowledge_Images"
                    )
                    entities[entity] = Entity(entity, frames, row.caption, row.information)
        return entities

    @cached_property
    def _documents(self) -> dict[str, None]:
        """The documents of the graph: entities that have a source."""
        return dict.fromkeys(entity.name for entity in self._entities.values() if any(sources_of(entity)))

    @cached_property
    def _triples(self) -> dict[str, Triple]:
        triples = {}
        for monster in self._monster_folders:
            # The authors' description calls it Relation.xlsx, their code Relations.xlsx.
            first = self._release.file(f"mmkg/{monster}/Relation.xlsx")
            path = first or self._release.find(f"mmkg/{monster}/Relations.xlsx")
            for row in read_placed(path, RELATION):
                ends = [entity_name(end, monster, self._monsters) for end in (row.head, row.tail)]
                stated = f"{row.relation} (if {row.condition})" if row.condition else row.relation
                # Several monsters' sheets may state one edge: by its text it counts once.
                id = f"{ends[0]} | {stated} | {ends[1]}"
                triples[id] = Triple(id, ends[0], stated, ends[1])
        return triples

    def _frames(self, where: str, name: str, *folder: str) -> tuple[str, ...]:
        """The files of a picture, which is one or a folder of frames, in their order in time; none where it is missing.

        Raises UserError, beginning with `where`, for a name that leads outside of the release.
        """
        return from_record(name, lambda name: self._found(*folder, name), where) if name else ()

    def _found(self, *names: str) -> tuple[str, ...]:
        if self._release.folder(*names):
            files = [file for file in self._release.files_below(*names) if file.suffix.lower() in SUFFIXES]
            return tuple(str(file) for file in sorted(files, key=_in_time))
        file = self._release.file(*names)
        return (str(file),) if file else ()


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


def question_text(record: AskedQuestion) -> str:
    """The question after its extra information, with the monster's name in every gap; gaps have no spaces around."""
    parts = [f"In Monster Hunter: World, in a fight with {record.monster}:", record.extra, record.question]
    text = " ".join(" ".join(parts).replace("{}", f" {record.monster} ").split())
    # A name filled into a gap may now be followed by a space and then punctuation ("Rathian 's").
    return re.sub(r" (?=[.,?!'\u2019])", "", text)


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


def _make(request: DataRequest) -> Mh:
    data = request.settings
    return Mh(request.root, train=request.train, limit=data.limit, seed=request.seed, allow_links=data.allow_links)


MH = DatasetKind("mh", RELEASE, _make, directed=True, advice=ADVICE, rubric="same_answer")
