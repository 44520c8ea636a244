"""Checks the abilities of a run's models before any question is asked, and records them."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from pydantic import TypeAdapter

from actors.backends.backend import Backend
from actors.backends.model_settings import model_name
from actors.errors import UserError
from actors.messages import Abilities
from actors.prompting.prompt import is_enforced
from actors.runtime.runtime import Runtime
from actors.settings import AgentSettings
from experiments.config.config import Config
from experiments.planning.plan import Plan
from experiments.records.progress import Progress
from experiments.records.recorder import RunFolder
from experiments.records.records import STRICT, read_record
from experiments.records.run_files import write_atomically

T = TypeVar("T")
MOST_BYTES = 2**20  # of model.json (under 1 kB for each model)
# In a tuple, as the class knows nothing of pydantic; a record of version 0.2.0 has fewer fields.
_ABILITIES = TypeAdapter(tuple[Abilities], config=STRICT)


@dataclass(frozen=True)
class AbleModel:
    """A model of the run, the key of its settings, the roles that ask it (none: all others), and its abilities."""

    backend: Backend
    roles: tuple[str, ...]
    abilities: Abilities

    @property
    def name(self) -> str:
        """The model's name in records."""
        return model_name(self.backend.settings)

    def record(self) -> dict[str, Any]:
        """The model as model.json has it."""
        return {"kind": self.backend.settings.kind, "name": self.name, "abilities": asdict(self.abilities)}


async def check_models(plan: Plan, runtime: Runtime, folders: Iterable[RunFolder], progress: Progress) -> None:
    """Records the abilities of models that are up, and prints a line for each. Raises as `check_abilities`."""
    # The run's own model comes first.
    models = [AbleModel(plan.models.main, (), await runtime.abilities())]
    for key, backend in plan.models.of_roles_by_key.items():
        models.append(AbleModel(backend, plan.models.roles_of(backend), await runtime.abilities(key)))
    for folder in folders:
        check_abilities(plan.config.agents, models, folder)
    for line in describe(plan.config, models):
        progress.print(line)


def check_abilities(agents: AgentSettings, models: Sequence[AbleModel], folder: RunFolder) -> None:
    """Raises UserError for models that cannot do what a run asks, or are others than when it began. Records them."""
    for model in models:
        key, name, context = model.backend.key, model.name, model.abilities.context_tokens
        if agents.replies == "enforced" and not model.abilities.schema:
            raise UserError(
                f"agents.replies=enforced: {name} cannot be kept to a JSON schema; leave it at auto, or, should it be "
                f"able to, set {key}.abilities.schema=true"
            )
        if context is not None and context <= agents.max_tokens:
            raise UserError(
                f"agents.max_tokens={agents.max_tokens} leaves no room for a prompt: {name} has a context of {context} "
                f"tokens for both; lower it, or load the model with a longer context ({key}.max_model_len)"
            )
    main, *others = models
    record = main.record()
    if others:
        record["roles"] = {role: model.record() for model in others for role in model.roles}
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


def describe(config: Config, models: Sequence[AbleModel]) -> Iterator[str]:
    """A line for each model: its abilities, as the run uses them."""
    agents, shows = config.agents, config.topology.visual or config.retrieval.pictures
    for model in models:
        of, able, key = f" of {', '.join(model.roles)}" if model.roles else "", model.abilities, model.backend.key
        most = f"at most {able.most_pictures} " if able.most_pictures else ""
        parts = [
            "replies kept to a schema" if is_enforced(agents.replies, able) else "replies in lines",
            "its own probabilities as confidences" if able.likelihoods and agents.likelihoods else "stated confidences",
            *([f"{most}pictures as pictures" if able.pictures else "pictures as captions"] if shows else []),
            *([] if able.context_tokens is None else [f"{able.context_tokens:,} tokens"]),
            *([] if able.seeds else ["no seeds"]),
        ]
        yield f"model {model.name}{of}: {'; '.join(parts)}"
        if any(able.served) and able.served[0] != model.name:
            yield f"model {model.name}{of} answers as {' '.join(filter(None, able.served))}"
        for setting, reason in able.adapted:
            named = re.sub(r"(?<!\S)(?=extra\.|abilities\.|base_url=|thinking=)", f"{key}.", setting)
            yield f"model {model.name}{of}: asked with {named}, because: {reason}"
