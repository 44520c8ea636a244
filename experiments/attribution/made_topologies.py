"""Makes the topologies of a finished run again, with the attack of its discussions."""

from actors.runtime.inline import Local
from experiments.attacks.attack import Attack
from experiments.attribution.opened_run import OpenedRun
from experiments.planning.topologies import known_of, make_topology
from experiments.running.calibration import recorded_calibration
from experiments.running.learned_graphs import learned_topologies, learner_makers
from topologies.topology import Topology


class MadeTopologies:
    """Topologies of a run's methods, each made once."""

    def __init__(self, opened: OpenedRun) -> None:
        plan = opened.plan
        self._opened = opened
        self._topologies: dict[tuple[str, bool], Topology] = {}
        self.attack = Attack(plan.config.attack, plan.roles.attackable, opened.dataset, plan.config.seed)
        self.attack.prepare(opened.evidence)

    async def topology(self, name: str, clean: bool) -> Topology:
        """Makes the topology of a method, with the graph that its learner has recorded."""
        if (name, clean) in self._topologies:
            return self._topologies[name, clean]
        opened = self._opened
        plan = opened.plan
        library = opened.library
        if self.attack.evidence and not clean:
            library = library.over(self.attack.evidence)
        [method] = [method for method in plan.methods if method.name == name]
        graphs = {}
        if method.needs_graph or name in plan.learners:
            learned = name if name in plan.learners else next(iter(plan.learners))
            learner = learner_makers(plan, opened.evidence.store.encoder)[learned]()
            if checkpoint := opened.run.learned(learned).checkpoint():
                learner.load(checkpoint.state)
            graphs = learned_topologies(plan, {learned: Local(learner)}, opened.evidence.features)
            await graphs[learned].freeze()
        watched = recorded_calibration(opened.dataset, plan, opened.run)
        known = known_of(method, plan, opened.dataset, opened.run, True, clean)
        topology = make_topology(method, plan.config, plan.roles.agents, graphs, library, watched, known)
        self._topologies[name, clean] = topology
        return topology
