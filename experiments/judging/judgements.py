"""Judging a whole run: judgements.jsonl, a line for every line of scores.jsonl and in their order.

A killed run judges only what is missing. A judgement that failed stays in the file as such; to have these judged
again, delete judgements.jsonl and resume: with the completion cache only they are computed anew.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import islice

from actors.errors import UserError
from actors.runtime.in_order import in_order
from experiments.datasets.item import Item
from experiments.judging.judge import Judge, Judgement
from experiments.judging.rubric import GRADED, Rubric
from experiments.records import jsonl
from experiments.records.progress import Progress
from experiments.records.recorder import RunFolder
from experiments.records.records import Scored

JUDGEMENTS = "judgements.jsonl"
DAMAGED = "delete the file to judge again"


@dataclass(frozen=True, slots=True)
class Judged:
    """The judgement of one method's answer to one question; `judge` is the digest of the judge and its rubric."""

    method: str
    question: str
    judge: str
    judgement: Judgement

    def encode(self) -> str:
        """One line of plain ASCII, without its newline."""
        fields = {"method": self.method, "question": self.question, **asdict(self.judgement), "judge": self.judge}
        return json.dumps(fields, separators=(",", ":"))

    @staticmethod
    def decode(line: str) -> Judged:
        fields = json.loads(line)
        method, question, judge = said = [fields.pop(name) for name in ("method", "question", "judge")]
        if not all(isinstance(text, str) for text in said):
            raise ValueError("expected the names of a method, a question and a judge")
        return Judged(method, question, judge, Judgement(**fields))


def judged(folder: RunFolder) -> Iterator[Judged]:
    """The complete lines of judgements.jsonl. Raises UserError for one that is no judgement."""
    return jsonl.records(folder.path / JUDGEMENTS, Judged.decode, DAMAGED)


async def judge_run(
    folder: RunFolder,
    judge: Judge,
    items: Mapping[str, Item],
    concurrency: int,
    progress: Progress,
    rubric: Rubric = GRADED,
) -> None:
    """Judge every answer in scores.jsonl that is not judged yet. Call it while the folder's `Recorder` is open, which
    keeps other writers out.

    Args:
        items: by question id, all that were evaluated.
        concurrency: judgements requested at once.

    Raises:
        UserError: the file cannot be written, or holds judgements of other answers, another judge or another rubric.
    """
    path = folder.path / JUDGEMENTS
    digest = judge.digest(rubric)
    done, size = _kept(folder, digest)
    # Counted first, for the progress bar; records are read as a stream and never held in memory.
    total = sum(1 for _ in folder.scores())
    bar = progress.phase(f"judging with {judge.name}", total=total, done=done)

    async def grade(scored: Scored) -> Judgement:
        return await judge.grade(items[scored.question], scored.answer, rubric)

    with path.open("ab", buffering=0) as file:
        file.truncate(size)  # without a half-written last line
        # In the order of the scores, whichever judgement is ready first: a resumed run matches the files line by
        # line.
        async for scored, judgement in in_order(islice(folder.scores(), done, None), grade, concurrency):
            # Not synced to disk: a judgement lost in a power cut is made again.
            jsonl.append(file, Judged(scored.method, scored.question, digest, judgement).encode())
            bar.advance()


def _kept(folder: RunFolder, digest: str) -> tuple[int, int]:
    """The number of judgements that go with the scores, line by line, and their size in bytes."""
    path = folder.path / JUDGEMENTS
    number = size = 0
    scores = folder.scores()
    for number, line in enumerate(jsonl.lines(path), start=1):
        judgement = jsonl.decoded(path, number, line, Judged.decode, DAMAGED)
        scored = next(scores, None)
        if scored is None or (scored.method, scored.question) != (judgement.method, judgement.question):
            raise UserError(
                f"{path}, line {number}: judges another answer than scores.jsonl has there; delete the file"
            )
        # Grades of two judges or rubrics must not be averaged.
        if judgement.judge != digest:
            raise UserError(f"{path} was written by another judge or with another rubric; delete it to judge again")
        # In bytes, with the newline: the file is cut back to this size.
        size += len(line)
    return number, size
