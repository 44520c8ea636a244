"""Opens a run's cache, data set and index before it starts, and checks that memory and disk suffice."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

import psutil

from actors.errors import UserError
from experiments.config.config import Config
from experiments.datasets.catalogue import dataset_kind
from experiments.datasets.item import Dataset
from experiments.datasets.kind import DataRequest
from experiments.evidence.evidence import Evidence
from experiments.evidence.retrieval_settings import RetrievalSettings
from experiments.running.calibration import watched_items
from experiments.running.methods import methods_of
from retrieval.embed import Encoder, make_encoder
from retrieval.store import Store

ACTOR_MB = 150  # an idle actor's process
FREE_DISK_MB = 500


def open_cache(config: Config) -> Path:
    """The cache folder, made if it is not there. Raises UserError when it cannot be."""
    cache = Path(config.cache or Path(config.output) / "cache")
    try:
        cache.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot write in cache={cache}: {error}; choose another cache= or output=") from error
    return cache


def open_store(config: Config, dataset: Dataset, cache: Path) -> Store:
    """The index of a data set's corpus. Raises UserError when one of its encoders cannot be made."""
    encoder = _encoder(config.retrieval.encoder, "retrieval.encoder")
    pictures = config.retrieval.picture_encoder
    # Made once where both are the same: a model takes seconds to load, and its memory.
    apart = pictures is not None and pictures != config.retrieval.encoder
    picture_encoder = _encoder(pictures, "retrieval.picture_encoder") if pictures and apart else None
    return Store.open(cache / "indexes", dataset.corpus, encoder, picture_encoder=picture_encoder)


def _encoder(name: str, key: str) -> Encoder:
    try:
        return make_encoder(name, key)
    except (ModuleNotFoundError, ValueError, OSError) as error:
        raise UserError(f"{key}: {error}") from error


def open_dataset(config: Config, cache: Path) -> Dataset:
    """The data set that a configuration asks for, with as many training questions as the run learns from or watches.

    Raises UserError when its release is missing or broken.
    """
    # Two stages, each on questions of its own.
    train = 2 * config.pruning.steps * config.training.questions_per_step
    methods = methods_of(config)
    watches = any(method.needs_calibration for method in methods)
    if watches:
        # The larger and not the sum: the same questions may be watched and learned from.
        train = max(train, config.defence.calibration)
    learns = config.job == "redundancy" or watches or any(method.needs_graph for method in methods)
    request = DataRequest(
        config.data,
        cache,
        train=train,
        held_out=train if learns else 0,
        seed=config.seed,
        # With scope=question, sources outside of the questions' own pools are never searched.
        whole_corpus=_retrieval(config).scope != "question",
    )
    return dataset_kind(config.data.kind).open(request)


def check_questions(config: Config, dataset: Dataset, stages: int) -> None:
    """Raises UserError where a data set has too few training questions for all `stages` of learning and for what some
    defences watch."""
    if any(method.needs_calibration for method in methods_of(config)):
        watched_items(config, dataset)
    needed = stages * config.pruning.steps * config.training.questions_per_step
    if (there := sum(1 for _ in islice(dataset.train(), needed))) < needed:
        raise UserError(
            f"learning takes {needed:,} training questions, each once in {stages} stages, and {dataset.name} has only "
            f"{there:,}: lower pruning.steps or training.questions_per_step"
        )


def open_evidence(config: Config, dataset: Dataset, cache: Path) -> Evidence:
    """What is retrieved for the questions of an opened data set, from its index."""
    kind = dataset_kind(config.data.kind)
    return Evidence(open_store(config, dataset, cache), _retrieval(config), kind.pictures_for)


def _retrieval(config: Config) -> RetrievalSettings:
    """The settings with the scope that fits the data set in place of `auto`."""
    retrieval = config.retrieval
    return replace(retrieval, scope=dataset_kind(config.data.kind).scope) if retrieval.scope == "auto" else retrieval


def check_room(folders: Sequence[Path], actors: int) -> None:
    """Raises UserError when memory, or the disk of a folder that is written to, would run out before the run does."""
    free_mb = psutil.virtual_memory().available // 2**20
    if free_mb < actors * ACTOR_MB:
        raise UserError(
            f"{free_mb} MB of memory are free and {actors} actors need about {actors * ACTOR_MB} MB: close other "
            "programs, or use fewer roles (topology.text, topology.visual) and model.replicas"
        )
    for folder in folders:
        disk_mb = shutil.disk_usage(folder).free // 2**20
        if disk_mb < FREE_DISK_MB:
            raise UserError(
                f"{disk_mb} MB are free in {folder}, expected {FREE_DISK_MB}: make room, or set output=<folder> and "
                "cache=<folder>"
            )
