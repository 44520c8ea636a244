"""E-Agent: the whole search is planned at once and then carried out (its abstract; M3Prune, section 8).

One call of the planner yields an ordered list of tool calls, none where the question needs no search. The executor runs
each of them once, in that order, and one more call answers from all results.

Decided here:
- A tool call is a tool (texts, pictures, pictures similar to the question's own where it has one, or web) and words to
  look for. A plan with another tool or without words cannot be read: the question is answered without a search.
- The first five calls are run.
- Calls do not see each other's results, as planning is a single pass: "tool-aware execution sequencing" is left out.
"""

import asyncio
from dataclasses import replace

from actors.messages import Field, FieldKind, Message, Modality, Role, Task, Value
from topologies.method import system
from topologies.systems.helpers import SIMILAR, look_up, pictures_among, together
from topologies.systems.session import Session, System, sources
from topologies.topology import SINGLE_AGENT

PLANNER = Role(
    "tool_planner",
    Modality.BOTH,
    "You are a scientist who plans how a question is to be answered. You see what it takes before anything is looked "
    "up, and write the whole plan at once.",
)
MOST_CALLS = 5
PLAN = (
    "List the tool calls that gather what the answer needs, in the order in which they are to be run, none that can be "
    'spared: "texts" looks words up in passages and tables, "pictures" looks for pictures of what the words describe, '
    '{alike}"web" searches the web. Nothing can be planned later on. Write no call where the question can be answered '
    "from what is shown."
)
ALIKE = f'"{SIMILAR}" looks for pictures that look like the question\'s own (say what is to be made out in them), '
TOOLS = ("texts", "pictures", SIMILAR, "web")
STEP = Field(FieldKind.STEP, "what to look for", many=True, optional=True, tools=TOOLS, value=Value.CALL)
SEEING = Task(PLAN.format(alike=ALIKE), (STEP,))
BLIND = Task(PLAN.format(alike=""), (replace(STEP, tools=("texts", "pictures", "web")),))


class EAgent(System):
    """Plan of searches, each of `top_k.texts` passages or results or `top_k.pictures`; then the answer."""

    async def discuss(self, session: Session) -> Message:
        own_sources = await session.own()
        task = SEEING if pictures_among(own_sources) else BLIND
        plan = await session.ask(PLANNER.name, evidence=own_sources, task=task)
        calls = tool_calls(plan)[:MOST_CALLS]
        # Called in the plan's order, which the trace keeps, and then run at the same time.
        results = await asyncio.gather(
            *(look_up(session, tool, words, self.top_k, of=plan, own_sources=own_sources) for tool, words in calls)
        )
        evidence = together(own_sources, *map(sources, results))
        # A plan without a call has nothing to answer from.
        heard = [plan] if calls else []
        return await session.ask(SINGLE_AGENT, evidence=evidence, heard=heard)


def tool_calls(plan: Message) -> list[tuple[str, str]]:
    """Returns tool and words of each call that can be run, in order, each once."""
    calls: dict[tuple[str, str], None] = {}
    for step in plan.values(FieldKind.STEP):
        tool, _, words = (part.strip() for part in step.partition("|"))
        # Models repeat the quotation marks with which the prompt names the tools.
        tool = tool.strip("`\"'").lower()
        if tool == SIMILAR:
            # The question's picture is searched with, whatever the words: once is enough.
            calls[tool, ""] = None
        elif tool in TOOLS and words:
            calls[tool, words] = None
    return list(calls)


METHODS = (
    system("e_agent", "one plan of tool calls, run once, and the answer", EAgent, (PLANNER,), rivals=("single",)),
)
