"""One agent: recalls its turns, builds the prompt, asks its model, parses the reply, and remembers it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from actors.agents.memory import Memory
from actors.agents.roles import DUMMY_SENTENCE
from actors.errors import ModelError
from actors.messages import Abilities, Completion, FieldKind, Message, Request, Role, Status, Turn, Usage
from actors.models import Model, abilities_of
from actors.prompting.form import Form, form_of, still_asked
from actors.prompting.likelihood import likelihoods
from actors.prompting.prompt import build_request, in_own_form, repair_request
from actors.prompting.reply import Reading, read, reply_of
from actors.prompting.safe_text import one_line
from actors.prompting.truncation import cut_more
from actors.settings import AgentSettings


class RoleAgent:
    """Plays one role with one model.

    Args:
        role: its name, its part of every prompt, and the kinds of evidence that it reads.
        model: usually a pool of replicas.
        settings: shared by all agents. A call that failed is repeated with the same seed, so that a retry gives what
            the first call would have given.
    """

    def __init__(self, role: Role, model: Model, settings: AgentSettings | None = None) -> None:
        self.role = role
        self.memory = Memory()
        self._model = model
        self._settings = settings or AgentSettings()
        self._abilities: Abilities | None = None

    async def take(self, turn: Turn) -> tuple[Message, Usage]:
        """Answers one turn. Failure is data: the message's status says `unparsed` or `failed`, with the error.

        The message depends on the turn and the model only. What crashes and repeated calls cost is in the usage.

        Raises:
            MemoryLost: this agent was restarted in the middle of the discussion.
        """
        recalled, turn = self.memory.recall(turn), in_own_form(turn, self.role)
        if self.role.dummy:
            message, usage = self._dummy(turn), Usage()
        else:
            message, usage = await self._answer(turn, recalled)
        # A failed turn too: `turn.recall` counts turns, whatever came of them.
        self.memory.remember(turn, message)
        return message, usage

    async def _answer(self, turn: Turn, recalled: Sequence[Message]) -> tuple[Message, Usage]:
        """Ask, and ask once more for what could not be read of the reply, and for that alone.

        The message's `calls` count completions, so a turn that failed for good keeps those from before it failed.
        """
        abilities, form = await self._model_abilities(), form_of(turn)

        def first(cut: Sequence[str]) -> Request:
            role = self.role
            modality, instruction, reads = role.modality, role.instruction, role.evidence
            return build_request(turn, modality, instruction, recalled, self._settings, cut, abilities, reads=reads)

        responses = [await self._ask(turn, first)]
        reading = responses[0].reading(form)
        # Only for the form: a call that failed has had its retries.
        if reading is not None and reading.faults:
            text, faults, partial = responses[0].completion.text, reading.faults, reading
            # The repair is longer than the first request, so what was cut from that would not fit here either.
            cut = responses[0].cut
            responses.append(await self._ask(turn, lambda cut: repair_request(first(cut), text, form, faults), cut))
            again = responses[1].reading(still_asked(form, faults), form)
            reading = None if again is None else partial.repaired_by(again)
        reply = None if reading is None else reply_of(turn, reading)
        error = responses[-1].error
        completions = [response.completion for response in responses if response.counts]
        told = likelihoods(form, reply, completions[0]) if reply and len(responses) == 1 else ()
        # As precise as prompts state them: the last digits depend on what else an engine computes at the time.
        probable = tuple((name, round(likelihood, 2)) for name, likelihood in told)
        confidence = reply.confidence if reply else None
        message = Message(
            id=f"{turn.round}/{turn.agent}",
            agent=turn.agent,
            round=turn.round,
            content=reply.content if reply else one_line(responses[0].completion.text),
            answer=reply.answer if reply else None,
            confidence=confidence
            if turn.task and not turn.task.answers
            else dict(probable).get(FieldKind.ANSWER, confidence),
            status=Status.OK if reply else Status.FAILED if error else Status.UNPARSED,
            error=error or ("" if reply or reading is None else _unread(reading)),
            heard=tuple(heard.message.id for heard in turn.heard),
            cut=responses[-1].cut,
            seed=turn.seed,
            calls=len(completions),
            prompt_tokens=sum(completion.prompt_tokens for completion in completions),
            completion_tokens=sum(completion.completion_tokens for completion in completions),
            fields=reply.fields if reply else (),
            repair_tokens=sum(c.prompt_tokens + c.completion_tokens for c in completions[1:]),
            likelihoods=probable,
        )
        return message, sum((response.usage for response in responses), Usage())

    async def _model_abilities(self) -> Abilities:
        if self._abilities is None:
            # Asked once: they do not change while the model runs.
            self._abilities = await abilities_of(self._model)
        return self._abilities

    def _dummy(self, turn: Turn) -> Message:
        heard = tuple(heard.message.id for heard in turn.heard)
        name = turn.agent
        return Message(f"{turn.round}/{name}", name, turn.round, content=DUMMY_SENTENCE, heard=heard, seed=turn.seed)

    async def _ask(self, turn: Turn, build: Callable[[Sequence[str]], Request], cut: tuple[str, ...] = ()) -> _Response:
        """The response to `build(cut)`, with as much more evidence cut as the model's context demands.

        A prompt that does not fit is no call: nothing is computed for it.
        """
        # Comes to an end, as every further attempt has less evidence than the one before.
        failures = 0
        while True:
            request = build(cut)
            completion, failed = await self._complete(request)
            failures += failed
            if completion.stop != "too_long":
                # After the last retry there is no completion to count.
                counts = failed <= self._settings.retries
                usage = Usage.of(completion) if counts else Usage()
                error = (completion.error or "the model gave no reason") if completion.stop == "error" else ""
                break
            more = cut_more(turn.question, self.role.evidence, cut, request, completion)
            if not more:
                counts, usage, error = False, Usage(), _does_not_fit(completion)
                break
            cut = (*cut, *more)
        # What a failed call cost is not known; it counts as a call without tokens.
        return _Response(completion, one_line(error), counts, cut, usage + Usage(calls=failures))

    async def _complete(self, request: Request) -> tuple[Completion, int]:
        """The completion, or one with `stop="error"` after the last retry, and how many calls failed."""
        # Without a pause: a pool waits for its replicas, and an endpoint's client has pauses of its own.
        for failed in range(self._settings.retries + 1):
            try:
                # A ModelGone passes: it is no failure of this turn and ends the run.
                return await self._model.complete(request), failed
            except ModelError as error:
                reason = str(error)
        return Completion(id=request.id, text="", stop="error", error=reason), self._settings.retries + 1


@dataclass(frozen=True, slots=True)
class _Response:
    """The last completion for one request, and what it took to get it.

    `counts` is False where the model never answered; `error` says why the completion is of no use, `cut` what the
    prompt went without, `usage` what was spent.
    """

    completion: Completion
    error: str
    counts: bool
    cut: tuple[str, ...]
    usage: Usage

    def reading(self, form: Form, among: Form | None = None) -> Reading | None:
        """What the reply says of the form's fields; None where there is no reply."""
        if self.error:
            return None
        return read(form, self.completion.text, self.completion.stop == "length", among)


def _unread(reading: Reading) -> str:
    """What could not be read of a reply that was asked for twice."""
    return "; ".join(one_line(f"{fault.field.name}: {fault.reason}") for fault in reading.faults)


def _does_not_fit(completion: Completion) -> str:
    size = f"{completion.prompt_tokens} tokens, {completion.limit_tokens} at most" if completion.limit_tokens else ""
    # Without numbers its words tell whether it is the model's context or a server on the way.
    known = size or completion.error
    return (
        f"the prompt does not fit the model's context{f' ({known})' if known else ''} and no evidence is left to cut: "
        "lower agents.budget_words, agents.max_tokens or topology.rounds, or raise model.max_model_len"
    )
