"""Observes methods over a small corpus, with a team whose replies are scripted."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass, field
from functools import cache
from inspect import isawaitable
from pathlib import Path
from random import Random
from typing import Any

from actors.agents.role_agent import RoleAgent
from actors.errors import ModelError
from actors.messages import (
    Completion,
    Field,
    Hit,
    Message,
    Question,
    Request,
    Role,
    Trace,
    Turn,
    TurnResult,
    Value,
    derive_seed,
)
from actors.models import Model
from actors.reader.reader import Reader, ReaderSettings
from experiments.conformance.parts import require
from experiments.datasets.item import Item
from experiments.datasets.mmqa import Mmqa
from experiments.datasets.sample.release import write_sample
from retrieval.embed import make_encoder
from retrieval.store import Store
from topologies.method import Library
from topologies.topology import Topology

# No line of it has the form of a field.
NONSENSE = "I would rather not say anything about that."
LONGEST_DELAY_S = 0.002  # enough to change which of two concurrent calls ends first

# What a request's id has after its turn's: a prompt that was cut to fit, and a repair.
SUFFIX = re.compile(r"(/cut-\d+)?(/repair)?$")

Reply = Callable[[Turn], str]


class ScriptedSpeaker:
    """Agents in this process, over a model (by default the embedded reader) or a function of each turn.

    failing: agents whose model cannot be reached. babbling: agents whose replies have no form.
    delays: draws the duration of each turn. turns, requests: in the order of calls; messages: of answers.
    """

    def __init__(
        self,
        roles: Iterable[Role],
        model: Model | Reply | None = None,
        *,
        failing: Collection[str] = (),
        babbling: Collection[str] = (),
        delays: Random | None = None,
    ) -> None:
        self.roles = tuple(roles)
        self.turns: list[Turn] = []
        self.requests: list[Request] = []
        self.messages: list[Message] = []
        self._model = model or Reader(ReaderSettings())
        self._failing, self._babbling, self._delays = failing, babbling, delays
        self._asked: dict[str, Turn] = {}
        self._texts: dict[str, str] = {}
        self._agents = {role.name: RoleAgent(role, self) for role in self.roles}

    async def take(self, turn: Turn) -> TurnResult:
        self.turns.append(turn)
        self._asked[turn.id] = turn
        self._texts.pop(turn.id, None)
        await asyncio.sleep(self._delays.random() * LONGEST_DELAY_S if self._delays else 0)
        result = await self._agents[turn.agent].take(turn)
        self.messages.append(result.message)
        return result

    async def ask(self, turn: Turn) -> Message:
        """Takes a turn for a topology, which sees its message alone."""
        return (await self.take(turn)).message

    async def complete(self, request: Request) -> Completion:
        """Completes a request of one of the agents, of which each has the team as its model."""
        self.requests.append(request)
        id = SUFFIX.sub("", request.id)
        turn = self._asked[id]
        if turn.agent in self._failing:
            raise ModelError("the connection was refused")
        if turn.agent in self._babbling:
            return Completion(request.id, NONSENSE, prompt_tokens=9, completion_tokens=9)
        if not callable(self._model):
            return await self._model.complete(request)
        # The same reply again where an unreadable one is asked for once more.
        if id not in self._texts:
            self._texts[id] = self._model(turn)
        return Completion(request.id, self._texts[id], prompt_tokens=9, completion_tokens=9)

    def close(self, discussion: str) -> None:
        for agent in self._agents.values():
            agent.memory.forget([discussion])


class ObservedLibrary:
    """Library that is slow at random and records every search.

    `results` has the ids of each search, in the order of calls; `known` earlier results, which searches repeat.
    """

    def __init__(self, library: Library, known: dict[Any, Any], delays: Random | None = None) -> None:
        self._library = library
        self._known = known
        self._delays = delays
        self.results: list[list[str]] = []
        self.found: set[str] = set()

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        """Observes the library's search of that name. `topics`, `annotated` and `embed` look nothing up."""
        made: Callable[..., Awaitable[Any]] = getattr(self._library, name)
        if name in ("topics", "annotated", "embed"):
            return made

        def observed(question: Question, *args: Any, **options: Any) -> Awaitable[Any]:
            place, key = list[str](), (name, question.id, repr((args, options)))
            if name != "own":
                # Reserved when a search is called: with delays, searches end in another order.
                self.results.append(place)

            async def search() -> Any:
                if self._delays:
                    await asyncio.sleep(self._delays.random() * LONGEST_DELAY_S)
                if key not in self._known:
                    self._known[key] = await made(question, *args, **options)
                place.extend(hit.source.id if isinstance(hit, Hit) else hit.id for hit in self._known[key])
                self.found.update(place)
                return self._known[key]

            return search()

        return observed


