"""What the run's models can do: held against the run before any question is asked, and recorded in the run folder."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from actors.backends.model_settings import ModelSettings, model_name
from actors.errors import UserError
from actors.messages import Abilities
from actors.prompting.prompt import is_enforced
from actors.runtime.runtime import Runtime
from actors.settings import AgentSettings
from experiments.config.config import Config
from experiments.records.recorder import RunFolder
from experiments.records.run_files import write_atomically
from experiments.running.models import by_key, role_backends

MOST_BYTES = 2**20  # of model.json (under 1 kB for each model)


@dataclass(frozen=True)
class RoleModel:
    """The model that some roles ask in place of the run's own, under the key of its settings."""

    key: str
    settings: ModelSettings
    roles: tuple[str, ...]
    abilities: Abilities


async def role_models(config: Config, roles: Iterable[str], runtime: Runtime) -> list[RoleModel]:
    """What the other models of a run's roles can do. Called once they are up."""
    backends = role_backends(config, roles)
    return [
        RoleModel(
            key,
            backend.settings,
            tuple(role for role, asked in backends.items() if asked is backend),
            await runtime.abilities(key),
        )
        for key, backend in by_key(backends).items()
    ]


def check_abilities(config: Config, abilities: Abilities, folder: RunFolder, others: Sequence[RoleModel] = ()) -> None:
    """Checks that the models can do what the run asks of them, and that they are those with which the run began.

    Raises UserError.
    """
    for key, model, able in (("model", config.model, abilities), *((o.key, o.settings, o.abilities) for o in others)):
        _check_able(config.agents, key, model_name(model), able)
    record: dict[str, Any] = {
        "kind": config.model.kind,
        "name": model_name(config.model),
        "abilities": asdict(abilities),
    }
    if others:
        record["roles"] = {
            role: {"kind": o.settings.kind, "name": model_name(o.settings), "abilities": asdict(o.abilities)}
            for o in others
            for role in o.roles
        }
    if folder.model.exists():
        _check_same(folder, record)
        return
    try:
        write_atomically(folder.model, f"{json.dumps(record, indent=2)}\n".encode())
    except OSError as error:
        raise UserError(f"cannot write {folder.model}: {error}; make room, or set output=<folder>") from error


def _check_able(agents: AgentSettings, key: str, name: str, abilities: Abilities) -> None:
    context = abilities.context_tokens
    if agents.replies == "enforced" and not abilities.schema:
        raise UserError(
            f"agents.replies=enforced: {name} cannot be kept to a JSON schema; leave it at auto, or, should it be able "
            f"to, say {key}.abilities.schema=true"
        )
    if context is not None and context <= agents.max_tokens:
        raise UserError(
            f"agents.max_tokens={agents.max_tokens} leaves no room for a prompt: {name} has a context of {context} "
            f"tokens for both; lower it, or load the model with a longer context ({key}.max_model_len)"
        )


def _check_same(folder: RunFolder, now: Mapping[str, Any]) -> None:
    try:
        with folder.model.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise ValueError(f"it has more than {MOST_BYTES:,} bytes")
        began = json.loads(content)
        roles = began.get("roles", {})
        _check_as_it_was(folder, now["name"], began["abilities"], now["abilities"])
        for role, model in now.get("roles", {}).items():
            if role in roles:
                _check_as_it_was(folder, model["name"], roles[role]["abilities"], model["abilities"])
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise UserError(f"{folder.model} is damaged ({error}); start a new run") from error


def _check_as_it_was(folder: RunFolder, name: str, then: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    changed = [ability for ability in then if ability in now and then[ability] != now[ability]]
    if changed:
        had, has = (", ".join(f"{ability}={_word(side[ability])}" for ability in changed) for side in (then, now))
        raise UserError(
            f"resume={folder.path}: {name} now has {has}, and {had} when the run began; go on with the same model as "
            "it was, or start a new run"
        )


def _word(value: object) -> str:
    # As on the command line.
    return json.dumps(value)


def describe(config: Config, abilities: Abilities, others: Sequence[RoleModel] = ()) -> Iterator[str]:
    """A line for each model: what it can do, as the run uses it."""
    yield f"model {model_name(config.model)}: {'; '.join(_parts(config, abilities))}"
    for other in others:
        what = "; ".join(_parts(config, other.abilities))
        yield f"model {model_name(other.settings)} of {', '.join(other.roles)}: {what}"


def _parts(config: Config, abilities: Abilities) -> Iterator[str]:
    agents = config.agents
    yield "replies kept to a schema" if is_enforced(agents.replies, abilities) else "replies in lines"
    told = abilities.likelihoods and agents.likelihoods
    yield "its own probabilities as confidences" if told else "stated confidences"
    if config.topology.visual or config.retrieval.pictures:
        yield "pictures as pictures" if abilities.pictures else "pictures as captions"
    if abilities.context_tokens is not None:
        yield f"{abilities.context_tokens:,} tokens"
    if not abilities.seeds:
        yield "no seeds"
