"""metrics.json from the records alone.

It holds no times, and its sums do not depend on the order of the records, so that one seed gives one file at any
concurrency and after any crash.
"""

import json

import pandas as pd

from actors.messages import derive_seed
from experiments.analysis.discussion_records import DiscussionRecords, read_discussions
from experiments.analysis.paired import paired_tests
from experiments.analysis.rounding import rounded
from experiments.analysis.run_facts import Metrics, RunFacts
from experiments.analysis.scores import COSTS, by_method, by_tag, mean_and_interval, sound
from experiments.attacks.attack_metrics import attackers_found, mean_by_round
from experiments.metrics.answer_metrics import PATH_METRICS
from experiments.records.recorder import RunFolder
from experiments.records.run_files import write_atomically
from experiments.records.trials import LEARNED_FROM

CERTIFIED = {f"certified_{f}": f for f in (1, 2)}  # certified accuracy, by the number of agents that may say anything
TROUBLES = ("failed_turns", "cut_turns")  # totals; `COSTS` are means per question


def summarise(run: RunFolder, facts: RunFacts, discussions: DiscussionRecords | None = None) -> Metrics:
    """Returns metrics.json as a dict.

    - A row has `cut_turns` where any method had one, and `strict_em` and the certified accuracies where all of the
      method's answers have them.
    - `parts` are the means `by_tag`.
    - `clean` has the names of the methods' evaluations without the attack, `attackers` those of compromised agents,
      where there are any.
    - `failures` has the phases in which turns failed. Failed questions are in no mean; a method with more of them than
      `facts.failures` has no means (None) and is in no pair.

    discussions: of these methods, where they are read already.

    Raises ValueError unless all methods have answered the same questions, one at least.
    """
    recorded_answers = by_method(run, failed=True)
    no_answers = pd.DataFrame(columns=["failed_calls", "cut_turns", "tags"])
    answers = {method: recorded_answers.get(method, no_answers) for method in facts.methods}
    questions = answers[facts.methods[0]].index
    for method, method_answers in answers.items():
        if not len(questions) or not method_answers.index.equals(questions):
            raise ValueError(
                f"{method} has answered {len(method_answers)} questions, {facts.methods[0]} {len(questions)}"
            )

    discussions = discussions or read_discussions(run, facts.methods)
    conclusive = sound(answers, facts.failures)
    # Shown for all methods or for none: a table needs the same columns in every row.
    cut = any(method_answers["cut_turns"].any() for method_answers in answers.values())
    troubles = TROUBLES if cut else ("failed_turns",)
    rows = {}
    for method, method_answers in answers.items():
        graph = run.learned(method)
        row = _means(method, conclusive[method], facts.seed)
        row |= {name: int(method_answers[name].sum()) for name in troubles}
        row |= discussions.counts[method].totals
        row |= _training(graph)
        # Only a learned graph ranks edges, and only under attack is there a rank to check.
        row |= attackers_found(graph.path)
        row |= discussions.costs[method]
        rows[method] = rounded(row)

    failures: dict[str, Metrics] = {}
    for phase, counts in discussions.counts.items():
        if counts.failed:
            failures[phase] = {"turns": counts.turns, "failed": counts.failed, "reason": counts.failure}
            if phase in answers:
                failures[phase]["questions"] = int((answers[phase]["failed_calls"] > 0).sum())
                failures[phase]["concluded"] = bool(len(conclusive[phase]))
    tags = answers[facts.methods[0]]["tags"].map(dict).to_dict()
    optional = {
        "clean": dict(facts.clean),
        "attackers": list(facts.attackers),
        "parts": rounded(by_tag(conclusive, tags)),
        "failures": failures,
    }
    return {
        "experiment": facts.experiment,
        "model": facts.model,
        "dataset": facts.dataset,
        "metric": facts.metric,
        "questions": len(questions),
        "methods": rows,
        "paired": paired_tests(
            conclusive,
            facts.pairs,
            facts.seed,
            purpose="paired",
            margin=facts.margin,
        ),
        **{name: value for name, value in optional.items() if value},
    }


def write(run: RunFolder, metrics: Metrics) -> bool:
    """Writes metrics.json into the run folder, whole or not at all. Returns False where it is there already."""
    content = (json.dumps(metrics, indent=2) + "\n").encode()
    if run.metrics.is_file() and run.metrics.read_bytes() == content:
        return False
    write_atomically(run.metrics, content)
    return True


def _means(method: str, answers: pd.DataFrame, seed: int) -> Metrics:
    if not len(answers):
        return dict.fromkeys(("utility", "ci95", "f1", *COSTS))
    row: Metrics = {}
    row["utility"], row["ci95"] = mean_and_interval(answers, derive_seed(seed, "bootstrap", method))
    # A mean over some of the questions could not be compared with one over all of them; older records lack it.
    if answers["certified"].notna().all():
        for name, number in CERTIFIED.items():
            # An answer that so many agents could change counts 0, right or not.
            row[name] = answers["utility"].where(answers["certified"] >= number, 0.0).mean()
    if answers["strict_em"].notna().all():
        draws = derive_seed(seed, "bootstrap strict_em", method)
        row["strict_em"], row["strict_em_ci95"] = mean_and_interval(answers, draws, "strict_em")
    row |= answers[["f1", *COSTS]].mean()
    # An attack with a target, over the questions that have one: None, not 0, where a question had none.
    attacked = answers[answers["attack_success"].notna()]
    if len(attacked):
        draws = derive_seed(seed, "attack success", method)
        row["attack_success"], row["attack_success_ci95"] = mean_and_interval(attacked, draws, "attack_success")
        row["infection"] = mean_by_round(list(attacked["infection"]))
        if attacked["carried"].map(len).any():
            row["carried"] = mean_by_round(list(attacked["carried"]))
    # Each over the questions that have it.
    row |= answers[list(PATH_METRICS)].mean().dropna()
    return row


def _training(graph: RunFolder) -> Metrics:
    """Training tokens of a method's graph, and the method with whose discussions it was learned.

    Empty where nothing was learned, or older records lack it. Discussions of another method are counted there.
    """
    steps = [step for step in graph.learning() if "tokens" in step.terms]
    if not steps:
        return {}
    row = {"training_tokens": int(sum(step.terms["tokens"] for step in steps))}
    optional = {
        # Its last steps may be its own, to confirm the graph.
        LEARNED_FROM: next((step.source for step in steps if step.source), ""),
        "confirmed": next((step.confirmed for step in steps if step.confirmed), ""),
        "doubts": list(steps[-1].doubts),
    }
    return row | {name: value for name, value in optional.items() if value}
