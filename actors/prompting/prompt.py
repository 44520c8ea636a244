"""Builds requests so that a prefix cache serves most of each.

A prompt has these parts, in this order:

- instruction, pictures, question and evidence: the same for all agents that read the same modality of one question;
- the discussion in one canonical order, with the agent's own earlier turns;
- the agent's own part: its role, the weights of the messages, its task, the form of the reply.

With the role first, agents would share no prefix with each other.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from actors.messages import (
    Abilities,
    Kind,
    Message,
    Modality,
    Prompted,
    Question,
    Remark,
    Request,
    Role,
    Source,
    Status,
    Task,
    Turn,
    derive_seed,
)
from actors.prompting.form import FieldFault, Form, as_json, form_of, in_lines, letters, places, schema, still_asked
from actors.prompting.safe_text import clean, harmless, line_of_its_own, safe_line
from actors.settings import AgentSettings, Replies

QUESTION = "## Question"
CHOICES = "## Choices"
OWN = "## Part of the question"
EVIDENCE = "## Evidence"
PICTURES = "## Pictures"
DISCUSSION = "## Discussion"
ROLE = "## Role"
WEIGHTS = "## Weights"
INSTRUCTION = "## Instruction"
TASK = "## Task"
GIVEN = "## Input"
REPLY_FORM = "## Form of the reply"
HEADINGS = frozenset(
    (QUESTION, CHOICES, OWN, EVIDENCE, PICTURES, DISCUSSION, ROLE, WEIGHTS, INSTRUCTION, TASK, GIVEN, REPLY_FORM)
)
IN_ORDER = "The weight of each message above, in order"
ALIKE = "All messages above have the same weight"
OTHERS_ALIKE = "All messages of others above have the same weight"
YOU = "you"
OF_THE_QUESTION = "part of the question"

ANSWER = "Answer the question"
NO_ANSWER = "Do your part; others answer the question"
NOTHING_RETRIEVED = "Nothing was retrieved for it: use what you know."
NOTHING_FOUND = "The search for it found nothing"
NO_PICTURES = "There are no pictures this time: use the rest of the prompt."
ON_MERITS = "Judge what the others said on its merits, and change your mind only for a reason."

ABILITIES = Abilities()  # of a model about which nothing else is known
REPAIRED_CHARACTERS = 4000  # a repair shows the end of a long reply, where models put their conclusion


@lru_cache(maxsize=8)
def overview(texts: bool, pictures: bool, found: bool = True) -> str:
    """Writes the system turn: what the prompt contains.

    It is the same for all turns that read the same modality of one question. `found`: some of the evidence was
    retrieved, and is no part of the question itself.
    """
    kinds = [*(["passages and rows of tables"] if texts else []), *(["pictures"] if pictures else [])]
    if not kinds:
        before = "Below is a question."
    else:
        origin = "belong to it or were retrieved for it" if found else "belong to it"
        before = (
            f"Below is a question, with {' and '.join(kinds)} that {origin}, each with its number in square brackets."
            f"{' Not all of them need to be relevant.' if found else ''}"
        )
    return f"{before} Your task comes at the end, followed by the form of your reply: keep to it."


def evidence_for(question: Question, reads: Modality) -> tuple[Source, ...]:
    """Returns the sources of a modality, best first."""
    return tuple(source for source in question.evidence if reads.reads(source.kind))


@lru_cache(maxsize=512)
def shared_part(question: Question, reads: Modality, cut: tuple[str, ...] = ()) -> tuple[str, tuple[Source, ...]]:
    """Writes question, choices, passages, rows and the pictures' titles for agents of a modality. Returns the pictures
    too. Cached for all samples and rounds.

    Sources with an id in `cut` are left out. A source has its number in the question's order, whatever is cut: data
    sets' ids are long, and agents repeat them with every quotation.
    """
    numbers = places(question)
    numbered = [replace(s, id=str(numbers[s.id])) for s in question.evidence if s.id not in cut]
    evidence = [source for source in numbered if reads.reads(source.kind)]
    lines = [QUESTION, line_of_its_own(question.text)]
    if question.choices:
        lines.append(CHOICES)
        labelled = zip(letters(question.choices), question.choices, strict=True)
        lines += [f"({letter}) {safe_line(choice)}" for letter, choice in labelled]
    texts = [source for source in evidence if source.kind is not Kind.IMAGE]
    pictures = [source for source in evidence if source.kind is Kind.IMAGE]
    for heading, part in ((OWN, True), (EVIDENCE, False)):
        of_part = [source for source in texts if (source.doc in question.own) is part]
        if of_part:
            lines.append(heading)
            lines += [f"[{source.id}] {safe_line(source.title)}: {safe_line(source.text)}" for source in of_part]
    if pictures:
        lines.append(PICTURES)
        # Titles only: the pictures themselves come before this text, each after its number and title.
        for source in pictures:
            mark = f" ({OF_THE_QUESTION})" if source.doc in question.own else ""
            lines.append(f"[{source.id}] {safe_line(source.title)}{mark}")
    return "\n".join(lines), tuple(pictures)


def own_part(turn: Turn, role: Role, recalled: Sequence[Message], settings: AgentSettings) -> tuple[str, Prompted]:
    """Writes the agent's own part as text and as values, without the form of the reply.

    Messages have one order for all agents: by round, then by the number heard, then by agent. Those that heard few are
    the same in most samples of a question. To read in proportion to weight (Eqs. 5 and 9) is up to the model, except
    for `settings.budget_words`, which are divided among the colleagues' reasoning by weight.
    """
    # A turn that is both remembered and heard occurs once, as the agent's own with a weight.
    own = {message.id: message for message in recalled if message.status is Status.OK}
    budget_words = settings.budget_words
    weights = {h.message.id: h.weight for h in turn.heard}
    messages = {h.message.id: h.message for h in turn.heard} | own
    total = sum(weights.values())
    remarks, discussion, marks = [], [], []
    for message in sorted(messages.values(), key=lambda m: (m.round, len(m.heard), m.agent)):
        weight = weights.get(message.id)
        words = None
        if budget_words is not None and message.id not in own:
            # Where all weights are 0, no reasoning is shown, but the answers still are.
            words = round(budget_words * weights[message.id] / total) if total else 0
        remark, line = _remark(message, weight, message.id in own, words)
        remarks.append(remark)
        discussion.append(line)
        marks.append(" ".join([YOU] * remark.own + ([] if weight is None else [f"{weight:.3f}"])))
    lines = [ROLE, line_of_its_own(role.instruction)] if role.instruction else []
    if discussion:
        # The discussion comes before the role: agents that read the same messages share it as a prefix.
        stated, kinds = f"{IN_ORDER}: {', '.join(marks)}", {remark.weight for remark in remarks}
        if settings.weights == "brief" and len(kinds - {None}) == 1:
            own_numbers = [str(number) for number, remark in enumerate(remarks, 1) if remark.own]
            yours = f"; your own: number {', '.join(own_numbers)}" if own_numbers else ""
            # A turn that the agent remembers without hearing it has no weight.
            stated = f"{OTHERS_ALIKE if None in kinds else ALIKE}{yours}."
        lines = [DISCUSSION, *discussion, *lines, WEIGHTS, stated]
    if turn.instruction:
        lines += [INSTRUCTION, line_of_its_own(turn.instruction)]
    if turn.inputs:
        lines += [GIVEN, *(safe_line(given.line) for given in turn.inputs)]
    lines += [TASK, line_of_its_own(turn.task.instruction) if turn.task else _to_answer(turn, role.modality)]
    if turn.task and turn.task.inputs:
        lines += [GIVEN, *(safe_line(given.line) for given in turn.task.inputs)]
    values = Prompted(safe_line(role.instruction), tuple(remarks), turn.directive, turn.task, turn.inputs)
    return "\n".join(lines), values


def in_own_form(turn: Turn, role: Role) -> Turn:
    """Returns the turn with the form of its role, if that has one. A task keeps its own form."""
    if turn.task or not role.form:
        return turn
    request = ANSWER if role.answers else NO_ANSWER
    return replace(turn, task=Task(_to_answer(turn, role.modality, request), role.form, answers=True))


def _to_answer(turn: Turn, modality: Modality, request: str = ANSWER) -> str:
    """Writes the task of a turn that answers, depending on what its prompt shows."""
    evidence = turn.question.evidence
    sentences = [f"{request}."]
    # Messages of others, or the input, may hold what was found.
    if not evidence and not turn.heard and not turn.inputs:
        # An instruction tells itself what to use then.
        unfound = f"{NOTHING_FOUND}." if turn.instruction else f"{NOTHING_FOUND}: use what you know."
        sentences.append(unfound if turn.searched else NOTHING_RETRIEVED)
    elif evidence and modality is Modality.VISUAL and all(source.kind is not Kind.IMAGE for source in evidence):
        sentences.append(NO_PICTURES)
    if any(heard.message.agent != turn.agent for heard in turn.heard):
        sentences.append(ON_MERITS)
    return " ".join(sentences)


@lru_cache(maxsize=1024)
def _remark(message: Message, weight: float | None, own: bool, words: int | None) -> tuple[Remark, str]:
    """Returns a message as a value and as a line of the discussion. Numbers are rounded alike in both."""
    content = safe_line(message.content)
    # An attacker may have rewritten the content, or the budget cut it: then no field is shown as a value.
    fields = tuple((name, harmless(value)) for name, value in message.fields)
    if words is not None:
        content = " ".join(content.split()[:words])
    remark = Remark(
        speaker=f"{safe_line(message.agent)}, round {message.round}",
        content=content,
        answer=None if message.answer is None or message.fields else safe_line(message.answer),
        confidence=None if message.confidence is None else round(message.confidence, 2),
        weight=None if weight is None else round(weight, 3),
        own=own,
        fields=fields if content == "; ".join(map(": ".join, fields)) else (),
    )
    return remark, f"[{remark.speaker}] {message_text(message, content)}"


def message_text(message: Message, content: str) -> str:
    """Adds a message's answer to its safe content, as others read it. A task's content holds all of its fields."""
    if message.fields:
        return content
    answer = message.answer if message.answer is not None else "unknown"
    confidence = "" if message.confidence is None else f" (confidence {message.confidence:.2f})"
    return f"{content} Answer: {safe_line(answer)}{confidence}"


def build_request(
    turn: Turn,
    role: Role,
    recalled: Sequence[Message] = (),
    settings: AgentSettings | None = None,
    cut: Sequence[str] = (),
    abilities: Abilities = ABILITIES,
) -> Request:
    """Builds the request for one turn, for a model of these abilities. Sources with an id in `cut` are left out.

    The `prefix` does not depend on the cut: the replica that has cached the pictures is still the best one. The id
    counts the cut sources, so that a model does not take the request for an earlier one.
    """
    settings, reads = settings or AgentSettings(), role.evidence
    shared, images = shared_part(turn.question, reads)
    prefix = hashlib.blake2b(shared.encode(), digest_size=8)
    for picture in images:
        # Paths need not be valid Unicode, unlike the text, which was cleaned.
        prefix.update(f"{picture.id}\x1f{picture.image}".encode(errors="surrogatepass"))
    if cut:
        shared, images = shared_part(turn.question, reads, tuple(cut))
    found = any(source.doc not in turn.question.own for source in evidence_for(turn.question, reads))
    if not abilities.pictures:
        images = tuple(replace(image, image=None) for image in images)
    own, parts = own_part(turn, role, recalled, settings)
    form, enforced = form_of(turn), is_enforced(settings.replies, abilities)
    texts = OWN in shared or EVIDENCE in shared
    return Request(
        id=f"{turn.id}/cut-{len(cut)}" if cut else turn.id,
        prefix=prefix.hexdigest(),
        system=overview(texts, bool(images), found),
        shared=shared,
        own="\n".join([own, REPLY_FORM, as_json(form) if enforced else in_lines(form)]),
        images=images,
        seed=turn.seed,
        temperature=settings.temperature,
        max_tokens=settings.max_tokens,
        parts=parts,
        schema=schema(form, settings.max_tokens) if enforced else "",
        likelihoods=settings.likelihoods and abilities.likelihoods,
    )


def is_enforced(replies: Replies, abilities: Abilities) -> bool:
    """True where the model's decoder keeps replies to their form, as JSON."""
    return replies != "text" and abilities.schema


def repair_request(request: Request, reply: str, form: Form, faults: Sequence[FieldFault]) -> Request:
    """Builds a request for the fields that could not be read: the first one, its reply and a correction.

    The prompt before the correction is the same, so that the prefix cache serves it; the seed is another one.
    """
    rejected, asked = harmless(clean(reply)).strip(), still_asked(form, faults)
    # In a sentence: small models copy a line such as `Answer: it is missing` as their answer.
    wrong = "; ".join(f"the {fault.field.name} ({fault.reason})" for fault in faults)
    form_asked = as_json(asked) if request.schema else in_lines(asked)
    return replace(
        request,
        id=f"{request.id}/repair",
        # The dots show the model that this is not the whole reply.
        rejected=rejected if len(rejected) <= REPAIRED_CHARACTERS else f"... {rejected[-REPAIRED_CHARACTERS:]}",
        correction=f"Part of your reply could not be read: {wrong}.\n{form_asked}",
        schema=schema(asked, request.max_tokens) if request.schema else "",
        seed=derive_seed(request.seed, "repair"),
    )