@dataclass
class ObservedDiscussion:
    """One discussion, with every turn and search of it."""

    question: Question
    trace: Trace
    team: ScriptedSpeaker
    library: ObservedLibrary


async def run_discussion(
    method: Topology, question: Question, team: ScriptedSpeaker, library: ObservedLibrary, seed: int = 7
) -> ObservedDiscussion:
    answer: Any = method.answer(question, team.ask, seed)
    require(isawaitable(answer), f"{method.method}: `answer` returns no awaitable; write `async def answer`")
    return ObservedDiscussion(question, await answer, team, library)


@dataclass
class SampleWorld:
    """Items and the index of their corpus. Search results are kept, for every check asks the same."""

    items: tuple[Item, ...]
    store: Store
    known: dict[Any, Any] = field(default_factory=dict)


def sample_world(folder: Path) -> SampleWorld:
    """Generates a sample in the folder, with two questions of different kinds."""
    write_sample(folder / "sample", seed=3, train=0, dev=8)
    data = Mmqa.at(folder / "sample")
    # Reversed, because the last of equal keys wins: the first question of each type stays.
    by_type = {item.tags["type"]: item for item in reversed(list(data.evaluate()))}
    store = Store.open(folder, data.corpus, make_encoder("lexical"))
    return SampleWorld(tuple(by_type.values())[:2], store)


@cache
def improvised(seed: int) -> Reply:
    """Replies in the right form with arbitrary values: any choice, or words of the question or of its evidence."""

    def reply(turn: Turn) -> str:
        # By seed and turn, so that the same turn always gets the same reply.
        random = Random(derive_seed("improvised", seed, turn.id))
        if turn.task is None:
            return answered(_value(None, turn, random), round(random.random(), 2))
        return "\n".join(
            f"{form.name}: {_value(form, turn, random)}"
            for form in turn.task.fields
            # Left out now and then.
            if not form.optional or random.random() >= 0.3
            for _ in range(random.randint(1, 3) if form.many else 1)
        )

    return reply


@cache
def stubborn(place: int) -> Reply:
    """Replies with the first (0) or the last (-1) of the allowed values.

    They have as many lines as the form permits, and ask for something new every time.
    """

    def reply(turn: Turn) -> str:
        random = Random(derive_seed("stubborn", turn.id))
        if turn.task is None:
            return answered("unknown", 0.0)
        lines = []
        for form in turn.task.fields:
            # Numbered, so that a method that stops at repetitions meets none.
            text = "{} {}" if not form.values and form.value is Value.TEXT else "{}"
            for number in range(8 if form.many else 1):
                value = form.values[place] if form.values else _value(form, turn, random)
                lines.append(f"{form.name}: {text.format(value, number)}")
        return "\n".join(lines)

    return reply


def answered(answer: str, confidence: float) -> str:
    return f"Reasoning: it is so\nAnswer: {answer}\nConfidence: {confidence}"


def _value(form: Field | None, turn: Turn, random: Random) -> str:
    """Improvises a value of a field's kind, or an answer where there is no field."""
    titles = [source.title for source in turn.question.evidence if source.title]
    words = [*(word.strip("?,.'\"()") for word in turn.question.text.split() if len(word) > 3), *titles] or ["nothing"]
    if form is None or form.value is Value.ANSWER:
        return str(random.choice([*(turn.question.choices or words), "unknown"]))
    if form.values:
        return str(random.choice(form.values))
    few = random.sample(words, min(3, len(words)))
    match form.value:
        case Value.NUMBERS:
            given = turn.task.inputs if turn.task else ()
            listed = sum(one.kind in ("Candidate", "Answer") for one in given) or len(turn.question.evidence)
            # One past the end on purpose: methods must survive a reference to nothing.
            return ", ".join(str(random.randint(1, listed + 1)) for _ in range(random.randint(1, 3)))
        case Value.SHARE:
            return f"{random.random():.2f}"
        case Value.TRIPLE:
            return f"{few[0]} | is near | {few[-1]}"
        case Value.CALL:
            return f"{random.choice([*form.tools, 'tables'])} | {' '.join(few)}"
        case _:
            return " ".join(few)
