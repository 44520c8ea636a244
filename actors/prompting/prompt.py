"""Lays out a request so that a prefix cache serves most of it.

Order: instruction, pictures, question, evidence (the same for all agents of one modality on one question), then the
discussion in one canonical order, the agent's own earlier turns among it, and only then what is the agent's own: its
role, and how much each message weighs. With the role first, agents share no prefix with each other, only each of them
with itself in other samples and rounds.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from actors.messages import (
    Field,
    Kind,
    Message,
    Modality,
    Prompted,
    Question,
    Remark,
    Request,
    Source,
    Status,
    Task,
    Turn,
    derive_seed,
)
from actors.settings import AgentSettings

QUESTION = "## Question"
CHOICES = "## Choices"
EVIDENCE = "## Evidence"
PICTURES = "## Pictures"
DISCUSSION = "## Discussion"
ROLE = "## Role"
WEIGHTS = "## Weights"
ORDERS = "## Orders"
TASK = "## Task"
GIVEN = "## Given"
REPLY_FORM = "## Form of the reply"
REPAIR = "## Your last reply"
HEADINGS = frozenset(
    (QUESTION, CHOICES, EVIDENCE, PICTURES, DISCUSSION, ROLE, WEIGHTS, ORDERS, TASK, GIVEN, REPLY_FORM, REPAIR)
)
IN_ORDER = "Of the messages above, in their order"
YOU = "you"

FORM = """Reasoning: one or two sentences that name the evidence you used
Answer: the shortest phrase that answers the question, the text of one choice where choices are given, or `unknown`
Confidence: a number from 0 to 1"""

INSTRUCTION = f"""You are one of several specialists who answer a question together. Use the evidence and the \
pictures below, and judge what your colleagues said on its merits. Reply in exactly three lines:
{FORM}"""

TASK_INSTRUCTION = """You are one of several agents who work on a question step by step. Do the one task that is set \
at the end, with the question, the evidence and the pictures below and with what is given there. Reply in the lines of \
its form and in nothing else, each of them beginning with its name."""

# Of a long reply the end is shown, where models put their conclusion.
REPAIRED_CHARACTERS = 1000

# Joiners (U+200C, U+200D) stay: some scripts and emoji are spelt with them.
_INVISIBLE = re.compile("[\0\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
_SURROGATE = re.compile("[\ud800-\udfff]")


def clean(text: str) -> str:
    """Text that can be stored and shown: no null bytes, no marks of direction or zero width, no lone surrogates."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    # The quick way for most text: nothing but null bytes can be wrong with ASCII.
    if text.isascii():
        return text.replace("\0", "")
    return _INVISIBLE.sub("", _SURROGATE.sub("\ufffd", text))


def one_line(text: str) -> str:
    """Evidence and messages take one line each, so that no content can pass for a section heading."""
    return " ".join((text if text.isascii() and "\0" not in text else clean(text)).split())


def _line_of_its_own(text: str) -> str:
    """A line that nothing precedes, and that is no heading all the same."""
    line = one_line(text)
    return f"\\{line}" if line.startswith("#") else line


def evidence_for(question: Question, modality: Modality) -> tuple[Source, ...]:
    """The sources that an agent of this modality may read, best first."""
    return tuple(source for source in question.evidence if modality.reads(source.kind))


def shared_part(question: Question, modality: Modality, cut: Sequence[str] = ()) -> tuple[str, tuple[Source, ...]]:
    """Question, choices, passages and rows, and the pictures' names, as every agent of a modality sees them; and the
    pictures. Sources with an id in `cut` are left out.

    A source goes by its number in the question's evidence, the same for every agent whatever it reads and whatever is
    cut: data sets' ids are long, and agents repeat them with all that they quote.
    """
    numbered = [replace(source, id=str(n)) for n, source in enumerate(question.evidence, 1) if source.id not in cut]
    evidence = [source for source in numbered if modality.reads(source.kind)]
    lines = [QUESTION, _line_of_its_own(question.text)]
    if question.choices:
        lines.append(CHOICES)
        lines += [f"({chr(ord('A') + i)}) {one_line(choice)}" for i, choice in enumerate(question.choices)]
    texts = [source for source in evidence if source.kind is not Kind.IMAGE]
    pictures = [source for source in evidence if source.kind is Kind.IMAGE]
    if texts:
        lines.append(EVIDENCE)
        lines += [f"[{source.id}] {one_line(source.title)}: {one_line(source.text)}" for source in texts]
    if pictures:
        lines.append(PICTURES)
        # Titles only: the pictures themselves stand before this text, in the same order.
        lines += [f"[{source.id}] {one_line(source.title)}" for source in pictures]
    return "\n".join(lines), tuple(pictures)


