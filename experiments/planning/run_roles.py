"""Resolves the roles of a run: the team that discusses, and all others that methods ask."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

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

    team: the agents that discuss, textual ones first, in the topology's order. others: the decision agent, the one
    that answers alone, roles of methods, and roles that extract. team_is_asked: the team takes part.
    attackable: names of the agents that an attack can compromise: the team. In a run of systems alone, their agents.
    """

    team: tuple[Role, ...]
    others: tuple[Role, ...]
    team_is_asked: bool
    attackable: tuple[str, ...]

    @property
    def launched(self) -> tuple[Role, ...]:
        """Roles that agents are launched for."""
        return (*self.team, *self.others) if self.team_is_asked else self.others

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
    topology, settings = config.topology, config.roles
    # Roles of the user's own in a file of roles; a run need not have all of them.
    own = [name for name, of_role in settings.items() if of_role.instruction or of_role.form]
    # Only the team's: what agents of other systems read is part of their systems.
    reads = Modality.BOTH if topology.evidence == "all" else None
    named = []
    for modality, name in (*product([Modality.TEXT], topology.text), *product([Modality.VISUAL], topology.visual)):
        full, prefix = f"{modality}_{name}", f"{modality}_"
        if full in ROLES:
            role = ROLES[full]
        elif full in settings and settings[full].instruction:
            role = Role(full, modality, settings[full].instruction)
        else:
            known = [of.removeprefix(prefix) for of, role in ROLES.items() if role.modality is modality]
            known += [of.removeprefix(prefix) for of in own if of.startswith(prefix)]
            raise UserError(f"topology.{modality}: no role {name!r}.{near_miss(name, known)} Known: {', '.join(known)}")
        named.append(replace(role, dummy=config.ablation == f"dummy_{modality}", reads=reads))
    roles = [role.name for role in named]
    if unknown := [name for name in topology.without if name not in roles]:
        hint = near_miss(unknown[0], roles)
        raise UserError(f"topology.without: the team has no role {unknown[0]!r}.{hint} Known: {', '.join(roles)}")
    team = [_with_settings(role, settings) for role in named if role.name not in topology.without]
    if not team or len(set(team)) < len(team):
        raise UserError("topology.text and topology.visual must name at least one role, and each role once")
    numbers = {role: settings.get(role.name, RoleSettings()).instances or topology.instances for role in team}
    team = [
        # Several agents of one role are numbered.
        replace(role, name=f"{role.name}_{count}", of=role.name) if number > 1 else role
        for role, number in numbers.items()
        for count in range(1, number + 1)
    ]
    counts = Counter(role.name for role in team)
    if several := [name for name, number in counts.items() if number > 1]:
        raise UserError(f"{several[0]} would be the name of two agents: give a role of your own another name")
    of_methods = {role.name: role for method in methods for role in method.roles}
    others = (*((DECISION,) if team_is_asked else ()), SINGLE, *of_methods.values(), *extracting)
    roles_played = dict.fromkeys(role.played for role in (*(team if team_is_asked else ()), *others))
    for name, of_role in settings.items():
        spare = name in own and name.startswith((f"{Modality.TEXT}_", f"{Modality.VISUAL}_"))
        if name not in roles_played and not spare:
            hint, there = near_miss(name, list(roles_played)), ", ".join(roles_played)
            raise UserError(f"roles.{name}: no agent of this run has the role.{hint} There are {there}")
        is_other = any(role.name == name for role in others)
        if is_other and of_role.form:
            raise UserError(f"roles.{name}.form: only roles of the team can have a form")
        if is_other and of_role.instances:
            raise UserError(f"roles.{name}.instances: only roles of the team have several agents")
    attackable = tuple(role.name for role in team)
    if not any(method.asks_team for method in methods) and any(m.needs_library or m.roles for m in methods):
        safe = (DECISION.name, *(role.name for role in extracting))
        attackable = tuple(role.name for role in others if role.name not in safe)
    others = tuple(_with_settings(role, settings) for role in others)
    return RunRoles(tuple(team), others, team_is_asked, attackable)


def _with_settings(role: Role, settings: Mapping[str, RoleSettings]) -> Role:
    """Gives a role its configured instruction, form and AutoGen agent, if any."""
    if own := settings.get(role.name):
        instruction = " ".join(own.instruction.split()) or role.instruction
        form, agent = tuple(map(field_of, own.form)), own.agent or role.agent
        return replace(role, instruction=instruction, form=form, agent=agent)
    return role
