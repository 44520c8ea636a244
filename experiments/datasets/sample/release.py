"""Generates a small seeded data set in MultimodalQA's layout, so that everything runs where the release is absent.

The loader of MultimodalQA reads it: records have the keys that the loader reads. Two are added: `description` of an
image, the words of a perfect observer, and `start`, where the first hop of a question starts.
"""

import json
import math
import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from actors.errors import UserError
from actors.messages import derive_seed
from experiments.datasets.kind import DataRequest, DatasetKind
from experiments.datasets.mmqa import Mmqa
from experiments.datasets.sample.questions import TYPES, Asker, Draft
from experiments.datasets.sample.scene import Scene, draw
from experiments.datasets.sample.world import Shelf, World, identity

TEXTS_PER_QUESTION = 10
IMAGES_PER_QUESTION = 14
QUESTIONS_PER_SHELF = 8
# Questions about one table are one cluster, and tests need many. Up to thirty evaluated questions have a shelf each,
# and more come two to a shelf on up to a hundred shelves; there are no names for many more.
SHELVES_BY_ONE = 30
EVALUATED_PER_SHELF = 2
SHELVES_BY_TWO = 100
EVALUATED = 200  # questions, where data.limit leaves the number open
MOST = 4_000  # questions; there are no names for many more, and these take a minute to make
PICTURES = "final_dataset_images"
CONTENT = "sample.json"
# To be raised with every change to what a seed gives, so that folders of an earlier one are not taken for current.
VERSION = 3

Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Release:
    """Everything that `write_sample` writes. `files` maps a file's stem to its records, `scenes` an image's id."""

    files: dict[str, list[Record]]
    scenes: dict[str, Scene]


def write_sample(folder: Path, seed: int = 0, train: int = 120, dev: int = 200) -> None:
    """Writes `train` and `dev` questions to `folder`, whole or not at all. Does nothing where it holds just these.

    Raises UserError when it holds something else or a number is negative.
    """
    if train < 0 or dev < 0:
        raise UserError(f"train={train}, dev={dev}: expected numbers of questions, zero or more")

    folder = Path(folder)
    content = json.dumps({"version": VERSION, "seed": seed, "train": train, "dev": dev}) + "\n"
    if _holds(folder, content):
        return
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder} holds something else than this sample data set: remove it or name another folder")

    folder.parent.mkdir(parents=True, exist_ok=True)
    # An interrupted run too leaves no part behind.
    with TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as temporary:
        unfinished = Path(temporary, folder.name)
        (unfinished / PICTURES).mkdir(parents=True)
        release = build(seed, train, dev)
        for stem, records in release.files.items():
            lines = [f"{json.dumps(record)}\n" for record in records]
            (unfinished / f"{stem}.jsonl").write_text("".join(lines))
        for image_id, scene in release.scenes.items():
            (unfinished / PICTURES / f"{image_id}.png").write_bytes(draw(scene))
        (unfinished / CONTENT).write_text(content)

        try:
            # Atomic, and refused where the folder is there with content.
            os.replace(unfinished, folder)
        except OSError:
            # Of two processes that write the same data set at once, the second gives way.
            if not _holds(folder, content):
                raise


def _holds(folder: Path, content: str) -> bool:
    """True for a folder with the whole data set of these numbers."""
    file = folder / CONTENT
    return file.is_file() and file.read_text() == content


def build(seed: int, train: int, dev: int) -> Release:
    """Makes the data set in memory, pictures undrawn. No shelf, hence no entity in a question, serves both splits."""
    world = World(Random(derive_seed(seed, "world")), seed).shelves()
    files: dict[str, list[Record]] = {}
    all_shelves: list[Shelf] = []

    # Three shelves at least: pools need distractors from others than the question's own.
    training_shelves = max(3, math.ceil(train / QUESTIONS_PER_SHELF))
    shelves_by_one = min(SHELVES_BY_ONE, dev)
    shelves_by_two = min(SHELVES_BY_TWO, math.ceil(dev / EVALUATED_PER_SHELF))
    evaluated_shelves = max(3, shelves_by_one, shelves_by_two, math.ceil(dev / QUESTIONS_PER_SHELF))

    for split, number, shelf_count in (("train", train, training_shelves), ("dev", dev, evaluated_shelves)):
        shelves = list(islice(world, shelf_count))
        # A generator for each split's questions: how they are drawn leaves the world as it is.
        rng = Random(derive_seed(seed, split))
        files[f"MMQA_{split}"] = _questions(shelves, number, rng, f"{seed}/{split}")
        all_shelves += shelves

    scenes: dict[str, Scene] = {}
    texts: list[Record] = []
    tables: list[Record] = []
    images: list[Record] = []

    for shelf in all_shelves:
        for passage in shelf.passages:
            texts.append({"title": passage.title, "id": passage.id, "text": passage.text})
        tables.append({"title": shelf.owner, "id": shelf.table_id, "table": _table(shelf)})
        for entity in shelf.entities:
            images.append(
                {
                    "title": entity.title,
                    "id": entity.image_id,
                    "path": f"{entity.image_id}.png",
                    "description": entity.description,
                }
            )
            scenes[entity.image_id] = entity.scene

    return Release({**files, "MMQA_texts": texts, "MMQA_tables": tables, "MMQA_images": images}, scenes)


