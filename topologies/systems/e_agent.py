"""E-Agent: the whole search is planned in one go and then carried out (M3Prune, section 8).

One call of the planner yields an ordered list of tool calls, none where the question needs no search. The executor runs
each of them once, in that order, and one more call answers from all that they found.

Left open and decided: a tool call is a tool (texts, pictures or web) and the words to look for; a plan
with one that names another tool, or no words, cannot be read, and of a plan the first `turns` calls are run. Calls do
not see each other's results, or planning would not be a single pass. A plan that cannot be read is no plan: the answer
is given without a search.
"""

from __future__ import annotations

import asyncio

from actors.messages import Field, FieldKind, Message, Modality, Question, Role, Task, Trace, Value
from topologies.method import system
from topologies.single import SINGLE_AGENT
from topologies.systems.helpers import looked_up, together
from topologies.systems.session import System, about, sources
from topologies.topology import Ask

PLANNER = Role(
    "tool_planner",
    Modality.BOTH,
    "You are a scientist who plans how a question is to be answered. You see what it takes before anything is looked "
    "up, and write the whole plan at once.",
)
ROLES = (PLANNER,)
PLAN = (
    "List the tool calls that gather what the answer needs, in the order in which they are to be run, none that can be "
    'spared: "texts" looks words up in passages and tables, "pictures" looks for pictures of what the words describe, '
    '"web" searches the web. Nothing can be planned later on. Write no call where the question can be answered from '
    "what is shown."
)
TOOLS = ("texts", "pictures", "web")
STEP = Field(FieldKind.STEP, "tool | what to look for", many=True, optional=True, tools=TOOLS, value=Value.CALL)


class EAgent(System):
    """A plan of at most `turns` searches, of `reach.texts` passages or results or `reach.pictures`; then the answer."""

    async def answer(self, question: Question, ask: Ask, seed: int, sample: int = 0) -> Trace:
        session = self.session(question, ask, seed, sample)
        own = await session.own()
        plan = await session.ask(PLANNER.name, question=about(question, own), task=Task(PLAN, (STEP,)))
        # Called for in the plan's order, which the trace keeps, and then run side by side.
        calls = [
            looked_up(session, tool, words, self.reach, plan)
            for tool, words in planned(plan)[: self.context.systems.turns]
        ]
        results = await asyncio.gather(*calls)
        shown = about(question, together(own, *map(sources, results)))
        return session.trace(await session.ask(SINGLE_AGENT, question=shown, heard=[plan]))


def planned(plan: Message) -> list[tuple[str, str]]:
    """Tool and words of each call of a plan that can be run, in order, each once."""
    calls: dict[tuple[str, str], None] = {}
    for step in plan.said(FieldKind.STEP):
        tool, _, words = (part.strip() for part in step.partition("|"))
        # Models repeat the quotation marks with which the prompt names the tools.
        if tool.strip("`\"'").lower() in TOOLS and words:
            calls[tool.strip("`\"'").lower(), words] = None
    return list(calls)


METHOD = system("e_agent", "one plan of tool calls, run once, and the answer", EAgent, ROLES)
