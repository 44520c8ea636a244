"""A question over passages and pictures, and requests about it."""

import dataclasses
from pathlib import Path

from PIL import Image

from actors.messages import Kind, Modality, Question, Request, Role, Source, Turn
from actors.prompting.prompt import build_request
from actors.settings import AgentSettings


def harbours(folder: Path) -> Question:
    """Eight passages, and two pictures in `folder` that differ in colour only."""
    passages = tuple(
        Source(f"p{i}", f"d{i}", Kind.TEXT, f"Harbour {i}", f"Harbour {i} was dug in {1800 + i} and has {i + 2} quays.")
        for i in range(8)
    )
    return Question("q1", "Which harbour has the most quays?", evidence=(*passages, *pictures(folder)))


def pictures(folder: Path) -> tuple[Source, ...]:
    return picture(folder, "red"), picture(folder, "blue")


def picture(folder: Path, colour: str) -> Source:
    path = folder / f"{colour}.png"
    Image.new("RGB", (168, 168), colour).save(path)
    return Source(colour, colour, Kind.IMAGE, f"{colour} flag", f"a plain {colour} flag", str(path))


def request(question: Question, role: str = "You check numbers.", seed: int = 1, **overrides: object) -> Request:
    turn = Turn("q1/0", question, "numbers", 1, seed)
    made = build_request(turn, Role("", Modality.BOTH, role), (), AgentSettings(temperature=1.0, max_tokens=12))
    return dataclasses.replace(made, **overrides)


def with_pictures(question: Question, *images: Source) -> Question:
    return dataclasses.replace(question, evidence=images)
