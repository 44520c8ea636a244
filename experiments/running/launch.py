"""Which roles, learner and models a configuration asks for, checked before any process is started."""

from __future__ import annotations

import difflib
import hashlib
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

from actors.agents.roles import DECISION, INSPECTOR, ROLES, SINGLE
from actors.backends.openai_model import OpenAIModel, OpenAISettings
from actors.backends.settings import ModelSettings
from actors.backends.vllm_arguments import check_engine_arguments
from actors.backends.vllm_model import VllmModel, VllmSettings
from actors.completions.cache import Reuse
from actors.errors import UserError
from actors.messages import Modality, Role
from actors.models import Model
from actors.reader import reader as reader_module
from actors.reader.reader import Reader, ReaderSettings
from experiments.attacks.attackers import choose_attackers
from experiments.config.config import Config
from experiments.datasets.catalogue import dataset_kind
from experiments.evidence.web import check_web
from experiments.running.methods import check_methods, learner_of, needs_team
from experiments.running.systems import SYSTEMS
from topologies.learning.peers import as_peer
from topologies.learning.settings import Estimator, LearnerSettings, PruningSettings
from topologies.systems.bdog.blueprints import read_blueprints

COMPLETIONS = "completions"  # the folder, beside other caches


def team_roles(config: Config) -> list[Role]:
    """The discussing roles, textual ones first; those that the ablation silences are dummies.

    Raises UserError for a role that does not exist, one named twice, a team of nobody, an agent that is not there, or
    an attack on one of those that discuss that cannot be.
    """
    chosen = [(Modality.TEXT, name) for name in config.topology.text]
    chosen += [(Modality.VISUAL, name) for name in config.topology.visual]
    silenced = {"dummy_text": Modality.TEXT, "dummy_visual": Modality.VISUAL}.get(config.ablation)
    roles = []
    for modality, name in chosen:
        role = ROLES.get(f"{modality}_{name}")
        if role is None:
            known = [full.removeprefix(f"{modality}_") for full, r in ROLES.items() if r.modality is modality]
            near = difflib.get_close_matches(name, known, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise UserError(f"topology.{modality}: no role {name!r}.{hint} Known: {', '.join(known)}")
        roles.append(replace(_held(config, role), dummy=modality is silenced))
    present = [role.name for role in (*roles, *_beside(config))]
    for name in config.roles:
        if name not in present:
            raise UserError(f"roles.{name}: nobody in this run has the role; there are {', '.join(present)}")
    if not roles or len(set(roles)) < len(roles):
        raise UserError("topology.text and topology.visual must name at least one role, and each role once")
    choose_attackers(config.attack, attackable(config, roles), config.seed)
    return roles


def attackable(config: Config, team: Sequence[Role]) -> list[str]:
    """Whom an attack can compromise, by name: the team; in a run of systems alone, their agents."""
    if needs_team(config.methods) or not set(SYSTEMS) & set(config.methods):
        return [role.name for role in team]
    return [role.name for role in _beside(config) if role not in (DECISION, INSPECTOR)]


def launched_roles(config: Config, team: Sequence[Role]) -> tuple[Role, ...]:
    """Everybody who takes part in a run: the team, where a method asks it, and those beside it."""
    return (*team, *closing_roles(config)) if _team_is_asked(config) else closing_roles(config)


def closing_roles(config: Config) -> tuple[Role, ...]:
    """Those beside the team: its decision agent, the one that answers alone, the inspector where it is asked for, and
    the systems' own."""
    return tuple(_held(config, role) for role in _beside(config))


def _beside(config: Config) -> tuple[Role, ...]:
    systems = {role.name: role for name in config.methods if name in SYSTEMS for role in SYSTEMS[name].roles}
    inspector = (INSPECTOR,) if INSPECTOR.name in config.methods else ()
    decision = (DECISION,) if _team_is_asked(config) else ()
    return (*decision, SINGLE, *inspector, *systems.values())


def _team_is_asked(config: Config) -> bool:
    return needs_team(config.methods) or config.job == "redundancy"


def _held(config: Config, role: Role) -> Role:
    """The role with the AutoGen agent that the configuration gives it, if any."""
    asked = config.roles.get(role.name)
    if asked is None or asked.agent is None:
        return role
    from actors.autogen.hosted import load_factory  # imports AutoGen, which a run without such agents does without

    try:
        load_factory(asked.agent)
    except ValueError as error:
        raise UserError(f"roles.{role.name}.agent: {error}") from error
    return replace(role, agent=asked.agent)


def learner_options(config: Config) -> dict[str, Any]:
    """The learner's arguments, with what an ablation takes away. Raises UserError where that was not there."""
    settings, pruning = learner_settings(config)
    if config.ablation == "no_alignment" and settings.estimator == Estimator.EFFECTS:
        raise UserError(
            "ablation=no_alignment: learner.estimator=effects has no alignment term to go without; choose reinforce or "
            "rloo"
        )
    if config.ablation == "no_inter":
        settings.inter = False
    if config.ablation == "no_alignment":
        settings.align_weight = 0.0
    rounds = config.topology.rounds
    return {"rounds": rounds, "seed": config.seed, "settings": settings, "pruning": pruning}


def learner_settings(config: Config) -> tuple[LearnerSettings, PruningSettings]:
    """How the graph is learned and cut: as configured, or as the peer does that is among the methods.

    Raises UserError for a setting that was chosen and that the peer has another way.
    """
    peer = learner_of(config.methods)
    found = as_peer(peer, replace(config.learner), config.pruning)
    for group, asked, held in (("learner", config.learner, found[0]), ("pruning", config.pruning, found[1])):
        usual = type(asked)()
        for f in fields(asked):
            value, has = getattr(asked, f.name), getattr(held, f.name)
            if value not in (has, getattr(usual, f.name)):
                raise UserError(f"{group}.{f.name}={value}: {peer} has {has}; leave it out, or run m3prune with it")
    return found


def model_maker(model: ModelSettings, reader: ReaderSettings, key: str) -> Callable[[], Model]:
    """What a replica's process calls to make its model; `key` (`model` or `judge`) names the settings in errors.

    Raises UserError when the settings cannot work.
    """
    match model.kind:
        case "reader":
            return partial(Reader, reader)
        case "vllm":
            if not model.name:
                raise UserError(f"{key}=vllm needs {key}.name=<Hugging Face id or local folder>")
            try:
                check_engine_arguments(model.engine)
            except ValueError as error:
                raise UserError(f"{key}.engine: {error}") from error
            return partial(VllmModel, vllm_settings(model))
        case "openai":
            if not model.name or not model.base_url:
                raise UserError(f"{key}=openai needs {key}.base_url=<http://host:port/v1> and {key}.name=<model>")
            return partial(OpenAIModel, _endpoint(model, key))
        case kind:
            raise UserError(f"{key}={kind} cannot answer: choose reader, vllm or openai")


def check(config: Config) -> None:
    """Raises UserError for methods, models, a web or a file of graphs that would end the run at its start or later."""
    check_methods(config.methods)
    dataset_kind(config.data.kind)
    check_models(config)
    check_web(config.retrieval, replayed=config.model.kind == "replay")
    read_blueprints(config.systems.blueprints)


def check_models(config: Config) -> None:
    """Raises UserError for a model or a judge that cannot work, before anything is made or started for the run."""
    if config.model.kind != "replay":
        model_maker(config.model, config.reader, "model")
    if config.judge.kind != "none":
        model_maker(config.judge, config.reader, "judge")


def model_name(model: ModelSettings) -> str:
    """What the model is called in records."""
    return model.name or str(model.kind)


def vllm_settings(model: ModelSettings) -> VllmSettings:
    return VllmSettings(
        model.name, model.tensor_parallel, model.max_model_len, model.dtype, model.engine, hang_s=model.hang_s
    )


def _endpoint(model: ModelSettings, key: str) -> OpenAISettings:
    if model.key_env and model.key_env not in os.environ:
        raise UserError(f"{key}.key_env={model.key_env}: there is no such environment variable; export it first")
    return OpenAISettings(
        base_url=model.base_url,
        name=model.name,
        key=os.environ.get(model.key_env),
        timeout_s=model.timeout_s,
        retries=model.retries,
        requests_per_minute=model.requests_per_minute,
        tokens_per_minute=model.tokens_per_minute,
        extra=model.extra,
    )


def replicas(model: ModelSettings, cluster_gpus: float) -> tuple[int, float]:
    """How many processes a model runs in, and the GPUs that each reserves."""
    if model.kind == "openai":
        return 1, 0.0
    if model.gpus is not None:
        return model.replicas, model.gpus
    return model.replicas, float(model.tensor_parallel) if model.kind == "vllm" and cluster_gpus else 0.0


def reuse(config: Config, model: ModelSettings, cache: Path) -> Reuse | None:
    """Where completions of this model are kept; None when nothing is to be reused."""
    kept = config.completions
    if not kept.reuse:
        return None
    return Reuse(str(cache / COMPLETIONS), identity(model, config.reader), kept.disk_gb, kept.memory_mb)


def identity(model: ModelSettings, reader: ReaderSettings) -> str:
    """Names a model and all of its settings on which its completions depend, as JSON.

    A reader is its code and settings, a local folder its files: neither must be answered for by what it was before.
    """
    told: dict[str, Any] = {"kind": model.kind, "name": model.name}
    match model.kind:
        case "reader":
            code = hashlib.blake2b(digest_size=16)
            for path in sorted(Path(reader_module.__file__).parent.glob("*.py")):
                code.update(path.read_bytes())
            told |= {"code": code.hexdigest(), "settings": asdict(reader)}
        case "vllm":
            told |= {"dtype": model.dtype, "max_model_len": model.max_model_len, "engine": model.engine}
            folder = Path(model.name)
            if folder.is_dir():
                states = ((path.name, path.stat()) for path in sorted(folder.iterdir()))
                told["files"] = [(name, state.st_size, state.st_mtime_ns) for name, state in states]
        case "openai":
            told |= {"base_url": model.base_url, "extra": model.extra}
    return json.dumps(told, sort_keys=True)
