"""How much of the prompts a prefix cache serves, with our layout and with the usual one, on real vLLM engines.

    python -m tests.instruments.benchmarks.prefix_cache [--replicas 2] [--questions 4] [key=value ...]

Nine agents and a decision agent discuss with the evidence that retrieval finds and its pictures, through real agent
and replica actors. The engines run a tiny random Qwen2.5-VL on vLLM's CPU build with a tokenizer trained on the data
set's own texts and Qwen2.5-VL's own limits on pictures, so that tokens, pictures and cache are what they are
in earnest. What the agents say to each other is what the embedded reader says, since a random model's replies have
neither the length nor the form of real ones. `key=value` are settings of `experiment=mmqa_prune`, such as
`data=scienceqa data.root=...`.

- training: K sampled wirings of each question, discussed together, as a step of training does: `cached_share` is the
  share of all prompt tokens that the engines served from their prefix caches.
- evaluation: one discussion of each question over the full graph: `evaluation_cached_share`.
- `..._role_first`: the same with the role in the system turn and everything else behind it, as agents' prompts usually
  are laid out; same requests, same replicas.

The last line is one JSON object. Needs vLLM (see tests/vllm/requirements.txt).
"""

import argparse
import asyncio
import json
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from itertools import islice
from operator import add
from pathlib import Path
from typing import Any

from actors.agents.roles import DECISION
from actors.backends.model_settings import ModelSettings
from actors.backends.vllm_backend import token_counter
from actors.backends.vllm_model import VllmModel
from actors.messages import Completion, Question, Request, Usage
from actors.models import Model
from actors.prompting.prompt import ROLE
from actors.reader.reader import Reader, ReaderSettings
from actors.runtime.cluster import Cluster
from actors.runtime.team import Team
from actors.settings import AgentSettings, RaySettings
from experiments.config.config import Config
from experiments.config.loading import load
from experiments.evidence.evidence import Evidence
from experiments.jobs import plan_of
from experiments.running.inputs import open_cache, open_dataset, open_store
from topologies.baselines import constant_wiring
from topologies.graphs import complete
from topologies.learning.learned_topology import split
from topologies.learning.learner import Learner
from topologies.topology import Wired, discussion_id
from topologies.wiring import Wiring

CONTEXT_TOKENS = 32_768
MOST_PIXELS = 12_845_056  # of Qwen2.5-VL
REPLY_TOKENS = 8  # generated and thrown away


class Measured:
    """An engine for the tokens, the embedded reader for the words."""

    def __init__(self, settings: ModelSettings, lay_out: Callable[[Request], Request]) -> None:
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


@dataclass
class Measurement:
    """Questions with their evidence, and how each is discussed."""

    config: Config
    questions: list[Question]

    async def spent(self, cluster: Cluster, make_model: Callable[[], Model]) -> tuple[Usage, Usage]:
        """What the engines report of training discussions, and of evaluation."""
        config = self.config
        roles = plan_of(config).roles.team
        cluster.launch_replicas(make_model, config.model.replicas or 1, cpus=0, gpus=0)
        team = cluster.launch_agents((*roles, DECISION), AgentSettings()).team()
        await cluster.wait_until_ready()
        learner = Learner([role.modality for role in roles], rounds=config.topology.rounds, seed=config.seed)
        while learner.stage < learner.stages:
            learner.next_stage()  # of the last one, all edges are open
        sampled = split(learner.sample(config.training.samples), learner.chances())
        for question in self.questions[0::2]:
            await self._discuss(team, "train", question, sampled)
        training = reduce(add, team.usage.values())
        full = [constant_wiring(complete(len(roles)), len(roles), config.topology.rounds)]
        for question in self.questions[1::2]:
            await self._discuss(team, "full", question, full)
        whole = reduce(add, team.usage.values())
        return training, Usage(
            whole.calls - training.calls,
            whole.prompt_tokens - training.prompt_tokens,
            whole.cached_tokens - training.cached_tokens,
        )

    async def _discuss(self, team: Team, method: str, question: Question, wirings: Sequence[Wiring]) -> None:
        agents = [role.name for role in plan_of(self.config).roles.team]

        async def run_discussion(sample: int, wiring: Wiring) -> None:
            trace = await Wired(method, agents, wiring).answer(question, team.ask, self.config.seed, sample)
            team.close(discussion_id(method, question, sample))
            assert all(turn.prompt_tokens for turn in trace.turns), [turn.error for turn in trace.turns]

        await asyncio.gather(*(run_discussion(sample, wiring) for sample, wiring in enumerate(wirings)))


def prepared(folder: Path, replicas: int, questions: int, words: Sequence[str]) -> tuple[Measurement, list[str]]:
    """Training questions with their evidence, as many again for evaluation, and the texts for the tokenizer."""
    config = load(["experiment=mmqa_prune", f"output={folder}", f"model.replicas={replicas}", *words])
    cache = open_cache(config)
    dataset = open_dataset(plan_of(config), cache)
    evidence = Evidence(open_store(config.retrieval, dataset, cache), config.retrieval)
    found = [
        replace(item.question, evidence=evidence.retrieve(item)) for item in islice(dataset.train(), 2 * questions)
    ]
    return Measurement(config, found), [f"{source.title}: {source.text}" for source in dataset.corpus()]


def measure(folder: Path, replicas: int, questions: int, words: Sequence[str]) -> dict[str, Any]:
    from tests.vllm.tiny_model import write_tiny_model

    measurement, texts = prepared(folder, replicas, questions, words)
    name = str(write_tiny_model(folder / "tiny", corpus=texts, vocabulary=16_000, most_pixels=MOST_PIXELS))
    engine = {
        "enforce_eager": True,
        "block_size": 32,
        "limit_mm_per_prompt": {"image": measurement.config.retrieval.pictures},
    }
    settings = ModelSettings(name=name, max_model_len=CONTEXT_TOKENS, dtype="float32", engine=engine)
    found: dict[str, float] = {}
    about: dict[str, Any] = {}
    for layout in (ours, role_first):
        with Cluster(RaySettings(start_timeout_s=300)) as cluster:
            spent = asyncio.run(measurement.spent(cluster, partial(Measured, settings, layout)))
        ending = "" if layout is ours else "_role_first"
        for phase, usage in zip(("", "evaluation_"), spent, strict=True):
            found[f"{phase}cached_share{ending}"] = round(usage.cached_tokens / usage.prompt_tokens, 4)
            if layout is ours:
                about[f"{phase}prompt_tokens"] = usage.prompt_tokens
                about[f"{phase}calls"] = usage.calls
    characters = sum(map(len, texts)) / sum(map(tokenizer_of(name), texts))
    return {**found, "replicas": replicas, **about, "characters_per_token": round(characters, 2)}


def tokenizer_of(name: str) -> Callable[[str], int]:
    count = token_counter(name, {})
    assert count is not None
    return count


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replicas", type=int, default=1)
    parser.add_argument("--questions", type=int, default=4)
    parser.add_argument("words", nargs="*", metavar="key=value")
    here = str(Path(__file__).parents[2] / "vllm")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH")]))
    import tests.vllm.sitecustomize  # noqa: F401

    os.environ |= {
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_LOGGING_LEVEL": "ERROR",
        "VLLM_CPU_KVCACHE_SPACE": "2",
    }
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(measure(Path(folder), **vars(parser.parse_args()))))
