"""The generated data set is laid out as MultimodalQA, can be solved from its sources, and from nothing less."""

import io
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import pytest
from PIL import Image

from actors.errors import UserError
from actors.messages import Kind, derive_seed
from experiments.datasets.mmqa import Mmqa
from experiments.datasets.sample import release
from experiments.datasets.sample.questions import TYPES
from experiments.datasets.sample.release import MOST, QUESTIONS_PER_SHELF, SHELVES_BY_TWO, write_sample
from experiments.datasets.sample.scene import COLOURS, GROUNDS, SHAPES, Scene, Things, draw
from experiments.datasets.sample.world import World

Record = dict[str, Any]
FILES = ("MMQA_train", "MMQA_dev", "MMQA_texts", "MMQA_tables", "MMQA_images")


class Written:
    """A folder as written, read without the loader."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.train, self.dev, texts, tables, images = (read(folder / f"{stem}.jsonl") for stem in FILES)
        self.texts = {record["id"]: record for record in texts}
        self.tables = {record["id"]: record for record in tables}
        self.images = {record["id"]: record for record in images}

    def rows(self, table: str) -> list[str]:
        """A table's rows as lines, its owner left out: every row shares it."""
        return [" | ".join(cell["text"] for cell in row) for row in self.tables[table]["table"]["table_rows"]]

    def sources(self, record: Record) -> list[str]:
        """All that the question's pool says, one passage, row or picture each."""
        meta = record["metadata"]
        texts = [self.texts[doc]["text"] for doc in meta["text_doc_ids"]]
        return texts + [self.images[doc]["description"] for doc in meta["image_doc_ids"]] + self.rows(meta["table_id"])


def read(path: Path) -> list[Record]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def says(source: str, words: str) -> bool:
    return words in source and re.search(rf"\b{re.escape(words)}\b", source) is not None  # fast, then sure


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Written:
    folder = tmp_path_factory.mktemp("sample") / "mmqa"
    write_sample(folder)
    return Written(folder)


@pytest.fixture(scope="module")
def many() -> list[release.Release]:
    """Several seeds, undrawn, for what only holds on average."""
    return [release.build(seed, train=400, dev=400) for seed in range(4)]


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_a_seed_gives_the_same_bytes_and_another_seed_does_not(tmp_path: Path) -> None:
    for name, seed in (("one", 3), ("again", 3), ("other", 4)):
        write_sample(tmp_path / name, seed=seed, train=20, dev=20)
    one, again, other = (contents(tmp_path / name) for name in ("one", "again", "other"))
    assert one == again
    assert not {one[f"{stem}.jsonl"] for stem in FILES} & {other[f"{stem}.jsonl"] for stem in FILES}


def test_a_hundred_questions_have_all_sixteen_types_and_few_of_one_hop() -> None:
    types = Counter(record["metadata"]["type"] for record in release.build(1, 0, 100).files["MMQA_dev"])
    assert set(types) == set(TYPES)
    assert len(types) == 16
    assert sum(count for name, count in types.items() if "(" not in name) < 40


@pytest.mark.parametrize("number", [0, 1, 15, 16, 37])
def test_any_number_of_questions_can_be_had(number: int) -> None:
    records = release.build(0, number, number).files
    assert len(records["MMQA_train"]) == len(records["MMQA_dev"]) == number


@pytest.mark.parametrize("seed", range(3))
def test_there_are_names_for_the_largest_sample(seed: int) -> None:
    found = World(Random(derive_seed(seed, "world")), seed).shelves()
    # Training questions come eight to a shelf, and evaluated ones two to a shelf on as many shelves as may be.
    most_shelves = MOST // QUESTIONS_PER_SHELF + SHELVES_BY_TWO
    assert len(list(islice(found, most_shelves))) == most_shelves


def test_pools_hold_what_supports_the_answer_among_distractors(sample: Written) -> None:
    for record in sample.dev + sample.train:
        meta = record["metadata"]
        pool = {*meta["text_doc_ids"], *meta["image_doc_ids"], meta["table_id"]}
        assert len(pool) == 10 + 14 + 1
        assert pool <= {*sample.texts, *sample.images, *sample.tables}
        assert {context["doc_id"] for context in record["supporting_context"]} < pool


def test_what_supports_an_answer_says_it(sample: Written) -> None:
    for record in sample.dev + sample.train:
        meta, docs = record["metadata"], {context["doc_id"] for context in record["supporting_context"]}
        table = sample.rows(meta["table_id"]) if meta["table_id"] in docs else []
        told = [sample.texts[doc]["text"] for doc in docs if doc in sample.texts]
        seen = [sample.images[doc] for doc in docs if doc in sample.images]
        told += [f"{image['title']}: {image['description']}" for image in seen]
        every = record["answers"] + [answer for step in meta["intermediate_answers"] for answer in step]
        for answer in every:
            said = str(answer["answer"]).lower()
            # A sum is in no cell, and one thing may be called `a boat`.
            assert (
                isinstance(answer["answer"], float)
                or said in ("yes", "no", "one")
                or any(says(source.lower(), said) for source in told + table)
            )


def test_train_and_dev_ask_about_different_entities(sample: Written) -> None:
    asked = [{record["question"] for record in records} for records in (sample.train, sample.dev)]
    assert (len(asked[0]), len(asked[1])) == (120, 200)
    assert not asked[0] & asked[1]
    # A document's identity is made of its entity's name.
    documents = []
    for records in (sample.train, sample.dev):
        pools = [record["metadata"] for record in records]
        tables = {pool["table_id"] for pool in pools}
        documents.append(tables.union(*(pool["text_doc_ids"] + pool["image_doc_ids"] for pool in pools)))
    assert min(map(len, documents)) > 200
    assert not documents[0] & documents[1]


