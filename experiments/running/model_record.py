"""Checks the abilities of a run's models before any question is asked, and records them."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

from actors.backends.model_settings import model_name
from actors.errors import UserError
from actors.messages import Abilities
from actors.prompting.prompt import is_enforced
from actors.received import BROKEN, read_plain
from actors.runtime.runtime import Runtime
from actors.settings import AgentSettings
from experiments.config.config import Config
from experiments.planning.plan import Plan
from experiments.planning.run_models import MAIN, RunModels
from experiments.records.progress import Progress
from experiments.records.recorder import RunFolder
from experiments.records.run_files import write_atomically

AbilitiesByKey = Mapping[str, Abilities]  # of each model that agents ask
MOST_BYTES = 2**20  # of model.json (under 1 kB for each model)


async def check_models(plan: Plan, runtime: Runtime, folders: Iterable[RunFolder], progress: Progress) -> None:
    """Records the abilities of models that are up, and prints a line for each. Raises as `check_abilities`."""
    abilities = {key: await runtime.abilities(key) for key in plan.models.of_agents}
    for folder in folders:
        check_abilities(plan.config.agents, plan.models, abilities, folder)
    for line in describe(plan.config, plan.models, abilities):
        progress.print(line)


def check_abilities(agents: AgentSettings, models: RunModels, abilities: AbilitiesByKey, folder: RunFolder) -> None:
    """Raises UserError for models that cannot do what a run asks, or are others than when it began. Records them."""
    records: dict[str, Any] = {}
    for key, backend in models.of_agents.items():
        name = model_name(backend.settings)
        check_settings(agents, key, name, abilities[key])
        records[key] = {"kind": backend.settings.kind, "name": name, "abilities": asdict(abilities[key])}
    record = records[MAIN]
    if models.of_roles:
        record["roles"] = {}
        for key, roles in models.roles_by_key.items():
            record["roles"] |= dict.fromkeys(roles, records[key])
    record = json.loads(json.dumps(record))  # with lists in place of tuples, as a record is read

    if folder.model.exists():
        check_unchanged(folder, record)
        return
    try:
        write_atomically(folder.model, f"{json.dumps(record, indent=2)}\n".encode())
    except OSError as error:
        raise UserError(f"cannot write {folder.model}: {error}; make room, or set output=<folder>") from error


def check_settings(agents: AgentSettings, key: str, name: str, abilities: Abilities) -> None:
    """Raises UserError for settings that ask more than a model, `name`, can do."""
    if agents.replies == "enforced" and not abilities.schema:
        raise UserError(
            f"agents.replies=enforced: {name} cannot be kept to a JSON schema; leave it at auto, or, should it be "
            f"able to, set {key}.abilities.schema=true"
        )
    context = abilities.context_tokens
    if context is not None and context <= agents.max_tokens:
        raise UserError(
            f"agents.max_tokens={agents.max_tokens} leaves no room for a prompt: {name} has a context of {context} "
            f"tokens for both; lower it, or load the model with a longer context ({key}.max_model_len)"
        )


def check_unchanged(folder: RunFolder, record: Mapping[str, Any]) -> None:
    """Raises UserError where a model has other abilities than when the run began."""
    abilities_before = _recorded(folder)
    for role, model in _by_role(record).items():
        old = abilities_before.get(role, {})
        new = _comparable(model["abilities"])
        changed = [ability for ability in old if ability in new and old[ability] != new[ability]]
        if changed:
            # As on the command line.
            had = ", ".join(f"{ability}={json.dumps(old[ability])}" for ability in changed)
            has = ", ".join(f"{ability}={json.dumps(new[ability])}" for ability in changed)
            raise UserError(
                f"resume={folder.path}: {model['name']} now has {has}, and {had} when the run began; go on with the "
                "same model as it was, or start a new run"
            )


def _by_role(record: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the models of a record by role, the run's own under ""."""
    return {"": record, **record.get("roles", {})}


def _recorded(folder: RunFolder) -> dict[str, dict[str, Any]]:
    """Reads the comparable abilities of a run's models by role. Raises UserError for a damaged record."""
    try:
        content = read_plain(folder.model, MOST_BYTES)
        return {role: _comparable(model["abilities"]) for role, model in _by_role(json.loads(content)).items()}
    except BROKEN as error:
        raise UserError(f"{folder.model} is damaged ({error}); start a new run") from error


def _comparable(abilities: Mapping[str, Any]) -> dict[str, Any]:
    """Leaves out a provider's build and an endpoint's words, which may change; 0.2.0 recorded neither."""
    comparable = dict(abilities)
    if "served" in abilities:
        comparable["served"] = abilities["served"][:1]
    if "adapted" in abilities:
        comparable["adapted"] = sorted(setting for setting, _ in abilities["adapted"])
    return comparable


def describe(config: Config, models: RunModels, abilities: AbilitiesByKey) -> Iterator[str]:
    """Yields a line for each model: its abilities, as the run uses them."""
    shows_pictures = bool(config.topology.visual or config.retrieval.pictures)
    for key, phrase in models.phrases.items():
        model = abilities[key]
        yield f"{phrase}: {'; '.join(uses(config.agents, model, shows_pictures))}"
        if any(model.served) and model.served[0] != model_name(models.of_agents[key].settings):
            yield f"{phrase} answers as {' '.join(filter(None, model.served))}"
        for setting, reason in model.adapted:
            keyed = re.sub(r"(?<!\S)(?=extra\.|abilities\.|base_url=|thinking=)", f"{key}.", setting)
            yield f"{phrase}: asked with {keyed}, because: {reason}"


def uses(agents: AgentSettings, model: Abilities, shows_pictures: bool) -> Iterator[str]:
    """Yields what a run makes of a model's abilities."""
    yield "replies kept to a schema" if is_enforced(agents.replies, model) else "replies in lines"
    probabilities = model.likelihoods and agents.likelihoods
    yield "its own probabilities as confidences" if probabilities else "stated confidences"
    if shows_pictures:
        limit = f"at most {model.most_pictures} " if model.most_pictures else ""
        yield f"{limit}pictures as pictures" if model.pictures else "pictures as captions"
    if model.context_tokens is not None:
        yield f"{model.context_tokens:,} tokens"
    if not model.seeds:
        yield "no seeds"