def _table(shelf: Shelf) -> Record:
    rows: list[list[Record]] = []
    for entity in shelf.entities:
        rows.append([{"text": entity.cells[name]} for name in shelf.header])
    header = [{"column_name": name} for name in shelf.header]
    return {"table_rows": rows, "table_name": shelf.domain.table, "header": header}


def _questions(shelves: list[Shelf], number: int, rng: Random, split: str) -> list[Record]:
    """Questions of each type by its weight, at least one where `number` allows. No wording twice."""
    names = list(Counter(_counts(number)).elements())
    rng.shuffle(names)
    records: list[Record] = []
    texts = set[str]()

    for place, name in enumerate(names):
        # Sound new wordings get rare as a type's shelves are used up; by then a hundred shelves were tried.
        for attempt in range(2000):
            # The next shelf after twenty failures: a shelf may have no sound question of a type.
            shelf = shelves[(place + attempt // 20) % len(shelves)]
            draft = TYPES[name].draft(Asker(shelf, rng))
            if draft is not None and draft.text not in texts:
                break
        else:
            raise UserError(f"no further question of type {name} in {len(shelves)} tables: ask for fewer questions")

        texts.add(draft.text)
        other_shelves = [other for other in shelves if other is not shelf]
        records.append(
            {
                "qid": identity(split, place, draft.text),
                "question": draft.text,
                "answers": _answers(draft.answers),
                "metadata": _metadata(name, draft, shelf, other_shelves, rng),
                "supporting_context": [{"doc_id": doc, "doc_part": part} for doc, part in draft.support],
            }
        )

    return records


def _counts(number: int) -> dict[str, int]:
    """Divides a number of questions among the types by their weights."""
    total_weight = sum(kind.weight for kind in TYPES.values())
    shares = {name: number * kind.weight / total_weight for name, kind in TYPES.items()}
    # Every type once, where there is room: small samples should still show all of them.
    least = 1 if number >= len(TYPES) else 0
    counts = {name: max(least, math.floor(share)) for name, share in shares.items()}
    # Rounding down leaves some over: they go to the types that are furthest below their share.
    by_need = cycle(sorted(TYPES, key=lambda name: counts[name] - shares[name]))
    while sum(counts.values()) < number:
        counts[next(by_need)] += 1
    # The least of one each may have taken too many: the most frequent types give way.
    while sum(counts.values()) > number:
        counts[max(counts, key=counts.__getitem__)] -= 1
    return counts


def _metadata(name: str, draft: Draft, shelf: Shelf, other_shelves: list[Shelf], rng: Random) -> Record:
    # Like shelves first: harder distractors.
    other_shelves.sort(key=lambda other: other.domain is not shelf.domain)
    far_texts: list[str] = []
    far_images: list[str] = []

    for other in other_shelves:
        far_texts += [passage.id for passage in other.passages]
        for entity in other.entities:
            # A picture elsewhere with the thing that is asked about would be a second right answer.
            if draft.sight is None or not draft.sight.on(entity):
                far_images.append(entity.image_id)

    images = [doc for doc, part in draft.support if part == "image"]
    texts = [doc for doc, part in draft.support if part == "text"]
    near_images = [entity.image_id for entity in shelf.entities]
    near_texts = [passage.id for passage in shelf.passages]
    return {
        "type": name,
        "modalities": list(TYPES[name].modalities),
        "start": draft.start,
        "image_doc_ids": _pool(images, near_images, far_images, IMAGES_PER_QUESTION, rng),
        "text_doc_ids": _pool(texts, near_texts, far_texts, TEXTS_PER_QUESTION, rng),
        "intermediate_answers": list(map(_answers, draft.between)),
        "table_id": shelf.table_id,
    }


def _answers(answers: Iterable[str | float]) -> list[Record]:
    return [{"answer": answer} for answer in answers]


def _pool(supporting: list[str], near: list[str], far: list[str], size: int, rng: Random) -> list[str]:
    """Pools the supporting documents, most others of the same shelf, and some of like shelves; shuffled."""
    pool = list(dict.fromkeys(supporting))
    near = [doc for doc in near if doc not in pool]
    # Two places at least stay for documents of other shelves.
    near_places = max(0, size - 2 - len(pool))
    pool += rng.sample(near, min(len(near), near_places))
    far_places = max(0, size - len(pool))
    # From the first shelves only: those of the question's own kind, then others.
    pool += rng.sample(far[: 3 * size], min(len(far), far_places))
    rng.shuffle(pool)
    return pool


def open_sample(request: DataRequest) -> Mmqa:
    """Writes the sample to the cache, where it is not there, and opens it. Raises UserError for too many questions."""
    seed = request.seed
    train = request.train or 0
    limit = request.settings.limit
    evaluated = limit or EVALUATED
    if train + evaluated > MOST:
        raise UserError(
            f"data=sample: {train:,} questions to train on and {evaluated:,} to evaluate are more than the {MOST:,} "
            "that it has: lower data.limit, pruning.steps, training.questions_per_step or defence.calibration"
        )

    # The name holds all that the questions depend on, so runs of other settings or versions never share a folder.
    folder = request.cache / f"sample-{VERSION}-{seed}-{train}-{evaluated}"
    if not folder.is_dir():  # a folder that is there is complete: it appears whole or not at all
        write_sample(folder, seed=seed, train=train, dev=evaluated)
    return Mmqa.at(folder, train=request.train, limit=limit, seed=seed)


SAMPLE = DatasetKind("sample", "nothing to download: it is generated", open_sample, reads=())
