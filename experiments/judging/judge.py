"""Acc*: a model judges each answer against gold by a rubric. A grade of 4 or more is correct.

The judge is the one model that is shown gold. Its requests go to its own pool, and agents never see them.
"""

import hashlib
from dataclasses import dataclass, replace
from typing import Annotated

from pydantic import Field

from actors.agents.repair import ChangeRequest, ask_in_form
from actors.backends.redaction import without_keys
from actors.messages import Abilities, FieldKind, Grading, Request, Status, Usage, derive_seed
from actors.models import Model, ModelResponse, abilities_of, complete_with_retries
from actors.prompting.form import as_json, in_lines, letters, schema
from actors.prompting.prompt import CHOICES, QUESTION, REPLY_FORM, is_enforced
from actors.prompting.safe_text import line_of_its_own, one_line, safe_line
from actors.settings import Replies
from experiments.datasets.item import Item
from experiments.judging.rubric import CORRECT, GRADED, Rubric
from experiments.records.records import Count

REFERENCE = "## Reference answer"
GRADED_ANSWER = "## Answer to grade"
RETRIES = 2  # of a failed call, before the judgement has failed
MAX_TOKENS = 512  # the form needs a tenth of it; some judges reason before they grade


@dataclass(frozen=True, slots=True)
class Judgement:
    """A grade from 1 to 5. A verdict of yes is 5, of no 1.

    grade: None when the judge gave none that can be read; `error` has the reason.
    calls, tokens: nominal, like a message's: 1 call, 2 with a repair, 0 where there was nothing to judge.
    """

    grade: Annotated[int, Field(ge=1, le=5)] | None
    reason: str = ""
    error: str = ""
    calls: Count = 0
    prompt_tokens: Count = 0
    completion_tokens: Count = 0

    @property
    def status(self) -> Status:
        """Status of the judgement: `unparsed` where the judge replied without a readable grade."""
        if self.grade is not None:
            return Status.OK
        return Status.UNPARSED if self.completion_tokens else Status.FAILED

    @property
    def correct(self) -> bool:
        """True for an answer that counts in Acc*. Never for a judgement that failed."""
        return self.grade is not None and self.grade >= CORRECT


class Judge:
    """Grades answers with a model. In a run it is a `CachedModel`, which judges equal answers once.

    name: of the judge, in records. replies: how they keep to the form, JSON only where the model can.
    """

    def __init__(self, model: Model, name: str, replies: Replies = "auto") -> None:
        self.name = name
        self.usage = Usage()
        self._model = model
        self._replies = replies
        self._abilities: Abilities | None = None
        self._requests = 0

    def digest(self, rubric: Rubric = GRADED) -> str:
        """Makes the digest of the judge and the rubric, which judgements carry."""
        # The unit separator keeps the parts apart: none of them holds one.
        parts = self.name, rubric.text, in_lines(rubric.form), as_json(rubric.form)
        return hashlib.blake2b("\x1f".join(parts).encode(), digest_size=8).hexdigest()

    async def grade(self, item: Item, answer: str | None, rubric: Rubric = GRADED) -> Judgement:
        """Grades an answer: 1 for None, without a request. An unreadable reply gets one more request."""
        if answer is None:
            return Judgement(1, "There is no answer.")
        # Asked once: they do not change while the model runs.
        if self._abilities is None:
            self._abilities = await abilities_of(self._model)
        enforced = is_enforced(self._replies, self._abilities)
        request = grading_request(item, answer, enforced, rubric)

        async def ask(change: ChangeRequest) -> tuple[Request, ModelResponse]:
            return request, await self._complete(change(request))

        responses, reading = await ask_in_form(rubric.form, ask)
        completions = [response.completion for response in responses]
        grade = None
        reason = ""
        if reading:
            verdict = reading.value(rubric.verdict)
            grade = rubric.grades[verdict] if verdict is not None else None
            # For people who read judgements: any text before the grade will do.
            reason = one_line(reading.value(FieldKind.REASONING) or reading.preamble)[:500]
        error = ""
        if grade is None:
            last_completion = completions[-1]
            unread = f"no {rubric.verdict.lower()} in {one_line(last_completion.text)[:200]!r} ({last_completion.stop})"
            error = last_completion.error or unread
        judgement = Judgement(
            grade=grade,
            reason=reason,
            error=error,
            calls=len(completions),
            prompt_tokens=sum(completion.prompt_tokens for completion in completions),
            completion_tokens=sum(completion.completion_tokens for completion in completions),
        )
        return without_keys(judgement)

    async def _complete(self, request: Request) -> ModelResponse:
        # Two methods that gave the same answer may be judged at once: the same request, under two ids.
        self._requests += 1
        request = replace(request, id=f"{request.id}/{self._requests}")
        response = await complete_with_retries(self._model, request, RETRIES)
        self.usage += response.usage
        return response


def grading_request(item: Item, answer: str, enforced: bool = False, rubric: Rubric = GRADED) -> Request:
    """Writes rubric, question and reference, then the answer, and the form last. Answers to one question share a
    prefix.

    It does not depend on which method answered. `enforced` asks for JSON that the model is kept to.
    """
    question = item.question
    reference = tuple(map(safe_line, item.gold))
    choices = tuple(map(safe_line, question.choices))
    lines = [QUESTION, line_of_its_own(question.text)]
    if choices:
        lines.append(CHOICES)
        lines += [f"({letter}) {choice}" for letter, choice in zip(letters(choices), choices, strict=True)]
    lines.append(REFERENCE)
    lines += [f"- {part}" for part in reference]
    # Requests with equal `prefix` share this text, so that a server computes it once.
    shared = "\n".join(lines)

    # Every text is one line, so that no answer can imitate a heading of the prompt.
    answer_line = safe_line(answer)
    form = as_json(rubric.form) if enforced else in_lines(rubric.form)
    return Request(
        id=f"judge/{question.id}",
        prefix=hashlib.blake2b(shared.encode(), digest_size=8).hexdigest(),
        system=rubric.text,
        shared=shared,
        own="\n".join([GRADED_ANSWER, f"- {answer_line}", REPLY_FORM, form]),
        # From question and answer alone, so that equal answers of two methods are one request in the cache.
        seed=derive_seed("judge", question.id, answer_line),
        temperature=0.0,
        max_tokens=MAX_TOKENS,
        parts=Grading(reference, answer_line, choices, rubric.verdict),
        schema=schema(rubric.form, MAX_TOKENS) if enforced else "",
    )
