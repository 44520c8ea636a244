"""`dry_run=true`: turns, calls and tokens of a run before it starts, without a model.

A sample of questions is discussed along wirings as the run would draw them, with the run's own prompts. Only replies
are simulated: all have a stated length. The learner takes all its steps with scores drawn by a fair coin, which prefer
no edge; what it samples and prunes follows from the pruning rate alone.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence

from actors.errors import StoreError, UserError
from actors.messages import Question, Trace
from experiments.dry_run.counts import EarlierRun, PhaseCounts, RunCounts, counts_table, total
from experiments.dry_run.simulated_speaker import REPLY, SimulatedAgents, SimulatedCache, SimulatedSpeaker, judge_calls
from experiments.dry_run.simulated_training import SimulatedTraining, spread
from experiments.dry_run.token_count import counter_of
from experiments.evidence.library import LabelledLibrary, triples_given
from experiments.planning.plan import Evaluation, Plan
from experiments.planning.topologies import further_topology, make_topology, spending
from experiments.running.calibration import watched_topology
from experiments.running.inputs import notes_of, open_cache, open_dataset, open_evidence, watched_items
from experiments.running.model_extraction import left_to_extract
from topologies.catalogue import METHODS
from topologies.topology import run_discussion

QUESTIONS = 40  # sampled for each phase


def dry_run(plan: Plan) -> RunCounts:
    """Counts and prints. Starts no process and makes no run folder. Raises UserError for a job that is not counted."""
    if not plan.job.is_counted:
        raise UserError(f"job={plan.job.name} is not counted: dry_run=true counts what job=prune asks")
    counts = count_run(plan)
    counts_table(counts).print()
    if plan.config.explain.answers:
        print(f"not counted: turns asked again for up to {plan.config.explain.answers:,} explained answers")
    return counts


def count_run(plan: Plan) -> RunCounts:
    """Counts one run. Makes its data and index where they are missing. Raises UserError for what would end the run."""
    try:
        return asyncio.run(_DryRun(plan).count())
    except StoreError as error:
        raise UserError(str(error)) from error


class _DryRun:
    def __init__(self, plan: Plan) -> None:
        self._plan, self._config = plan, plan.config
        config, models = plan.config, plan.models
        cache = open_cache(config.cache_folder)
        self._dataset = open_dataset(plan, cache)
        self._evidence = open_evidence(plan, self._dataset, cache)
        self._counter = counter_of(models.main)
        counters = {key: counter_of(backend) for key, backend in models.of_roles_by_key.items()}
        own = {role: (backend.key, counters[backend.key]) for role, backend in models.of_roles.items()}
        self._earlier = EarlierRun.read(config.costs.run) if config.costs.run else None
        self._lengths = self._earlier.reply_tokens if self._earlier else self._counter.reply_tokens
        self._agents = SimulatedAgents(
            plan.roles.launched, config.agents, self._counter, own, self._lengths, reuse=config.completions.reuse
        )
        # One cache for all phases, as in the run.
        self._cache = SimulatedCache()
        # Only systems search; other methods need no question in memory.
        searched = self._dataset.evaluate() if plan.has_library else ()
        self._library = LabelledLibrary(self._evidence, searched, triples=triples_given(self._dataset))
        self._calibration_traces: list[tuple[Question, Trace]] = []
        self._traces: dict[str, list[Trace]] = {}  # of each evaluation
        self._training = SimulatedTraining(plan, self._dataset, self._evidence, self._agents, self._cache)

    async def count(self) -> RunCounts:
        """Counts the phases in the run's order: extraction, calibration, training, each method, judging."""
        config = self._config
        phases = []
        for step, questions in left_to_extract(self._plan, self._dataset, self._evidence.store, REPLY):
            # A turn for each source that is left; a reply with many statements is longer than counted.
            if questions:
                counts = PhaseCounts()
                for question in spread(questions, QUESTIONS):
                    await run_discussion(step, question, self._speaker(counts), config.seed)
                phases.append(counts.scaled(step.phase, len(questions)))
        if self._plan.watched_questions:
            watched, counts = watched_items(self._dataset, self._plan.watched_questions), PhaseCounts()
            topology = watched_topology(self._plan.roles.agents, config.topology.rounds)
            for item in spread(watched, QUESTIONS):
                question = await self._evidence.question(item)
                trace = await run_discussion(topology, question, self._speaker(counts), config.seed)
                self._calibration_traces.append((question, trace))
            phases.append(counts.scaled("watching unlabelled discussions", len(watched)))
        shared_from = self._plan.shared_from
        for method in self._plan.learners:
            if method not in shared_from:
                others = [other for other, source in shared_from.items() if source == method]
                phases += await self._training.count(method, others)
        for method in shared_from:
            # A learner that learns from other discussions confirms its graph with its own.
            phases += await self._training.count(method)
        for graph in self._training.topologies.values():
            await graph.freeze()
        items = list(self._dataset.evaluate())
        if not items:
            raise UserError(f"{self._dataset.name} has no question to evaluate; check data.root and the selection")
        sampled = spread(items, QUESTIONS)
        questions = [await self._evidence.question(item) for item in sampled]
        for evaluation in self._plan.evaluations:
            if evaluation.name == next(iter(self._plan.clean.values()), None):
                # Asked anew: no attacked discussion has made these requests.
                self._cache = SimulatedCache()
            phases.append(await self._evaluation(evaluation, questions, len(items)))
        judged = None
        if self._plan.models.judge:
            answers = len(items) * len(self._plan.evaluated)
            judged = judge_calls(sampled, answers, self._plan.rubric, self._counter)
        return RunCounts(
            self._plan,
            phases=tuple(phases),
            judged=judged,
            rule=self._counter.rule,
            reply_tokens=self._agents.reply_tokens,
            measured=bool(self._lengths),
            questions=len(questions),
            warnings=tuple(self._warnings(total(phases))),
            earlier=self._earlier,
            clusters=tuple(Counter(item.cluster or item.group or item.question.id for item in items).values()),
        )

    def _speaker(self, counts: PhaseCounts) -> SimulatedSpeaker:
        return SimulatedSpeaker(self._agents, counts, self._cache)

    async def _evaluation(self, evaluation: Evaluation, questions: Sequence[Question], total: int) -> PhaseCounts:
        plan, config, method = self._plan, self._config, evaluation.method
        team = plan.spent.get(method.name)
        known = spending(self._traces[team.name], (), ended=False) if team else None
        topology = make_topology(
            method, config, plan.roles.agents, self._training.topologies, self._library, self._calibration_traces, known
        )
        # The turns that an answer depends on are known in advance only where the decision agent reads everyone. The
        # next turn of a system depends on earlier replies, and perhaps that of a method from another package.
        every_turn = (
            not method.needs_graph
            or plan.learners[method.name if method.learner else next(iter(plan.learners))].reads_everyone
        )
        exact = every_turn and method in METHODS and not method.needs_library
        # Unknown requests are not taken to be answered by another method's.
        cache = self._cache if exact else SimulatedCache()
        if evaluation.kind != "method":
            of_method = self._traces[method.name]
            topology = further_topology(evaluation, topology, of_method, (), self._evidence.store, config.seed)
        counts, traces = PhaseCounts(), self._traces.setdefault(evaluation.name, [])
        speaker = SimulatedSpeaker(self._agents, counts, cache)
        for question in questions:
            traces.append(await run_discussion(topology, question, speaker, config.seed))
        phase = counts.scaled(f"evaluating {evaluation.name}", plan.job.discussions(plan, total))
        # The samples of a twin depend on the length of replies.
        phase.exact = exact and evaluation.kind != "twin" and not method.spends and phase.discussions == total
        return phase

    def _warnings(self, whole: PhaseCounts) -> Iterator[str]:
        config, models = self._config, self._plan.models
        yield from notes_of(self._dataset)
        for key, backend in models.of_agents.items():
            asked = whole.by_model.get(key) if models.of_roles else whole
            if asked is None:
                continue
            limit, reply = backend.settings.max_model_len, config.agents.max_tokens
            if limit is not None and asked.longest + reply > limit:
                yield (
                    f"{key}.max_model_len={limit:,} is less than the {asked.longest:,} tokens of the longest prompt "
                    f"with {reply:,} for its reply: evidence will be cut, least relevant first"
                )
        hosted = [name for name, role in config.roles.items() if role.agent]
        if config.attack.kind != "none":
            yield f"attack={config.attack.kind}: discussions are counted as they would be without it"
        if hosted:
            yield f"{', '.join(hosted)}: an AutoGen agent of your own may call the model more often than counted here"
        if config.replays:
            yield "model=replay answers from a recorded run: none of this is computed"
