"""Sim. of MH-MMKG's Table 4: a model judges whether what agents described an entity's pictures as shows what people
wrote of them.

The judge is the one that judges answers, by the rubric `SAME_SCENE`; neither people's words nor its verdicts reach an
agent. scenes.jsonl has a line for every description of an entity that people described too; it is written at once, when
all of them are judged.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Protocol, runtime_checkable

from actors.errors import UserError
from actors.messages import Question
from actors.runtime.in_order import in_order
from experiments.datasets.item import Item
from experiments.judging.judge import Judge, Judgement
from experiments.judging.rubric import SAME_SCENE
from experiments.records import jsonl
from experiments.records.progress import Progress
from experiments.records.recorder import RunFolder
from experiments.records.run_files import write_atomically
from topologies.answers import wording

SCENES = "scenes.jsonl"
DAMAGED = "delete the file to judge again"


@runtime_checkable
class HasCaptions(Protocol):
    """A data set whose knowledge graph has pictures that people described."""

    def captions(self) -> Mapping[str, str]:
        """What people wrote, by entity."""


@dataclass(frozen=True, slots=True)
class Scene:
    """The judgement of one description in one discussion; `judge` is the digest of the judge and its rubric."""

    method: str
    question: str
    entity: str
    judge: str
    judgement: Judgement

    def encode(self) -> str:
        """One line of plain ASCII, without its newline."""
        told = {"method": self.method, "question": self.question, "entity": self.entity}
        return json.dumps({**told, **asdict(self.judgement), "judge": self.judge}, separators=(",", ":"))

    @staticmethod
    def decode(line: str) -> Scene:
        fields = json.loads(line)
        names = ("method", "question", "entity", "judge")
        method, question, entity, judge = said = [fields.pop(name) for name in names]
        if not all(isinstance(text, str) for text in said):
            raise ValueError(f"expected texts as {', '.join(names)}")
        return Scene(method, question, entity, judge, Judgement(**fields))


def scenes(folder: RunFolder) -> Iterator[Scene]:
    """The lines of scenes.jsonl, none where nothing was described. Raises UserError for one that is no judgement."""
    return jsonl.records(folder.path / SCENES, Scene.decode, DAMAGED)


def similarities(folder: RunFolder) -> dict[tuple[str, str], float]:
    """By method and question, the share of the entities described that were described as people did; a judgement that
    failed counts as a no."""
    verdicts: dict[tuple[str, str], list[bool]] = {}
    for scene in scenes(folder):
        verdicts.setdefault((scene.method, scene.question), []).append(scene.judgement.correct)
    return {key: sum(same) / len(same) for key, same in verdicts.items()}


async def judge_scenes(
    folder: RunFolder,
    judge: Judge,
    captions: Mapping[str, str],
    methods: Sequence[str],
    concurrency: int,
    progress: Progress,
) -> None:
    """Judges every description in the methods' traces whose entity people described too.

    Raises:
        UserError: the file is of another judge or rubric.
    """
    digest = judge.digest(SAME_SCENE)
    known = next(scenes(folder), None)
    if known is not None:
        # Written at once, so a file that is there is whole.
        if known.judge != digest:
            raise UserError(f"{folder.path / SCENES} was written by another judge or with another rubric; delete it")
        return
    by_name = {wording(entity): caption for entity, caption in captions.items()}
    described = [
        (trace.method, trace.question, entity, text)
        for method in methods
        for trace in folder.traces(f"evaluate-{method}")
        for entity, text in trace.descriptions
        if wording(entity) in by_name
    ]
    if not described:
        return
    bar = progress.phase(f"judging descriptions with {judge.name}", total=len(described))

    async def grade(scene: tuple[str, str, str, str]) -> Judgement:
        _, _, entity, text = scene
        asked = Question(f"scene/{entity}", f"What do the pictures of {entity} show?")
        return await judge.grade(Item(asked, (by_name[wording(entity)],)), text, SAME_SCENE)

    lines = []
    async for (method, question, entity, _), judgement in in_order(iter(described), grade, concurrency):
        lines.append(Scene(method, question, entity, digest, judgement).encode())
        bar.advance()
    write_atomically(folder.path / SCENES, "".join(f"{line}\n" for line in lines).encode())
