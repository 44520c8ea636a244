"""Stand-ins for agents, so that a discussion's prompts can be counted without a model."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from actors.agents.memory import Memory
from actors.agents.roles import DUMMY_SENTENCE
from actors.messages import Field, Message, Question, Role, Trace, Turn, Value
from actors.prompting.prompt import build_request, in_own_form
from actors.settings import AgentSettings
from experiments.estimate.replies import ANSWER, CONFIDENCE, Replies
from experiments.estimate.token_count import Counter
from topologies.topology import Topology

MAIN = "model"  # the key of the run's own model


@dataclass
class Asked:
    """Counts of what one model is asked."""

    calls: int = 0
    prompt: int = 0
    completion: int = 0
    longest: int = 0
    at_most: int = 0


@dataclass
class Tally(Asked):
    """Counts of some discussions. `distinct` counts the calls that were not in `seen`, to which they are added; the
    others have the same reply as an earlier one, and the tokens that this spares are in `spared_...`. `cached` are the
    shared tokens of distinct calls that begin as an earlier one in `prefixes`, which a prefix cache may serve.
    `by_model` are the counts of each model, by its key, where there are several."""

    discussions: int = 0
    turns: int = 0
    shared: int = 0
    distinct: int = 0
    cached: int = 0
    spared_prompt: int = 0
    spared_completion: int = 0
    seen: set[str] = field(default_factory=set)
    prefixes: set[tuple[str, str]] = field(default_factory=set)
    by_model: dict[str, Asked] = field(default_factory=dict)


class StandIns:
    """Agents that answer at once with replies of a known length, and count what a model would have been sent.

    The reply names its request, so that two are the same just where a model that is asked the same says the same.

    Args:
        own: key and count of the other models that roles ask, by role.
        lengths: tokens of a reply by role, and under "" of any other role's (empty: of one made-up reply).
    """

    def __init__(
        self,
        roles: Iterable[Role],
        settings: AgentSettings,
        counter: Counter,
        own: Mapping[str, tuple[str, Counter]] = MappingProxyType({}),
        lengths: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        self._roles = {role.name: role for role in roles}
        self._memories = {name: Memory() for name in self._roles}
        self._settings = settings
        self._counter = counter
        self._own = own
        self._replies = Replies(counter.text, settings.max_tokens, lengths)
        self.reply_tokens = self._replies.usual_tokens

    async def run_discussion(
        self, topology: Topology, question: Question, seed: int, sample: int, tally: Tally
    ) -> Trace:
        """One discussion, added to the tally."""

        async def ask(turn: Turn) -> Message:
            return self._take(turn, tally)

        trace = await topology.answer(question, ask, seed, sample)
        tally.discussions += 1
        # As agents do when a discussion is closed.
        for name in self._memories:
            self._memories[name] = Memory()
        return trace

    def _take(self, turn: Turn, tally: Tally) -> Message:
        role, memory = self._roles[turn.agent], self._memories[turn.agent]
        turn = in_own_form(turn, role)
        recalled = memory.recall(turn)
        tally.turns += 1
        content = DUMMY_SENTENCE
        if not role.dummy:
            request = build_request(
                turn, role.modality, role.instruction, recalled, self._settings, reads=role.evidence
            )
            # What a completion depends on here, so that equal calls are counted once, as the cache would.
            model, counter = self._own.get(role.played, (MAIN, self._counter))
            content_key = "\x1f".join((*([model] if self._own else []), request.prefix, request.own, str(request.seed)))
            digest = hashlib.blake2b(content_key.encode(), digest_size=16).hexdigest()
            reply = self._replies.of(turn.agent)
            content = reply.content(digest[:8])
            shared = counter.shared(request)
            prompt = shared + counter.own(request)
            # How much longer the prompt were if every reply in it had the length allowed.
            longer = max(0, self._settings.max_tokens - self.reply_tokens) * (len(turn.heard) + len(recalled))
            for counts in (tally, *([tally.by_model.setdefault(model, Asked())] if self._own else [])):
                counts.calls += 1
                counts.prompt += prompt
                counts.longest = max(counts.longest, prompt)
                counts.at_most = max(counts.at_most, prompt + longer)
                counts.completion += reply.tokens
            tally.shared += shared
            if digest in tally.seen:
                tally.spared_prompt += prompt
                tally.spared_completion += reply.tokens
            else:
                tally.distinct += 1
                tally.cached += shared if (model, request.prefix) in tally.prefixes else 0
            tally.seen.add(digest)
            tally.prefixes.add((model, request.prefix))
        answers = role.answers if turn.task is None or turn.task.answers else False
        answer, confidence = (ANSWER, CONFIDENCE) if answers and not role.dummy else (None, None)
        fields = tuple((part.name, _said(part)) for part in turn.task.fields) if turn.task else ()
        id = f"{turn.round}/{turn.agent}"
        message = Message(id, turn.agent, turn.round, content, answer, confidence, fields=fields)
        memory.remember(turn, message)
        return message


def _said(part: Field) -> str:
    """What every task gets on a field, so that the reply can be read: the first allowed value, or one of its kind."""
    if part.values:
        return part.values[0]
    return repr(CONFIDENCE) if part.value is Value.SHARE else ANSWER
