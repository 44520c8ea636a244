"""What a run has recorded, as bytes to compare and records to count."""

import json
from pathlib import Path

RECORDS = ("scores.jsonl", "judgements.jsonl", "traces/*.jsonl", "learned/*/learning.jsonl", "learned/*/traces/*.jsonl")


def records(folder: Path) -> list[Path]:
    """All files of records of a run or a sweep."""
    return sorted(file for name in RECORDS for at in ("", "trials/*/") for file in folder.glob(f"{at}{name}"))


def records_in(folder: Path) -> int:
    """The complete records of a run, or of all trials of a sweep."""
    return sum(file.read_bytes().count(b"\n") for file in records(folder) if file.exists())


def of_training(folder: Path) -> int:
    """Of these records, those of training."""
    return sum(file.read_bytes().count(b"\n") for file in records(folder) if "learned" in file.parts)


def written(folder: Path) -> dict[str, bytes]:
    """Metrics and traces by their names."""
    files = [*folder.glob("metrics.json"), *folder.glob("trials/*/metrics.json"), *records(folder)]
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in files}


def twice_recorded(folder: Path) -> list[str]:
    """A line for each turn or score that is recorded more than once."""
    twice = []
    for file in records(folder):
        seen = set()
        for line in file.read_text().splitlines():
            record = json.loads(line)
            turns = [turn["id"] for turn in record.get("turns", [])]
            key = tuple(record.get(name) for name in ("method", "question", "sample", "stage", "step"))
            if key in seen or len(set(turns)) < len(turns):
                twice.append(f"{file.name} holds {key} twice")
            seen.add(key)
    return twice
