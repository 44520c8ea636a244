"""`dry_run=true`: turns, calls and tokens of a run before it starts, without a model.

A sample of questions is discussed along wirings as the run would draw them, with the run's own prompts. Only replies
are simulated: all have a stated length. The learner takes all its steps with scores drawn by a fair coin, which prefer
no edge; what it samples and prunes follows from the pruning rate alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import TypeVar

import numpy as np

from actors.backends.model_settings import model_name
from actors.errors import StoreError, UserError
from actors.messages import Question, Role, Trace, derive_seed
from actors.runtime.inline import Local
from experiments.config.config import Config
from experiments.datasets.item import Dataset, Item
from experiments.dry_run.counts import EarlierRun, PhaseCounts, RunCounts, counts_table, total
from experiments.dry_run.simulated_team import ANSWER, MAIN, REPLY, SimulatedCache, SimulatedTeam
from experiments.dry_run.token_count import Counter, counter_for, counter_of
from experiments.evidence.evidence import Evidence
from experiments.evidence.library import LabelledLibrary, triples_given
from experiments.judging.judge import grading_request
from experiments.judging.rubric import GRADED
from experiments.running.calibration import watched_items, watched_topology
from experiments.running.extracting import check_extraction, left_to_extract
from experiments.running.launch import launched_roles, learned_methods, team_roles
from experiments.running.launched import donors, make_learners
from experiments.running.methods import METHODS, make_topology, methods_of
from experiments.running.models import answer_rubric, by_key, model_backend, role_backends
from experiments.running.opening import open_cache, open_dataset, open_evidence
from experiments.studies.behaviour.measure import conditions
from experiments.studies.redundancy.edges import edges_of, full_graph
from topologies.baselines import constant_wiring
from topologies.graphs import complete
from topologies.learning.learned_topology import LearnedTopology
from topologies.learning.learner_settings import Decision
from topologies.method import Method
from topologies.topology import Topology, Wired
from topologies.wiring import Wiring

QUESTIONS = 40  # sampled for each phase
DISCUSSIONS = 400  # held to count training

T = TypeVar("T")


def dry_run(config: Config) -> RunCounts:
    """Counts and prints. Starts no process and makes no run folder.

    Raises:
        UserError: what would end the run as well, or a job that is not counted.
    """
    one_turn = "; experiment=mmqa_prune methods=[{}] dry_run=true with the same settings counts one"
    if config.job == "recall":
        raise UserError("experiment=recall calls no model: there is nothing to count")
    if config.job == "behaviour":
        asked = len(conditions(config.behaviour))
        raise UserError(
            f"job=behaviour is not counted: it takes one turn per question under each of {asked} conditions"
            + one_turn.format("single")
        )
    if config.job == "redundancy":
        graphs = 1 + len(edges_of(full_graph(len(team_roles(config)), config.topology.rounds)))
        least = graphs * config.redundancy.questions
        raise UserError(
            f"job=redundancy is not counted: after learning it holds {least:,} to {2 * least:,} discussions of nearly "
            "the full graph" + one_turn.format("full")
        )
    counts = count_run(config)
    counts_table(counts).print()
    return counts


def count_run(config: Config) -> RunCounts:
    """Counts one run. Makes its data and index where they are missing.

    Raises:
        UserError: what would end the run as well.
    """
    cache = open_cache(config)
    dataset = open_dataset(config, cache)
    check_extraction(config, dataset)
    try:
        evidence = open_evidence(config, dataset, cache)
        return count(config, dataset, evidence, team_roles(config), counter_for(config))
    except StoreError as error:
        raise UserError(str(error)) from error


def count(config: Config, dataset: Dataset, evidence: Evidence, roles: Sequence[Role], counter: Counter) -> RunCounts:
    """Counts one run over an open data set.

    Args:
        roles: roles of the team; the decision agent and other closing roles are added.

    Raises:
        UserError: what would end the run as well: too few training questions, an unknown method, learner settings that
            contradict each other.
    """
    return asyncio.run(_DryRun(config, dataset, evidence, roles, counter).count())


class _DryRun:
    def __init__(
        self, config: Config, dataset: Dataset, evidence: Evidence, roles: Sequence[Role], counter: Counter
    ) -> None:
        self._config, self._dataset, self._evidence, self._counter = config, dataset, evidence, counter
        launched = launched_roles(config, roles)
        self._own = role_backends(config, dict.fromkeys(role.played for role in launched))
        counters = {key: counter_of(backend) for key, backend in by_key(self._own).items()}
        own = {role: (backend.key, counters[backend.key]) for role, backend in self._own.items()}
        self._earlier = EarlierRun.read(config.costs.run) if config.costs.run else None
        self._lengths = self._earlier.reply_tokens if self._earlier else counter.reply_tokens
        self._team = SimulatedTeam(launched, config.agents, counter, own, self._lengths, reuse=config.completions.reuse)
        # One cache for all phases, as in the run.
        self._cache = SimulatedCache()
        self._methods = methods_of(config)
        # Only systems search; other methods need no question in memory.
        searched = dataset.evaluate() if any(method.needs_library for method in self._methods) else ()
        self._library = LabelledLibrary(evidence, searched, triples=triples_given(dataset))
        self._calibration_traces: list[Trace] = []
        self._agents = [role.name for role in roles]
        rounds = config.topology.rounds
        # The two extremes of what learning may leave: nobody is heard, or everybody.
        empty = np.zeros((0, 3), dtype=np.int64)
        self._extremes = (
            Wiring(rounds, empty, empty, np.zeros(len(roles), dtype=bool)),
            constant_wiring(complete(len(roles)), len(roles), rounds),
        )
        self._learners = make_learners(config, roles)
        self._sources = donors(config, roles)
        self._learned = {
            method: LearnedTopology(method, self._agents, Local(learner), config.topology.inference)
            for method, learner in self._learners.items()
        }

    async def count(self) -> RunCounts:
        """Counts the phases in the run's order: extraction, calibration, training, each method, judging."""
        config = self._config
        phases = []
        for step, questions in left_to_extract(config, self._dataset, self._evidence.store, REPLY):
            # A turn for each source that is left; a reply with many statements is longer than counted.
            if questions:
                sample = spread(questions, QUESTIONS)
                phases.append((await self._discuss(step, sample)).scaled(step.phase, len(questions)))
        if any(method.needs_calibration for method in self._methods):
            phases.append(await self._calibration())
        for learned, learner in self._learners.items():
            if learned not in self._sources:
                phases += [await self._training(learned, stage) for stage in range(1, learner.stages + 1)]
        for graph in self._learned.values():
            await graph.freeze()
        items = list(self._dataset.evaluate())
        if not items:
            raise UserError(f"{self._dataset.name} has no question to evaluate; check data.root and the selection")
        sampled = spread(items, QUESTIONS)
        questions = [self._question(item) for item in sampled]
        for method in self._methods:
            phases.append(await self._evaluation(method, questions, len(items)))
        backends = {MAIN: model_backend(config), **by_key(self._own)}
        return RunCounts(
            phases=tuple(phases),
            judged=self._judging(sampled, len(items)) if config.judge.kind != "none" else None,
            rule=self._counter.rule,
            reply_tokens=self._team.reply_tokens,
            measured=bool(self._lengths),
            questions=len(questions),
            max_tokens=config.agents.max_tokens,
            reuse=config.completions.reuse,
            warnings=tuple(self._warnings(total(phases))),
            models=self._models(),
            sources=self._sources,
            costs=config.costs,
            earlier=self._earlier,
            gpus=sum(backend.replicas * backend.gpus_each for backend in backends.values()),
        )

    async def _discuss(self, topology: Topology, questions: Sequence[Question]) -> PhaseCounts:
        counts = PhaseCounts()
        for question in questions:
            await self._team.run_discussion(topology, question, self._config.seed, 0, counts, self._cache)
        return counts

    async def _calibration(self) -> PhaseCounts:
        items, counts = watched_items(self._config, self._dataset), PhaseCounts()
        topology = watched_topology(self._agents, self._config.topology.rounds)
        for item in spread(items, QUESTIONS):
            question, seed = self._question(item), self._config.seed
            trace = await self._team.run_discussion(topology, question, seed, 0, counts, self._cache)
            self._calibration_traces.append(trace)
        return counts.scaled("watching unlabelled discussions", len(items))

    async def _training(self, method: str, stage: int) -> PhaseCounts:
        """Counts a stage. All its steps are sampled and learned from; some, evenly spread, are also discussed."""
        config, learner = self._config, self._learners[method]
        steps, per_step, k = config.pruning.steps, config.training.questions_per_step, config.training.samples
        learners = [learner, *(self._learners[name] for name, source in self._sources.items() if source == method)]
        needed = steps * per_step
        items = list(islice(self._dataset.train(), (stage - 1) * needed, stage * needed))
        if len(items) < needed:
            raise UserError(
                f"stage {stage} needs {needed} training questions of its own and {self._dataset.name} has only "
                f"{len(items)} left for it: lower pruning.steps or training.questions_per_step"
            )
        # A step has k discussions in each stage, so fewer steps are discussed as those grow.
        discussed = set(spread(range(steps), max(1, DISCUSSIONS // (learner.stages * k))))
        counts, bounds = PhaseCounts(), (PhaseCounts(), PhaseCounts())
        coin = np.random.default_rng(derive_seed(config.seed, "planned scores", method, stage))
        for step in range(steps):
            wirings, topologies = await self._learned[method].sample(k)
            if step in discussed:
                # The first question of a step stands for all of it.
                question = self._question(items[step * per_step])
                for sample, topology in enumerate(topologies):
                    await self._team.run_discussion(topology, question, config.seed, sample, counts, self._cache)
                await self._bounds(question, bounds, every_turn=True)
            # A fair coin prefers no edge, as scores of zero, but moves logits as a run does: after zeros alone the
            # sparsity term would leave hardly an edge to draw.
            utilities = coin.integers(2, size=k).astype(float)
            turns = coin.integers(2, size=(k, config.topology.rounds, len(self._agents))).astype(float)
            for each in learners:
                each.learn(wirings, turns, utilities)
        for each in learners:
            each.next_stage()
        return counts.scaled(f"learning {method}, stage {stage}", needed * k, bounds)

    async def _evaluation(self, method: Method, questions: Sequence[Question], total: int) -> PhaseCounts:
        config = self._config
        topology = make_topology(method, config, self._agents, self._learned, self._library, self._calibration_traces)
        # The next turn of a system depends on earlier replies, and perhaps that of a method from another package.
        follows_a_wiring = method in METHODS and not method.needs_library
        # The turns that an answer depends on are known in advance only where the decision agent reads everyone.
        every_turn = not method.needs_graph or self._reads_everyone(method)
        exact = follows_a_wiring and every_turn
        # Unknown requests are not taken to be answered by another method's.
        cache = self._cache if exact else SimulatedCache()
        counts, bounds = PhaseCounts(), (PhaseCounts(), PhaseCounts())
        for question in questions:
            await self._team.run_discussion(topology, question, config.seed, 0, counts, cache)
            if follows_a_wiring and (method.needs_graph or method.needs_calibration):  # others have fixed edges
                await self._bounds(question, bounds, every_turn)
        phase = counts.scaled(f"evaluating {method.name}", total, bounds if bounds[0].discussions else ())
        phase.exact = exact
        return phase

    def _reads_everyone(self, method: Method) -> bool:
        learned = method.learner or learned_methods(self._config)[0]
        return self._learners[learned].spec.decision is Decision.ALL

    async def _bounds(self, question: Question, bounds: Sequence[PhaseCounts], every_turn: bool) -> None:
        for wiring, counts in zip(self._extremes, bounds, strict=True):
            topology = Wired("bound", self._agents, wiring, every_turn)
            await self._team.run_discussion(topology, question, self._config.seed, 0, counts, SimulatedCache())

    def _judging(self, sampled: Sequence[Item], total: int) -> PhaseCounts:
        """An upper bound: equal answers of several methods to a question are judged once, missing ones not at all."""
        rubric, n = answer_rubric(self._config), len(sampled)
        requests = [grading_request(item, ANSWER, rubric=rubric) for item in sampled]
        # A judge's reason is assumed to have a third of the length of an agent's reply.
        verdict = f"Reasoning: {REPLY[: len(REPLY) // 3]}\nGrade: 5" if rubric is GRADED else "Same: yes"
        counts = PhaseCounts(
            discussions=n,
            calls=n,
            prompt=sum(self._counter.shared(request) + self._counter.own(request) for request in requests),
            completion=n * self._counter.text(verdict),
            made=n,
        )
        return counts.scaled("judging, at most", total * len(self._methods))

    def _models(self) -> dict[str, str]:
        models = {MAIN: f"model {model_name(self._config.model)}"}
        for key, backend in by_key(self._own).items():
            roles = [role for role, asked in self._own.items() if asked is backend]
            models[key] = f"model {model_name(backend.settings)} of {', '.join(roles)}"
        return models

    def _question(self, item: Item) -> Question:
        return replace(item.question, evidence=self._evidence.retrieve(item), own=item.own)

    def _warnings(self, whole: PhaseCounts) -> Iterator[str]:
        config = self._config
        models = {MAIN: config.model} | {key: backend.settings for key, backend in by_key(self._own).items()}
        for key, model in models.items():
            asked = whole.by_model.get(key) if self._own else whole
            if asked is None:
                continue
            limit, reply = model.max_model_len, config.agents.max_tokens
            # Only the stronger of the two warnings.
            for sure, longest in (("will", asked.longest), ("may", asked.at_most)):
                if limit is not None and longest + reply > limit:
                    yield (
                        f"{key}.max_model_len={limit:,} is less than the {longest:,} tokens of the longest prompt with "
                        f"{reply:,} for its reply: evidence {sure} be cut, least relevant first"
                    )
                    break
        hosted = [name for name, role in config.roles.items() if role.agent]
        if config.attack.kind != "none":
            yield f"attack={config.attack.kind}: discussions are counted as they would be without it"
        if hosted:
            yield f"{', '.join(hosted)}: an AutoGen agent of your own may call the model more often than counted here"
        if config.model.kind == "replay":
            yield "model=replay answers from a recorded run: none of this is computed"


def spread(items: Sequence[T], count: int) -> list[T]:
    """At most `count` of the items, evenly spread."""
    n = min(count, len(items))
    return [items[i * len(items) // n] for i in range(n)]
