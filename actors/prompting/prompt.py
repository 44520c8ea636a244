"""Lays out a request so that a prefix cache serves most of it.

Order: instruction, pictures, question, evidence (the same for all agents that read the same of one question), then the
discussion in one canonical order, the agent's own earlier turns among it, and only then what is the agent's own: its
role, and how much each message weighs. With the role first, agents share no prefix with each other, only each of them
with itself in other samples and rounds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from actors.messages import (
    Abilities,
    Given,
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
ORDERS = "## Orders"
TASK = "## Task"
GIVEN = "## Given"
REPLY_FORM = "## Form of the reply"
HEADINGS = frozenset(
    (QUESTION, CHOICES, OWN, EVIDENCE, PICTURES, DISCUSSION, ROLE, WEIGHTS, ORDERS, TASK, GIVEN, REPLY_FORM)
)
IN_ORDER = "How much each message above counts for you, in their order"
ALIKE = "All messages above count alike for you"
OTHERS_ALIKE = "All messages of others above count alike for you"
YOU = "you"
OF_THE_QUESTION = "part of the question"

ANSWER = "Answer the question"
NO_ANSWER = "Do your part for the question; others answer it"
NOTHING_RETRIEVED = "Nothing was looked up for it: use what you know."
NOTHING_FOUND = "The search for it found nothing"
NO_PICTURES = "There are no pictures to look at this time: go by what else is here."
ON_MERITS = "Judge what the others said on its merits, and change your mind only for a reason."

ABILITIES = Abilities()  # what every model is taken to be able to do
# Of a long reply the end is shown, where models put their conclusion.
REPAIRED_CHARACTERS = 4000


@lru_cache(maxsize=8)
def instruction(texts: bool, pictures: bool, found: bool = True) -> str:
    """The system turn: what lies before the model, and where it finds what to do. The same for all turns that read
    the same of one question, whether they answer it or not. `found` is False where all is part of the question."""
    kinds = [*(["passages and rows of tables"] if texts else []), *(["pictures"] if pictures else [])]
    if not kinds:
        before = "Below is a question."
    else:
        whence = "belong to it or were found for it" if found else "belong to it"
        before = (
            f"Below is a question, with {' and '.join(kinds)} that {whence}, each with its number in square brackets."
            f"{' Not all of them need bear on it.' if found else ''}"
        )
    return f"{before} What you are to do comes at the end, and then the form of your reply: keep to it."


def evidence_for(question: Question, reads: Modality) -> tuple[Source, ...]:
    """The sources that an agent that reads this kind of evidence is shown, best first."""
    return tuple(source for source in question.evidence if reads.reads(source.kind))


def shared_part(question: Question, reads: Modality, cut: Sequence[str] = ()) -> tuple[str, tuple[Source, ...]]:
    """Question, choices, passages and rows, and the pictures' names, as every agent that reads this kind of evidence
    sees them; and the pictures. Sources with an id in `cut` are left out.

    A source goes by its number in the question's evidence or order, the same for every agent whatever it reads and
    whatever is cut: data sets' ids are long, and agents repeat them with all that they quote.
    """
    numbers = zip(_numbers(question), question.evidence, strict=True)
    numbered = [replace(source, id=str(n)) for n, source in numbers if source.id not in cut]
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
        # Titles only: the pictures themselves stand before this text, each after its number and title.
        for source in pictures:
            mark = f" ({OF_THE_QUESTION})" if source.doc in question.own else ""
            lines.append(f"[{source.id}] {safe_line(source.title)}{mark}")
    return "\n".join(lines), tuple(pictures)


def _numbers(question: Question) -> Sequence[int]:
    """The number of each source of the evidence."""
    if not question.order:
        return range(1, len(question.evidence) + 1)
    place_of = places(question)
    return [place_of[source.id] for source in question.evidence]


def own_part(
    turn: Turn, modality: Modality, role: str, recalled: Sequence[Message], settings: AgentSettings
) -> tuple[str, Prompted]:
    """The discussion with the agent's own turns in it, then its role, the weights, the turn's instruction, what an
    answer is given to go by, and its task; as text, and as values. The form of the reply is not yet in it.

    Messages come in one order for everybody: by round, and in a round those that heard fewest first, since these are
    the same in most samples of a question; then by agent. Reading in proportion to weight (Eqs. 5 and 9) is the
    model's to do, except for `settings.budget_words`, which are shared out among the colleagues' reasoning by weight.
    """
    # A turn that is both remembered and heard appears once, as its own with a weight.
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
            # At weight 0 for everybody no reasoning is read, but the answers still are.
            words = round(budget_words * weights[message.id] / total) if total else 0
        remark, line = _remark(message, weight, message.id in own, words)
        remarks.append(remark)
        discussion.append(line)
        mark = [YOU] if remark.own else []
        marks.append(" ".join([*mark, *([] if weight is None else [f"{weight:.3f}"])]))
    # An agent that works alone may have no role.
    role_line, role_text = _role_shown(role)
    lines = [ROLE, role_line] if role else []
    if discussion:
        # The discussion comes before the role: agents that read the same messages share it as a prefix.
        counts = _alike(remarks) if settings.weights == "brief" else ""
        lines = [DISCUSSION, *discussion, *lines, WEIGHTS, counts or f"{IN_ORDER}: {', '.join(marks)}"]
    if turn.instruction:
        lines += [ORDERS, line_of_its_own(turn.instruction)]
    lines += _given_lines(turn.given)
    if turn.task:
        lines += [TASK, line_of_its_own(turn.task.instruction), *_given_lines(turn.task.given)]
    else:
        lines += [TASK, _to_answer(turn, modality)]
    return "\n".join(lines), Prompted(role_text, tuple(remarks), turn.directive, turn.task, turn.given)


@lru_cache(maxsize=256)
def _role_shown(role: str) -> tuple[str, str]:
    """A role's instruction as its line of the prompt, and as a value."""
    return line_of_its_own(role), safe_line(role)