@pytest.mark.parametrize("seed", range(3))
def test_a_hundred_evaluated_questions_are_about_fifty_tables_and_leave_training_as_it_is(seed: int) -> None:
    files = release.build(seed, train=40, dev=100).files
    tables = Counter(record["metadata"]["table_id"] for record in files["MMQA_dev"])
    assert len(tables) == 50
    # A table may have no sound question of a type: the next one has a third question then.
    assert max(tables.values()) <= 3
    assert len({record["metadata"]["table_id"] for record in files["MMQA_train"]}) == 5
    assert files["MMQA_train"] == release.build(seed, train=40, dev=12).files["MMQA_train"]


def composed(records: list[Record]) -> Iterator[tuple[Record, str, str]]:
    """Composed questions with what they start from and their answer; yes and no can be read nowhere."""
    for record in records:
        meta, (answer, *_) = record["metadata"], record["answers"]
        if meta["type"].startswith("Compose") and answer["answer"] not in ("yes", "no"):
            yield record, meta["start"], answer["answer"]


def test_no_single_source_leads_from_a_composed_question_to_its_answer(sample: Written) -> None:
    seen = list(composed(sample.dev + sample.train))
    assert len(seen) > 100
    for record, start, answer in seen:
        assert start in record["question"]
        hops = [step[0]["answer"] for step in record["metadata"]["intermediate_answers"]]
        assert not any(says(record["question"], hop) for hop in hops)
        assert not any(says(source, start) and says(source, answer) for source in sample.sources(record))


def test_both_conditions_of_an_intersection_are_needed(sample: Written) -> None:
    records = [record for record in sample.dev + sample.train if record["metadata"]["type"].startswith("Intersect")]
    assert records
    for record in records:
        one, two = ({answer["answer"] for answer in step} for step in record["metadata"]["intermediate_answers"])
        assert len(one) > 1 < len(two)
        assert one & two == {answer["answer"] for answer in record["answers"]}


def test_guessing_the_most_frequent_answer_of_a_type_seldom_helps(many: list[release.Release]) -> None:
    prior: defaultdict[str, Counter[str]] = defaultdict(Counter)
    hits, total = Counter[str](), Counter[str]()
    for made in many:
        for record in made.files["MMQA_train"]:
            prior[record["metadata"]["type"]].update(str(answer["answer"]) for answer in record["answers"])
    for made in many:
        for record in made.files["MMQA_dev"]:
            name = record["metadata"]["type"]
            guess = prior[name].most_common(1)[0][0]
            hits[name] += [guess] == [str(answer["answer"]) for answer in record["answers"]]
            total[name] += 1
    assert {name: hits[name] / total[name] for name in total if hits[name] >= 0.15 * total[name]} == {}


@pytest.mark.parametrize("kind", SHAPES)
def test_a_thing_is_drawn_in_its_colour_as_often_as_it_is_there(kind: str) -> None:
    def painted(count: int) -> int:
        with Image.open(io.BytesIO(draw(Scene((Things(count, "purple", kind),), "", "grey")))) as image:
            assert {colour for _, colour in image.getcolors() or []} == {COLOURS["purple"], GROUNDS["grey"]}
            return {colour: number for number, colour in image.getcolors() or []}[COLOURS["purple"]]

    # Two to four things stand in cells of the same size.
    assert painted(4) == pytest.approx(2 * painted(2), rel=0.02)


def test_the_loader_of_the_benchmark_reads_it(sample: Written) -> None:
    data = Mmqa.at(sample.folder)
    sources = {source.id: source for source in data.corpus()}
    docs = {source.doc for source in sources.values()}
    assert Counter(source.kind for source in sources.values())[Kind.IMAGE] == len(sample.images)
    assert all(source.image and source.text for source in sources.values() if source.kind is Kind.IMAGE)
    for items, number in ((data.train(), 120), (data.evaluate(), 200)):
        every = list(items)
        assert len(every) == number
        for item in every:
            assert set(item.supporting) <= set(item.pool) <= docs
            assert data.score(item, item.gold[0]).f1 > 0


def test_an_interrupted_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(scene: Scene) -> bytes:
        raise KeyboardInterrupt

    monkeypatch.setattr(release, "draw", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_sample(tmp_path / "data" / "mmqa", train=1, dev=1)
    assert list((tmp_path / "data").iterdir()) == []


def test_two_writers_of_the_same_folder_leave_one_whole_data_set(tmp_path: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        for writer in [pool.submit(write_sample, tmp_path / "mmqa", 5, 16, 16) for _ in range(2)]:
            writer.result()
    write_sample(tmp_path / "again", 5, 16, 16)
    assert contents(tmp_path / "mmqa") == contents(tmp_path / "again")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["again", "mmqa"]


def test_a_whole_data_set_is_not_written_again_and_no_other_takes_its_place(tmp_path: Path) -> None:
    folder = tmp_path / "mmqa"
    write_sample(folder, 5, 16, 16)
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    write_sample(folder, 5, 16, 16)
    with pytest.raises(UserError, match="something else"):
        write_sample(folder, 6, 16, 16)
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


def test_a_negative_number_of_questions_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="train=-1"):
        write_sample(tmp_path / "new", train=-1)
