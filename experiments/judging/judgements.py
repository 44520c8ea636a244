"""Judges a whole run. Answers are in judgements.jsonl, and agents' descriptions of pictures in scenes.jsonl.

judgements.jsonl has a line for every line of scores.jsonl, in their order. A resumed run judges only answers
without a grade.

scenes.jsonl is for Sim. of MH-MMKG's Table 4: whether an agent's description of an entity's pictures shows the same as
people's. It has a line for every description of an entity that people described too. Neither people's words nor the
verdicts reach an agent.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Self

from actors.errors import UserError
from actors.messages import Question
from actors.runtime.in_order import in_order
from experiments.datasets.item import Item
from experiments.judging.judge import Judge, Judgement
from experiments.judging.rubric import SAME_SCENE, Rubric
from experiments.records import jsonl
from experiments.records.failures import Breaker
from experiments.records.progress import Progress
from experiments.records.recorder import JUDGEMENTS, SCENES, RunFolder
from experiments.records.records import Record
from topologies.answers import wording

DAMAGED = "delete the file to judge again"

Asked = tuple[str, str, str | None, Item, str | None]  # method, question, entity, the item, and its answer to judge


@dataclass(frozen=True, slots=True)
class Judged(Record):
    """The judgement of one answer, or of one description of an entity (scenes.jsonl).

    `judge` is the digest of the judge and its rubric. In a line, the judgement's fields are among the others.
    """

    method: str
    question: str
    judge: str
    judgement: Judgement
    entity: str | None = None

    def encode(self) -> str:
        entity = {} if self.entity is None else {"entity": self.entity}
        record = {"method": self.method, "question": self.question, **entity, **asdict(self.judgement)}
        return json.dumps({**record, "judge": self.judge}, separators=(",", ":"))

    @classmethod
    def decode(cls, line: str) -> Self:
        record = json.loads(line)
        own = {name: record.pop(name) for name in ("method", "question", "judge", "entity") if name in record}
        return super(Judged, cls).decode(json.dumps({**own, "judgement": record}))


def judged(folder: RunFolder, file: str = JUDGEMENTS) -> Iterator[Judged]:
    """Reads complete lines of judgements.jsonl, or of scenes.jsonl. Raises UserError for one that is no judgement."""
    return jsonl.records(folder.path / file, Judged.decode, DAMAGED)


def answers_of(folder: RunFolder, items: Mapping[str, Item]) -> Iterator[Asked]:
    """Yields every answer in scores.jsonl. `items` are all that were evaluated, by question id."""
    return ((one.method, one.question, None, items[one.question], one.answer) for one in folder.scores())


def scenes_of(folder: RunFolder, captions: Mapping[str, str], methods: Sequence[str]) -> Iterator[Asked]:
    """Yields the agents' descriptions of entities that people described too."""
    by_name = {wording(entity): caption for entity, caption in captions.items()}
    for method in methods:
        for trace in folder.traces(f"evaluate-{method}"):
            for entity, text in trace.descriptions:
                if caption := by_name.get(wording(entity)):
                    question = Question(f"scene/{entity}", f"What do the pictures of {entity} show?")
                    yield method, trace.question, entity, Item(question, (caption,)), text


async def judge_file(
    path: Path,
    asked: Callable[[], Iterator[Asked]],
    judge: Judge,
    rubric: Rubric,
    concurrency: int,
    progress: Progress,
    breaker: Breaker,
) -> None:
    """Judges what has no judgement in a file, or whose judgement failed. The file has a line for each, in their order.

    Call it while the folder's `Recorder` is open, which keeps other writers out. `concurrency` judgements are requested
    at once. Raises UserError for a file that cannot be written, or holds judgements of other answers, another judge or
    another rubric, and TooManyFailures.
    """
    digest, wanted = judge.digest(rubric), asked()
    # Judgements before the first that failed, by number and bytes, and those after it.
    done = size = 0
    known: dict[tuple[str, str, str | None], Judgement] = {}
    failed = False
    for number, line in enumerate(jsonl.lines(path), start=1):
        before = jsonl.decoded(path, number, line, Judged.decode, DAMAGED)
        place = before.method, before.question, before.entity
        if next(wanted, ())[:3] != place:
            raise UserError(f"{path}, line {number}: judges another answer than the run has there; delete the file")
        # Grades of two judges or rubrics must not be averaged.
        if before.judge != digest:
            raise UserError(f"{path} was written by another judge or with another rubric; delete it to judge again")
        failed = failed or before.judgement.grade is None
        if not failed:
            done, size = number, size + len(line)
        elif before.judgement.grade is not None:
            known[place] = before.judgement
    # Counted first, for the progress bar: records are streamed and never all in memory.
    if not (total := sum(1 for _ in asked())):
        return
    of = "descriptions " if rubric is SAME_SCENE else ""
    bar = progress.phase(f"judging {of}with {judge.name}", total=total, completed=done)

    async def grade(one: Asked) -> Judgement:
        if one[:3] in known:
            return known[one[:3]]
        judgement = await judge.grade(*one[3:], rubric)
        breaker.count(("the judge",), judgement.status, judgement.error)
        return judgement

    with path.open("ab", buffering=0) as file:
        file.truncate(size)  # without a half-written last line
        # In their order, whichever is ready first: a resumed run matches the files line by line.
        async for (method, question, entity, _, _), judgement in in_order(
            islice(asked(), done, None), grade, concurrency
        ):
            # Not synced to disk: a judgement lost in a power cut is made again.
            jsonl.append(file, Judged(method, question, digest, judgement, entity).encode())
            bar.advance()


def similarities(folder: RunFolder) -> dict[tuple[str, str], float]:
    """Computes the share of judged descriptions that show the same as people's, by method and question."""
    verdicts: dict[tuple[str, str], list[bool]] = {}
    for scene in (scene for scene in judged(folder, SCENES) if scene.judgement.grade is not None):
        verdicts.setdefault((scene.method, scene.question), []).append(scene.judgement.correct)
    return {key: sum(same) / len(same) for key, same in verdicts.items()}
