"""Builds requests so that a prefix cache serves most of each.

A prompt has these parts, in this order:

- instruction, pictures, question and evidence: the same for all agents that read the same modality of one question;
- the discussion in one canonical order, with the agent's own earlier turns;
- the agent's own part: its role, the weights of the messages, its task, the form of the reply.

With the role first, agents would share no prefix with each other.
"""

import hashlib
from collections.abc import Sequence
from functools import lru_cache

from actors.messages import (
    SEEDS,
    Abilities,
    InputLine,
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
from actors.wire import replace

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
# Headings of the parts about the turn itself. A task is none of them, as it may quote the question.
FRAMING = frozenset((ROLE, WEIGHTS, REPLY_FORM))
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


def overview(texts: bool, pictures: bool, found: bool) -> str:
    """Writes the system turn: what the prompt contains.

    It is the same for all turns that read the same modality of one question. `found`: some of the evidence was
    retrieved, and is no part of the question itself.
    """
    kinds = []
    if texts:
        kinds.append("passages and rows of tables")
    if pictures:
        kinds.append("pictures")
    contents = "Below is a question."
    if kinds:
        origin = "belong to it"
        if found:
            origin += " or were retrieved for it"
        sources = " and ".join(kinds)
        contents = f"Below is a question, with {sources} that {origin}, each with its number in square brackets."
        if found:
            contents += " Not all of them need to be relevant."
    return f"{contents} Your task comes at the end, followed by the form of your reply: keep to it."


def evidence_for(question: Question, reads: Modality) -> tuple[Source, ...]:
    """Returns the sources of a modality, best first."""
    return tuple(source for source in question.evidence if reads.reads(source.kind))


def shared_part(question: Question, reads: Modality, cut: tuple[str, ...] = ()) -> tuple[str, tuple[Source, ...]]:
    """Writes question, choices, passages, rows and the pictures' titles for agents of a modality. Returns the pictures
    too.

    Sources with an id in `cut` are left out. A source has its number in the question's order, whatever is cut: data
    sets' ids are long, and agents repeat them with every quotation.
    """
    lines = [QUESTION, line_of_its_own(question.text)]
    if question.choices:
        lines.append(CHOICES)
        for letter, choice in zip(letters(question.choices), question.choices, strict=True):
            lines.append(f"({letter}) {safe_line(choice)}")

    numbers = places(question)
    sections: dict[str, list[str]] = {OWN: [], EVIDENCE: [], PICTURES: []}
    pictures: list[Source] = []
    for source in evidence_for(question, reads):
        if source.id in cut:
            continue
        source = replace(source, id=str(numbers[source.id]))
        is_own = source.doc in question.own
        line = f"[{source.id}] {safe_line(source.title)}"
        heading = OWN if is_own else EVIDENCE
        if source.kind is not Kind.IMAGE:
            line += f": {safe_line(source.text)}"
        else:
            # Titles only: the pictures themselves come before this text, each after its number and title.
            pictures.append(source)
            heading = PICTURES
            if is_own:
                line += f" ({OF_THE_QUESTION})"
        sections[heading].append(line)

    for heading, section in sections.items():
        if section:
            lines += [heading, *section]
    return "\n".join(lines), tuple(pictures)


@lru_cache(maxsize=512)
def beginning(
    question: Question, reads: Modality, cut: tuple[str, ...], pictures: bool
) -> tuple[str, str, str, tuple[Source, ...]]:
    """Returns the prefix, the system turn, the shared part and the pictures of requests about a question.

    Cached for all samples and rounds. `pictures`: the model reads them.
    """
    shared, images = shared_part(question, reads)
    prefix = hashlib.blake2b(shared.encode(), digest_size=8)
    for picture in images:
        # Paths need not be valid Unicode, unlike the text, which was cleaned.
        prefix.update(f"{picture.id}\x1f{picture.image}".encode(errors="surrogatepass"))

    if cut:
        shared, images = shared_part(question, reads, cut)
    if not pictures:
        images = tuple(replace(image, image=None) for image in images)
    has_texts = OWN in shared or EVIDENCE in shared
    docs = {source.doc for source in evidence_for(question, reads)}
    system = overview(has_texts, pictures=images != (), found=not docs.issubset(question.own))
    return prefix.hexdigest(), system, shared, images


def own_part(turn: Turn, role: Role, recalled: Sequence[Message], settings: AgentSettings) -> tuple[str, Prompted]:
    """Writes the agent's own part as text and as values, without the form of the reply.

    Messages have one order for all agents: by round, then by the number heard, then by agent. Messages that heard few
    others are the same in most samples of a question. To read in proportion to weight (Eqs. 5 and 9) is up to
    the model, except for `settings.budget_words`, which are divided among the colleagues' reasoning by weight.
    """
    # A turn that is both remembered and heard occurs once, as the agent's own with a weight.
    messages: dict[str, Message] = {}
    weights: dict[str, float] = {}
    for heard in turn.heard:
        messages[heard.message.id] = heard.message
        weights[heard.message.id] = heard.weight
    total_weight = sum(weights.values())
    own_messages = {message.id: message for message in recalled if message.status is Status.OK}
    messages |= own_messages

    remarks: list[Remark] = []
    discussion: list[str] = []
    for message in sorted(messages.values(), key=lambda message: (message.round, len(message.heard), message.agent)):
        is_own = message.id in own_messages
        weight = weights.get(message.id)
        words = None
        if settings.budget_words is not None and weight is not None and not is_own:
            # Where all weights are 0, no reasoning is shown, but the answers still are.
            words = round(settings.budget_words * weight / (total_weight or 1.0))
        value, line = _remark(message, words)
        discussion.append(line)
        remark = replace(value, weight=_rounded(weight, digits=3), own=is_own)
        remarks.append(remark)

    lines: list[str] = []
    if role.instruction:
        lines += [ROLE, line_of_its_own(role.instruction)]
    if discussion:
        # The discussion comes before the role: agents that read the same messages share it as a prefix.
        lines = [DISCUSSION, *discussion, *lines, WEIGHTS, _weights(remarks, brief=settings.weights == "brief")]
    if turn.instruction:
        lines += [INSTRUCTION, line_of_its_own(turn.instruction)]
    lines += _input_lines(turn.inputs)
    if turn.task:
        lines += [TASK, line_of_its_own(turn.task.instruction), *_input_lines(turn.task.inputs)]
    else:
        lines += [TASK, _to_answer(turn, role.modality)]
    values = Prompted(safe_line(role.instruction), tuple(remarks), turn.directive, turn.task, turn.inputs)
    return "\n".join(lines), values


def _input_lines(inputs: Sequence[InputLine]) -> list[str]:
    if not inputs:
        return []
    return [GIVEN, *(safe_line(input.line) for input in inputs)]


def _weights(remarks: Sequence[Remark], brief: bool) -> str:
    """States the weights of the messages above."""
    own_numbers: list[str] = []
    weights: list[str] = []
    for number, remark in enumerate(remarks, 1):
        marks: list[str] = []
        if remark.own:
            own_numbers.append(str(number))
            marks.append(YOU)
        if remark.weight is not None:
            marks.append(f"{remark.weight:.3f}")
        weights.append(" ".join(marks))

    different_weights = {remark.weight for remark in remarks}
    if not brief or len(different_weights - {None}) != 1:
        return f"{IN_ORDER}: {', '.join(weights)}"
    # A turn that the agent remembers without hearing it has no weight.
    statement = OTHERS_ALIKE if None in different_weights else ALIKE
    if own_numbers:
        statement += f"; your own: number {', '.join(own_numbers)}"
    return f"{statement}."


def in_own_form(turn: Turn, role: Role) -> Turn:
    """Returns the turn with the form of its role, if that has one. A task keeps its own form."""
    if turn.task or not role.form:
        return turn
    request = ANSWER if role.answers else NO_ANSWER
    return replace(turn, task=Task(_to_answer(turn, role.modality, request), role.form, answers=True))


def with_own_evidence(turn: Turn, share: float) -> Turn:
    """Returns the turn with the sources that its agent sees, the same ones in all rounds, samples and methods.

    share: the chance that an agent sees a source, drawn for each agent and source alone. Every agent sees the sources
        that are part of the question.
    """
    question = turn.question
    if share == 1:
        return turn
    visible_sources = []
    for source in question.evidence:
        draw = derive_seed("own evidence", question.id, turn.agent, source.id) / SEEDS
        if draw < share or source.doc in question.own:
            visible_sources.append(source)
    # Sources keep their numbers: a colleague may quote one that this agent does not see.
    order = question.order or tuple(source.id for source in question.evidence)
    return replace(turn, question=replace(question, evidence=tuple(visible_sources), order=order))


def _to_answer(turn: Turn, modality: Modality, request: str = ANSWER) -> str:
    """Writes the task of a turn that answers, depending on what its prompt shows."""
    evidence = turn.question.evidence
    sentences = [f"{request}."]
    # Messages of others, or the input, may hold what was found.
    if not evidence and not turn.heard and not turn.inputs:
        if not turn.searched:
            sentences.append(NOTHING_RETRIEVED)
        elif turn.instruction:  # tells itself what to use then
            sentences.append(f"{NOTHING_FOUND}.")
        else:
            sentences.append(f"{NOTHING_FOUND}: use what you know.")
    elif evidence and modality is Modality.VISUAL and Kind.IMAGE not in {source.kind for source in evidence}:
        sentences.append(NO_PICTURES)

    if any(heard.message.agent != turn.agent for heard in turn.heard):
        sentences.append(ON_MERITS)
    return " ".join(sentences)


@lru_cache(maxsize=4096)
def _remark(message: Message, words: int | None) -> tuple[Remark, str]:
    """Returns a message as a value, without a weight, and as a line of the discussion. Numbers are rounded alike in
    both. Cached for all that hear it."""
    content = safe_line(message.content)
    if words is not None:
        content = " ".join(content.split()[:words])

    fields = tuple((name, harmless(value)) for name, value in message.fields)
    if content != "; ".join(f"{name}: {value}" for name, value in fields):
        # An attacker has rewritten the content, or the budget cut it: then no field is shown as a value.
        fields = ()
    answer = None
    if message.answer is not None and not message.fields:
        answer = safe_line(message.answer)
    remark = Remark(
        speaker=f"{safe_line(message.agent)}, round {message.round}",
        content=content,
        answer=answer,
        confidence=_rounded(message.confidence, digits=2),
        weight=None,
        own=False,
        fields=fields,
    )
    return remark, f"[{remark.speaker}] {message_text(message, content)}"


def _rounded(number: float | None, digits: int) -> float | None:
    return None if number is None else round(number, digits)


def message_text(message: Message, content: str) -> str:
    """Adds a message's answer to its safe content, as others read it. A task's content holds all of its fields."""
    if message.fields:
        return content
    answer = "unknown" if message.answer is None else safe_line(message.answer)
    text = f"{content} Answer: {answer}"
    if message.confidence is not None:
        text += f" (confidence {message.confidence:.2f})"
    return text


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
    settings = settings or AgentSettings()
    prefix, system, shared, images = beginning(turn.question, role.evidence, tuple(cut), abilities.pictures)
    own, parts = own_part(turn, role, recalled, settings)
    form = form_of(turn)
    enforced = is_enforced(settings.replies, abilities)
    reply_schema = schema(form, settings.max_tokens) if enforced else ""
    request_id = f"{turn.id}/cut-{len(cut)}" if cut else turn.id
    return Request(
        id=request_id,
        prefix=prefix,
        system=system,
        shared=shared,
        own="\n".join([own, REPLY_FORM, _asked(form, enforced)]),
        images=images,
        seed=turn.seed,
        temperature=settings.temperature,
        max_tokens=settings.max_tokens,
        parts=parts,
        schema=reply_schema,
        likelihoods=settings.likelihoods and abilities.likelihoods,
    )


def grounds_and_framing(request: Request) -> tuple[str, list[str]]:
    """Splits a prompt into the text that an answer may rest on and the lines about the turn.

    An answer may rest on question, evidence, discussion, task and input. Role, weights and form are about the turn.
    """
    grounds = [request.shared, *(picture.text for picture in request.images)]
    framing: list[str] = []
    section = grounds
    for line in request.own.split("\n"):
        if line in HEADINGS:
            section = framing if line in FRAMING else grounds
        else:
            section.append(line)
    return "\n".join(grounds), framing


def is_enforced(replies: Replies, abilities: Abilities) -> bool:
    """True where the model's decoder keeps replies to their form, as JSON."""
    return replies != "text" and abilities.schema


def _asked(form: Form, enforced: bool) -> str:
    return as_json(form) if enforced else in_lines(form)


def repair_request(request: Request, reply: str, form: Form, faults: Sequence[FieldFault]) -> Request:
    """Builds a request for the fields that could not be read: the first one, its reply and a correction.

    The prompt before the correction is the same, so that the prefix cache serves it; the seed is another one.
    """
    faulty_part = still_asked(form, faults)
    enforced = request.schema != ""
    reply_schema = schema(faulty_part, request.max_tokens) if enforced else ""
    rejected = harmless(clean(reply)).strip()
    if len(rejected) > REPAIRED_CHARACTERS:
        # The dots show the model that this is not the whole reply.
        rejected = f"... {rejected[-REPAIRED_CHARACTERS:]}"

    # In a sentence: small models copy a line such as `Answer: it is missing` as their answer.
    wrong = "; ".join(f"the {fault.field.name} ({fault.reason})" for fault in faults)
    return replace(
        request,
        id=f"{request.id}/repair",
        rejected=rejected,
        correction=f"Part of your reply could not be read: {wrong}.\n{_asked(faulty_part, enforced)}",
        schema=reply_schema,
        seed=derive_seed(request.seed, "repair"),
    )
