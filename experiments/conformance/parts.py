"""Checks of data sets, models and encoders."""

import asyncio
from collections.abc import Iterable
from itertools import islice
from typing import Any, TypeVar, cast

import numpy as np

from actors.agents.roles import SINGLE
from actors.errors import AgoraError, ModelError
from actors.messages import Completion, Kind, Question, Source, Turn
from actors.models import Model
from actors.prompting.prompt import build_request
from experiments.datasets.item import Dataset
from experiments.unused import Part, readers
from retrieval.embed import Encoder

Settings = TypeVar("Settings")

ITEMS = 200  # of each split that are checked; reading a whole benchmark would take minutes
STOPS = ("stop", "length", "too_long", "error")
SOURCES = (
    Source("s1", "d1", Kind.TEXT, "Mill Lane", "The mill in Mill Lane was built in 1820."),
    Source("s2", "d2", Kind.TABLE, "Mills - built", "mill: Mill Lane; built: 1820"),
    Source("s3", "d3", Kind.IMAGE, "The mill", "A mill with four sails."),
)
QUERY = "When was the mill built?"
TOLERANCE = 1e-3  # float32 and the rounding of an accelerator


class NotConforming(AgoraError):
    """Raised where a part breaks a rule that others rely on. The text names it, in one line."""


def require(condition: bool, text: str) -> None:
    """Raises NotConforming with the text unless the condition holds."""
    if not condition:
        raise NotConforming(text)


def noting(settings: Settings, read: set[str]) -> Settings:
    """Returns equal settings that add to `read` the name of each one that is read."""
    kind = type(settings)

    def __getattribute__(self: Any, name: str) -> Any:
        if name in kind.__dataclass_fields__:  # type: ignore[attr-defined]
            read.add(name)
        return kind.__getattribute__(self, name)

    noting_kind = type(kind.__name__, (kind,), {"__getattribute__": __getattribute__})
    return cast(Settings, noting_kind(**vars(settings)))


def check_reads(part: Part, named_by: str, group: str, read: Iterable[str]) -> None:
    """Requires that a part names in `reads` all settings of a group that it has read and not every part reads.

    Raises NotConforming with the first one that it does not name.
    """
    for name in sorted(read):
        key = f"{group}.{name}"
        stated = key in part.reads or not readers(key, named_by)
        require(stated, f"{part.name}: it reads {key}, which is missing in its `reads`")


def check_dataset(dataset: Dataset) -> None:
    """Checks splits, sources and scores of an opened data set. Raises NotConforming with the first fault."""
    name = dataset.name
    require(bool(name and dataset.metric), "a data set has a name, and a name for its metric")
    train, evaluated = list(islice(dataset.train(), ITEMS)), list(islice(dataset.evaluate(), ITEMS))
    require(bool(evaluated), f"{name}: there is no question to evaluate")
    # Resumed runs skip questions by id, and subsets are drawn by it: both need the same items again.
    again = list(islice(dataset.evaluate(), ITEMS))
    require(evaluated == again, f"{name}: evaluate() gives other items, or another order, again")
    ids = [item.question.id for item in (*train, *evaluated)]
    require(len(set(ids)) == len(ids), f"{name}: two questions have one id, or one is in both splits")
    sources = [source.id for source in dataset.corpus()]
    require(len(set(sources)) == len(sources), f"{name}: the corpus gives a source twice")
    documents = {source.doc for source in dataset.corpus()}
    for item in evaluated:
        # Several gold answers are joined as in a sentence, since answers are text.
        nothing, right = dataset.score(item, None), dataset.score(item, ", ".join(item.gold))
        asked, choices, strict = item.question, item.question.choices, (nothing.strict_em, right.strict_em)
        rules = {
            "it has no text": isinstance(asked, Question) and bool(asked.text),
            "it has no gold answer": bool(item.gold) and all(item.gold),
            "evidence is retrieved for it, a loader gives none": not asked.evidence,
            "its gold answer is none of its choices": not choices or set(item.gold) <= set(choices),
            "a supporting document is not in its pool": set(item.supporting) <= set(item.pool),
            "a document of its own is not in its pool": set(item.own) <= set(item.pool),
            "a document of its pool is not in the corpus": set(item.pool) <= documents,
            "no answer scores above 0": (nothing.utility, nothing.f1) == (0, 0),
            "a score is not in [0, 1]": 0 <= right.utility <= 1 and 0 <= right.f1 <= 1,
            "no answer has another strict_em than 0": strict[0] == 0 or strict == (None, None),
            "its strict_em is not in [0, 1]": strict[0] is None or (strict[1] is not None and 0 <= strict[1] <= 1),
            "its own gold answer scores 0": right.utility > 0,
        }
        for broken, holds in rules.items():
            require(holds, f"{name}, question {asked.id}: {broken}")


