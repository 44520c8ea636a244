"""Generates a small seeded data set in MultimodalQA's layout, so that everything runs where the release is absent.

The loader of MultimodalQA reads it: records have the keys that the loader reads. Two are added: `description` of an
image, the words of a perfect observer, and `start`, where the first hop of a question starts.
"""

import json
import math
import os
from collections import Counter
from dataclasses import dataclass
from itertools import cycle
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
EVALUATED = 200  # questions, where data.limit leaves the number open
MOST = 4_000  # questions; there are no names for many more, and these take a minute to make
PICTURES = "final_dataset_images"
MADE = "sample.json"
# To be raised with every change to what a seed gives, so that folders of an earlier one are not taken for current.
VERSION = 1

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
    made = json.dumps({"version": VERSION, "seed": seed, "train": train, "dev": dev}) + "\n"
    whole = folder / MADE
    if whole.is_file() and whole.read_text() == made:
        return
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder} holds something else than this sample data set: remove it or name another folder")
    folder.parent.mkdir(parents=True, exist_ok=True)
    # An interrupted run too leaves no part behind.
    with TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as unfinished:
        part = Path(unfinished, folder.name)
        (part / PICTURES).mkdir(parents=True)
        release = build(seed, train, dev)
        for stem, records in release.files.items():
            (part / f"{stem}.jsonl").write_text("".join(f"{json.dumps(record)}\n" for record in records))
        for image, scene in release.scenes.items():
            (part / PICTURES / f"{image}.png").write_bytes(draw(scene))
        (part / MADE).write_text(made)
        try:
            # Atomic, and refused where the folder is there with content.
            os.replace(part, folder)
        except OSError:
            # Of two processes that write the same data set at once, the second gives way.
            if not (whole.is_file() and whole.read_text() == made):
                raise


def build(seed: int, train: int, dev: int) -> Release:
    """Makes the data set in memory, pictures undrawn. No shelf, hence no entity in a question, serves both splits."""
    endless = World(Random(derive_seed(seed, "world")), seed).shelves()
    sets = {}
    for split, number in (("train", train), ("dev", dev)):
        # Three shelves at least: pools need distractors from others than the question's own.
        own = [next(endless) for _ in range(max(3, math.ceil(number / QUESTIONS_PER_SHELF)))]
        # A generator for each split's questions: how they are drawn leaves the world as it is.
        sets[split] = own, _questions(own, number, Random(derive_seed(seed, split)), f"{seed}/{split}")
    all_shelves = [shelf for own, _ in sets.values() for shelf in own]
    entities = [entity for shelf in all_shelves for entity in shelf.entities]
    files = {f"MMQA_{split}": records for split, (_, records) in sets.items()}
    passages = [passage for shelf in all_shelves for passage in shelf.passages]
    files["MMQA_texts"] = [{"title": p.title, "id": p.id, "text": p.text} for p in passages]
    for shelf in all_shelves:
        rows = [[{"text": entity.cells[name]} for name in shelf.header] for entity in shelf.entities]
        header = [{"column_name": name} for name in shelf.header]
        table = {"table_rows": rows, "table_name": shelf.domain.table, "header": header}
        files.setdefault("MMQA_tables", []).append({"title": shelf.owner, "id": shelf.table_id, "table": table})
    files["MMQA_images"] = [
        {"title": e.title, "id": e.image_id, "path": f"{e.image_id}.png", "description": e.description}
        for e in entities
    ]
    return Release(files, {entity.image_id: entity.scene for entity in entities})


