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
from actors.messages import Question, Trace, derive_seed
from actors.runtime.inline import Local
from experiments.datasets.item import Dataset, Item
from experiments.dry_run.counts import EarlierRun, PhaseCounts, RunCounts, counts_table, total
from experiments.dry_run.simulated_team import ANSWER, MAIN, REPLY, SimulatedCache, SimulatedTeam
from experiments.dry_run.token_count import TokenCounter, counter_of
from experiments.evidence.evidence import Evidence
from experiments.evidence.library import LabelledLibrary, triples_given
from experiments.judging.judge import grading_request
from experiments.judging.rubric import GRADED
from experiments.planning.plan import Plan
from experiments.planning.topologies import make_topology
from experiments.running.evaluation import watched_topology
from experiments.running.inputs import open_cache, open_dataset, open_evidence, watched_items
from experiments.running.left_to_extract import check_extraction, left_to_extract
from topologies.baselines import constant_wiring
from topologies.catalogue import METHODS
from topologies.graphs import complete
from topologies.learning.learned_topology import LearnedTopology
from topologies.learning.learner_settings import Decision
from topologies.learning.making import make_learner
from topologies.method import Method
from topologies.topology import Topology, Wired
from topologies.wiring import Wiring

QUESTIONS = 40  # sampled for each phase
DISCUSSIONS = 400  # held to count training

T = TypeVar("T")


def dry_run(plan: Plan) -> RunCounts:
    """Counts and prints. Starts no process and makes no run folder.

    Raises:
        UserError: what would end the run as well, or a job that is not counted.
    """
    plan.job.check_counted(plan)
    counts = count_run(plan)
    counts_table(counts).print()
    return counts


def count_run(plan: Plan) -> RunCounts:
    """Counts one run. Makes its data and index where they are missing.

    Raises:
        UserError: what would end the run as well.
    """
    cache = open_cache(plan.config)
    dataset = open_dataset(plan, cache)
    check_extraction(plan, dataset)
    try:
        return count(plan, dataset, open_evidence(plan, dataset, cache), counter_of(plan.models.main))
    except StoreError as error:
        raise UserError(str(error)) from error


def count(plan: Plan, dataset: Dataset, evidence: Evidence, counter: TokenCounter) -> RunCounts:
    """Counts one run over an open data set.

    Raises:
        UserError: what would end the run as well, such as too few training questions.
    """
    return asyncio.run(_DryRun(plan, dataset, evidence, counter).count())