def check_model(model: Model, name: str) -> None:
    """Checks that several requests at once get each its own completion. Raises NotConforming with the first fault."""
    requests = []
    for number in range(4):
        question = Question(f"q{number}", "When was the mill in Mill Lane built?", evidence=SOURCES[:1])
        turn = Turn("conformance", question, SINGLE.name, 1, seed=number)
        requests.append(build_request(turn, SINGLE))

    async def complete() -> list[Completion | BaseException]:
        # Models that start in an event loop have `start`.
        if start := getattr(model, "start", None):
            await start()
        # All at once: a model that mixes up concurrent requests would pass one by one.
        return await asyncio.gather(*map(model.complete, requests), return_exceptions=True)

    for request, completion in zip(requests, asyncio.run(complete()), strict=True):
        if isinstance(completion, ModelError):
            continue  # a call that fails is retried, and then a failed turn
        if not isinstance(completion, Completion):
            raise NotConforming(f"{name}: complete() gives no Completion but {completion!r}")
        require(completion.id == request.id, f"{name}: the completion of {request.id} is called {completion.id}")
        require(completion.stop in STOPS, f"{name}: stop={completion.stop!r}, expected one of {', '.join(STOPS)}")
        require(isinstance(completion.text, str), f"{name}: a completion's text is no text")
        explained = completion.stop != "error" or bool(completion.error)
        require(explained, f"{name}: a completion with stop='error' does not say why")
        counts = completion.prompt_tokens, completion.completion_tokens, completion.cached_tokens
        require(min(counts) >= 0, f"{name}: a completion counts fewer than 0 tokens")


def check_encoder(encoder: Encoder, name: str) -> None:
    """Checks shapes, lengths and repeatability of vectors. Raises NotConforming with the first fault."""
    require(bool(encoder.fingerprint), f"{name}: it needs a fingerprint, which is an index's key")
    query, sources = encoder.encode_query(QUERY), encoder.encode_sources(SOURCES)
    require(len(sources) == len(SOURCES), f"{name}: {len(sources)} vectors for {len(SOURCES)} sources")
    # A query may have one vector where sources have several.
    asked = np.atleast_2d(query) if encoder.late_interaction else query
    for owner, vectors in (("a query's", asked), *(("a source's", source) for source in sources)):
        array = np.asarray(vectors)
        shape = array.ndim == (2 if encoder.late_interaction else 1) and array.shape[-1] == encoder.dim
        expected = f"(m, {encoder.dim})" if encoder.late_interaction else f"({encoder.dim},)"
        require(shape, f"{name}: {owner} vectors have shape {array.shape}, expected {expected}")
        lengths = np.linalg.norm(np.atleast_2d(array), axis=1)
        require(bool(np.isfinite(array).all()), f"{name}: {owner} vectors hold NaN or infinity")
        # A text without any word that the encoder knows may have no direction.
        unit = (np.abs(lengths - 1) < TOLERANCE) | (lengths == 0)
        require(bool(unit.all()), f"{name}: {owner} vectors are not of unit length")
    again = encoder.encode_query(QUERY)
    require(np.allclose(query, again, atol=TOLERANCE), f"{name}: the same query has other vectors the second time")
    # Padding in a batch must not leak: an index is built in batches of any size.
    alone = encoder.encode_sources(SOURCES[:1])[0]
    require(np.allclose(sources[0], alone, atol=TOLERANCE), f"{name}: a source's vectors depend on its batch")
