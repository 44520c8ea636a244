"""The choice of questions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from actors.settings import at_least


@dataclass
class DataSettings:
    """The questions of a run. `data=mmqa` is short for `data.kind=mmqa`."""

    kind: str = "sample"
    """One of `datasets.catalogue.DATASETS`, or one of your own as `package.module:load`."""
    root: str | None = None
    """Folder of the benchmark's official release; the generated sample needs none."""
    limit: int | None = at_least(1, default=100, most=10_000_000)
    """Evaluated questions, chosen by seed; null for all."""
    selection: Literal["all", "paper"] = "all"
    """MultimodalQA only: `paper` leaves out the questions that need a table (1,161 of the 2,441)."""
    split: Literal["test", "minitest", "val", "minival"] = "test"
    """ScienceQA only: what is evaluated."""
    pictures: bool = False
    """ScienceQA only: nothing but questions with a picture (2,017 of the 4,241 of test), as BDoG evaluates."""
    task: Literal["informative", "humanitarian", "humanitarian_merged", "damage"] = "informative"
    """CrisisMMD only: informativeness, humanitarian category (`_merged`: five of them, not eight), or damage."""
    allow_links: bool = False
    """Follow links in `data.root` that lead outside of it; for links of your own, never for a folder from others."""
