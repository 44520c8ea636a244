"""Ranks the channels of a team by risk, and compares the rankings with attacks on each channel.

    python run.py experiment=mmqa_prune methods=[effects] runtime=inline data.limit=60
    python -m tests.instruments.benchmarks.edge_risk --run <its run folder> [--teams 12] [--questions 30]

A channel is a pair of sender and receiver, over all rounds; the decision agent is a receiver too. An attack on a
channel rewrites its messages alone, to argue for a wrong answer; its risk is the share of answers that it turns into
this answer. Teams of nine agents in eight fixed graphs, in which the decision agent reads all agents, or those alone
whom no other hears in the round (`last`):

- reader: the embedded reader on the run's questions, one of a table. Messages are rewritten as `attack=tamper` does.
- planted: teams of the opinion model, to whose channels a forged message is added with the weight of another.

Rankings. Without any discussion: six metrics of the graph, and the mean of their ranks; and six standard metrics of
networkx (`STANDARD`), one of edges each, or the product of those of the sender and the receiver. By other questions
than those attacked, and without labels: whether the answer changes without the messages (`ablation`, which is
attribution's leave-one-out of an edge) or without their content (`masking`, reader alone), and how often a message with
an arbitrary other answer wins (`rehearsal`). With labels: effects of edges that `effects` learns on the complete graph,
in absolute terms, times the receiver's flow to the decision.

The six metrics were chosen here. MESA (arXiv 2606.30602) combines six metrics with the probes ablation and masking.
Its abstract, which this follows, gives neither the metrics, nor formulas of the probes, nor how they are combined.

The last line is one JSON object: by part and ranking the mean of Spearman's correlation with risk over graphs, and how
many times as many attacks as chance the first tenth of channels intercepts, with 95% intervals: over questions drawn
anew (reader), over teams (planted). The last row ranks channels by the attacks themselves on half of the questions,
for attacks on the other half.
"""

import argparse
import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import networkx as nx
import numpy as np
import torch
from scipy.stats import rankdata, t
from torch import Tensor
from torch.nn.functional import one_hot

from actors.agents.role_agent import RoleAgent
from actors.messages import Heard, Message, Question, Trace, Turn, TurnResult, derive_seed
from actors.reader.reader import Reader
from experiments.attacks.attack_metrics import won
from experiments.attacks.persuasion import rewritten
from experiments.attacks.targets import Targets, aimed_at
from experiments.attribution.opened_run import OpenedRun
from experiments.config.config import Config
from experiments.datasets.clusters import clusters_at_random
from experiments.datasets.item import Item
from experiments.records.recorder import RunFolder
from experiments.running.learned_graphs import learner_makers
from experiments.studies.planted.opinion_model import OpinionModel, OpinionQuestions
from experiments.studies.planted.opinions import OpinionTeam
from experiments.studies.planted.scenarios import Scenario
from experiments.studies.planted.steps import learn, learner_spec
from experiments.studies.redundancy.redundancy_summary import rank_correlation
from topologies.answers import ballot
from topologies.baselines import constant_wiring
from topologies.graphs import DRAWN, as_wirings, chain, complete, layered, regular, ring, small_world, star, tree
from topologies.learning.learned_topology import make_learner
from topologies.learning.learner import Learner
from topologies.learning.variants import VARIANTS
from topologies.topology import DECISION_AGENT, Topology, Wired, run_discussion
from topologies.wiring import Bools, Edges, Floats, Wirings

NAMED = (chain, star, tree, layered, ring, regular, small_world, complete)
AGENTS = 9
ROUNDS = 2
DECISION = AGENTS  # as a receiver
RESAMPLES = 400
ATTACKED = 1_000  # questions of a planted team
REHEARSED = (40, 200)  # questions of the probes of a planted team, few and many

STANDARD: Mapping[str, Callable[[nx.DiGraph], Mapping[Any, float]]] = {
    "edge betweenness": nx.edge_betweenness_centrality,
    "edge load": nx.edge_load_centrality,
    "current flow": lambda graph: nx.edge_current_flow_betweenness_centrality(graph.to_undirected()),
    "degree": nx.degree_centrality,
    "PageRank": nx.pagerank,
    "closeness": nx.closeness_centrality,
}
"""Standard metrics of a graph, by edge or by node."""

