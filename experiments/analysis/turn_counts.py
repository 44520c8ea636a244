"""Counts a run's turns by how they ended: read at once, read after a repair, not read, failed."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from actors.messages import Status, Trace
from experiments.analysis.result_table import ResultTable
from experiments.records.failures import kind_of
from experiments.records.recorder import RunFolder

HEADERS = ("turns of", "turns", "read at once", "read after a repair", "not read", "failed", "repair tokens")
REASONS = ("turns of", "turns", "reason")
MOST_REASONS = 12  # rows for one method; the rest are one row


@dataclass(slots=True)
class TurnCounts:
    """Turns for which a model was asked, by how they ended.

    turns: all of them, and the sum of `at_once`, `repaired`, `unread` and `failed`.
    silent: turns that were read and stated nothing, since every field of theirs is optional.
    repairs: turns asked a second time for what could not be read of their first reply, however that ended.
    tokens: of all turns, prompt and completion.
    repair_tokens: of second replies; None where the trace of a repaired turn was written before they were counted.
    reasons: turns by why they failed or could not be read, with the numbers in a reason as N.
    failure: the commonest reason of failed turns.
    """

    turns: int = 0
    at_once: int = 0
    repaired: int = 0
    unread: int = 0
    failed: int = 0
    silent: int = 0
    repairs: int = 0
    tokens: int = 0
    repair_tokens: int | None = 0
    reasons: Mapping[str, int] = field(default_factory=dict)
    failure: str = ""

    @property
    def repair_share(self) -> float | None:
        """Repair tokens as a share of all tokens."""
        return None if self.repair_tokens is None else self.repair_tokens / max(1, self.tokens)

    @property
    def totals(self) -> dict[str, int | float | None]:
        """Totals in metrics.json. Repair tokens may not be known; silent turns are there where there are any."""
        tokens = {"repair_tokens": self.repair_tokens, "repair_share": self.repair_share}
        return {
            "turns": self.turns,
            "read_at_once": self.at_once,
            "read_after_repair": self.repaired,
            "repairs": self.repairs,
            **({"silent_turns": self.silent} if self.silent else {}),
            **(tokens if self.repair_tokens is not None else {}),
        }


def count_turns(traces: Iterable[Trace]) -> TurnCounts:
    """Counts the turns of some discussions. A dummy agent has none, since no model is asked."""
    counts, known = TurnCounts(), True
    reasons, errors = Counter[str](), Counter[str]()
    for turn in (turn for trace in traces for turn in trace.turns if turn.calls or turn.status is not Status.OK):
        # Two calls are a repair in a trace that does not count its tokens; or an AutoGen agent called its model twice.
        repaired = turn.repair_tokens > 0 or turn.calls == 2
        cost, read = turn.tokens, turn.status is Status.OK
        # A repair costs tokens; where none at all are counted, the model counts none.
        known = known and not (repaired and cost and not turn.repair_tokens)
        counts.turns += 1
        counts.tokens += cost
        counts.repairs += repaired
        counts.repair_tokens = (counts.repair_tokens or 0) + turn.repair_tokens
        counts.at_once += read and not repaired
        counts.repaired += read and repaired
        counts.failed += turn.status is Status.FAILED
        counts.unread += turn.status is Status.UNPARSED
        counts.silent += read and not turn.states_anything
        if not read:
            reasons[kind_of(turn.error)] += 1
            errors[kind_of(turn.error)] += turn.status is Status.FAILED
    if not known:
        counts.repair_tokens = None
    # By number, then by text: the order of the traces must not show.
    counts.reasons = dict(sorted(reasons.items(), key=lambda counted: (-counted[1], counted[0])))
    counts.failure = min(errors, key=lambda error: (-errors[error], error)) if counts.failed else ""
    return counts


def by_phase(run: RunFolder, methods: Iterable[str], failed: bool = False) -> dict[str, TurnCounts]:
    """Counts the turns of each method, then of each stage of learning. Empty phases are left out.

    failed: only of phases in which a turn failed, which is found without decoding the others.
    """
    phases = {method: (run, f"evaluate-{method}") for method in methods}
    for graph in run.all_learned():
        for path in graph.training_traces():
            phases[f"learning {graph.name}, stage {path.stem.removeprefix('train-')}"] = graph, path.stem
    counts = {
        label: count_turns(folder.traces(phase))
        for label, (folder, phase) in phases.items()
        if not failed or folder.failed(phase)
    }
    return {label: of_phase for label, of_phase in counts.items() if of_phase.turns}


def turns_table(phases: Mapping[str, TurnCounts]) -> ResultTable:
    """Makes the table of how turns ended, a row for each phase."""

    def cells(counts: TurnCounts) -> Iterator[str]:
        yield f"{counts.turns:,}"
        for ended in (counts.at_once, counts.repaired, counts.unread, counts.failed):
            yield f"{ended:,} ({ended / counts.turns:.1%})"
        # Empty where they are not known.
        yield "" if counts.repair_share is None else f"{counts.repair_tokens:,} ({counts.repair_share:.1%})"

    return ResultTable(HEADERS, [(label, *cells(counts)) for label, counts in phases.items()], title="How turns ended")


def reasons_table(phases: Mapping[str, TurnCounts]) -> ResultTable:
    """Makes the table of reasons for turns that failed or were not read. The most frequent comes first."""
    rows: list[tuple[str, str, str]] = []
    for label, counts in phases.items():
        counted = list(counts.reasons.items())
        rows += [(label, f"{n:,}", reason) for reason, n in counted[:MOST_REASONS]]
        if rest := counted[MOST_REASONS:]:
            rows.append((label, f"{sum(n for _, n in rest):,}", f"{len(rest):,} other reasons"))
    return ResultTable(REASONS, rows, title="Why turns were not read or failed")
