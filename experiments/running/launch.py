"""The roles and the learner that a configuration asks for, checked before any process is started."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from actors.agents.roles import DECISION, ROLES, SINGLE
from actors.errors import UserError
from actors.lookup import near_miss
from actors.messages import Modality, Role
from experiments.attacks.attack import check_phases, choose_attackers
from experiments.config.config import Config
from experiments.config.role_files import field_of
from experiments.datasets.catalogue import dataset_kind
from experiments.evidence.library import check_web
from experiments.running.extracting import extracting_roles
from experiments.running.methods import methods_of
from experiments.running.models import check_models, replicas
from topologies.learning.variants import VARIANTS, LearnedMethod, Variant


def team_roles(config: Config) -> list[Role]:
    """The team's agents, textual ones first, with what each is shown; those that the ablation silences are dummies.

    Raises UserError for a role that does not exist, one named twice, a team of nobody, an agent that is not there, or
    an attack on one of those that discuss that cannot be.
    """
    chosen = [(Modality.TEXT, name) for name in config.topology.text]
    chosen += [(Modality.VISUAL, name) for name in config.topology.visual]
    # Only the team's: what agents of other systems read is part of their systems.
    reads = Modality.BOTH if config.topology.evidence == "all" else None
    silenced = {"dummy_text": Modality.TEXT, "dummy_visual": Modality.VISUAL}.get(config.ablation)
    roles = []
    for modality, name in chosen:
        full = f"{modality}_{name}"
        role = ROLES.get(full)
        if role is None and full in config.roles and config.roles[full].instruction:
            role = Role(full, modality, config.roles[full].instruction)
        if role is None:
            known = [of.removeprefix(f"{modality}_") for of, r in ROLES.items() if r.modality is modality]
            known += [of.removeprefix(f"{modality}_") for of in _told(config) if of.startswith(f"{modality}_")]
            raise UserError(f"topology.{modality}: no role {name!r}.{near_miss(name, known)} Known: {', '.join(known)}")
        roles.append(replace(_held(config, role), dummy=modality is silenced, reads=reads))
    if not roles or len(set(roles)) < len(roles):
        raise UserError("topology.text and topology.visual must name at least one role, and each role once")
    roles = [agent for role in roles for agent in _instances(config, role)]
    present = list(
        dict.fromkeys(role.played for role in (*(roles if _team_is_asked(config) else ()), *_beside(config)))
    )
    # A file may have more roles for the team than a run takes.
    spare = [name for name in _told(config) if name.startswith((f"{Modality.TEXT}_", f"{Modality.VISUAL}_"))]
    for name in config.roles:
        if name not in present and name not in spare:
            raise UserError(
                f"roles.{name}: nobody in this run has the role.{near_miss(name, present)} "
                f"There are {', '.join(present)}"
            )
    for role in _beside(config):
        if role.name in config.roles and config.roles[role.name].form:
            raise UserError(f"roles.{role.name}.form: only roles of the team have a form of their own")
        if role.name in config.roles and config.roles[role.name].instances:
            raise UserError(f"roles.{role.name}.instances: only roles of the team have several agents")
    names = Counter(role.name for role in roles)
    if several := [name for name, number in names.items() if number > 1]:
        raise UserError(f"{several[0]} would be the name of two agents: give a role of your own another name")
    # For its errors alone: an attack that cannot be must not end the run after the launch.
    choose_attackers(config.attack, attackable(config, roles), config.seed)
    return roles


def _instances(config: Config, role: Role) -> list[Role]:
    """The agents that have a role: it alone, or so many, each with a name of its own."""
    own = config.roles.get(role.name)
    number = (own and own.instances) or config.topology.instances
    if number == 1:
        return [role]
    return [replace(role, name=f"{role.name}_{count}", of=role.name) for count in range(1, number + 1)]


def attackable(config: Config, team: Sequence[Role]) -> list[str]:
    """The names of the agents that an attack can compromise: the team; in a run of systems alone, their agents."""
    methods = methods_of(config)
    if any(method.asks_team for method in methods) or not any(m.needs_library or m.roles for m in methods):
        return [role.name for role in team]
    return [role.name for role in _beside(config) if role not in (DECISION, *extracting_roles(config))]


def launched_roles(config: Config, team: Sequence[Role]) -> tuple[Role, ...]:
    """All roles that take part in a run: the team, where a method asks it, and those beside it."""
    return (*team, *closing_roles(config)) if _team_is_asked(config) else closing_roles(config)


def processes(config: Config, team: Sequence[Role]) -> int:
    """How many actors a run's agents and models are: one for each role, however many agents it has, and replica."""
    return len({role.played for role in launched_roles(config, team)}) + replicas(config)


def closing_roles(config: Config) -> tuple[Role, ...]:
    """Those beside the team: its decision agent, the one that answers alone, and the methods' own."""
    return tuple(_held(config, role) for role in _beside(config))


