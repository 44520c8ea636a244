"""A knowledge graph states what its corpus states, is searched within a question's pool, and is built once."""

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from actors.errors import StoreError
from actors.messages import UNTITLED_PASSAGE, UNTITLED_PICTURE, UNTITLED_TABLE, Kind, Question, Source, Triple
from experiments.datasets.item import Item
from experiments.datasets.scienceqa import ScienceQa
from experiments.evidence.evidence import Evidence
from experiments.evidence.library import LabelledLibrary, triples_given
from experiments.evidence.retrieval_settings import RetrievalSettings
from retrieval.built_folder import MARKER
from retrieval.embed import LexicalEncoder
from retrieval.graph import KnowledgeGraph
from retrieval.graph_tables import triples_of
from retrieval.store import SearchSpace, Store
from retrieval.triple_rules import MENTIONED

SOURCES = (
    Source("p1", "p1", Kind.TEXT, "Amber Valley", "Amber Valley is a comedy. It was directed by Fivan Jurn."),
    Source("p2", "p2", Kind.TEXT, "Rusty Garden", "The director of Rusty Garden was Tona Stornley."),
    Source("p3", "p3", Kind.TEXT, "Fivan Jurn", "Fivan Jurn was born in Hesstead."),
    Source("t1:0", "t1", Kind.TABLE, "Drova Buxen - Films", "Year = 1971; Title = Amber Valley; Studio = Travick"),
    Source("i1", "i1", Kind.IMAGE, "Amber Valley", "The poster shows two red bells and a blue cat.", "amber.png"),
)


def corpus() -> Iterator[Source]:
    return iter(SOURCES)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store.open(tmp_path_factory.mktemp("knowledge"), corpus, LexicalEncoder())


@pytest.fixture(scope="module")
def graph(store: Store) -> KnowledgeGraph:
    return KnowledgeGraph.open(store)


def edges(triples: list[Triple]) -> list[tuple[str, str, str]]:
    return [(triple.head, triple.relation, triple.tail) for triple in triples]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Kodo is a quiet town. It lies on the River Letash.", ("Kodo", "lies on", "River Letash")),
        ("Kodo is a quiet town.", ("Kodo", "is a", "quiet town")),
        ("The mayor of Kodo is Ana Brix.", ("Kodo", "mayor", "Ana Brix")),
        ("Kodo is a town. The founder of the town was Ana Brix.", ("Kodo", "founder", "Ana Brix")),
        ("Kodo was founded in 1923.", ("Kodo", "was founded in", "1923")),
        ("Visitors know Kodo for its famous exhibit, the Drutis Casket.", ("Kodo", "mentioned with", "Drutis Casket")),
        ("A solid has a shape of its own.", ("solid", "has", "a shape of its own")),
    ],
)
def test_rules_read_statements_off_sentences(text: str, expected: tuple[str, str, str]) -> None:
    assert expected in edges(list(triples_of(Source("s", "s", Kind.TEXT, "Kodo", text))))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "Ana Brix was born on August 4, 1961 in Honolulu.",
            [("Ana Brix", "was born on", "August 4, 1961"), ("Ana Brix", "was born in", "Honolulu")],
        ),
        (
            "Ana Brix was born in Warsaw on 7 November 1867 and died in 1934.",
            [
                ("Ana Brix", "was born in", "Warsaw"),
                ("Ana Brix", "was born on", "7 November 1867"),
                ("Ana Brix", "died in", "1934"),
            ],
        ),
        (
            "In 1931 Ana Brix opened the Iron Bridge.",
            [("Ana Brix", "opened in", "1931"), ("Ana Brix", "opened", "Iron Bridge")],
        ),
        (
            "The show of 3 May 1990 had Tom Vale and Ana Brix (1961) in it.",
            [("Tom Vale", "mentioned with", "Ana Brix")],
        ),
        ("Between 1950 and 1960 the town grew.", []),
    ],
)
def test_a_date_is_one_name_and_nothing_is_said_of_it(text: str, expected: list[tuple[str, str, str]]) -> None:
    assert edges(list(triples_of(Source("s", "s", Kind.TEXT, "Biography", text)))) == expected


def test_the_words_on_a_picture_are_one_statement_without_its_numbers() -> None:
    lettered = "A map of a coast. Lettering: Oklahoma; 4; 40N; West Virginia; Oklahoma."
    stated = edges(list(triples_of(Source("s", "s", Kind.IMAGE, "Geography", lettered))))
    assert stated == [("Geography", "shows", "A map of a coast"), ("Geography", "reads", "Oklahoma; West Virginia")]


