"""What the run's model can do: held against the run before any question is asked, and recorded in the run folder."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict

from actors.backends.settings import model_name
from actors.errors import UserError
from actors.messages import Abilities
from actors.prompting.prompt import is_enforced
from experiments.config.config import Config
from experiments.records.atomic import write_atomically
from experiments.records.recorder import RunFolder


def check_abilities(config: Config, abilities: Abilities, folder: RunFolder) -> None:
    """Checks that a model can do what the run asks of it, and that it is the one with which the run began.

    Raises UserError.
    """
    agents, name, context = config.agents, model_name(config.model), abilities.context_tokens
    if agents.replies == "enforced" and not abilities.schema:
        raise UserError(
            f"agents.replies=enforced: {name} cannot be kept to a JSON schema; leave it at auto, or, should it be able "
            "to, say model.abilities.schema=true"
        )
    if context is not None and context <= agents.max_tokens:
        raise UserError(
            f"agents.max_tokens={agents.max_tokens} leaves no room for a prompt: {name} has a context of {context} "
            "tokens for both; lower it, or load the model with a longer context (model.max_model_len)"
        )
    now = asdict(abilities)
    if folder.model.exists():
        _check_same(folder, name, now)
        return
    record = {"kind": config.model.kind, "name": name, "abilities": now}
    try:
        write_atomically(folder.model, f"{json.dumps(record, indent=2)}\n".encode())
    except OSError as error:
        raise UserError(f"cannot write {folder.model}: {error}; make room, or set output=<folder>") from error


def _check_same(folder: RunFolder, name: str, now: dict[str, object]) -> None:
    try:
        then = json.loads(folder.model.read_bytes())["abilities"]
        changed = [ability for ability in then if ability in now and then[ability] != now[ability]]
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise UserError(f"{folder.model} is damaged ({error}); start a new run") from error
    if changed:
        had, has = (", ".join(f"{ability}={_word(side[ability])}" for ability in changed) for side in (then, now))
        raise UserError(
            f"resume={folder.path}: {name} now has {has}, and {had} when the run began; go on with the same model as "
            "it was, or start a new run"
        )


def _word(value: object) -> str:
    # As on the command line.
    return json.dumps(value)


def describe(config: Config, abilities: Abilities) -> str:
    """One line: what the model can do, as the run uses it."""
    return f"model {model_name(config.model)}: {'; '.join(_parts(config, abilities))}"


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
