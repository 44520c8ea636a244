"""A team, a library and scripted replies in one process, to observe any method without Ray and without a model."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, ClassVar, cast

from actors.agents.role_agent import RoleAgent
from actors.messages import (
    Completion,
    Field,
    Hit,
    Message,
    Question,
    Request,
    Role,
    Search,
    Source,
    Status,
    Trace,
    Triple,
    Turn,
    Usage,
    derive_seed,
)
from actors.models import Model
from experiments.config.config import Config
from experiments.running.methods import METHODS, make_topology
from topologies.learning.learned_topology import LearnedTopology
from topologies.library import Library
from topologies.topology import Topology

# No line of it has the form of a field.
NONSENSE = "I would rather not say anything about that."
LONGEST_DELAY_S = 0.002  # enough to change which of two concurrent calls ends first
BY_NAME = {method.name: method for method in METHODS}
SYSTEMS = {method.name: method for method in METHODS if method.needs_library}

Reply = Callable[[Turn], str]


def topology(
    name: str,
    library: Library | None,
    config: Config,
    agents: Sequence[str] = (),
    learned: LearnedTopology | None = None,
    watched: Sequence[Trace] = (),
) -> Topology:
    """The topology of a method, made of what it needs and no more."""
    return make_topology(BY_NAME[name], config, agents, {name: learned} if learned else {}, cast(Any, library), watched)


class MemoisedModel:
    """A model that computes no request twice."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._known: dict[Request, Completion] = {}

    async def complete(self, request: Request) -> Completion:
        if request not in self._known:
            self._known[request] = await self._model.complete(request)
        return self._known[request]


class Script:
    """A model that gives the reply that a function makes up for the turn."""

    def __init__(self, reply: Reply) -> None:
        self._reply = reply
        self._texts: dict[str, str] = {}

    def expect(self, turn: Turn) -> None:
        self._texts[turn.id] = self._reply(turn)

    async def complete(self, request: Request) -> Completion:
        # A reply that cannot be parsed is asked for once more, under this suffix: it stays as it was.
        id = request.id.removesuffix("/repair")
        return Completion(request.id, self._texts[id], prompt_tokens=9, completion_tokens=9)


@dataclass
class ScriptedTeam:
    """Agents by role, in this process. Those in `failing` fail every turn, those in `babbling` keep to no form.

    `turns` are in the order of the calls, `messages` in that of the answers.
    """

    roles: Mapping[str, Role]
    model: Model | Script
    failing: Collection[str] = ()
    babbling: Collection[str] = ()
    delays: Random | None = None
    turns: list[Turn] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    usage: dict[str, Usage] = field(default_factory=dict)
    recorded: ClassVar[bool] = False

    def __post_init__(self) -> None:
        self._agents: dict[str, RoleAgent] = {}

    async def ask(self, turn: Turn) -> Message:
        self.turns.append(turn)
        if self.delays:
            await asyncio.sleep(self.delays.random() * LONGEST_DELAY_S)
        if turn.agent in self.failing:
            message = Message(
                f"{turn.round}/{turn.agent}",
                turn.agent,
                turn.round,
                status=Status.FAILED,
                error="out of order",
                heard=tuple(heard.message.id for heard in turn.heard),
                seed=turn.seed,
            )
            # A real agent remembers its failures too, and later turns of the discussion refer to them.
            self._agent(turn).memory.remember(turn, message)
        else:
            model = self._agent(turn)._model
            if isinstance(model, Script):
                model.expect(turn)
            message, _ = await self._agent(turn).take(turn)
        self.messages.append(message)
        return message

    def close(self, discussion: str) -> None:
        for agent in self._agents.values():
            agent.memory.forget([discussion])

    def _agent(self, turn: Turn) -> RoleAgent:
        if turn.agent not in self._agents:
            model = Script(lambda _: NONSENSE) if turn.agent in self.babbling else self.model
            self._agents[turn.agent] = RoleAgent(self.roles[turn.agent], model)
        return self._agents[turn.agent]


