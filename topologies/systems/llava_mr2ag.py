"""LLaVA-mR2AG: retrieval reflection and relevance reflection (abstract of Zhang et al. 2024; M3Prune, section 8).

1. Retrieval reflection: must anything be looked up? If not, the question is answered from its own picture and hint.
2. The pages are retrieved whose pictures look most like the question's own.
3. Relevance reflection: each passage of them alone, relevant or not, with a confidence.
4. One answer from each relevant passage alone.
5. The answer with the largest product wins: the page's likeness times confidence in relevance and in the answer.

Where the model reports token probabilities, those of its verdict and answer are the confidences; elsewhere it states
them, and a missing one counts as one half. Decided here:
- Of all passages of the pages, the `top_k.texts` nearest to the question are judged, each in a turn. Where the pages
  have none, and for a question without a picture, they come from all pages, with their own similarity as score.
- A question without a picture is answered with the pictures that its words find (not used to judge relevance).
- An unreadable first reflection retrieves; where no passage is relevant, the answer comes from the pictures.
- A negative similarity counts as zero, and of equal products the better ranked passage wins.
"""

import asyncio
from collections.abc import Sequence

from actors.messages import Field, FieldKind, Hit, Message, Source, Task, Value
from topologies.method import query_of, system
from topologies.systems.helpers import page, pictures_among, sections, together
from topologies.systems.session import Session, System
from topologies.topology import SINGLE_AGENT

YES_NO = ("yes", "no")
SURE = Field(FieldKind.CONFIDENCE, "how sure you are of that, a number from 0 to 1", optional=True, value=Value.SHARE)
NEEDED = (
    "Decide whether anything has to be looked up to answer this, or whether what is shown and what you know is enough."
)
RETRIEVE = Field(FieldKind.RETRIEVE, "whether something must be looked up", YES_NO)
JUDGE = (
    "Decide whether the passage below helps to answer the question: whether it holds the answer, or a part of it, "
    "about the very thing that the question asks about."
)
RELEVANT = Field(FieldKind.RELEVANT, "whether the passage bears on the question", YES_NO)
FROM_PASSAGE = "Answer from the one passage shown and the pictures, and say how sure you are that this is the answer."


class LlavaMr2ag(System):
    """One agent that reflects on each of `top_k.texts` passages separately, with up to `top_k.pictures` pictures."""

    async def discuss(self, session: Session) -> Message:
        own_sources = await session.own()
        reflection = await session.ask(SINGLE_AGENT, evidence=own_sources, task=Task(NEEDED, (RETRIEVE,)))
        # Only a plain "no" goes without retrieval; an unreadable reply does not.
        if reflection.values(FieldKind.RETRIEVE) == ("no",):
            return await session.ask(SINGLE_AGENT, evidence=own_sources)

        pictures = await session.pictures(own_sources, self.top_k.pictures, self.top_k.radius)
        own_pictures = pictures_among(own_sources)
        hits = await self._passages(session, own_pictures)
        task = Task(JUDGE, (RELEVANT, SURE))
        verdicts = await asyncio.gather(
            *(session.ask(SINGLE_AGENT, evidence=(hit.source, *own_pictures), task=task) for hit in hits)
        )
        relevant = [
            (hit, verdict)
            for hit, verdict in zip(hits, verdicts, strict=True)
            if verdict.values(FieldKind.RELEVANT) == ("yes",)
        ]
        if not relevant:
            return await session.ask(SINGLE_AGENT, evidence=together(own_sources, pictures))

        evidence_of_turns = [together((hit.source,), own_sources, pictures) for hit, _ in relevant]
        answers: list[Message] = await asyncio.gather(
            *(session.ask(SINGLE_AGENT, evidence=part, instruction=FROM_PASSAGE) for part in evidence_of_turns)
        )
        # A negative cosine would rank an unsure answer above a sure one.
        return best_answer(answers, [max(0.0, hit.score) * certainty(verdict) for hit, verdict in relevant])

    async def _passages(self, session: Session, pictures: Sequence[Source]) -> Sequence[Hit]:
        """Retrieves passages of the pages whose pictures look most like these, with the pages' scores."""
        query = query_of(session.question)
        top_k = self.top_k
        if not pictures:
            return await session.search(query, top_k.texts, mode="vector", radius=top_k.radius)
        likeness: dict[str, float] = {}
        for hit in (await session.alike(pictures, top_k.pictures))[: top_k.pictures]:
            # The best comes first.
            likeness.setdefault(page(hit.source), hit.score)
        [hits] = await sections(session, [query], likeness, top_k.texts, top_k.texts)
        # Where the pages have no passage, those of others have their own scores.
        return [Hit(hit.source, likeness.get(page(hit.source), hit.score)) for hit in hits]


def best_answer(answers: Sequence[Message], scores: Sequence[float]) -> Message:
    """Returns the answer with the largest product of its passage's score and its own confidence.

    Of equal ones the first; the first turn where none has an answer.
    """
    readable = [number for number, message in enumerate(answers) if message.answer is not None]
    # `max` returns the first of equal products, which has the better ranked passage.
    return answers[max(readable, key=lambda number: scores[number] * certainty(answers[number]), default=0)]


def certainty(message: Message) -> float:
    """Returns the probability of a verdict, or else the confidence that the reply states. One half for none."""
    probability = dict(message.likelihoods).get(FieldKind.RELEVANT, message.confidence)
    if probability is not None:
        return probability
    stated = message.values(FieldKind.CONFIDENCE)
    return float(stated[0]) if stated else 0.5


METHODS = (
    system(
        "llava_mr2ag",
        "each passage is judged and answered from alone; the best score wins",
        LlavaMr2ag,
        rivals=("sp", "single"),
    ),
)
