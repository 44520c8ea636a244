"""Recorded prompts are what an endpoint received, byte for byte, with pictures and repairs."""

import json
from hashlib import blake2b
from typing import Any

import pytest

from actors.prompting.safe_text import safe_line
from experiments.inspection.turns import inspect
from experiments.records.recorder import RunFolder
from tests.experiments.inspection.test_turns import ran
from tests.support.endpoint import Asked, Server, Told, completion, serving

UNREADABLE = "I would rather not say."


async def answer(asked: Asked) -> Told:
    """Each third first reply is unreadable, and each fifth repair."""
    if asked.path.endswith("/models"):
        return Told({"data": [{"id": "m"}]})
    chance, repairs = blake2b(asked.content, digest_size=1).digest()[0], len(asked.json()["messages"]) > 2
    if chance % (5 if repairs else 3) == 0:
        return Told(completion(UNREADABLE))
    said = "yes" if chance % 2 else "no"
    return Told(completion(f"**Reasoning:** as [1] says, “{said}” 🙂.\n**Answer:** {said}\n**Confidence:** 60%"))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunFolder, list[Any]]:
    server = Server(answer)
    with serving(server):
        words = ["model=openai", "model.name=m", f"model.base_url={server.base_url}", "methods=[full]"]
        folder = ran(tmp_path_factory.mktemp("runs"), "experiment=mmqa_prune", *words, "failures.share=1")
    bodies = [asked.json() for asked in server.asked if asked.path.endswith("/completions")]
    return folder, [body["messages"] for body in bodies]


def messages_of(call: dict[str, Any], rejected: str) -> list[Any]:
    """The chat that the prompt of a call makes, in the layout of OpenAI's protocol."""
    parts: list[Any] = []
    for image in call["images"]:
        parts.append({"type": "text", "text": f"[{image['number']}] {safe_line(image['title'])}"})
        parts.append({"type": "image_url", "image_url": {"url": image["src"]}})
    text = f"{call['shared']}\n{call['own']}"
    content = [*parts, {"type": "text", "text": text}] if parts else text
    repair = [{"role": "assistant", "content": rejected}, {"role": "user", "content": call["correction"]}]
    first = [{"role": "system", "content": call["system"]}, {"role": "user", "content": content}]
    return [*first, *(repair if call["correction"] else [])]


def test_prompts_and_repairs_are_what_the_endpoint_received(run: tuple[RunFolder, list[Any]]) -> None:
    folder, received = run
    recorded: list[str] = []
    repairs = 0
    for line, trace in enumerate(folder.traces("evaluate-full"), start=1):
        for turn in trace.turns:
            details = inspect(folder, "full", line, turn.id)
            assert "note" not in details, details["note"]
            calls = details["calls"]
            assert len(calls) == turn.calls
            recorded += [json.dumps(messages_of(call, calls[0]["reply"])) for call in calls]
            repairs += len(calls) - 1
            for mark in details["marks"]:
                # Places are those of a browser's string.
                reply = calls[mark["call"]]["reply"].encode("utf-16-le")
                read = reply[2 * mark["start"] : 2 * mark["end"]].decode("utf-16-le")
                assert read in (turn.answer, turn.content), mark
    assert repairs > 2
    probes = [messages for messages in map(json.dumps, received) if messages not in recorded]
    # What is asked before the run, to learn the endpoint's abilities, is short.
    assert all("## Evidence" not in probe and "## Pictures" not in probe for probe in probes)
    assert set(recorded) <= set(map(json.dumps, received))
