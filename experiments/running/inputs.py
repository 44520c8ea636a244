"""Opens a run's cache, data set and index, and checks that memory and disk suffice."""

import json
import shutil
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import asdict
from itertools import chain, islice
from pathlib import Path

import psutil

from actors.errors import UserError
from experiments.datasets.clusters import clusters_at_random
from experiments.datasets.item import Dataset, Item
from experiments.datasets.kind import DataRequest
from experiments.evidence.evidence import Evidence
from experiments.evidence.extraction import GRAPH
from experiments.evidence.library import triples_given
from experiments.evidence.manifest import Manifest
from experiments.evidence.retrieval_settings import RetrievalSettings
from experiments.planning.plan import Plan
from experiments.records.progress import Progress, silent
from retrieval.embed import make_encoder
from retrieval.store import Store
from topologies.defences.probes import fewest_probes

ACTOR_MB = 150  # an idle actor's process
FREE_DISK_MB = 500
INDEXES = "indexes"  # the folder, among other caches
MOST_OPEN = 8  # data sets that `OpenData` keeps, each with its index


def open_cache(cache: Path) -> Path:
    """Makes the cache folder if it is missing. Raises UserError when it cannot be made."""
    try:
        cache.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot write in cache={cache}: {error}; choose another cache= or output=") from error
    return cache


def open_dataset(plan: Plan, cache: Path) -> Dataset:
    """Opens a data set, with training questions to learn from or to watch.

    Raises UserError for a broken release, and for one that has the graph that a model is to extract.
    """
    config = plan.config
    # Two stages, which share no question. The larger number and not the sum: the same questions may be watched
    # and learned from.
    train = max(plan.training_questions, plan.watched_questions)
    uses = plan.job.holds_out or plan.watched_questions or any(method.needs_graph for method in plan.methods)
    request = DataRequest(
        config.data,
        cache,
        train=train,
        held_out=train if uses else 0,
        seed=config.seed,
        # With scope=question, sources outside of the questions' own pools are never searched.
        whole_corpus=plan.retrieval.scope != "question",
    )
    dataset = plan.dataset.open(request)
    if GRAPH in plan.extraction and triples_given(dataset) is not None:
        raise UserError(f"retrieval.graph=model: data={config.data.kind} has its own knowledge graph; leave it out")
    return dataset


def notes_of(dataset: Dataset) -> tuple[str, ...]:
    """Returns notes on a data set, such as missing parts, as far as it was read."""
    return tuple(getattr(dataset, "notes", ()))


def manifest_of(dataset: Dataset, cache: Path, progress: Progress | None = None) -> Manifest:
    """Reads the manifest of a data set, next to its indexes. progress: shows the reading; None shows nothing."""
    return Manifest(dataset, cache / INDEXES, progress or silent())


def open_store(retrieval: RetrievalSettings, dataset: Dataset, cache: Path, manifest: Manifest | None = None) -> Store:
    """Opens the index of a data set's corpus. Raises UserError when one of its encoders cannot be made."""
    manifest = manifest or manifest_of(dataset, cache)
    # One where both are the same: a model takes seconds to load, and its memory.
    encoders = {}
    for key in ("encoder", "picture_encoder"):
        if (name := getattr(retrieval, key)) and name not in encoders:
            try:
                encoders[name] = make_encoder(name, f"retrieval.{key}")
            except (ModuleNotFoundError, ValueError, OSError) as error:
                raise UserError(f"retrieval.{key}: {error}") from error
    encoder, *pictures = encoders.values()
    try:
        return Store.open(
            cache / INDEXES,
            manifest.sources,
            encoder,
            picture_encoder=next(iter(pictures), None),
            digest_of=manifest.digest,
            waiting=manifest.progress.waiting,
        )
    finally:
        manifest.close()


