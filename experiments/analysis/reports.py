"""Reports of runs: pages with settings, tables, figures, and discussions turn by turn."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from experiments.analysis import agents, defended, paired, run_notes, turn_counts
from experiments.analysis.agreement import agreement, concluded
from experiments.analysis.discussion_records import read_turn_counts
from experiments.analysis.embedded import LIMIT_TURNS, embed, learned_graphs, packed
from experiments.analysis.gains import gains_table
from experiments.analysis.page import LABELS, SCRIPTS, Section, figures_section, page
from experiments.analysis.result_table import ResultTable
from experiments.analysis.run_facts import Metrics, metric_of, model_notes
from experiments.analysis.run_table import game_table, run_table
from experiments.config.setting_groups import CompareSettings
from experiments.datasets.item import TitlesOf
from experiments.records import start, usage
from experiments.records.recorder import RunFolder
from experiments.records.run_files import read_whole, write_atomically


def write_run_report(
    run: RunFolder,
    metrics: Metrics,
    listed: str,
    figures: Sequence[Path],
    limit_turns: int = LIMIT_TURNS,
    *,
    counts: Mapping[str, turn_counts.TurnCounts] | None = None,
    titles_of: TitlesOf = lambda ids: {},
    seed: int = 0,
    margin: float = CompareSettings.margin,
) -> Path:
    """Writes the report of a run from its records and traces. Every message is shown as text.

    listed: the method whose discussions are listed at first.
    limit_turns: most turns that are embedded; the page counts the others.
    counts: of the run's turns by phase, where they are known already.
    titles_of: finds the titles of the sources with these ids, for messages and searches.
    seed, margin: the run's.
    """
    embedded = embed(run, tuple(metrics["methods"]), limit_turns)
    embedded.sources = titles_of(embedded.source_ids)
    answers = concluded(run, failures=1)
    inconclusive = run_notes.broken(metrics)
    for method in list(answers):
        if method not in metrics["methods"] or method in inconclusive:
            del answers[method]
    embedded.pairs = agreement(
        answers,
        seed,
        metric_of(metrics),
        margin=margin,
        tested=metrics["paired"],
    )

    facts = {"Seed": str(seed)}
    # From the discussions, because metrics.json does not name the attack.
    attacks = sorted({entry["attack"] for entry in embedded.entries if "attack" in entry})
    if attacks:
        facts["Attack"] = ", ".join(attacks)
    facts |= start.facts(run.path)
    parts = []
    for group in embedded.groups:
        if group.shown < group.recorded:
            parts.append(f"{group.shown:,} of {group.recorded:,} of {group.label} (all: {group.file})")
    notes = []
    if parts:
        sample = "; ".join(parts)
        notes.append(f"The run has too many discussions for one page. This is a sample, drawn by ids alone: {sample}.")

    graphs = learned_graphs(run)
    if counts is None:
        counts = read_turn_counts(run, metrics["methods"])
    sections = (
        *run_sections(run, metrics, figures, facts=facts, counts=counts),
        Section("Learning", learned=packed(graphs) if graphs else ""),
        Section("Discussions", notes, discussions=embedded),
        Section("Configuration", text=read_whole(run.config).decode()),
    )
    text = page(f"{metrics['experiment']}: {run.path.name}", sections, SCRIPTS, listed=listed)
    write_atomically(run.report, text.encode())
    return run.report


def run_sections(
    run: RunFolder,
    metrics: Metrics,
    figures: Sequence[Path],
    facts: Mapping[str, str],
    counts: Mapping[str, turn_counts.TurnCounts] | None = None,
) -> Iterator[Section]:
    """Yields what a page shows of a finished run before its discussions.

    facts: further ones of the summary.
    counts: of turns by phase. Without them there are neither tables of turns nor of agents.
    """
    run_facts = {label: metrics[name] for name, label in LABELS.items()}
    run_facts |= {"Questions": f"{metrics['questions']:,}", "Methods": ", ".join(metrics["methods"]), **facts}
    yield Section("Summary", model_notes(metrics["model"]), run_facts)

    metric = metric_of(metrics)
    title = f"Methods on {metrics['questions']:,} questions of {metrics['dataset']}"
    tables = [replace(run_table(metrics), title=title)]
    if "game" in metrics:
        tables.append(game_table(metrics["game"], metric))
    if "gains" in metrics:
        tables.append(gains_table(metrics))
    tables.append(defended.defence_table(metrics))
    tables.append(paired.paired_table(metrics["paired"], metric))
    if "judged" in metrics:
        tables.append(paired.paired_table(metrics["judged"]["paired"], "Acc*"))
    phases = {phase: phase_counts for phase, phase_counts in (counts or {}).items() if phase_counts.turns}
    tables.append(turn_counts.turns_table(phases))
    tables.append(turn_counts.reasons_table(phases))
    cells = [usage.cells(phase, metrics["questions"]) for phase in usage.by_phase(run).values()]
    tables.append(
        ResultTable(
            usage.HEADERS,
            cells,
            [*usage.notes(usage.total(run)), usage.TIMES],
            title="Usage",
        )
    )
    yield Section("Results", tables=[table for table in tables if table.rows])
    if counts is not None:
        yield Section("Agents", tables=agents.agent_tables(agents.read(run)))
    yield figures_section(figures)
