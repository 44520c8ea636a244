"""The configuration of a run: a typed tree of settings, each group beside the code that it configures."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from actors.backends.model_settings import ModelSettings
from actors.reader.reader import ReaderSettings
from actors.settings import AgentSettings, CompletionSettings, RaySettings, at_least
from experiments.attacks.kind import AttackSettings
from experiments.config.settings import (
    BehaviourSettings,
    CostSettings,
    PlantedSettings,
    RedundancySettings,
    ReplaySettings,
    RoleSettings,
    SweepSettings,
    TopologySettings,
    TrainingSettings,
)
from experiments.datasets.kind import DataSettings
from experiments.evidence.retrieval_settings import RetrievalSettings
from experiments.records.tracking import WandbSettings
from topologies.learning.learner_settings import LearnerSettings, PruningSettings
from topologies.method import DefenceSettings, SystemSettings

MOST_SEED = 2**63 - 1


@dataclass
class Config:
    """One run."""

    experiment: str = ""
    job: Literal["prune", "recall", "planted", "redundancy", "behaviour"] = "prune"
    """`prune`: learn, prune and evaluate a communication graph; `recall`: how well retrieval finds the evidence;
    `planted`: how well learners do in a testbed with known truth; `redundancy`: which edges can go; `behaviour`: what
    irrelevant evidence and colleagues who are wrong make of one agent's answers."""
    seed: int = at_least(-(2**63), default=0, most=MOST_SEED)
    output: str = "runs"
    """Where run folders go."""
    cache: str | None = None
    """Where the generated sample and the retrieval indexes are kept between runs (default: `<output>/cache`)."""
    resume: str | None = None
    """A run folder to go on with."""
    dry_run: bool = False
    """Print how many turns and about how many tokens the run would take; no agent and no model is started."""
    runtime: Literal["ray", "inline"] = "ray"
    """`ray`: agents, replicas and learners are processes of their own; `inline`: all in one, without Ray (a sweep: in
    one for each of its `parallel` trials), for a debugger or a laptop. The records are the same."""
    concurrency: int = at_least(1, default=64, most=100_000)
    """Discussions held at once; answers do not depend on it."""
    figures: bool | None = None
    """Draw the figures of a run at its end (null: yes, but not those of each trial of a sweep, which may take as long
    as a small trial itself and are seldom looked at; `resume=<trial>` draws them). A sweep draws its own in any
    case."""
    methods: list[str] = field(
        default_factory=lambda: ["closed_book", "single", "full", "random", "m3prune", "effects"]
    )
    """What is evaluated: names of ours or of installed packages, or `package.module:Name` for your own."""
    ablation: Literal["none", "no_alignment", "no_inter", "dummy_text", "dummy_visual"] = "none"
    """Table 3 of the paper: what M3Prune goes without."""
    data: DataSettings = field(default_factory=DataSettings)
    retrieval: RetrievalSettings = field(default_factory=RetrievalSettings)
    model: ModelSettings = field(default_factory=ModelSettings)
    judge: ModelSettings = field(default_factory=lambda: ModelSettings(kind="none", replicas=1))
    """Who judges answers against gold (Acc*): `judge=openai judge.name=...`; the keys are those of `model`."""
    judge_rubric: Literal["auto", "graded", "same_answer"] = "auto"
    """`graded`: from 1 to 5, right from 4 on; `same_answer`: whether an answer comes to the same as the reference;
    `auto`: as the data set's paper does."""
    replay: ReplaySettings = field(default_factory=ReplaySettings)
    completions: CompletionSettings = field(default_factory=CompletionSettings)
    costs: CostSettings = field(default_factory=CostSettings)
    reader: ReaderSettings = field(default_factory=ReaderSettings)
    roles: dict[str, RoleSettings] = field(default_factory=dict)
    agents: AgentSettings = field(default_factory=AgentSettings)
    topology: TopologySettings = field(default_factory=TopologySettings)
    training: TrainingSettings = field(default_factory=TrainingSettings)
    learner: LearnerSettings = field(default_factory=LearnerSettings)
    pruning: PruningSettings = field(default_factory=PruningSettings)
    attack: AttackSettings = field(default_factory=AttackSettings)
    defence: DefenceSettings = field(default_factory=DefenceSettings)
    systems: SystemSettings = field(default_factory=SystemSettings)
    planted: PlantedSettings = field(default_factory=PlantedSettings)
    redundancy: RedundancySettings = field(default_factory=RedundancySettings)
    behaviour: BehaviourSettings = field(default_factory=BehaviourSettings)
    sweep: SweepSettings = field(default_factory=SweepSettings)
    ray: RaySettings = field(default_factory=RaySettings)
    wandb: WandbSettings = field(default_factory=WandbSettings)


# How a run is held, and what is kept and drawn of it: none of these changes an answer.
HOW_IT_RUNS = ("concurrency", "figures", "runtime", "ray", "wandb", "completions", "costs", "cache")
# Neither do these of a model.
_OF_A_MODEL = """replicas capacity gpus hang_s key_env timeout_s retries requests_per_minute
    tokens_per_minute""".split()
# These may differ between a run and its resumption.
RUNTIME_KEYS = (
    *HOW_IT_RUNS,
    *(f"{model}.{key}" for model in ("model", "judge", "roles.<role>.model") for key in _OF_A_MODEL),
)


def is_sweep(config: Config) -> bool:
    """True if the configuration asks for more than one run."""
    return bool(config.sweep.axes or config.sweep.points or config.sweep.seeds > 1)


def starts_ray(config: Config) -> bool:
    """True if the run has a Ray of its own on this machine."""
    discusses = config.job in ("prune", "redundancy", "behaviour") and not config.dry_run
    # The trials of a sweep are processes of Ray's, wherever their agents are.
    return discusses and config.ray.address is None and (config.runtime == "ray" or is_sweep(config))


def of_any_role(key: str) -> str:
    """The dotted key with `<role>` in the place of a role's name."""
    return re.sub(r"\Aroles\.[^.]+(?=\.|\Z)", "roles.<role>", key)


def among(key: str, names: Iterable[str]) -> bool:
    """True for a dotted key that is one of `names`, or lies below one of them."""
    # With the dot, so that `model` covers `model.name` but no other key that begins with these letters.
    return any(f"{of_any_role(key)}.".startswith(f"{name}.") for name in names)


def may_change(key: str) -> bool:
    """True for a dotted key that may differ between a run and its resumption."""
    return among(key, RUNTIME_KEYS)