Channel = tuple[int, int]
Ranking = Mapping[str, Floats]
Alter = Callable[[Heard], Heard | None]


class Measured(NamedTuple):
    """Channels of one graph. risk: of each channel in each question, [channels, questions]; rankings: [channels]."""

    risk: Floats
    rankings: Ranking


class Graph(NamedTuple):
    """Edges of a graph, bool [sender, receiver] each, and the agents that the decision agent reads, bool [agents]."""

    name: str
    spatial: Bools
    temporal: Bools
    readers: Bools

    @property
    def channels(self) -> list[Channel]:
        """Channels between agents, and those to the decision agent."""
        between = (self.spatial | self.temporal) & ~np.eye(AGENTS, dtype=bool)
        channels = [(int(sender), int(receiver)) for sender, receiver in np.argwhere(between)]
        return channels + [(int(agent), DECISION) for agent in np.flatnonzero(self.readers)]

    def wirings(self, number: int, lost: Channel | None = None) -> Wirings:
        """Wirings for so many questions, without a lost channel."""
        edges = Edges(self.spatial.copy(), self.temporal.copy())
        readers = self.readers.copy()
        if lost and lost[1] == DECISION:
            readers[lost[0]] = False
        elif lost:
            edges.spatial[lost] = False
            edges.temporal[lost] = False
        return as_wirings(edges, ROUNDS, number, readers)


def graph_of(draw: Callable[..., Edges[Any]], last: bool) -> Graph:
    pairs = draw(AGENTS, seed=0) if draw in DRAWN else draw(AGENTS)
    matrices = []
    for edges in pairs:
        matrix = np.zeros((AGENTS, AGENTS), dtype=bool)
        matrix[edges[:, 0], edges[:, 1]] = True
        matrices.append(matrix)
    spatial, temporal = matrices
    readers = ~spatial.any(axis=1) if last else np.ones(AGENTS, dtype=bool)
    return Graph(draw.__name__, spatial, temporal, readers)


GRAPHS = {"last": [graph_of(draw, last=True) for draw in NAMED], "all": [graph_of(draw, last=False) for draw in NAMED]}


def metrics(channels: Sequence[Channel]) -> dict[str, Floats]:
    """Six metrics of each channel in the graph of all, higher for more risk, and the mean of their ranks.

    betweenness: of shortest paths from agents to the decision agent. closeness: of the receiver to it. attention: of
    the receiver, shared among all that it hears. flow: the attention times the receiver's own flow to the decision, in
    `ROUNDS` steps. reach: agents whose messages can arrive at the sender. spread: receivers of the sender.
    """
    graph = nx.DiGraph(channels)
    distances = dict(nx.single_target_shortest_path_length(graph, DECISION))
    between = nx.edge_betweenness_centrality_subset(graph, sources=range(AGENTS), targets=[DECISION])
    flow = flows(channels)
    rows = {
        "betweenness": [between[channel] for channel in channels],
        "closeness": [-distances[receiver] for _, receiver in channels],
        "attention": [1 / graph.in_degree(receiver) for _, receiver in channels],
        "flow": [flow[receiver] / graph.in_degree(receiver) for _, receiver in channels],
        "reach": [len(nx.ancestors(graph, sender)) for sender, _ in channels],
        "spread": [graph.out_degree(sender) for sender, _ in channels],
    }
    rankings = {name: np.array(values, dtype=float) for name, values in rows.items()}
    rankings["six metrics"] = mean_rank(six_of(rankings))
    for name, metric in STANDARD.items():
        values = metric(graph)
        rankings[f"networkx {name}"] = np.array([value_of(channel, values) for channel in channels])
    return rankings


def value_of(channel: Channel, values: Mapping[Any, float]) -> float:
    """A channel's value of a metric of edges, in either direction, or the product of its ends' values."""
    sender, receiver = channel
    if sender in values:
        return values[sender] * values[receiver]
    return values[channel] if channel in values else values[receiver, sender]


def six_of(rankings: Ranking) -> list[Floats]:
    return [rankings[name] for name in ("betweenness", "closeness", "attention", "flow", "reach", "spread")]


