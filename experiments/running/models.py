"""The models of a run: the one that its agents ask, and the one that judges their answers."""

from __future__ import annotations

from actors.backends.backend import Backend
from actors.backends.backends import find_backend
from experiments.config.config import Config
from experiments.datasets.catalogue import dataset_kind
from experiments.judging.rubric import RUBRICS, Rubric

COMPLETIONS = "completions"  # the folder, beside other caches


def model_backend(config: Config) -> Backend:
    """The agents' model. Raises UserError where there is no such kind."""
    return find_backend("model", config.model, config.reader)


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
    # `maker` checks what it is given; nothing is started before it is called in a process.
    if judge := judge_backend(config):
        judge.maker()
