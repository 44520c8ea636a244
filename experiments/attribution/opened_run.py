"""Opens the parts of a run's discussions: its plan, its questions with their evidence, and its library.

A run folder may come from anyone, so only what the user has named is opened outside of it. Nothing is written in it,
and no service is contacted. Indexes that the run's cache lacks are made again in a temporary folder.
"""

import shutil
import weakref
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from actors.errors import UserError
from experiments.config import loading, saved
from experiments.config.references import at_home, check_named_again, check_outside
from experiments.datasets.item import Item, TitlesOf
from experiments.evidence.evidence import Evidence
from experiments.evidence.extraction import CAPTIONS, GRAPH, Step, captioned, extracted_file, read_extracted, statements
from experiments.evidence.library import LabelledLibrary, open_web, triples_given
from experiments.jobs import JOBS
from experiments.planning.plan import Plan, make_plan
from experiments.records.recorder import RunFolder
from experiments.running.inputs import open_dataset, open_evidence
from experiments.running.model_extraction import identity
from retrieval.graph_tables import BY_RULES

# Settings that lead out of the folder and are of no use here: no judge, no endpoint and no cluster is asked.
UNUSED = ("judge.", "wandb.", "ray.", "costs.", "replay.", "retrieval.web")
ADDRESSES = ("base_url", "key_env")


class OpenedRun:
    """A run's plan, data set and evidence.

    Args:
        overrides: `key=value` of what the configuration names outside of the folder, as the user trusts it; None: all.
        asks: models are asked: their addresses have to be named too, and `overrides` replace settings of the run.

    Raises:
        UserError: the configuration is damaged, or names what `overrides` lack; the line has the overrides to add.
    """

    def __init__(self, run: RunFolder, overrides: Sequence[str] | None = (), *, asks: bool = False) -> None:
        self.run = run
        check_outside(run.path)
        config = saved.read(run.config)
        if config.replays:
            raise UserError(f"{run.path} replays {config.replay.run}, which has the prompts and replies: open that run")
        changes: Sequence[str] = ()
        if asks and overrides:
            changes = overrides
        config = loading.named_again(changes, config)
        at_home(config, run.path)
        again = config if overrides is None else loading.named_again(overrides)
        unused: list[str] = []
        if not asks:
            unused += ADDRESSES
            if config.model.kind == "openai":
                # The name of an endpoint's model is no folder.
                unused.append("name")
        check_named_again(config, again, lambda key: not (key.startswith(UNUSED) or key.rpartition(".")[2] in unused))
        self.plan: Plan = make_plan(config, JOBS[config.job])
        self._folder = Path(mkdtemp())
        weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        self.cache = Path(str(config.cache))
        self._open_cache = self.cache if self.cache.is_dir() else self._folder
        self.dataset = open_dataset(self.plan, self._open_cache)

    @cached_property
    def evidence(self) -> Evidence:
        """The run's evidence, over its index."""
        evidence = open_evidence(self.plan, self.dataset, self._open_cache)
        if CAPTIONS in self.plan.extraction:
            extracted = self._extracted(CAPTIONS, evidence)
            evidence = replace(evidence, store=evidence.store.of(captioned(self.dataset.corpus, extracted)))
        return evidence

    def titles(self) -> TitlesOf:
        """Returns what finds titles of sources: the index, or the data set where LanceDB is not installed."""
        if find_spec("lancedb"):
            return self.evidence.store.titles

        def titles_of(ids: Collection[str]) -> dict[str, str]:
            titles = {source.id: source.title for source in self.dataset.corpus() if source.id in ids}
            return dict(sorted(titles.items()))  # as the index has them

        return titles_of

    @cached_property
    def library(self) -> LabelledLibrary:
        """The run's library."""
        items: Iterable[Item] = ()
        if self.plan.has_library:
            items = self.dataset.evaluate()
        extracted_statements = BY_RULES
        if GRAPH in self.plan.extraction:
            extracted = self._extracted(GRAPH, self.evidence)
            extracted_statements = statements(self.evidence.store.everything(), extracted)
        # The recording is copied: opening it cuts a line that a running process may be writing.
        web = open_web(self.plan.config.retrieval, self._folder, self.run.path)
        return LabelledLibrary(self.evidence, items, web, triples_given(self.dataset), extracted_statements)

    def _extracted(self, step: Step, evidence: Evidence) -> Any:
        cache = evidence.store.folder.parent
        return read_extracted(extracted_file(cache, step, identity(self.plan.config, step)))
