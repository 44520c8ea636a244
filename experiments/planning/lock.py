"""States a plan before a run: `lock=<file>` writes it, `compare.plan=<file>` compares a run."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from actors.errors import UserError
from actors.received import BROKEN, MB, read_plain
from actors.settings import shown
from experiments.config.config import Config, among, may_change
from experiments.datasets.item import Dataset

MOST_BYTES = 64 * MB  # of a plan
# Settings that no result depends on.
FREE = (
    "experiment",
    "output",
    "resume",
    "dry_run",
    "compare.plan",
    "compare.variance_from",
    "replay",
    "data.root",
    "data.train",
)


def plan_lock(config: Config, dataset: Dataset) -> dict[str, Any]:
    """Returns a plan: settings that an answer depends on, the margin, a hash of the questions."""
    questions = hashlib.sha256()
    for item in (*dataset.evaluate(), *dataset.train()):
        questions.update(json.dumps([item.question.id, item.question.text, item.gold]).encode())
    settings = {key: value for key, value in config.by_key.items() if not may_change(key) and not among(key, FREE)}
    return {"settings": settings, "questions": questions.hexdigest()}


def read_lock(path: Path) -> tuple[dict[str, Any], str]:
    """Reads a plan and the hash of its file. Raises UserError for a file that is no plan."""
    try:
        content = read_plain(path, MOST_BYTES)
        plan = json.loads(content)
        if not isinstance(plan["settings"], dict) or not isinstance(plan["questions"], str):
            raise TypeError
    except BROKEN as error:
        raise UserError(f"compare.plan={path} is no plan: write one with lock={path} and the run's settings") from error
    return plan, hashlib.sha256(content).hexdigest()


def departures(plan: Mapping[str, Any], actual: Mapping[str, Any]) -> list[str]:
    """Returns what differs from a plan, a line each."""
    planned_settings = plan["settings"]
    # As JSON has them, like the planned ones.
    actual_settings = json.loads(json.dumps(actual["settings"]))
    lines = []
    for key in sorted({**planned_settings, **actual_settings}):
        planned_value = planned_settings.get(key)
        actual_value = actual_settings.get(key)
        if planned_value != actual_value:
            lines.append(f"{key}={shown(actual_value)}, planned {shown(planned_value)}")
    if plan["questions"] != actual["questions"]:
        lines.append("other questions or answers")
    return lines
