"""Settings of the methods that have any: the defences, and the papers' systems."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from actors.settings import at_least, share


@dataclass
class DefenceSettings:
    """Settings of the methods that defend without labels."""

    calibration: int = at_least(1, default=40, most=10_000_000)
    """Training questions on which agents are watched, unlabelled, by methods that rank them (anomaly, agreement)."""
    dropped: int = at_least(0, default=1)
    """Number of agents that such a method silences."""


@dataclass
class SystemSettings:
    """Settings of the systems of other papers; the defaults are theirs where they have one."""

    turns: int = at_least(1, default=5, most=1_000)
    """Most turns of a system that searches in a loop: five are OmniSearch's, ViDoRAG has no limit of its own."""
    context: Literal["own", "retrieved"] = "own"
    """SP, CoT, Self-Correction, CCoT, DDCoT, MAD, BDoG: what they are shown of a question, its own hint and picture
    (zero-shot) or also what was retrieved for it; the same for all of them."""
    reader_sees: bool = False
    """EchoSight: show pictures to the model that answers, which in the paper reads the section alone."""
    documents: int = at_least(1, default=1, most=1_000)
    """Wiki-LLaVA: documents that a picture names; of each of them retrieval.texts passages are read."""
    rounds: int = at_least(1, default=3, most=100)
    """BDoG: most rounds of a debate (the authors' code: 2) ..."""
    epsilon: int | None = at_least(0, default=0)
    """... which ends when the blueprint graphs of two rounds are no farther apart than this; null: never early, as in
    the authors' code."""
    size: int = at_least(1, default=20, most=1_000)
    """BDoG: most entities of a graph (the authors' code: 3)."""
    blueprints: str | None = None
    """BDoG: a JSON file of first blueprint graphs by question id, as GPT-4 or Gemini wrote them; null: drawn anew."""
    steps: int = at_least(1, default=10, most=1_000)
    """MMAPG: most nodes of a plan."""
    text_radius: float | None = at_least(0, default=None)
    """MMAPG: leave out texts that are farther than this from what is searched for (null: `retrieval.radius`) ..."""
    picture_radius: float | None = at_least(0, default=None)
    """... and pictures (null: `retrieval.radius`)."""
    paths: int = at_least(1, default=5, most=1_000)
    """Most paths through a knowledge graph that MH-MMKG answers with (alpha)."""
    consistency: Literal["answers", "summaries", "majority"] = "answers"
    """HM-RAG: what agrees before the light model merges it. `answers`: all of them are the same; `summaries`: any two
    summaries of them are alike (Eqs. 13 and 14); `majority`: an answer of two agents is the answer, no model is asked
    (the authors' code)."""
    agreement: float = share(0.5)
    """HM-RAG, `consistency=summaries`: the least agreement of any two, from 0 to 1, at which the light model merges."""
    rouge_weight: float = share(0.5)
    """HM-RAG: the share of ROUGE-L in the agreement; the rest is BLEU's."""
