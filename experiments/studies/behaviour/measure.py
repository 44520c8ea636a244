"""Asks one agent every question under every condition. Its answers are recorded as those of methods.

Seeds and the order of the relevant evidence are the same, so two answers differ by the condition alone.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

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
        *(Condition(f"irrelevant_{number}", irrelevant=number) for number in settings.irrelevant),
        *(Condition(f"told_{number}", colleagues=number) for number in settings.colleagues),
    )


class FoundEvidence(NamedTuple):
    """Sources with the answer, and similar ones without it, the best ranked first."""

    relevant: Sequence[Source]
    irrelevant: Sequence[Source]


def evidence_under(condition: Condition, evidence: FoundEvidence, seed: int) -> tuple[Source, ...]:
    """Returns the evidence under a condition. Its order is independent of relevance and condition."""
    if condition.irrelevant is None:
        return ()
    sources = (*evidence.relevant, *evidence.irrelevant[: condition.irrelevant])
    return tuple(sorted(sources, key=lambda source: derive_seed(seed, "place", source.id)))


def find_evidence(item: Item, store: Store, most: int) -> FoundEvidence:
    """Returns the supporting documents in full, and the `most` best ranked sources of other documents."""
    relevant = store.documents(item.supporting)
    space = SearchSpace(None, item.withheld)
    k = most + len(relevant)
    while True:
        # Many of the best hits may be relevant, so that `most` others may rank lower.
        hits = store.search(Search(query_of(item.question), k, TEXTS), space)
        irrelevant = [hit.source for hit in hits if hit.source.doc not in item.supporting]
        if len(irrelevant) >= most or len(hits) < k:
            return FoundEvidence(relevant, irrelevant[:most])
        k += k - len(relevant)


class MisledAgent:
    """Topology of one agent that hears colleagues: no agents, each gives `answer` for some reason."""

    def __init__(self, method: str, colleagues: int, answer: str) -> None:
        self.method = method
        self._target = answer
        hearings = []
        for number in range(colleagues):
            name = TEXTUAL[number % len(TEXTUAL)].name
            if number >= len(TEXTUAL):
                # More colleagues than roles: those of one role have numbers.
                name += str(number // len(TEXTUAL) + 1)
            claim = CLAIMS[number % len(CLAIMS)].format(answer=answer)
            message = Message(f"1/{name}", name, 1, claim, answer, CERTAIN)
            # Equal weights that sum to one, as for any receiver.
            hearings.append(Heard(message, 1 / colleagues))
        self._heard = tuple(hearings)

    async def answer(self, question: Question, ask: Ask, seed: int, sample: int = 0) -> Trace:
        async def ask_hearing(turn: Turn) -> Message:
            return await ask(replace(turn, heard=self._heard))

        trace = await Single(self.method).answer(question, ask_hearing, seed, sample)
        messages = tuple(heard.message for heard in self._heard)
        return replace(
            trace,
            agents=tuple(message.agent for message in messages) + trace.agents,
            turns=messages + trace.turns,
            target=self._target,
        )


async def ask_every_question(discussions: Discussions, settings: BehaviourSettings) -> None:
    """Asks all questions that have no answer yet, one condition after another.

    Raises UserError for a data set that does not name the documents with the answers.
    """
    context = discussions.context
    config = context.config
    dataset = context.dataset
    scoring = MisledScoring(dataset, config.seed)
    # The evaluated questions that fit every condition, each with the wrong answer of its colleagues.
    items = []
    targets = {}
    evaluated = 0
    for item in dataset.evaluate():
        evaluated += 1
        target = scoring.targets.of(item) if item.supporting else None
        if target is not None:
            items.append(item)
            targets[item.question.id] = target
    if not items:
        raise UserError(
            f"data={config.data.kind}: none of {evaluated} questions names the documents that hold its answer and has "
            "a wrong answer to be told; choose sample, mmqa or tatqa, or raise data.limit"
        )
    # Searched once: every condition shows some of the same sources.
    evidence: dict[str, FoundEvidence] = {}
    most = max(settings.irrelevant, default=0)

    for condition in conditions(settings):

        async def answer(item: Item, speaker: Speaker, condition: Condition = condition) -> Trace:
            id = item.question.id
            if id not in evidence:
                evidence[id] = await asyncio.to_thread(find_evidence, item, context.evidence.store, most)
            sources = evidence_under(condition, evidence[id], config.seed)
            question = replace(item.question, evidence=sources, own=item.own)
            topology = MisledAgent(condition.name, condition.colleagues, targets[id])
            return await run_discussion(topology, question, speaker, config.seed)

        def record(item: Item, trace: Trace) -> None:
            score = dataset.score(item, trace.answer)
            context.recorder.evaluated(trace, item, score, scoring.harm(trace, item))

        answered = context.recorder.done(condition.name)
        await discuss_all(
            context,
            [[item for item in items if item.question.id not in answered]],
            answer,
            record,
            name=f"asking, {condition.name}",
            total=len(items),
            done=len(answered),
            usage_name=condition.name,
        )
