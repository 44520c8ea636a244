"""Rebuilt prompts are what an endpoint received, byte for byte, with pictures and repairs."""

import json
import shutil
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest

from actors.prompting.safe_text import safe_line
from experiments.inspection.turns import TurnInspector
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
        parts.append({"type": "text", "text": f"[{image['id']}] {safe_line(image['title'])}"})
        parts.append({"type": "image_url", "image_url": {"url": image["src"]}})
    text = f"{call['shared']}\n{call['own']}"
    content = [*parts, {"type": "text", "text": text}] if parts else text
    repair = [{"role": "assistant", "content": rejected}, {"role": "user", "content": call["correction"]}]
    first = [{"role": "system", "content": call["system"]}, {"role": "user", "content": content}]
    return [*first, *(repair if call["correction"] else [])]


def test_prompts_and_repairs_are_what_the_endpoint_received(run: tuple[RunFolder, list[Any]]) -> None:
    folder, received = run
    inspector, rebuilt, repairs = TurnInspector(folder.path), [], 0
    for line, trace in enumerate(folder.traces("evaluate-full"), start=1):
        for turn in trace.turns:
            details = inspector.turn("full", line, turn.id)
            assert "note" not in details, details["note"]
            calls = details["calls"]
            assert len(calls) == turn.calls
            assert {call["source"] for call in calls} == {"cache"}
            rebuilt += [json.dumps(messages_of(call, calls[0]["reply"])) for call in calls]
            repairs += len(calls) - 1
            for mark in details["marks"]:
                # Places are those of a browser's string.
                reply = calls[mark["call"]]["reply"].encode("utf-16-le")
                read = reply[2 * mark["start"] : 2 * mark["end"]].decode("utf-16-le")
                assert read in (turn.answer, turn.content), mark
    assert repairs > 2
    probes = [messages for messages in map(json.dumps, received) if messages not in rebuilt]
    # What is asked before the run, to learn the endpoint's abilities, is short.
    assert all("## Evidence" not in probe and "## Pictures" not in probe for probe in probes)
    assert set(rebuilt) <= set(map(json.dumps, received))


def test_without_the_completion_cache_a_prompt_is_shown_and_the_note_has_the_reason(
    run: tuple[RunFolder, list[Any]], tmp_path: Path
) -> None:
    moved = RunFolder(Path(shutil.copytree(run[0].path, tmp_path / run[0].name)))
    before, after = (TurnInspector(each.path).turn("full", 1, "1/text_critic") for each in (run[0], moved))
    assert after["calls"][0] == before["calls"][0] | {
        "reply": None,
        "source": None,
        "prompt_tokens": 0,
        "completion_tokens": 0,
    }
    assert after["note"]
    # Computing everything again is the user's choice, and leaves no reply to show.
    kept_none = moved.config.read_text().replace("reuse: true", "reuse: false")
    moved.config.write_text(kept_none)
    assert "completions.reuse" in TurnInspector(moved.path).turn("full", 1, "1/text_critic")["note"]
