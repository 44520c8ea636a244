"""Goes on from a turn of a recorded discussion."""

import asyncio
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


def continued(place: str, words: Sequence[str]) -> int:
    """Goes on from a recorded turn, `<group>:<line>:<turn>` of `replay.run`. Prints the turns that differ.

    `replay.answer` and `replay.message` replace its answer and reasoning. Other settings, such as a model, are those of
    the turn and all later ones, which are asked again.
    """
    own = dict(word.removeprefix("replay.").split("=", 1) for word in words if word.startswith("replay."))
    others, (group, line, id) = [w for w in words if not w.startswith("replay.")], [*place.split(":"), "", "", ""][:3]
    if not line.isdecimal() or not {"run"} <= own.keys() <= {"run", "answer", "message"}:
        raise UserError(f"replay.from={place}: expected <group>:<line>:<turn>, and replay.run=")
    opened = OpenedRun(RunFolder.open(Path(own["run"]).expanduser()), others, asks=True)

    async def discuss() -> tuple[Trace, Trace, int]:
        discussion = await RecordedDiscussions(opened).open(group, int(line))
        recorded = await discussion.heard()
        order = [turn.id for turn in discussion.trace.turns]
        if id not in order:
            raise UserError(f"replay.from={place}: expected a turn of {', '.join(order)}")
        old = recorded.memories[id]
        new = replace(old, answer=own.get("answer", old.answer), content=own.get("message", old.content))
        async with agents_of(opened) as agents:
            replay = Replay(discussion, agents)
            # With other settings the turn itself is asked again, too.
            replay.add(recorded, order[: order.index(id)] if others else order)
            trace = await replay.hold(sent={} if new == old else {id: new})
            return discussion.trace, trace, len(replay.asked)

    recorded, trace, asked = asyncio.run(discuss())
    before = {turn.id: turn.answer for turn in recorded.turns}
    rows = [(turn.id, str(before.get(turn.id)), str(turn.answer)) for turn in trace.turns]
    note = f"{asked} turns were asked again. The answer is {trace.answer}; recorded: {recorded.answer}."
    ResultTable(("turn", "recorded", "now"), [row for row in rows if row[1] != row[2]], [note], names=3).print()
    return 0
