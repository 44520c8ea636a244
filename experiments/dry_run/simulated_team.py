"""Simulates a team: it replies at once, with text of a known length, and counts requests."""

import hashlib
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import cycle, islice

from actors.agents.role_agent import AgentMemory
from actors.agents.roles import DUMMY_SENTENCE
from actors.messages import Message, Question, Request, Role, Trace, Turn, Value
from actors.prompting.prompt import build_request, in_own_form
from actors.settings import AgentSettings
from experiments.datasets.item import Item
from experiments.dry_run.counts import PhaseCounts
from experiments.dry_run.token_count import TokenCounter
from experiments.judging.judge import grading_request
from experiments.judging.rubric import GRADED, Rubric
from experiments.planning.run_models import MAIN
from topologies.topology import Topology

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


def simulated_reply(count: Callable[[str], int], most: int, wanted: float | None) -> tuple[str, int]:
    """Returns a reply with a place for a key, and its tokens. They are `wanted` (None: as `REPLY`), up to `most`."""
    words = REPLY.removeprefix("{key} ").split()

    def first(number: int) -> str:
        return " ".join(["{key}", *islice(cycle(words), number)])

    def tokens(text: str) -> int:
        reasoning = text.format(key="0" * KEY_DIGITS)
        return min(most, count(f"Reasoning: {reasoning}\nAnswer: {ANSWER}\nConfidence: {CONFIDENCE}"))

    text = REPLY
    if wanted is not None:
        # With any tokenizer more words are more tokens.
        text = first(bisect_left(range(MOST_WORDS), min(round(wanted), most), key=lambda n: tokens(first(n))))
    return text, tokens(text)


@dataclass(frozen=True)
class SimulatedCache:
    """Digests of the requests that were made, and beginnings of prompts by model."""

    requests: set[str] = field(default_factory=set)
    prefixes: set[tuple[str, str]] = field(default_factory=set)


class SimulatedTeam:
    """Agents without a model. A reply contains a key of its request, so equal requests have equal replies.

    counter: counts the tokens of the run's own model.
    others: key and counter of the other models by role, where roles have some.
    lengths: tokens of a reply by role, and under "" of any other role.
    reuse: whether the completion cache answers a request that was made before.
    """

    def __init__(
        self,
        roles: Iterable[Role],
        settings: AgentSettings,
        counter: TokenCounter,
        others: Mapping[str, tuple[str, TokenCounter]],
        lengths: Mapping[str, float],
        reuse: bool = True,
    ) -> None:
        self._roles = {role.name: role for role in roles}
        self._memories = {name: AgentMemory() for name in self._roles}
        self._settings, self._counter, self._others, self._reuse = settings, counter, others, reuse
        self._reply, self._lengths = cache(partial(simulated_reply, counter.text, settings.max_tokens)), lengths
        self.reply_tokens = self._reply(lengths.get(""))[1]

    async def run_discussion(
        self, topology: Topology, question: Question, seed: int, sample: int, counts: PhaseCounts, cache: SimulatedCache
    ) -> Trace:
        """Holds one discussion, adds it to the counts and its requests to the cache."""

        async def ask(turn: Turn) -> Message:
            role, memory = self._roles[turn.agent], self._memories[turn.agent]
            turn = in_own_form(turn, role)
            recalled = memory.recall(turn)
            counts.turns += 1
            content, prompt, completion = DUMMY_SENTENCE, 0, 0
            if not role.dummy:
                request = build_request(turn, role, recalled, self._settings)
                content, prompt, completion = self._answer(request, role, counts, cache)
            answers = not role.dummy and (role.answers if turn.task is None or turn.task.answers else False)
            answer, confidence = (ANSWER, CONFIDENCE) if answers else (None, None)
            fields = []
            for wanted in turn.task.fields if turn.task else ():
                # Every value is one that its task can read.
                value = repr(CONFIDENCE) if wanted.value is Value.SHARE else ANSWER
                fields.append((wanted.name, wanted.values[0] if wanted.values else value))
            id = f"{turn.round}/{turn.agent}"
            message = Message(
                *(id, turn.agent, turn.round, content, answer, confidence),
                prompt_tokens=prompt,
                completion_tokens=completion,
                fields=tuple(fields),
            )
            memory.remember(turn, message)
            return message

        trace = await topology.answer(question, ask, seed, sample)
        counts.discussions += 1
        # As agents do when a discussion is closed.
        self._memories = {name: AgentMemory() for name in self._roles}
        return trace

    def _answer(self, request: Request, role: Role, counts: PhaseCounts, cache: SimulatedCache) -> tuple[str, int, int]:
        """Counts a request. Returns the reply's text, and the tokens of prompt and reply."""
        model, counter = self._others.get(role.played, (MAIN, self._counter))
        # Everything that a completion depends on here, as in the completion cache's key.
        key = "\x1f".join((*([model] if self._others else []), request.prefix, request.own, str(request.seed)))
        digest = hashlib.blake2b(key.encode(), digest_size=16).hexdigest()
        text, tokens = self._reply(self._lengths.get(role.name, self._lengths.get("")))
        shared = counter.shared(request)
        prompt = shared + counter.own(request)
        for one in (counts, *([counts.by_model.setdefault(model, PhaseCounts())] if self._others else [])):
            one.calls += 1
            one.prompt += prompt
            one.completion += tokens
            one.longest = max(one.longest, prompt)
        if digest not in cache.requests or not self._reuse:
            counts.made += 1
            counts.made_prompt += prompt
            counts.made_completion += tokens
            counts.cached += shared if (model, request.prefix) in cache.prefixes else 0
        cache.requests.add(digest)
        cache.prefixes.add((model, request.prefix))
        return text.format(key=digest[:KEY_DIGITS]), prompt, tokens


def judge_calls(items: Sequence[Item], answers: int, rubric: Rubric, counter: TokenCounter) -> PhaseCounts:
    """Counts at most what `answers` cost the judge, from a sample: equal answers are judged once."""
    requests = [grading_request(item, ANSWER, rubric=rubric) for item in items]
    # A judge's reason is assumed to have a third of the length of an agent's reply.
    verdict = f"Reasoning: {REPLY[: len(REPLY) // 3]}\nGrade: 5" if rubric is GRADED else "Same: yes"
    counts = PhaseCounts(
        discussions=len(items),
        calls=len(items),
        prompt=sum(counter.shared(request) + counter.own(request) for request in requests),
        completion=len(items) * counter.text(verdict),
        made=len(items),
    )
    return counts.scaled("judging, at most", answers)
