"""Our models as an AutoGen `ChatCompletionClient`: a pool, a cached model or the embedded reader for AutoGen agents.

A conversation becomes one request. Its beginning (the task) is the shared part, which selects the replica and is served
by its prefix cache; messages, calls and their results follow in order.
"""

import asyncio
import json
import re
import uuid
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from autogen_core import CancellationToken, Component, FunctionCall
from autogen_core.models import ChatCompletionClient, CreateResult, LLMMessage, ModelInfo, RequestUsage
from autogen_core.tools import Tool, ToolSchema
from pydantic import BaseModel, ValidationError

from actors.autogen.conversation import FORMAT, laid_out, parse_calls, tools_part
from actors.backends.model_choice import ModelChoice
from actors.errors import ModelError
from actors.messages import Completion, Request, Usage, derive_seed
from actors.models import Model, ModelResponse, complete_with_retries
from actors.prompting.own_words import own_words
from actors.settings import AgentSettings

# For estimates: the tokenizer is in the model's process.
CHARACTERS_PER_TOKEN = 4
TOKENS_PER_PICTURE = 256
_OPENING = re.compile(r"[{\[]")
_OBJECT = re.compile(r"\{")
_ATTEMPTS = 1000  # openings of JSON that are tried in one reply


class CannotAnswer(RuntimeError):
    """The model will never answer this conversation, for the reason in one line."""


