"""The embedded reader as a model backend."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from actors.backends.backend import OF_PROCESSES, Backend, TokenCounting
from actors.backends.model_choice import ModelChoice
from actors.models import Model
from actors.reader import reader
from actors.reader.reader import Reader
from actors.reader.text import count_tokens

# Means of MMQA runs, by role.
REPLY_TOKENS = {"": 71, "single": 44, "decision": 75}


class ReaderBackend(Backend):
    name = "reader"
    reads = OF_PROCESSES
    description = "the embedded reader: no neural network, nothing to download"

    def maker(self) -> Callable[[], Model]:
        return partial(Reader, self.reader)

    def dependencies(self) -> Mapping[str, Any]:
        """Its code and settings: completions of an earlier version are not those of this one."""
        code = hashlib.blake2b(digest_size=16)
        for path in sorted(Path(reader.__file__).parent.glob("*.py")):
            code.update(path.read_bytes())
        return {"code": code.hexdigest(), "settings": asdict(self.reader)}

    def counting(self) -> TokenCounting:
        rule = "words and punctuation marks, as the embedded reader counts them"
        return TokenCounting(rule, count_tokens, self.reader.picture_tokens, reader.CHAT_OVERHEAD_TOKENS, REPLY_TOKENS)

    def choice(self) -> ModelChoice:
        return ModelChoice(kind="reader", settings=asdict(self.reader))
