"""Other frameworks on the workload of `throughput`: as many agents and rounds, the same edges, a model that answers at
once. All of a peer lies in this process, and it builds no prompts.

LangGraph and AgentScope are measured where they are installed (`pip install langgraph agentscope`), into an environment
of its own if you like: their dependencies may move those of the project.
"""

import asyncio
import importlib.util
import operator
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any, TypedDict

from autogen_agentchat.agents import BaseChatAgent
from autogen_agentchat.base import Response
from autogen_agentchat.conditions import MaxMessageTermination
from autogen_agentchat.messages import BaseChatMessage, TextMessage
from autogen_agentchat.teams import DiGraphBuilder, GraphFlow, RoundRobinGroupChat
from autogen_core import AgentId, CancellationToken, MessageContext, RoutedAgent, SingleThreadedAgentRuntime, rpc

TASK = "In which town was Ana Brix born?"
Senders = Mapping[str, Sequence[str]]
"""A discussion's turns in an order in which they may be taken, each with those that it hears; the last one decides."""
Discuss = Callable[[int], Awaitable[None]]


class Parrot(BaseChatAgent):
    """AutoGen's cheapest agent."""

    def __init__(self, name: str, says: str) -> None:
        super().__init__(name, "A parrot")
        self._says = says

    @property
    def produced_message_types(self) -> Sequence[type[BaseChatMessage]]:
        return (TextMessage,)

    async def on_messages(self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken) -> Response:
        return Response(chat_message=TextMessage(content=self._says, source=self.name))

    async def on_reset(self, cancellation_token: CancellationToken) -> None:
        """Nothing to forget."""


class CoreParrot(RoutedAgent):
    """The same as an agent of AutoGen's core. It is asked with what it hears."""

    def __init__(self, says: str) -> None:
        super().__init__("A parrot")
        self._says = says

    @rpc
    async def answer(self, message: TextMessage, ctx: MessageContext) -> TextMessage:
        return TextMessage(content=self._says, source=self.id.type)


async def turns_per_s(discuss: Discuss, turns: int, discussions: int) -> float:
    """Of so many discussions at once, of so many turns each; the first one alone, as a warm-up."""
    await discuss(0)
    start = time.perf_counter()
    await asyncio.gather(*map(discuss, range(1, discussions + 1)))
    return discussions * turns / (time.perf_counter() - start)


def round_robin(senders: Senders, says: str) -> Discuss:
    """AutoGen's team in which everybody hears everybody and speaks in turn."""
    names = dict.fromkeys(turn.partition("_in_")[0] for turn in senders)

    async def discuss(number: int) -> None:
        agents = [Parrot(name, says) for name in names]
        team = RoundRobinGroupChat(list(agents), termination_condition=MaxMessageTermination(len(senders) + 1))
        assert len((await team.run(task=TASK)).messages) == len(senders) + 1

    return discuss


def graph_flow(senders: Senders, says: str) -> Discuss:
    """AutoGen's team along a graph, in which a node is a turn."""

    async def discuss(number: int) -> None:
        builder = DiGraphBuilder()
        agents = {turn: Parrot(turn, says) for turn in senders}
        for agent in agents.values():
            builder.add_node(agent)
        for turn, heard in senders.items():
            for sender in heard:
                builder.add_edge(agents[sender], agents[turn])
        team = GraphFlow(list(agents.values()), builder.build())
        messages = (await team.run(task=TASK)).messages
        assert sum(message.source in agents for message in messages) == len(senders)

    return discuss


