"""The endpoint model on a real vLLM server, directly and through a proxy that spoils what passes through it."""

import asyncio
import dataclasses
import re

import httpx2
import pytest

from actors.agents.roles import SINGLE
from actors.backends import openai_endpoint
from actors.backends.openai_model import OpenAIModel
from actors.backends.vllm_model import VllmModel
from actors.messages import Completion, Question, Request, Status, Trace
from actors.models import Model
from actors.prompting.form import ANSWER_FIELDS, Form, schema
from experiments.config.loading import load
from experiments.conformance.observed import ObservedLibrary, observe_discussion
from experiments.datasets.item import Item
from experiments.datasets.mmqa import Mmqa
from experiments.datasets.sample.release import write_sample
from experiments.evidence.evidence import Evidence
from experiments.evidence.library import LabelledLibrary
from experiments.records.records import encode_trace
from experiments.scripted.speaker import ScriptedSpeaker
from retrieval.embed import make_encoder
from retrieval.store import Store
from tests.support.endpoint import Asked, Server, Told
from tests.support.topologies import SYSTEMS, topology
from tests.vllm.conftest import CONTEXT_TOKENS, NAME
from tests.vllm.questions import request, with_pictures

pytestmark = [pytest.mark.vllm, pytest.mark.asyncio(loop_scope="session")]


def requests(question: Question) -> list[Request]:
    pictures = question.evidence[-2:]
    shown = [with_pictures(question, *pictures), with_pictures(question, pictures[1])]
    told = with_pictures(question, dataclasses.replace(pictures[0], image=None))
    asked = [*shown, told, dataclasses.replace(question, evidence=question.evidence[:3])]
    return [
        request(one, role, seed=seed, id=f"{role} {seed} {number}")
        for number, one in enumerate(asked)
        for seed, role in enumerate(("You count.", "You doubt.", "You decide."))
    ]


