"""Checks the abilities of a run's models before any question is asked, and records them."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any, TypeVar

from pydantic import TypeAdapter

from actors.backends.model_settings import model_name
from actors.errors import UserError
from actors.messages import Abilities
from actors.prompting.prompt import is_enforced
from actors.runtime.runtime import Runtime
from actors.settings import AgentSettings
from experiments.config.config import Config
from experiments.planning.plan import Plan
from experiments.planning.run_models import MAIN, RunModels
from experiments.records.progress import Progress
from experiments.records.recorder import RunFolder
from experiments.records.records import STRICT, read_record
from experiments.records.run_files import write_atomically

T = TypeVar("T")
Able = Mapping[str, Abilities]  # of each model that agents ask, by its key
MOST_BYTES = 2**20  # of model.json (under 1 kB for each model)
# In a tuple, as the class knows nothing of pydantic; a record of version 0.2.0 has fewer fields.
_ABILITIES = TypeAdapter(tuple[Abilities], config=STRICT)


async def check_models(plan: Plan, runtime: Runtime, folders: Iterable[RunFolder], progress: Progress) -> None:
    """Records the abilities of models that are up, and prints a line for each. Raises as `check_abilities`."""
    able = {key: await runtime.abilities(key) for key in plan.models.of_agents}
    for folder in folders:
        check_abilities(plan.config.agents, plan.models, able, folder)
    for line in describe(plan.config, plan.models, able):
        progress.print(line)


def check_abilities(agents: AgentSettings, models: RunModels, able: Able, folder: RunFolder) -> None:
    """Raises UserError for models that cannot do what a run asks, or are others than when it began. Records them."""
    records: dict[str, Any] = {}
    for key, backend in models.of_agents.items():
        name, context = model_name(backend.settings), able[key].context_tokens
        if agents.replies == "enforced" and not able[key].schema:
            raise UserError(
                f"agents.replies=enforced: {name} cannot be kept to a JSON schema; leave it at auto, or, should it be "
                f"able to, set {key}.abilities.schema=true"
            )
        if context is not None and context <= agents.max_tokens:
            raise UserError(
                f"agents.max_tokens={agents.max_tokens} leaves no room for a prompt: {name} has a context of {context} "
                f"tokens for both; lower it, or load the model with a longer context ({key}.max_model_len)"
            )
        records[key] = {"kind": backend.settings.kind, "name": name, "abilities": asdict(able[key])}
    record = records[MAIN]
    if models.of_roles:
        record["roles"] = {role: records[key] for key, roles in models.roles_by_key.items() for role in roles}
    record = json.loads(json.dumps(record))  # with lists in place of tuples, as a record is read
    if folder.model.exists():
        began = _recorded(folder, _comparable)
        for role, each in {"": record, **record.get("roles", {})}.items():
            then, now = began.get(role, {}), _comparable(each["abilities"])
            if changed := [ability for ability in then if ability in now and then[ability] != now[ability]]:
                # As on the command line.
                had, has = (", ".join(f"{name}={json.dumps(side[name])}" for name in changed) for side in (then, now))
                raise UserError(
                    f"resume={folder.path}: {each['name']} now has {has}, and {had} when the run began; go on with the "
                    "same model as it was, or start a new run"
                )
        return
    try:
        write_atomically(folder.model, f"{json.dumps(record, indent=2)}\n".encode())
    except OSError as error:
        raise UserError(f"cannot write {folder.model}: {error}; make room, or set output=<folder>") from error


def recorded_abilities(folder: RunFolder) -> dict[str, Abilities]:
    """Reads the abilities of a run's models by role, the run's own under "". Raises UserError for a damaged record."""
    return _recorded(folder, lambda each: read_record(_ABILITIES, json.dumps([each]))[0])


def _recorded(folder: RunFolder, read: Callable[[Any], T]) -> dict[str, T]:
    try:
        with folder.model.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise ValueError(f"it has more than {MOST_BYTES:,} bytes")
        record = json.loads(content)
        return {role: read(model["abilities"]) for role, model in {"": record, **record.get("roles", {})}.items()}
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise UserError(f"{folder.model} is damaged ({error}); start a new run") from error


def _comparable(abilities: Mapping[str, Any]) -> dict[str, Any]:
    """The model without a provider's build, what was adapted without an endpoint's words; 0.2.0 recorded neither."""
    served = {"served": abilities["served"][:1]} if "served" in abilities else {}
    adapted = {"adapted": sorted(setting for setting, _ in abilities["adapted"])} if "adapted" in abilities else {}
    return {**abilities, **served, **adapted}


def describe(config: Config, models: RunModels, able: Able) -> Iterator[str]:
    """Yields a line for each model: its abilities, as the run uses them."""
    agents, shows = config.agents, config.topology.visual or config.retrieval.pictures
    for key, phrase in models.phrases.items():
        can = able[key]
        most = f"at most {can.most_pictures} " if can.most_pictures else ""
        parts = [
            "replies kept to a schema" if is_enforced(agents.replies, can) else "replies in lines",
            "its own probabilities as confidences" if can.likelihoods and agents.likelihoods else "stated confidences",
            *([f"{most}pictures as pictures" if can.pictures else "pictures as captions"] if shows else []),
            *([] if can.context_tokens is None else [f"{can.context_tokens:,} tokens"]),
            *([] if can.seeds else ["no seeds"]),
        ]
        yield f"{phrase}: {'; '.join(parts)}"
        if any(can.served) and can.served[0] != model_name(models.of_agents[key].settings):
            yield f"{phrase} answers as {' '.join(filter(None, can.served))}"
        for setting, reason in can.adapted:
            named = re.sub(r"(?<!\S)(?=extra\.|abilities\.|base_url=|thinking=)", f"{key}.", setting)
            yield f"{phrase}: asked with {named}, because: {reason}"
