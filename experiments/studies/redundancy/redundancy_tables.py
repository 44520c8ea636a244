"""Tables of redundancy.json: redundant edges by kind, learners' cuts, and graphs without these edges."""

from collections.abc import Iterator

from experiments.analysis.paired import verdicts
from experiments.analysis.result_table import ResultTable, cell_text, interval_form
from experiments.analysis.run_facts import Metrics, model_notes
from experiments.studies.redundancy.redundancy_summary import AT_ONCE, FULL, LEVEL

EDGES = {
    "number": "{edges:,}",
    "redundant": "{redundant:,}",
    "share": "{share:.0%}",
    "no answer\nchanged": "{no_answer_changed:,}",
    "harmful": "{harmful:,}",
    "useful": "{useful:,}",
    "largest\neffect": "{largest:.3f}",
}
CUTS = {
    "edges": "{edges:,}",
    "cut": "{cut:,}",
    "precision": "{precision:.2f}|-",
    "by chance (95%)": interval_form("chance", "chance95"),
    "recall": "{recall:.2f}|-",
    "rank\ncorr.": "{rank_correlation:.2f}|-",
}
MEASURED = (
    "Measured on {questions:,} questions of {dataset}, against the complete graph in the team's order: each agent "
    "hears all before it, and everyone's previous round; the decision agent reads everyone. Redundant: without the "
    "edge {metric} is as high or higher. Harmful: higher. Useful: lower."
)
SHOWN = (
    "After Holm's correction for {edges:,} edges (p < {level}), {useful_shown} edges are shown to help the final "
    "answer and {harmful_shown} to harm it. To be shown, an edge must change it the same way on {least} questions of "
    "{questions:,}."
)
RELIABLE = (
    "Two halves of the questions rank the edges' effects with a correlation of {rank_correlation}. Of the edges that "
    "are redundant in one half, {redundant_again} are so in the other (of all edges {redundant}); of the useful ones, "
    "{useful_again} (of all {useful}). No learner can be expected to agree with the measurement more than its halves "
    "do."
)


def redundancy_tables(metrics: Metrics) -> tuple[ResultTable, ...]:
    """Makes the tables: redundant edges by kind, learners' cuts, and graphs without these edges."""
    metric = metrics["metric"]
    learners = {
        f"{learner}, {kind}": row for learner, kinds in metrics["learners"].items() for kind, row in kinds.items()
    }
    graphs = {}
    for method, row in metrics["methods"].items():
        test = metrics["paired"].get(f"{method} vs {FULL}", {})
        graphs[method] = {**row, "saved": test.get("tokens_saved")}
    graph_cells = {
        "edges": "{edges:,.0f}",
        "readers": "{readers}",
        f"{metric} (95% interval)": interval_form("utility", "ci95"),
        f"{metric}, measured\nquestions": "{measured_utility:.3f}",
        "tokens": "{tokens:,.0f}",
        "saved": "{saved:.0%}",
    }
    title = f"What is left, on {metrics['held_out']:,} held-out questions"
    return (
        ResultTable.of("edges", metrics["kinds"], EDGES, title="Redundant edges (Definition 1)"),
        ResultTable.of("learner", learners, CUTS, title="Pruning against them"),
        ResultTable.of("graph", graphs, graph_cells, tuple(_notes(metrics)), title),
    )


def _notes(metrics: Metrics) -> Iterator[str]:
    metric = metrics["metric"]
    yield MEASURED.format(**metrics)
    yield SHOWN.format(
        level=LEVEL, least=metrics["least_questions"], questions=metrics["questions"], **metrics["kinds"]["all"]
    )
    shares = {name: cell_text(f"{{{name}:.1%}}|-", metrics["reliability"]) for name in metrics["reliability"]}
    correlation = cell_text("{rank_correlation:.2f}|-", metrics["reliability"])
    yield RELIABLE.format(**{**shares, "rank_correlation": correlation})
    at_once = metrics["paired"][f"{AT_ONCE} vs {FULL}"]
    yield (
        f"Without all redundant edges at once {at_once['tokens_saved']:.0%} of tokens go, and {metric} changes by "
        f"{at_once['difference']:+.3f} (held-out questions)."
    )
    yield from verdicts(metrics["paired"], metric)
    yield from model_notes(metrics["model"])