class ModelClient(ChatCompletionClient, Component[ModelChoice]):
    """Any of our models behind AutoGen's interface. Equal conversations and seeds give equal answers.

    Tools are listed and called in words (`actors.autogen.conversation`), which works with every model; a malformed call
    counts as plain text. With `json_output` the prompt asks for JSON, and a reply that is no JSON, or does not fit the
    given class, is an error: the model is not constrained. `create_stream` yields the whole text at once.

    model: answers the requests.
    settings: temperature, longest reply, and repetitions of a failed call.
    seed: the source of the requests' seeds, with the conversation.
    task: a request of the simulator. A conversation that opens with its text (`task_text`) gets its layout, and
        shares the prefix of the team's other agents.
    context_tokens: the context for `remaining_tokens`.
    choice: makes `model` again elsewhere; without it the client cannot be dumped.
    on_response: gets each response of the model.

    calls: number of completions, cached ones included.
    usage: computed calls and tokens.
    """

    component_type = "model"
    component_config_schema = ModelChoice
    component_provider_override = "actors.autogen.client.ModelClient"

    def __init__(
        self,
        model: Model,
        settings: AgentSettings | None = None,
        seed: int = 0,
        task: Request | None = None,
        context_tokens: int = 32_768,
        choice: ModelChoice | None = None,
        on_response: Callable[[ModelResponse], None] = lambda response: None,
    ) -> None:
        self.model = model
        self.usage = Usage()
        self.calls = 0
        self._total = RequestUsage(0, 0)
        self._settings = settings or AgentSettings()
        self._seed = seed
        self._id = task.id if task else f"chat-{uuid.uuid4().hex}"
        self._requests = 0
        self._task = task
        self._context_tokens = context_tokens
        self._choice = choice
        self._on_response = on_response

    async def create(
        self,
        messages: Sequence[LLMMessage],
        *,
        tools: Sequence[Tool | ToolSchema] = (),
        tool_choice: Tool | Literal["auto", "required", "none"] = "auto",
        json_output: bool | type[BaseModel] | None = None,
        # As in AutoGen's signature; never modified.
        extra_create_args: Mapping[str, Any] = {},
        cancellation_token: CancellationToken | None = None,
    ) -> CreateResult:
        """Returns one reply; `extra_create_args` may set `seed`, `temperature` and `max_tokens`.

        Raises CannotAnswer where the prompt does not fit, the model refuses it, or the reply is no such JSON;
        ModelError where all calls failed; and CancelledError where the token was cancelled.
        """
        if unknown := extra_create_args.keys() - {"seed", "temperature", "max_tokens"}:
            raise ValueError(
                f"extra_create_args: {', '.join(sorted(unknown))} unknown; give seed, temperature, max_tokens"
            )
        schemas = _schemas(tools, tool_choice)
        sections = []
        if schemas:
            sections.append(tools_part(schemas, required=tool_choice not in ("auto", "none")))
        if json_output:
            sections.append(_format_part(json_output))
        request = laid_out(messages, sections, self._task)

        # From the conversation, so that answers do not depend on the order of calls.
        seed = derive_seed(self._seed, request.prefix, request.system, request.shared, request.own)
        sampling = {
            "seed": seed,
            "temperature": self._settings.temperature,
            "max_tokens": self._settings.max_tokens,
            **extra_create_args,
        }
        # Ids are unique among all processes that share a pool; answers do not depend on them.
        self._requests += 1
        request = replace(request, id=f"{self._id}/{self._requests}", **sampling)
        completion = await self._complete(request, cancellation_token)
        usage = RequestUsage(completion.prompt_tokens, completion.completion_tokens)
        thought, calls = parse_calls(completion.text, [schema["name"] for schema in schemas])
        # A reply that calls tools is not yet the answer.
        if calls:
            return CreateResult(
                finish_reason="function_calls",
                content=[
                    FunctionCall(f"{request.seed:x}-{number}", json.dumps(arguments, ensure_ascii=False), tool)
                    for number, (tool, arguments) in enumerate(calls)
                ],
                usage=usage,
                cached=completion.reused,
                thought=thought or None,
            )
        return CreateResult(
            finish_reason="length" if completion.stop == "length" else "stop",
            content=_fitting_json(completion.text, json_output) if json_output else completion.text,
            usage=usage,
            cached=completion.reused,
        )

    async def create_stream(
        self, messages: Sequence[LLMMessage], **arguments: Any
    ) -> AsyncGenerator[str | CreateResult, None]:
        """Yields the text of `create` as one piece, and then its result."""
        result = await self.create(messages, **arguments)
        if isinstance(result.content, str):
            yield result.content
        yield result

    async def _complete(self, request: Request, token: CancellationToken | None) -> Completion:
        # A separate future, so that cancelling the token also stops the model.
        calling = asyncio.ensure_future(complete_with_retries(self.model, request, self._settings.retries))
        if token is not None:
            token.link_future(calling)
        response = await calling
        completion = response.completion
        self.usage += response.usage
        self.calls += response.calls
        self._on_response(response)

        if completion.stop == "too_long":
            size = ""
            if completion.limit_tokens:
                size = f" ({completion.prompt_tokens} tokens, {completion.limit_tokens} at most)"
            raise CannotAnswer(f"the conversation does not fit the model's context{size}: shorten it")
        if not response.calls:
            raise ModelError(completion.error)
        # An error counts as well: the model has answered with its reason.
        self._total.prompt_tokens += completion.prompt_tokens
        self._total.completion_tokens += completion.completion_tokens
        if completion.stop == "error":
            raise CannotAnswer(completion.error or "the model gave no reason")
        return completion

    async def close(self) -> None:
        """Does nothing: the model is closed by its owner."""

    def actual_usage(self) -> RequestUsage:
        """Returns the tokens that were computed for this client."""
        return RequestUsage(self.usage.prompt_tokens, self.usage.completion_tokens)

    def total_usage(self) -> RequestUsage:
        """Returns the tokens of all completions, cached ones included."""
        return replace(self._total)

    def count_tokens(self, messages: Sequence[LLMMessage], *, tools: Sequence[Tool | ToolSchema] = ()) -> int:
        """Estimates tokens, at four characters each."""
        schemas = _schemas(tools, "auto")
        sections = [tools_part(schemas)] if schemas else []
        request = laid_out(messages, sections, self._task)
        characters = len(request.system) + len(request.shared) + len(request.own)
        return -(-characters // CHARACTERS_PER_TOKEN) + TOKENS_PER_PICTURE * len(request.images)

    def remaining_tokens(self, messages: Sequence[LLMMessage], *, tools: Sequence[Tool | ToolSchema] = ()) -> int:
        """Estimates the free tokens of the context."""
        return max(0, self._context_tokens - self.count_tokens(messages, tools=tools))

    @property
    def model_info(self) -> ModelInfo:
        # The same for every model: tools and JSON are requested in words; a model without sight gets pictures in words.
        return ModelInfo(
            vision=True,
            function_calling=True,
            json_output=True,
            structured_output=True,
            family="unknown",
            multiple_system_messages=True,
        )

    @property
    def capabilities(self) -> ModelInfo:
        """AutoGen's older name for `model_info`."""
        return self.model_info

    def _to_config(self) -> ModelChoice:
        if self._choice is None:
            raise ValueError("this client's model runs only in this process: give ModelClient a `choice` to dump it")
        return self._choice

    @classmethod
    def _from_config(cls, config: ModelChoice) -> "ModelClient":
        return cls(config.model(), choice=config)


def _schemas(
    tools: Sequence[Tool | ToolSchema], choice: Tool | Literal["auto", "required", "none"]
) -> list[ToolSchema]:
    """Returns the schemas of the tools among which the model has the choice."""
    if choice == "none":
        return []
    schemas = [tool if isinstance(tool, dict) else tool.schema for tool in tools]
    if isinstance(choice, Tool):
        return [schema for schema in schemas if schema["name"] == choice.name]
    return schemas


def _format_part(json_output: bool | type[BaseModel]) -> str:
    form = "Reply with one JSON object and nothing else."
    if isinstance(json_output, type):
        schema = json.dumps(json_output.model_json_schema(), sort_keys=True, ensure_ascii=False)
        form = f"{form} It must fit this JSON schema: {schema}"
    return f"{FORMAT}\n{form}"


def _fitting_json(text: str, form: bool | type[BaseModel]) -> str:
    """Returns the last JSON in a reply that fits, whatever surrounds it: thoughts, a fence, a sentence. Raises
    CannotAnswer where there is none."""
    decoder = json.JSONDecoder()
    opening = _OPENING if isinstance(form, type) else _OBJECT
    reason = "there is no object in it"
    fitting = ""
    start = 0
    thoughts_alone = not own_words(text, lambda _: False)
    for _ in range(0 if thoughts_alone else _ATTEMPTS):
        match = opening.search(text, start)
        if match is None:
            break
        start = match.end()
        try:
            _, end = decoder.raw_decode(text, match.start())
            candidate = text[match.start() : end]
            start = end
            if isinstance(form, type):
                form.model_validate_json(candidate)
            fitting = candidate
        except ValidationError as error:  # before ValueError, which it is too
            fault = error.errors(include_url=False)[0]
            place = "".join(f"{key}." for key in fault["loc"]).removesuffix(".")
            reason = f"it does not fit {form}: {place}{': ' if place else ''}{fault['msg']}"
        except (ValueError, RecursionError) as error:
            reason = str(error)
    if not fitting:
        raise CannotAnswer(f"the reply is not the required JSON ({reason})")
    return fitting
