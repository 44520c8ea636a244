"""Judges a whole run. Answers are in judgements.jsonl, and agents' descriptions of pictures in scenes.jsonl.

judgements.jsonl has a line for every line of scores.jsonl, in their order. A resumed run judges only what is missing or
has failed.

scenes.jsonl is for Sim. of MH-MMKG's Table 4: whether an agent's description of an entity's pictures shows the same as
people's. It has a line for every description of an entity that people described too, and is written at once, when all
of them are judged. Neither people's words nor the verdicts reach an agent.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Self

from actors.errors import UserError
from actors.messages import Question
from actors.runtime.in_order import in_order
from experiments.datasets.item import Item
from experiments.judging.judge import Judge, Judgement
from experiments.judging.rubric import GRADED, SAME_SCENE, Rubric
from experiments.records import jsonl
from experiments.records.failures import Breaker
from experiments.records.progress import Progress
from experiments.records.recorder import JUDGEMENTS, SCENES, RunFolder
from experiments.records.records import Record, Scored
from experiments.records.run_files import write_atomically
from topologies.answers import wording

DAMAGED = "delete the file to judge again"


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
    """The complete lines of judgements.jsonl, or of scenes.jsonl. Raises UserError for one that is no judgement."""
    return jsonl.records(folder.path / file, Judged.decode, DAMAGED)


async def judge_run(
    folder: RunFolder,
    judge: Judge,
    items: Mapping[str, Item],
    concurrency: int,
    progress: Progress,
    breaker: Breaker,
    rubric: Rubric = GRADED,
) -> None:
    """Judges every answer in scores.jsonl without a judgement, or whose judgement failed.

    Call it while the folder's `Recorder` is open, which keeps other writers out. `items` are all that were evaluated,
    by question id; `concurrency` judgements are requested at once. Raises UserError for a file that cannot be written,
    or holds judgements of other answers, another judge or another rubric, and TooManyFailures.
    """
    path = folder.path / JUDGEMENTS
    digest = judge.digest(rubric)
    done, size, known = _judged_before(folder, digest)
    # Counted first, for the progress bar: records are streamed and never all in memory.
    total = sum(1 for _ in folder.scores())
    bar = progress.phase(f"judging with {judge.name}", total=total, done=done)

    async def grade(scored: Scored) -> Judgement:
        if (scored.method, scored.question) in known:
            return known[scored.method, scored.question]
        judgement = await judge.grade(items[scored.question], scored.answer, rubric)
        breaker.count(("the judge",), judgement.status, judgement.error)
        return judgement

    with path.open("ab", buffering=0) as file:
        file.truncate(size)  # without a half-written last line
        # In the order of the scores, whichever is ready first: a resumed run matches the files line by line.
        async for scored, judgement in in_order(islice(folder.scores(), done, None), grade, concurrency):
            # Not synced to disk: a judgement lost in a power cut is made again.
            jsonl.append(file, Judged(scored.method, scored.question, digest, judgement).encode())
            bar.advance()


def _judged_before(folder: RunFolder, digest: str) -> tuple[int, int, dict[tuple[str, str], Judgement]]:
    """Number and size in bytes of judgements before the first that failed, and by answer those after it."""
    path = folder.path / JUDGEMENTS
    done = size = 0
    after: dict[tuple[str, str], Judgement] = {}
    failed = False
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
        failed = failed or judgement.judgement.grade is None
        if not failed:
            done, size = number, size + len(line)
        elif judgement.judgement.grade is not None:
            after[judgement.method, judgement.question] = judgement.judgement
    return done, size, after


def similarities(folder: RunFolder) -> dict[tuple[str, str], float]:
    """The share of judged descriptions that show the same as people's, by method and question."""
    verdicts: dict[tuple[str, str], list[bool]] = {}
    for scene in (scene for scene in judged(folder, SCENES) if scene.judgement.grade is not None):
        verdicts.setdefault((scene.method, scene.question), []).append(scene.judgement.correct)
    return {key: sum(same) / len(same) for key, same in verdicts.items()}


async def judge_scenes(
    folder: RunFolder,
    judge: Judge,
    captions: Mapping[str, str],
    methods: Sequence[str],
    concurrency: int,
    progress: Progress,
    breaker: Breaker,
) -> None:
    """Judges the descriptions of entities that people described too. Raises UserError and TooManyFailures."""
    digest = judge.digest(SAME_SCENE)
    known = list(judged(folder, SCENES))
    if known and known[0].judge != digest:
        raise UserError(f"{folder.path / SCENES} was written by another judge or with another rubric; delete it")
    # Written at once, so a file that is there is whole.
    if known and all(scene.judgement.grade is not None for scene in known):
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
        question = Question(f"scene/{entity}", f"What do the pictures of {entity} show?")
        judgement = await judge.grade(Item(question, (by_name[wording(entity)],)), text, SAME_SCENE)
        breaker.count(("the judge",), judgement.status, judgement.error)
        return judgement

    lines = []
    async for (method, question, entity, _), judgement in in_order(iter(described), grade, concurrency):
        lines.append(Judged(method, question, digest, judgement, entity).encode())
        bar.advance()
    write_atomically(folder.path / SCENES, "".join(f"{line}\n" for line in lines).encode())