def test_few_statements_of_a_release_are_words_on_its_pictures_and_none_are_of_dates(shared_data: Path) -> None:
    corpus = ScienceQa.at(shared_data / "scienceqa").corpus()
    stated = [triple for source in corpus for triple in triples_of(source)]
    assert sum(triple.relation == "reads" for triple in stated) < 0.15 * len(stated)
    assert not [triple for triple in stated if triple.relation == MENTIONED and triple.head.isdigit()]


def test_a_row_goes_by_its_first_name_and_a_caption_names_what_is_seen() -> None:
    row, picture = list(triples_of(SOURCES[3])), list(triples_of(SOURCES[4]))
    assert edges(row)[0] == ("Amber Valley", "listed in Films of", "Drova Buxen")
    assert ("Amber Valley", "Studio", "Travick") in edges(row)
    assert edges(picture) == [("Amber Valley", "shows", "two red bells"), ("Amber Valley", "shows", "a blue cat")]
    assert {triple.source for triple in row} == {"t1:0"}


def test_a_heading_is_nobody_that_a_pronoun_could_stand_for() -> None:
    asked = Source("s", "s", Kind.TEXT, "Designing experiments", "Chloe skips rocks. She looks at the river.")
    assert all(triple.head != "Designing experiments" for triple in triples_of(asked))


def test_the_title_of_an_untitled_source_names_no_entity(tmp_path: Path) -> None:
    untitled = (
        Source("p1", "p1", Kind.TEXT, UNTITLED_PASSAGE, "Ana Brix was born in Warsaw."),
        Source("t1:0", "t1", Kind.TABLE, UNTITLED_TABLE, "Year = 1971; Title = Amber Valley"),
        Source("i1", "i1", Kind.IMAGE, UNTITLED_PICTURE, "Picture of a coast. Tom Vale is a sailor.", "vale.png"),
    )
    graph = KnowledgeGraph.open(Store.open(tmp_path, lambda: iter(untitled), LexicalEncoder()))
    assert graph.neighbours("Ana Brix")
    assert graph.neighbours("Amber Valley")
    assert graph.neighbours("Tom Vale")
    for title in (UNTITLED_PASSAGE, UNTITLED_TABLE, UNTITLED_PICTURE):
        assert not graph.neighbours(title)
        assert not graph.entity(title)


def test_keywords_find_the_edges_of_the_nearest_entities_and_themes_those_of_a_relation(graph: KnowledgeGraph) -> None:
    assert edges(graph.search(["fivan jurn"], 2)) == [
        ("Fivan Jurn", "was born in", "Hesstead"),
        ("Amber Valley", "was directed by", "Fivan Jurn"),
    ]
    assert "Tona Stornley" in {triple.tail for triple in graph.search(["director of the film"], 2, level="theme")}


def test_nothing_is_found_outside_the_pool_or_withheld(graph: KnowledgeGraph) -> None:
    for level in ("entity", "theme"):
        found = graph.search(["Amber Valley", "director"], 20, level=level, space=SearchSpace(["p2", "t1"], ["t1:0"]))
        assert found
        assert {triple.source for triple in found} == {"p2"}
    without = SearchSpace(withheld=["p1"])
    assert {triple.source for triple in graph.neighbours("Amber Valley", without)} == {"t1:0", "i1"}
    assert graph.neighbours("Amber Valley", SearchSpace(["p2"])) == []
    assert [source.id for source in graph.entity("Amber Valley", SearchSpace(["i1"]))] == ["i1"]
    assert graph.search(["Amber Valley"], 5, space=SearchSpace([])) == []


def test_an_entity_has_neighbours_a_description_and_pictures_whatever_its_case(graph: KnowledgeGraph) -> None:
    assert graph.neighbours("AMBER  valley") == graph.neighbours("Amber Valley")
    assert [triple.id for triple in graph.neighbours("Fivan Jurn")] == ["p1#2", "p3#1"]
    assert [source.id for source in graph.entity("amber valley")] == ["p1", "t1:0", "i1"]
    assert graph.entity("Nobody") == [] == graph.neighbours("Nobody")


