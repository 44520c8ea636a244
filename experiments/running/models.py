"""The models of a run: the one that its agents ask, and the one that judges their answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from actors.backends.backend import Backend
from actors.backends.backends import find_backend
from actors.backends.model_settings import model_name
from experiments.analysis.summary import MODELS
from experiments.config.config import Config
from experiments.config.loading import for_role
from experiments.datasets.catalogue import dataset_kind
from experiments.judging.rubric import RUBRICS, Rubric

COMPLETIONS = "completions"  # the folder, beside other caches


def model_backend(config: Config) -> Backend:
    """The agents' model. Raises UserError where there is no such kind."""
    return find_backend("model", config.model, config.reader)


def role_backends(config: Config, roles: Iterable[str]) -> dict[str, Backend]:
    """The models of those roles that have another than the agents', by role. Equal ones are one object, with the key of
    the first of their roles. Raises UserError where there is no such kind."""
    backends: list[Backend] = [model_backend(config)]
    by_role = {}
    for role in roles:
        own = for_role(config, role)
        if own is config:
            continue
        backend = find_backend(f"roles.{role}.model", own.model, own.reader)
        if not _alike(backends[0], backend) and "replicas" not in config.roles[role].model:
            # As many as the run's own would be more than a machine has cores or GPUs for.
            backend = replace(backend, settings=replace(own.model, replicas=1))
        same = next((known for known in backends if _alike(known, backend)), None)
        if same is None:
            backends.append(backend)
        if same is not backends[0]:
            by_role[role] = same or backend
    return by_role


def by_key(backends: Mapping[str, Backend]) -> dict[str, Backend]:
    """The different models among those of roles, by key."""
    return {backend.key: backend for backend in backends.values()}


def _alike(one: Backend, other: Backend) -> bool:
    """True for models that one pool can serve. The embedded reader's settings count for no other model."""
    return one.settings == other.settings and (one.settings.kind != "reader" or one.reader == other.reader)


def models_named(config: Config) -> str:
    """The names in records of the models that agents ask: the run's own first, then those of roles."""
    settings = [config.model, *(for_role(config, role).model for role in config.roles)]
    return MODELS.join(dict.fromkeys(map(model_name, settings)))


def replicas(config: Config) -> int:
    """Replicas of all models that agents ask, and of the judge's."""
    own = by_key(role_backends(config, config.roles)).values()
    judge = judge_backend(config)
    return sum(backend.replicas for backend in (model_backend(config), *own, *([judge] if judge else ())))


def judge_backend(config: Config) -> Backend | None:
    """The judge's model; None where nobody judges. Raises UserError where there is no such kind."""
    return None if config.judge.kind == "none" else find_backend("judge", config.judge, config.reader)


def answer_rubric(config: Config) -> Rubric:
    """By which rubric the run's answers are judged: what was chosen, or else what the data set says."""
    chosen = config.judge_rubric
    return RUBRICS[dataset_kind(config.data.kind).rubric if chosen == "auto" else chosen]


def check_models(config: Config) -> None:
    """Raises UserError for a model or a judge that cannot work, before anything is made or started for the run."""
    if config.model.kind != "replay":  # which needs no model
        model_backend(config).maker()
        for backend in role_backends(config, config.roles).values():
            backend.maker()
    # `maker` checks what it is given; nothing is started before it is called in a process.
    if judge := judge_backend(config):
        judge.maker()