def _questions(own: list[Shelf], number: int, rng: Random, split: str) -> list[Record]:
    """Questions of each type by its weight, at least one where `number` allows. No wording twice."""
    whole = sum(kind.weight for kind in TYPES.values())
    exact = {name: number * kind.weight / whole for name, kind in TYPES.items()}
    # Every type once, where there is room: small samples should still show all of them.
    least = 1 if number >= len(TYPES) else 0
    counts = {name: max(least, math.floor(share)) for name, share in exact.items()}
    # Rounding down leaves some over: they go to the types that are furthest below their share.
    by_need = cycle(sorted(TYPES, key=lambda name: counts[name] - exact[name]))
    while sum(counts.values()) < number:
        counts[next(by_need)] += 1
    # The least of one each may have taken too many: the most frequent types give way.
    while sum(counts.values()) > number:
        counts[max(counts, key=counts.__getitem__)] -= 1
    names = list(Counter(counts).elements())
    rng.shuffle(names)
    records: list[Record] = []
    used: set[str] = set()
    for place, name in enumerate(names):
        # Sound new wordings get rare as a type's shelves are used up; by then a hundred shelves were tried.
        for attempt in range(2000):
            # The next shelf after twenty failures: a shelf may have no sound question of a type.
            shelf = own[(place + attempt // 20) % len(own)]
            draft = TYPES[name].draft(Asker(shelf, rng))
            if draft is not None and draft.text not in used:
                break
        else:
            raise UserError(f"no further question of type {name} in {len(own)} tables: ask for fewer questions")
        used.add(draft.text)
        qid = identity(split, place, draft.text)
        records.append(_record(qid, name, draft, shelf, own, rng))
    return records


def _record(qid: str, name: str, draft: Draft, shelf: Shelf, own: list[Shelf], rng: Random) -> Record:
    texts = [doc for doc, part in draft.support if part == "text"]
    images = [doc for doc, part in draft.support if part == "image"]
    elsewhere = [other for other in own if other is not shelf]
    elsewhere.sort(key=lambda other: other.domain is not shelf.domain)  # like shelves first: harder distractors
    near = [passage.id for passage in shelf.passages]
    far = [passage.id for other in elsewhere for passage in other.passages]
    near_images = [entity.image_id for entity in shelf.entities]
    # A picture elsewhere with the thing that is asked about would be a second right answer.
    far_images = [
        entity.image_id
        for other in elsewhere
        for entity in other.entities
        if draft.sight is None or not draft.sight.on(entity)
    ]
    return {
        "qid": qid,
        "question": draft.text,
        "answers": [{"answer": answer} for answer in draft.answers],
        "metadata": {
            "type": name,
            "modalities": list(TYPES[name].modalities),
            "start": draft.start,
            "image_doc_ids": _pool(images, near_images, far_images, IMAGES_PER_QUESTION, rng),
            "text_doc_ids": _pool(texts, near, far, TEXTS_PER_QUESTION, rng),
            "intermediate_answers": [[{"answer": name} for name in hop] for hop in draft.between],
            "table_id": shelf.table_id,
        },
        "supporting_context": [{"doc_id": doc, "doc_part": part} for doc, part in draft.support],
    }


def _pool(needed: list[str], near: list[str], far: list[str], size: int, rng: Random) -> list[str]:
    """Pools the needed documents, most others of the same shelf, and some of like shelves; shuffled."""
    pool = list(dict.fromkeys(needed))
    rest = [doc for doc in near if doc not in pool]
    # Two places at least stay for documents of other shelves.
    pool += rng.sample(rest, max(0, min(len(rest), size - 2 - len(pool))))
    # From the first shelves only: those of the question's own kind, then others.
    pool += rng.sample(far[: 3 * size], max(0, min(len(far), size - len(pool))))
    rng.shuffle(pool)
    return pool


def open_sample(request: DataRequest) -> Mmqa:
    """Writes the sample to the cache, where it is not there, and opens it. Raises UserError for too many questions."""
    seed, train, limit = request.seed, request.train or 0, request.settings.limit
    evaluated = limit or EVALUATED
    if train + evaluated > MOST:
        raise UserError(
            f"data=sample: {train:,} questions to train on and {evaluated:,} to evaluate are more than the {MOST:,} "
            "that it has: lower data.limit, pruning.steps, training.questions_per_step or defence.calibration"
        )
    # The name holds all that the questions depend on, so runs with other settings never share a folder.
    folder = request.cache / f"sample-{seed}-{train}-{evaluated}"
    if not folder.is_dir():  # a folder that is there is complete: it appears whole or not at all
        write_sample(folder, seed=seed, train=train, dev=evaluated)
    return Mmqa.at(folder, train=request.train, limit=limit, seed=seed)


SAMPLE = DatasetKind("sample", "nothing to download: it is generated", open_sample, reads=())
