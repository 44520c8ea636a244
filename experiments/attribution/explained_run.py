"""Explains answers of a finished run, and continues a discussion. It uses the run's models and completion cache."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from actors.errors import UserError
from experiments.analysis.arrow_tables import results
from experiments.analysis.reports import write_run_report
from experiments.analysis.result_table import ResultTable
from experiments.attribution.explain import Explanation
from experiments.attribution.intervention import Replay, agents_of
from experiments.attribution.opened_run import OpenedRun
from experiments.attribution.recorded_discussions import RecordedDiscussions
from experiments.attribution.suspects import COVERAGE, with_suspects
from experiments.config.loading import named_again
from experiments.config.setting_groups import ExplainSettings
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
    run, seed = opened.run, opened.plan.config.seed
    discussions = RecordedDiscussions(opened)
    # The evaluation without the attack has many of the honest turns.
    clean = opened.plan.clean.get(method, "")
    clean_lines: dict[str, int] = {}
    if clean:
        clean_lines = {trace.question: line for line, trace in enumerate(run.traces(f"evaluate-{clean}"), 1)}
    scores = [scored for scored in run.scores() if scored.method == method]
    lines = [
        (line, scored.question)
        for line, scored in enumerate(scores, 1)
        if (scored.utility >= 1) == (settings.which == "right") and not scored.failed_calls
    ]
    gate = asyncio.Semaphore(opened.plan.config.concurrency)

    async def explain_answer(line: int, question: str) -> Explained:
        async with gate:
            discussion = await discussions.open(method, line)
            replay = Replay(discussion, agents)
            replay.add(await discussion.heard())
            if question in clean_lines:
                honest = await discussions.open(clean, clean_lines[question])
                replay.add(await honest.heard())
            by = settings.by
            if by == "auto":
                by = "counterpart" if discussion.trace.attack else "silence"
            return await Explanation(replay, opened.dataset, by).explain(settings, seed)

    async with agents_of(opened) as agents:
        # The first alone: it makes the topologies of all.
        explained = [await explain_answer(*place) for place in lines[:1]]
        further = [explain_answer(*place) for place in lines[1 : settings.answers or None]]
        return explained + await asyncio.gather(*further)


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
