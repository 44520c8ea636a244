"""Worlds with known truth, in which learners are to find harmful edges.

Teams of the opinion model (opinions.py), with an adversary at every position in turn and without one, over several
strengths of conformity and distraction. True effects come from a randomised run far larger than a learner's.
"""

import statistics
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch

from actors.messages import derive_seed
from experiments.attacks.attack_metrics import auc
from experiments.config.study_settings import EASY, Influence, PlantedConfig, PlantedSettings
from experiments.metrics.monitor import fallen
from experiments.studies.planted.opinion_model import OpinionModel
from experiments.studies.planted.opinions import OpinionTeam
from experiments.studies.planted.regimes import REGIMES
from experiments.studies.planted.scenarios import SCENARIOS, unheard
from experiments.studies.planted.truth import Truth, best_reachable, held, random_wirings, true_effects, utility
from topologies.learning.learned_topology import make_learner
from topologies.learning.learner import Learner
from topologies.learning.spec import LearnerSpec, shared_training
from topologies.learning.variants import VARIANTS, LearnedMethod
from topologies.wiring import Bools, Edges, Floats, Wiring, Wirings, into, needed_turns

MONITORED = 200  # evaluated questions that the monitor watches


@dataclass(frozen=True)
class PlantedWorld:
    """One team and its questions, both determined by `number`, with one adversary or none.

    adversary: the first of the special agents, in a scenario that has others (scenarios.py).
    """

    conformity: float
    distraction: float
    number: int
    adversary: int | None
    influence: Influence = Influence.ANSWERS


@dataclass(frozen=True)
class Outcome:
    """One learner, or one baseline, in one world.

    learner: a learned method; one `from` another, whose discussions it learned from; `full` (everyone hears everyone,
        in random orders), `none` (no agent hears another), `by_hand` (cut by the world's author, mostly without the
        adversary) or `best` (greedy removal by the true effects).
    utility: mean over answers along the graph; share: its ratio to the best reachable.
    turns, readings: cost of one discussion (`price`).
    auc_adversary: probability that an edge of the adversary ranks below (`saint`: above) one of another agent, both to
        honest agents.
    auc_harmful, auc_costly: the same of all edges with a negative true effect, on the receiver or on the final answer.
    training: mean tokens of a training discussion, 0 where they were another's.
    edges: left after training (in a round, where rounds differ).
    wrongly: edges that were cut as certain to harm although they help both their receiver and the final answer.
    joined: share of the turns of training that equal another's on the question, and are answered with it.
    reported: evaluated questions after which the monitor reports a special agent as worse than in training (None: not
        within the first `MONITORED`); alarms: number of other agents that it reports.
    random: utility of random graphs with as many edges; gain: own utility minus the best of `full`, `none` and this.
    regret: best reachable minus own utility, by the number of questions learned from (of a regime by its budget in
        training questions of the paper's ten samples); reached: that utility; ranked:
        `auc_adversary`, or else `auc_harmful`; spent: cost of the discussions until then, equal turns once.
    """

    world: PlantedWorld
    learner: str
    utility: float
    share: float
    turns: int
    readings: int
    auc_adversary: float | None = None
    auc_harmful: float | None = None
    auc_costly: float | None = None
    regret: dict[int, float] = field(default_factory=dict)
    training: float | None = None
    edges: int | float | None = None
    wrongly: int | None = None
    joined: float | None = None
    reported: int | None = None
    alarms: int | None = None
    random: float | None = None
    gain: float | None = None
    reached: dict[int, float] = field(default_factory=dict)
    ranked: dict[int, float] = field(default_factory=dict)
    spent: dict[int, int] = field(default_factory=dict)

    @property
    def tokens(self) -> int:
        """The cost in messages: a turn's own prompt counts as one."""
        return self.turns + self.readings


