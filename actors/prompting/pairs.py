"""Questions and their answers that stand on lines or in columns of their own, where a form asks for pairs."""

from __future__ import annotations

import re
from collections.abc import Sequence

QUESTION_NAMES = frozenset(("question", "sub-question", "subquestion", "sub question"))
ANSWER_NAMES = frozenset(("answer", "short answer"))
# `Answer: ...` or `- **Answer 2:** ...`, and the heading of all answers.
ANSWER_LINE = re.compile(
    r"[\s>*_#•-]{0,8}+(?:short )?answers?(?:\s?#?(?P<number>\d{1,2}))?[*_]{0,3}\s?[:：][*_]{0,3}(?P<answer>.*)",
    re.IGNORECASE,
)
_QUESTION = re.compile(r".*[?？][\s*_`\"'”]*+")


def paired(text: str) -> str:
    """The text with each answer behind its question, `question | answer`; as it is unless each question is followed by
    one: an answer that stands apart may be that to another, or to all of them."""
    lines = [line for line in text.split("\n") if line.strip()]
    answers = [ANSWER_LINE.match(line) for line in lines]
    questions = [not answer and bool(_QUESTION.fullmatch(line)) for answer, line in zip(answers, lines, strict=True)]
    if not any(answers) or questions.count(True) != len(lines) - answers.count(None):
        return text
    kept: list[str] = []
    number = 0
    for place, (line, answer) in enumerate(zip(lines, answers, strict=True)):
        if answer is None:
            kept.append(line)
            continue
        number += 1
        said = answer["answer"].strip()
        if not place or not questions[place - 1] or not said or int(answer["number"] or number) != number:
            return text
        kept[-1] = f"{kept[-1].rstrip()} | {said}"
    return "\n".join(kept)


def are_pair_headings(cells: Sequence[str]) -> bool:
    """True for the headings of a table of pairs: `Sub-question | Answer`."""
    names = [cell.lower() for cell in cells]
    return len(names) > 1 and names[0] in QUESTION_NAMES and names[1] in ANSWER_NAMES
