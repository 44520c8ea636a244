"""Gains of methods over their controls, and each method's number of independent agents."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from experiments.analysis.intervals import Clusters, cluster_totals
from experiments.analysis.paired import differences, paired_tests
from experiments.analysis.phase_tables import PhaseTables
from experiments.analysis.result_table import ResultTable
from experiments.analysis.rounding import rounded
from experiments.analysis.run_facts import Metrics, RunFacts
from experiments.analysis.scores import by_method, sound
from experiments.records.recorder import RunFolder
from topologies.wiring import Floats

SAME_TOKENS = 0.02  # largest relative difference between a method's tokens and its twin's that allows a comparison
CELLS = {
    "tokens\nof twin": "{tokens_ratio:.3f}|-",
    "twin": "{twin_score:.3f}",
    "coordination gain\n(95% interval)": "{twin[difference]:+.3f} ({twin[ci95][0]:+.3f} to {twin[ci95][1]:+.3f})|-",
    "coord.\np": "{twin[p_holm]:.2g}|-",
    "placebo": "{placebo_score:.3f}",
    "hearing gain\n(95% interval)": (
        "{placebo[difference]:+.3f} ({placebo[ci95][0]:+.3f} to {placebo[ci95][1]:+.3f})|-"
    ),
    "hearing\np": "{placebo[p_holm]:.2g}|-",
    "agents": "{agents:.3g}|-",
    "inde-\npendent": "{independent:.1f}|-",
}
SPARE = ("twin", "placebo", "hearing\np", "coord.\np", "tokens\nof twin")
NOTES = (
    "Coordination gain: the method minus its twin, a vote of one agent's samples with the same tokens. Hearing gain: "
    "minus its placebo, whose agents hear messages of another question. Independent: agents whose errors, if "
    "independent, would cancel as the team's do, by last answers.",
)


def summarise(
    run: RunFolder,
    facts: RunFacts,
    controls: Mapping[str, Mapping[Any, str]],
    independent: Mapping[str, Metrics],
    hearing: Collection[str],
) -> Metrics:
    """Returns each method's gains and how independent its agents are, for metrics.json.

    - `tokens_ratio`: the twin's tokens over the method's, on questions that both answered without failure. Beyond 2% of
      difference there is no coordination gain: the method is cheaper than one sample, or the questions are few.
    - `first`, `last`: `independent_agents`, by agents' first and last answers.
    - `paired`: the tests of all gains, adjusted for their number together.

    independent: the `independence` of each method. hearing: methods that hear anything; others have no hearing gain.
    """
    answers = sound(by_method(run, failed=True), facts.failures)
    rows: dict[str, Metrics] = {}
    pairs: list[tuple[str, str]] = []
    for method, names in controls.items():
        twin_tokens = answers[names["twin"]]["tokens"].rename("tokens_twin")
        tokens = answers[method][["tokens"]].join(twin_tokens, how="inner").sum()
        ratio = float(tokens["tokens_twin"] / tokens["tokens"]) if tokens["tokens"] else None
        if ratio is not None and abs(ratio - 1) <= SAME_TOKENS:
            pairs.append((method, names["twin"]))
        if method in hearing:
            pairs.append((method, names["placebo"]))
        rows[method] = {**names, "tokens_ratio": ratio, **independent[method]}
    return {
        "methods": rounded(rows),
        "paired": paired_tests(
            answers,
            pairs,
            facts.seed,
            purpose="gains",
            margin=facts.margin,
        ),
    }


def control_names(metrics: Metrics) -> Iterator[str]:
    """Yields the names of all twins and placebos in metrics.json."""
    for row in metrics.get("gains", {"methods": {}})["methods"].values():
        yield from (row["twin"], row["placebo"])


def hears(tables: PhaseTables) -> bool:
    """True if an agent read a message of another one."""
    messages = tables.turns[["agent", "heard"]].explode("heard").dropna()
    return bool((messages["heard"].str.split("/", n=1).str[1] != messages["agent"]).any())


def independence(tables: PhaseTables) -> dict[str, dict[str, float | None]]:
    """Computes `independent_agents` by the `first` and the `last` answers of the team's agents."""
    members = tables.discussions[["line", "agents"]].explode("agents")
    turns = tables.turns[tables.turns["answered"]]
    answers = turns.merge(members, left_on=["line", "agent"], right_on=["line", "agents"])
    by_place = {}
    for place in ("first", "last"):
        own_answers = answers.drop_duplicates(["line", "agent"], keep=place)
        by_place[place] = independent_agents(own_answers["utility"].to_numpy(), own_answers["line"].to_numpy())
    return by_place


def independent_agents(scores: Floats, discussions: Clusters) -> dict[str, float | None]:
    """The mean number n of `agents`, the `correlation` rho of their scores, and the number of `independent` ones. That
    is n / (1 + (n - 1) rho), n over the design effect (Kish 1965).

    The mean score of so many independent agents would vary as much as that of these n. rho is Fisher's intraclass
    correlation (1925): the mean product of two agents' deviations from the mean of all, over their mean square. It
    counts 0 below 0. None where no discussion has two agents, or all scores are equal.

    scores: of each agent, float [agents]; discussions: that it took part in, [agents].
    """
    if not len(scores):
        return {"agents": None, "correlation": None, "independent": None}
    deviations = scores - scores.mean()
    sums, sizes = cluster_totals(deviations, discussions)
    squares, _ = cluster_totals(deviations**2, discussions)
    n = float(sizes.mean())
    largest = float(((sizes - 1) * squares).sum())
    if largest < 1e-9:
        return {"agents": n, "correlation": None, "independent": None}
    rho = float((sums**2 - squares).sum()) / largest
    return {"agents": n, "correlation": rho, "independent": n / (1 + (n - 1) * max(0.0, rho))}


def gains_table(metrics: Metrics) -> ResultTable:
    """Makes a row for each method that has controls."""
    gains = metrics["gains"]
    rows: dict[str, Metrics] = {}
    for method, gain in gains["methods"].items():
        row = {**gain["last"], "tokens_ratio": gain["tokens_ratio"]}
        for kind in ("twin", "placebo"):
            control = gain[kind]
            row[kind] = gains["paired"].get(f"{method} vs {control}")
            row[f"{kind}_score"] = metrics["methods"][control]["utility"]
        rows[method] = row

    notes = [*NOTES, *differences(gains["paired"], metrics["methods"])]
    for method, row in rows.items():
        if row["twin"] is None:
            notes.append(f"{method} has no coordination gain: its twin has not the same tokens within 2%.")
    return ResultTable.of(
        "method",
        rows,
        CELLS,
        notes=notes,
        title=f"Gains in {metrics['metric']}",
        spare=SPARE,
    )
