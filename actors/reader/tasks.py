"""Does the task that a prompt sets: fills each line of its form with the skill that goes by the line's name.

A line whose name no skill goes by is not filled, and a skill that has nothing to say fills nothing: the reply then
cannot be read as what was asked for, and that shows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from actors.reader import examine, extract, plan, summarise
from actors.reader.agree import same
from actors.reader.form import Line
from actors.reader.work import Work

Skill = Callable[[Work, Line], list[str]]


def _answer(work: Work, line: Line) -> list[str]:
    if not work.answer and line.optional:
        return []
    said = work.answer or "unknown"
    allowed = line.one_of(said.lower()) if line.values else said
    return [allowed] if allowed else []


def _confidence(work: Work, line: Line) -> list[str]:
    """Of the answer, where the form asks for one; else of the judgement about the evidence."""
    answers = any(other.name in ("Answer", "Best") for other in work.task.lines)
    return [f"{work.confidence if answers else examine.sureness(work):.2f}"]


SKILLS: Mapping[str, Skill] = {
    "Action": plan.action,
    "Answer": _answer,
    "Best": examine.best,
    "Confidence": _confidence,
    "Description": summarise.description,
    "Enough": examine.enough,
    "Entity": extract.entity,
    "Instruction": plan.instruction,
    "Intents": plan.intents,
    "Keyword": extract.keyword,
    "Parents": plan.parents,
    "Query": plan.query,
    "Relevant": examine.relevant,
    "Retrieve": examine.retrieve,
    "Same": same,
    "Score": examine.score,
    "Selected": examine.selected,
    "Step": plan.step,
    "Sub-question": plan.sub_question,
    "Summary": summarise.summary,
    "Supported": examine.supported,
    "Theme": extract.theme,
    "Thought": summarise.thought,
    "Triple": extract.triple,
    "Type": plan.node_type,
    "Visual": examine.visual,
}


def fill(work: Work) -> str:
    """The reply: a line per value, fields in the form's order."""
    lines: list[str] = []
    for line in work.task.lines:
        skill = SKILLS.get(line.name)
        values = skill(work, line) if skill else []
        lines += [f"{line.name}: {' '.join(value.split())}" for value in (values if line.many else values[:1])]
    return "\n".join(lines)