async def autogen_core(senders: Senders, says: str, discussions: int) -> float:
    """Agents of AutoGen's core, asked as soon as all that they hear has been said; one runtime for all discussions."""
    runtime = SingleThreadedAgentRuntime()
    for name in dict.fromkeys(turn.partition("_in_")[0] for turn in senders):
        await CoreParrot.register(runtime, name, lambda: CoreParrot(says))
    runtime.start()

    async def discuss(number: int) -> None:
        tasks: dict[str, asyncio.Task[None]] = {}

        async def take(turn: str, heard: Sequence[str]) -> None:
            await asyncio.gather(*(tasks[sender] for sender in heard))
            agent = AgentId(turn.partition("_in_")[0], str(number))
            answer = await runtime.send_message(TextMessage(content=TASK, source="user"), agent)
            assert answer.content == says

        for turn, heard in senders.items():
            tasks[turn] = asyncio.create_task(take(turn, heard))
        await asyncio.gather(*tasks.values())

    rate = await turns_per_s(discuss, len(senders), discussions)
    await runtime.stop_when_idle()
    return rate


def langgraph(senders: Senders, says: str) -> Discuss:
    """LangGraph's graph of states, compiled once, in which a node is a turn that waits for all that it hears."""
    graph_of: Any = importlib.import_module("langgraph.graph")

    class State(TypedDict):
        messages: Annotated[list[tuple[str, str]], operator.add]

    def node(turn: str) -> Callable[[State], Awaitable[dict[str, list[tuple[str, str]]]]]:
        async def take(state: State) -> dict[str, list[tuple[str, str]]]:
            return {"messages": [(turn, says)]}

        return take

    graph = graph_of.StateGraph(State)
    for turn in senders:
        graph.add_node(turn, node(turn))
    for turn, heard in senders.items():
        graph.add_edge(list(heard) or graph_of.START, turn)
    graph.add_edge(list(senders)[-1], graph_of.END)
    compiled = graph.compile()

    async def discuss(number: int) -> None:
        state = await compiled.ainvoke({"messages": []}, {"recursion_limit": 10 * len(senders)})
        assert len(state["messages"]) == len(senders)

    return discuss


def agentscope(senders: Senders, says: str) -> Discuss:
    """Agents of AgentScope, asked as soon as all that they hear has been said; new ones for each discussion."""
    rooms = ("agent", "model", "message", "formatter", "credential")
    agents_of, models_of, said, forms, keys = (importlib.import_module(f"agentscope.{room}") for room in rooms)

    class Instant(models_of.ChatModelBase):  # type: ignore[misc, name-defined]
        """Counts no tokens either, which agents ask for to see whether their context is full."""

        async def __call__(self, *_: Any, **__: Any) -> Any:
            return models_of.ChatResponse(content=[said.TextBlock(text=says)], is_last=True)

        async def _call_api(self, *_: Any, **__: Any) -> Any:
            raise NotImplementedError

        async def count_tokens(self, *_: Any, **__: Any) -> int:
            return 0

    model = Instant(keys.CredentialBase(), "instant", Instant.Parameters(), stream=False)
    model.formatter = forms.OpenAIChatFormatter()

    async def discuss(number: int) -> None:
        names = dict.fromkeys(turn.partition("_in_")[0] for turn in senders)
        agents = {name: agents_of.Agent(name, "A parrot", model) for name in names}
        tasks: dict[str, asyncio.Task[Any]] = {}

        async def take(turn: str, heard: Sequence[str]) -> Any:
            messages = await asyncio.gather(*(tasks[sender] for sender in heard))
            answer = await agents[turn.partition("_in_")[0]].reply([said.UserMsg("user", TASK), *messages])
            assert answer.get_text_content() == says
            return answer

        for turn, heard in senders.items():
            tasks[turn] = asyncio.create_task(take(turn, heard))
        await asyncio.gather(*tasks.values())

    return discuss


async def peers(senders: Senders, says: str, discussions: int = 40) -> dict[str, int]:
    """Turns per second of each peer."""
    makers = {"autogen_round_robin": round_robin, "autogen_graph_flow": graph_flow}
    others = {"langgraph": langgraph, "agentscope": agentscope}
    makers |= {name: make for name, make in others.items() if importlib.util.find_spec(name)}
    rates = {"autogen_core": await autogen_core(senders, says, discussions)}
    for name, make in makers.items():
        rates[name] = await turns_per_s(make(senders, says), len(senders), discussions)
    return {name: round(rate) for name, rate in rates.items()}