def _beside(config: Config) -> tuple[Role, ...]:
    own = {role.name: role for method in methods_of(config) for role in method.roles}
    decision = (DECISION,) if _team_is_asked(config) else ()
    return (*decision, SINGLE, *own.values(), *extracting_roles(config))


def _team_is_asked(config: Config) -> bool:
    return config.job == "redundancy" or any(method.asks_team for method in methods_of(config))


def _told(config: Config) -> list[str]:
    """The roles that the configuration itself tells what to do, or in which form to reply."""
    return [name for name, settings in config.roles.items() if settings.instruction or settings.form]


def _held(config: Config, role: Role) -> Role:
    """The role with the instruction, the form and the AutoGen agent that the configuration gives it, if any."""
    role_settings = config.roles.get(role.name)
    if role_settings is None:
        return role
    role = replace(
        role,
        instruction=" ".join(role_settings.instruction.split()) or role.instruction,
        form=tuple(map(field_of, role_settings.form)),
    )
    if role_settings.agent is None:
        return role
    from actors.autogen.hosted import load_factory  # imports AutoGen, which a run without such agents does without

    try:
        # Loaded only to see that it can be; each agent's process loads its own.
        load_factory(role_settings.agent)
    except ValueError as error:
        raise UserError(f"roles.{role.name}.agent: {error}") from error
    return replace(role, agent=role_settings.agent)


def _rounds(config: Config) -> int | None:
    """The last round in which an agent that can be compromised speaks; None where systems say that themselves."""
    return config.topology.rounds if _team_is_asked(config) else None


def _questions(config: Config) -> int | None:
    """The most questions of a phase that is attacked; None where the data set says how many, or no phase is."""
    phases: list[int | None] = []
    if config.attack.when != "train":
        phases.append(config.data.limit)
    if config.attack.when != "evaluate" and learned_methods(config):
        phases.append(2 * config.pruning.steps * config.training.questions_per_step)
    if config.attack.when != "evaluate" and any(method.needs_calibration for method in methods_of(config)):
        phases.append(config.defence.calibration)
    known = [most for most in phases if most is not None]
    return max(known, default=None) if len(known) == len(phases) else None


def learned_methods(config: Config) -> tuple[str, ...]:
    """The methods of a run that learn a graph: those that are named, or else M3Prune's, where another needs one."""
    methods = methods_of(config)
    learned = tuple(method.name for method in methods if method.learner)
    return learned or ((str(LearnedMethod.M3PRUNE),) if any(method.needs_graph for method in methods) else ())


def learner_options(config: Config, method: str) -> dict[str, Any]:
    """The arguments of a method's learner, without the parts that an ablation removes.

    Raises UserError where the learner has no such part, or too few samples of each question.
    """
    variant = VARIANTS[LearnedMethod(method)]
    check_samples(variant, config.training.samples)
    if config.ablation == "no_inter":
        variant = replace(variant, inter=False)
    if config.ablation == "no_alignment":
        if not variant.estimator.is_gradient:
            raise UserError(f"ablation=no_alignment: {method} has no alignment term; leave it out of methods")
        variant = replace(variant, terms=variant.terms - {"alignment"})
    return {
        "rounds": config.topology.rounds,
        "seed": config.seed,
        "variant": variant,
        "settings": config.learner,
        "pruning": config.pruning,
    }


def _check_dropped(config: Config) -> None:
    """Raises UserError where a defence would silence the whole team."""
    agents, dropped = len(team_roles(config)), config.defence.dropped
    if dropped >= agents:
        raise UserError(
            f"defence.dropped={dropped}: the team has {agents} agents, and one at least must be left; lower "
            "defence.dropped"
        )


def check_samples(variant: Variant, samples: int) -> None:
    """Raises UserError where a learner gets too few samples of each question."""
    if samples < (least := variant.estimator.least_samples):
        raise UserError(
            f"training.samples={samples}: {variant.name} compares the samples of a question with each other and needs "
            f"{least}; raise it, or leave {variant.name} out"
        )


def check(config: Config) -> None:
    """Raises UserError for methods, models, a web or a file of graphs that would end the run at its start or later."""
    methods = methods_of(config)
    dataset_kind(config.data.kind)
    if config.runtime == "inline" and config.ray.address is not None:
        raise UserError(f"runtime=inline uses no Ray, and ray.address={config.ray.address} names one: drop either")
    if config.replay.run is not None and config.model.kind != "replay":
        raise UserError(f"replay.run={config.replay.run} is read with model=replay alone: name that too, or drop it")
    check_phases(config.attack, _rounds(config), _questions(config))
    if any(method.needs_calibration for method in methods):
        _check_dropped(config)
    check_models(config)
    check_web(config.retrieval, replayed=config.model.kind == "replay")
