"""What a model behind an endpoint can do is found out when it starts, on a server that can more or less."""

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from actors.backends.model_settings import DeclaredAbilities
from actors.backends.openai_abilities import SCHEMA
from actors.messages import Abilities, Kind, Request, Source
from actors.prompting.form import Form, schema
from tests.actors.prompting.forms import FORMS
from tests.support.endpoint import Asked, Told, completion, started

REPLY = '{"colour": "red", "share": null, "numbers": [1], "calls": []}'
REQUEST = Request("q", "", "Be brief.", "Which?", "You doubt.")


def refused(message: str, status: int = 400) -> Told:
    return Told({"error": {"message": message}}, status)


@dataclass
class Endpoint:
    """Says yes; what it says to the probe of one ability can be another thing."""

    schema: Told = field(default_factory=lambda: Told(completion(REPLY)))
    pictures: Told = field(default_factory=lambda: Told(completion()))
    likelihoods: bool = True
    models: Any = field(default_factory=lambda: [{"id": "other"}, {"id": "qwen", "max_model_len": 4096}])
    system_turn: bool = True
    thinks: bool = False

    async def handle(self, asked: Asked) -> Told:
        if asked.path.endswith("/models"):
            return Told({"data": self.models})
        body = asked.json()
        if body["messages"][0]["role"] == "system" and not self.system_turn:
            return refused("System role not supported")
        if self.thinks and body["max_tokens"] < 100:
            return Told(completion(None, "length"))
        if "response_format" in body:
            return self.schema
        if "image_url" in str(body["messages"]):
            return self.pictures
        reply = completion()
        if self.likelihoods and body.get("logprobs"):
            reply["choices"][0]["logprobs"] = {"content": [{"token": "yes", "logprob": -0.5}]}
        return Told(reply)


async def found(endpoint: Endpoint, **settings: Any) -> Abilities:
    async with started(endpoint.handle, **settings) as (model, _):
        return await model.abilities()


async def test_an_endpoint_that_can_do_all_of_it_is_known_to() -> None:
    assert await found(Endpoint()) == Abilities(True, True, True, True, True, 4096)


async def test_an_endpoint_that_refuses_everything_beside_text_can_do_none_of_it() -> None:
    can_little = Endpoint(
        schema=refused("response_format is not known"),
        pictures=refused("qwen is not a multimodal model"),
        likelihoods=False,
        models=[],
    )
    little = await found(can_little)
    assert replace(little, adapted=()) == Abilities(False, False, False)
    assert [setting for setting, _ in little.adapted] == ["abilities.pictures=false", "abilities.schema=false"]


@pytest.mark.parametrize(
    ("listed", "context_tokens"),
    [
        ({"max_model_len": 4096}, 4096),  # vLLM's
        ({"meta": {"n_ctx": 4096, "n_ctx_train": 32768}}, 4096),  # llama.cpp's, of one of its slots
        ({"meta": "4096"}, None),
        ({}, None),
    ],
)
async def test_the_context_that_a_server_lists_is_known(listed: dict[str, Any], context_tokens: int | None) -> None:
    abilities = await found(Endpoint(models=[{"id": "other", "max_model_len": 8}, {"id": "qwen", **listed}]))
    assert abilities.context_tokens == context_tokens


@pytest.mark.parametrize(
    ("told", "kept"),
    [
        (completion("Yes, I am ready."), False),
        (completion('{"answer": "yes"}'), False),
        (completion('["colour", "share", "numbers", "calls"]'), False),
        (completion("Yes, I am", "length"), False),
        (completion('{ "colour": "red", "share": 1, "numbers": [1, 2, 3', "length"), True),
        (completion("{ \n\n\n", "length"), True),
    ],
    ids=[
        "passed over",
        "another form",
        "no object",
        "prose that was cut off",
        "JSON that was cut off",
        "blanks that were cut off",
    ],
)
async def test_a_schema_counts_only_where_the_reply_keeps_to_it(told: dict[str, Any], kept: bool) -> None:
    assert (await found(Endpoint(schema=Told(told)))).schema is kept


def demands(schema: dict[str, Any]) -> set[str]:
    """The keywords of a schema, each with the type of what it is said of; and which of them hold objects."""
    below = [*schema.get("properties", {}).values(), *schema.get("anyOf", ()), *filter(None, [schema.get("items")])]
    nested = {"an object in a list"} if schema.get("items", {}).get("type") == "object" else set()
    return {f"{schema.get('type')}: {keyword}" for keyword in schema}.union(nested, *map(demands, below))


def test_the_probe_asks_for_all_that_a_form_may_demand() -> None:
    """What only a turn's schema has could be refused in every turn, after a start that went well."""
    fields = [replace(field, tools=("web",), most=2) for fields in FORMS.values() for field in fields]
    forms = [Form((field,), choices) for field in fields for choices in ((), ("yes", "no"))]
    assert set().union(*(demands(json.loads(schema(form))) for form in forms)) <= demands(json.loads(SCHEMA))


async def test_pictures_that_are_refused_for_another_reason_become_captions_with_that_reason() -> None:
    little = await found(Endpoint(pictures=refused("out of memory", 500)))
    assert not little.pictures
    assert dict(little.adapted)["abilities.pictures=false"].startswith("HTTP 500: out of memory")


async def test_a_model_that_thinks_first_is_given_the_tokens_to_come_to_an_answer() -> None:
    abilities = await found(Endpoint(thinks=True))
    assert (abilities.schema, abilities.likelihoods) == (True, True)


async def test_a_seed_that_is_taken_out_of_requests_makes_replies_differ() -> None:
    assert not (await found(Endpoint(), extra={"seed": None})).seeds


async def test_what_is_declared_wins_and_is_not_asked_for() -> None:
    declared = DeclaredAbilities(False, False, False, False, 99)
    async with started(Endpoint().handle, abilities=declared) as (model, server):
        assert await model.abilities() == Abilities(False, False, False, False, context_tokens=99)
    (start,) = server.asked
    assert [message["role"] for message in start.json()["messages"]] == ["user"]


async def test_a_model_that_reads_no_pictures_gets_them_in_words(tmp_path: Path) -> None:
    path = tmp_path / "red.png"
    Image.new("RGB", (20, 20), "red").save(path)
    shown = Source("3", "d", Kind.IMAGE, "flag", "a red flag", str(path))
    async with started(Endpoint(pictures=refused("no pictures")).handle) as (model, server):
        server.asked.clear()
        reply = await model.complete(replace(REQUEST, images=(shown,)))
    assert reply.text == "yes"
    assert "[3] flag: a red flag" in server.asked[0].json()["messages"][1]["content"]
