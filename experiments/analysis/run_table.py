"""Table of a run's metrics.json, for its end and its report."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from experiments.analysis import judged
from experiments.analysis.findings import in_short
from experiments.analysis.gains import control_names
from experiments.analysis.result_table import Cell, ResultTable, number, tenths, with_interval
from experiments.analysis.summary import CERTIFIED, SIGNIFICANT, TROUBLES, Metrics, metric_of, model_notes, verdict_text
from experiments.records.trials import LEARNED_FROM

# Columns that a narrow terminal leaves out, the least wanted first.
SPARE = ("strict\nEM", "F1", "train\nMtok", "calls", "reply\ntokens", "edges", "edge\nP/R", "path\nP/R")


def _precision_recall(of: str) -> Cell:
    return lambda row: "/".join(f"{row[name]:.2f}" for name in (f"{of}_precision", f"{of}_recall") if name in row)


# Header and cells of each measure, in the order of columns.
MEASURES: dict[str, tuple[str, Cell]] = {
    "attack_success": ("attack\nsuccess", number("attack_success")),
    "attack_retrieved": ("attack\nretrieved", number("attack_retrieved")),
    **{name: (f"certified\nf={f}", number(name)) for name, f in CERTIFIED.items()},
    "strict_em": ("strict\nEM", number("strict_em")),
    "f1": ("F1", number("f1")),
    "acc_star": ("Acc*", number("acc_star")),
    "path_recall": ("path\nP/R", _precision_recall("path")),
    "edge_recall": ("edge\nP/R", _precision_recall("edge")),
    "prompt_tokens": ("prompt\ntokens", number("prompt_tokens", ",.0f")),
    "completion_tokens": ("reply\ntokens", number("completion_tokens", ",.0f")),
    "calls": ("calls", lambda row: "" if row.get("calls") is None else tenths(row["calls"])),
    "edges": ("edges", lambda row: "" if row.get("edges") is None else tenths(row["edges"])),
    "training_tokens": ("train\nMtok", number("training_tokens", ".2f", scale=1e6)),
    **{name: (name.replace("_", "\n"), number(name, ",")) for name in TROUBLES},
    "silent_turns": ("silent\nturns", lambda row: f"{row.get('silent_turns', 0) / max(1, row['turns']):.1%}"),
    "repairs": (
        "repairs\n(tokens)",
        lambda row: (
            f"{row['repairs'] / max(1, row['turns']):.1%}"
            + (f" ({row['repair_share']:.1%})" if "repair_share" in row else "")
        ),
    ),
}
NOTES = {
    "training_tokens": "Train: millions of tokens of all discussions that a graph was learned from.",
    "silent_turns": "Silent: turns whose reply was read and stated nothing, as a share of all turns.",
    "repairs": "Repairs: turns asked again for what could not be read, as a share of all (in brackets: of all tokens).",
    "strict_em": (
        "{metric} counts an answer that contains the gold one; strict EM an equal one (MultimodalQA's script)."
    ),
    "certified_1": "Certified: {metric} of the answers that no f agents can change, whatever they answer.",
    "path_recall": "P/R: precision and recall of the paths that were found in the knowledge graph, and of their edges.",
}


def run_table(metrics: Metrics) -> ResultTable:
    """Makes a row per method, without columns that no method has. Tokens and calls are per question."""
    metric, clean = metric_of(metrics), metrics.get("clean", {})
    # Judged figures are in another part of metrics.json.
    judged_rows = metrics.get("judged", {}).get("methods", {})
    rows = {
        name: {**row, **({"acc_star": judged_rows.get(name, {}).get("acc_star")} if judged_rows else {})}
        for name, row in metrics["methods"].items()
        if name not in (*clean.values(), *control_names(metrics))
    }

    def change(row: Mapping[str, Any]) -> str:
        known = row["clean"] is not None and row["utility"] is not None
        return f"{row['utility'] - row['clean']:+.3f}" if known else ""

    def utility(row: Mapping[str, Any]) -> str:
        return with_interval(row["utility"], row["ci95"])

    columns: dict[str, Cell] = {f"{metric} (95% interval)": utility}
    if clean:
        for name, twin in clean.items():
            rows[name]["clean"] = metrics["methods"][twin]["utility"]
        attacked = f"attacked {metric}\n(95% interval)"
        columns = {f"clean\n{metric}": number("clean"), attacked: utility, "change": change}
    # Every row counts its repairs, also where there are none.
    known = {name for row in rows.values() for name in row if name != "repairs" or row[name]}
    columns |= {header: cell for name, (header, cell) in MEASURES.items() if name in known}
    brief = list(in_short(metrics))
    notes = [*brief]
    if steady := [name for name, row in metrics["methods"].items() if row.get("monitor") == {}]:
        graphs = ", ".join(steady)
        notes.append(f"Monitor: no agent was found to answer worse than in training, along the graphs of {graphs}.")
    notes.append(f"{metrics['questions']:,} questions of {metrics['dataset']}; tokens and calls are per question.")
    notes += shared_notes([metrics])
    if cut := sum(row.get("cut_turns", 0) for row in metrics["methods"].values()):
        notes.append(f"{cut:,} turns were asked without some of their evidence, which did not fit the model's context.")
    notes += [note.format(metric=metric) for name, note in NOTES.items() if name in known]
    notes += judged.notes(metrics["judged"]) if judged_rows else []
    brief += model_notes(metrics["model"])
    return ResultTable.of("method", rows, columns, notes, spare=SPARE, brief=brief)


def paired_table(paired: Mapping[str, Metrics], metric: str) -> ResultTable:
    """Makes a row per paired test of metrics.json; `metric` names the scores."""
    cells: dict[str, Cell] = {
        "difference": number("difference", "+.3f"),
        "95% interval": lambda test: "{:+.3f} to {:+.3f}".format(*test["ci95"]),
        "p": number("p_value", ".2g"),
        "adjusted p": number("p_holm", ".2g"),
        "better on": number("wins", ","),
        "worse on": number("losses", ","),
        "questions": number("n", ","),
        "finding": verdict_text,
    }
    notes = (
        f"Sign-flip tests on the same questions. P-values are adjusted for {len(paired):,} tests by Holm's method; a "
        f"difference is shown where the interval excludes 0 and the adjusted p-value is below {SIGNIFICANT}; "
        "not worse: the interval lies above minus the margin.",
    )
    rows = {pair.replace(" vs ", " minus "): test for pair, test in paired.items()}
    return ResultTable.of("methods", rows, cells, notes, f"Paired tests of {metric}")


def game_table(game: Mapping[str, Any], metric: str) -> ResultTable:
    """Makes a row per defence: its scores without an attack, under each, and in its worst case."""
    rows = {name: {**row, **row["utilities"]} for name, row in game["defences"].items()}
    cells: dict[str, Cell] = {name: number(name, ".2f") for row in rows.values() for name in row["utilities"]}
    cells |= {"worst (95%)": lambda row: with_interval(row["worst"], row["ci95"]), "share": number("share", ".2f")}
    mixed = ", ".join(f"{name} {share:.2f}" for name, share in game["attacks"].items() if share)
    notes = (
        f"Value: {metric} {game['trained']:.3f} on training questions, {game['value']:.3f} on these.",
        f"Share: of a defence in the mix that is best in training. Against it attackers mix {mixed}.",
        f"Exploitability: {game['response']}, the best response to it, takes {game['exploitability']:.3f} more.",
        f"Adaptive: best responses to each defence. They take {game['gain']:.3f} more, as a mean, than other attacks.",
        *("{}: {response} takes {gain:.3f} more than {usual}.".format(name, **row) for name, row in rows.items()),
        "Worst: the lowest of a row; with a probability of .95 all intervals of the column are right.",
    )
    return ResultTable.of("defence", rows, cells, notes, f"{metric} of defences under attack")


def shared_notes(runs: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yields a note for each graph learned from another's discussions, whose tokens are counted there."""
    rows = [(method, row) for metrics in runs for method, row in metrics["methods"].items() if LEARNED_FROM in row]
    for method, source in dict.fromkeys((method, row[LEARNED_FROM]) for method, row in rows):
        yield f"{method} was learned from the discussions of {source}, whose tokens are counted there, once."
