"""Simulates a team: it replies at once, with text of a known length, and counts requests."""

import hashlib
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import cycle, islice

from actors.agents.role_agent import AgentMemory
from actors.agents.roles import DUMMY_SENTENCE
from actors.messages import Field, Message, Request, Role, Turn, TurnResult, Value
from actors.prompting.prompt import build_request, in_own_form, with_own_evidence
from actors.settings import AgentSettings
from experiments.datasets.item import Item
from experiments.dry_run.counts import PhaseCounts
from experiments.dry_run.token_count import TokenCounter
from experiments.judging.judge import grading_request
from experiments.judging.rubric import GRADED, Rubric
from experiments.planning.run_models import MAIN

# Of a usual length: its tokens stand for every reply's where none were measured.
REPLY = (
    "{key} The passage about the bridge says that it was opened by the mayor in 1931, and the table lists the same "
    "year next to its name; the second picture shows the date above the northern arch, so the colleague who named "
    "another year had mistaken it for the older one."
)
ANSWER = "the northern bridge"
CONFIDENCE = 0.85
KEY_DIGITS = 8
MOST_WORDS = 4096


def simulated_reply(count: Callable[[str], int], max_tokens: int, length: float | None) -> tuple[str, int]:
    """Returns a reply with a place for a key, and its tokens. Without a `length` it is `REPLY`."""
    words = REPLY.removeprefix("{key} ").split()

    def reply(word_count: int) -> str:
        return " ".join(["{key}", *islice(cycle(words), word_count)])

    def tokens(text: str) -> int:
        reasoning = text.format(key="0" * KEY_DIGITS)
        return min(max_tokens, count(f"Reasoning: {reasoning}\nAnswer: {ANSWER}\nConfidence: {CONFIDENCE}"))

    text = REPLY
    if length is not None:
        # With any tokenizer more words are more tokens.
        wanted_tokens = min(round(length), max_tokens)
        word_count = bisect_left(range(MOST_WORDS), wanted_tokens, key=lambda number: tokens(reply(number)))
        text = reply(word_count)
    return text, tokens(text)


@dataclass(frozen=True)
class SimulatedCache:
    """Digests of the requests that were made, and beginnings of prompts by model."""

    requests: set[str] = field(default_factory=set)
    prefixes: set[tuple[str, str]] = field(default_factory=set)


class SimulatedAgents:
    """Agents without a model. A reply contains a key of its request, so equal requests have equal replies.

    counter: counts the tokens of the run's own model.
    role_counters: key and counter of the other models by role, where roles have some.
    lengths: tokens of a reply by role, and under "" of any other role.
    reuse: whether the completion cache answers a request that was made before.
    """

    def __init__(
        self,
        roles: Iterable[Role],
        settings: AgentSettings,
        counter: TokenCounter,
        role_counters: Mapping[str, tuple[str, TokenCounter]],
        lengths: Mapping[str, float],
        reuse: bool = True,
    ) -> None:
        self.roles = {role.name: role for role in roles}
        self.memory = AgentMemory()  # of all agents
        self.settings = settings
        self.counter = counter
        self.role_counters = role_counters
        self.reuse = reuse
        self._lengths = lengths
        self._reply = cache(partial(simulated_reply, counter.text, settings.max_tokens))
        self.reply_tokens = self._reply(lengths.get(""))[1]

    def reply(self, role: Role, key: str) -> tuple[str, int]:
        """Returns the reply of a role's agent to the request with this key, and its tokens."""
        text, tokens = self._reply(self._lengths.get(role.name, self._lengths.get("")))
        return text.format(key=key), tokens


@dataclass(frozen=True)
class SimulatedSpeaker:
    """Takes turns for simulated agents, and adds them to the counts of a phase and their requests to a cache."""

    agents: SimulatedAgents
    counts: PhaseCounts
    cache: SimulatedCache

    async def take(self, turn: Turn) -> TurnResult:
        role = self.agents.roles[turn.agent]
        turn = with_own_evidence(in_own_form(turn, role), self.agents.settings.evidence)
        recalled = self.agents.memory.recall(turn)
        self.counts.turns += 1

        message = Message(f"{turn.round}/{turn.agent}", turn.agent, turn.round, DUMMY_SENTENCE)
        if not role.dummy:
            request = build_request(turn, role, recalled, self.agents.settings)
            content, prompt_tokens, completion_tokens = self._answer(request, role)
            message = replace(
                message, content=content, prompt_tokens=prompt_tokens, completion_tokens=completion_tokens
            )
            if role.answers and (turn.task is None or turn.task.answers):
                message = replace(message, answer=ANSWER, confidence=CONFIDENCE)
        if turn.task:
            values = [(field.name, simulated_value(field)) for field in turn.task.fields]
            message = replace(message, fields=tuple(values))
        self.agents.memory.remember(turn, message)
        return TurnResult(message)

    def close(self, discussion: str) -> None:
        """Counts the discussion, which the agents forget."""
        self.counts.discussions += 1
        self.agents.memory.forget([discussion])

    def _answer(self, request: Request, role: Role) -> tuple[str, int, int]:
        """Counts a request. Returns the reply's text, and the tokens of prompt and reply."""
        agents = self.agents
        model, counter = agents.role_counters.get(role.played, (MAIN, agents.counter))
        # Everything that a completion depends on here, as in the completion cache's key.
        parts = [request.prefix, request.own, str(request.seed)]
        if agents.role_counters:
            parts.insert(0, model)
        digest = hashlib.blake2b("\x1f".join(parts).encode(), digest_size=16).hexdigest()
        text, completion_tokens = agents.reply(role, digest[:KEY_DIGITS])
        shared_tokens = counter.shared(request)
        prompt_tokens = shared_tokens + counter.own(request)

        counts = [self.counts]
        if agents.role_counters:
            counts.append(self.counts.by_model.setdefault(model, PhaseCounts()))
        for model_counts in counts:
            model_counts.add_call(prompt_tokens, completion_tokens)
            model_counts.longest = max(model_counts.longest, prompt_tokens)
        if digest not in self.cache.requests or not agents.reuse:
            self.counts.computed += 1
            self.counts.computed_prompt += prompt_tokens
            self.counts.computed_completion += completion_tokens
            if (model, request.prefix) in self.cache.prefixes:
                self.counts.cached += shared_tokens
        self.cache.requests.add(digest)
        self.cache.prefixes.add((model, request.prefix))
        return text, prompt_tokens, completion_tokens


def simulated_value(field: Field) -> str:
    """Returns a value that a task can read."""
    if field.values:
        return field.values[0]
    return repr(CONFIDENCE) if field.value is Value.SHARE else ANSWER


def judge_calls(items: Sequence[Item], answers: int, rubric: Rubric, counter: TokenCounter) -> PhaseCounts:
    """Counts at most what `answers` cost the judge, from a sample: equal answers are judged once."""
    # A judge's reason is assumed to have a third of the length of an agent's reply.
    verdict = f"Reasoning: {REPLY[: len(REPLY) // 3]}\nGrade: 5" if rubric is GRADED else "Same: yes"
    verdict_tokens = counter.text(verdict)
    counts = PhaseCounts(discussions=len(items))
    for item in items:
        request = grading_request(item, ANSWER, rubric=rubric)
        counts.add_call(counter.shared(request) + counter.own(request), verdict_tokens)
    return counts.scaled("judging, at most", answers)
