"""Runs one agent. It recalls its turns, builds the prompt, asks its model, reads the reply, and remembers it.

From a prompt that does not fit the model's context, it cuts the least relevant evidence.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import replace
from math import ceil
from typing import NamedTuple

from actors.agents.roles import DUMMY_SENTENCE
from actors.errors import DOES_NOT_FIT, MemoryLost, ModelError
from actors.messages import (
    Abilities,
    Completion,
    FieldKind,
    Kind,
    Message,
    Modality,
    Question,
    Request,
    Role,
    Source,
    Status,
    Turn,
    Usage,
)
from actors.models import Model, abilities_of
from actors.prompting.form import form_of
from actors.prompting.likelihood import likelihoods
from actors.prompting.prompt import build_request, evidence_for, in_own_form, repair_request
from actors.prompting.reply import read_completion, reply_of, unread
from actors.prompting.safe_text import one_line
from actors.settings import AgentSettings

SHARE = 0.25  # of the remaining sources, cut at a time where the model does not report the size of the excess


class Asked(NamedTuple):
    """The last completion for a request. calls: the completions that it counts for. usage: all that was used."""

    completion: Completion
    calls: int
    usage: Usage


Complete = Callable[[Request], Awaitable[Asked]]


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
        own = self._turns.get(turn.discussion, {}).get(turn.agent, {})
        recalled = tuple(own[r] for r in sorted(own) if r < turn.round)
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

    async def take(self, turn: Turn, cut: tuple[str, ...] = ()) -> tuple[Message, Usage]:
        """Answers one turn. A failure is a message with status `unparsed` or `failed`, and the error.

        The message depends on the turn and the model alone; the usage includes crashes and repeated calls. `cut` are
        ids of sources to leave out from the start. Raises MemoryLost where this agent was restarted in the middle of
        the discussion.
        """
        recalled, turn = (*self.memory.recall(turn), *turn.memories), in_own_form(turn, self.role)
        if self.role.dummy:
            message, usage = replace(unread(turn), content=DUMMY_SENTENCE), Usage()
        else:
            message, usage = await self._answer(turn, recalled, cut, self._complete)
        # A failed turn too: `turn.recall` counts turns, whatever came of them.
        self.memory.remember(turn, message)
        return message, usage

    async def _answer(
        self, turn: Turn, recalled: Sequence[Message], cut: tuple[str, ...], complete: Complete
    ) -> tuple[Message, Usage]:
        """Asks the model, and once more for the fields that could not be read.

        The message's `calls` count completions, so that a turn that failed has those from before it failed.
        """
        if self._abilities is None:
            self._abilities = await abilities_of(self._model)  # they do not change while the model runs
        abilities, form = self._abilities, form_of(turn)

        def first(cut: Sequence[str]) -> Request:
            return build_request(turn, self.role, recalled, self._settings, cut, abilities)

        asked, cut = await self._ask(turn, complete, first, cut)
        responses, text = [asked], asked.completion.text
        reading = read_completion(form, asked.completion)
        # Only for the form: a call that failed has had its retries.
        if reading is not None and (faults := reading.faults):
            # The repair is longer than the first request, so the same evidence would not fit.
            asked, cut = await self._ask(turn, complete, lambda c: repair_request(first(c), text, form, faults), cut)
            responses.append(asked)
            reading = reading.repaired_by(form, asked.completion)
        reply = None if reading is None else reply_of(turn, reading)
        last = asked.completion
        error = last.error if last.stop == "error" else ""
        if reading is not None and reading.faults:
            error = "; ".join(one_line(f"{fault.field.name}: {fault.reason}") for fault in reading.faults)
            if ended := last.error or ("" if last.text.strip() else "the reply was empty"):
                error = f"{error} ({one_line(ended)})"
        counted = [completion for completion, calls, _ in responses if calls]
        chances = likelihoods(form, reply, last) if reply and len(responses) == 1 else ()
        # Rounded as in prompts: the last digits depend on the engine's other requests at the time.
        probable = tuple((name, round(likelihood, 2)) for name, likelihood in chances)
        confidence = reply.confidence if reply else None
        message = replace(
            reply or unread(turn),
            content=reply.content if reply else one_line(text),
            confidence=confidence
            if turn.task and not turn.task.answers
            else dict(probable).get(FieldKind.ANSWER, confidence),
            status=Status.OK if reply else Status.UNPARSED if reading else Status.FAILED,
            error=error,
            cut=cut,
            calls=sum(calls for _, calls, _ in responses),
            prompt_tokens=sum(completion.prompt_tokens for completion in counted),
            completion_tokens=sum(completion.completion_tokens for completion in counted),
            repair_tokens=sum(c.prompt_tokens + c.completion_tokens for c in counted[1:]),
            likelihoods=probable,
        )
        usage = sum((used for _, _, used in responses), Usage())
        return message, replace(usage, replica=last.replica)

    async def _ask(
        self, turn: Turn, complete: Complete, build: Callable[[tuple[str, ...]], Request], cut: tuple[str, ...]
    ) -> tuple[Asked, tuple[str, ...]]:
        """Completes `build(cut)`, with as much more evidence cut as the model's context demands. Returns the cut too.

        A completion that is of no use has `stop="error"` and the reason.
        """
        usage = Usage()
        # Ends, as each further attempt has less evidence than the one before.
        while True:
            request = build(cut)
            completion, calls, used = await complete(request)
            usage += used
            if completion.stop == "error":
                completion = replace(completion, error=one_line(completion.error or "the model gave no reason"))
            if completion.stop != "too_long":
                return Asked(completion, calls, usage), cut
            more = cut_more(turn.question, self.role.evidence, cut, request, completion)
            if not more:
                sizes = f"{completion.prompt_tokens} tokens, {completion.limit_tokens} at most"
                # Without numbers the error tells whether the model or a server in between refused it.
                known = sizes if completion.limit_tokens else completion.error
                error = (
                    f"{DOES_NOT_FIT} the model's context{f' ({known})' if known else ''} and no evidence is left to "
                    "cut: lower agents.budget_words, agents.max_tokens or topology.rounds, or raise model.max_model_len"
                )
                return Asked(replace(completion, stop="error", error=one_line(error)), calls, usage), cut
            cut = (*cut, *more)

    async def _complete(self, request: Request) -> Asked:
        """Asks the model until it does not refuse, a few times at most. ModelGone is raised, and ends the run.

        The tokens of a refused call are not known; it counts as a call without any. A prompt that does not fit is no
        call, as nothing is computed for it.
        """
        refused = Completion(request.id, "", stop="error")
        # Without a pause: a pool waits for its replicas, and an endpoint's client makes its own pauses.
        for failures in range(self._settings.retries + 1):
            try:
                completion = await self._model.complete(request)
            except ModelError as refusal:
                refused = replace(refused, error=str(refusal))
                continue
            fits = completion.stop != "too_long"
            return Asked(completion, int(fits), (Usage.of(completion) if fits else Usage()) + Usage(calls=failures))
        return Asked(refused, 0, Usage(calls=self._settings.retries + 1))


def least_relevant(question: Question, reads: Modality, cut: Collection[str]) -> list[Source]:
    """Returns the sources that can still be cut, worst rank first. Passages and pictures are ranked apart.

    At equal rank the passage goes before the picture: pictures come first in the prompt, and the prefix cache still
    serves the ones left.
    """
    left = [source for source in evidence_for(question, reads) if source.id not in cut]
    pictures = [(rank, 0, s) for rank, s in enumerate(s for s in left if s.kind is Kind.IMAGE)]
    texts = [(rank, 1, s) for rank, s in enumerate(s for s in left if s.kind is not Kind.IMAGE)]
    return [source for _, _, source in sorted([*texts, *pictures], key=lambda r: r[:2], reverse=True)]


def cut_more(
    question: Question, reads: Modality, cut: Collection[str], request: Request, completion: Completion
) -> list[str]:
    """Returns the ids of the sources to cut next from a request that was too long. None when no source is left.

    As many as the excess is estimated to need: the next attempt shows whether that was enough.
    """
    order = least_relevant(question, reads, cut)
    excess = completion.prompt_tokens - completion.limit_tokens if completion.limit_tokens > 0 else 0
    if excess <= 0:
        # `ceil` takes at least one while any is left, so that attempts end.
        return [source.id for source in order[: ceil(SHARE * len(order))]]
    characters = max(1, len(request.system) + len(request.shared) + len(request.own))
    # Both estimates are high rather than low, so that no more is cut than necessary.
    per_character = 1.25 * completion.prompt_tokens / characters
    # Four characters make about one token; further tokens belong to the pictures.
    per_picture = max(1.0, completion.prompt_tokens - characters / 4) / max(1, len(request.images))
    ids: list[str] = []
    for source in order:
        if excess <= 0:
            break
        ids.append(source.id)
        picture = source.kind is Kind.IMAGE
        excess -= ceil(per_picture if picture else per_character * (len(source.title) + len(source.text)))
    return ids
