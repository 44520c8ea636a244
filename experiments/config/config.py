"""Configuration of a run: a typed tree of settings. Each group is defined next to its code."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

from omegaconf import OmegaConf

from actors.backends.backends import ReplayBackend
from actors.backends.model_settings import ModelSettings, model_name
from actors.reader.reader import ReaderSettings
from actors.settings import AgentSettings, CompletionSettings, RaySettings, setting, validated
from experiments.attacks.kind import AttackSettings
from experiments.config.setting_groups import (
    CompareSettings,
    CostSettings,
    ExplainSettings,
    FigureSettings,
    GameSettings,
    ReplaySettings,
    RoleSettings,
    SweepSettings,
    TopologySettings,
    TrainingSettings,
    is_outside_method,
)
from experiments.config.study_settings import BehaviourSettings, PlantedSettings, RedundancySettings, ScalingSettings
from experiments.datasets.kind import DataSettings
from experiments.evidence.retrieval_settings import RetrievalSettings
from experiments.records.failures import FailureSettings
from experiments.records.tracking import WandbSettings
from topologies.learning.learner_settings import LearnerSettings, PruningSettings
from topologies.method import DefenceSettings, SystemSettings

Group = TypeVar("Group")
MODELS = " + "  # between the names of several models that answer in one run
MOST_SEED = 2**63 - 1


@dataclass
class Config:
    """One run."""

    experiment: str = ""
    """Name of a preset or of a method, or the path of a YAML file of your own."""
    job: Literal["prune", "recall", "planted", "scaling", "redundancy", "behaviour", "game"] = "prune"
    """Kind of run: `prune`: learn, prune and evaluate communication graphs; `recall`: measure retrieval; `planted`:
    compare learners where the truth is known; `scaling`: count the discussions that they need there; `redundancy`:
    measure which edges can go; `behaviour`: measure what irrelevant evidence and wrong colleagues do to one agent;
    `game`: play attacks against defences."""
    seed: int = setting(0, at_least=-(2**63), at_most=MOST_SEED)
    """Seed of every random choice."""
    output: str = "runs"
    """Folder of the run folders."""
    cache: str | None = setting(None, outside=bool)
    """Folder of what runs share: the generated sample, indexes, completions (null: `<output>/cache`)."""
    resume: str | None = None
    """Run folder to go on with."""
    dry_run: bool = False
    """Print the turns, calls and tokens that the run would take, without a model."""
    runtime: Literal["ray", "inline"] = "ray"
    """Place of agents, replicas and learners: `ray`: one process each; `inline`: one process (of a sweep: one
    for each of its `parallel` trials). Records are the same."""
    concurrency: int = setting(64, at_least=1, at_most=100_000)
    """Discussions at once; answers do not depend on it."""
    figures: FigureSettings = setting(factory=FigureSettings)
    methods: list[str] = setting(
        factory=lambda: ["closed_book", "single", "full", "random", "m3prune", "effects"],
        outside=is_outside_method,
    )
    """Methods to evaluate: names of ours or of installed packages, `learned` for all of ours that learn,
    `package.module:Name` for your own, or `graph:<file>` for a graph as a run writes it
    (`learned/<method>/topology.graphml`)."""
    ablation: Literal["none", "no_alignment", "no_inter", "dummy_text", "dummy_visual"] = "none"
    """Part of M3Prune to leave out (its Table 3)."""
    data: DataSettings = setting(factory=DataSettings)
    retrieval: RetrievalSettings = setting(factory=RetrievalSettings)
    model: ModelSettings = setting(factory=ModelSettings)
    judge: dict[str, Any] = setting(factory=dict, over=ModelSettings)
    """Overrides over `model` for the model that judges answers (Acc*), by the same keys: `judge=openai judge.name=...`.
    Empty: no judge. Another kind starts from the defaults, another address without a key; one replica unless
    `judge.replicas` is given."""
    judge_rubric: Literal["auto", "graded", "same_answer"] = setting("auto", when="judges")
    """Rubric of the judge: `graded`: 1 to 5, right from 4 on; `same_answer`: same as the reference or not; `auto`: that
    of the data set's paper."""
    replay: ReplaySettings = setting(factory=ReplaySettings)
    completions: CompletionSettings = setting(factory=CompletionSettings)
    explain: ExplainSettings = setting(factory=ExplainSettings, since="0.4.0")
    costs: CostSettings = setting(factory=CostSettings)
    reader: ReaderSettings = setting(factory=ReaderSettings)
    roles: dict[str, RoleSettings] = setting(factory=dict)
    agents: AgentSettings = setting(factory=AgentSettings)
    topology: TopologySettings = setting(factory=TopologySettings)
    training: TrainingSettings = setting(factory=TrainingSettings)
    learner: LearnerSettings = setting(factory=LearnerSettings)
    pruning: PruningSettings = setting(factory=PruningSettings)
    attack: AttackSettings = setting(factory=AttackSettings)
    defence: DefenceSettings = setting(factory=DefenceSettings)
    planted: PlantedSettings = setting(factory=PlantedSettings, since="0.4.0")
    scaling: ScalingSettings = setting(factory=ScalingSettings, since="0.4.0")
    redundancy: RedundancySettings = setting(factory=RedundancySettings, since="0.4.0")
    behaviour: BehaviourSettings = setting(factory=BehaviourSettings, since="0.4.0")
    game: GameSettings = setting(factory=GameSettings, since="0.4.0")
    systems: SystemSettings = setting(factory=SystemSettings)
    compare: CompareSettings = setting(factory=CompareSettings, since="0.4.0")
    failures: FailureSettings = setting(factory=FailureSettings, since="0.3.0")
    sweep: SweepSettings = setting(factory=SweepSettings)
    ray: RaySettings = setting(factory=RaySettings)
    wandb: WandbSettings = setting(factory=WandbSettings)

    @property
    def is_sweep(self) -> bool:
        """True if the configuration asks for more than one run."""
        return bool(self.sweep.axes or self.sweep.points or self.sweep.seeds > 1)

    @property
    def result_file(self) -> str:
        """File that a run, a sweep or a study writes into its folder at its end."""
        if self.is_sweep:
            return "sweep.json"
        return "metrics.json" if self.job == "prune" else f"{self.job}.json"

    @property
    def uses_ray(self) -> bool:
        """True if the run starts a local Ray or joins a cluster."""
        discusses = self.job not in ("recall", "planted", "scaling") and not self.dry_run
        # The trials of a sweep are Ray's processes, wherever their agents are.
        return discusses and (self.sweep.start if self.is_sweep else self.runtime == "ray")

    @property
    def replays(self) -> bool:
        """True if another run's recorded messages answer."""
        return self.model.kind == ReplayBackend.name

    @property
    def cache_folder(self) -> Path:
        """Folder of `cache`. By default all runs of one output folder share indexes and completions."""
        return Path(self.cache or Path(self.output) / "cache")

    @property
    def by_key(self) -> dict[str, Any]:
        """Every setting by its dotted key."""
        return dict(flat(asdict(self)))

    @property
    def models_named(self) -> str:
        """Names of the models that agents ask, as records have them. The run's own comes first, then those of roles."""
        names = [model_name(self.model)]
        for role in self.roles:
            overrides = self.model_of_role(role)
            if overrides is not None:
                names.append(model_name(overrides[0]))
        return MODELS.join(dict.fromkeys(names))

    @property
    def judge_model(self) -> ModelSettings | None:
        """Model of the judge, with one replica unless `judge.replicas` is given. None without a judge."""
        if not self.judge or self.judge.get("kind") == "none":
            return None
        return self._model_over({"replicas": 1, **self.judge})

    def model_of_role(self, role: str) -> tuple[ModelSettings, ReaderSettings] | None:
        """Returns the model and reader of a role that overrides the run's. None for others."""
        settings = self.roles.get(role)
        if settings is None or not (settings.model or settings.reader):
            return None
        return self._model_over(settings.model), merged(self.reader, settings.reader)

    def _model_over(self, changes: Mapping[str, Any]) -> ModelSettings:
        """Changes the model: from the defaults for another kind, without a key for another address."""
        model = self.model
        if changes.get("kind", model.kind) != model.kind:
            # Names, addresses and engine arguments of one kind mean nothing to another.
            model = ModelSettings()
        elif changes.get("base_url", model.base_url) != model.base_url:
            # A key must not reach a server that it was not meant for.
            model = replace(model, key_env="")
        return merged(model, changes)


