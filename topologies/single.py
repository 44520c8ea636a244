"""One agent that answers alone, from its own knowledge or from evidence."""

from __future__ import annotations

from dataclasses import replace

from actors.messages import Question, Trace, Turn, derive_seed
from topologies.method import Method
from topologies.topology import Ask, discussion_id

SINGLE_AGENT = "single"


class Single:
    """One turn of one agent. `closed_book` takes the evidence away first (standard prompting)."""

    def __init__(self, method: str, closed_book: bool = False) -> None:
        self.method = method
        self._closed_book = closed_book

    async def answer(self, question: Question, ask: Ask, seed: int, sample: int = 0) -> Trace:
        # Taken from the question and not just from the prompt, so that the trace lists no evidence either.
        shown = replace(question, evidence=()) if self._closed_book else question
        # Neither method nor sample is part of the seed: methods that send the same prompt share one completion.
        turn_seed = derive_seed(seed, question.id, 1, SINGLE_AGENT)
        message = await ask(Turn(discussion_id(self.method, question, sample), shown, SINGLE_AGENT, 1, turn_seed))
        return Trace(
            question=question.id,
            method=self.method,
            sample=sample,
            agents=(SINGLE_AGENT,),
            turns=(message,),
            answer=message.answer,
            status=message.status,
            seed=seed,
            evidence=tuple(source.id for source in shown.evidence),
        )


METHODS = (
    Method(
        "closed_book",
        "one agent alone, without evidence",
        lambda context: Single(context.method, True),
        asks_team=False,
    ),
    Method("single", "one agent alone, with all evidence", lambda context: Single(context.method), asks_team=False),
)
