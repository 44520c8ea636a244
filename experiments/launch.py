"""Which roles and which model a configuration asks for, checked before any process is started."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from actors.messages import Modality
from actors.models import Model
from actors.reader.reader import Reader
from actors.roles import ROLES, Role
from actors.vllm_model import VllmModel, VllmSettings
from experiments.config import Config
from experiments.errors import UserError


def team_roles(config: Config) -> list[Role]:
    """The discussing roles, textual ones first; those that the ablation silences are dummies.

    Raises UserError for a role that does not exist, one named twice, or a team of nobody.
    """
    chosen = [(Modality.TEXT, name) for name in config.topology.text]
    chosen += [(Modality.VISUAL, name) for name in config.topology.visual]
    silenced = {"dummy_text": Modality.TEXT, "dummy_visual": Modality.VISUAL}.get(config.ablation)
    roles = []
    for modality, name in chosen:
        role = ROLES.get(f"{modality}_{name}")
        if role is None:
            known = [full.removeprefix(f"{modality}_") for full, r in ROLES.items() if r.modality is modality]
            near = difflib.get_close_matches(name, known, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise UserError(f"topology.{modality}: no role {name!r}.{hint} Known: {', '.join(known)}")
        roles.append(replace(role, dummy=modality is silenced))
    if not roles or len(set(roles)) < len(roles):
        raise UserError("topology.text and topology.visual must name at least one role, and each role once")
    return roles


def model_maker(config: Config) -> Callable[[], Model]:
    """What a replica's process calls to make its model. Raises UserError when the settings cannot work."""
    model = config.model
    if model.replicas < 1:
        raise UserError(f"model.replicas={model.replicas}: expected at least 1")
    if model.kind == "reader":
        return partial(Reader, config.reader)
    if not model.name:
        raise UserError("model=vllm needs model.name=<Hugging Face id or local folder>")
    settings = VllmSettings(model.name, model.tensor_parallel, model.max_model_len, model.dtype, model.engine)
    return partial(VllmModel, settings)
