"""Names of a run and of what it compared, as metrics.json has them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from experiments.config.config import MODELS
from experiments.config.setting_groups import CompareSettings
from experiments.records.failures import FailureSettings

EMBEDDED = "reader"  # the name of the embedded reader among models and judges, as records hold it
EMBEDDED_NOTE = "The model is the embedded reader: these figures say nothing about a language model's accuracy."

Metrics = dict[str, Any]  # the content of metrics.json, or a part of it
Settings = Mapping[str, Any]  # of a trial, by dotted key


@dataclass(frozen=True, slots=True)
class RunFacts:
    """Names of a run, and the methods and pairs that it compared.

    metric: the name of the data set's utility (EM, accuracy). pairs: the first minus the second of each is tested.
    failures: the share of a method's questions that may have failed for anything to be concluded about it.
    margin: the loss of utility below which a method is not worse than another.
    clean: by method, the one of `methods` that is its evaluation without the attack. attackers: the compromised agents.
    """

    experiment: str
    model: str
    dataset: str
    metric: str
    methods: tuple[str, ...]
    pairs: tuple[tuple[str, str], ...] = ()
    seed: int = 0
    failures: float = FailureSettings.share
    margin: float = CompareSettings.margin
    clean: Mapping[str, str] = field(default_factory=dict)
    attackers: tuple[str, ...] = ()


def model_notes(model: str) -> list[str]:
    """Returns the note on the embedded reader, where a run has it."""
    return [EMBEDDED_NOTE] if EMBEDDED in model.split(MODELS) else []


def metric_of(metrics: Mapping[str, Any]) -> str:
    """Reads the name of the utility in a metrics.json. Those of the first versions lack it."""
    return str(metrics.get("metric", "utility"))
