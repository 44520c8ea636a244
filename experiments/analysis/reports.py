"""Reports of runs: pages with settings, tables, figures, and discussions turn by turn."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from actors.messages import Source
from experiments.analysis import agents, defended, turn_counts
from experiments.analysis.agreement import agreement, concluded
from experiments.analysis.embedded import LIMIT_TURNS, embed, learned_graphs, packed
from experiments.analysis.gains import gains_table
from experiments.analysis.page import LABELS, SCRIPTS, Section, page, pictures
from experiments.analysis.result_table import ResultTable
from experiments.analysis.run_table import game_table, paired_table, run_table
from experiments.analysis.summary import Metrics, broken, metric_of, model_notes
from experiments.config.setting_groups import CompareSettings
from experiments.records import start, usage
from experiments.records.recorder import RunFolder
from experiments.records.run_files import write_atomically


def write_run_report(
    run: RunFolder,
    metrics: Metrics,
    listed: str,
    drawn: Sequence[Path],
    limit_turns: int = LIMIT_TURNS,
    *,
    corpus: Iterable[Source] = (),
    seed: int = 0,
    margin: float = CompareSettings.margin,
) -> Path:
    """Writes the report of a run from its records and traces. Every message is shown as text.

    listed: the method whose discussions are listed at first.
    limit_turns: most turns that are embedded; the page names what is left out.
    corpus: the data set's sources, of which messages and searches are given titles.
    seed, margin: the run's.
    """
    embedded = embed(run, tuple(metrics["methods"]), limit_turns)
    embedded.sources = {source.id: source.title for source in corpus if source.id in embedded.named}
    named = [method for method in metrics["methods"] if method not in broken(metrics)]
    answers = {method: of for method, of in concluded(run, failures=1).items() if method in named}
    embedded.pairs = agreement(answers, seed, metric_of(metrics), margin, metrics["paired"])
    # From the discussions, because metrics.json does not name the attack.
    attacks = sorted({entry["attack"] for entry in embedded.entries if "attack" in entry})
    graphs = learned_graphs(run)
    facts = {"Seed": str(seed)} | ({"Attack": ", ".join(attacks)} if attacks else {}) | start.facts(run.path)
    partial = [group for group in embedded.groups if group.shown < group.recorded]
    parts = "; ".join(f"{g.shown:,} of {g.recorded:,} of {g.label} (all: {g.file})" for g in partial)
    note = f"The run has too many discussions for one page. This is a sample, drawn by ids alone: {parts}."
    sections = (
        *run_sections(run, metrics, drawn, facts),
        Section("Learning", learned=packed(graphs) if graphs else ""),
        Section("Discussions", [note] if partial else [], discussions=embedded),
        Section("Configuration", text=run.config.read_text(encoding="utf-8")),
    )
    text = page(f"{metrics['experiment']}: {run.path.name}", sections, SCRIPTS, listed=listed)
    write_atomically(run.report, text.encode())
    return run.report


def run_sections(
    run: RunFolder, metrics: Metrics, drawn: Sequence[Path], facts: Mapping[str, str], traces: bool = True
) -> Iterator[Section]:
    """Yields what a page shows of a finished run before its discussions.

    facts: further ones of the summary.
    traces: with the tables for which every trace is read.
    """
    known = {label: metrics[name] for name, label in LABELS.items()}
    known |= {"Questions": f"{metrics['questions']:,}", "Methods": ", ".join(metrics["methods"]), **facts}
    yield Section("Summary", model_notes(metrics["model"]), known)
    metric = metric_of(metrics)
    judged = metrics.get("judged", {"paired": {}})["paired"]
    ended = turn_counts.by_phase(run, metrics["methods"]) if traces else {}
    used = [usage.cells(phase, metrics["questions"]) for phase in usage.by_phase(run).values()]
    title = f"Methods on {metrics['questions']:,} questions of {metrics['dataset']}"
    tables = [
        replace(run_table(metrics), title=title),
        *([game_table(metrics["game"], metric)] if "game" in metrics else []),
        *([gains_table(metrics)] if "gains" in metrics else []),
        defended.defence_table(metrics),
        paired_table(metrics["paired"], metric),
        paired_table(judged, "Acc*"),
        turn_counts.turns_table(ended),
        turn_counts.reasons_table(ended),
        ResultTable(usage.HEADERS, used, [*usage.notes(usage.total(run)), usage.TIMES], "Usage"),
    ]
    yield Section("Results", tables=[table for table in tables if table.rows])
    if traces:
        yield Section("Agents", tables=agents.agent_tables(agents.read(run)))
    yield Section("Figures", pictures=tuple(pictures(drawn)))