def own_part(turn: Turn, role: str, recalled: Sequence[Message], budget_words: int | None) -> tuple[str, Prompted]:
    """The discussion with the agent's own turns in it, then its role, the weights, the turn's instruction and its task;
    as text, and as values.

    Messages come in one order for everybody: by round, and in a round those that heard fewest first, since these are
    the same in most samples of a question; then by agent. Reading in proportion to weight (Eqs. 5 and 9) is the
    model's to do, except for `budget_words`, which are shared out among the colleagues' reasoning by weight.
    """
    # A turn that is both remembered and heard appears once, as its own with a weight.
    own = {message.id: message for message in recalled if message.status is Status.OK}
    weights = {h.message.id: h.weight for h in turn.heard}
    messages = {h.message.id: h.message for h in turn.heard} | own
    total = sum(weights.values())
    remarks, discussion, marks = [], [], []
    for message in sorted(messages.values(), key=lambda m: (m.round, len(m.heard), m.agent)):
        weight = weights.get(message.id)
        words = None
        if budget_words is not None and message.id not in own:
            # At weight 0 for everybody no reasoning is read, but the answers still are.
            words = round(budget_words * weights[message.id] / total) if total else 0
        remark = _remark(message, weight, message.id in own, words)
        remarks.append(remark)
        discussion.append(f"[{remark.speaker}] {message_text(message, words)}")
        mark = [YOU] if remark.own else []
        marks.append(" ".join([*mark, *([] if weight is None else [f"{weight:.3f}"])]))
    lines = [ROLE, _line_of_its_own(role)]
    if discussion:
        # The discussion comes before the role: agents that read the same messages share it as a prefix.
        lines = [DISCUSSION, *discussion, *lines, WEIGHTS, f"{IN_ORDER}: {', '.join(marks)}"]
    if turn.instruction:
        lines += [ORDERS, _line_of_its_own(turn.instruction)]
    if turn.task:
        lines.append(task_part(turn.task))
    return "\n".join(lines), Prompted(one_line(role), tuple(remarks), turn.directive, turn.task)


@lru_cache(maxsize=1024)
def _remark(message: Message, weight: float | None, own: bool, words: int | None) -> Remark:
    """Numbers are rounded as the text states them, so that no model is told more than another.

    One value for all requests of a process that show the message alike: a batch pickles it once.
    """
    content = _shown(message, words)
    return Remark(
        speaker=f"{one_line(message.agent)}, round {message.round}",
        content=content,
        answer=None if message.answer is None or message.fields else one_line(message.answer),
        confidence=None if message.confidence is None else round(message.confidence, 2),
        weight=None if weight is None else round(weight, 3),
        own=own,
        fields=_shown_fields(message, content),
    )


def _shown(message: Message, words: int | None) -> str:
    """The message's content on one line, cut after so many words."""
    content = one_line(message.content)
    return content if words is None else " ".join(content.split()[:words])


def _shown_fields(message: Message, content: str) -> tuple[tuple[str, str], ...]:
    """The fields of a task's reply that the cut of its content, `<name>: <value>; <name>: <value>`, left; none where
    it was rewritten on its way."""
    # `whole` is the content as it was written; `starts` are the places of the values in it.
    whole, starts = "", []
    for name, value in message.fields:
        whole += f"{'; ' if whole else ''}{name}: "
        starts.append(len(whole))
        whole += value
    if not whole.startswith(content):
        return ()
    names = [name for (name, _), start in zip(message.fields, starts, strict=True) if start < len(content)]
    # A value ends before the separator and the name of the next one; the last one ends with the content.
    ends = [start - len(f"; {name}: ") for name, start in zip(names[1:], starts[1:], strict=False)]
    return tuple((name, content[start:end]) for name, start, end in zip(names, starts, [*ends, None], strict=False))