class _DryRun:
    def __init__(self, plan: Plan, dataset: Dataset, evidence: Evidence, counter: TokenCounter) -> None:
        config = plan.config
        self._plan, self._config, self._dataset, self._evidence = plan, config, dataset, evidence
        self._counter, self._agents = counter, plan.roles.agents
        self._own = plan.models.of_roles
        counters = {key: counter_of(backend) for key, backend in plan.models.of_roles_by_key.items()}
        own = {role: (backend.key, counters[backend.key]) for role, backend in self._own.items()}
        self._earlier = EarlierRun.read(config.costs.run) if config.costs.run else None
        self._lengths = self._earlier.reply_tokens if self._earlier else counter.reply_tokens
        launched = plan.roles.launched
        self._team = SimulatedTeam(launched, config.agents, counter, own, self._lengths, reuse=config.completions.reuse)
        # One cache for all phases, as in the run.
        self._cache = SimulatedCache()
        # Only systems search; other methods need no question in memory.
        searched = dataset.evaluate() if plan.has_library else ()
        self._library = LabelledLibrary(evidence, searched, triples=triples_given(dataset))
        self._calibration_traces: list[Trace] = []
        agents, rounds = len(self._agents), config.topology.rounds
        # The two extremes of what learning may leave: nobody is heard, or everybody.
        empty = np.zeros((0, 3), dtype=np.int64)
        self._extremes = (
            Wiring(rounds, empty, empty, np.zeros(agents, dtype=bool)),
            constant_wiring(complete(agents), agents, rounds),
        )
        self._learners = {method: make_learner(spec) for method, spec in plan.learners.items()}
        self._learned = {
            method: LearnedTopology(method, self._agents, Local(learner), config.topology.inference)
            for method, learner in self._learners.items()
        }

    async def count(self) -> RunCounts:
        """Counts the phases in the run's order: extraction, calibration, training, each method, judging."""
        config = self._config
        phases = []
        for step, questions in left_to_extract(self._plan, self._dataset, self._evidence.store, REPLY):
            # A turn for each source that is left; a reply with many statements is longer than counted.
            if questions:
                sample = spread(questions, QUESTIONS)
                phases.append((await self._discuss(step, sample)).scaled(step.phase, len(questions)))
        if self._plan.watched_questions:
            phases.append(await self._calibration())
        for learned, spec in self._plan.learners.items():
            if learned not in self._plan.shared_from:
                phases += [await self._training(learned, stage) for stage in range(1, spec.stages + 1)]
        for graph in self._learned.values():
            await graph.freeze()
        items = list(self._dataset.evaluate())
        if not items:
            raise UserError(f"{self._dataset.name} has no question to evaluate; check data.root and the selection")
        sampled = spread(items, QUESTIONS)
        questions = [self._question(item) for item in sampled]
        for method in self._plan.methods:
            phases.append(await self._evaluation(method, questions, len(items)))
        backends = (self._plan.models.main, *self._plan.models.of_roles_by_key.values())
        return RunCounts(
            phases=tuple(phases),
            judged=self._judging(sampled, len(items)) if self._plan.models.judge else None,
            rule=self._counter.rule,
            reply_tokens=self._team.reply_tokens,
            measured=bool(self._lengths),
            questions=len(questions),
            max_tokens=config.agents.max_tokens,
            reuse=config.completions.reuse,
            warnings=tuple(self._warnings(total(phases))),
            models=self._models(),
            sources=self._plan.shared_from,
            costs=config.costs,
            earlier=self._earlier,
            gpus=sum(backend.replicas * backend.gpus_each for backend in backends),
        )

    async def _discuss(self, topology: Topology, questions: Sequence[Question]) -> PhaseCounts:
        counts = PhaseCounts()
        for question in questions:
            await self._team.run_discussion(topology, question, self._config.seed, 0, counts, self._cache)
        return counts

    async def _calibration(self) -> PhaseCounts:
        items, counts = watched_items(self._dataset, self._plan.watched_questions), PhaseCounts()
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
        learners = [
            learner,
            *(self._learners[name] for name, source in self._plan.shared_from.items() if source == method),
        ]
        needed = steps * per_step
        items = list(islice(self._dataset.train(), (stage - 1) * needed, stage * needed))
        if len(items) < needed:
            raise UserError(
                f"stage {stage} needs {needed} training questions of its own and {self._dataset.name} has only "
                f"{len(items)} left for it: lower pruning.steps or training.questions_per_step"
            )
        # A step has k discussions in each stage, so fewer steps are discussed as those grow.
        discussed = set(spread(range(steps), max(1, DISCUSSIONS // (self._plan.learners[method].stages * k))))
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
        learned = method.learner or next(iter(self._plan.learners))
        return self._plan.learners[learned].decision is Decision.ALL

    async def _bounds(self, question: Question, bounds: Sequence[PhaseCounts], every_turn: bool) -> None:
        for wiring, counts in zip(self._extremes, bounds, strict=True):
            topology = Wired("bound", self._agents, wiring, every_turn)
            await self._team.run_discussion(topology, question, self._config.seed, 0, counts, SimulatedCache())

    def _judging(self, sampled: Sequence[Item], total: int) -> PhaseCounts:
        """An upper bound: equal answers of several methods to a question are judged once, missing ones not at all."""
        rubric, n = self._plan.rubric, len(sampled)
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
        return counts.scaled("judging, at most", total * len(self._plan.methods))

    def _models(self) -> dict[str, str]:
        models = {MAIN: f"model {model_name(self._config.model)}"}
        for key, backend in self._plan.models.of_roles_by_key.items():
            roles = [role for role, asked in self._own.items() if asked is backend]
            models[key] = f"model {model_name(backend.settings)} of {', '.join(roles)}"
        return models

    def _question(self, item: Item) -> Question:
        return replace(item.question, evidence=self._evidence.retrieve(item), own=item.own)

    def _warnings(self, whole: PhaseCounts) -> Iterator[str]:
        config = self._config
        models = self._plan.models
        for key, backend in {MAIN: models.main, **models.of_roles_by_key}.items():
            asked = whole.by_model.get(key) if self._own else whole
            if asked is None:
                continue
            limit, reply = backend.settings.max_model_len, config.agents.max_tokens
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