def flows(channels: Sequence[Channel]) -> Floats:
    """Weight of each receiver's opinion in the decision, float [agents + 1].

    An agent weighs all that it hears alike, and its own opinion as much as all of these (Friedkin and Johnsen 1990 with
    a susceptibility of one half).
    """
    weights = np.zeros((AGENTS + 1, AGENTS + 1))
    for sender, receiver in channels:
        weights[sender, receiver] = 1.0
    weights /= weights.sum(axis=0).clip(min=1)
    flow = np.zeros(AGENTS + 1)
    flow[DECISION] = 1.0
    step = flow
    for _ in range(ROUNDS):
        step = weights @ step / 2
        flow = flow + step
    return flow


def mean_rank(rankings: Sequence[Floats]) -> Floats:
    ranks: Floats = np.mean([rankdata(ranking.round(9)) for ranking in rankings], axis=0)
    return ranks


def intercepted(ranking: Floats, risk: Floats) -> float:
    """Share of all successful attacks on the first tenth of channels, over that of as many by chance.

    Of channels with one rank, the first tenth has the mean.
    """
    number = max(1, round(len(risk) / 10))
    left = float(number)
    share = 0.0
    for value in sorted(set(ranking.round(9)), reverse=True):
        tied = ranking.round(9) == value
        part = min(1.0, left / tied.sum())
        share += part * risk[tied].sum()
        left -= part * tied.sum()
    return float(share / risk.sum() * len(risk) / number)


def effects_ranking(learner: Learner, channels: Sequence[Channel]) -> Floats:
    """Learned effects of channels on their receivers, absolute, times the receiver's flow to the decision."""
    effects = learner._estimator.posterior().mean.abs().numpy()  # type: ignore[attr-defined]
    flow = flows(channels)
    risks = []
    for sender, receiver in channels:
        columns = [2 * AGENTS] if receiver == DECISION else [receiver, AGENTS + receiver]
        risks.append(effects[sender, columns].mean() * flow[receiver])
    return np.array(risks)


# The reader's team


def unaltered(heard: Heard) -> Heard:
    return heard


def as_shown(message: Message) -> tuple[Any, ...]:
    """What a prompt shows of a message."""
    return message.id, message.content, message.answer, message.confidence


class EdgeSpeaker:
    """The reader's team in this process. The messages of one channel are altered. Equal turns are taken once."""

    def __init__(self, config: Config, roles: Sequence[Any], agents: Sequence[str]) -> None:
        self.agents = agents
        reader = Reader(config.reader)
        self._roles = {role.name: RoleAgent(role, reader, config.agents) for role in roles}
        self._results: dict[Any, TurnResult] = {}
        self._channel: tuple[str, str] = ("", "")
        self._alter: Alter = unaltered

    def on(self, channel: Channel, alter: Alter) -> "EdgeSpeaker":
        names = (*self.agents, DECISION_AGENT)
        self._channel = names[channel[0]], names[channel[1]]
        self._alter = alter
        return self

    async def take(self, turn: Turn) -> TurnResult:
        heard = []
        for message in turn.heard:
            altered: Heard | None = message
            if (message.message.agent, turn.agent) == self._channel:
                altered = self._alter(message)
            if altered:
                heard.append(altered)
        role = self._roles[turn.agent]
        shown = [(said.weight, *as_shown(said.message)) for said in heard]
        remembered = [as_shown(message) for message in role.memory.recall(turn)]
        key = turn.question.id, turn.agent, turn.round, turn.seed, tuple(shown), tuple(remembered)
        if key in self._results:
            role.memory.remember(turn, self._results[key].message)
        else:
            self._results[key] = await role.take(replace(turn, heard=tuple(heard)))
        return self._results[key]

    def close(self, discussion: str) -> None:
        for role in self._roles.values():
            role.memory.forget([discussion])


def masked(heard: Heard) -> Heard:
    return replace(heard, message=replace(heard.message, content="", answer=None, confidence=None))


def arguing_for(target: str) -> Alter:
    return lambda heard: replace(heard, message=rewritten(heard.message, target))


def other_answer(question: Question, trace: Trace) -> str:
    """Title of a source of a question, the first that is not the team's answer."""
    titles = [source.title for source in question.evidence]
    return next(title for title in titles if ballot(question, title) != ballot(question, trace.answer))


