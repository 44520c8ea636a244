"""Agents in a row each: who is right, convinces, misleads, and costs what. They are in agents.jsonl and in tables.

Agents of a system are its steps. An agent contributes where a colleague hears it and takes over its answer in place of
its own earlier one. That is what a team takes over, not what it would do without the agent, which `job=redundancy` and
the learner `effects` measure.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import pandas as pd

from experiments.analysis.phase_tables import PhaseTables
from experiments.analysis.result_table import ResultTable
from experiments.analysis.rounding import rounded
from experiments.records import jsonl
from experiments.records.jsonl import DAMAGED
from experiments.records.recorder import RunFolder
from experiments.records.records import Count, FileName, Record, Share
from experiments.records.run_files import write_atomically

FILE = "agents.jsonl"
MOST_ROWS = 24  # of a table; the best and the worst of a large team
MOST_ROUNDS = 4  # in a cell
CELLS = {
    "contribution": "{contribution}",
    "right by round": "{right}",
    "changed for better": "{agent.better:tenths}",
    "changed for worse": "{agent.worse:tenths}",
    "heard by": "{agent.readers:tenths}",
    "convinced": "{agent.convinced:tenths}",
    "misled": "{agent.misled:tenths}",
    "tokens": "{agent.tokens_per_question:,.0f}",
    "failed turns": "{agent.failed_turns:,}",
}
NOTE = (
    "Right: mean score of its answers by the data set's metric. Changed: turns whose answer scores more, or less, than "
    "the agent's one before. Heard by: other agents that read one of its messages, on average. Convinced: colleagues "
    "that took over its answer in place of one of a lower score; misled: of a higher score. Contribution: convinced "
    "minus misled, per question. Tokens are per question."
)


@dataclass(frozen=True, slots=True)
class AgentRow(Record):
    """An agent of a method: sums over the evaluated discussions in which it spoke.

    attacked: discussions in which it was compromised, with or without a turn.
    right: mean score of the answers in its first turn of a discussion, its second, and so on, which are the rounds of a
        team. None where none of these turns answers, as steps of systems may do.
    heard: times that another agent read a message of it.
    decides: it took the last turn of a discussion, which is the team's answer.
    """

    method: FileName
    agent: str
    right: tuple[Share | None, ...]
    decides: bool
    discussions: Count = 0
    attacked: Count = 0
    turns: Count = 0
    failed_turns: Count = 0
    tokens: Count = 0
    better: Count = 0
    worse: Count = 0
    heard: Count = 0
    convinced: Count = 0
    misled: Count = 0

    @property
    def contribution(self) -> float:
        """Returns colleagues convinced minus colleagues misled, per discussion."""
        return (self.convinced - self.misled) / max(1, self.discussions)

    @property
    def readers(self) -> float:
        """Returns the number of agents that read one of its messages, on average."""
        return self.heard / max(1, self.turns)

    @property
    def tokens_per_question(self) -> float:
        return self.tokens / max(1, self.discussions)


def agent_rows(method: str, tables: PhaseTables) -> list[AgentRow]:
    """Makes a row per agent, from tables with utilities. The largest contribution comes first."""
    discussions = tables.discussions[tables.discussions["turns"] > 0]
    turns = tables.turns.assign(number=tables.turns.groupby(["line", "agent"]).cumcount())
    answered = turns[turns["answered"]]
    turns["gain"] = answered.groupby(["line", "agent"])["utility"].diff()
    better = turns[turns["gain"] > 0]
    worse = turns[turns["gain"] < 0]

    # A row for each message that an agent reads of another one.
    sent = turns[["line", "id", "agent", "ballot", "heard", "gain"]]
    messages = sent.explode("heard").merge(
        sent, left_on=["line", "heard"], right_on=["line", "id"], suffixes=("", "_sent")
    )
    messages = messages[messages["agent"] != messages["agent_sent"]]
    # Once for each colleague, of whom two messages may be read.
    agreed = messages[messages["ballot"] == messages["ballot_sent"]].drop_duplicates(["line", "id", "agent_sent"])

    by_agent = turns.groupby("agent")
    counts = {
        "discussions": by_agent["line"].nunique(),
        "attacked": discussions["attacked"].explode().value_counts(),
        "turns": by_agent.size(),
        "failed_turns": turns["agent"][~turns["read"]].value_counts(),
        "tokens": by_agent["tokens"].sum(),
        "better": better["agent"].value_counts(),
        "worse": worse["agent"].value_counts(),
        "heard": messages["agent_sent"].value_counts(),
        "convinced": agreed["agent_sent"][agreed["gain"] > 0].value_counts(),
        "misled": agreed["agent_sent"][agreed["gain"] < 0].value_counts(),
    }
    # An agent whose edges are all pruned may take no turn.
    agents = {*turns["agent"], *discussions["agents"].explode().dropna()}
    places = by_agent["place"].min()
    deciding = set(turns.groupby("line")["agent"].last())
    right = answered.groupby(["agent", "number"])["utility"].mean()
    rows = []
    # Steps of a system that contribute alike stay in their order; that of the discussions must not show.
    for agent in sorted(agents, key=lambda agent: (places.get(agent, math.inf), agent)):
        means = right.get(agent, pd.Series())
        # The numbers of its turns up to the last that answers.
        by_number = means.reindex(range(int(means.index.max()) + 1)) if len(means) else means
        row = AgentRow(
            method,
            agent,
            right=tuple(None if math.isnan(mean) else rounded(mean) for mean in by_number),
            decides=agent in deciding,
            **{name: int(values.get(agent, 0)) for name, values in counts.items()},
        )
        rows.append(row)
    return sorted(rows, key=lambda row: (row.decides, not row.turns, -row.contribution))


def write(run: RunFolder, rows: Iterable[AgentRow]) -> None:
    """Writes agents.jsonl. Raises OSError without room."""
    write_atomically(run.path / FILE, (f"{row.encode()}\n".encode() for row in rows))


def read(run: RunFolder) -> Iterator[AgentRow]:
    """Reads the rows of a run, none before its end. Raises UserError where the file is damaged."""
    return jsonl.records(run.path / FILE, AgentRow.decode, DAMAGED)


def agent_tables(rows: Iterable[AgentRow]) -> list[ResultTable]:
    """Makes a table for each method of several agents. Sentences name the useful ones."""
    tables: list[ResultTable] = []
    # The rows of a method follow each other.
    for method, method_rows in groupby(rows, key=lambda row: row.method):
        team = list(method_rows)
        if len(team) > 1:
            notes = list(_notes(team))
            if not tables:
                notes.append(NOTE)
            listed = team
            if len(team) > MOST_ROWS:
                listed = team[: MOST_ROWS // 2] + team[-MOST_ROWS // 2 :]
            cells = {}
            for row in listed:
                name = f"{row.agent} (attacked)" if row.attacked else row.agent
                cells[name] = _cells(row)
            tables.append(
                ResultTable.of(
                    "agent",
                    cells,
                    CELLS,
                    notes=notes,
                    title=f"Agents of {method}",
                )
            )
    return tables


def _cells(row: AgentRow) -> dict[str, object]:
    if not row.turns:
        return {"contribution": "no turn"}
    right = ["-" if share is None else f"{share:.2f}" for share in row.right]
    if len(right) > MOST_ROUNDS:
        right = [*right[: MOST_ROUNDS - 1], "...", right[-1]]
    contribution = f"{row.contribution:+.2f}" if row.heard else ""
    return {"agent": row, "contribution": contribution, "right": ", ".join(right)}


def _notes(team: Sequence[AgentRow]) -> Iterator[str]:
    """Yields sentences on the agents of a method: the best and the worst, and those of no use."""
    if len(team) > MOST_ROWS:
        yield f"These are the first and last of {len(team):,} agents; {FILE} has all."
    speakers = [row for row in team if row.turns and not row.decides]
    useless: list[AgentRow] = []
    if any(row.convinced or row.misled for row in speakers):
        best, worst = (f"{row.agent} ({row.contribution:+.2f})" for row in (speakers[0], speakers[-1]))
        yield f"Contributes most: {best}; least: {worst}, in colleagues per question."
        useless = [row for row in speakers if row.heard and row.contribution <= 0]
    else:
        yield "No agent changed its answer to one that it had heard, so that contributions do not rank them."
    groups = {
        "Heard and of no use (contribution 0 or less)": useless,
        "Heard by no other agent": [row for row in speakers if not row.heard],
        "Left out by the graph, without a turn": [row for row in team if not row.turns],
    }
    for name, rows in groups.items():
        if rows:
            yield f"{name}: {', '.join(row.agent for row in rows[:MOST_ROWS])}."
