"""Resolves the models of a run: its agents' own, other ones of single roles, and the judge's."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from actors.backends.backend import Backend
from actors.backends.backends import find_backend
from actors.backends.model_settings import Usual, model_name
from experiments.config.config import Config

# Keys of the models that are no role's, and the names of their pools.
MAIN = "model"
JUDGE = "judge"


@dataclass(frozen=True)
class RunModels:
    """The models of a run.

    main: the agents' model. of_roles: by role, the models of roles that have another; equal ones are one object, with
    the key of the first of their roles. judge: the judge's, if there is one.
    """

    main: Backend
    of_roles: Mapping[str, Backend]
    judge: Backend | None

    @property
    def of_agents(self) -> dict[str, Backend]:
        """Different models that agents ask, by key, the run's own first."""
        return {MAIN: self.main, **self.of_roles_by_key}

    @property
    def of_roles_by_key(self) -> dict[str, Backend]:
        """Different models among those of roles, by key."""
        return {backend.key: backend for backend in self.of_roles.values()}

    @property
    def roles_by_key(self) -> dict[str, list[str]]:
        """Roles that have another model than the run's own, by its key."""
        roles: dict[str, list[str]] = {}
        for role, backend in self.of_roles.items():
            roles.setdefault(backend.key, []).append(role)
        return roles

    @property
    def phrases(self) -> dict[str, str]:
        """Phrase for each model that agents ask, by key, with the roles that have it."""
        phrases = {key: f"model {model_name(backend.settings)}" for key, backend in self.of_agents.items()}
        for key, roles in self.roles_by_key.items():
            phrases[key] += f" of {', '.join(roles)}"
        return phrases

    @property
    def all(self) -> tuple[Backend, ...]:
        """Every model once, the agents' first."""
        of_agents = tuple(self.of_agents.values())
        if self.judge:
            return (*of_agents, self.judge)
        return of_agents

    @property
    def judge_name(self) -> str:
        """Name of the judge's model. Empty without a judge."""
        return model_name(self.judge.settings) if self.judge else ""

    def of_role(self, role: str) -> Backend:
        return self.of_roles.get(role, self.main)


def find_models(config: Config, roles: Iterable[str]) -> RunModels:
    """Finds the models that these roles ask, and the judge's. Raises UserError for an unknown kind of model."""
    usual = Usual(config.agents.temperature, config.agents.max_tokens, config.retrieval.pictures)
    main = replace(find_backend(MAIN, config.model, config.reader), usual=usual)
    backends = [main]
    of_roles = {}
    for role in roles:
        overrides = config.model_of_role(role)
        if overrides is None:
            continue
        settings, reader = overrides
        backend = replace(find_backend(f"roles.{role}.model", settings, reader), usual=usual)
        if not _share_pool(main, backend) and "replicas" not in config.roles[role].model:
            # As many as the run's own would be more than a machine has cores or GPUs for.
            backend = replace(backend, settings=replace(settings, replicas=1))
        for shared in backends:
            if _share_pool(shared, backend):
                backend = shared
                break
        else:
            backends.append(backend)
        if backend is not main:
            of_roles[role] = backend

    judge_settings = config.judge_model
    judge = find_backend(JUDGE, judge_settings, config.reader) if judge_settings else None
    return RunModels(main, of_roles, judge)


def _share_pool(backend: Backend, second: Backend) -> bool:
    """True for models that one pool can serve. The embedded reader's settings count for no other model."""
    if backend.settings != second.settings:
        return False
    return "reader" not in backend.reads or backend.reader == second.reader
