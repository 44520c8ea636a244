"""Counts turns, calls and tokens of a run before it starts, without a model.

A sample of questions is discussed along wirings as the run would draw them, with the run's own prompts. Only replies
are simulated: all have a stated length. The learner takes all its steps with scores drawn by a fair coin, which prefer
no edge; what it samples and prunes follows from the pruning rate alone.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence

from actors.errors import StoreError, UserError
from actors.messages import Question, Trace
from experiments.dry_run.counts import EarlierRun, PhaseCounts, RunCounts, total
from experiments.dry_run.simulated_speaker import REPLY, SimulatedAgents, SimulatedCache, SimulatedSpeaker, judge_calls
from experiments.dry_run.simulated_training import SimulatedTraining, evenly_sampled
from experiments.dry_run.token_count import TokenCounter
from experiments.evidence.library import LabelledLibrary, triples_given
from experiments.planning.plan import Evaluation, Plan
from experiments.planning.topologies import further_topology, make_topology, spending_of
from experiments.running.calibration import WATCHING, watched_topology
from experiments.running.inputs import notes_of, open_cache, open_dataset, open_evidence, watched_items
from experiments.running.model_extraction import left_to_extract
from topologies.catalogue import METHODS
from topologies.topology import Topology, run_discussion

QUESTIONS = 40  # sampled for each phase


def count_run(plan: Plan) -> RunCounts:
    """Counts one run. Makes its data and index where they are missing. Raises UserError for what would end the run."""
    try:
        return asyncio.run(_DryRun(plan).count())
    except StoreError as error:
        raise UserError(str(error)) from error


class _DryRun:
    """Counts the phases of a run, in the run's order."""

    def __init__(self, plan: Plan) -> None:
        config = plan.config
        models = plan.models
        cache_folder = open_cache(config.cache_folder)
        self._plan = plan
        self._config = config
        self._dataset = open_dataset(plan, cache_folder)
        self._evidence = open_evidence(plan, self._dataset, cache_folder)

        self._counter = TokenCounter(models.main)
        counters = {key: TokenCounter(backend) for key, backend in models.of_roles_by_key.items()}
        self._earlier = EarlierRun.read(config.costs.run) if config.costs.run else None
        self._reply_tokens = self._earlier.reply_tokens if self._earlier else self._counter.reply_tokens
        self._agents = SimulatedAgents(
            roles=plan.roles.launched,
            settings=config.agents,
            counter=self._counter,
            role_counters={role: (backend.key, counters[backend.key]) for role, backend in models.of_roles.items()},
            lengths=self._reply_tokens,
            reuse=config.completions.reuse,
        )
        # One cache for all phases, as in the run.
        self._cache = SimulatedCache()

        # Only systems search; other methods need no question in memory.
        searched = self._dataset.evaluate() if plan.has_library else ()
        self._library = LabelledLibrary(self._evidence, searched, triples=triples_given(self._dataset))
        self._training = SimulatedTraining(plan, self._dataset, self._evidence, self._agents, self._cache)
        self._watched: list[tuple[Question, Trace]] = []
        self._traces: dict[str, list[Trace]] = {}  # of each evaluation

    async def count(self) -> RunCounts:
        plan = self._plan
        phases = [phase async for phase in self._before_evaluation()]
        items = list(self._dataset.evaluate())
        if not items:
            raise UserError(f"{self._dataset.name} has no question to evaluate; check data.root and the selection")

        sampled = evenly_sampled(items, QUESTIONS)
        questions = [await self._evidence.question(item) for item in sampled]
        first_clean = next(iter(plan.clean.values()), None)
        for evaluation in plan.evaluations:
            if evaluation.name == first_clean:
                # Asked anew: no attacked discussion has made these requests.
                self._cache = SimulatedCache()
            phases.append(await self._evaluation(evaluation, questions, len(items)))

        judge = None
        if plan.models.judge:
            answers = len(items) * len(plan.evaluated)
            judge = judge_calls(sampled, answers, plan.rubric, self._counter)
        clusters = Counter(item.cluster or item.group or item.question.id for item in items)
        return RunCounts(
            plan=plan,
            phases=tuple(phases),
            judge=judge,
            rule=self._counter.rule,
            reply_tokens=self._agents.reply_tokens,
            has_measured_replies=bool(self._reply_tokens),
            questions=len(questions),
            warnings=tuple(self._warnings(total(phases))),
            earlier=self._earlier,
            clusters=tuple(clusters.values()),
        )

    async def _before_evaluation(self) -> AsyncIterator[PhaseCounts]:
        """Counts extraction, calibration and training."""
        plan = self._plan
        for step, sources in left_to_extract(plan, self._dataset, self._evidence.store, REPLY):
            # A turn for each source that is left; a reply with many statements is longer than counted.
            if sources:
                counts, _ = await self._discuss(step, evenly_sampled(sources, QUESTIONS), self._cache)
                yield counts.scaled(step.phase, len(sources))

        if plan.watched_questions:
            items = watched_items(self._dataset, plan)
            questions = [await self._evidence.question(item) for item in evenly_sampled(items, QUESTIONS)]
            topology = watched_topology(plan.roles.agents, self._config.topology.rounds)
            counts, traces = await self._discuss(topology, questions, self._cache)
            self._watched = list(zip(questions, traces, strict=True))
            yield counts.scaled(WATCHING, len(items))

        shared_from = plan.shared_from
        independent = [method for method in plan.learners if method not in shared_from]
        # What a method has learned from others' discussions, it confirms with its own.
        for method in (*independent, *shared_from):
            students = [student for student, source in shared_from.items() if source == method]
            for phase in await self._training.count(method, students):
                yield phase
        for graph in self._training.topologies.values():
            await graph.freeze()

    async def _discuss(
        self, topology: Topology, questions: Sequence[Question], cache: SimulatedCache
    ) -> tuple[PhaseCounts, list[Trace]]:
        """Holds a discussion on each question."""
        counts = PhaseCounts()
        speaker = SimulatedSpeaker(self._agents, counts, cache)
        traces = [await run_discussion(topology, question, speaker, self._config.seed) for question in questions]
        return counts, traces

    async def _evaluation(self, evaluation: Evaluation, questions: Sequence[Question], total: int) -> PhaseCounts:
        plan = self._plan
        method = evaluation.method
        team = plan.spent.get(method.name)
        spending = None
        if team:
            spending = spending_of(self._traces[team.name], (), ended=False)
        topology = make_topology(
            method=method,
            config=self._config,
            agents=plan.roles.agents,
            learned=self._training.topologies,
            library=self._library,
            watched=self._watched,
            known=spending,
        )
        if evaluation.kind != "method":
            topology = further_topology(
                evaluation,
                topology,
                method_traces=self._traces[method.name],
                control_traces=(),
                store=self._evidence.store,
                seed=self._config.seed,
            )

        # The next turn of a system depends on earlier replies, and perhaps that of a method from another package.
        exact = method in METHODS and not method.needs_library
        if method.needs_graph:
            # The turns that an answer depends on are known in advance only where the decision agent reads everyone.
            learner = method.name if method.learner else next(iter(plan.learners))
            exact = exact and plan.learners[learner].reads_everyone
        # Unknown requests are not taken to be answered by another method's.
        cache = self._cache if exact else SimulatedCache()
        counts, self._traces[evaluation.name] = await self._discuss(topology, questions, cache)
        phase = counts.scaled(f"evaluating {evaluation.name}", plan.job.discussions(plan, total))
        # The samples of a twin depend on the length of replies.
        phase.exact = exact and evaluation.kind != "twin" and not method.spends and phase.discussions == total
        return phase

    def _warnings(self, phases: PhaseCounts) -> Iterator[str]:
        config = self._config
        models = self._plan.models
        yield from notes_of(self._dataset)
        reply_tokens = config.agents.max_tokens
        for key, backend in models.of_agents.items():
            counts = phases.by_model.get(key) if models.of_roles else phases
            limit = backend.settings.max_model_len
            if counts and limit is not None and counts.longest + reply_tokens > limit:
                yield (
                    f"{key}.max_model_len={limit:,} is less than the {counts.longest:,} tokens of the longest prompt "
                    f"with {reply_tokens:,} for its reply: evidence will be cut, least relevant first"
                )
        if config.attack.kind != "none":
            yield f"attack={config.attack.kind}: discussions are counted as they would be without it"
        hosted = [name for name, role in config.roles.items() if role.agent]
        if hosted:
            yield f"{', '.join(hosted)}: an AutoGen agent of your own may call the model more often than counted here"
        if config.replays:
            yield "model=replay answers from a recorded run: none of this is computed"
