"""Agents in a row each: who is right, convinces, misleads, and costs what. They are in agents.jsonl and in tables.

Agents of a system are its steps. An agent contributes where a colleague hears it and takes over its answer in place of
its own earlier one. That is what a team takes over, not what it would do without the agent, which `job=redundancy` and
the learner `effects` measure.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby

from actors.messages import Status, Trace
from experiments.analysis.result_table import ResultTable, tenths
from experiments.analysis.scores import answers, scorer
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


def agent_rows(
    method: str, traces: Iterable[Trace], items: Mapping[str, Item], score: Callable[[Item, str | None], Score]
) -> list[AgentRow]:
    """Makes a row per agent in one pass over discussions. The largest contribution comes first.

    items: by question id; a discussion of another question is left out. score: the data set's.
    """
    counts: dict[str, Counter[str]] = {}
    scores: dict[tuple[str, int], list[float]] = {}  # by agent and its turn of a discussion, from 1
    places: dict[str, int] = {}  # of each agent's first turn
    deciding, utility = set(), scorer(items, score)
    for trace in (trace for trace in traces if trace.turns and trace.question in items):
        question, said = items[trace.question].question, {turn.id: turn for turn in trace.turns}
        before: dict[str, float] = {}
        taken = Counter[str]()
        # An agent whose edges are all pruned may take no turn.
        for agent in {*trace.agents, *(turn.agent for turn in trace.turns)}:
            counts.setdefault(agent, Counter())["attacked"] += agent in trace.attacked
        deciding.add(trace.turns[-1].agent)
        for place, turn in enumerate(trace.turns):
            agent = turn.agent
            places[agent] = min(places.get(agent, place), place)
            taken[agent] += 1
            failed = turn.status is not Status.OK
            counts[agent].update(turns=1, discussions=taken[agent] == 1, tokens=turn.tokens, failed_turns=failed)
            others = [said[id] for id in turn.heard if id in said and said[id].agent != agent]
            for message in others:
                counts[message.agent]["heard"] += 1
            if not answers(turn):
                continue
            now = utility(trace.question, turn.answer)
            scores.setdefault((agent, taken[agent]), []).append(now)
            gained = now - before.get(agent, now)
            before[agent] = now
            if gained:
                counts[agent]["better" if gained > 0 else "worse"] += 1
                own = ballot(question, turn.answer)
                # Once for each colleague, of whom two messages may be heard.
                for other in {m.agent for m in others if m.answer is not None and ballot(question, m.answer) == own}:
                    counts[other]["convinced" if gained > 0 else "misled"] += 1
    rows = []
    # Steps of a system that contribute alike stay in their order; that of the discussions must not show, as in sums.
    for agent in sorted(counts, key=lambda agent: (places.get(agent, math.inf), agent)):
        own_turns = range(1, max((n for name, n in scores if name == agent), default=0) + 1)
        answered = [scores.get((agent, n), []) for n in own_turns]
        right = tuple(rounded(math.fsum(of) / len(of)) if of else None for of in answered)
        rows.append(AgentRow(method, agent, right, agent in deciding, **counts[agent]))
    return sorted(rows, key=lambda row: (row.decides, not row.turns, -row.contribution))


def write(run: RunFolder, methods: Iterable[str], dataset: Dataset) -> None:
    """Writes agents.jsonl of a run's methods. Raises OSError without room."""
    items = {item.question.id: item for item in dataset.evaluate()}
    of_methods = (agent_rows(name, run.traces(f"evaluate-{name}"), items, dataset.score) for name in methods)
    write_atomically(run.path / FILE, (f"{row.encode()}\n".encode() for rows in of_methods for row in rows))


def read(run: RunFolder) -> Iterator[AgentRow]:
    """Reads the rows of a run, none before its end. Raises UserError where the file is damaged."""
    return jsonl.records(run.path / FILE, AgentRow.decode, DAMAGED)


def agent_tables(rows: Iterable[AgentRow]) -> list[ResultTable]:
    """Makes a table for each method of several agents. Sentences name the useful ones."""
    tables: list[ResultTable] = []
    # The rows of a method follow each other.
    for method, of_method in groupby(rows, key=lambda row: row.method):
        team = list(of_method)
        if len(team) > 1:
            ends = team if len(team) <= MOST_ROWS else team[: MOST_ROWS // 2] + team[-MOST_ROWS // 2 :]
            cells = []
            for row in ends:
                right = ["-" if share is None else f"{share:.2f}" for share in row.right]
                if len(right) > MOST_ROUNDS:
                    right = [*right[: MOST_ROUNDS - 1], "...", right[-1]]
                counts = (row.better, row.worse, row.heard / max(1, row.turns), row.convinced, row.misled)
                contribution = f"{row.contribution:+.2f}" if row.heard else ""
                tokens = f"{row.tokens / max(1, row.discussions):,.0f}"
                own = (contribution, ", ".join(right), *map(tenths, counts), tokens, f"{row.failed_turns:,}")
                own = own if row.turns else ("no turn", *[""] * (len(HEADERS) - 2))
                cells.append((f"{row.agent} (attacked)" if row.attacked else row.agent, *own))
            spoke = [row for row in team if row.turns and not row.decides]
            ranked = any(row.convinced or row.misled for row in spoke)
            notes = []
            if len(ends) < len(team):
                notes.append(f"These are the first and last of {len(team):,} agents; {FILE} has all.")
            if ranked:
                best, worst = (f"{row.agent} ({row.contribution:+.2f})" for row in (spoke[0], spoke[-1]))
                notes.append(f"Contributes most: {best}; least: {worst}, in colleagues per question.")
            else:
                notes.append(
                    "No agent changed its answer to one that it had heard, so that contributions do not rank them."
                )
            useless = [row for row in spoke if ranked and row.heard and row.contribution <= 0]
            named = {
                "Heard and of no use (contribution 0 or less)": useless,
                "Heard by no other agent": [row for row in spoke if not row.heard],
                "Left out by the graph, without a turn": [row for row in team if not row.turns],
            }
            for what, of in named.items():
                notes += [f"{what}: {', '.join(row.agent for row in of[:MOST_ROWS])}."] if of else []
            tables.append(ResultTable(HEADERS, cells, [*notes, *([] if tables else [NOTE])], f"Agents of {method}"))
    return tables
