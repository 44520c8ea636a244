"""Counts a run's turns by how they ended: read at once, read after a repair, not read, failed."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import pandas as pd

from experiments.analysis.result_table import ResultTable, cell_text
from experiments.records.failures import kind_of

ENDS = {
    "read_at_once": "read at once",
    "read_after_repair": "read after a repair",
    "unread": "not read",
    "failed": "failed",
}
MOST_REASONS = 12  # rows for one method; the rest are one row


@dataclass(frozen=True, slots=True)
class TurnCounts:
    """Turns for which a model was asked, by how they ended.

    turns: all of them, and the sum of `read_at_once`, `read_after_repair`, `unread` and `failed`.
    silent: turns that were read and stated nothing, since every field of theirs is optional.
    repairs: turns asked a second time for what could not be read of their first reply, however that ended.
    tokens: of all turns, prompt and completion.
    repair_tokens: of second replies; None where the trace of a repaired turn was written before they were counted.
    reasons: turns by why they failed or could not be read, with the numbers in a reason as N.
    failure: the commonest reason of failed turns.
    """

    turns: int
    read_at_once: int
    read_after_repair: int
    unread: int
    failed: int
    silent: int
    repairs: int
    tokens: int
    repair_tokens: int | None
    reasons: Mapping[str, int] = field(default_factory=dict)
    failure: str = ""

    @property
    def totals(self) -> dict[str, int | float]:
        """Totals in metrics.json. Repair tokens may not be known; silent turns are there where there are any."""
        counts: dict[str, int | float] = {
            "turns": self.turns,
            "read_at_once": self.read_at_once,
            "read_after_repair": self.read_after_repair,
            "repairs": self.repairs,
        }
        if self.silent:
            counts["silent_turns"] = self.silent
        if self.repair_tokens is not None:
            counts["repair_tokens"] = self.repair_tokens
            counts["repair_share"] = self.repair_tokens / max(1, self.tokens)
        return counts


def count_turns(turns: pd.DataFrame) -> TurnCounts:
    """Counts the turns of `PhaseTables`. A dummy agent has none, since no model is asked."""
    turns = turns[turns["asks"]]
    is_read = turns["read"]
    # Two calls are a repair in a trace that does not count its tokens; or an AutoGen agent called its model twice.
    repaired = (turns["repair_tokens"] > 0) | (turns["calls"] == 2)
    # A repair costs tokens; where none at all are counted, the model counts none.
    uncounted = repaired & (turns["tokens"] > 0) & (turns["repair_tokens"] == 0)
    silent = is_read & (turns["content"] == "") & turns["answer"].isna() & (turns["fields"].str.len() == 0)
    reasons = turns["error"][~is_read].map(kind_of)
    failures = _number_of_each(reasons[turns["failed"]])
    return TurnCounts(
        turns=len(turns),
        read_at_once=int((is_read & ~repaired).sum()),
        read_after_repair=int((is_read & repaired).sum()),
        unread=int((~is_read & ~turns["failed"]).sum()),
        failed=int(turns["failed"].sum()),
        silent=int(silent.sum()),
        repairs=int(repaired.sum()),
        tokens=int(turns["tokens"].sum()),
        repair_tokens=None if uncounted.any() else int(turns["repair_tokens"].sum()),
        reasons=_number_of_each(reasons),
        failure=next(iter(failures), ""),
    )


def _number_of_each(reasons: Iterable[str]) -> dict[str, int]:
    """Counts each reason. By number, then by text: the order of the traces must not show."""
    numbers = Counter(sorted(reasons))
    return dict(numbers.most_common())


def turns_table(phases: Mapping[str, TurnCounts]) -> ResultTable:
    """Makes the table of how turns ended, a row for each phase."""
    rows = []
    for label, counts in phases.items():
        numbers = [getattr(counts, name) for name in ENDS]
        ends = [f"{number:,} ({number / counts.turns:.1%})" for number in numbers]
        repairs = cell_text("{repair_tokens:,} ({repair_share:.1%})", counts.totals)
        rows.append((label, f"{counts.turns:,}", *ends, repairs))
    return ResultTable(("turns of", "turns", *ENDS.values(), "repair tokens"), rows, title="How turns ended")


def reasons_table(phases: Mapping[str, TurnCounts]) -> ResultTable:
    """Makes the table of reasons for turns that failed or were not read. The most frequent comes first."""
    rows = []
    for label, counts in phases.items():
        reasons = list(counts.reasons.items())
        rows += [(label, f"{number:,}", reason) for reason, number in reasons[:MOST_REASONS]]
        rare = [number for _, number in reasons[MOST_REASONS:]]
        if rare:
            rows.append((label, f"{sum(rare):,}", f"{len(rare):,} other reasons"))
    return ResultTable(("turns of", "turns", "reason"), rows, title="Why turns were not read or failed")
