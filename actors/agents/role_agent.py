"""Runs one agent. It recalls its turns, builds the prompt, asks its model, reads the reply, and remembers it.

From a prompt that does not fit the model's context, it cuts the least relevant evidence.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from math import ceil

from actors.agents.repair import ChangeRequest, ask_in_form
from actors.agents.roles import DUMMY_SENTENCE
from actors.errors import DOES_NOT_FIT, MemoryLost
from actors.messages import (
    Abilities,
    Completion,
    FieldKind,
    Kind,
    Message,
    Modality,
    ModelCall,
    Question,
    Request,
    Role,
    Source,
    Status,
    Turn,
    TurnResult,
    Usage,
)
from actors.models import Model, ModelResponse, abilities_of, complete_with_retries
from actors.prompting.form import form_of
from actors.prompting.likelihood import likelihoods as likelihoods_of
from actors.prompting.prompt import build_request, evidence_for, in_own_form, with_own_evidence
from actors.prompting.reply import Reading, message_in, reply_of
from actors.prompting.safe_text import one_line
from actors.settings import AgentSettings
from actors.wire import replace

# Share of the remaining sources that is cut at a time where the model does not report the size of the excess.
CUT_SHARE = 0.25

Complete = Callable[[Request], Awaitable[ModelResponse]]


class AgentMemory:
    """An agent's own earlier turns (the s_i of Eq. 1) by discussion, while that is open.

    The instances of a role share one object and no turn: an agent recalls the turns under its own name. Turns end with
    their discussion, or answers would depend on the order of questions.
    """

    def __init__(self) -> None:
        self._turns: dict[str, dict[str, dict[int, Message]]] = {}

    def __len__(self) -> int:
        return len(self._turns)

    def recall(self, turn: Turn) -> tuple[Message, ...]:
        """Returns the messages of earlier rounds, oldest first. Raises MemoryLost unless there are `turn.recall` of
        them."""
        if not turn.recall:
            return ()  # even if there are some: concurrent turns would recall whichever happened to be first
        by_round = self._turns.get(turn.discussion, {}).get(turn.agent, {})
        recalled = tuple(by_round[round] for round in sorted(by_round) if round < turn.round)
        if len(recalled) != turn.recall:
            raise MemoryLost(f"{turn.id}: {len(recalled)} earlier turns remembered, {turn.recall} expected")
        return recalled

    def remember(self, turn: Turn, message: Message) -> None:
        """Adds the message of a turn."""
        # By round, so that a replayed turn takes its own place and does not count twice.
        self._turns.setdefault(turn.discussion, {}).setdefault(turn.agent, {})[turn.round] = message

    def forget(self, discussions: Iterable[str]) -> None:
        """Drops all turns of these discussions, known or not."""
        for discussion in discussions:
            self._turns.pop(discussion, None)


class RoleAgent:
    """Plays one role with one model, usually a pool. A retry has the seed of the failed call, and so its completion."""

    def __init__(self, role: Role, model: Model, settings: AgentSettings | None = None) -> None:
        self.role = role
        self.memory = AgentMemory()
        self._model = model
        self._settings = settings or AgentSettings()
        self._abilities: Abilities | None = None

    async def take(self, turn: Turn, cut: tuple[str, ...] = ()) -> TurnResult:
        """Answers one turn. A failure is a message with status `unparsed` or `failed`, and the error.

        The message depends on the turn and the model alone; the usage includes crashes and repeated calls. `cut` are
        ids of sources to leave out from the start. Raises MemoryLost where this agent was restarted in the middle of
        the discussion.
        """
        recalled = (*self.memory.recall(turn), *turn.memories)
        turn = with_own_evidence(in_own_form(turn, self.role), self._settings.evidence)
        if self.role.dummy:
            result = TurnResult(message_in(turn, content=DUMMY_SENTENCE))
        else:
            result = await self._answer(turn, recalled, cut, self._complete)

        # A failed turn too: `turn.recall` counts turns, whatever came of them.
        self.memory.remember(turn, result.message)
        return result

    async def _answer(
        self, turn: Turn, recalled: Sequence[Message], cut: tuple[str, ...], complete: Complete
    ) -> TurnResult:
        if self._abilities is None:
            self._abilities = await abilities_of(self._model)  # they do not change while the model runs
        abilities = self._abilities
        calls: list[ModelCall] = []

        async def ask(change: ChangeRequest) -> tuple[Request, ModelResponse]:
            # A repair is longer than the first request, so the evidence that was cut from that would not fit.
            nonlocal cut
            request, response, cut = await self._ask(
                turn,
                complete,
                lambda omitted: change(build_request(turn, self.role, recalled, self._settings, omitted, abilities)),
                cut,
            )
            # The text repeats the parts, and travels back with the message.
            calls.append(ModelCall(replace(request, parts=None), response.completion))
            return request, response

        responses, reading = await ask_in_form(form_of(turn), ask)
        usage = sum((response.usage for response in responses), Usage())
        usage = replace(usage, replica=responses[-1].completion.replica)
        return TurnResult(message_of(turn, responses, reading, cut), usage, tuple(calls))

    async def _ask(
        self, turn: Turn, complete: Complete, build: Callable[[tuple[str, ...]], Request], cut: tuple[str, ...]
    ) -> tuple[Request, ModelResponse, tuple[str, ...]]:
        """Completes `build(cut)`, with as much more evidence cut as the model's context demands.

        Returns the request, its completion and the cut. A completion that is of no use has `stop="error"` and the
        reason.
        """
        usage = Usage()
        # Ends, as each further attempt has less evidence than the one before.
        while True:
            request = build(cut)
            completion, calls, call_usage = await complete(request)
            usage += call_usage
            if completion.stop == "error":
                completion = replace(completion, error=one_line(completion.error or "the model gave no reason"))
            if completion.stop != "too_long":
                return request, ModelResponse(completion, calls, usage), cut

            more = cut_more(turn.question, self.role.evidence, cut, request, completion)
            if not more:
                error = one_line(does_not_fit(completion))
                completion = replace(completion, stop="error", error=error)
                return request, ModelResponse(completion, calls, usage), cut
            cut = (*cut, *more)

    async def _complete(self, request: Request) -> ModelResponse:
        return await complete_with_retries(self._model, request, self._settings.retries)


def message_of(
    turn: Turn, responses: Sequence[ModelResponse], reading: Reading | None, cut: tuple[str, ...]
) -> Message:
    """Makes the message of a turn from its responses and what was read of them.

    Its `calls` count completions, so that a turn that failed has those from before it failed.
    """
    completion = responses[-1].completion
    reply = None if reading is None else reply_of(turn, reading)
    likelihoods: list[tuple[str, float]] = []
    if reply is None:
        status = Status.FAILED if reading is None else Status.UNPARSED
        message = message_in(turn, content=one_line(responses[0].completion.text))
    else:
        status = Status.OK
        message = reply
        if len(responses) == 1:  # a repaired reply has the tokens of some fields alone
            # Rounded as in prompts: the last digits depend on the engine's other requests at the time.
            for name, likelihood in likelihoods_of(form_of(turn), reply, completion):
                likelihoods.append((name, round(likelihood, 2)))
    confidence = message.confidence
    if turn.task is None or turn.task.answers:
        confidence = dict(likelihoods).get(FieldKind.ANSWER, confidence)

    paid = [response.completion for response in responses if response.calls]
    return replace(
        message,
        status=status,
        confidence=confidence,
        likelihoods=tuple(likelihoods),
        error=error_of(reading, completion),
        cut=cut,
        calls=sum(response.calls for response in responses),
        prompt_tokens=sum(completion.prompt_tokens for completion in paid),
        completion_tokens=sum(completion.completion_tokens for completion in paid),
        repair_tokens=sum(completion.prompt_tokens + completion.completion_tokens for completion in paid[1:]),
    )


def error_of(reading: Reading | None, completion: Completion) -> str:
    """Returns the reason why a turn has no reply that can be read, or nothing."""
    if reading is None or not reading.faults:
        return completion.error if completion.stop == "error" else ""
    error = "; ".join(one_line(f"{fault.field.name}: {fault.reason}") for fault in reading.faults)
    ending = completion.error
    if not ending and not completion.text.strip():
        ending = "the reply was empty"
    return f"{error} ({one_line(ending)})" if ending else error


def does_not_fit(completion: Completion) -> str:
    """Returns the error of a request that is too long without any evidence."""
    # Without numbers the model's error tells whether it or a server in between refused the request.
    details = completion.error
    if completion.limit_tokens:
        details = f"{completion.prompt_tokens} tokens, {completion.limit_tokens} at most"
    if details:
        details = f" ({details})"
    return (
        f"{DOES_NOT_FIT} the model's context{details} and no evidence is left to cut: lower agents.budget_words, "
        "agents.max_tokens or topology.rounds, or raise model.max_model_len"
    )


def least_relevant(question: Question, reads: Modality, cut: Collection[str]) -> list[Source]:
    """Returns the sources that can still be cut, worst rank first. Passages and pictures are ranked apart.

    At equal rank the passage goes before the picture: pictures come first in the prompt, and the prefix cache still
    serves the ones left.
    """
    sources = [source for source in evidence_for(question, reads) if source.id not in cut]
    pictures = [source for source in sources if source.kind is Kind.IMAGE]
    texts = [source for source in sources if source.kind is not Kind.IMAGE]
    ranked = [(rank, 0, source) for rank, source in enumerate(pictures)]
    ranked += [(rank, 1, source) for rank, source in enumerate(texts)]
    ranked.sort(key=lambda entry: entry[:2], reverse=True)
    return [source for _, _, source in ranked]


def cut_more(
    question: Question, reads: Modality, cut: Collection[str], request: Request, completion: Completion
) -> list[str]:
    """Returns the ids of the sources to cut next from a request that was too long. None when no source is left.

    As many as the excess is estimated to need: the next attempt shows whether that was enough.
    """
    order = least_relevant(question, reads, cut)
    excess = completion.prompt_tokens - completion.limit_tokens
    if completion.limit_tokens <= 0 or excess <= 0:
        # `ceil` takes at least one while any is left, so that attempts end.
        return [source.id for source in order[: ceil(CUT_SHARE * len(order))]]

    characters = max(1, len(request.system) + len(request.shared) + len(request.own))
    # Both estimates are high rather than low, so that no more is cut than necessary.
    tokens_per_character = 1.25 * completion.prompt_tokens / characters
    # Four characters make about one token; further tokens belong to the pictures.
    tokens_per_picture = max(1.0, completion.prompt_tokens - characters / 4) / max(1, len(request.images))
    ids: list[str] = []
    for source in order:
        if excess <= 0:
            break
        ids.append(source.id)
        if source.kind is Kind.IMAGE:
            excess -= ceil(tokens_per_picture)
        else:
            excess -= ceil(tokens_per_character * (len(source.title) + len(source.text)))
    return ids