def message_text(message: Message, words: int | None = None) -> str:
    """A message as others read it, its reasoning cut after so many words."""
    answer = message.answer if message.answer is not None else "unknown"
    confidence = "" if message.confidence is None else f" (confidence {message.confidence:.2f})"
    content = _shown(message, words)
    if message.fields:
        return content
    return f"{content} Answer: {one_line(answer)}{confidence}"


def task_part(task: Task) -> str:
    """The task's instruction, its material and the form of its reply."""
    lines = [TASK, _line_of_its_own(task.instruction)]
    if task.given:
        lines += [GIVEN, *(one_line(given.line) for given in task.given)]
    return "\n".join([*lines, REPLY_FORM, form_of(task)])


def form_of(task: Task) -> str:
    """The form of a task's reply: a line per field with what belongs in it."""
    return "\n".join(f"{field.name}: {_asked(field)}" for field in task.fields)


def _asked(field: Field) -> str:
    parts = [one_line(field.asks)] if field.asks else []
    if field.values:
        parts.append(f"one of {' | '.join(field.values)}")
    if field.many:
        parts.append("as many such lines as needed" + (", or none" if field.optional else ""))
    elif field.optional:
        parts.append("this line may be left out")
    return "; ".join(parts)


def build_request(
    turn: Turn,
    modality: Modality,
    role: str,
    recalled: Sequence[Message] = (),
    settings: AgentSettings | None = None,
    cut: Sequence[str] = (),
) -> Request:
    """The request for one turn, without the sources with an id in `cut`.

    Two turns of agents of one modality on one question have the same `prefix`, whatever was cut: the replica that
    knows the pictures and the first passages is the one to ask all the same. The id tells how many were cut, since
    a model must not take the request for the one that it has seen.
    """
    settings = settings or AgentSettings()
    shared, images, prefix = _prefix(turn.question, modality)
    if cut:
        shared, images = shared_part(turn.question, modality, cut)
    own, parts = own_part(turn, role, recalled, settings.budget_words)
    return Request(
        id=f"{turn.id}/cut-{len(cut)}" if cut else turn.id,
        prefix=prefix,
        system=TASK_INSTRUCTION if turn.task else INSTRUCTION,
        shared=shared,
        own=own,
        images=images,
        seed=turn.seed,
        temperature=settings.temperature,
        max_tokens=settings.max_tokens,
        parts=parts,
    )


def ask_again(task: Task | None) -> str:
    """The request to put a reply right that could not be read: the form of answers, or of the task, once more."""
    if task is None:
        return f"Give your conclusion again, as these three lines and nothing else:\n{FORM}"
    return f"Do the task again, and reply in these lines and nothing else:\n{form_of(task)}"


def repair_request(request: Request, reply: str, task: Task | None = None) -> Request:
    """The same request once more, with the end of the reply to it on one line and the form again.

    Nothing before its last section differs, so that the prefix cache serves all of it; its seed is its own.
    """
    line = one_line(reply)
    # The dots tell the model that this is not the whole reply.
    shown = line if len(line) <= REPAIRED_CHARACTERS else f"... {line[-REPAIRED_CHARACTERS:]}"
    lines = [
        REPAIR,
        f'"{shown}"' if shown else "(nothing)",
        f"This could not be read. {ask_again(task)}",
    ]
    own = "\n".join([request.own, *lines])
    return replace(request, id=f"{request.id}/repair", own=own, seed=derive_seed(request.seed, "repair"))


@lru_cache(maxsize=512)
def _prefix(question: Question, modality: Modality) -> tuple[str, tuple[Source, ...], str]:
    """The shared part, its pictures and their digest: worked out once for all samples and rounds of a question."""
    shared, images = shared_part(question, modality)
    digest = hashlib.blake2b(shared.encode(), digest_size=8)
    for picture in images:
        # Paths need not be valid Unicode, unlike the text, which was cleaned.
        digest.update(f"{picture.id}\x1f{picture.image}".encode(errors="surrogatepass"))
    return shared, images, digest.hexdigest()
