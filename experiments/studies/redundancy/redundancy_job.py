"""`job=redundancy`: measures which edges can go (Definition 1). Learners' cuts are compared with them."""

import json
from collections.abc import Iterator

from experiments.analysis.result_table import ResultTable, number, with_interval
from experiments.analysis.summary import Metrics, model_notes, verdicts
from experiments.datasets.item import Dataset
from experiments.planning.plan import Plan
from experiments.records import usage
from experiments.records.recorder import RunFolder
from experiments.records.tracking import Tracker
from experiments.running.discussion_job import DiscussionJob
from experiments.running.discussions import Discussions
from experiments.studies.redundancy.redundancy_summary import FILE, LEVEL, write
from experiments.studies.redundancy.removal import AT_ONCE, FULL, Redundancy


class RedundancyJob(DiscussionJob):
    """Learns graphs, then takes every edge of the full graph away in turn."""

    name = "redundancy"
    reads = (*DiscussionJob.reads, "ablation", "topology", "learner", "judge", "judge_rubric", "redundancy")
    asks_team = True
    holds_out = True

    async def discuss(self, discussions: Discussions) -> None:
        await discussions.prepare()
        config = discussions.context.config
        write(discussions.context, await Redundancy(discussions, config.redundancy.questions).run())

    def conclude(self, plan: Plan, folder: RunFolder, dataset: Dataset, tracker: Tracker) -> bool:
        """Draws the figure, logs the W&B summary and prints the tables, from redundancy.json."""
        from experiments.studies.redundancy.redundancy_figure import draw  # imports matplotlib

        metrics = json.loads((folder.path / FILE).read_text())
        drawn = draw(folder, metrics)
        spent = usage.total(folder)
        # Put among the paired tests, which the tracker logs unchanged.
        groups = {f"redundancy/{kind}": row for kind, row in metrics["kinds"].items()}
        for learner, kinds in metrics["learners"].items():
            groups |= {f"redundancy/{learner}/{kind}": row for kind, row in kinds.items()}
        tracker.summary({**metrics, "paired": {**metrics["paired"], **groups}}, drawn, spent)
        print()
        # Costs belong below the last table, after its notes.
        *before, last = tables(metrics)
        for table in before:
            table.print()
        last.print(further=usage.notes(spent))
        return True


def tables(metrics: Metrics) -> tuple[ResultTable, ...]:
    """Makes the tables: redundant edges by kind, learners' cuts, and graphs without these edges."""
    metric, paired = metrics["metric"], metrics["paired"]
    learners = {
        f"{learner}, {kind}": row for learner, kinds in metrics["learners"].items() for kind, row in kinds.items()
    }
    graphs = {
        method: {**row, "saved": paired.get(f"{method} vs {FULL}", {}).get("tokens_saved")}
        for method, row in metrics["methods"].items()
    }
    return (
        ResultTable.of(
            "edges",
            metrics["kinds"],
            {
                "number": number("edges", ","),
                "redundant": number("redundant", ","),
                "share": number("share", ".0%"),
                "no answer\nchanged": number("no_answer_changed", ","),
                "harmful": number("harmful", ","),
                "useful": number("useful", ","),
                "largest\neffect": number("largest"),
            },
            title="Redundant edges (Definition 1)",
        ),
        ResultTable.of(
            "learner",
            learners,
            {
                "edges": number("edges", ","),
                "cut": number("cut", ","),
                "precision": number("precision", ".2f", "-"),
                "by chance (95%)": lambda row: with_interval(row["chance"], row["chance95"]),
                "recall": number("recall", ".2f", "-"),
                "rank\ncorr.": number("rank_correlation", ".2f", "-"),
            },
            title="Pruning against them",
        ),
        ResultTable.of(
            "graph",
            graphs,
            {
                "edges": number("edges", ",.0f"),
                "readers": number("readers", ""),
                f"{metric} (95% interval)": lambda row: with_interval(row["utility"], row["ci95"]),
                f"{metric}, measured\nquestions": number("measured_utility"),
                "tokens": number("tokens", ",.0f"),
                "saved": number("saved", ".0%"),
            },
            tuple(_notes(metrics)),
            f"What is left, on {metrics['held_out']:,} held-out questions",
        ),
    )


def _notes(metrics: Metrics) -> Iterator[str]:
    n, every, metric = metrics["questions"], metrics["kinds"]["all"], metrics["metric"]
    yield (
        f"Measured on {n:,} questions of {metrics['dataset']}, against the complete graph in the team's order: each "
        "agent hears all before it, and everyone's previous round; the decision agent reads everyone. Redundant: "
        f"without the edge {metric} is as high or higher. Harmful: higher. Useful: lower."
    )
    yield (
        f"After Holm's correction for {every['edges']:,} edges (p < {LEVEL}), {every['useful_shown']} edges are shown "
        f"to help the final answer and {every['harmful_shown']} to harm it. To be shown, an edge must change it the "
        f"same way on {metrics['least_questions']} questions of {n:,}."
    )
    half = metrics["reliability"]
    share = {name: number(name, ".1%", "-")(half) for name in half}
    yield (
        "Two halves of the questions rank the edges' effects with a correlation of "
        f"{number('rank_correlation', '.2f', '-')(half)}. Of the edges that are redundant in one half, "
        f"{share['redundant_again']} are so in the other (of all edges {share['redundant']}); of the useful ones, "
        f"{share['useful_again']} (of all {share['useful']}). No learner can be expected to agree with the measurement "
        "more than its halves do."
    )
    at_once = metrics["paired"][f"{AT_ONCE} vs {FULL}"]
    yield (
        f"Without all redundant edges at once {at_once['tokens_saved']:.0%} of tokens go, and {metric} changes by "
        f"{at_once['difference']:+.3f} (held-out questions)."
    )
    yield from verdicts(metrics["paired"], metric)
    yield from model_notes(metrics["model"])
