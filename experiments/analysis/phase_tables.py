"""The discussions of one phase as frames: the users' tables, with what several summaries read of each turn."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache

import pandas as pd

from actors.messages import Status, Trace
from experiments.analysis.arrow_tables import trace_table
from experiments.datasets.item import Item, Score
from topologies.answers import ballot


@dataclass(frozen=True, slots=True)
class PhaseTables:
    """Discussions in the order of their file, and their turns. A utility is NaN where the question is unknown.

    discussions: a row each, with a defence's `weights` and `suspicion`, the utility of the `answer`, and what was
        `asked`: the question, or the one of which it is a variant.
    turns: a row each. Further columns are its `place` in the discussion; its `tokens`; if it `asks` a model; if it is
        `read`, `failed`, and has `answered` or given reasons for having no answer (a step of a system has fields
        instead); and of such an answer the `utility` and the `ballot`, the form in which answers are compared.
    """

    discussions: pd.DataFrame
    turns: pd.DataFrame

    @property
    def failed(self) -> pd.Series:
        """True for each discussion in which a turn failed."""
        return self.discussions["line"].isin(self.turns["line"][self.turns["failed"]])


def phase_tables(
    traces: Iterable[Trace],
    items: Mapping[str, Item] | None = None,
    score: Callable[[Item, str | None], Score] | None = None,
) -> PhaseTables:
    """Makes the tables of some discussions. items: by question id. score: the data set's."""
    traces = list(traces)
    items = items or {}
    discussions = trace_table("discussions", lambda: [("", "", traces)]).to_pandas()
    discussions["weights"] = [trace.weights for trace in traces]
    discussions["suspicion"] = [trace.suspicion for trace in traces]
    groups = {question: item.group or question for question, item in items.items()}
    discussions["asked"] = [groups.get(trace.question, trace.question) for trace in traces]

    turns = trace_table("turns", lambda: [("", "", traces)]).to_pandas()
    turns["place"] = turns.groupby("line").cumcount()
    turns["tokens"] = turns["prompt_tokens"] + turns["completion_tokens"]
    turns["read"] = turns["status"] == Status.OK
    turns["failed"] = turns["status"] == Status.FAILED
    # A dummy agent asks no model.
    turns["asks"] = (turns["calls"] > 0) | ~turns["read"]
    has_reasons = (turns["content"] != "") & (turns["fields"].str.len() == 0)
    turns["answered"] = turns["read"] & (turns["answer"].notna() | has_reasons)

    # Once for equal answers: agents repeat each other's, and scoring lists takes long.
    @cache
    def utility_and_ballot(question: str, answer: str | None) -> tuple[float, str | None]:
        if score is None or question not in items:
            return math.nan, None
        item = items[question]
        return score(item, answer).utility, ballot(item.question, answer)

    for table in (discussions, turns):
        answers = table["answer"].astype(object).where(table["answer"].notna(), None)
        scored = map(utility_and_ballot, table["question"], answers)
        table[["utility", "ballot"]] = pd.DataFrame(scored, table.index, ["utility", "ballot"])
    turns.loc[~turns["answered"], ["utility", "ballot"]] = None
    return PhaseTables(discussions, turns)
