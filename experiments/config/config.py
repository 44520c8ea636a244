"""The configuration: a typed tree with its defaults, overridden by an experiment's YAML, then by `key=value` words."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from math import inf
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal, get_type_hints

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import ConfigKeyError, OmegaConfBaseException
from yaml import YAMLError

from actors.backends.backends import find_backend
from actors.backends.settings import ModelSettings
from actors.errors import UserError
from actors.reader.reader import ReaderSettings
from actors.settings import AgentSettings, CompletionSettings, RaySettings
from experiments.attacks.settings import AttackSettings
from experiments.config.settings import (
    RateSettings,
    RedundancySettings,
    ReplaySettings,
    RoleSettings,
    SweepSettings,
    TopologySettings,
    TrainingSettings,
)
from experiments.datasets.settings import DataSettings
from experiments.evidence.settings import RetrievalSettings
from experiments.records.tracking import WandbSettings
from experiments.studies.planted.settings import PlantedSettings
from topologies.learning.settings import LearnerSettings, PruningSettings
from topologies.settings import DefenceSettings, SystemSettings

PRESETS = Path(__file__).parents[1] / "presets"


@dataclass
class Config:
    """One run."""

    experiment: str = ""
    job: Literal["prune", "recall", "planted", "redundancy"] = "prune"
    """`prune`: learn, prune and evaluate a communication graph; `recall`: how well retrieval finds the evidence;
    `planted`: how well learners do in a testbed with known truth; `redundancy`: which edges can go."""
    seed: int = 0
    output: str = "runs"
    """Where run folders go."""
    cache: str | None = None
    """Where the generated sample and the retrieval indexes are kept between runs (default: `<output>/cache`)."""
    resume: str | None = None
    """A run folder to go on with."""
    dry_run: bool = False
    """Say how many turns and about how many tokens the run would take, and do nothing."""
    concurrency: int = 64
    """Discussions held at once; answers do not depend on it."""
    methods: list[str] = field(default_factory=lambda: ["closed_book", "single", "full", "random", "m3prune"])
    """What is evaluated."""
    ablation: Literal["none", "no_alignment", "no_inter", "dummy_text", "dummy_visual"] = "none"
    """Table 3 of the paper: what M3Prune goes without."""
    data: DataSettings = field(default_factory=DataSettings)
    retrieval: RetrievalSettings = field(default_factory=RetrievalSettings)
    model: ModelSettings = field(default_factory=ModelSettings)
    judge: ModelSettings = field(default_factory=lambda: ModelSettings(kind="none", replicas=1))
    """Who judges answers against gold (Acc*): `judge=openai judge.name=...`; the keys are those of `model`."""
    replay: ReplaySettings = field(default_factory=ReplaySettings)
    completions: CompletionSettings = field(default_factory=CompletionSettings)
    rates: RateSettings = field(default_factory=RateSettings)
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
    sweep: SweepSettings = field(default_factory=SweepSettings)
    ray: RaySettings = field(default_factory=RaySettings)
    wandb: WandbSettings = field(default_factory=WandbSettings)


# What may differ between a run and its resumption: none of it changes an answer.
RUNTIME_KEYS = (
    "concurrency",
    "ray",
    "wandb",
    "completions",
    "rates",
    "retrieval.web_key_env",
    *(
        f"{model}.{key}"
        for model in ("model", "judge")
        for key in (
            "replicas",
            "capacity",
            "cpus",
            "gpus",
            "hang_s",
            "key_env",
            "timeout_s",
            "retries",
            "requests_per_minute",
            "tokens_per_minute",
        )
    ),
)

# The least that makes sense; the learner checks its own settings.
AT_LEAST = {
    "concurrency": 1,
    "data.limit": 1,
    "retrieval.texts": 0,
    "retrieval.pictures": 0,
    "retrieval.radius": 0,
    **{
        f"{model}.{key}": least
        for model in ("model", "judge")
        for key, least in {
            "replicas": 1,
            "capacity": 1,
            "cpus": 0,
            "gpus": 0,
            "tensor_parallel": 1,
            "max_model_len": 1,
            "hang_s": 1,
            "timeout_s": 0.1,
            "retries": 0,
            "requests_per_minute": 1,
            "tokens_per_minute": 1,
        }.items()
    },
    "completions.disk_gb": 0,
    "completions.memory_mb": 0,
    "rates.prompt_price": 0,
    "rates.completion_price": 0,
    "rates.prompt_tokens_per_s": 1e-9,
    "rates.completion_tokens_per_s": 1e-9,
    "agents.retries": 0,
    "agents.temperature": 0,
    "agents.max_tokens": 1,
    "agents.budget_words": 1,
    "training.samples": 1,
    "systems.turns": 1,
    "systems.paths": 1,
    "systems.rounds": 1,
    "systems.epsilon": 0,
    "systems.steps": 1,
    "defence.calibration": 1,
    "defence.dropped": 0,
    "training.questions_per_step": 1,
    "ray.start_timeout_s": 1,
    "reader.conformity": 0,
    "reader.persistence": 0,
    "reader.dilution": 0,
    "reader.temperature_noise": 0,
    "reader.cached_prompts": 1,
    "reader.picture_tokens": 0,
    "reader.hops": 1,
    "reader.threshold": 0,
}
RATES = ("reader.trust", "reader.error_rate", "reader.oversight", "reader.perception_error", "reader.default_skill")


def experiments() -> dict[str, str]:
    """Name and one-line description (the YAML's first comment) of every experiment, by name."""
    described = {}
    for path in sorted(PRESETS.glob("*.yaml")):
        described[path.stem] = path.read_text().splitlines()[0].removeprefix("#").strip()
    return described


def load(words: Sequence[str]) -> Config:
    """The configuration of a command line such as `experiment=mmqa_prune topology.rounds=4`.

    Raises:
        UserError: an unknown experiment or key (with the nearest right one), or a value that is not allowed.
    """
    asked = dict(_key_and_value(word) for word in words)
    if "resume" in asked:
        return _resumed(Path(asked.pop("resume")), words)
    name = asked.get("experiment", "")
    known = experiments()
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise UserError(f"unknown experiment {name!r}.{hint} Known: {', '.join(known)}")
    preset = OmegaConf.load(PRESETS / f"{name}.yaml")
    config = _typed([_expanded(OmegaConf.to_container(preset)), *map(_override, words)])
    # Only here: what a saved configuration names is not imported when it is read.
    for key, model in (("model", config.model), ("judge", config.judge)):
        find_backend(key, model, config.reader)
    return config


def save(config: Config, path: Path) -> None:
    path.write_text(OmegaConf.to_yaml(OmegaConf.structured(config)))


def varied(config: Config, values: Mapping[str, Any]) -> Config:
    """The configuration with other values, by dotted key. Raises UserError like `load`."""
    tree = OmegaConf.create()
    for key, value in values.items():
        OmegaConf.update(tree, key, _expanded({key: value})[key], force_add=True)
    return _typed([tree], config)


def read(path: Path) -> Config:
    """A saved configuration. Raises UserError when the file is not one."""
    try:
        return _typed([OmegaConf.load(path)])
    except (OSError, YAMLError, UserError) as error:
        raise UserError(f"{path} is not a saved configuration ({_line(error)}); give an intact run folder") from error


def _resumed(folder: Path, words: Sequence[str]) -> Config:
    path = folder / "config.yaml"
    if not path.is_file():
        raise UserError(f"resume={folder} is not a run folder: it has no config.yaml; give one that a run printed")
    saved = read(path)
    others = [word for word in words if not word.startswith("resume=") and word != f"experiment={saved.experiment}"]
    for word in others:
        key, _ = _key_and_value(word)
        if not any(key == allowed or key.startswith(f"{allowed}.") for allowed in RUNTIME_KEYS):
            raise UserError(f"{key} cannot change when a run is resumed; only {', '.join(RUNTIME_KEYS)} can")
    return _typed([OmegaConf.structured(saved), *map(_override, others), OmegaConf.create({"resume": str(folder)})])


def _key_and_value(word: str) -> tuple[str, str]:
    key, equals, value = word.partition("=")
    if not equals or not key.strip("."):
        raise UserError(f"{word!r} is not of the form key=value, such as seed=1 or data.limit=20")
    return key, value


def _override(word: str) -> DictConfig:
    key, _ = _key_and_value(word)
    try:
        tree = OmegaConf.from_dotlist([word])
    except (OmegaConfBaseException, YAMLError, ValueError) as error:
        raise UserError(f"{word!r} cannot be read: {_line(error)}") from error
    return OmegaConf.create(_expanded(OmegaConf.to_container(tree))) if "." not in key else tree


def _expanded(tree: Any) -> Any:
    """`model: reader` is short for `model: {kind: reader}`, for every group that has kinds."""
    groups = {f.name for f in fields(Config) if is_dataclass(t := get_type_hints(Config)[f.name]) and _has_kind(t)}
    return {key: {"kind": value} if key in groups and isinstance(value, str) else value for key, value in tree.items()}


def _has_kind(group: Any) -> bool:
    return any(f.name == "kind" for f in fields(group))


def _typed(layers: Sequence[Any], base: type[Config] | Config = Config) -> Config:
    try:
        config = OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(base), *layers))
    except ConfigKeyError as error:
        raise UserError(_unknown_key(error)) from error
    except (OmegaConfBaseException, ValueError) as error:
        key = getattr(error, "full_key", None)
        raise UserError(f"{key}: {_line(error)}" if key else _line(error)) from error
    assert isinstance(config, Config)
    _check_ranges(config)
    return config