def test_of_an_entity_with_many_sources_the_nearest_come_and_those_of_the_pool_before_others(tmp_path: Path) -> None:
    lectures = [
        Source(f"{n:02}", f"{n:02}", Kind.TEXT, "Magnets", f"Magnets attract {thing}.")
        for n, thing in enumerate(["wood", "glass", *["nails"] * 9, "iron filings", "water"])
    ]
    evidence = Evidence(Store.open(tmp_path, lambda: iter(lectures), LexicalEncoder()), RetrievalSettings(scope="both"))
    asked = Item(Question("q", "What attracts iron?"), ("a magnet",), pool=("00", "11"))
    library = LabelledLibrary(evidence, [asked])

    def entity(k: int | None = None, near: str = "") -> list[str]:
        return [source.id for source in asyncio.run(library.entity(asked.question, "Magnets", k, near=near))]

    assert entity(1, "iron filings") == ["11"]
    assert entity(3, "water")[2] == "12"
    assert len(entity(4, "iron filings")) == 4
    assert len(entity()) == len(lectures)


def test_a_graph_is_built_once_and_another_for_other_triples(store: Store) -> None:
    def folders() -> set[Path]:
        return {path for path in store.folder.parent.glob("graph-*") if path.is_dir()}

    KnowledgeGraph.open(store)
    before = {path: path.stat().st_mtime_ns for path in folders()}
    KnowledgeGraph.open(store)
    assert {path: path.stat().st_mtime_ns for path in folders()} == before
    KnowledgeGraph.open(store, lambda: [Triple("1", "Amber Valley", "beats", "Rusty Garden")])
    assert len(folders()) == len(before) + 1


def test_the_steps_of_building_a_graph_are_shown_with_their_numbers(tmp_path: Path) -> None:
    store = Store.open(tmp_path, corpus, LexicalEncoder())
    steps: dict[str, tuple[int, int | None]] = {}
    waits: list[str] = []

    def counted(name: str, things: Iterable[Any], total: int | None) -> Iterator[Any]:
        number = 0
        for thing in things:
            number += 1
            yield thing
        steps[name] = (number, total)

    def waiting(name: str) -> AbstractContextManager[None]:
        waits.append(name)
        return nullcontext()

    KnowledgeGraph.open(store, counted=counted, waiting=waiting)
    assert list(steps) == ["reading triples of sources", "encoding entities"]
    assert steps["reading triples of sources"] == (len(SOURCES), len(SOURCES))
    entities, total = steps["encoding entities"]
    assert entities == total > 0
    assert waits == ["indexing triples", "indexing entities"]
    KnowledgeGraph.open(store, counted=counted, waiting=waiting)
    assert len(waits) == 2


def test_a_data_sets_own_triples_replace_the_rules_and_stand_in_every_pool(store: Store) -> None:
    own = [Triple("b", "Rusty Garden", "hunts", "Boar"), Triple("a", "Amber Valley", "hides in", "Cave", "p3")]
    given = KnowledgeGraph.open(store, lambda: own)
    assert sorted(triple.id for triple in given.search(["garden", "valley"], 9)) == ["a", "b"]
    within = SearchSpace(["p1"])
    assert edges(given.search(["garden", "valley"], 9, space=within)) == [("Rusty Garden", "hunts", "Boar")]
    assert [source.id for source in given.entity("Rusty Garden")] == ["p2"]


def test_a_damaged_graph_is_named_with_the_remedy(tmp_path: Path) -> None:
    store = Store.open(tmp_path, corpus, LexicalEncoder())
    KnowledgeGraph.open(store)
    (folder,) = (path for path in tmp_path.glob("graph-*") if path.is_dir())
    (folder / MARKER).write_text('{"triples": 1, "entities": 1}')
    with pytest.raises(StoreError, match=folder.name):
        KnowledgeGraph.open(store)


def test_the_scope_says_whose_statements_are_searched(store: Store) -> None:
    item = Item(Question("q", "?"), ("x",), pool=("p3",), withheld=("i1",))
    found = {}
    for scope in ("question", "corpus", "both"):
        settings = replace(RetrievalSettings(), scope=scope)
        library = LabelledLibrary(Evidence(store, settings), [item])
        found[scope] = asyncio.run(library.graph(item.question, ["Fivan Jurn"], 4))
    assert {triple.source for triple in found["question"]} == {"p3"}
    assert {triple.source for triple in found["both"]} >= {"p1", "p3"}
    assert found["both"][0].source == "p3"
    assert all(triple.source != "i1" for triples in found.values() for triple in triples)


def test_triples_are_those_of_the_data_set_where_it_has_any() -> None:
    class Bringing:
        def triples(self) -> Iterator[Triple]:
            return iter([Triple("1", "a", "b", "c")])

    given = triples_given(Bringing())
    assert given is not None
    assert [triple.id for triple in given()] == ["1"]
    assert triples_given(object()) is None
