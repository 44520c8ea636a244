"""Every system on a real engine and behind an endpoint. The model is random, so hardly a reply can be read: shown is
that nothing breaks, that nobody hides it, and that both ways to the model give the same discussions."""

from __future__ import annotations

import asyncio
import dataclasses

import pytest

from actors.agents.roles import SINGLE
from actors.backends.openai_model import OpenAIModel
from actors.backends.vllm_model import VllmModel
from actors.messages import Completion, Question, Request, Status, Trace
from actors.models import Model
from experiments.config.loading import load
from experiments.conformance.scripted import ObservedLibrary, ScriptedTeam, run_discussion
from experiments.datasets.item import Item
from experiments.datasets.mmqa import Mmqa
from experiments.datasets.sample.release import write_sample
from experiments.evidence.evidence import Evidence
from experiments.evidence.library import LabelledLibrary
from experiments.records.records import encode_trace
from retrieval.embed import make_encoder
from retrieval.store import Store
from tests.support.topologies import SYSTEMS, topology

pytestmark = [pytest.mark.vllm, pytest.mark.asyncio(loop_scope="module")]

REPLY_TOKENS = 8
PICTURES = 2  # at most three fit into a request of this engine


class Brief:
    """The model, which may not say much: a random one never ends by itself."""

    def __init__(self, model: Model) -> None:
        self._model = model

    async def complete(self, request: Request) -> Completion:
        return await self._model.complete(dataclasses.replace(request, max_tokens=REPLY_TOKENS))


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> tuple[Item, Store]:
    folder = tmp_path_factory.mktemp("sample")
    write_sample(folder / "release", seed=3, train=0, dev=4)
    data = Mmqa.at(folder / "release")
    return next(iter(data.evaluate())), Store.open(folder / "index", data.corpus, make_encoder("lexical"))


async def discussed(name: str, sample: tuple[Item, Store], model: Model) -> Trace:
    item, store = sample
    config = load(["experiment=sp", f"retrieval.pictures={PICTURES}", "retrieval.texts=3"])
    library = ObservedLibrary(LabelledLibrary(Evidence(store, config.retrieval), [item]), {})
    question = Question(item.question.id, item.question.text)
    team = ScriptedTeam((SINGLE, *SYSTEMS[name].roles), Brief(model))
    return (await run_discussion(topology(name, library, config), question, team, library)).trace


async def test_every_system_runs_on_an_engine_and_behind_an_endpoint_to_the_same_discussions(
    sample: tuple[Item, Store],
    model: VllmModel,
    served: OpenAIModel,
) -> None:
    here = await asyncio.gather(*(discussed(name, sample, model) for name in SYSTEMS))
    there = await asyncio.gather(*(discussed(name, sample, served) for name in SYSTEMS))
    whole = 0
    for trace, other in zip(here, there, strict=True):
        # A server does not say how long a prompt is that does not fit, so more may be cut from it than for an engine.
        if not any(turn.cut for turn in (*trace.turns, *other.turns)):
            whole += 1
            assert encode_trace(trace) == encode_trace(other), trace.method
        assert trace.turns, trace.method
        assert all(turn.status is not Status.FAILED for turn in trace.turns), trace.method
        assert all(turn.prompt_tokens > 0 for turn in trace.turns), trace.method
        assert trace.answer is None or trace.status is Status.OK
    assert whole > len(SYSTEMS) / 2
