"""Makes the topologies of a finished run again, with the attack of its discussions."""

from collections.abc import Mapping

from actors.runtime.inline import Local
from experiments.attacks.attack import Attack
from experiments.attribution.opened_run import OpenedRun
from experiments.planning.topologies import known_of, make_topology
from experiments.running.calibration import recorded_calibration
from experiments.running.learned_graphs import learned_topologies, learner_makers
from topologies.method import LearnedGraph
from topologies.topology import Topology


class MadeTopologies:
    """Topologies of a run's methods, each made once."""

    def __init__(self, opened_run: OpenedRun) -> None:
        plan = opened_run.plan
        self._opened = opened_run
        self._topologies: dict[tuple[str, bool], Topology] = {}
        self.attack = Attack(plan.config.attack, plan.roles.attackable, opened_run.dataset, plan.config.seed)
        self.attack.prepare(opened_run.evidence)

    async def topology(self, name: str, clean: bool) -> Topology:
        """Makes the topology of a method, with the graph that its learner has recorded."""
        if (name, clean) not in self._topologies:
            self._topologies[name, clean] = await self._make(name, clean)
        return self._topologies[name, clean]

    async def _make(self, name: str, clean: bool) -> Topology:
        opened_run = self._opened
        plan = opened_run.plan
        [method] = [method for method in plan.methods if method.name == name]
        library = opened_run.library
        if self.attack.evidence and not clean:
            library = library.over(self.attack.evidence)
        graphs: Mapping[str, LearnedGraph] = {}
        if name in plan.learners:
            graphs = await self._learned_graph(name)
        elif method.needs_graph:
            graphs = await self._learned_graph(next(iter(plan.learners)))
        return make_topology(
            method,
            plan.config,
            plan.roles.agents,
            graphs,
            library,
            watched=recorded_calibration(opened_run.dataset, plan, opened_run.run),
            known=known_of(method, plan, opened_run.dataset, opened_run.run, ended=True, clean=clean),
        )

    async def _learned_graph(self, name: str) -> Mapping[str, LearnedGraph]:
        """Loads a learner's state from its checkpoint, and the graph that it has learned."""
        opened_run = self._opened
        learner = learner_makers(opened_run.plan, opened_run.evidence.store.encoder)[name]()
        checkpoint = opened_run.run.learned(name).checkpoint()
        if checkpoint:
            learner.load(checkpoint.state)
        graphs = learned_topologies(opened_run.plan, {name: Local(learner)}, opened_run.evidence.features)
        await graphs[name].freeze()
        return graphs
