"""`dry_run=true`: the turns and calls of a run and an estimate of its tokens, before any is spent.

The discussions of a sample of questions are really walked, along wirings as the run would draw them, with the prompts
that it would send; only the agents are stood in for, by replies of one stated length. The learner goes through all its
steps with scores of zero: what it samples and prunes is then what the pruning rate says, and no edge is preferred.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np

from actors.backends.settings import model_name
from actors.errors import StoreError, UserError
from actors.messages import Question, Role, Trace, derive_seed
from actors.runtime.local import Local
from experiments.config.config import Config
from experiments.datasets.item import Dataset, Item
from experiments.estimate.earlier_run import read_earlier_run
from experiments.estimate.plan import Phase, Plan, Range, Share, plan_table, total
from experiments.estimate.replies import ANSWER, REPLY
from experiments.estimate.stand_ins import MAIN, StandIns, Tally
from experiments.estimate.token_count import Counter, counter_for, counter_of
from experiments.evidence.evidence import Evidence
from experiments.evidence.extraction import Step
from experiments.evidence.gleaning import Gleaned
from experiments.evidence.knowledge import triples_given
from experiments.evidence.library import LabelledLibrary
from experiments.judging import judge
from experiments.judging.rubric import GRADED
from experiments.running.calibration import watched_items, watched_topology
from experiments.running.extracting import check_extraction, left_to_extract
from experiments.running.launch import launched_roles, learned_methods, learner_settings, team_roles
from experiments.running.launched import donors, make_learners
from experiments.running.methods import METHODS, make_topology, methods_of
from experiments.running.models import answer_rubric, by_key, model_backend, role_backends
from experiments.running.opening import open_cache, open_dataset, open_evidence
from experiments.studies.behaviour.conditions import conditions
from experiments.studies.redundancy.edges import edges_of, full_graph
from topologies.edge_lists import Wiring
from topologies.fixed import constant_wiring
from topologies.graphs import complete
from topologies.learning.pruned import LearnedTopology
from topologies.learning.scheme import resolved
from topologies.learning.settings import Decision
from topologies.method import Method
from topologies.topology import Wired

QUESTIONS = 40  # looked at, of each split
DISCUSSIONS = 400  # walked to estimate training


def dry_run(config: Config) -> Plan:
    """Estimates and prints. Starts no process and makes no run folder.

    Raises:
        UserError: what would end the run as well.
    """
    roles = team_roles(config)
    if config.job == "recall":
        raise UserError("experiment=recall asks no model: there is nothing to estimate")
    if config.job == "behaviour":
        asked = len(conditions(config.behaviour))
        raise UserError(
            f"job=behaviour is not estimated: it takes one turn for each question under each of {asked} conditions; "
            "what one takes is told by experiment=mmqa_prune methods=[single] dry_run=true with the same settings"
        )
    if config.job == "redundancy":
        graphs = 1 + len(edges_of(full_graph(len(roles), config.topology.rounds)))
        raise UserError(
            f"job=redundancy is not estimated: beside learning it holds {graphs * config.redundancy.questions:,} to "
            f"{2 * graphs * config.redundancy.questions:,} discussions of nearly the full graph; what one takes is "
            "told by experiment=mmqa_prune methods=[full] dry_run=true with the same settings"
        )
    plan = plan_of(config)
    plan_table(plan).print()
    return plan


def plan_of(config: Config) -> Plan:
    """The plan of one run, from its data and index, which are made where they are not there yet."""
    cache = open_cache(config)
    dataset = open_dataset(config, cache)
    check_extraction(config, dataset)
    try:
        evidence = open_evidence(config, dataset, cache)
        return estimate(config, dataset, evidence, team_roles(config), counter_for(config))
    except StoreError as error:
        raise UserError(str(error)) from error


def estimate(config: Config, dataset: Dataset, evidence: Evidence, roles: Sequence[Role], counter: Counter) -> Plan:
    """The plan of this configuration. Asks no model; writes nothing but what `evidence` does for its index.

    Args:
        roles: those that discuss; those beside the team (the decision agent and others) are added.

    Raises:
        UserError: for what would end the run as well: too few training questions, a method that does not exist,
            learner settings that make no sense.
    """
    return asyncio.run(_Estimate(config, dataset, evidence, roles, counter).plan())


class _Estimate:
    def __init__(
        self, config: Config, dataset: Dataset, evidence: Evidence, roles: Sequence[Role], counter: Counter
    ) -> None:
        self._config, self._dataset, self._evidence, self._counter = config, dataset, evidence, counter
        taking_part = launched_roles(config, roles)
        self._own = role_backends(config, dict.fromkeys(role.played for role in taking_part))
        counters = {key: counter_of(backend) for key, backend in by_key(self._own).items()}
        own = {role: (backend.key, counters[backend.key]) for role, backend in self._own.items()}
        self._roles = roles
        self._earlier = read_earlier_run(config.costs.run) if config.costs.run else None
        self._lengths = self._earlier.reply_tokens if self._earlier else counter.reply_tokens
        self._team = StandIns(taking_part, config.agents, counter, own, self._lengths)
        self._methods = methods_of(config)
        # Only systems search; for other methods no question has to be held in memory.
        searched = dataset.evaluate() if any(method.needs_library for method in self._methods) else ()
        self._library = LabelledLibrary(evidence, searched, triples=triples_given(dataset))
        # Shared by all phases: a completion of one phase is reused in the next.
        self._seen: set[str] = set()
        self._prefixes: set[tuple[str, str]] = set()
        self._watched: list[Trace] = []
        self._agents = [role.name for role in roles]
        rounds = config.topology.rounds
        # The two ends of what learning may leave: nobody is heard, or everybody.
        empty = np.zeros((0, 3), dtype=np.int64)
        self._lower = Wiring(rounds, empty, empty, np.zeros(len(roles), dtype=bool))
        self._upper = constant_wiring(complete(len(roles)), len(roles), rounds)
        self._learners = make_learners(config, roles)
        self._donors = donors(config, roles)
        self._learned = {
            method: LearnedTopology(method, self._agents, Local(learner), config.topology.inference)
            for method, learner in self._learners.items()
        }

    async def plan(self) -> Plan:
        """The phases in the order of the run: extraction, calibration, training, each method, judging."""
        config = self._config
        phases = [
            await self._extraction(step, questions)
            for step, questions in left_to_extract(config, self._dataset, self._evidence.store, REPLY)
            if questions
        ]
        if any(method.needs_calibration for method in self._methods):
            phases.append(await self._calibration())
        for learned, learner in self._learners.items():
            if learned in self._donors:
                continue
            phases += [await self._training(learned, stage) for stage in range(1, learner.stages + 1)]
        # The methods below walk the learned graph, here one that the pruning rate alone has cut.
        for graph in self._learned.values():
            await graph.freeze()
        items = list(self._dataset.evaluate())
        if not items:
            raise UserError(f"{self._dataset.name} has no question to evaluate; check data.root and the selection")
        looked_at = [(item, self._question(item)) for item in spread(items, QUESTIONS)]
        questions = [question for _, question in looked_at]
        for method in self._methods:
            phases.append(await self._evaluation(method, questions, len(items)))
        judged = self._judging(looked_at, len(items)) if config.judge.kind != "none" else None
        whole, backends = total(phases), (model_backend(config), *by_key(self._own).values())
        return Plan(
            phases=tuple(phases),
            judged=judged,
            rule=self._counter.rule,
            reply_tokens=self._team.reply_tokens,
            questions=len(questions),
            max_tokens=config.agents.max_tokens,
            reuse=config.completions.reuse,
            warnings=tuple(self._warnings(whole)),
            models=self._models(),
            donors=self._donors,
            costs=config.costs,
            earlier=self._earlier,
            measured=bool(self._lengths),
            gpus=sum(backend.replicas * backend.gpus_each for backend in backends),
        )

    def _tally(self) -> Tally:
        return Tally(seen=self._seen, prefixes=self._prefixes)

    async def _extraction(self, step: Step | Gleaned, questions: Sequence[Question]) -> Phase:
        """A turn for each source of which nothing is kept, and one further look at it where there may be any; a reply
        that states much is longer than counted here."""
        expected = self._tally()
        for question in spread(questions, QUESTIONS):
            await self._team.run_discussion(step, question, self._config.seed, 0, expected)
        return phase(step.phase, len(questions), expected, expected, expected)

    async def _calibration(self) -> Phase:
        items = watched_items(self._config, self._dataset)
        topology = watched_topology(self._agents, self._config.topology.rounds)
        expected = self._tally()
        for item in spread(items, QUESTIONS):
            question = self._question(item)
            self._watched.append(await self._team.run_discussion(topology, question, self._config.seed, 0, expected))
        return phase("watching unlabelled discussions", len(items), expected, expected, expected)

    async def _training(self, method: str, stage: int) -> Phase:
        """The plan of a stage: all its steps are sampled and learned; some, evenly spread, are also walked."""
        config, learner = self._config, self._learners[method]
        steps, per_step, k = config.pruning.steps, config.training.questions_per_step, config.training.samples
        students = [learner, *(self._learners[name] for name, source in self._donors.items() if source == method)]
        needed = steps * per_step
        items = list(islice(self._dataset.train(), (stage - 1) * needed, stage * needed))
        if len(items) < needed:
            raise UserError(
                f"stage {stage} needs {needed} training questions of its own and {self._dataset.name} has only "
                f"{len(items)} left for it: lower pruning.steps or training.questions_per_step"
            )
        # A walked step costs k discussions in each stage, so fewer steps are walked as those grow.
        walked = set(spread(range(steps), max(1, DISCUSSIONS // (learner.stages * k))))
        expected, bounds = self._tally(), (Tally(), Tally())
        coin = np.random.default_rng(derive_seed(config.seed, "planned scores", method, stage))
        for step in range(steps):
            wirings, walks = await self._learned[method].sample(k)
            if step in walked:
                # The first question of a step stands for all of it.
                question = self._question(items[step * per_step])
                for sample, walk in enumerate(walks):
                    await self._team.run_discussion(walk, question, config.seed, sample, expected)
                await self._bounds(question, bounds, every_turn=True)
            # Right or wrong by the throw of a coin: that prefers no edge, as scores of zero, but moves logits to and
            # fro as a run does. After zeros alone, the sparsity term would leave hardly an edge to be drawn.
            utilities = coin.integers(2, size=k).astype(float)
            turns = coin.integers(2, size=(k, config.topology.rounds, len(self._agents))).astype(float)
            for student in students:
                student.learn(wirings, turns, utilities)
        for student in students:
            student.next_stage()
        return phase(f"learning {method}, stage {stage}", needed * k, expected, *bounds)

    async def _evaluation(self, method: Method, questions: Sequence[Question], total: int) -> Phase:
        topology = make_topology(method, self._config, self._agents, self._learned, self._library, self._watched)
        # A system's next turn depends on the replies to the earlier ones, and so may that of a method unknown to us.
        follows_a_wiring = method in METHODS and not method.needs_library
        # Which turns the answer depends on is known in advance only where the decision agent reads everyone.
        every_turn = not method.needs_graph or self._reads_everyone(method)
        exact = follows_a_wiring and every_turn
        # Where it is not known what will be asked, no call of another method is taken to answer it.
        expected, bounds = self._tally() if exact else Tally(), (Tally(), Tally())
        for question in questions:
            await self._team.run_discussion(topology, question, self._config.seed, 0, expected)
            if follows_a_wiring and (method.needs_graph or method.needs_calibration):  # others' edges are certain
                await self._bounds(question, bounds, every_turn)
        # Nothing that learning could change: the expected count is its own bound.
        if not bounds[0].discussions:
            bounds = expected, expected
        return replace(phase(f"evaluating {method.name}", total, expected, *bounds), exact=exact)

    def _reads_everyone(self, method: Method) -> bool:
        learned = method.learner or learned_methods(self._config)[0]
        return resolved(learner_settings(self._config, learned)[0]).decision == Decision.ALL

    async def _bounds(self, question: Question, bounds: tuple[Tally, Tally], every_turn: bool) -> None:
        for wiring, tally in zip((self._lower, self._upper), bounds, strict=True):
            walk = Wired("bound", self._agents, wiring, every_turn)
            await self._team.run_discussion(walk, question, self._config.seed, 0, tally)

    def _judging(self, looked_at: Sequence[tuple[Item, Question]], total: int) -> Phase:
        """An upper bound: equal answers of several methods to a question are judged once, missing ones not at all."""
        tally, rubric = Tally(), answer_rubric(self._config)
        for item, _ in looked_at:
            request = judge.grading_request(item, ANSWER, rubric=rubric)
            tally.prompt += self._counter.shared(request) + self._counter.own(request)
            tally.discussions, tally.calls, tally.distinct = (
                n + 1 for n in (tally.discussions, tally.calls, tally.distinct)
            )
        calls = total * len(self._methods)
        # A judge's reason is taken to be a third as long as an agent's reply.
        verdict = f"Reasoning: {REPLY[: len(REPLY) // 3]}\nGrade: 5" if rubric is GRADED else "Same: yes"
        tally.completion = tally.calls * self._counter.text(verdict)
        return phase("judging, at most", calls, tally, tally, tally)

    def _models(self) -> dict[str, str]:
        models = {MAIN: f"model {model_name(self._config.model)}"}
        for key, backend in by_key(self._own).items():
            roles = [role for role, asked in self._own.items() if asked is backend]
            models[key] = f"model {model_name(backend.settings)} of {', '.join(roles)}"
        return models

    def _question(self, item: Item) -> Question:
        return replace(item.question, evidence=self._evidence.retrieve(item), own=item.own)

    def _warnings(self, whole: Phase) -> Iterable[str]:
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


def phase(name: str, discussions: int, expected: Tally, lower: Tally, upper: Tally) -> Phase:
    """The counts of some discussions, scaled to all of them."""
    n = expected.discussions
    prompt = [tally.prompt * discussions / tally.discussions for tally in (lower, expected, upper)]
    return Phase(
        name=name,
        discussions=discussions,
        turns=expected.turns * discussions // n,
        calls=expected.calls * discussions // n,
        prompt=Range(min(prompt), prompt[1], max(prompt)),
        completion=expected.completion * discussions / n,
        shared=expected.shared * discussions / n,
        distinct=expected.distinct * discussions / n,
        spared_prompt=expected.spared_prompt * discussions / n,
        spared_completion=expected.spared_completion * discussions / n,
        cached=expected.cached * discussions / n,
        longest=max(expected.longest, upper.longest),
        at_most=max(expected.at_most, upper.at_most),
        by_model={
            model: Share(
                calls=asked.calls * discussions // n,
                prompt=asked.prompt * discussions / n,
                completion=asked.completion * discussions / n,
                longest=max(asked.longest, upper.by_model[model].longest if model in upper.by_model else 0),
                at_most=max(asked.at_most, upper.by_model[model].at_most if model in upper.by_model else 0),
            )
            for model, asked in expected.by_model.items()
        },
    )


def spread(items: Sequence[Any], count: int) -> list[Any]:
    """At most `count` of the items, evenly spread."""
    n = min(count, len(items))
    return [items[i * len(items) // n] for i in range(n)]
