"""Makes the topologies of a run's methods and their controls."""

from collections.abc import Mapping, Sequence

from actors.messages import Question, Trace
from experiments.evidence.library import LabelledLibrary
from experiments.planning.plan import Evaluation
from experiments.planning.topologies import further_topology, known_of, make_topology, recorded_for
from experiments.running.run_context import RunContext
from topologies.learning.learned_topology import LearnedTopology
from topologies.method import Method
from topologies.topology import Topology


class RunTopologies:
    """Topologies of a run, each made once: what a method searches, has watched and has learned is in it.

    graphs: the learned ones, by method. library: searches the corpus without what an attack plants.
    watched: unlabelled discussions with their questions.
    """

    def __init__(
        self,
        context: RunContext,
        graphs: Mapping[str, LearnedTopology],
        library: LabelledLibrary,
        watched: Sequence[tuple[Question, Trace]],
    ) -> None:
        self._context = context
        self._graphs = graphs
        self._library = library
        self._watched = watched
        self._ended = context.plan.replayed is not None
        self._topologies: dict[str, Topology] = {}

    def of(self, method: Method) -> Topology:
        """Returns the topology of a method, with the evidence that the attack has changed."""
        # The tokens of further questions are known only now.
        if method.name not in self._topologies or method.spends:
            evidence = self._context.attack.evidence
            library = self._library.over(evidence) if evidence else self._library
            self._topologies[method.name] = self._make(method, library, clean=False)
        return self._topologies[method.name]

    def further(self, evaluation: Evaluation) -> Topology:
        """Makes the topology of a control, or of a method without the attack."""
        context = self._context
        if evaluation.kind == "clean":
            # Made anew: it searches a corpus in which nothing is planted.
            topology = self._make(evaluation.method, self._library, clean=True)
        else:
            topology = self._topologies[evaluation.method.name]
        method_traces, control_traces = recorded_for(evaluation, context.plan, context.recorder.run)
        return further_topology(
            evaluation,
            topology,
            method_traces,
            control_traces,
            store=context.evidence.store,
            seed=context.config.seed,
            ended=self._ended,
        )

    def _make(self, method: Method, library: LabelledLibrary, clean: bool) -> Topology:
        context = self._context
        method_facts = known_of(method, context.plan, context.dataset, context.recorder.run, self._ended, clean)
        return make_topology(method, context.config, context.agents, self._graphs, library, self._watched, method_facts)
