"""Rows of agents: who is right, convinces, misleads, is heard and costs what; in agents.jsonl and as tables.

Agents of a system are its steps. An agent contributes where a colleague hears it and takes over its answer in place of
its own earlier one. That is what a team takes over, not what it would do without the agent, which `job=redundancy` and
the learner `effects` measure.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from actors.messages import Message, Status, Trace
from experiments.analysis.result_table import ResultTable, tenths
from experiments.analysis.summary import rounded
from experiments.datasets.item import Dataset, Item, Score
from experiments.records import jsonl
from experiments.records.jsonl import DAMAGED
from experiments.records.recorder import RunFolder
from experiments.records.records import Count, FileName, Record, Share
from experiments.records.run_files import write_atomically
from topologies.answers import ballot

FILE = "agents.jsonl"
MOST_ROWS = 24  # of a table; the best and the worst of a large team
MOST_ROUNDS = 4  # in a cell
HEADERS = (
    *("agent", "contribution", "right by round", "changed for better", "changed for worse", "heard by", "convinced"),
    *("misled", "tokens", "failed turns"),
)
NOTES = (
    "Right: mean score of its answers by the data set's metric. Changed: turns whose answer scores more, or less, than "
    "the agent's one before. Heard by: other agents that read one of its messages, on average. Convinced: colleagues "
    "that took over its answer in place of one of a lower score; misled: of a higher score. Contribution: convinced "
    "minus misled, per question. Tokens are per question.",
)


@dataclass(frozen=True, slots=True)
class AgentRow(Record):
    """An agent in the evaluated discussions of a method; counts are sums over them.

    Attributes:
        discussions: those in which it took a turn; attacked: those in which it was compromised.
        right: mean score of the answers in its first turn of a discussion, its second, and so on, which are the rounds
            of a team. None where none of these turns answers, as steps of systems may do.
        better, worse: turns whose answer scores more, or less, than the agent's answer before.
        heard: times that another agent read a message of it.
        convinced, misled: turns of others that heard it and took over its answer, which scores more, or less, than the
            other's answer before.
        decides: it took the last turn of a discussion, which is the team's answer.
    """

    method: FileName
    agent: str
    discussions: Count
    attacked: Count
    turns: Count
    failed_turns: Count
    tokens: Count
    right: tuple[Share | None, ...]
    better: Count
    worse: Count
    heard: Count
    convinced: Count
    misled: Count
    decides: bool

    @property
    def contribution(self) -> float:
        """Colleagues that it convinced minus those that it misled, per discussion."""
        return (self.convinced - self.misled) / max(1, self.discussions)


@dataclass(slots=True)
class _Counts:
    counted: Counter[str] = field(default_factory=Counter)
    scores: dict[int, list[float]] = field(default_factory=dict)  # by its turn of a discussion, from 1
    place: float = math.inf  # of its first turn among all turns


def agent_rows(
    method: str, traces: Iterable[Trace], items: Mapping[str, Item], score: Callable[[Item, str | None], Score]
) -> list[AgentRow]:
    """Makes a row per agent in one pass over a method's discussions, the largest contribution first.

    items: by question id; a discussion of another question is left out. score: the data set's.
    """
    known: dict[tuple[str, str | None], float] = {}
    found: dict[str, _Counts] = {}

    def utility(question: str, answer: str | None) -> float:
        # Agents repeat each other's answers, and scoring lists takes longer than looking up.
        if (question, answer) not in known:
            known[question, answer] = score(items[question], answer).utility
        return known[question, answer]

    def same(item: Item, answer: str | None, other: str | None) -> bool:
        return answer is not None and ballot(item.question, answer) == ballot(item.question, other)

    for trace in (trace for trace in traces if trace.turns and trace.question in items):
        item, said = items[trace.question], {turn.id: turn for turn in trace.turns}
        before: dict[str, Message] = {}
        taken = Counter[str]()
        # An agent whose edges are all pruned may take no turn.
        for agent in {*trace.agents, *(turn.agent for turn in trace.turns)}:
            found.setdefault(agent, _Counts()).counted["attacked"] += agent in trace.attacked
        found[trace.turns[-1].agent].counted["decides"] += 1
        for place, turn in enumerate(trace.turns):
            own = found[turn.agent]
            own.place = min(own.place, place)
            own.counted["discussions"] += not taken[turn.agent]
            taken[turn.agent] += 1
            tokens = turn.prompt_tokens + turn.completion_tokens
            own.counted.update(turns=1, tokens=tokens, failed_turns=turn.status is not Status.OK)
            gained = 0.0
            if _answers(turn):
                now = utility(trace.question, turn.answer)
                own.scores.setdefault(taken[turn.agent], []).append(now)
                earlier = before.get(turn.agent)
                gained = now - utility(trace.question, earlier.answer) if earlier else 0.0
                own.counted.update(better=gained > 0, worse=gained < 0)
                before[turn.agent] = turn
            others = [said[id] for id in turn.heard if id in said and said[id].agent != turn.agent]
            for message in others:
                found[message.agent].counted["heard"] += 1
            # Once for each colleague, of whom two messages may be heard.
            agreeing = {message.agent for message in others if same(item, message.answer, turn.answer)}
            for agent in agreeing if gained else ():
                found[agent].counted["convinced" if gained > 0 else "misled"] += 1
    # Steps of a system that contribute alike stay in their order; that of the discussions must not show.
    by_place = sorted(found.items(), key=lambda one: (one[1].place, one[0]))
    rows = [_row(method, agent, counts) for agent, counts in by_place]
    return sorted(rows, key=lambda row: (row.decides, not row.turns, -row.contribution))


def _answers(turn: Message) -> bool:
    # A step of a system has fields and no answer; an agent that knows no answer has its reasons alone.
    return turn.status is Status.OK and (turn.answer is not None or bool(turn.content and not turn.fields))


def _row(method: str, agent: str, counts: _Counts) -> AgentRow:
    # `fsum`: the order of the discussions must not show.
    means = {number: rounded(math.fsum(of) / len(of)) for number, of in counts.scores.items()}
    right = tuple(means.get(number) for number in range(1, max(means, default=0) + 1))
    names = [name for name in AgentRow.__slots__ if name not in ("method", "agent", "right", "decides")]
    numbers = {name: counts.counted[name] for name in names}
    return AgentRow(method, agent, right=right, decides=counts.counted["decides"] > 0, **numbers)


def write(run: RunFolder, methods: Iterable[str], dataset: Dataset) -> None:
    """Writes agents.jsonl of a run's methods. Raises OSError without room."""
    items = {item.question.id: item for item in dataset.evaluate()}
    rows = [
        row for method in methods for row in agent_rows(method, run.traces(f"evaluate-{method}"), items, dataset.score)
    ]
    write_atomically(run.path / FILE, "".join(f"{row.encode()}\n" for row in rows).encode())


