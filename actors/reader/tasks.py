"""Carries out the task that a turn sets: fills each line of its form with the skill for the line's kind.

A skill that has nothing to say fills nothing: the reply then cannot be read as what was asked for, and that shows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from actors.messages import Field, FieldKind
from actors.reader import examine, extract, plan, summarise
from actors.reader.agree import candidate, side
from actors.reader.work import Work, one_of

Skill = Callable[[Work, Field], list[str]]


def _answer(work: Work, line: Field) -> list[str]:
    if not work.answer and line.optional:
        return []
    answer = work.answer or "unknown"
    return one_of(line, answer.lower()) if line.values else [answer]


def _confidence(work: Work, line: Field) -> list[str]:
    """Of the answer, where the form asks for one; else of the judgement about the evidence."""
    return [f"{work.confidence if work.field(FieldKind.ANSWER) else examine.sureness(work):.2f}"]


SKILLS: Mapping[FieldKind, Skill] = {
    FieldKind.ACTION: plan.action,
    FieldKind.ANSWER: _answer,
    FieldKind.CANDIDATE: candidate,
    FieldKind.CONFIDENCE: _confidence,
    FieldKind.DESCRIPTION: summarise.description,
    FieldKind.ENOUGH: examine.enough,
    FieldKind.ENTITY: extract.entity,
    FieldKind.INSTRUCTION: plan.instruction,
    FieldKind.INTENTS: plan.intents,
    FieldKind.KEYWORD: extract.keyword,
    FieldKind.PARENTS: plan.parents,
    FieldKind.QUERY: plan.query,
    FieldKind.RELEVANT: examine.relevant,
    FieldKind.RETRIEVE: examine.retrieve,
    FieldKind.SELECTED: examine.selected,
    FieldKind.SIDE: side,
    FieldKind.STEP: plan.step,
    FieldKind.SUB_QUESTION: plan.sub_question,
    FieldKind.SUMMARY: summarise.summary,
    FieldKind.SUPPORTED: examine.supported,
    FieldKind.THEME: extract.theme,
    FieldKind.THOUGHT: summarise.thought,
    FieldKind.TRIPLE: extract.triple,
    FieldKind.TYPE: plan.node_type,
    FieldKind.VISUAL: examine.visual,
}


def fill(work: Work) -> str:
    """The reply: a line per value, fields in the form's order."""
    lines: list[str] = []
    for line in work.task.fields:
        # What a role's own form wants beside what all forms want (faults, coordinates) is beyond it.
        beyond = line.label and line.optional and line.kind is FieldKind.SUMMARY
        skill = None if beyond else SKILLS.get(line.kind)
        values = skill(work, line) if skill else []
        # One line a value: after a line break, the rest might be read as another field.
        lines += [f"{line.name}: {' '.join(value.split())}" for value in (values if line.many else values[:1])]
    return "\n".join(lines)
