"""OmniSearch: a planner that decides after every step what to ask and where to look next (Li et al. 2024; M3Prune,
section 8).

In each step the planner thinks, and either says that it can answer, or asks a sub-question and chooses where to look:
in texts, among pictures or on the web. What is found is read by a solver, who answers the sub-question; the answer and
what was found are before the planner when it plans on. When it can answer, or after `turns` searches, it does.

Left open and decided: a sub-question is searched for as it is worded; the solver reads what its own search found, and
the planner all that was found in any. A plan that cannot be read ends the search, and so does one that names no
sub-question: the planner then answers with what there is.
"""

from __future__ import annotations

from actors.messages import Field, FieldKind, Given, Message, Modality, Question, Role, Task, Trace
from topologies.method import system
from topologies.single import SINGLE_AGENT
from topologies.systems.helpers import looked_up, together
from topologies.systems.session import System, about, sources
from topologies.topology import Ask

PLANNER = Role(
    "search_planner",
    Modality.BOTH,
    "You are a scientist who plans a search. You work out step by step what has to be known to answer the question, "
    "look one thing up at a time, and change your plan after what you find.",
)
ROLES = (PLANNER,)
PLAN = (
    "Think about what is known by now and what is still missing. Where something is missing, put the one sub-question "
    "that brings the answer closest, so worded that it can be understood by itself, with the names that were found so "
    'far in it, and choose where to look: "texts" for facts in passages and tables, "pictures" for what something '
    'looks like, "web" for what neither may hold. Where nothing is missing, choose "answer".'
)
FIELDS = (
    Field(FieldKind.THOUGHT, "one sentence on what is known and what is missing"),
    Field(FieldKind.ACTION, "what to do next", ("texts", "pictures", "web", "answer")),
    Field(FieldKind.SUB_QUESTION, "the one thing to look up next, as a question", optional=True),
)
SOLVE = "Answer from what this search found. Say unknown where it does not tell."


class OmniSearch(System):
    """At most `turns` searches of `reach.texts` passages (or web results) or `reach.pictures` each, and the answer."""

    async def answer(self, question: Question, ask: Ask, seed: int, sample: int = 0) -> Trace:
        session = self.session(question, ask, seed, sample)
        read = own = await session.own()
        solved: list[Message] = []
        given: list[Given] = []
        for _ in range(self.context.systems.turns):
            task = Task(PLAN, FIELDS, tuple(given))
            plan = await session.ask(PLANNER.name, question=about(question, read), task=task, remembers=True)
            sub_questions, action = plan.said(FieldKind.SUB_QUESTION), plan.said(FieldKind.ACTION)
            # A failed plan has no sub-question either, so `action` is never empty below.
            if not sub_questions or action == ("answer",):
                break
            results = sources(await looked_up(session, action[0], sub_questions[0], self.reach, plan))
            shown = about(question, together(own, results), sub_questions[0])
            solved.append(await session.ask(SINGLE_AGENT, question=shown, instruction=SOLVE))
            given += [Given(FieldKind.SUB_QUESTION, sub_questions[0]), Given(FieldKind.FOUND, _solution(solved[-1]))]
            # The planner sees all that was found; the solver only what its own search found.
            read = together(read, results)
        final = await session.ask(PLANNER.name, question=about(question, read), heard=solved, remembers=True)
        return session.trace(final)


def _solution(message: Message) -> str:
    """The solver's reply to a sub-question, as the planner reads it."""
    return "nothing that answers it" if message.answer is None else f"{message.content} Answer: {message.answer}"


METHOD = system(
    "omnisearch", "a planner asks one sub-question after another and chooses where to look", OmniSearch, ROLES
)
