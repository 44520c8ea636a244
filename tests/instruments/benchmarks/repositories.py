"""Turns per second of AgentPrune or GPTSwarm on the workload of `throughput`, run by an interpreter that has what the
repository asks for, in its folder:

    <python> <this file> agentprune|gptswarm < workload.json

Both publish a repository and no package that installs beside others, so this file imports nothing of the project. A
graph is built once and copied for each discussion, as their own experiments do, before any time is taken; within a
discussion, both take turns one after another. The workload is JSON: `senders` (by turn, in order, those that it hears;
the last one decides), `task`, what everybody `says`, and `discussions` at once.
"""

import asyncio
import copy
import importlib
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

Senders = Mapping[str, Sequence[str]]
Discuss = Callable[[Any], Awaitable[str]]  # of a graph


def agentprune(senders: Senders, task: str, says: str) -> tuple[Any, Discuss]:
    """https://github.com/yanweiyue/AgentPrune: `Graph.arun` over two rounds, with masks for edges."""
    of_rounds = [turn.rpartition("_in_") for turn in senders][:-1]
    names = list(dict.fromkeys(name for name, _, _ in of_rounds))
    rounds = len(of_rounds) // len(names)
    node: Any = importlib.import_module("AgentPrune.graph.node").Node
    graphs: Any = importlib.import_module("AgentPrune.graph.graph")

    class Parrot(node):  # type: ignore[misc]
        def _process_inputs(self, raw_inputs: Any, spatial_info: Any, temporal_info: Any, **_: Any) -> Any:
            return raw_inputs

        def _execute(self, input: Any, spatial_info: Any, temporal_info: Any, **_: Any) -> str:
            return says

        async def _async_execute(self, input: Any, spatial_info: Any, temporal_info: Any, **_: Any) -> str:
            return says

    graphs.AgentRegistry.register("Parrot")(
        lambda id=None, domain="", llm_name="": Parrot(id, "Parrot", domain, llm_name)
    )
    spatial = [[int(f"{sender}_in_0" in senders[f"{heard}_in_0"]) for heard in names] for sender in names]
    built = graphs.Graph(
        domain="parrots",
        llm_name="none",
        agent_names=["Parrot"] * len(names),
        decision_method="Parrot",
        fixed_spatial_masks=spatial,
    )

    async def discuss(copied: Any) -> str:
        answers, _ = await copied.arun({"task": task}, rounds)
        return str(answers[-1])

    return built, discuss


def gptswarm(senders: Senders, task: str, says: str) -> tuple[Any, Discuss]:
    """https://github.com/metauto-ai/GPTSwarm: `Graph.run`, in which a node is a turn."""
    node: Any = importlib.import_module("swarm.graph.node").Node
    graph: Any = importlib.import_module("swarm.graph.graph").Graph

    class Parrot(node):  # type: ignore[misc]
        async def _execute(self, input: Any, **_: Any) -> dict[str, str]:
            return {"output": says}

    class Team(graph):  # type: ignore[misc]
        def build_graph(self) -> None:
            nodes = {turn: Parrot("A parrot", turn, combine_inputs_as_one=True) for turn in senders}
            for turn, heard in senders.items():
                for sender in heard:
                    nodes[turn].add_predecessor(nodes[sender])
                self.add_node(nodes[turn])
            self.input_nodes = [nodes[turn] for turn, heard in senders.items() if not heard]
            self.output_nodes = [nodes[turn]]

    async def discuss(copied: Any) -> str:
        [answer] = await copied.run({"task": task})
        return str(answer)

    return Team("parrots"), discuss


async def turns_per_s(built: Any, discuss: Discuss, says: str, turns: int, discussions: int) -> float:
    """The first discussion, alone, is a warm-up."""
    assert await discuss(copy.deepcopy(built)) == says
    copies = [copy.deepcopy(built) for _ in range(discussions)]
    begun = time.perf_counter()
    answers = await asyncio.gather(*map(discuss, copies))
    taken_s = time.perf_counter() - begun
    assert set(answers) == {says}
    return discussions * turns / taken_s


if __name__ == "__main__":
    sys.path.insert(0, os.getcwd())
    workload = json.load(sys.stdin)
    senders, says = workload["senders"], workload["says"]
    team = {"agentprune": agentprune, "gptswarm": gptswarm}[sys.argv[1]](senders, workload["task"], says)
    print(json.dumps(asyncio.run(turns_per_s(*team, says, len(senders), workload["discussions"]))))
