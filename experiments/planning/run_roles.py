"""Resolves the roles of a run: the team that discusses, and all others that methods ask."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from actors.agents.roles import DECISION, ROLES, SINGLE
from actors.errors import UserError
from actors.lookup import near_miss
from actors.messages import Modality, Role
from experiments.config.config import Config
from experiments.config.role_files import field_of
from experiments.config.setting_groups import RoleSettings
from topologies.method import Method


@dataclass(frozen=True)
class RunRoles:
    """All roles of a run.

    team: the agents that discuss, textual ones first, in the topology's order.
    helpers: the decision agent, the one that answers alone, roles of methods, and roles that extract.
    team_is_asked: the team takes part.
    attackable: names of the agents that an attack can compromise: the team. In a run of systems alone, their agents.
    """

    team: tuple[Role, ...]
    helpers: tuple[Role, ...]
    team_is_asked: bool
    attackable: tuple[str, ...]

    @property
    def launched(self) -> tuple[Role, ...]:
        """Roles that agents are launched for."""
        if self.team_is_asked:
            return (*self.team, *self.helpers)
        return self.helpers

    @property
    def agents(self) -> tuple[str, ...]:
        """Names of the team's agents."""
        return tuple(role.name for role in self.team)

    @property
    def played(self) -> tuple[str, ...]:
        """Names of the launched roles, each once. Several agents can have one role."""
        return tuple(dict.fromkeys(role.played for role in self.launched))


def find_roles(config: Config, methods: Sequence[Method], team_is_asked: bool, extracting: Sequence[Role]) -> RunRoles:
    """Resolves the roles that a configuration names; `extracting` extract captions and triples before the discussions.

    Raises UserError for a role that does not exist, one named twice, an empty team, and settings of a role that is not
    there.
    """
    team = _numbered(_team_roles(config), config)
    method_roles: dict[str, Role] = {}
    for method in methods:
        roles_asked = method.roles_by(config.systems) if method.roles_by else method.roles
        for role in roles_asked:
            method_roles[role.name] = role
    helpers = [SINGLE, *method_roles.values(), *extracting]
    if team_is_asked:
        helpers.insert(0, DECISION)

    attackable = team
    has_systems = any(method.needs_library or method.roles for method in methods)
    if has_systems and not any(method.asks_team for method in methods):
        attackable = [role for role in helpers if role not in (DECISION, *extracting)]
    roles = RunRoles(
        team=tuple(team),
        helpers=tuple(_with_settings(role, config.roles) for role in helpers),
        team_is_asked=team_is_asked,
        attackable=tuple(role.name for role in attackable),
    )
    _check_settings(config.roles, roles)
    return roles


def _team_roles(config: Config) -> list[Role]:
    """Finds the team's roles, textual ones first. Raises UserError for one that does not exist, or is named twice."""
    topology = config.topology
    # Only the team's: what agents of other systems read is part of their systems.
    reads = Modality.BOTH if topology.evidence == "all" else None
    roles = []
    for modality, names in ((Modality.TEXT, topology.text), (Modality.VISUAL, topology.visual)):
        is_dummy = config.ablation == f"dummy_{modality}"
        for name in names:
            role = _team_role(name, modality, config.roles)
            roles.append(replace(role, dummy=is_dummy, reads=reads))

    role_names = [role.name for role in roles]
    for name in topology.without:
        if name not in role_names:
            hint = f"{near_miss(name, role_names)} Known: {', '.join(role_names)}"
            raise UserError(f"topology.without: the team has no role {name!r}.{hint}")
    team = [_with_settings(role, config.roles) for role in roles if role.name not in topology.without]
    if not team or len(set(team)) < len(team):
        raise UserError("topology.text and topology.visual must name at least one role, and each role once")
    return team


def _team_role(name: str, modality: Modality, settings: Mapping[str, RoleSettings]) -> Role:
    """Finds a built-in role, or one of the user's own with an instruction. Raises UserError for an unknown one."""
    prefix = f"{modality}_"
    full_name = f"{prefix}{name}"
    if full_name in ROLES:
        return ROLES[full_name]
    if full_name in settings and settings[full_name].instruction:
        return Role(full_name, modality, settings[full_name].instruction)

    names = [role.name.removeprefix(prefix) for role in ROLES.values() if role.modality is modality]
    for role_name, role_settings in settings.items():
        if role_name.startswith(prefix) and _adds_role(role_settings):
            names.append(role_name.removeprefix(prefix))
    raise UserError(f"topology.{modality}: no role {name!r}.{near_miss(name, names)} Known: {', '.join(names)}")


def _adds_role(settings: RoleSettings) -> bool:
    """True for a role of the user's own, perhaps in a file of roles; a run need not have all of them."""
    return bool(settings.instruction or settings.form)


def _numbered(roles: Sequence[Role], config: Config) -> list[Role]:
    """Makes the agents of each role. Several of one role are numbered. Raises UserError for two with one name."""
    agents = []
    for role in roles:
        settings = config.roles.get(role.name, RoleSettings())
        instances = settings.instances or config.topology.instances
        if instances == 1:
            agents.append(role)
            continue
        for number in range(1, instances + 1):
            agents.append(replace(role, name=f"{role.name}_{number}", of=role.name))

    name, count = Counter(agent.name for agent in agents).most_common(1)[0]
    if count > 1:
        raise UserError(f"{name} would be the name of two agents: give a role of your own another name")
    return agents


def _check_settings(settings: Mapping[str, RoleSettings], roles: RunRoles) -> None:
    """Raises UserError for settings of a role that no agent has, or that only the team's roles can have."""
    names = roles.played
    helpers = [role.name for role in roles.helpers]
    for name, role_settings in settings.items():
        is_spare = _adds_role(role_settings) and name.startswith((f"{Modality.TEXT}_", f"{Modality.VISUAL}_"))
        if name not in names and not is_spare:
            hint = f"{near_miss(name, names)} There are {', '.join(names)}"
            raise UserError(f"roles.{name}: no agent of this run has the role.{hint}")
        if name in helpers and role_settings.form:
            raise UserError(f"roles.{name}.form: only roles of the team can have a form")
        if name in helpers and role_settings.instances:
            raise UserError(f"roles.{name}.instances: only roles of the team have several agents")


def _with_settings(role: Role, settings: Mapping[str, RoleSettings]) -> Role:
    """Gives a role its configured instruction, form and AutoGen agent, if any."""
    overrides = settings.get(role.name)
    if overrides is None:
        return role
    return replace(
        role,
        instruction=" ".join(overrides.instruction.split()) or role.instruction,
        form=tuple(map(field_of, overrides.form)),
        agent=overrides.agent or role.agent,
    )
