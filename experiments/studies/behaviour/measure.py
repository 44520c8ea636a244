"""Asks one agent every question under every condition. Its answers are recorded as those of methods.

Seeds and the order of the relevant evidence are the same, so two answers differ by the condition alone.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from actors.agents.roles import TEXTUAL
from actors.errors import UserError
from actors.messages import Heard, Message, Question, Search, Source, Trace, Turn, derive_seed
from experiments.config.study_settings import BehaviourSettings
from experiments.datasets.item import Item
from experiments.running.discussing import discuss_all
from experiments.running.discussions import Discussions
from experiments.studies.behaviour.misled_scoring import MisledScoring
from retrieval.store import SearchSpace, Store
from topologies.baselines import Single
from topologies.method import TEXTS, query_of
from topologies.topology import Ask, Speaker, run_discussion

NOTHING, RELEVANT = "no_evidence", "relevant"
CERTAIN = 0.8  # confidence of colleagues who are wrong, no higher than a right one's
# Several sentences: a model might take one that is repeated word for word for an error of the prompt.
CLAIMS = (
    "The evidence shows that it is {answer}.",
    "I read everything again and come to {answer}.",
    "Only {answer} fits what is written there.",
)


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition of the study.

    irrelevant: number of passages and rows among the relevant ones (None: no evidence at all).
    colleagues: number of colleagues who give the same wrong answer.
    """

    name: str
    irrelevant: int | None = 0
    colleagues: int = 0


def conditions(settings: BehaviourSettings) -> tuple[Condition, ...]:
    """Lists all conditions of a run. The others are compared with the second one."""
    return (
        Condition(NOTHING, irrelevant=None),
        Condition(RELEVANT),
        *(Condition(f"irrelevant_{n}", irrelevant=n) for n in settings.irrelevant),
        *(Condition(f"told_{n}", colleagues=n) for n in settings.colleagues),
    )


Found = tuple[Sequence[Source], Sequence[Source]]  # sources with the answer, and similar ones without it


def shown(found: Found, condition: Condition, seed: int) -> tuple[Source, ...]:
    """Returns the evidence under a condition. Its order is independent of relevance and condition."""
    if condition.irrelevant is None:
        return ()
    sources = (*found[0], *found[1][: condition.irrelevant])
    return tuple(sorted(sources, key=lambda source: derive_seed(seed, "place", source.id)))


def find_evidence(item: Item, store: Store, most: int) -> Found:
    """Returns the supporting documents in full, and the `most` best ranked sources of other documents."""
    relevant = store.documents(item.supporting)
    supporting = set(item.supporting)
    space = SearchSpace(None, item.withheld)
    k = most
    while True:
        # Many of the best hits may be relevant, so that `most` others may rank lower.
        hits = store.search(Search(query_of(item.question), k + len(relevant), TEXTS), space)
        others = [hit.source for hit in hits if hit.source.doc not in supporting]
        if len(others) >= most or len(hits) < k + len(relevant):
            return relevant, others[:most]
        k *= 2


class MisledAgent:
    """Topology of one agent that hears colleagues: no agents, each gives `answer` for some reason."""

    def __init__(self, method: str, colleagues: int, answer: str) -> None:
        self.method = method
        self._target = answer
        roles = [role.name for role in TEXTUAL]
        # After the roles, with numbers where there are more colleagues than roles.
        names = (f"{roles[n % len(roles)]}{n // len(roles) + 1 if n >= len(roles) else ''}" for n in range(colleagues))
        messages = (
            Message(f"1/{name}", name, 1, CLAIMS[n % len(CLAIMS)].format(answer=answer), answer, CERTAIN)
            for n, name in enumerate(names)
        )
        # Equal weights that sum to one, as for any receiver.
        self._heard = tuple(Heard(message, 1 / colleagues) for message in messages)

    async def answer(self, question: Question, ask: Ask, seed: int, sample: int = 0) -> Trace:
        async def ask_hearing(turn: Turn) -> Message:
            return await ask(replace(turn, heard=self._heard))

        trace = await Single(self.method).answer(question, ask_hearing, seed, sample)
        heard = [heard.message for heard in self._heard]
        return replace(
            trace,
            agents=(*(message.agent for message in heard), *trace.agents),
            turns=(*heard, *trace.turns),
            target=self._target,
        )


async def ask_every_question(discussions: Discussions, settings: BehaviourSettings) -> None:
    """Asks all questions that have no answer yet, one condition after another.

    Raises UserError for a data set that does not name the documents with the answers.
    """
    context = discussions.context
    config, dataset = context.config, context.dataset
    scoring = MisledScoring(dataset, config.seed)
    # The evaluated questions that fit every condition, each with the wrong answer of its colleagues.
    targets = {item.question.id: scoring.targets.of(item) for item in dataset.evaluate() if item.supporting}
    items = [item for item in dataset.evaluate() if targets.get(item.question.id) is not None]
    if not items:
        evaluated = sum(1 for _ in dataset.evaluate())
        raise UserError(
            f"data={config.data.kind}: none of {evaluated} questions names the documents that hold its answer and has "
            "a wrong answer to be told; choose sample, mmqa or tatqa, or raise data.limit"
        )
    # Searched once: every condition shows some of the same sources.
    found: dict[str, Found] = {}
    most = max(settings.irrelevant, default=0)

    for condition in conditions(settings):

        async def answer(item: Item, speaker: Speaker, condition: Condition = condition) -> Trace:
            id = item.question.id
            if id not in found:
                found[id] = await asyncio.to_thread(find_evidence, item, context.evidence.store, most)
            evidence = shown(found[id], condition, config.seed)
            question = replace(item.question, evidence=evidence, own=item.own)
            topology = MisledAgent(condition.name, condition.colleagues, targets[id] or "")
            return await run_discussion(topology, question, speaker, config.seed)

        def record(item: Item, trace: Trace) -> None:
            score = dataset.score(item, trace.answer)
            context.recorder.evaluated(trace, item, score, scoring.harm(trace, item))

        done = context.recorder.done(condition.name)
        await discuss_all(
            context,
            [[item for item in items if item.question.id not in done]],
            answer,
            record,
            name=f"asking, {condition.name}",
            total=len(items),
            done=len(done),
            usage_name=condition.name,
        )
