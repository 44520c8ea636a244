"""Explains answers of a finished run, and continues a discussion. It uses the run's models and completion cache."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from actors.errors import UserError
from experiments.analysis.arrow_tables import results
from experiments.analysis.reports import write_run_report
from experiments.analysis.result_table import ResultTable
from experiments.attribution.explain import Explanation
from experiments.attribution.intervention import Replay, agents_of
from experiments.attribution.suspects import COVERAGE, with_suspects
from experiments.config.loading import named_again
from experiments.config.setting_groups import ExplainSettings
from experiments.inspection.held_again import HeldDiscussions
from experiments.inspection.opened_run import OpenedRun
from experiments.records.attribution import ATTRIBUTION, Explained
from experiments.records.recorder import RunFolder
from experiments.records.run_files import write_atomically


def explain(folder: str, words: Sequence[str], ended: ExplainSettings | None = None) -> int:
    """Explains, records and prints answers of a run. `words` has settings, or is empty for a run that just `ended`."""
    named = None if ended else [word for word in words if not word.startswith("explain.")]
    settings = ended or named_again(words).explain
    opened = OpenedRun(run := RunFolder.open(Path(folder).expanduser()), named, asks=True)
    plan, dataset, method = opened.plan, opened.dataset, settings.method or opened.plan.methods[-1].name
    if method not in plan.evaluated:
        raise UserError(f"explain.method={method} was not evaluated: choose from {', '.join(plan.evaluated)}")
    metrics, seed, margin = results(run.metrics), plan.config.seed, plan.config.compare.margin
    found = with_suspects(asyncio.run(_explain(opened, method, settings)), settings, seed)
    write_atomically(run.path / ATTRIBUTION, "".join(f"{each.encode()}\n" for each in found).encode())
    if metrics:
        drawn = sorted(run.figures.glob("*.png"))
        write_run_report(run, metrics, method, drawn, corpus=dataset.corpus(), seed=seed, margin=margin)
    table(found, method, settings).print()
    return 0


async def _explain(opened: OpenedRun, method: str, settings: ExplainSettings) -> list[Explained]:
    run, discussions, seed = opened.run, HeldDiscussions(opened), opened.plan.config.seed
    # The evaluation without the attack has many of the honest turns.
    clean = opened.plan.clean.get(method, "")
    lines = {trace.question: line for line, trace in enumerate(run.traces(f"evaluate-{clean}"), 1)} if clean else {}
    wanted = [
        [(method, line), *([(clean, lines[scored.question])] if scored.question in lines else [])]
        for line, scored in enumerate((each for each in run.scores() if each.method == method), 1)
        if (scored.utility >= 1) == (settings.which == "right") and not scored.failed_calls
    ]
    gate = asyncio.Semaphore(opened.plan.config.concurrency)

    async def one(places: Sequence[tuple[str, int]]) -> Explained:
        async with gate:
            replay = Replay([await discussions.hold(*place) for place in places], agents)
            by = settings.by if settings.by != "auto" else "counterpart" if replay.held.trace.attack else "silence"
            return await Explanation(replay, opened.dataset, by).explain(settings, seed)

    async with agents_of(opened) as agents:
        # The first alone: it makes the topologies of all.
        found = [await one(places) for places in wanted[:1]]
        return found + await asyncio.gather(*map(one, wanted[1 : settings.answers or None]))


def table(found: Sequence[Explained], method: str, settings: ExplainSettings) -> ResultTable:
    """Makes a row for each answer that one agent changes, and the cost."""
    rows = []
    for each in [each for each in found if each.agent][:20]:
        of = next(effect for effect in each.effects if effect.changed and effect.of == (each.turn or each.agent))
        would = f"{of.answer} ({of.utility:g})" if of.phi is None else f"phi {of.phi[0]:.2f}"
        suspects = ", ".join(each.suspects) if len(each.suspects) < len(each.suspicion) else "all agents"
        rows.append((each.question, str(each.answer), of.of, would, suspects))
    agents, failed = Counter(each.agent for each in found), sum(one.failed for each in found for one in each.effects)
    asked, tokens, recorded = (sum(getattr(each, name) for each in found) for name in ("asked", "tokens", "recorded"))
    often = ", ".join(f"{agent or 'no single agent'} {number:,}" for agent, number in agents.most_common(6))
    notes = [
        f"{len(found):,} {settings.which} answers of {method} explained, changed by: {often or 'none'}.",
        f"{asked:,} turns were asked again, with {tokens:,} tokens: {tokens / max(1, recorded):.0%} of the explained "
        f"discussions'. {failed:,} interventions had a failed turn, from which nothing is concluded.",
        f"Sets of suspects hold a culprit with probability {COVERAGE:g}, where failures are alike.",
    ]
    return ResultTable(("question", "answer", "without", "it would be", "suspects"), rows, notes, names=5)


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

    async def discuss() -> tuple[Any, Any, int]:
        held = await HeldDiscussions(opened).hold(group, int(line))
        order, old = [turn.id for turn in held.trace.turns], held.memories.get(id)
        if old is None:
            raise UserError(f"replay.from={place}: expected a turn of {', '.join(order)}")
        kept = {of: held.turns[of] for of in (order[: order.index(id)] if others else order)}
        new = replace(old, answer=own.get("answer", old.answer), content=own.get("message", old.content))
        async with agents_of(opened) as agents:
            replay = Replay([replace(held, turns=kept)], agents)
            return held.trace, await replay.hold(sent={} if new == old else {id: new}), len(replay.asked)

    recorded, trace, asked = asyncio.run(discuss())
    before = {turn.id: turn.answer for turn in recorded.turns}
    rows = [(turn.id, str(before.get(turn.id)), str(turn.answer)) for turn in trace.turns]
    note = f"{asked} turns were asked again. The answer is {trace.answer}; recorded: {recorded.answer}."
    ResultTable(("turn", "recorded", "now"), [row for row in rows if row[1] != row[2]], [note], names=3).print()
    return 0
