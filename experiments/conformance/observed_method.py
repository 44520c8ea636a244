"""One method in a small world: its discussions of a few questions are observed."""

from collections.abc import Collection, Mapping
from random import Random
from typing import Any

from actors.messages import Question, Trace
from experiments.conformance.observed import SEED, ObservedDiscussion, ObservedLibrary, observe_discussion
from experiments.conformance.sample_world import SampleWorld
from experiments.datasets.item import Item
from experiments.evidence.library import LabelledLibrary
from experiments.planning.plan import Plan
from experiments.planning.topologies import make_topology
from experiments.running.calibration import watched_topology
from experiments.scripted.replies import improvising
from experiments.scripted.speaker import Reply, ScriptedSpeaker
from topologies.method import LearnedGraph
from topologies.topology import Topology


class ObservedMethod:
    """The last method of a plan, in a world. The same discussion is observed once.

    graphs: the learned ones of the plan, by method.
    discussions: what was observed so far.
    """

    def __init__(self, plan: Plan, world: SampleWorld, graphs: Mapping[str, LearnedGraph]) -> None:
        self.plan = plan
        self.world = world
        self.graphs = graphs
        self.method = plan.methods[-1]
        self.discussions: dict[tuple[object, ...], ObservedDiscussion] = {}

    async def observe(
        self,
        reply: Reply | None = None,
        *,
        item: Item | None = None,
        delays: int | None = None,
        failing: Collection[str] = (),
        babbling: Collection[str] = (),
    ) -> ObservedDiscussion:
        """Observes the discussion of one question, by embedded readers or by agents with the replies of `reply`."""
        item = item or self.world.items[0]
        key = (reply, repr(item), delays, frozenset(failing), frozenset(babbling))
        if key not in self.discussions:
            random = None if delays is None else Random(delays)
            searched = self.world.searched(item, self.plan.retrieval)
            library = ObservedLibrary(LabelledLibrary(searched.evidence, [item]), searched.results, random)
            team = ScriptedSpeaker(self.plan.roles.launched, reply, failing=failing, babbling=babbling, delays=random)
            topology = await self.topology(library)
            question = await searched.evidence.question(item)
            self.discussions[key] = await observe_discussion(topology, question, team, library)
        return self.discussions[key]

    async def topology(self, library: Any) -> Topology:
        """Makes the method's topology, with a watched discussion if it needs one."""
        config = self.plan.config
        agents = self.plan.roles.agents
        watched: list[tuple[Question, Trace]] = []
        if self.method.needs_calibration:
            first_item = self.world.items[0]
            question = await self.world.searched(first_item, self.plan.retrieval).evidence.question(first_item)
            team = improvising(self.plan.roles.launched, seed=20)
            trace = await watched_topology(agents, config.topology.rounds).answer(question, team.ask, SEED)
            watched.append((question, trace))
        return make_topology(self.method, config, agents, self.graphs, library, watched)