# None of these changes an answer.
HOW_IT_RUNS = (
    "concurrency",
    "figures",
    "runtime",
    "ray",
    "wandb",
    "completions",
    "costs",
    "cache",
    "failures",
    "sweep.start",
)
# Neither do these of a model.
_OF_A_MODEL = """replicas capacity gpus hang_s key_env timeout_s retries requests_per_minute
    tokens_per_minute""".split()
_MODELS = ("model", "judge", "roles.<role>.model")
# These may differ between a run and its resumption.
RUNTIME_KEYS = (*HOW_IT_RUNS, *(f"{model}.{key}" for model, key in product(_MODELS, _OF_A_MODEL)))


def merged(settings: Group, changes: Mapping[str, Any]) -> Group:
    """Changes settings of a group. Groups and dicts are merged, lists replaced."""
    values: Any = OmegaConf.to_container(OmegaConf.merge(asdict(cast(Any, settings)), changes))
    return validated(type(settings), values)


def flat(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every setting of a tree by its dotted key."""
    for key, value in tree.items():
        if isinstance(value, Mapping) and value:
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def written(value: Any) -> str:
    """Writes a value as the command line has it."""
    if value is None:
        return "null"
    if isinstance(value, list):
        return f"[{','.join(map(str, value))}]"
    return str(value).lower() if isinstance(value, bool) else str(value)


def of_any_role(key: str) -> str:
    """Puts `<role>` into a dotted key in the place of a role's name."""
    return re.sub(r"\Aroles\.[^.]+(?=\.|\Z)", "roles.<role>", key)


def among(key: str, names: Iterable[str]) -> bool:
    """True for a dotted key that is one of `names`, or lies below one of them."""
    # With the dot, so that `model` covers `model.name` but no other key that begins with these letters.
    return any(f"{of_any_role(key)}.".startswith(f"{name}.") for name in names)


def may_change(key: str) -> bool:
    """True for a dotted key that may differ between a run and its resumption."""
    return among(key, RUNTIME_KEYS)