class FaultyProxy:
    """Passes requests on to `base_url`, but spoils the first `spoiled` attempts at each, in five ways."""

    def __init__(self, base_url: str, spoiled: int) -> None:
        self._base_url = base_url
        self._spoiled = spoiled
        self._attempts: dict[bytes, int] = {}
        self.faults: list[str] = []

    async def handle(self, asked: Asked) -> Told:
        attempt = self._attempts[asked.content] = self._attempts.get(asked.content, 0) + 1
        if attempt > self._spoiled:
            return await self._passed_on(asked)
        kinds = ("429", "500", "hang", "cut", "malformed")
        kind = kinds[len(self.faults) % len(kinds)]
        self.faults.append(kind)
        if kind == "429":
            return Told({"error": {"message": "slow down"}}, 429, {"retry-after": "0.1"})
        if kind == "500":
            return Told("<html>Internal Server Error</html>", 500, {"content-type": "text/html"})
        if kind == "hang":
            await asyncio.Event().wait()
        told = await self._passed_on(asked)
        if kind == "cut":
            return dataclasses.replace(told, kept=0.5)
        return dataclasses.replace(told, content=told.content[: len(told.content) // 2])

    async def _passed_on(self, asked: Asked) -> Told:
        async with httpx2.AsyncClient(timeout=60) as client:
            response = await client.request(
                asked.method,
                self._base_url.removesuffix("/v1") + asked.path,
                content=asked.content,
                headers={"content-type": "application/json"},
            )
        return Told(response.content, response.status_code)


async def test_a_server_is_found_to_do_what_its_engine_does(served: OpenAIModel, model: VllmModel) -> None:
    # A random model may not get far enough in the probe's few tokens to show that it keeps to a schema. How many
    # pictures a server takes is only known where it refuses some, and an engine names no server.
    found, own = await served.abilities(), await model.abilities()
    assert found.served[0] == served.settings.name
    assert dataclasses.replace(found, schema=True, most_pictures=3, served=own.served, adapted=()) == own


async def test_a_server_tells_the_tokens_of_a_reply(served: OpenAIModel, question: Question) -> None:
    reply = await served.complete(request(question, likelihoods=True))
    # The tiny model writes bytes that are no characters, which no server tells token by token: then none is kept.
    assert "".join(token for token, _ in reply.tokens) in (reply.text, "")
    assert all(likelihood <= 0 for _, likelihood in reply.tokens)


async def test_faults_on_the_way_change_no_text(
    served: OpenAIModel, question: Question, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openai_endpoint, "FIRST_PAUSE_S", 0.05)
    asked = requests(question)
    smooth = [(await served.complete(one)).text for one in asked]
    proxy = FaultyProxy(served.settings.base_url, spoiled=2)
    async with Server(proxy.handle).running() as server:
        model = OpenAIModel(dataclasses.replace(served.settings, base_url=server.base_url, timeout_s=10, retries=3))
        await model.start()
        rough = await asyncio.gather(*map(model.complete, asked))
        await model.close()
    assert [completion.text for completion in rough] == smooth
    assert {completion.stop for completion in rough} == {"length"}
    assert {kind: proxy.faults.count(kind) >= 5 for kind in proxy.faults} == dict.fromkeys(
        ("429", "500", "hang", "cut", "malformed"), True
    )
    assert len(set(smooth)) > 2


async def test_the_server_says_what_the_engine_in_this_process_says(
    served: OpenAIModel, model: VllmModel, question: Question
) -> None:
    asked = requests(question)
    there = [await served.complete(one) for one in asked]
    here = [await model.complete(one) for one in asked]
    assert [(one.text, one.prompt_tokens) for one in there] == [(one.text, one.prompt_tokens) for one in here]


async def test_kept_to_a_schema_the_server_writes_json_as_the_engine_in_this_process_does_without_blanks(
    served: OpenAIModel, model: VllmModel, question: Question
) -> None:
    kept = {"schema": schema(Form(ANSWER_FIELDS)), "max_tokens": 40}
    asked = [request(question, role, **kept) for role in ("You count.", "You doubt.")]
    there = [(await served.complete(one)).text for one in asked]
    assert there == [(await model.complete(one)).text for one in asked]
    assert [re.match(r'\{"reasoning":(?:"|null,")', text) is not None for text in there] == [True, True], there


async def test_a_prompt_that_does_not_fit_is_too_long_and_says_what_would_fit(
    served: OpenAIModel, question: Question
) -> None:
    reply = await served.complete(request(question, own="quay " * CONTEXT_TOKENS))
    assert reply.stop == "too_long"
    assert reply.limit_tokens == CONTEXT_TOKENS - 12
    assert reply.prompt_tokens == 0 or reply.prompt_tokens > CONTEXT_TOKENS
    assert str(CONTEXT_TOKENS) in reply.error


async def test_a_cancelled_request_leaves_the_engine(served: OpenAIModel, question: Question) -> None:
    address = served.settings.base_url.replace("/v1", "/metrics")
    long = request(question, max_tokens=800)
    async with httpx2.AsyncClient() as client:

        async def metric(name: str) -> float:
            text = (await client.get(address)).text
            return sum(float(value) for value in re.findall(rf"^vllm:{name}{{.*}} (\S+)$", text, re.MULTILINE))

        before = await metric("generation_tokens_total")
        task = asyncio.create_task(served.complete(long))
        while not await metric("num_requests_running"):
            assert not task.done()
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with asyncio.timeout(10):
            while await metric("num_requests_running"):
                await asyncio.sleep(0.02)
        assert await metric("generation_tokens_total") - before < long.max_tokens


async def test_a_model_that_the_server_does_not_have_is_told_with_the_one_that_it_has(served: OpenAIModel) -> None:
    with pytest.raises(ValueError, match=rf"'large'.*HTTP 404.*it serves {NAME}"):
        await OpenAIModel(dataclasses.replace(served.settings, name="large")).start()


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
    team = ScriptedSpeaker((SINGLE, *SYSTEMS[name].roles), Brief(model))
    return (await observe_discussion(topology(name, library, config), question, team, library)).trace


# Here, where an engine and a server run already.
async def test_every_system_runs_on_an_engine_and_behind_an_endpoint_to_the_same_discussions(
    sample: tuple[Item, Store], model: VllmModel, served: OpenAIModel
) -> None:
    """The model is random, so hardly a reply can be read: shown is that nothing breaks, and that nobody hides it."""
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
