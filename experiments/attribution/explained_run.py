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

MOST_ROWS = 20  # of the table on the terminal


def explain(folder: str, words: Sequence[str], ended: ExplainSettings | None = None) -> int:
    """Explains, records and prints answers of a run. `words` has settings, or is empty for a run that just `ended`."""
    names_again = None
    if not ended:
        names_again = [word for word in words if not word.startswith("explain.")]
    settings = ended or named_again(words).explain
    run = RunFolder.open(Path(folder).expanduser())
    opened_run = OpenedRun(run, names_again, asks=True)
    plan = opened_run.plan
    method = settings.method or plan.methods[-1].name
    if method not in plan.evaluated:
        raise UserError(f"explain.method={method} was not evaluated: choose from {', '.join(plan.evaluated)}")

    metrics = results(run.metrics)
    seed = plan.config.seed
    explanations = asyncio.run(explained_answers(opened_run, method, settings))
    explanations = with_suspects(explanations, settings)
    lines = [f"{explanation.encode()}\n" for explanation in explanations]
    write_atomically(run.path / ATTRIBUTION, "".join(lines).encode())
    if metrics:
        write_run_report(
            run,
            metrics,
            method,
            sorted(run.figures.glob("*.png")),
            titles_of=opened_run.evidence.store.titles,
            seed=seed,
            margin=plan.config.compare.margin,
        )
    table(explanations, method, settings).print()
    return 0


async def explained_answers(opened_run: OpenedRun, method: str, settings: ExplainSettings) -> list[Explained]:
    """Explains the right or wrong answers of a method, as many as the settings say."""
    run = opened_run.run
    discussions = RecordedDiscussions(opened_run)
    # The evaluation without the attack has many of the honest turns.
    clean = opened_run.plan.clean.get(method, "")
    clean_lines: dict[str, int] = {}
    if clean:
        clean_lines = {trace.question: line for line, trace in enumerate(run.traces(f"evaluate-{clean}"), 1)}

    scores = [scored for scored in run.scores() if scored.method == method]
    to_explain = []
    for line, scored in enumerate(scores, 1):
        is_right = scored.utility >= 1
        if is_right == (settings.which == "right") and not scored.failed_calls:
            to_explain.append((line, scored.question))
    seed = opened_run.plan.config.seed
    gate = asyncio.Semaphore(opened_run.plan.config.concurrency)

    async def begin(line: int, question: str) -> tuple[Explanation, Explained]:
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
            explanation = Explanation(replay, opened_run.dataset, by)
            recorded_tokens = sum(turn.tokens for turn in discussion.trace.turns)
            return explanation, await explanation.explain(settings, seed, settings.budget * recorded_tokens)

    async def go_on(explanation: Explanation, explained: Explained, further_tokens: float) -> Explained:
        if explained.finished:
            return explained
        async with gate:
            return await explanation.explain(settings, seed, settings.budget * explained.recorded + further_tokens)

    async with agents_of(opened_run) as agents:
        # The first alone: it makes the topologies of all.
        begun = [await begin(line, question) for line, question in to_explain[:1]]
        remaining = to_explain[1 : settings.answers or None]
        begun += await asyncio.gather(*(begin(line, question) for line, question in remaining))
        # What finished searches have left, the others share.
        finished = [explained for _, explained in begun if explained.finished]
        tokens_left = sum(settings.budget * explained.recorded - explained.tokens for explained in finished)
        further_tokens = tokens_left / max(1, len(begun) - len(finished))
        return await asyncio.gather(*(go_on(*pair, further_tokens) for pair in begun))


def table(explanations: Sequence[Explained], method: str, settings: ExplainSettings) -> ResultTable:
    """Makes a row for each answer that one agent or a group of them changes, and the cost."""
    rows = []
    with_culprits = [explanation for explanation in explanations if explanation.agent or explanation.group]
    for explanation in with_culprits[:MOST_ROWS]:
        decisive = explanation.turn or explanation.cause
        effect = next(effect for effect in explanation.effects if effect.changed and effect.of == decisive)
        outcome = f"{effect.answer} ({effect.utility:g})"
        suspects = "all agents"
        if len(explanation.suspects) < len(explanation.suspicion):
            suspects = ", ".join(explanation.suspects)
        rows.append((explanation.question, str(explanation.answer), effect.of, outcome, suspects))

    counts = Counter(explanation.cause for explanation in explanations)
    causes = ", ".join(f"{cause} {number:,}" for cause, number in counts.most_common(6))
    # Without an attack nothing was wrongly said: the answer only depends on the turn.
    is_blamed = all(explanation.by == "counterpart" for explanation in explanations)
    relation = "changed by" if is_blamed else "depends on"
    unfinished = sum(not explanation.finished for explanation in explanations)
    failed = sum(effect.failed for explanation in explanations for effect in explanation.effects)
    turns_asked = sum(explanation.asked for explanation in explanations)
    tokens = sum(explanation.tokens for explanation in explanations)
    recorded_tokens = sum(explanation.recorded for explanation in explanations)
    share = tokens / max(1, recorded_tokens)
    notes = [
        f"{len(explanations):,} {settings.which} answers of {method} explained; {relation}: {causes or 'none'}.",
        f"{turns_asked:,} turns were asked again, with {tokens:,} tokens: {share:.0%} of the "
        f"explained discussions'. {failed:,} interventions had a failed turn, from which nothing is concluded.",
        f"explain.budget={settings.budget:g} ended the search in {unfinished:,} answers.",
        f"Sets of suspects hold a culprit with probability {COVERAGE:g}, where failures are alike.",
    ]
    return ResultTable(("question", "answer", relation, "it would be", "suspects"), rows, notes, names=5)
