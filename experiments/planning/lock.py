"""States a plan before a run: `lock=<file>` writes it, `compare.plan=<file>` compares a run."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from actors.errors import UserError
from actors.settings import shown
from experiments.config.config import Config, among, may_change
from experiments.datasets.item import Dataset

# Settings that no result depends on.
FREE = ("experiment", "output", "resume", "dry_run", "compare.plan", "compare.variance_from", "replay", "data.root")


def plan_lock(config: Config, dataset: Dataset) -> dict[str, Any]:
    """Returns a plan: settings that an answer depends on, the margin, a hash of the questions."""
    hasher = hashlib.sha256()
    for item in (*dataset.evaluate(), *dataset.train()):
        hasher.update(json.dumps([item.question.id, item.question.text, item.gold]).encode())
    settings = {key: value for key, value in config.by_key.items() if not may_change(key) and not among(key, FREE)}
    return {"settings": settings, "questions": hasher.hexdigest()}


def read_lock(path: Path) -> tuple[dict[str, Any], str]:
    """Reads a plan and the hash of its file. Raises UserError for a file that is no plan."""
    try:
        text = path.read_bytes()
        content = json.loads(text)
        if not isinstance(content["settings"], dict) or not isinstance(content["questions"], str):
            raise TypeError
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise UserError(f"compare.plan={path} is no plan: write one with lock={path} and the run's settings") from error
    return content, hashlib.sha256(text).hexdigest()


def departures(planned: Mapping[str, Any], actual: Mapping[str, Any]) -> list[str]:
    """Returns what differs from a plan, a line each."""
    before, now = planned["settings"], json.loads(json.dumps(actual["settings"]))
    keys = [key for key in sorted({**before, **now}) if before.get(key) != now.get(key)]
    lines = [f"{key}={shown(now.get(key))}, planned {shown(before.get(key))}" for key in keys]
    return lines + ["other questions or answers"] * (planned["questions"] != actual["questions"])
