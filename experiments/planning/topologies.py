"""Makes the topologies of a run's methods and controls, and pairs the methods that it compares."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain, combinations, islice
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
    retrieval, data = config.retrieval, dataset_kind(config.data.kind)
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
        directed=data.directed,
        advice=data.advice,
        known=known or Known(),
    )
    topology = method.make(context)
    if (name := getattr(topology, "method", None)) != method.name:
        raise UserError(f"methods: the topology of {method.name} has method={name!r}; give it that of its context")
    return topology


def further_topology(
    evaluation: Evaluation,
    topology: Topology,
    recorded: Sequence[Trace],
    answered: Sequence[Trace],
    store: Store,
    seed: int,
    ended: bool = False,
) -> Topology:
    """Makes the topology of a further evaluation from that of its method.

    recorded: all evaluated discussions of the method, in order. answered: those of this evaluation so far, or all that
    there will be where it has `ended`: nothing waits for others.
    """
    if evaluation.kind == "twin":
        read = {trace.question: trace.evidence for trace in recorded}

        async def again(question: Question) -> Question:
            """Returns the question with the sources that the method read for it, except from the web."""
            ids, found = read[question.id], {source.id: source for source in question.evidence}
            if lacking := [id for id in ids if id not in found]:
                sources = await asyncio.to_thread(store.sources, lacking, EVERYTHING)
                found |= {source.id: source for source in sources}
            return replace(question, evidence=tuple(found[id] for id in ids if id in found))

        spent = spending(recorded, answered, ended)
        return Twin(evaluation.name, spent.tokens, spent.left_over, again)
    if evaluation.kind == "placebo":
        topology = Placebo(topology, substitutes(recorded, seed))
    return Renamed(topology, evaluation.name)


def spending(recorded: Sequence[Trace], answered: Sequence[Trace], ended: bool) -> Known:
    """Counts tokens of a method's discussions, and those left over by the ones that spend them (`further_topology`)."""
    tokens = {trace.question: tokens_of(trace.turns) for trace in recorded}
    known = dict.fromkeys(tokens, 0.0) if ended else {}
    known |= {t.question: left_over(tokens[t.question], t.turns) for t in answered if t.question in tokens}
    return Known(tokens, known)


def known_of(
    method: Method, plan: Plan, dataset: Dataset, run: RunFolder, ended: bool, clean: bool = False
) -> Known | None:
    """Reads facts that a method needs from a run's records, or None. They are of its attacked or `clean` evaluation.

    Raises UserError where no agent has a graded answer.
    """
    if team := plan.spent.get(method.name):
        names = [plan.clean[one.name] if clean else one.name for one in (team, method)]
        return spending(*recorded_for(Evaluation(names[1], replace(team, name=names[0])), plan, run), ended=ended)
    if not method.graded:
        return None
    first = next(iter(plan.learners))
    graph = run.learned(plan.shared_from.get(first, first))
    items = {item.question.id: item for item in islice(dataset.train(), plan.training_questions)}
    # Each agent's answer to a question once: its turns that heard no other agent are equal in all discussions.
    grades: dict[str, dict[str, float]] = {agent: {} for agent in plan.roles.agents}
    for trace in chain.from_iterable(graph.traces(path.stem) for path in graph.training_traces()):
        for turn in trace.turns:
            if turn.round == 1 and turn.agent in grades and not turn.heard and turn.status is not Status.FAILED:
                grades[turn.agent][trace.question] = dataset.score(items[trace.question], turn.answer).utility
    graded = {agent: fmean(scores.values()) for agent, scores in grades.items() if scores}
    if not graded:
        raise UserError(f"{method.name}: no agent answered alone in training; see the failed turns in {graph.path}")
    return Known(graded=graded)


def recorded_for(evaluation: Evaluation, plan: Plan, run: RunFolder) -> tuple[list[Trace], list[Trace]]:
    """Reads the discussions of a control's method, and the control's own.

    Of a replay the recorded run's, which may have had more questions.
    """
    if evaluation.kind == "clean":
        return [], []
    folder = RunFolder(plan.replayed) if plan.replayed else run
    method, own = (list(folder.traces(f"evaluate-{name}")) for name in (evaluation.method.name, evaluation.name))
    return method, own


def compared_pairs(methods: Sequence[Method], clean: Mapping[str, str] | None = None) -> tuple[tuple[str, str], ...]:
    """Lists the paired tests of a run, the first minus the second of each pair. `closed_book` is in none.

    Every learned method is tested against every other method, and learned methods against each other. Where none is
    learned, the method named last is tested against the others. Where there is an evaluation without the attack
    (`clean`, by method), a method is also tested against its own.
    """
    compared = [method for method in methods if method.name != "closed_book"]
    ours = [method for method in compared if method.learner] or compared[-1:]
    rivals = [method for method in compared if method not in ours]
    pairs = [*((one, rival) for one in ours for rival in rivals), *combinations(ours, 2)]
    harmed = [(method.name, clean[method.name]) for method in compared if clean]
    return (*((one.name, other.name) for one, other in pairs), *harmed)
