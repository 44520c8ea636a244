"""The settings of retrieval."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal

from actors.errors import UserError
from actors.settings import at_least
from experiments.datasets.kind import DatasetKind
from experiments.evidence.parts import PART_WORDS

SERPER_KEY = "SERPER_API_KEY"


@dataclass
class RetrievalSettings:
    """The evidence that agents get."""

    encoder: str = "lexical"
    """`lexical`; the name or folder of a sentence-transformers or CLIP-like model (`pip install '.[encoders]'`), with
    `late:` before it for one with several vectors a source; or an encoder of your own, `package.module:MyEncoder`."""
    picture_encoder: str | None = None
    """The encoder of pictures and of what is asked of them, where texts have another one; null: `retrieval.encoder`."""
    mode: Literal["hybrid", "vector", "text"] = "hybrid"
    scope: Literal["auto", "question", "corpus", "both"] = "auto"
    """Search the question's own pool, the whole corpus, or first the pool and then the corpus; `auto`: as the benchmark
    does, ViDoSeek the corpus and all others the pool."""
    texts: int = at_least(0, default=8, most=10_000)
    """Passages and table rows for each question."""
    pictures: int = at_least(0, default=5, most=10_000)
    """Pictures for each question."""
    pictures_for: Literal["auto", "all", "pictured"] = "auto"
    """The questions that pictures are retrieved for: `all`, or those that come with a picture of their own
    (`pictured`); `auto`: as fits the benchmark, ScienceQA `pictured`, since its other questions are about none, and all
    others `all`. What a system searches by itself is left to it."""
    radius: float | None = at_least(0, default=None)
    """Leave out what is farther than this from the question (distance of the vectors)."""
    graph: Literal["rules", "model"] = "rules"
    """What triples the knowledge graph of systems is built of: `rules` read them off the sources' words without a
    model; `model`: the run's model is asked for them, a call for each source, kept beside the index. A data set's own
    graph takes the place of both."""
    part_words: int = at_least(50, default=PART_WORDS, most=10_000_000)
    """graph=model: sources of more words are asked about in parts of so many at most, which end with a sentence."""
    gleaning: int = at_least(0, default=0, most=100)
    """graph=model: further calls for each source, in which the model is shown what it found and asked for what it
    missed, at most; they end with the first that adds nothing."""
    captions: Literal["given", "model"] = "given"
    """What is known of pictures in words: what the data set says, or what the run's model writes, a call for each
    picture of the corpus, kept beside the index."""
    web: Literal["none", "corpus", "serper", "recorded"] = "corpus"
    """The web of systems that search it. `corpus`: texts of the corpus outside the question's own pool; `serper`:
    Google, through serper.dev, recorded in the run's web.jsonl; `recorded`: the results in `retrieval.web_file` and no
    others; `none`: no results."""
    web_file: str | None = None
    """recorded: the web.jsonl of an earlier run. A query that is not in it is an error."""
    web_key_env: str = SERPER_KEY
    """serper: the environment variable that holds the key, which is never written down."""
    web_url: str = "https://google.serper.dev/search"

    def check_values(self, key: str) -> None:
        """Raises UserError for a key of the web search in the place of its variable's name."""
        if not re.fullmatch(r"[A-Za-z_]\w*", self.web_key_env):
            raise UserError(f"{key}.web_key_env is not the name of an environment variable; export the key under one")
        if "@" in self.web_url or "?" in self.web_url:
            raise UserError(f"{key}.web_url has a password or a query; a key goes into the variable of web_key_env")


def settled(settings: RetrievalSettings, kind: DatasetKind) -> RetrievalSettings:
    """The settings with `auto` replaced by what fits the data set."""
    return replace(
        settings,
        scope=kind.scope if settings.scope == "auto" else settings.scope,
        pictures_for=kind.pictures_for if settings.pictures_for == "auto" else settings.pictures_for,
    )