def read(run: RunFolder) -> Iterator[AgentRow]:
    """The rows of a run, none before its end. Raises UserError where the file is damaged."""
    return jsonl.records(run.path / FILE, AgentRow.decode, DAMAGED)


def agent_tables(rows: Iterable[AgentRow]) -> list[ResultTable]:
    """Makes a table for each method of several agents, with a sentence on which of them are of use."""
    by_method: dict[str, list[AgentRow]] = {}
    for row in rows:
        by_method.setdefault(row.method, []).append(row)
    teams = {method: of for method, of in by_method.items() if len(of) > 1}
    tables = [
        ResultTable(HEADERS, [_cells(row) for row in _ends(of)], list(_sentences(of)), f"Agents of {method}")
        for method, of in teams.items()
    ]
    return [replace(table, notes=[*table.notes, *(NOTES if not i else ())]) for i, table in enumerate(tables)]


def _ends(rows: Sequence[AgentRow]) -> Sequence[AgentRow]:
    half = MOST_ROWS // 2
    return rows if len(rows) <= MOST_ROWS else [*rows[:half], *rows[-half:]]


def _cells(row: AgentRow) -> tuple[str, ...]:
    name = f"{row.agent} (attacked)" if row.attacked else row.agent
    if not row.turns:
        return (name, "no turn", *[""] * (len(HEADERS) - 2))
    right = ["-" if share is None else f"{share:.2f}" for share in row.right]
    if len(right) > MOST_ROUNDS:
        right = [*right[: MOST_ROUNDS - 1], "...", right[-1]]
    counts = (row.better, row.worse, row.heard / row.turns, row.convinced, row.misled)
    contribution = f"{row.contribution:+.2f}" if row.heard else ""
    tokens = f"{row.tokens / row.discussions:,.0f}"
    return (name, contribution, ", ".join(right), *map(tenths, counts), tokens, f"{row.failed_turns:,}")


def _sentences(rows: Sequence[AgentRow]) -> Iterator[str]:
    """Names the agents that contribute most and least, those of no use, and those that no other hears."""
    team = [row for row in rows if row.turns and not row.decides]
    if len(rows) > MOST_ROWS:
        yield f"These are the first and last of {len(rows):,} agents; {FILE} has all."
    if any(row.convinced or row.misled for row in team):
        best, worst = team[0], team[-1]
        yield (
            f"{best.agent} contributes most ({best.contribution:+.2f} colleagues per question), {worst.agent} least "
            f"({worst.contribution:+.2f})."
        )
        if useless := [row.agent for row in team if row.heard and row.contribution <= 0]:
            yield f"Heard and of no use (contribution 0 or less): {', '.join(useless[:MOST_ROWS])}."
    else:
        yield "No agent changed its answer to one that it had heard, so that contributions do not rank them."
    if unheard := [row.agent for row in team if not row.heard]:
        yield f"Heard by no other agent: {', '.join(unheard[:MOST_ROWS])}."
    if silent := [row.agent for row in rows if not row.turns]:
        yield f"Left out by the graph, without a turn: {', '.join(silent[:MOST_ROWS])}."