def worlds(settings: PlantedSettings, agents: int) -> list[PlantedWorld]:
    """Returns all worlds to explore. Easy ones have teams with and without adversary, but with `chance`, where it could
    do nothing; hard ones have teams with their special agents alone."""
    seeds = settings.seeds
    # Agents are ordered by modality: the first ones alone would be of one.
    adversaries = [number * agents // seeds if seeds < agents else number % agents for number in range(seeds)]
    return [
        PlantedWorld(conformity, distraction, number, adversaries[number] if attacked else None, Influence(influence))
        for influence in settings.influences
        for conformity, distraction in settings.strengths[: None if influence == Influence.ANSWERS else 1]
        for attacked in (True, False)
        if attacked == (SCENARIOS[Influence(influence)].ranked != "neither") or (influence in EASY and not attacked)
        for number in range(seeds)
    ]


def explore(world: PlantedWorld, config: PlantedConfig, model: OpinionModel) -> list[Outcome]:
    """Measures baselines and learners in one world, with `training.share` also learners from others' discussions."""
    settings = config.planted
    model = replace(model, conformity=world.conformity, distraction=world.distraction, influence=world.influence)
    adversaries = SCENARIOS[world.influence].chosen(world.adversary, model.text + model.visual)
    # The seed does not depend on strengths or adversary, so worlds of one number have the same skills and questions.
    team = OpinionTeam(model, derive_seed(config.seed, "planted", world.number), adversaries)
    truth = true_effects(team, settings.truth)
    best, best_utility = best_reachable(team, truth, settings.evaluated)
    # With chance 1 every edge is present, in random speaking orders, as in a run before anything is learned.
    full = random_wirings(team, settings.evaluated, 0, chances=(1.0, 1.0, 1.0))
    kind = team.questions(settings.evaluated, "evaluation").kind
    by_hand = team.scenario.by_hand(full, team.special, kind)
    graphs = {"full": full, "none": unheard(full), "by_hand": by_hand, "best": best}

    def outcome(name: str, wirings: Wirings, p: Edges[Floats] | None = None, **measured: Any) -> Outcome:
        # The best graph is evaluated already.
        score = best_utility if name == "best" else utility(team, wirings, p, settings.evaluated)
        turns, readings = price(wirings)
        return Outcome(world, name, score, score / best_utility, turns, readings, **measured)

    outcomes = [outcome(name, wirings) for name, wirings in graphs.items()]
    simple = max(outcomes[0].utility, outcomes[1].utility)
    learner = partial(LearnerSpec, team.modalities, model.rounds, team.seed)
    specs = {
        str(name): learner(variant, config.learner, config.pruning, features=len(model.kinds) * variant.by_question)
        for name, variant in ((name, VARIANTS[LearnedMethod(name)]) for name in settings.learners)
    }
    shared: list[Outcome] = []
    sources = shared_training(specs) if config.training.share else {}

    def add_point(curves: _Curves, used: int, learning: Learner, steps: Sequence[_Step]) -> None:
        reached = utility(team, *along(learning, team, settings.evaluated), settings.evaluated)
        found = ranking(learning.edge_scores(), truth, team)
        spent = sum(step.computed for step in steps)
        point = (best_utility - reached, reached, found.get("auc_adversary", found["auc_harmful"]), spent)
        for measure, value in zip(("regret", "reached", "ranked", "spent"), point, strict=True):
            if value is not None:
                curves.setdefault(measure, {})[used] = value

    def learned(name: str, learner: Learner, steps: Sequence[_Step], own: bool, curves: _Curves) -> Outcome:
        turns, different = (sum(getattr(step, count) for step in steps) for count in ("turns", "different"))
        training = float(np.mean([step.tokens for step in steps])) if own else 0.0
        learned_from = {"training": training, "edges": edges_left(learner), "joined": 1 - different / turns}
        learned_from |= monitored(learner, team, steps)
        ranked, graph = ranking(learner.edge_scores(), truth, team), learner.inference_wirings()
        sparse = random_wirings(team, settings.evaluated, 1, shares(graph, full))
        at_random = utility(team, sparse, None, settings.evaluated)
        measured = {**ranked, **learned_from, "wrongly": wrongly_cut(learner, truth), **curves, "random": at_random}
        row = outcome(name, *along(learner, team, settings.evaluated), **measured)
        return replace(row, gain=row.utility - max(simple, at_random))

    for name, spec in specs.items():
        own = make_learner(spec)
        sharing = {
            f"{other} from {name}": make_learner(specs[other]) for other, source in sources.items() if source == name
        }
        learners = {name: own, **sharing}
        curves: dict[str, _Curves] = {each: {} for each in learners}
        steps: list[_Step] = []
        for step in learn(own, team, config.training.samples, list(sharing.values())):
            steps.append(step)
            # After learning has stopped early, later checkpoints measure the same graph.
            last = own.stages * own.pruning.steps if own.finished else step.used
            for used in settings.checkpoints:
                if step.used <= used <= last:
                    for each, learning in learners.items():
                        # On a copy, so that measuring changes nothing in the learning that goes on.
                        add_point(curves[each], used, stopped(learning), steps)
        for each, learning in learners.items():
            row = learned(each, learning, steps, learning is own, curves[each])
            (outcomes if learning is own else shared).append(row)
    for name, regime in REGIMES.items() if settings.budgets else ():
        of_regime: _Curves = {}
        for budget in (budget for budget in settings.budgets if budget <= regime.most):
            grown = regime.grown(learner(regime.variant, config.learner, config.pruning), budget)
            own, samples = make_learner(grown[0]), grown[1] * config.training.samples
            steps = list(learn(own, team, samples))
            add_point(of_regime, budget * own.stages * config.pruning.steps, own, steps)
        outcomes.append(learned(name, own, steps, True, of_regime))
    return [*outcomes, *shared]


_Curves = dict[str, dict[int, float]]


class _Step(NamedTuple):
    """One training step: questions until now, mean tokens of a discussion, turns, different turns, and their cost; and
    its scores (`of_columns`)."""

    used: int
    tokens: float
    turns: int
    different: int
    computed: int
    scores: Floats


def learn(learner: Learner, team: OpinionTeam, samples: int, others: Sequence[Learner] = ()) -> Iterator[_Step]:
    """Learns all stages, one question a step, until all stop early; `others` learn from the same discussions, and
    confirm their graphs with their own afterwards."""
    used = 0
    everyone = (learner, *others)
    while not learner.finished:
        stage, steps = learner.stage, learner.pruning.steps
        questions = team.questions(steps, "learning", stage)
        for step in range(learner.step, steps):
            k = learner.wanted(samples)
            wirings = learner.sample(k, features=questions.features[[step]].numpy())
            index = torch.full((k,), step)
            scores, utilities = team.discuss(questions, index, wirings, learner.chances())
            used += 1
            # Before the yield, so that the state after the last question is that of a finished stage.
            for each in everyone:
                if each is learner or not each.confirming:
                    each.learn(wirings, scores.numpy(), utilities.numpy())
            over = step + 1 == steps or all(each.confirming or each.may_stop() for each in everyone)
            for each in everyone if over else ():
                if not (each.confirming or each.finished):
                    each.next_stage()
            edges = sum(int(taken.sum()) for taken in (wirings.spatial, wirings.temporal, wirings.decision))
            turns = k * team.agents * team.model.rounds if wirings.speaks is None else int(wirings.speaks.sum())
            different, read = different_turns(wirings)
            graded = of_columns(scores, utilities, wirings.speaks)
            yield _Step(used, (edges + turns) / k, turns + k, different, different + read, graded)
            if learner.finished or learner.stage > stage:
                break
    for other in others:
        deque(learn(other, team, samples), maxlen=0)


def along(learner: Learner, team: OpinionTeam, evaluated: int) -> tuple[Wirings, Edges[Floats]]:
    """A learner's graph and reading weights, of each evaluated question where they depend on it."""
    seen = team.questions(evaluated, "evaluation").features.numpy() if learner.spec.features else None
    return learner.inference_wirings(seen), learner.reading(seen)


def of_columns(scores: torch.Tensor, utilities: torch.Tensor, speaks: Bools | None) -> Floats:
    """Mean score of each agent's turns, NaN without any, and of final answers [k, agents + 1]."""
    spoken = np.ones(scores.shape) if speaks is None else np.broadcast_to(speaks, scores.shape)
    count = spoken.sum(1)
    own = (scores.numpy() * spoken).sum(1) / np.where(count, count, np.nan)
    return np.column_stack([own, utilities.numpy()])


def monitored(learner: Learner, team: OpinionTeam, steps: Sequence[_Step]) -> dict[str, int | None]:
    """Watches the first evaluated questions along the learned graph: `reported` and `alarms` of an `Outcome`."""
    graph, number = along(learner, team, MONITORED), np.repeat(range(len(steps)), [len(each.scores) for each in steps])
    trained = pd.DataFrame(np.concatenate([step.scores for step in steps]), number)
    evaluated = pd.DataFrame(of_columns(*held(team, *graph, MONITORED), graph[0].speaks))
    found = fallen(trained, evaluated, team.modalities, learner.spec.settings.error_rate)
    shown = [after for agent, (_, after) in found.items() if agent in team.special]
    return {"reported": min(shown, default=None), "alarms": len(found.keys() - {*team.special, team.agents})}


def edges_left(learner: Learner) -> float:
    """Counts the edges that a learner has left; where rounds have separate edges, the mean over rounds."""
    of_blocks: dict[str, list[int]] = {}
    for name, left in learner.edges_left().items():
        of_blocks.setdefault(name.partition(", round ")[0], []).append(left)
    return sum(statistics.mean(left) for left in of_blocks.values())


def stopped(learner: Learner) -> Learner:
    """Copies a learner and ends the copy's learning here, in any stage."""
    copy = make_learner(learner.spec)
    copy.load(learner.state())
    # Each `next_stage` prunes with the scores so far, as the end of a stage does.
    while not copy.finished:
        copy.next_stage()
    return copy


def wrongly_cut(learner: Learner, truth: Truth) -> int | None:
    """Counts helpful edges that were cut as certain to harm; None for a learner that is never certain."""
    cut = learner.certain_harm()
    if cut is None:
        return None
    return sum(
        int((sure & (receiver > 0) & (answer > 0)).sum())
        for sure, receiver, answer in zip(cut, truth.on_receiver, truth.on_answer, strict=True)
    )


def shares(wirings: Wirings, full: Wirings) -> tuple[float, ...]:
    """Shares of the full graph's edges that other wirings have, by kind: spatial, temporal, to the decision agent."""
    names = ("spatial", "temporal", "decision")
    return tuple(float(getattr(wirings, name).mean() / max(getattr(full, name).mean(), 1e-9)) for name in names)


def price(wirings: Wirings) -> tuple[int, int]:
    """Returns the needed turns of one discussion, and the messages read in them and by the decision agent."""
    # The first stands for all: baselines and learned graphs differ between discussions in speaking order at most.
    speaks = None if wirings.speaks is None else wirings.speaks[0]
    wiring = Wiring.of_matrices(wirings.spatial[0], wirings.temporal[0], wirings.decision[0], speaks=speaks)
    taken = needed_turns(wiring)
    heard = sum(int(into(taken, edges).sum()) for edges in (wiring.spatial, wiring.temporal))
    return int(taken.sum()), heard + int(wiring.decision.sum())


def different_turns(wirings: Wirings) -> tuple[int, int]:
    """Counts the different turns among discussions of one question, and the messages read in them.

    Equal turns are of the same agent and round, with equal messages and memories: one completion answers both. Each
    turn is known by a hash of 64 bits of these.
    """
    k, rounds, agents = wirings.order.shape
    speaks = np.ones((k, rounds, agents), dtype=bool) if wirings.speaks is None else wirings.speaks
    odd = np.random.default_rng(0).integers(2**63, size=(3, rounds + 1, agents + 1), dtype=np.uint64) | np.uint64(1)
    # Hashes of each agent's last turn, which determine all turns before it, and of its turn in the round before.
    own, before, each = *np.zeros((2, k, agents), np.uint64), np.arange(k)
    turns, read = [], []

    def add(agent: Any, t: int, now: Any, then: Any, spoken: Any, last: Any) -> Any:
        heard = (now * spoken * odd[0, t, :agents] + then * before * odd[1, t, :agents]).sum(1, dtype=np.uint64)
        mixed = (odd[2, t, agent] + heard + last * odd[2, 0, agents]) * np.uint64(0x9E3779B97F4A7C15)
        turns.append(mixed ^ (mixed >> np.uint64(29)))
        read.append(now.sum(1) + then.sum(1))
        return turns[-1]

    for t in range(rounds):
        spoken = np.zeros((k, agents), np.uint64)
        for agent in wirings.order[:, t].T:
            part = speaks[each, t, agent]
            now = wirings.spatial[each, t, :, agent] & (spoken > 0)
            then = wirings.temporal[each, t, :, agent] & (before > 0)
            turn = add(agent, t, now, then, spoken, own[each, agent])
            spoken[each, agent] = turn * part
            turns[-1], read[-1] = turn[part], read[-1][part]
        before, own = spoken, np.where(spoken > 0, spoken, own)
    add(agents, rounds, wirings.decision & (before > 0), np.zeros_like(wirings.decision), before, np.uint64(0))
    different, first = np.unique(np.concatenate(turns), return_index=True)
    return len(different), int(np.concatenate(read)[first].sum())


def ranking(scores: Edges[Floats], truth: Truth, team: OpinionTeam) -> dict[str, float | None]:
    """Returns the three AUCs of an `Outcome`, each the mean over kinds of edges."""
    agents = len(scores.spatial)
    costs: dict[str, Edges[Bools]] = {
        "auc_harmful": Edges(*(effect < 0 for effect in truth.on_receiver)),
        "auc_costly": Edges(*(effect < 0 for effect in truth.on_answer)),
    }
    compared = ~np.eye(agents, dtype=bool)
    if team.special and team.scenario.ranked != "neither":
        # Edges to an adversary do nothing, because it ignores messages: no rank of theirs is right.
        compared[:, team.special] = False
        of_special = np.isin(np.arange(agents), team.special)[:, None].repeat(agents, 1)
        costs["auc_adversary"] = Edges(*[of_special == (team.scenario.ranked == "below")] * 2)
    # A learner without temporal edges, or without those between modalities, does not rank them.
    ranked = [compared & np.isfinite(score) for score in scores]
    means: dict[str, float | None] = {}
    for name, kinds in costs.items():
        aucs = [auc(s[bad & at], s[~bad & at]) for bad, at, s in zip(kinds, ranked, scores, strict=True)]
        # A kind without harmful edges, or with nothing else, has no AUC and is left out.
        known = [value for value in aucs if value is not None]
        means[name] = float(np.mean(known)) if known else None
    return means
