"""Goes on from a turn of a recorded discussion."""

import asyncio
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from actors.errors import UserError
from actors.messages import Trace
from experiments.analysis.result_table import ResultTable
from experiments.attribution.intervention import Replay, agents_of
from experiments.attribution.opened_run import OpenedRun
from experiments.attribution.recorded_discussions import RecordedDiscussions
from experiments.records.recorder import RunFolder
from experiments.records.records import encode_trace
from experiments.records.run_files import write_atomically


def continued(place: str, words: Sequence[str]) -> int:
    """Goes on from a recorded turn, `<group>:<line>:<turn>` of `replay.run`. Prints the turns that differ.

    `replay.answer` and `replay.message` replace its answer and reasoning. Other settings, such as a model, are those of
    the turn and all later ones, which are asked again. `replay.trace` names a file for the new discussion's trace.
    """
    replay_settings = {}
    other_words = []
    for word in words:
        if word.startswith("replay."):
            key, _, value = word.removeprefix("replay.").partition("=")
            replay_settings[key] = value
        else:
            other_words.append(word)
    match = re.fullmatch(r"([^:]*):(\d+)(?::([^:]*))?", place)
    if not match or not {"run"} <= replay_settings.keys() <= {"run", "answer", "message", "trace"}:
        raise UserError(f"replay.from={place}: expected <group>:<line>:<turn>, and replay.run=")
    group, line, turn_id = match.groups("")
    opened_run = OpenedRun(RunFolder.open(Path(replay_settings["run"]).expanduser()), other_words, asks=True)

    async def discuss() -> tuple[Trace, Trace, int]:
        discussion = await RecordedDiscussions(opened_run).open(group, int(line))
        turns = await discussion.heard()
        order = [turn.id for turn in discussion.trace.turns]
        if turn_id not in order:
            raise UserError(f"replay.from={place}: expected a turn of {', '.join(order)}")
        old = turns.memories[turn_id]
        new = replace(
            old,
            answer=replay_settings.get("answer", old.answer),
            content=replay_settings.get("message", old.content),
        )
        # With other settings the turn itself is asked again, too.
        unchanged = order[: order.index(turn_id)] if other_words else order
        async with agents_of(opened_run) as agents:
            replay = Replay(discussion, agents)
            replay.add(turns, unchanged)
            trace = await replay.hold(sent={} if new == old else {turn_id: new})
            return discussion.trace, trace, len(replay.asked)

    recorded_trace, trace, turns_asked = asyncio.run(discuss())
    if "trace" in replay_settings:
        trace_file = Path(replay_settings["trace"]).expanduser()
        try:
            write_atomically(trace_file, f"{encode_trace(trace)}\n".encode())
        except OSError as error:
            raise UserError(f"replay.trace={trace_file} cannot be written ({error.strerror})") from error

    recorded_answers = {turn.id: str(turn.answer) for turn in recorded_trace.turns}
    rows = []
    for turn in trace.turns:
        recorded_answer = recorded_answers.get(turn.id, "None")
        if str(turn.answer) != recorded_answer:
            rows.append((turn.id, recorded_answer, str(turn.answer)))
    note = f"{turns_asked} turns were asked again. The answer is {trace.answer}; recorded: {recorded_trace.answer}."
    ResultTable(("turn", "recorded", "now"), rows, [note], names=3).print()
    return 0