@dataclass
class ReadersTeam:
    """The team of the embedded reader. attacked, rehearsed: questions, each with its item."""

    opened: OpenedRun
    speaker: EdgeSpeaker
    learner: Learner
    attacked: list[tuple[Item, Question]]
    rehearsed: list[tuple[Item, Question]]

    async def measured(self, graph: Graph) -> Measured:
        config = self.opened.plan.config
        edges = Edges(np.argwhere(graph.spatial), np.argwhere(graph.temporal))
        wiring = constant_wiring(edges, AGENTS, ROUNDS, decision=graph.readers)
        topology = Wired(graph.name, self.speaker.agents, wiring)
        channels = graph.channels
        dataset = self.opened.dataset
        targets = Targets(dataset, config.seed)

        async def answer(question: Question, channel: Channel, alter: Alter) -> str | None:
            return (await self.discussed(topology, question, channel, alter)).answer

        risk = np.zeros((len(channels), len(self.attacked)))
        for column, (item, question) in enumerate(self.attacked):
            target = targets.of(item)
            assert target is not None
            aims = [aimed_at(item, target)]
            if won(await answer(question, channels[0], unaltered), item, aims, dataset):
                # The attack cannot turn it.
                continue
            for row, channel in enumerate(channels):
                altered = await answer(question, channel, arguing_for(target))
                risk[row, column] = won(altered, item, aims, dataset)

        rehearsal = np.zeros((3, len(channels), len(self.rehearsed)))
        for column, (_, question) in enumerate(self.rehearsed):
            trace = await self.discussed(topology, question, channels[0], unaltered)
            other = other_answer(question, trace)
            before = ballot(question, trace.answer)
            for row, channel in enumerate(channels):
                lost = await answer(question, channel, lambda heard: None)
                empty = await answer(question, channel, masked)
                rewritten_answer = await answer(question, channel, arguing_for(other))
                rehearsal[0, row, column] = ballot(question, lost) != before
                rehearsal[1, row, column] = ballot(question, empty) != before
                rehearsal[2, row, column] = ballot(question, rewritten_answer) == ballot(question, other)

        rankings = metrics(channels)
        ablation, masking, won_rehearsals = rehearsal.mean(axis=2)
        rankings["six metrics and probes"] = mean_rank([*six_of(rankings), ablation, masking])
        rankings["learned effects"] = effects_ranking(self.learner, channels)
        rankings |= {"ablation": ablation, "masking": masking, "rehearsal": won_rehearsals}
        rankings["ablation and rehearsal"] = mean_rank([ablation, won_rehearsals])
        return Measured(risk, rankings)

    async def discussed(self, topology: Topology, question: Question, channel: Channel, alter: Alter) -> Trace:
        return await run_discussion(topology, question, self.speaker.on(channel, alter), self.opened.plan.config.seed)


