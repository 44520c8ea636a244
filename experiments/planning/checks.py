"""Checks of a plan that no part of it makes by itself: runtime, replay, defences, attack, models, web and files."""

from __future__ import annotations

from collections.abc import Sequence

from actors.errors import UserError
from actors.messages import Role
from experiments.attacks.attack import check_phases, choose_attackers
from experiments.attacks.kind import NONE
from experiments.config.config import Config
from experiments.evidence.library import check_web
from experiments.planning.models import RunModels
from topologies.systems.bdog_scene_graphs import read_blueprints


def check_parts(config: Config, models: RunModels, team: Sequence[Role], learns: bool, watches: bool) -> None:
    """Checks what would end a run at its start or later.

    Args:
        team: roles of the team's agents.
        learns: the run learns graphs.
        watches: a defence of the run silences agents that it has watched.

    Raises:
        UserError: settings that contradict each other, a model that cannot work, a web that cannot be searched, or a
            file that cannot be read.
    """
    if config.runtime == "inline" and config.ray.address is not None:
        raise UserError(f"runtime=inline uses no Ray, and ray.address={config.ray.address} names one: drop either")
    if config.replay.run is not None and config.model.kind != "replay":
        raise UserError(f"replay.run={config.replay.run} is read with model=replay alone: name that too, or drop it")
    if watches and (dropped := config.defence.dropped) >= len(team):
        raise UserError(f"defence.dropped={dropped}: expected fewer than the {len(team)} agents of the team")
    if config.ablation in ("no_inter", "no_alignment") and config.job in ("prune", "redundancy") and not learns:
        raise UserError(
            f"ablation={config.ablation} leaves out a part of a learner, and none of the methods learns a graph"
        )
    models.check()
    check_web(config.retrieval, replayed=config.model.kind == "replay")
    # Read for its errors; the method reads it again when it is made.
    read_blueprints(config.systems.blueprints)


def check_attack(config: Config, attackable: Sequence[str], rounds: int | None, training: Sequence[int]) -> None:
    """Checks an attack on these agents.

    Args:
        rounds: of a discussion; None where systems decide.
        training: questions of each phase before the evaluation.

    Raises:
        UserError: an attack that cannot be, or one that would never begin.
    """
    settings = config.attack
    choose_attackers(settings, attackable, config.seed)
    if settings.kind != NONE and settings.when == "train" and not training:
        raise UserError(
            "attack.when=train: none of the methods learns a graph or watches agents, so nobody is attacked"
        )
    evaluated = [config.data.limit] if settings.when != "train" else []
    phases = [*evaluated, *(training if settings.when != "evaluate" else ())]
    # The data set decides how many questions are evaluated where no limit is given.
    check_phases(settings, rounds, None if None in phases else max(filter(None, phases), default=None))
