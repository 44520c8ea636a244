"""Plans searches: the next question, the tool for it, and when to stop."""

import re
from collections.abc import Sequence

from actors.messages import Field, FieldKind, NodeType, Value
from actors.reader.english import content_stems, name_spans
from actors.reader.question import described, named, parts
from actors.reader.task_state import TaskState, asks_for_sight, suffices

UNCERTAIN = "uncertain"
_FINISH = ("answer", "finish", "stop", "final", "done", "none", "respond", "conclude")
_POINTS = re.compile(r"\b(?:this|these|shown|pictured|depicted)\b", re.IGNORECASE)
# The first match counts: `image search` is for pictures, `search` alone for texts.
_KINDS = (
    ("alike", ("similar", "alike")),
    ("picture", ("image", "picture", "visual", "photo")),
    ("web", ("web", "internet", "google", "online")),
    ("graph", ("graph", "kg", "triple", "entity")),
    ("text", ("text", "passage", "wiki", "document", "knowledge", "article", "search", "retriev")),
)


def sub_question(state: TaskState, line: Field) -> list[str]:
    """Lists the question's parts, with answers where the form asks for pairs. Only the next part in one line."""
    if line.many:
        asked = list(parts(state.question))[: line.most or 6]
        if line.value is not Value.PAIR:
            return asked
        # Open: parts that only pictures answer, and the whole question.
        known = ("" if asks_for_sight(text) or text == state.question else state.found_out(text) for text in asked)
        return [f"{text} | {answer or UNCERTAIN}" for text, answer in zip(asked, known, strict=True)]
    # A search by the picture needs no question.
    return [] if line.optional and _alike(state) else [next_question(state)]


def next_question(state: TaskState) -> str:
    """Returns the first part of the question without a search. Then its names, then the question again."""
    questions = wanted_questions(state)
    names = " ".join(name for name, _, _ in name_spans(state.question))
    for text in (*questions, names):
        if text and not _done(text, state.done):
            return text
    return questions[-1]


def wanted_questions(state: TaskState) -> list[str]:
    """Returns the question's parts, with the names of described things that are known."""
    if not state.evidence.entries:
        return list(parts(state.question))
    question = state.question
    open_parts = []
    for thing in described(question):
        known = state.found_out(thing.question)
        if known:
            # One at a time: the positions of later descriptions no longer fit.
            question = named(question, thing, known)
            break
        open_parts.append(thing.question)
    return [*reversed(open_parts), question] if question != state.question else list(parts(question))


def query(state: TaskState, line: Field) -> list[str]:
    if line.optional and (suffices(state) or _alike(state)):
        return []
    if not line.many:
        return [next_question(state)]  # always one, even when all parts were searched
    return [text for text in wanted_questions(state) if not _done(text, state.done)][: line.most or 4]


def action(state: TaskState, line: Field) -> list[str]:
    """Ends the search if the evidence suffices or nothing is left. Else picks the next question's tool."""
    if suffices(state) or all(_done(text, state.done) for text in wanted_questions(state)):
        # A form may have no value that ends the search.
        ending = next((v for v in line.values if any(word in v.lower() for word in _FINISH)), None)
        if ending:
            return [ending]
    tool = _alike(state, line.values) or tool_for(next_question(state), line.values)
    return [tool] if tool else []


def step(state: TaskState, line: Field) -> list[str]:
    """Lists each part of the question with its tool; none if the evidence suffices.

    A part about something visible is searched in texts as well, which may name what pictures only show.
    """
    if line.optional and suffices(state):
        return []
    ending = next((tool for tool in line.tools if any(word in tool.lower() for word in _FINISH)), None)
    searching = [tool for tool in line.tools if tool != ending]
    alike = _alike(state, searching)
    steps = [f"{alike} | {state.question}"] if alike else []
    for text in parts(state.question):
        tool = tool_for(text, searching)
        if tool:
            steps.append(f"{tool} | {text}")
            if asks_for_sight(text) and (other := tool_for("", searching)) and other != tool:
                steps.append(f"{other} | {text}")
    if ending and steps:
        steps.append(f"{ending} | {state.question}")
    return list(dict.fromkeys(steps))[: line.most or 8]


def _alike(state: TaskState, tools: Sequence[str] | None = None) -> str | None:
    """Finds the tool that searches by the question's picture, where nothing was found yet."""
    if tools is None:
        line = state.field(FieldKind.ACTION)
        tools = line.values if line else ()
    if not _POINTS.search(state.question) or state.lines_of(FieldKind.FOUND) or suffices(state):
        return None
    return next((tool for tool in tools if _kind(tool) == "alike"), None)


def tool_for(question: str, tools: Sequence[str]) -> str | None:
    """Returns a tool for pictures if the wording asks for something visible. Else for texts."""
    for thing in reversed(described(question)):
        # From the last one on, so that earlier positions still fit.
        question = named(question, thing, thing.noun)
    searching = [tool for tool in tools if not any(word in tool.lower() for word in _FINISH)]
    order = ["text", "", "web", "graph"]
    order.insert(0 if asks_for_sight(question) else 4, "picture")
    fitting = (tool for kind in order for tool in searching if _kind(tool) == kind)
    return next(fitting, searching[0] if searching else None)


def node(state: TaskState) -> tuple[NodeType, list[int], str]:
    """Returns type, parents and instruction of the next node of a plan: retrievals, an answer, the end."""
    nodes = [(n, given) for given in state.lines_of(FieldKind.NODE) if (n := given.number) is not None]
    answers = [(n, given.outcome) for n, given in nodes if given.text.startswith(NodeType.ANSWER)]
    # An answer node without an answer does not end the plan.
    answered = [n for n, outcome in answers if outcome.strip(" .").lower() not in ("", "unknown")]
    if answered:
        return NodeType.STOP, answered[-1:], "Stop: the question is answered."
    retrieved = [(n, given.text) for n, given in nodes if given.text.startswith(NodeType.RETRIEVAL)]
    if not (retrieved and suffices(state)):
        wanted = wanted_questions(state)
        given = [part.text for part in state.lines_of(FieldKind.SUB_QUESTION)]
        fresh = [text for text in wanted if text not in parts(state.question)]
        for text in [*given, *fresh] if given else wanted:
            if not _done(text, [other for _, other in retrieved]):
                return NodeType.RETRIEVAL, [number for number, _ in retrieved[-1:]], text
    if answers:
        return NodeType.STOP, [], "Stop: nothing is left to look for."
    return NodeType.ANSWER, [number for number, _ in retrieved], state.question


def _kind(tool: str) -> str:
    return next((kind for kind, marks in _KINDS if any(mark in tool.lower() for mark in marks)), "")


def _done(text: str, done: Sequence[str]) -> bool:
    # An earlier search may contain more.
    stems = set(content_stems(text))
    return bool(stems) and any(stems <= set(content_stems(other)) for other in done)