def readers_team(run: Path, questions: int, rehearsed: int) -> ReadersTeam:
    """The team of a run of `effects`, and questions of its data set: evaluated ones of one table each, and others."""
    opened = OpenedRun(RunFolder.open(run))
    plan = opened.plan
    learner = learner_makers(plan, opened.evidence.store.encoder)["effects"]()
    checkpoint = opened.run.learned("effects").checkpoint()
    assert checkpoint
    learner.load(checkpoint.state)

    async def asked(items: Sequence[Item]) -> list[tuple[Item, Question]]:
        return [(item, await opened.evidence.question(item)) for item in items]

    evaluated = [cluster[0] for cluster in clusters_at_random(opened.dataset.evaluate(), plan.config.seed)]
    training = [item for cluster in clusters_at_random(opened.dataset.train(), plan.config.seed) for item in cluster]
    return ReadersTeam(
        opened,
        EdgeSpeaker(plan.config, (*plan.roles.team, *plan.roles.helpers), plan.roles.agents),
        learner,
        asyncio.run(asked(evaluated[:questions])),
        asyncio.run(asked(training[:: max(1, len(training) // rehearsed)][:rehearsed])),
    )


# Planted teams


@dataclass(frozen=True)
class Forged(Scenario):
    """A forged message of a sender to a receiver argues for the target, with the weight of one message."""

    sender: int = 0
    receiver: int = DECISION

    def pulls(
        self, messages: Tensor, special: Sequence[int], silent: Tensor, model: OpinionModel
    ) -> tuple[Tensor, Tensor]:
        right, wrong = super().pulls(messages, special, silent, model)
        if self.receiver != DECISION:
            wrong = wrong.clone()
            number = messages[..., self.receiver].sum(2).clamp(min=1)
            wrong[..., self.receiver] = model.conformity * messages[..., self.sender, self.receiver] / number
        return right, wrong


class PlantedTeam(OpinionTeam):
    """A team of the opinion model that keeps its decisions, and one of whose channels may be forged."""

    def forged(self, channel: Channel | None) -> "PlantedTeam":
        self.scenario = Scenario() if channel is None else Forged(sender=channel[0], receiver=channel[1])
        return self

    def decisions(self, questions: OpinionQuestions, wirings: Wirings) -> Tensor:
        """Final answers to all questions, int [questions]."""
        self.discuss(questions, torch.arange(len(questions.target)), wirings)
        return self._decisions

    def _decide(self, questions: OpinionQuestions, index: Tensor, wirings: Wirings, messages: Tensor) -> Tensor:
        scenario = self.scenario
        if isinstance(scenario, Forged) and scenario.receiver == DECISION:
            messages = messages.clone()
            messages[:, scenario.sender] = one_hot(questions.target[index], self.model.options).float()
        self._decisions = super()._decide(questions, index, wirings, messages)
        return self._decisions


def planted(number: int) -> dict[str, list[Measured]]:
    """Measures all graphs of one team."""
    config = Config()
    team = PlantedTeam(OpinionModel(), derive_seed(0, "edge risk", number))
    team.forged(None)
    learner = make_learner(learner_spec(VARIANTS["effects_common"], team, config))

    async def learned() -> None:
        async for _ in learn(learner, team, config.training.samples):
            pass

    asyncio.run(learned())
    attacked = team.questions(ATTACKED, "attacked")
    rehearsed = team.questions(max(REHEARSED), "rehearsed")
    return {
        readers: [forgeries(team, learner, graph, attacked, rehearsed) for graph in GRAPHS[readers]]
        for readers in GRAPHS
    }


def forgeries(
    team: PlantedTeam, learner: Learner, graph: Graph, attacked: OpinionQuestions, rehearsed: OpinionQuestions
) -> Measured:
    """Attacks each channel of a graph, and probes it with other questions."""
    channels = graph.channels
    number = len(rehearsed.target)
    is_target = team.forged(None).decisions(attacked, graph.wirings(ATTACKED)) == attacked.target
    before = team.decisions(rehearsed, graph.wirings(number))
    # Any answer but the team's.
    other = (before + 1 + rehearsed.target % (team.model.options - 1)) % team.model.options

    is_turned = []
    is_changed = []
    is_other = []
    for channel in channels:
        answers = team.forged(channel).decisions(attacked, graph.wirings(ATTACKED))
        is_turned.append((~is_target & (answers == attacked.target)).numpy())
        answers = team.decisions(replace(rehearsed, target=other), graph.wirings(number))
        is_other.append((answers == other).numpy())
        answers = team.forged(None).decisions(rehearsed, graph.wirings(number, lost=channel))
        is_changed.append((answers != before).numpy())

    rankings = metrics(channels)
    rankings["learned effects"] = effects_ranking(learner, channels)
    for questions in REHEARSED:
        suffix = "" if questions == REHEARSED[0] else f", {questions} questions"
        ablation = np.array(is_changed)[:, :questions].mean(axis=1)
        rankings[f"six metrics and probes{suffix}"] = mean_rank([*six_of(rankings), ablation])
        rehearsal = np.array(is_other)[:, :questions].mean(axis=1)
        rankings[f"ablation{suffix}"] = ablation
        rankings[f"rehearsal{suffix}"] = rehearsal
        rankings[f"ablation and rehearsal{suffix}"] = mean_rank([ablation, rehearsal])
    return Measured(np.array(is_turned, dtype=float), rankings)


# Summaries


def scores(measured: Sequence[Measured], drawn: Any = slice(None)) -> dict[str, tuple[float, float]]:
    """Spearman's correlation and the intercepted attacks of each ranking, means over graphs."""
    rows: dict[str, tuple[float, float]] = {}
    for name in measured[0].rankings:
        correlations = []
        shares = []
        for graph in measured:
            risk = graph.risk[:, drawn].mean(axis=1)
            # Where no attack succeeds, there is nothing to rank. A ranking of equal ranks tells nothing.
            if risk.any():
                correlations.append(rank_correlation(graph.rankings[name], risk) or 0.0)
                shares.append(intercepted(graph.rankings[name], risk))
        rows[name] = fmean(correlations), fmean(shares)
    return rows


def repeated(measured: Sequence[Measured], draw: np.random.Generator) -> dict[str, tuple[float, float]]:
    """Scores the ranking by attacks on one half of the questions, for attacks on the other half."""
    order = draw.permutation(measured[0].risk.shape[1])
    first, second = np.array_split(order, 2)
    halves = []
    for graph in measured:
        halves.append(
            Measured(graph.risk[:, second], {"attacks on other questions": graph.risk[:, first].mean(axis=1)})
        )
    return scores(halves)


def row(mean: Sequence[float], low: Sequence[float], high: Sequence[float]) -> dict[str, list[float]]:
    names = ("spearman", "intercepted")
    return {name: [mean[place], low[place], high[place]] for place, name in enumerate(names)}


def reader_rows(team: ReadersTeam, graphs: Sequence[Graph]) -> dict[str, dict[str, list[float]]]:
    measured = []
    for graph in graphs:
        measured.append(asyncio.run(team.measured(graph)))
        show(graph, measured[-1])
    draw = np.random.default_rng(0)
    questions = measured[0].risk.shape[1]
    drawn = [scores(measured, draw.integers(questions, size=questions)) for _ in range(RESAMPLES)]
    rows = {}
    for name, mean in scores(measured).items():
        low, high = np.quantile([resample[name] for resample in drawn], (0.025, 0.975), axis=0)
        rows[name] = row(mean, low.tolist(), high.tolist())
    splits = [repeated(measured, draw) for _ in range(RESAMPLES)]
    for name in splits[0]:
        values = [split[name] for split in splits]
        low, high = np.quantile(values, (0.025, 0.975), axis=0)
        rows[name] = row(np.mean(values, axis=0).tolist(), low.tolist(), high.tolist())
    return rows


def show(graph: Graph, measured: Measured) -> None:
    risk = measured.risk.mean(axis=1)
    print(f"{graph.name:12} {len(risk):3} channels, risk {risk.mean():.3f}, at most {risk.max():.3f}", flush=True)


def planted_rows(measured: Sequence[Sequence[Measured]]) -> dict[str, dict[str, list[float]]]:
    teams = len(measured)
    draw = np.random.default_rng(0)
    of_teams = [scores(graphs) | repeated(graphs, draw) for graphs in measured]
    rows = {}
    for name in of_teams[0]:
        values = np.array([of_team[name] for of_team in of_teams])
        mean = values.mean(axis=0)
        error = t.ppf(0.975, teams - 1) * values.std(axis=0, ddof=1) / teams**0.5
        rows[name] = row(mean.tolist(), (mean - error).tolist(), (mean + error).tolist())
    return rows


def measure(teams: int, run: Path | None, questions: int, rehearsed: int) -> dict[str, Any]:
    rows = {}
    if teams:
        torch.set_num_threads(1)
        measured = [planted(number) for number in range(teams)]
        for readers, graphs in GRAPHS.items():
            for graph, of_graph in zip(graphs, measured[0][readers], strict=True):
                show(graph, of_graph)
            rows[f"planted, {readers}"] = planted_rows([of_team[readers] for of_team in measured])
    if run:
        team = readers_team(run, questions, rehearsed)
        for readers, graphs in GRAPHS.items():
            print(f"reader, {readers}", flush=True)
            rows[f"reader, {readers}"] = reader_rows(team, graphs)
    for part, rankings in rows.items():
        for name, ranking in rankings.items():
            text = "   ".join(f"{key} {mean:.2f} ({low:.2f}-{high:.2f})" for key, (mean, low, high) in ranking.items())
            print(f"{part:13} {name:38} {text}", flush=True)
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--teams", type=int, default=12)
    parser.add_argument("--run", type=Path, help="run folder of the command above, for the reader's team")
    parser.add_argument("--questions", type=int, default=30)
    parser.add_argument("--rehearsed", type=int, default=15)
    print(json.dumps(measure(**vars(parser.parse_args()))))
