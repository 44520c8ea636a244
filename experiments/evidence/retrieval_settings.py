"""The settings of retrieval."""

from dataclasses import dataclass
from typing import Literal

from actors.settings import setting
from retrieval.embed import ENCODERS, is_pretrained

SERPER_KEY = "SERPER_API_KEY"  # environment variable of the account's key


def _needs(encoder: str | None) -> str:
    return "encoders" if encoder is not None and is_pretrained(encoder) else ""


def _is_loaded(encoder: str | None) -> bool:
    return encoder is not None and encoder not in ENCODERS


@dataclass
class RetrievalSettings:
    """Evidence of agents, and what systems search."""

    encoder: str = setting("lexical", outside=_is_loaded, needs=_needs)
    """`lexical`; the name or folder of a sentence-transformers or CLIP-like model (`pip install '.[encoders]'`), with
    `late:` before it for one with several vectors a source; or an encoder of your own, `package.module:MyEncoder`."""
    picture_encoder: str | None = setting(None, outside=_is_loaded, needs=_needs)
    """Encoder of pictures and of searches for them, where texts have another one; null: `retrieval.encoder`."""
    mode: Literal["hybrid", "vector", "text"] = "hybrid"
    """Search by vectors, by words, or by both, merged by rank."""
    scope: Literal["auto", "question", "corpus", "both"] = "auto"
    """Search the question's own pool, the whole corpus, or first the pool and then the corpus; `auto`: as the benchmark
    does, ViDoSeek the corpus and all others the pool."""
    texts: int = setting(8, at_least=0, at_most=10_000)
    """Passages and table rows for each question."""
    pictures: int = setting(5, at_least=0, at_most=10_000)
    """Pictures for each question; where the benchmark is ScienceQA, for questions with a picture of their own only."""
    radius: float | None = setting(None, at_least=0)
    """Largest distance of vectors between a source and the question; null: no limit."""
    graph: Literal["rules", "model"] = setting("rules", when="searches")
    """Source of the knowledge graph's triples: `rules` extract them without a model; `model` asks the run's model, one
    call for each source, kept next to the index. A data set's own graph takes the place of both."""
    gleaning: int = setting(0, at_least=0, at_most=100, when="searches, graph=model")
    """Most further calls for each source, which show the model its triples and ask for missing ones; they
    end with the first that adds nothing."""
    captions: Literal["given", "model"] = "given"
    """Descriptions of pictures: the data set's, or the run's model writes them, one call for each picture of the
    corpus, kept next to the index."""
    web: Literal["none", "corpus", "serper", "recorded"] = setting(
        "corpus", when="searches", outside=lambda value: value == "serper"
    )
    """The web of systems that search it. `corpus`: texts of the corpus outside the question's own pool; `serper`:
    Google, through serper.dev, with the key in the environment variable SERPER_API_KEY, recorded in the run's
    web.jsonl; `recorded`: the results in `retrieval.web_file` and no others; `none`: no results."""
    web_file: str | None = setting(None, when="web=recorded", outside=bool, path=bool)
    """The web.jsonl of an earlier run. A query that is not in it is an error."""
