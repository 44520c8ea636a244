"""Judges a whole run. Answers are in judgements.jsonl, and agents' descriptions of pictures in scenes.jsonl.

judgements.jsonl has a line for every line of scores.jsonl, in their order. A resumed run judges only answers
without a grade.

scenes.jsonl is for Sim. of MH-MMKG's Table 4: whether an agent's description of an entity's pictures shows the same as
people's. It has a line for every description of an entity that people described too. Neither people's words nor the
verdicts reach an agent.
"""

import json
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import NamedTuple, Self

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


class GradingTask(NamedTuple):
    """An answer to judge, or a description of an entity. Its gold answer is the item's."""

    method: str
    question: str
    entity: str | None
    item: Item
    answer: str | None

    @property
    def place(self) -> tuple[str, str, str | None]:
        """Identity of a record among those of a file."""
        return self.method, self.question, self.entity


@dataclass(frozen=True, slots=True)
class JudgementRecord(Record):
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
        judgement = json.loads(line)
        record = {}
        for name in ("method", "question", "judge", "entity"):
            if name in judgement:
                record[name] = judgement.pop(name)
        return super(JudgementRecord, cls).decode(json.dumps({**record, "judgement": judgement}))


def judgement_records(folder: RunFolder, file: str = JUDGEMENTS) -> Iterator[JudgementRecord]:
    """Reads complete lines of judgements.jsonl, or of scenes.jsonl. Raises UserError for one that is no judgement."""
    return jsonl.records(folder.path / file, JudgementRecord.decode, DAMAGED)


def recorded_answers(folder: RunFolder, items: Mapping[str, Item]) -> Iterator[GradingTask]:
    """Yields every answer in scores.jsonl. `items` are all that were evaluated, by question id."""
    for scored in folder.scores():
        yield GradingTask(scored.method, scored.question, None, items[scored.question], scored.answer)


def described_scenes(folder: RunFolder, captions: Mapping[str, str], methods: Sequence[str]) -> Iterator[GradingTask]:
    """Yields the agents' descriptions of entities that people described too."""
    captions_by_name = {wording(entity): caption for entity, caption in captions.items()}
    for method in methods:
        for trace in folder.traces(f"evaluate-{method}"):
            for entity, text in trace.descriptions:
                caption = captions_by_name.get(wording(entity))
                if caption:
                    question = Question(f"scene/{entity}", f"What do the pictures of {entity} show?")
                    yield GradingTask(method, trace.question, entity, Item(question, (caption,)), text)


async def judge_file(
    path: Path,
    tasks: Callable[[], Iterator[GradingTask]],
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
    digest = judge.digest(rubric)
    earlier = read_earlier(path, tasks(), digest)
    # Counted first, for the progress bar: records are streamed and never all in memory.
    total = sum(1 for _ in tasks())
    if not total:
        return
    things = "descriptions " if rubric is SAME_SCENE else ""
    bar = progress.phase(f"judging {things}with {judge.name}", total=total, completed=earlier.complete)

    async def grade(task: GradingTask) -> Judgement:
        if task.place in earlier.judgements:
            return earlier.judgements[task.place]
        bar.ask()
        judgement = await judge.grade(task.item, task.answer, rubric)
        breaker.count(("the judge",), judgement.status, judgement.error)
        return judgement

    jsonl.cut_to(path, earlier.size)  # without a half-written last line
    with path.open("ab", buffering=0) as file:
        # In their order, whichever is ready first: a resumed run matches the files line by line.
        remaining = islice(tasks(), earlier.complete, None)
        async for task, judgement in in_order(remaining, grade, concurrency):
            # Not synced to disk: a judgement lost in a power cut is made again.
            record = JudgementRecord(task.method, task.question, digest, judgement, task.entity)
            jsonl.append(file, record.encode())
            bar.advance()


@dataclass
class EarlierJudgements:
    """Judgements of an earlier start. complete, size: number of those before the first that failed, and their bytes.

    judgements: those after it that did not fail, by their places.
    """

    complete: int = 0
    size: int = 0
    judgements: dict[tuple[str, str, str | None], Judgement] = field(default_factory=dict)


def read_earlier(path: Path, tasks: Iterator[GradingTask], digest: str) -> EarlierJudgements:
    """Reads the judgements in a file. Raises UserError where they are not those of the tasks, or of another judge."""
    earlier = EarlierJudgements()
    failed = False
    for number, line in enumerate(jsonl.lines(path), start=1):
        record = jsonl.decoded(path, number, line, JudgementRecord.decode, DAMAGED)
        place = (record.method, record.question, record.entity)
        task = next(tasks, None)
        if task is None or task.place != place:
            raise UserError(f"{path}, line {number}: judges another answer than the run has there; delete the file")
        # Grades of two judges or rubrics must not be averaged.
        if record.judge != digest:
            raise UserError(f"{path} was written by another judge or with another rubric; delete it to judge again")
        failed = failed or record.judgement.grade is None
        if not failed:
            earlier.complete = number
            earlier.size += len(line)
        elif record.judgement.grade is not None:
            earlier.judgements[place] = record.judgement
    return earlier


def similarities(folder: RunFolder) -> dict[tuple[str, str], float]:
    """Computes the share of judged descriptions that show the same as people's, by method and question."""
    verdicts: dict[tuple[str, str], list[bool]] = {}
    for scene in judgement_records(folder, SCENES):
        if scene.judgement.grade is not None:
            verdicts.setdefault((scene.method, scene.question), []).append(scene.judgement.correct)
    return {place: statistics.fmean(correct) for place, correct in verdicts.items()}