def _check_ranges(config: Config) -> None:
    for key, least in AT_LEAST.items():
        value = attrgetter(key)(config)
        if value is not None and not least <= value < inf:
            raise UserError(f"{key}={value}: expected at least {least}, and a finite number")
    for model in ("model", "judge"):
        settings: ModelSettings = getattr(config, model)
        # Neither is shown or written: a key that was given in the wrong place must not get any further.
        if not re.fullmatch(r"(?:[A-Za-z_]\w*)?", settings.key_env):
            raise UserError(f"{model}.key_env is not the name of an environment variable; export the key under one")
        if "@" in settings.base_url or "?" in settings.base_url:
            raise UserError(f"{model}.base_url has a password or a query; a key goes into the variable of key_env")
    if not re.fullmatch(r"[A-Za-z_]\w*", config.retrieval.web_key_env):
        raise UserError("retrieval.web_key_env is not the name of an environment variable; export the key under one")
    for key in RATES:
        value = attrgetter(key)(config)
        if not 0 <= value <= 1:
            raise UserError(f"{key}={value}: expected a number from 0 to 1")


def _unknown_key(error: ConfigKeyError) -> str:
    """Also looks for the key elsewhere in the tree: people forget the group more often than they misspell."""
    full = str(error.full_key or error.key)
    paths = list(_paths(Config))
    last = full.rpartition(".")[2]
    same_name = [path for path in paths if path.rpartition(".")[2] == last]
    near = same_name or difflib.get_close_matches(full, paths, n=1) or difflib.get_close_matches(last, paths, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    group = full.rpartition(".")[0]
    siblings = [path for path in paths if path.rpartition(".")[0] == group]
    return f"unknown key {full!r}.{hint} Known here: {', '.join(siblings)}"


def _paths(group: Any, prefix: str = "") -> Any:
    hints = get_type_hints(group)
    for f in fields(group):
        yield prefix + f.name
        if is_dataclass(hints[f.name]):
            yield from _paths(hints[f.name], f"{prefix}{f.name}.")


def _line(error: BaseException) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
