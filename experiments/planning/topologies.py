"""Makes the topologies of a run's methods and controls, and pairs the methods that it compares."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain, combinations, islice, product
from statistics import fmean

from actors.errors import UserError
from actors.messages import Question, Status, Trace
from experiments.config.config import Config
from experiments.datasets.catalogue import dataset_kind
from experiments.datasets.item import Dataset
from experiments.planning.plan import Evaluation, Plan
from experiments.records.recorder import RunFolder
from retrieval.store import EVERYTHING, Store
from topologies.controls.placebo import Placebo, substitutes
from topologies.controls.twin import Twin, left_over, tokens_of
from topologies.method import Known, LearnedGraph, Library, Method, MethodContext, TopK
from topologies.topology import Renamed, Topology


def make_topology(
    method: Method,
    config: Config,
    agents: Sequence[str],
    learned: Mapping[str, LearnedGraph],
    library: Library,
    watched: Sequence[tuple[Question, Trace]] = (),
    known: Known | None = None,
) -> Topology:
    """Makes the topology of a method. The arguments are those of `MethodContext`.

    watched: unlabelled discussions with their questions.
    learned: the learned graphs by their methods. A method that is none of them and needs one gets the first.

    Raises UserError where the topology has another name than its method.
    """
    retrieval = config.retrieval
    dataset = dataset_kind(config.data.kind)
    context = MethodContext(
        method=method.name,
        agents=agents,
        rounds=config.topology.rounds,
        seed=config.seed,
        top_k=TopK(retrieval.texts, retrieval.pictures, retrieval.radius),
        systems=config.systems,
        defence=config.defence,
        learned=learned.get(method.name) or next(iter(learned.values()), None),
        library=library,
        watched=[trace for _, trace in watched],
        asked={question.id: question for question, _ in watched},
        directed=dataset.directed,
        advice=dataset.advice,
        known=known or Known(),
    )
    topology = method.make(context)
    name = getattr(topology, "method", None)
    if name != method.name:
        raise UserError(f"methods: the topology of {method.name} has method={name!r}; give it that of its context")
    return topology


def further_topology(
    evaluation: Evaluation,
    topology: Topology,
    method_traces: Sequence[Trace],
    control_traces: Sequence[Trace],
    store: Store,
    seed: int,
    ended: bool = False,
) -> Topology:
    """Makes the topology of a further evaluation from that of its method.

    method_traces: all evaluated discussions of the method, in order.
    control_traces: those of this evaluation so far, or all that there will be where it has `ended`: nothing waits for
        others.
    """
    if evaluation.kind == "placebo":
        return Renamed(Placebo(topology, substitutes(method_traces, seed)), evaluation.name)
    if evaluation.kind == "clean":
        return Renamed(topology, evaluation.name)

    sources_of = {trace.question: trace.evidence for trace in method_traces}

    async def with_same_sources(question: Question) -> Question:
        """Returns the question with the sources that the method read for it, except from the web."""
        source_ids = sources_of[question.id]
        sources = {source.id: source for source in question.evidence}
        missing = [source_id for source_id in source_ids if source_id not in sources]
        if missing:
            for source in await asyncio.to_thread(store.sources, missing, EVERYTHING):
                sources[source.id] = source
        evidence = [sources[source_id] for source_id in source_ids if source_id in sources]
        return replace(question, evidence=tuple(evidence))

    spending = spending_of(method_traces, control_traces, ended)
    return Twin(evaluation.name, spending.tokens, spending.left_over, with_same_sources)


def spending_of(method_traces: Sequence[Trace], control_traces: Sequence[Trace], ended: bool) -> Known:
    """Counts tokens of a method's discussions, and those left over by the ones that spend them (`further_topology`)."""
    tokens = {trace.question: tokens_of(trace.turns) for trace in method_traces}
    balances = dict.fromkeys(tokens, 0.0) if ended else {}
    for trace in control_traces:
        if trace.question in tokens:
            balances[trace.question] = left_over(tokens[trace.question], trace.turns)
    return Known(tokens, balances)


