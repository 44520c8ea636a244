"""How much of the prompts a prefix cache serves, with our layout and with the usual one, on real vLLM engines.

    python -m tests.benchmarks.prefix_cache [--replicas 2] [--questions 4] [--rounds 2] [--samples 10]

Nine agents and a decision agent discuss questions of the generated sample, with the evidence that retrieval finds and
its pictures, over K sampled wirings each, through real agent and replica actors. The engines run a tiny random
Qwen2.5-VL on vLLM's CPU build, so prompts, pictures and cache are real; what the agents say to each other is what the
embedded reader says, since a random model's replies have neither the length nor the form of real ones.

- `cached_share`: prompt tokens that the engines served from their prefix caches, of all.
- `cached_share_role_first`: the same with the role in the system turn and the rest after it, as agents' prompts usually
  are laid out; same requests, same replicas.

The last line is one JSON object. Needs vLLM (see tests/vllm/requirements.txt).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial, reduce
from operator import add
from pathlib import Path
from typing import Any

from actors.backends.vllm_model import VllmModel, VllmSettings
from actors.cluster import Cluster
from actors.messages import Completion, Question, Request, Usage
from actors.models import Model
from actors.prompt import ROLE
from actors.reader.reader import Reader, ReaderSettings
from actors.roles import DECISION
from actors.settings import AgentSettings, RaySettings
from experiments.config import Config, load
from experiments.data import make_dataset
from experiments.evidence import Evidence
from experiments.launch import team_roles
from experiments.runner import open_store
from topologies.learner import Learner
from topologies.pruned import split
from topologies.topology import Wired, discussion_id

CONTEXT_TOKENS = 32_768
REPLY_TOKENS = 8  # generated and thrown away


class Measured:
    """An engine for the tokens, the embedded reader for the words."""

    def __init__(self, settings: VllmSettings, lay_out: Callable[[Request], Request]) -> None:
        self._engine = VllmModel(settings)
        self._reader = Reader(ReaderSettings())
        self._lay_out = lay_out

    async def start(self) -> None:
        await self._engine.start()

    async def complete(self, request: Request) -> Completion:
        computed = await self._engine.complete(replace(self._lay_out(request), max_tokens=REPLY_TOKENS))
        if computed.stop not in ("stop", "length"):
            return computed
        said = await self._reader.complete(request)
        return replace(computed, text=said.text, stop=said.stop)


def ours(request: Request) -> Request:
    return request


def role_first(request: Request) -> Request:
    """The role moves from behind the discussion into the system turn, and with it everything else behind it."""
    lines = request.own.split("\n")
    at = lines.index(ROLE)
    role, rest = lines[at + 1], lines[:at] + lines[at + 2 :]
    return replace(request, system=f"{role}\n{request.system}", own="\n".join(rest))


async def discussions(cluster: Cluster, config: Config, make_model: Callable[[], Model], questions: int) -> Usage:
    """Hold K discussions of each question, as a step of training does, and sum up what the engines report."""
    roles = team_roles(config)
    cluster.launch_replicas(make_model, config.model.replicas, cpus=0, gpus=0)
    team = cluster.launch_team((*roles, DECISION), AgentSettings())
    await cluster.wait_until_ready()
    learner = Learner([role.modality for role in roles], rounds=config.topology.rounds, seed=config.seed)
    cache = Path(config.output) / "cache"
    cache.mkdir(exist_ok=True)
    dataset = make_dataset(config, cache)
    evidence = Evidence(open_store(config, dataset, cache), config.retrieval)
    items = [item for _, item in zip(range(questions), dataset.train(), strict=False)]
    for item in items:
        question = await evidence.question(item)
        walks = split(learner.sample(config.training.samples), learner.probabilities())
        topologies = [Wired("train", [role.name for role in roles], walk) for walk in walks]

        async def hold(topology: Wired, sample: int, question: Question = question) -> None:
            trace = await topology.answer(question, team.ask, config.seed, sample)
            team.close(discussion_id(topology.method, question, sample))
            assert all(turn.prompt_tokens for turn in trace.turns), [turn.error for turn in trace.turns]

        await asyncio.gather(*(hold(topology, sample) for sample, topology in enumerate(topologies)))
    return reduce(add, team.usage.values())


def measure(folder: Path, replicas: int, questions: int, rounds: int, samples: int) -> dict[str, Any]:
    from tests.vllm.tiny_model import write_tiny_model

    words = [f"model.replicas={replicas}", f"topology.rounds={rounds}", f"training.samples={samples}"]
    config = load(["experiment=mmqa_prune", f"output={folder}", *words])
    engine = {
        "enforce_eager": True,
        "block_size": 32,
        "limit_mm_per_prompt": {"image": config.retrieval.pictures},
    }
    name = str(write_tiny_model(folder / "tiny"))
    settings = VllmSettings(name=name, max_model_len=CONTEXT_TOKENS, dtype="float32", engine=engine)
    found: dict[str, Usage] = {}
    seconds = {}
    for layout in (ours, role_first):
        with Cluster(RaySettings(start_timeout_s=300)) as cluster:
            start = time.perf_counter()
            found[layout.__name__] = asyncio.run(
                discussions(cluster, config, partial(Measured, settings, layout), questions)
            )
            seconds[layout.__name__] = time.perf_counter() - start
        print(layout.__name__, found[layout.__name__], flush=True)
    shares = {name: round(usage.cached_tokens / usage.prompt_tokens, 4) for name, usage in found.items()}
    return {
        "cached_share": shares["ours"],
        "cached_share_role_first": shares["role_first"],
        "replicas": replicas,
        "prompt_tokens": found["ours"].prompt_tokens,
        "calls": found["ours"].calls,
        "prompt_tokens_computed": {name: usage.prompt_tokens - usage.cached_tokens for name, usage in found.items()},
        "seconds": {name: round(value, 1) for name, value in seconds.items()},
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replicas", type=int, default=1)
    parser.add_argument("--questions", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--samples", type=int, default=10)
    here = str(Path(__file__).parents[1] / "vllm")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH")]))
    import tests.vllm.sitecustomize  # noqa: F401

    os.environ |= {
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_LOGGING_LEVEL": "ERROR",
        "VLLM_CPU_KVCACHE_SPACE": "2",
    }
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(measure(Path(folder), **vars(parser.parse_args()))))
