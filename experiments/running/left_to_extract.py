"""Extraction with a run's model: its steps, the questions that are left, and the settings that decide them."""

import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

from actors.messages import Question
from experiments.config.config import Config
from experiments.config.saved import answered_by
from experiments.datasets.item import Dataset
from experiments.evidence.extraction import CAPTIONS, GRAPH, Step, captioned, extracted_file, missing, read_extracted
from experiments.planning.plan import Plan
from experiments.planning.run_models import find_models
from retrieval.store import Store


def identity(config: Config, step: Step) -> str:
    """The model and all settings that an extraction depends on, as JSON. Of a replay, those of the recorded run."""
    config = answered_by(config)
    agents, name = config.agents, step.role.name
    # A role's model is described by its backend, without what changes no reply.
    role = asdict(config.roles[name]) | {"model": None, "reader": None} if name in config.roles else None
    described: dict[str, Any] = {
        "model": find_models(config, config.roles.keys() & {name}).of_role(name).identity(),
        "agents": [agents.temperature, agents.max_tokens, agents.replies],
        "role": role,
    }
    # The length of parts is in the requests: equal parts are asked about once, however they were cut.
    if step is GRAPH and config.retrieval.gleaning:
        described["gleaning"] = config.retrieval.gleaning
    return json.dumps(described, sort_keys=True)


def turns_of(step: Step, gleaning: int) -> Step:
    """The step with the further turns for each source that `retrieval.gleaning` asks for."""
    return replace(step, gleaning=gleaning) if step is GRAPH else step


def left_to_extract(plan: Plan, dataset: Dataset, store: Store, caption: str) -> Iterator[tuple[Step, list[Question]]]:
    """Each step with the questions that a run would ask, for a dry run. `caption` replaces those not written yet."""
    config, folder, corpus = plan.config, store.folder.parent, dataset.corpus
    for step in plan.extraction:
        known = read_extracted(extracted_file(folder, step, identity(config, step)))
        yield turns_of(step, config.retrieval.gleaning), list(missing(step, corpus(), known))
        if step is CAPTIONS:
            corpus = captioned(dataset.corpus, known, caption)