def known_of(
    method: Method, plan: Plan, dataset: Dataset, run: RunFolder, ended: bool, clean: bool = False
) -> Known | None:
    """Reads facts that a method needs from a run's records, or None. They are of its attacked or `clean` evaluation.

    Raises UserError where no agent has a graded answer.
    """
    team = plan.spent.get(method.name)
    if team is not None:
        names = plan.clean if clean else {}
        team_name = names.get(team.name, team.name)
        control = Evaluation(names.get(method.name, method.name), replace(team, name=team_name))
        method_traces, control_traces = recorded_for(control, plan, run)
        return spending_of(method_traces, control_traces, ended=ended)
    if method.probes:
        return Known(probes=_right_answers(run.traces("calibrate"), plan, dataset))
    if not method.graded:
        return None

    learner = next(iter(plan.learners))
    graph = run.learned(plan.shared_from.get(learner, learner))
    traces = chain.from_iterable(graph.traces(path.stem) for path in graph.training_traces())
    grades = _grades_alone(traces, plan, dataset)
    if not grades:
        raise UserError(f"{method.name}: no agent answered alone in training; see the failed turns in {graph.path}")
    return Known(graded=grades)


def _grades_alone(traces: Iterable[Trace], plan: Plan, dataset: Dataset) -> dict[str, float]:
    """Grades each agent's answers alone, by its mean score. Without agents that have none."""
    items = {item.question.id: item for item in islice(dataset.train(), plan.training_questions)}
    # Each agent's answer to a question once: its turns that heard no other agent are equal in all discussions.
    scores: dict[str, dict[str, float]] = {agent: {} for agent in plan.roles.agents}
    for trace in traces:
        item = items[trace.question]
        for turn in trace.turns:
            is_alone = turn.round == 1 and turn.agent in scores and not turn.heard
            if is_alone and turn.status is not Status.FAILED:
                scores[turn.agent][trace.question] = dataset.score(item, turn.answer).utility
    return {agent: fmean(by_question.values()) for agent, by_question in scores.items() if by_question}


def _right_answers(traces: Iterable[Trace], plan: Plan, dataset: Dataset) -> dict[str, tuple[int, int]]:
    """Counts the right ones of each agent's last answers, and all of them. An answer is right with half of a score."""
    items = {item.question.id: item for item in islice(dataset.train(), plan.watched_questions)}
    is_right: dict[str, list[bool]] = {agent: [] for agent in plan.roles.agents}
    for trace in traces:
        # A later turn replaces an earlier one.
        last_turns = {turn.agent: turn for turn in trace.turns if turn.agent in is_right}
        for agent, turn in last_turns.items():
            if turn.status is not Status.FAILED:
                score = dataset.score(items[trace.question], turn.answer)
                is_right[agent].append(score.utility >= 0.5)
    return {agent: (sum(answers), len(answers)) for agent, answers in is_right.items()}


def recorded_for(evaluation: Evaluation, plan: Plan, run: RunFolder) -> tuple[list[Trace], list[Trace]]:
    """Reads the discussions of a control's method, and the control's own.

    Of a replay the recorded run's, which may have had more questions.
    """
    if evaluation.kind == "clean":
        return [], []
    folder = RunFolder(plan.replayed) if plan.replayed else run
    method_traces = folder.traces(f"evaluate-{evaluation.method.name}")
    control_traces = folder.traces(f"evaluate-{evaluation.name}")
    return list(method_traces), list(control_traces)


def compared_pairs(methods: Sequence[Method], clean: Mapping[str, str] | None = None) -> tuple[tuple[str, str], ...]:
    """Lists the paired tests of a run, the first minus the second of each pair. `closed_book` is in none.

    Every learned method is tested against every other method, and learned methods against each other. Where none is
    learned, the method named last is tested against the others. Where there is an evaluation without the attack
    (`clean`, by method), a method is also tested against its own.
    """
    names = [method.name for method in methods if method.name != "closed_book"]
    learners = [method.name for method in methods if method.learner] or names[-1:]
    rivals = [name for name in names if name not in learners]
    pairs = [*product(learners, rivals), *combinations(learners, 2)]
    if clean:
        pairs += [(name, clean[name]) for name in names]
    return tuple(pairs)