def _alike(remarks: Sequence[Remark]) -> str:
    """One sentence where all messages that were heard count alike, which also says which are the agent's own; "" where
    they do not. What it remembers without hearing it has no weight."""
    weights = {remark.weight for remark in remarks}
    if len(weights - {None}) != 1:
        return ""
    own = [str(number) for number, remark in enumerate(remarks, 1) if remark.own]
    yours = f"; your own: number {', '.join(own)}" if own else ""
    return f"{OTHERS_ALIKE if None in weights else ALIKE}{yours}."


def in_own_form(turn: Turn, role: Role) -> Turn:
    """The turn as a role with a form of its own takes it; a task keeps the form that it brings."""
    if turn.task or not role.form:
        return turn
    what = ANSWER if role.answers else NO_ANSWER
    return replace(turn, task=Task(_to_answer(turn, role.modality, what), role.form, answers=True))


def _to_answer(turn: Turn, modality: Modality, what: str = ANSWER) -> str:
    """The task of a turn that answers, for what this agent has before it."""
    evidence = turn.question.evidence
    sentences = [f"{what}."]
    # What was found may stand in the messages of others, or in what is given.
    if not evidence and not turn.heard and not turn.given:
        # Orders say themselves what to go by then.
        unfound = f"{NOTHING_FOUND}." if turn.instruction else f"{NOTHING_FOUND}: use what you know."
        sentences.append(unfound if turn.searched else NOTHING_RETRIEVED)
    elif evidence and modality is Modality.VISUAL and all(source.kind is not Kind.IMAGE for source in evidence):
        sentences.append(NO_PICTURES)
    if any(heard.message.agent != turn.agent for heard in turn.heard):
        sentences.append(ON_MERITS)
    return " ".join(sentences)


@lru_cache(maxsize=1024)
def _remark(message: Message, weight: float | None, own: bool, words: int | None) -> tuple[Remark, str]:
    """A message as a value and as a line of the discussion.

    Numbers are rounded as the text states them, so that no model is told more than another. One value for all requests
    of a process that show the message alike: a batch pickles it once.
    """
    content = _shown(message, words)
    remark = Remark(
        speaker=f"{safe_line(message.agent)}, round {message.round}",
        content=content,
        answer=None if message.answer is None or message.fields else safe_line(message.answer),
        confidence=None if message.confidence is None else round(message.confidence, 2),
        weight=None if weight is None else round(weight, 3),
        own=own,
        fields=_shown_fields(message, content),
    )
    return remark, f"[{remark.speaker}] {_with_answer(message, content)}"


def _shown(message: Message, words: int | None) -> str:
    """The message's content on one line, cut after so many words."""
    content = safe_line(message.content)
    return content if words is None else " ".join(content.split()[:words])


def _shown_fields(message: Message, content: str) -> tuple[tuple[str, str], ...]:
    """The fields of a task's reply that the cut of its content, `<name>: <value>; <name>: <value>`, left; none where
    it was rewritten on its way."""
    # `whole` is the content as it was written; `starts` are the places of the values in it.
    whole, starts = "", []
    for name, value in message.fields:
        whole += f"{'; ' if whole else ''}{name}: "
        starts.append(len(whole))
        whole += harmless(value)
    if not whole.startswith(content):
        return ()
    names = [name for (name, _), start in zip(message.fields, starts, strict=True) if start < len(content)]
    # A value ends before the separator and the name of the next one; the last one ends with the content.
    ends = [start - len(f"; {name}: ") for name, start in zip(names[1:], starts[1:], strict=False)]
    return tuple((name, content[start:end]) for name, start, end in zip(names, starts, [*ends, None], strict=False))


