"""Second looks at a source: the model is shown what it found in it, and asked for what it missed. GraphRAG (Edge et al.
2024) and LightRAG call it gleaning."""

from __future__ import annotations

from dataclasses import replace

from actors.messages import FieldKind, Given, Question, Status, Task, Trace, Turn, derive_seed
from experiments.evidence.extraction import TRIPLES, Step
from topologies.topology import Ask, discussion_id

MISSED = Task(
    f"{TRIPLES.instruction} Under {FieldKind.FOUND.value} stands what was taken from this source before. Read the "
    "source again and give only what is missing there, in the same form; give none of those triples again, and nothing "
    "where nothing is missing.",
    TRIPLES.fields,
)


class Gleaned:
    """A step with up to `looks` further turns for each source, the last of them being the one that adds nothing.

    Nothing is gleaned where the first turn found nothing, or could not be read.
    """

    def __init__(self, step: Step, looks: int) -> None:
        self.method, self.phase = step.method, step.phase
        self._step, self._looks = step, looks

    async def answer(self, question: Question, ask: Ask, seed: int = 0, sample: int = 0) -> Trace:
        """A discussion of up to 1 + looks turns; its status is that of the last."""
        trace = await self._step.answer(question, ask, seed, sample)
        (field,) = self._step.task.fields
        turns, found = [*trace.turns], dict[str, str]()
        for look in range(self._looks + 1):
            if look:
                given = tuple(Given(FieldKind.FOUND, value) for value in found.values())
                turns.append(await ask(self._turn(question, sample, look, replace(MISSED, given=given))))
            said = turns[-1].said(field.name) if turns[-1].status is Status.OK else ()
            # By its letters, whatever case: a model that repeats itself may spell a name another way.
            new = {value.casefold(): value for value in said if value.casefold() not in found}
            if not new:
                break
            found |= new
        return replace(trace, turns=tuple(turns), status=turns[-1].status)

    def _turn(self, question: Question, sample: int, look: int, task: Task) -> Turn:
        return Turn(
            discussion=discussion_id(self.method, question, sample),
            question=question,
            agent=self._step.role.name,
            round=look + 1,
            seed=derive_seed("extract", self.method, question.id, look),
            task=task,
        )
