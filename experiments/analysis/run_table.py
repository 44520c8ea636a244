"""Table of a run's metrics.json, for its end and its report."""

from collections.abc import Iterable, Iterator

from experiments.analysis import judged
from experiments.analysis.gains import control_names
from experiments.analysis.result_table import ResultTable, Row, interval_form
from experiments.analysis.run_facts import Metrics, metric_of, model_notes
from experiments.analysis.run_notes import in_short
from experiments.analysis.summary import CERTIFIED, TROUBLES
from experiments.records.trials import LEARNED_FROM

# Columns that a narrow terminal leaves out, the least important first.
SPARE = ("strict\nEM", "F1", "train\nMtok", "calls", "reply\ntokens", "edges", "edge\nP/R", "path\nP/R")

# Header and cells of each measure, in the order of columns.
MEASURES = {
    "attack_success": ("attack\nsuccess", "{attack_success:.3f}"),
    "attack_retrieved": ("attack\nretrieved", "{attack_retrieved:.3f}"),
    "honest_silenced": ("honest\nsilenced", "{honest_silenced:.2f}"),
    **{name: (f"certified\nf={number}", f"{{{name}:.3f}}") for name, number in CERTIFIED.items()},
    "strict_em": ("strict\nEM", "{strict_em:.3f}"),
    "f1": ("F1", "{f1:.3f}"),
    "acc_star": ("Acc*", "{acc_star:.3f}"),
    "path_recall": ("path\nP/R", "{path_precision:.2f}/{path_recall:.2f}"),
    "edge_recall": ("edge\nP/R", "{edge_precision:.2f}/{edge_recall:.2f}"),
    "prompt_tokens": ("prompt\ntokens", "{prompt_tokens:,.0f}"),
    "completion_tokens": ("reply\ntokens", "{completion_tokens:,.0f}"),
    "calls": ("calls", "{calls:tenths}"),
    "edges": ("edges", "{edges:tenths}"),
    "training_tokens": ("train\nMtok", "{training_tokens:millions}"),
    **{name: (name.replace("_", "\n"), f"{{{name}:,}}") for name in TROUBLES},
    "silent_turns": ("silent\nturns", "{silent_share:.1%}"),
    "repairs": ("repairs\n(tokens)", "{repairs_text}"),
}
NOTES = {
    "training_tokens": "Train: millions of tokens of all discussions that a graph was learned from.",
    "silent_turns": "Silent: turns whose reply was read and stated nothing, as a share of all turns.",
    "repairs": "Repairs: turns asked again for what could not be read, as a share of all (in brackets: of all tokens).",
    "strict_em": (
        "{metric} counts an answer that contains the gold one; strict EM an equal one (MultimodalQA's script)."
    ),
    "honest_silenced": "Honest silenced: honest agents that a defence keeps from all others, in a discussion.",
    "certified_1": "Certified: {metric} of the answers that no f agents can change, whatever they answer.",
    "path_recall": "P/R: precision and recall of the paths that were found in the knowledge graph, and of their edges.",
}


def run_table(metrics: Metrics) -> ResultTable:
    """Makes a row per method, without columns that no method has. Tokens and calls are per question."""
    metric = metric_of(metrics)
    rows = _rows(metrics)
    utility = interval_form("utility", "ci95")
    if "clean" in metrics:
        columns = {
            f"clean\n{metric}": "{clean:.3f}",
            f"attacked {metric}\n(95% interval)": utility,
            "change": "{change:+.3f}",
        }
    else:
        columns = {f"{metric} (95% interval)": utility}
    measures = set().union(*rows.values())
    # Every row counts its repairs, also where there are none.
    if not any(row.get("repairs") for row in rows.values()):
        measures.discard("repairs")
    for name, (header, form) in MEASURES.items():
        if name in measures:
            columns[header] = form

    brief = list(in_short(metrics))
    notes = [*brief, *_notes(metrics)]
    notes += [note.format(metric=metric) for name, note in NOTES.items() if name in measures]
    if "judged" in metrics:
        notes += judged.notes(metrics["judged"])
    brief += model_notes(metrics["model"])
    return ResultTable.of("method", rows, columns, notes=notes, spare=SPARE, brief=brief)


