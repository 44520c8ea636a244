"""Checks of data sets, models and encoders."""

import asyncio
from collections.abc import Sequence
from itertools import islice

import numpy as np

from actors.agents.roles import SINGLE
from actors.errors import ModelError
from actors.messages import Completion, Kind, Question, Request, Source, Turn
from actors.models import Model, started
from actors.prompting.prompt import build_request
from experiments.conformance.requirements import NotConforming, checking, require
from experiments.datasets.item import Dataset, Item
from retrieval.embed import Encoder

ITEMS = 200  # of each split that are checked; reading a whole benchmark would take minutes
STOPS = ("stop", "length", "too_long", "error")
SOURCES = (
    Source("s1", "d1", Kind.TEXT, "Mill Lane", "The mill in Mill Lane was built in 1820."),
    Source("s2", "d2", Kind.TABLE, "Mills - built", "mill: Mill Lane; built: 1820"),
    Source("s3", "d3", Kind.IMAGE, "The mill", "A mill with four sails."),
)
QUERY = "When was the mill built?"
TOLERANCE = 1e-3  # float32 and the rounding of an accelerator


def check_dataset(dataset: Dataset) -> None:
    """Checks splits, sources and scores of an opened data set. Raises NotConforming with the first fault."""
    with checking(dataset.name):
        require(bool(dataset.name and dataset.metric), "a data set has a name, and a name for its metric")
        train = list(islice(dataset.train(), ITEMS))
        evaluated = list(islice(dataset.evaluate(), ITEMS))
        require(bool(evaluated), "there is no question to evaluate")
        # Resumed runs skip questions by id, and subsets are drawn by it: both need the same items again.
        repeated = list(islice(dataset.evaluate(), ITEMS))
        require(evaluated == repeated, "evaluate() gives other items, or another order, again")
        ids = [item.question.id for item in (*train, *evaluated)]
        require(len(set(ids)) == len(ids), "two questions have one id, or one is in both splits")
        source_ids: set[str] = set()
        documents: set[str] = set()
        for source in dataset.corpus():
            require(source.id not in source_ids, "the corpus gives a source twice")
            source_ids.add(source.id)
            documents.add(source.doc)
        for item in evaluated:
            with checking(f"question {item.question.id}"):
                check_item(item, documents)
                check_scores(dataset, item)


def check_item(item: Item, documents: set[str]) -> None:
    """Checks a question and its label. documents: of the corpus."""
    question = item.question
    require(isinstance(question, Question) and bool(question.text), "it has no text")
    require(bool(item.gold) and all(item.gold), "it has no gold answer")
    require(not question.evidence, "evidence is retrieved for it, a loader gives none")
    is_choice = not question.choices or set(item.gold) <= set(question.choices)
    require(is_choice, "its gold answer is none of its choices")
    require(set(item.supporting) <= set(item.pool), "a supporting document is not in its pool")
    require(set(item.own) <= set(item.pool), "a document of its own is not in its pool")
    require(set(item.pool) <= documents, "a document of its pool is not in the corpus")


def check_scores(dataset: Dataset, item: Item) -> None:
    """Checks the scores of a right answer, and of none."""
    nothing = dataset.score(item, None)
    # Several gold answers are joined as in a sentence, since answers are text.
    right = dataset.score(item, ", ".join(item.gold))
    require((nothing.utility, nothing.f1) == (0, 0), "no answer scores above 0")
    require(0 <= right.utility <= 1 and 0 <= right.f1 <= 1, "a score is not in [0, 1]")
    require(right.utility > 0, "its own gold answer scores 0")
    if nothing.strict_em is None:
        require(right.strict_em is None, "its strict_em is not in [0, 1]")
    else:
        require(nothing.strict_em == 0, "no answer has another strict_em than 0")
        is_share = right.strict_em is not None and 0 <= right.strict_em <= 1
        require(is_share, "its strict_em is not in [0, 1]")


def check_model(model: Model, name: str) -> None:
    """Checks that several requests at once get each its own completion. Raises NotConforming with the first fault."""
    requests = []
    for number in range(4):
        question = Question(f"q{number}", QUERY, evidence=SOURCES[:1])
        requests.append(build_request(Turn("conformance", question, SINGLE.name, 1, seed=number), SINGLE))
    completions = asyncio.run(_complete(model, requests))
    with checking(name):
        for request, completion in zip(requests, completions, strict=True):
            # A call that fails is retried, and then a failed turn.
            if not isinstance(completion, ModelError):
                check_completion(request, completion)


async def _complete(model: Model, requests: Sequence[Request]) -> list[Completion | BaseException]:
    await started(lambda: model)
    # All at once: a model that mixes up concurrent requests would pass one by one.
    return await asyncio.gather(*map(model.complete, requests), return_exceptions=True)


def check_completion(request: Request, completion: object) -> None:
    """Checks what a model has returned for a request."""
    if not isinstance(completion, Completion):
        raise NotConforming(f"complete() gives no Completion but {completion!r}")
    require(completion.id == request.id, f"the completion of {request.id} is called {completion.id}")
    require(completion.stop in STOPS, f"stop={completion.stop!r}, expected one of {', '.join(STOPS)}")
    require(isinstance(completion.text, str), "a completion's text is no text")
    is_explained = completion.stop != "error" or bool(completion.error)
    require(is_explained, "a completion with stop='error' does not say why")
    fewest = min(completion.prompt_tokens, completion.completion_tokens, completion.cached_tokens)
    require(fewest >= 0, "a completion counts fewer than 0 tokens")


def check_encoder(encoder: Encoder, name: str) -> None:
    """Checks shapes, lengths and repeatability of vectors. Raises NotConforming with the first fault."""
    with checking(name):
        require(bool(encoder.fingerprint), "it needs a fingerprint, which is an index's key")
        query = encoder.encode_query(QUERY)
        sources = encoder.encode_sources(SOURCES)
        require(len(sources) == len(SOURCES), f"{len(sources)} vectors for {len(SOURCES)} sources")
        # A query may have one vector where sources have several.
        query_vectors = np.atleast_2d(query) if encoder.late_interaction else query
        for vectors in (query_vectors, *sources):
            check_vectors(encoder, np.asarray(vectors))
        repeated = encoder.encode_query(QUERY)
        require(np.allclose(query, repeated, atol=TOLERANCE), "the same query has other vectors the second time")
        # Padding in a batch must not leak: an index is built in batches of any size.
        vectors_alone = encoder.encode_sources(SOURCES[:1])[0]
        require(np.allclose(sources[0], vectors_alone, atol=TOLERANCE), "a source's vectors depend on its batch")


def check_vectors(encoder: Encoder, vectors: np.ndarray) -> None:
    """Checks the vectors of a query or a source."""
    dimensions = 2 if encoder.late_interaction else 1
    is_shaped = vectors.ndim == dimensions and vectors.shape[-1] == encoder.dim
    expected = f"(m, {encoder.dim})" if encoder.late_interaction else f"({encoder.dim},)"
    require(is_shaped, f"vectors of a query or a source have shape {vectors.shape}, expected {expected}")
    require(bool(np.isfinite(vectors).all()), "vectors hold NaN or infinity")
    lengths = np.linalg.norm(np.atleast_2d(vectors), axis=1)
    # A text without any word that the encoder knows may have no direction.
    is_unit = (np.abs(lengths - 1) < TOLERANCE) | (lengths == 0)
    require(bool(is_unit.all()), "vectors are not of unit length")
