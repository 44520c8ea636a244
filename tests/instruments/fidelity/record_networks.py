"""Records what the authors' networks give: `python -m tests.instruments.fidelity.record_networks <folder>`.

The folder holds checkouts of G-Designer (`GDesigner`) and AGP (`AGP`) at the commits that `steps/` names. Their
classes run untouched, with torch_geometric, in double precision where they allow it. Agents, models and encoders are
replaced by objects that do nothing, since a forward pass asks none. Weights and input are random (`given`), and the
output goes into `records/`.
"""

import asyncio
import importlib
import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import torch

RECORDS = Path(__file__).parent / "records"
WIDTH = 384  # of embeddings, as written into the authors' code
SIZES = {"few agents": 4, "a team": 9}


def given(name: str, *shape: int, scale: float = 1.0) -> torch.Tensor:
    """Random numbers that depend on a name and a shape."""
    draw = np.random.default_rng([len(shape), *shape, *name.encode()])
    return torch.from_numpy(draw.standard_normal(shape) * scale)


def anchor(agents: int) -> np.ndarray:
    """A random directed graph without loops, bool [sender, receiver]."""
    return (given("anchor", agents, agents).numpy() > 0.3) & ~np.eye(agents, dtype=bool)


def fill(module: torch.nn.Module, name: str) -> None:
    """Gives a module random weights."""
    with torch.no_grad():
        for weight, values in module.named_parameters():
            # Biases of zero, as both begin, would hide where they are added.
            values.copy_(given(f"{name}.{weight}", *values.shape, scale=0.5 if values.dim() == 1 else 0.1))


def labels(agents: int) -> tuple[np.ndarray, np.ndarray]:
    """A label of AGP's stage II: edges, float [sender, receiver], and agents left out, float [agents]."""
    edges = (given("label", agents, agents).numpy() > 0) * 0.5
    np.fill_diagonal(edges, 0)
    return edges, (given("left out", agents).numpy() > 0.5).astype(float)


def stubs(package: str) -> None:
    """Stands in for the modules of agents, prompts and encoders."""
    nothing = SimpleNamespace(get=lambda *args, **kwargs: SimpleNamespace(async_execute=done, outputs=["A"]))
    modules: dict[str, dict[str, Any]] = {
        "shortuuid": {"ShortUUID": lambda: SimpleNamespace(random=lambda length: "id")},
        f"{package}.graph.node": {"Node": object},
        f"{package}.agents": {},
        f"{package}.agents.agent_registry": {"AgentRegistry": nothing},
        f"{package}.prompt": {},
        f"{package}.prompt.prompt_set_registry": {"PromptSetRegistry": nothing},
        f"{package}.llm": {},
        f"{package}.llm.profile_embedding": {
            "get_sentence_embedding": lambda query: given(query, WIDTH).to(torch.get_default_dtype()).numpy()
        },
    }
    for path, names in modules.items():
        module = ModuleType(path)
        vars(module).update(names)
        sys.modules[path] = module
    # The package's own __init__ imports all of them.
    module = ModuleType(f"{package}.graph")
    module.__path__ = [str(Path(sys.path[0]) / package / "graph")]
    sys.modules[f"{package}.graph"] = module


async def done(*args: Any) -> None:
    """Does nothing."""


class Agent:
    """An agent that is asked nothing, by its number."""

    def __init__(self, number: int) -> None:
        self.id, self.idnumber = str(number), number
        self.spatial_successors: list[Agent] = []
        self.spatial_predecessors: list[Agent] = []
        self.outputs, self.async_execute = ["A"], done


def graph_of(package: str, agents: int, dtype: torch.dtype = torch.float64) -> Any:
    """One of the authors' graphs with random weights, without its constructor, which makes agents."""
    torch.set_default_dtype(dtype)
    code = importlib.import_module(f"{package}.graph.graph")
    layers = importlib.import_module(f"{package}.gnn.gcn")
    graph = object.__new__(code.Graph)
    graph.nodes = {str(number): Agent(number) for number in range(agents)}
    graph.decision_node = Agent(agents)
    graph.connect_decision_node = lambda: None
    graph.features = given("profiles", agents, WIDTH).to(dtype)
    graph.role_adj_matrix = code.dense_to_sparse(torch.from_numpy(anchor(agents)).float())[0]
    extra = (64, 0.0, 0.55) if package == "AGP" else ()
    graph.gcn, graph.mlp = layers.GCN(2 * WIDTH, 16, WIDTH, *extra), layers.MLP(WIDTH, 16, 16)
    fill(graph.gcn, "gcn")
    fill(graph.mlp, "mlp")
    graph.gcn.eval()
    pairs = [[a, b] for a in graph.nodes for b in graph.nodes]
    graph.potential_spatial_edges, graph.optimized_spatial = pairs, True
    graph.spatial_masks = torch.tensor([float(a != b) for a, b in pairs])
    return graph


def record(package: str) -> dict[str, Any]:
    """Logits of edges, and of AGP the agents' probabilities and the loss of stage II."""
    stubs(package)
    cases = {}
    for name, agents in SIZES.items():
        graph = graph_of(package, agents)
        with torch.no_grad():
            embedded = graph.gcn(graph.construct_new_features("query"), graph.role_adj_matrix)
        if package == "GDesigner":
            asyncio.run(graph.arun({"task": "query"}, num_rounds=0))
            cases[name] = {"agents": agents, "logits": graph.spatial_logits.tolist()}
            continue
        asyncio.run(graph.arun_evaluate({"task": "query"}, num_rounds=0))
        of_case = {"logits": graph.spatial_logits.tolist(), "takes_part": embedded[1].tolist()}
        edges, left_out = labels(agents)
        # Their loss mixes single precision in.
        graph = graph_of(package, agents, torch.float32)
        loss = asyncio.run(graph.arun_train({"task": "query", "edge_weight": edges, "mask": left_out}, num_rounds=1))
        cases[name] = {"agents": agents, **of_case, "loss": loss.item()}
    return cases


if __name__ == "__main__":
    for package, file in {"GDesigner": "g_designer", "AGP": "agp"}.items():
        sys.path.insert(0, str(Path(sys.argv[1]) / package))
        (RECORDS / f"{file}.json").write_text(json.dumps(record(package), indent=1) + "\n", encoding="utf-8")
