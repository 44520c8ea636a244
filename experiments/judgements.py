"""Judging a whole run: judgements.jsonl, a line for every line of scores.jsonl and in their order, and what it tells.

A killed run judges only what is missing. A judgement that failed stays in the file as such; to have these judged
again, delete judgements.jsonl and resume: with the completion cache only they are computed anew.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from actors.messages import derive_seed
from experiments.datasets.item import Item
from experiments.discussions import in_order
from experiments.errors import UserError
from experiments.judge import CORRECT, FORM, RUBRIC, Judge, Judgement
from experiments.progress import Progress
from experiments.recorder import RunFolder
from experiments.records import Scored
from experiments.statistics import bootstrap_interval
from experiments.summary import EMBEDDED, paired_tests, rounded, verdicts

JUDGEMENTS = "judgements.jsonl"


@dataclass(frozen=True, slots=True)
class Judged:
    """One method's answer to one question as it was judged; `judge` is the digest of the judge and its rubric."""

    method: str
    question: str
    judge: str
    judgement: Judgement

    def encode(self) -> str:
        """One line of plain ASCII, without its newline."""
        told = {"method": self.method, "question": self.question, **asdict(self.judgement), "judge": self.judge}
        return json.dumps(told, separators=(",", ":"))

    @staticmethod
    def decode(line: str) -> Judged:
        told = json.loads(line)
        return Judged(told.pop("method"), told.pop("question"), told.pop("judge"), Judgement(**told))


def judged(folder: RunFolder) -> Iterator[Judged]:
    """The complete lines of judgements.jsonl. Raises UserError for one that is no judgement."""
    path = folder.path / JUDGEMENTS
    if path.exists():
        with path.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                if not line.endswith(b"\n"):
                    return
                yield _decoded(path, number, line)


async def judge_run(
    folder: RunFolder, judge: Judge, items: Mapping[str, Item], concurrency: int, progress: Progress
) -> None:
    """Judge every answer in scores.jsonl that is not judged yet. Call it while the folder's `Recorder` is open, which
    keeps other writers out.

    Args:
        items: by question id, all that were evaluated.
        concurrency: judgements asked for at once.

    Raises:
        UserError: the file cannot be written, or holds judgements of other answers, another judge or another rubric.
    """
    path = folder.path / JUDGEMENTS
    done, size = _cut(folder, judge)
    total = sum(1 for _ in folder.scores())
    bar = progress.phase(f"judging with {judge.name}", total=total, done=done)

    async def grade(scored: Scored) -> Judgement:
        return await judge.grade(items[scored.question], scored.answer)

    with path.open("ab", buffering=0) as file:
        file.truncate(size)
        async for scored, judgement in in_order(islice(folder.scores(), done, None), grade, concurrency):
            line = Judged(scored.method, scored.question, judge.digest, judgement).encode().encode() + b"\n"
            try:
                if file.write(line) != len(line):
                    raise OSError("no space left for a whole line")
            except OSError as error:
                raise UserError(f"cannot write {path}: {error}; make room and resume={folder.path}") from error
            bar.advance()


def summarise(
    folder: RunFolder, judge: str, methods: Sequence[str], pairs: Sequence[tuple[str, str]], seed: int
) -> dict[str, Any]:
    """What metrics.json says of the judgements: the judge and its rubric, and Acc* of every method, with its mean
    grade (over the answers that got one), failed judgements (each wrong for Acc*), paired tests and mean cost.

    Raises ValueError unless the same questions, one at least, are judged for all of `methods`.
    """
    found: dict[str, dict[str, Judgement]] = {method: {} for method in methods}
    digests = set()
    for line in judged(folder):
        if line.method in found:
            found[line.method][line.question] = line.judgement
            digests.add(line.judge)
    questions = found[methods[0]].keys()
    for method, judgements in found.items():
        if not questions or judgements.keys() != questions:
            raise ValueError(f"{len(judgements)} answers of {method} are judged, {len(questions)} of {methods[0]}")
    correct = {method: [float(found[method][q].correct) for q in sorted(questions)] for method in methods}
    return {
        "judge": judge,
        "digest": ", ".join(sorted(digests)),
        "rubric": f"{RUBRIC}\n\n{FORM}",
        "correct_from": CORRECT,
        "methods": {
            method: _row([*found[method].values()], correct[method], derive_seed(seed, "bootstrap acc*", method))
            for method in methods
        },
        "paired": paired_tests(correct, pairs, seed, "paired acc*"),
    }


def _row(judgements: Sequence[Judgement], correct: Sequence[float], seed: int) -> dict[str, Any]:
    n = len(judgements)
    grades = [judgement.grade for judgement in judgements if judgement.grade is not None]
    costs = {
        name: rounded(sum(getattr(judgement, name) for judgement in judgements) / n)
        for name in ("calls", "prompt_tokens", "completion_tokens")
    }
    return {
        "acc_star": rounded(math.fsum(correct) / n),
        "ci95": rounded(bootstrap_interval(correct, seed)),
        "grade": rounded(sum(grades) / len(grades)) if grades else None,
        "grades": [grades.count(grade) for grade in range(1, 6)],
        "failed": n - len(grades),
        **costs,
    }


def notes(summary: Mapping[str, Any]) -> Iterator[str]:
    """What stands below a table with Acc*: whose it is, what failed, and the paired tests in words."""
    yield f"Acc* is the share of answers that {summary['judge']} grades {summary['correct_from']} or 5."
    if summary["judge"] == EMBEDDED:
        yield "The judge is the embedded reader: it compares words and numbers and knows nothing of meaning."
    failed = sum(row["failed"] for row in summary["methods"].values())
    if failed:
        yield f"{failed:,} of its judgements failed (no grade could be read): these answers count as wrong for Acc*."
    yield from verdicts(summary["paired"], "Acc*")


def _cut(folder: RunFolder, judge: Judge) -> tuple[int, int]:
    """How many lines are to be kept, and their size in bytes: those that go with the scores, line by line."""
    path = folder.path / JUDGEMENTS
    number = size = 0
    scores = folder.scores()
    for number, line in enumerate(judged(folder), start=1):
        scored = next(scores, None)
        if scored is None or (scored.method, scored.question) != (line.method, line.question):
            raise UserError(
                f"{path}, line {number}: judges another answer than scores.jsonl has there; delete the file"
            )
        if line.judge != judge.digest:
            raise UserError(f"{path} was written by another judge or with another rubric; delete it to judge again")
    if number:
        with path.open("rb") as lines:
            size = sum(len(line) for line in islice(lines, number))
    return number, size


def _decoded(path: Path, number: int, line: bytes) -> Judged:
    try:
        return Judged.decode(line.decode())
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(
            f"{path}, line {number}: not a judgement ({error!r}); delete the file to judge again"
        ) from error