def _rows(metrics: Metrics) -> dict[str, Metrics]:
    """Returns the measures of each method, without controls and evaluations without the attack, which have no row."""
    clean = metrics.get("clean", {})
    hidden = {*clean.values(), *control_names(metrics)}
    # Judged figures are in another part of metrics.json.
    judgements = metrics.get("judged", {}).get("methods", {})
    rows = {}
    for method, measures in metrics["methods"].items():
        if method in hidden:
            continue
        turns = max(1, measures.get("turns", 0))
        row = {**measures, "silent_share": measures.get("silent_turns", 0) / turns}
        row["repairs_text"] = f"{measures.get('repairs', 0) / turns:.1%}"
        if "repair_share" in measures:
            row["repairs_text"] += f" ({measures['repair_share']:.1%})"
        if judgements:
            row["acc_star"] = judgements.get(method, {}).get("acc_star")
        if method in clean:
            row["clean"] = metrics["methods"][clean[method]]["utility"]
            if row["clean"] is not None and row["utility"] is not None:
                row["change"] = row["utility"] - row["clean"]
        rows[method] = row
    return rows


def _notes(metrics: Metrics) -> Iterator[str]:
    """Yields notes on all methods together, also on methods without a row."""
    rows = metrics["methods"]
    steady = [method for method, row in rows.items() if row.get("monitor") == {}]
    if steady:
        graphs = ", ".join(steady)
        yield f"Monitor: no agent was found to answer worse than in training, along the graphs of {graphs}."
    yield f"{metrics['questions']:,} questions of {metrics['dataset']}; tokens and calls are per question."
    yield from shared_notes([metrics])
    cut = sum(row.get("cut_turns", 0) for row in rows.values())
    if cut:
        yield f"{cut:,} turns were asked without some of their evidence, which did not fit the model's context."


def game_table(game: Metrics, metric: str) -> ResultTable:
    """Makes a row per defence: its scores without an attack, under each, and in its worst case."""
    rows = {name: {**row, "scores": [*row["utilities"].values()]} for name, row in game["defences"].items()}
    attacks = next(iter(game["defences"].values()))["utilities"]
    # By number: a name may hold any characters.
    cells = {name: f"{{scores[{number}]:.2f}}" for number, name in enumerate(attacks)}
    cells |= {"worst (95%)": interval_form("worst", "ci95"), "share": "{share:.2f}"}

    mixed = ", ".join(f"{name} {share:.2f}" for name, share in game["attacks"].items() if share)
    notes = [
        f"Value: {metric} {game['trained']:.3f} on training questions, {game['value']:.3f} on these.",
        f"Share: of a defence in the mix that is best in training. Against it attackers mix {mixed}.",
        f"Exploitability: {game['response']}, the best response to it, takes {game['exploitability']:.3f} more.",
        f"Adaptive: best responses to each defence. They take {game['gain']:.3f} more, as a mean, than other attacks.",
    ]
    for name, row in rows.items():
        notes.append(f"{name}: {row['response']} takes {row['gain']:.3f} more than {row['usual']}.")
    notes.append("Worst: the lowest of a row; with a probability of .95 all intervals of the column are right.")
    return ResultTable.of(
        "defence",
        rows,
        cells,
        notes=notes,
        title=f"{metric} of defences under attack",
    )


def shared_notes(runs: Iterable[Row]) -> Iterator[str]:
    """Yields a note for each graph learned from another's discussions, whose tokens are counted there."""
    sources: dict[tuple[str, str], None] = {}  # a set in order
    for metrics in runs:
        for method, row in metrics["methods"].items():
            if LEARNED_FROM in row:
                sources[method, row[LEARNED_FROM]] = None
    for method, source in sources:
        yield f"{method} was learned from the discussions of {source}, whose tokens are counted there, once."