def open_evidence(plan: Plan, dataset: Dataset, cache: Path, progress: Progress | None = None) -> Evidence:
    """Opens the evidence for the questions of a data set, over its index. Decodes the pictures of their pools.

    Raises UserError for one that cannot be decoded, and as `open_store`.
    """
    manifest = manifest_of(dataset, cache, progress)
    store = open_store(plan.retrieval, dataset, cache, manifest)
    docs: set[str] | None = None
    if plan.config.data.check == "used":
        docs = set()
        for item in chain(dataset.train(), dataset.evaluate()):
            docs.update(item.pool)
    manifest.check_pictures(store.pictures(docs), keep=True)
    return Evidence(
        store,
        plan.retrieval,
        plan.dataset.pictures_for,
        check_pictures=manifest.check_pictures,
        progress=manifest.progress,
    )


class OpenData:
    """Data sets with their evidence, each opened once for the trials of one process. Those used last stay open."""

    def __init__(self) -> None:
        self._open: OrderedDict[str, tuple[Dataset, Evidence]] = OrderedDict()

    def of(self, plan: Plan) -> tuple[Dataset, Evidence]:
        key = data_key(plan)
        if key not in self._open:
            cache = open_cache(plan.config.cache_folder)
            dataset = open_dataset(plan, cache)
            self._open[key] = dataset, open_evidence(plan, dataset, cache)
            if len(self._open) > MOST_OPEN:
                self._open.popitem(last=False)
        self._open.move_to_end(key)
        return self._open[key]


def data_key(plan: Plan) -> str:
    """Returns a text that is equal for plans with the same data set and evidence."""
    config = plan.config
    # Steps and questions per step are in the key, because they decide how many training questions are taken.
    training = config.pruning.steps, config.training.questions_per_step, plan.watched_questions
    return json.dumps([config.seed, training, asdict(config.data), asdict(config.retrieval), config.cache])


def watched_items(dataset: Dataset, plan: Plan) -> list[Item]:
    """Takes the first training questions to be watched; where they are probes, one of each document among them.

    Raises UserError where there are fewer questions, or so few probes that no agent could be isolated.
    """
    number = plan.watched_questions
    items = list(islice(dataset.train(), number))
    if len(items) < number:
        raise UserError(
            f"defence.calibration={number}: {dataset.name} has only {len(items)} training questions; lower it"
        )
    if not plan.probes:
        return items

    # Scores of questions of one document are not independent.
    probes = [cluster[0] for cluster in clusters_at_random(items, plan.config.seed)]
    defence = plan.config.defence
    fewest = fewest_probes(len(plan.roles.agents), defence)
    if len(probes) < fewest:
        raise UserError(
            f"defence.calibration={number}: these questions are of {len(probes)} documents, and probes, one of each, "
            f"isolate no agent before there are {fewest}; raise it, or defence.least_accuracy={defence.least_accuracy}"
        )
    return probes


def check_questions(plan: Plan, dataset: Dataset) -> None:
    """Raises UserError for too few training questions, for all stages of learning or to be watched."""
    watched_items(dataset, plan)
    for stage in range(1, max((learner.stages for learner in plan.learners.values()), default=0) + 1):
        training_items(plan, dataset, stage)


def training_items(plan: Plan, dataset: Dataset, stage: int) -> list[list[Item]]:
    """Divides training questions among the steps of a stage. Stages share none. Raises UserError for too few."""
    stage_questions = plan.training_questions // 2
    items = list(islice(dataset.train(), (stage - 1) * stage_questions, stage * stage_questions))
    if len(items) < stage_questions:
        raise UserError(
            f"stage {stage} needs {stage_questions} training questions of its own and {dataset.name} has only "
            f"{len(items)} left for it: lower pruning.steps or training.questions_per_step"
        )
    per_step = plan.config.training.questions_per_step
    return [items[start : start + per_step] for start in range(0, stage_questions, per_step)]


def check_room(folders: Sequence[Path], actors: int) -> None:
    """Raises UserError when memory, or the disk of a folder, would run out before the run ends."""
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