class ObservedLibrary:
    """A library that is slow at random and notes every search: `results` are the ids of each, in the order of the
    calls, `given` all of them.

    `known` holds earlier results: the same search gives the same.
    """

    def __init__(self, library: Library, known: dict[Any, Any], delays: Random | None = None) -> None:
        self._library = library
        self._known = known
        self._delays = delays
        self.results: list[list[str]] = []
        self.given: set[str] = set()

    def own(self, question: Question) -> Awaitable[tuple[Source, ...]]:
        return self._noted([], ("own", question.id), lambda: self._library.own(question))

    def search(self, question: Question, search: Search) -> Awaitable[tuple[Hit, ...]]:
        key = ("search", question.id, search)
        return self._noted(self._place(), key, lambda: self._library.search(question, search))

    def graph(
        self, question: Question, words: Sequence[str], k: int, *, level: Any = "entity"
    ) -> Awaitable[tuple[Triple, ...]]:
        key = ("graph", question.id, tuple(words), k, level)
        return self._noted(self._place(), key, lambda: self._library.graph(question, words, k, level=level))

    def neighbours(self, question: Question, entity: str) -> Awaitable[tuple[Triple, ...]]:
        key = ("neighbours", question.id, entity)
        return self._noted(self._place(), key, lambda: self._library.neighbours(question, entity))

    def entity(
        self, question: Question, name: str, k: int | None = None, *, near: str = ""
    ) -> Awaitable[tuple[Source, ...]]:
        key = ("entity", question.id, name, k, near)
        return self._noted(self._place(), key, lambda: self._library.entity(question, name, k, near=near))

    def web(self, question: Question, query: str, k: int) -> Awaitable[tuple[Hit, ...]]:
        return self._noted(self._place(), ("web", question.id, query, k), lambda: self._library.web(question, query, k))

    def topics(self, question: Question) -> Awaitable[tuple[str, ...]]:
        return self._library.topics(question)

    def annotated(self, question: Question) -> Awaitable[tuple[tuple[str, ...], ...]]:
        return self._library.annotated(question)

    def _place(self) -> list[str]:
        """A new, empty entry of `results`."""
        # Reserved when a search is called: with delays, searches end in another order.
        self.results.append([])
        return self.results[-1]

    async def _noted(self, slot: list[str], key: Any, find: Callable[[], Awaitable[tuple[Any, ...]]]) -> Any:
        if self._delays:
            await asyncio.sleep(self._delays.random() * LONGEST_DELAY_S)
        if key not in self._known:
            self._known[key] = await find()
        ids = [hit.source.id if isinstance(hit, Hit) else hit.id for hit in self._known[key]]
        slot += ids
        self.given.update(ids)
        return self._known[key]


@dataclass
class Observed:
    """One discussion, with every turn and search of it."""

    question: Question
    trace: Trace
    team: ScriptedTeam
    library: ObservedLibrary


async def run_discussion(
    method: Topology, question: Question, team: ScriptedTeam, library: ObservedLibrary, seed: int = 7
) -> Observed:
    return Observed(question, await method.answer(question, team.ask, seed), team, library)


def improvised(seed: int) -> Reply:
    """Replies that keep to the form and are otherwise arbitrary: any value, any choice, words of the question or of its
    evidence."""

    def reply(turn: Turn) -> str:
        random = Random(derive_seed("improvised", seed, turn.id))
        words = _words(turn)
        if turn.task is None:
            return answered(random.choice([*(turn.question.choices or words), "unknown"]), round(random.random(), 2))
        lines = []
        for form in turn.task.fields:
            # Left out now and then; by seed and turn, so that the same turn always gets the same reply.
            if form.optional and random.random() < 0.3:
                continue
            number = random.randint(1, 3) if form.many else 1
            lines += [f"{form.name}: {_value(form, turn, words, random)}" for _ in range(number)]
        return "\n".join(lines)

    return reply


def stubborn(place: int) -> Reply:
    """Replies that always take the first (0) or the last (-1) of the values that there are, in as many lines as may
    be, and every time ask for something new."""

    def reply(turn: Turn) -> str:
        random = Random(derive_seed("stubborn", turn.id))
        words = _words(turn)
        if turn.task is None:
            return answered("unknown", 0.0)
        lines = []
        for form in turn.task.fields:
            for number in range(8 if form.many else 1):
                value = form.values[place] if form.values else f"{_value(form, turn, words, random)}"
                # Numbered, so that a method that stops at repetitions meets none.
                free = not form.values and form.name in ("Sub-question", "Query", "Entity", "Instruction")
                lines.append(f"{form.name}: {value}{f' {number}' if free else ''}")
        return "\n".join(lines)

    return reply


def answered(answer: str, confidence: float) -> str:
    return f"Reasoning: it is so\nAnswer: {answer}\nConfidence: {confidence}"


def _words(turn: Turn) -> list[str]:
    shown = [source.title for source in turn.question.evidence if source.title]
    return [*(word.strip("?,.'\"()") for word in turn.question.text.split() if len(word) > 3), *shown] or ["nothing"]


def _value(form: Field, turn: Turn, words: Sequence[str], random: Random) -> str:
    assert turn.task is not None
    few = random.sample(list(words), min(3, len(words)))
    listed = sum(given.kind in ("Candidate", "Answer") for given in turn.task.given) or len(turn.question.evidence)
    # One past the end on purpose: methods must survive a reference to nothing.
    numbers = sorted({random.randint(1, listed + 1) for _ in range(random.randint(1, 3))})
    if form.values:
        return random.choice(form.values)
    match form.name:
        case "Selected" | "Parents":
            return ", ".join(map(str, numbers))
        case "Best" | "Intents":
            return str(numbers[0])
        case "Confidence":
            # Sometimes no number, as models write.
            return random.choice([f"{random.random():.2f}", "high"])
        case "Score":
            return random.choice(["1", "3", "5", "high"])
        case "Triple":
            return f"{few[0]} | is near | {few[-1]}"
        case "Step":
            return f"{random.choice(['texts', 'pictures', 'web', 'tables'])} | {' '.join(few)}"
        case "Answer":
            return random.choice([*(turn.question.choices or words), "unknown"])
        case _:
            return " ".join(few)


def stated_answers(messages: Iterable[Message]) -> set[str]:
    """Every answer that a message states."""
    return {
        answer
        for message in messages
        if message.status is Status.OK
        for answer in (message.answer, *message.said("Answer"))
        if answer is not None
    }
