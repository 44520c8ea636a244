"""OmniSearch: a planner that decides after every step what to ask and where (Li et al. 2024; M3Prune, section 8).

In each step the planner thinks, and either answers, or asks a sub-question and chooses where to look: in texts, among
pictures, among pictures that look like the question's own, or on the web. Texts that are found are read by a solver,
who answers the sub-question from them and from the question's picture; the planner reads only the solver's answer.
Pictures that are found go to the planner itself. After five searches, or where it gives no answer, the planner is asked
for one. A plan that cannot be read ends the search, and so does one without words to search for.
"""

from collections.abc import Sequence

from actors.messages import Field, FieldKind, InputLine, Message, Modality, Role, Source, Task, Value
from topologies.method import system
from topologies.systems.helpers import SIMILAR, look_up, pictures_among, together
from topologies.systems.session import Session, System, about, in_order, sources
from topologies.topology import SINGLE_AGENT

PLANNER = Role(
    "search_planner",
    Modality.BOTH,
    "You are a scientist who plans a search. You work out step by step what has to be known to answer the question, "
    "look one thing up at a time, and change your plan after what you find.",
)
ROLES = (PLANNER,)
MOST_SEARCHES = 5  # the authors'
PLAN = (
    "Think about what is known by now and what is still missing. Go by what is shown and what was found, and look up "
    "whatever neither tells, even where you believe that you remember it. Where something is missing, put the one "
    "sub-question that brings the answer closest, so worded that it can be understood by itself, with the names that "
    "were found so far in it; give the words to search for; and choose where to look: {places}. Where nothing is "
    'missing, choose "finish" and give the answer to the question as a whole.'
)
PLACES = {
    "texts": '"texts" for facts in passages and tables',
    "pictures": '"pictures" for what something looks like',
    SIMILAR: f'"{SIMILAR}" for pictures that look like the question\'s own, whose titles may tell what it shows (it '
    "needs no words)",
    "web": '"web" for what none of these may hold',
}
THOUGHT = Field(FieldKind.THOUGHT, "one sentence on what is known and what is missing")
# Not "answer", which is the name of a field: in a table it would be taken for a heading.
FINISH = "finish"
STEP = (
    Field(FieldKind.SUB_QUESTION, "the one thing to look up next, as a question", optional=True),
    Field(FieldKind.QUERY, "the words to search for", optional=True),
    Field(
        FieldKind.ANSWER,
        "where nothing is missing, the answer in as few words as possible",
        optional=True,
        value=Value.ANSWER,
    ),
)
SOLVE = "Answer from what this search found. Say unknown where it does not tell."
UNFOUND = "The search for this found nothing. Say unknown where what is shown does not tell."


class OmniSearch(System):
    """Searches of `top_k.texts` passages (or web results) or `top_k.pictures` each, and the answer."""

    async def discuss(self, session: Session) -> Message:
        own_sources = await session.own()
        evidence = own_sources
        # The planner reads the solver's references by number, so each source keeps its number from turn to turn.
        order = own_sources
        solutions: list[Message] = []
        lines: list[InputLine] = []
        for _ in range(MOST_SEARCHES):
            plan = await session.ask(
                PLANNER.name,
                question=in_order(session.question, order),
                evidence=evidence,
                task=task_of(own_sources, lines),
                remembers=True,
            )
            if plan.values(FieldKind.ACTION) == (FINISH,) and plan.values(FieldKind.ANSWER):
                return plan
            place, sub_question, query = step(plan)
            if not place or not (query or place == SIMILAR):
                break

            results = sources(await look_up(session, place, query, self.top_k, of=plan, own_sources=own_sources))
            order = together(order, results)
            if place in ("pictures", SIMILAR):
                evidence = together(evidence, results)
                titles = "; ".join(picture.title for picture in results)
                finding = f"pictures, shown to you: {titles}" if results else "no picture"
            else:
                question = in_order(about(session.question, together(own_sources, results), sub_question), order)
                instruction = SOLVE if results else UNFOUND
                solution = await session.ask(SINGLE_AGENT, question=question, instruction=instruction)
                solutions.append(solution)
                finding = "nothing that answers it"
                if solution.answer is not None:
                    finding = f"{solution.content} Answer: {solution.answer}".strip()
            if sub_question:
                lines.append(InputLine(FieldKind.SUB_QUESTION, sub_question))
            lines.append(InputLine(FieldKind.FOUND, finding))

        question = in_order(about(session.question, evidence), order)
        return await session.ask(PLANNER.name, question=question, heard=solutions, remembers=True)


def task_of(own_sources: Sequence[Source], lines: Sequence[InputLine]) -> Task:
    """Makes the planner's task. Only a question with a picture has similar ones to look for."""
    places = [place for place in PLACES if place != SIMILAR or pictures_among(own_sources)]
    action = Field(FieldKind.ACTION, "in one word, where to look next or that you finish", (*places, FINISH))
    plan = PLAN.format(places=", ".join(PLACES[place] for place in places))
    return Task(plan, (THOUGHT, action, *STEP), tuple(lines))


def step(plan: Message) -> tuple[str, str, str]:
    """Returns the next place to look, the sub-question and the search words. No place (""): the plan failed or is done.

    A missing sub-question is replaced by the words, and missing words by the sub-question.
    """
    action = plan.values(FieldKind.ACTION)
    query = " ".join(plan.values(FieldKind.QUERY))
    sub_question = " ".join(plan.values(FieldKind.SUB_QUESTION))
    place = ""
    if action and action != (FINISH,):
        place = action[0]
    return place, sub_question or query, query or sub_question


METHODS = (
    system(
        "omnisearch",
        "a planner asks one sub-question after another and chooses where to look",
        OmniSearch,
        ROLES,
        rivals=("single",),
    ),
)