def message_text(message: Message) -> str:
    """A message as others read it."""
    return _with_answer(message, _shown(message, None))


def _with_answer(message: Message, content: str) -> str:
    """What is shown of a message's content, and its answer. The content of a task's reply holds all that it says."""
    if message.fields:
        return content
    answer = message.answer if message.answer is not None else "unknown"
    confidence = "" if message.confidence is None else f" (confidence {message.confidence:.2f})"
    return f"{content} Answer: {safe_line(answer)}{confidence}"


def _given_lines(given: Sequence[Given]) -> list[str]:
    return [GIVEN, *(safe_line(line.line) for line in given)] if given else []


def build_request(
    turn: Turn,
    modality: Modality,
    role: str,
    recalled: Sequence[Message] = (),
    settings: AgentSettings | None = None,
    cut: Sequence[str] = (),
    abilities: Abilities = ABILITIES,
    *,
    reads: Modality | None = None,
) -> Request:
    """The request for one turn, without the sources with an id in `cut`, for a model of these abilities.

    Two turns that read the same of one question have the same `prefix`, whatever was cut: the replica that knows the
    pictures and the first passages is the one to ask all the same. The id tells how many were cut, since a model must
    not take the request for the one that it has seen.

    Args:
        modality: what the role is about.
        reads: the kind of evidence that is shown (None: that of the modality).
    """
    settings = settings or AgentSettings()
    reads = reads or modality
    shared, images, prefix, found = _prefix(turn.question, reads)
    if cut:
        shared, images = shared_part(turn.question, reads, cut)
    if not abilities.pictures:
        # Without its file a picture is described in words.
        images = tuple(replace(image, image=None) for image in images)
    own, parts = own_part(turn, modality, role, recalled, settings)
    form, enforced = form_of(turn), is_enforced(settings.replies, abilities)
    texts = OWN in shared or EVIDENCE in shared
    return Request(
        id=f"{turn.id}/cut-{len(cut)}" if cut else turn.id,
        prefix=prefix,
        system=instruction(texts, bool(images), found),
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
    """True where replies are kept to their form by the model's decoder, as JSON."""
    return replies != "text" and abilities.schema


def correction(form: Form, faults: Sequence[FieldFault], enforced: bool = False) -> str:
    """What is wrong with a reply, and the request for that alone.

    Args:
        form: of the reply that could not be read in full.
    """
    asked = still_asked(form, faults)
    # In a sentence: small models copy a line such as `Answer: it is missing` as their answer.
    wrong = "; ".join(f"the {fault.field.name} ({fault.reason})" for fault in faults)
    return f"This could not be read of your reply: {wrong}.\n{as_json(asked) if enforced else in_lines(asked)}"


def repair_request(request: Request, reply: str, form: Form, faults: Sequence[FieldFault]) -> Request:
    """The same request with the reply to it, as it was, and a correction that asks for what could not be read.

    Nothing before the correction differs, so that the prefix cache serves all of it; its seed is its own.
    """
    said = harmless(clean(reply)).strip()
    asked = still_asked(form, faults)
    return replace(
        request,
        id=f"{request.id}/repair",
        # The dots tell the model that this is not the whole reply.
        rejected=said if len(said) <= REPAIRED_CHARACTERS else f"... {said[-REPAIRED_CHARACTERS:]}",
        correction=correction(form, faults, bool(request.schema)),
        schema=schema(asked, request.max_tokens) if request.schema else "",
        seed=derive_seed(request.seed, "repair"),
    )


@lru_cache(maxsize=512)
def _prefix(question: Question, reads: Modality) -> tuple[str, tuple[Source, ...], str, bool]:
    """The shared part, its pictures, their digest, and whether any of it was found for the question: worked out once
    for all samples and rounds."""
    shared, images = shared_part(question, reads)
    digest = hashlib.blake2b(shared.encode(), digest_size=8)
    for picture in images:
        # Paths need not be valid Unicode, unlike the text, which was cleaned.
        digest.update(f"{picture.id}\x1f{picture.image}".encode(errors="surrogatepass"))
    found = any(source.doc not in question.own for source in evidence_for(question, reads))
    return shared, images, digest.hexdigest(), found
