"""Explains answers of a finished run with its own models, writes `attribution.jsonl`, and marks turns in the report.

Models are asked from this process, through the run's completion cache.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from actors.errors import UserError
from actors.messages import derive_seed
from actors.runtime.inline import Inline
from experiments.analysis.reports import write_run_report
from experiments.analysis.result_table import ResultTable
from experiments.attribution.explain import Explanation
from experiments.attribution.intervention import Replay, agents_of
from experiments.attribution.suspects import least_suspicion
from experiments.config.setting_groups import ExplainSettings
from experiments.inspection.held_again import HeldDiscussions
from experiments.inspection.opened_run import OpenedRun
from experiments.records.attribution import ATTRIBUTION, Explained, explained
from experiments.records.recorder import RunFolder
from experiments.records.run_files import write_atomically

MOST_ROWS = 20


def explain_run(folder: Path, settings: ExplainSettings, named: Sequence[str] | None = ()) -> list[Explained]:
    """Explains, records and prints answers of a run; `named` as of `OpenedRun`, whose UserErrors it raises."""
    opened = OpenedRun(run := RunFolder.open(folder.expanduser()), named, asks=True)
    plan, dataset, method = opened.plan, opened.dataset, settings.method or opened.plan.methods[-1].name
    if method not in plan.evaluated:
        raise UserError(f"explain.method={method} was not evaluated: choose from {', '.join(plan.evaluated)}")
    found = with_suspects(asyncio.run(_explain(opened, method, settings)), settings, plan.config.seed)
    write_atomically(run.path / ATTRIBUTION, "".join(f"{each.encode()}\n" for each in found).encode())
    if run.metrics.is_file():
        metrics, drawn = json.loads(run.metrics.read_bytes()), sorted(run.figures.glob("*.png"))
        write_run_report(run, metrics, dataset.metric, method, drawn, corpus=dataset.corpus(), seed=plan.config.seed)
    table(found, method, settings).print()
    return found


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
    lock, gate = asyncio.Lock(), asyncio.Semaphore(opened.plan.config.concurrency)

    async def one(places: Sequence[tuple[str, int]]) -> Explained:
        async with gate:
            async with lock:
                held = [await discussions.hold(*place) for place in places]
            if note := next((each.note for each in held if each.note), ""):
                raise UserError(f"{run.path}, line {places[0][1]} of {method}: {note}")
            by = settings.by if settings.by != "auto" else "counterpart" if held[0].trace.attack else "silence"
            return await Explanation(Replay(held, agents), opened.dataset, by).explain(settings, seed)

    with Inline() as runtime:
        agents = agents_of(opened, runtime)
        return await asyncio.gather(*map(one, wanted[: settings.answers or None]))


def with_suspects(found: Sequence[Explained], settings: ExplainSettings, seed: int) -> list[Explained]:
    """Adds the conformal sets, calibrated by another run or, where culprits were found, each half by the other."""
    other = settings.calibration and RunFolder.open(Path(settings.calibration).expanduser())
    half = {each.question: derive_seed(seed, "half", each.question) % 2 for each in found}
    # A run of other questions calibrates both halves.
    culprits = [
        (-1 if other else half[each.question], max(each.suspicion.get(agent, 0.0) for agent in each.culprits))
        for each in (explained(other) if other else found)
        if each.by == "counterpart" and each.culprits
    ]
    least = [least_suspicion([one for of, one in culprits if of != this], settings.coverage) for this in (0, 1)]
    sets = [[a for a, one in each.suspicion.items() if one >= least[half[each.question]]] for each in found]
    return [replace(each, suspects=tuple(of)) for each, of in zip(found, sets, strict=True)]


def table(found: Sequence[Explained], method: str, settings: ExplainSettings) -> ResultTable:
    """A row for each answer that one agent changes, and the cost."""
    rows = []
    for each in [each for each in found if each.agent][:MOST_ROWS]:
        of = next(effect for effect in each.effects if effect.changed and effect.of == (each.turn or each.agent))
        would = f"{of.answer} ({of.utility:g})" if of.phi is None else f"phi {of.phi[0]:.2f}"
        suspects = ", ".join(each.suspects) if len(each.suspects) < len(each.suspicion) else "all agents"
        rows.append((each.question, str(each.answer), of.of, would, suspects))
    agents, failed = (
        Counter(each.agent for each in found),
        sum(effect.failed for each in found for effect in each.effects),
    )
    asked, tokens, recorded = (sum(getattr(each, name) for each in found) for name in ("asked", "tokens", "recorded"))
    often = ", ".join(f"{agent or 'no single agent'} {number:,}" for agent, number in agents.most_common(6))
    notes = [
        f"{len(found):,} {settings.which} answers of {method} explained, changed by: {often or 'none'}.",
        f"{asked:,} turns were asked again, with {tokens:,} tokens: {tokens / max(1, recorded):.0%} of the explained "
        f"discussions'. {failed:,} interventions had a failed turn, from which nothing is concluded.",
        f"Sets of suspects hold a culprit with probability {settings.coverage:g}, where failures are alike.",
    ]
    title = f"Turns and agents without which answers of {method} would have been others"
    return ResultTable(("question", "answer", "without", "it would be", "suspects"), rows, notes, title, names=5)
