"""Keeps passwords and keys out of configurations, which are saved and shown: refused before anything is written.

No message holds the value.
"""

from __future__ import annotations

import os
import re

from actors.backends.redaction import KEY_CHARACTERS
from actors.errors import UserError
from experiments.config.config import Config
from experiments.config.references import leaves
from experiments.evidence.retrieval_settings import SERPER_KEY


def check_secrets(config: Config) -> None:
    """Raises UserError for a password in an address, a key in the place of its variable's name, and the value of such a
    variable anywhere; in the trials of a sweep, too."""
    said = list(leaves(config))
    variables = {value for _, key, value in said if _name(key) == "key_env" and isinstance(value, str)}
    keys = [key for name in {SERPER_KEY, *variables} if len(key := os.environ.get(name, "").strip()) >= KEY_CHARACTERS]
    for shown, key, value in said:
        if not isinstance(value, str):
            continue
        if _name(key) == "base_url" and ("@" in value or "?" in value):
            raise UserError(f"{shown} has a password or a query; a key goes into the variable that key_env names")
        if _name(key) == "key_env" and not re.fullmatch(r"(?:[A-Za-z_]\w*)?", value):
            raise UserError(f"{shown} is not the name of an environment variable; export the key under one")
        if any(secret in value for secret in keys):
            raise UserError(f"{shown} holds a key itself; leave it in the environment variable that key_env names")


def check_exported(config: Config) -> None:
    """Raises UserError where a variable that is to hold a key is not there: its name may be the key, by mistake."""
    for shown, key, value in leaves(config):
        if _name(key) == "key_env" and isinstance(value, str) and value and value not in os.environ:
            raise UserError(f"{shown}: there is no environment variable of that name; export the key under it first")


def _name(key: str) -> str:
    return key.rpartition(".")[2]
