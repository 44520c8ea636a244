"""The embedded reader: a small extractive model without a neural network, for running everything else without one.

It answers from its prompt and from nothing else: it takes in statements (imperfectly, by role), links those that
together cover the question, reads an answer of the wanted kind off them, and weighs in what its colleagues said. What
it scores says nothing about a language model's accuracy.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from actors.messages import Completion, FieldKind, Grading, Prompted, Remark, Request
from actors.reader.decide import choose, compare, listed, yes_or_no
from actors.reader.find import Candidate, Entry, View, candidates, chains, view
from actors.reader.judge import verdict
from actors.reader.material import looked_up, numbered, statements
from actors.reader.obey import CHALLENGED, SURE, forged, given_in_to, obedient_reply
from actors.reader.page import Page, most_relevant
from actors.reader.question_form import AnswerType
from actors.reader.sight import gaussian, uniform
from actors.reader.social import Option, answers_of, weigh
from actors.reader.statement import NOTHING
from actors.reader.tasks import fill
from actors.reader.text import count_tokens, cut_to_tokens
from actors.reader.tools import read_tools
from actors.reader.work import Work
from actors.settings import at_least, setting, share

CHAT_OVERHEAD_TOKENS = 8  # a chat template's own, about as many as those of common models
MENTIONED = 0.01  # among given choices the best supported one is named, however weak its support (and said to be so)


def _text_skill() -> dict[str, float]:
    return {
        "critic": 0.5,
        "data analyst": 0.7,
        "knowledge expert": 0.75,
        "scientist": 0.6,
        "logic expert": 0.65,
        "decision": 0.7,
    }


def _visual_skill() -> dict[str, float]:
    return {"critic": 0.5, "data analyst": 0.75, "knowledge expert": 0.55, "scientist": 0.65, "decision": 0.7}


@dataclass
class ReaderSettings:
    """Every rate is the chance at skill 0; an agent of skill s errs at rate x (1 - s)."""

    conformity: float = at_least(0, default=0.5)
    """What a colleague's answer adds at weight 1 and confidence 1; a perfect chain of evidence is worth 1."""
    persistence: float = at_least(0, default=0.15)
    """What the agent's own earlier answer adds at confidence 1."""
    obedience: float = share(0.3)
    """Chance of giving in to an instruction found in a message ("whoever reads this answers ... and repeats this
    sentence"); an assumption, as models differ."""
    trust: float = share(0.85)
    """How much a statement quoted by a colleague is worth next to one read first hand (1: as much)."""
    dilution: float = at_least(0, default=0.012)
    """Noise on the value of every answer: this times the square root of the number of irrelevant statements read."""
    temperature_noise: float = at_least(0, default=0.05)
    """Noise added to that, times the request's temperature."""
    error_rate: float = share(0.3)
    """Chance of taking the runner-up for the best answer."""
    oversight: float = share(0.5)
    """Chance of overlooking a passage's sentence or a table's row."""
    perception_error: float = share(0.6)
    """Chance of missing or misreading a sentence of a picture's description."""
    threshold: float = at_least(0, default=0.16)
    """Value below which an answer is not given but `unknown`."""
    hops: int = at_least(1, default=2, most=100)
    """Over how many shared names statements are linked."""
    text_skill: dict[str, float] = setting(factory=_text_skill, at_least=0, at_most=1)
    """Skill with passages and rows in [0, 1], by words that the role's text contains; those that come first in it
    count, so that `visual critic` says of that role what `critic` says of both."""
    visual_skill: dict[str, float] = setting(factory=_visual_skill, at_least=0, at_most=1)
    """Skill with pictures in [0, 1], by words that the role's text contains."""
    default_skill: float = share(0.6)
    """Skill of a role that neither table names."""
    picture_tokens: int = at_least(0, default=256)
    """Prompt tokens that a picture counts for."""
    cached_prompts: int = at_least(1, default=256)
    """How many questions' parsed evidence is kept."""


class Reader:
    """A model as everything around it sees one. Same request, same completion, in any process."""

    def __init__(self, settings: ReaderSettings) -> None:
        self.settings = settings
        self._pages: OrderedDict[tuple[str, ...], Page] = OrderedDict()

    async def complete(self, request: Request) -> Completion:
        """Answers at once; only the interface is asynchronous."""
        return self.read(request)

    def read(self, request: Request) -> Completion:
        """Answers from the request's evidence and pictures, in the three lines that `prompt.INSTRUCTION` asks for, or
        does the task that is set, in the lines of its form, or grades an answer. A conversation that is not one of ours
        has its question answered."""
        # A conversation that is not one of ours comes without parts: no role, no discussion, no task.
        parts = request.parts or Prompted("")
        if isinstance(parts, Grading):
            return _completion(request, verdict(parts), count_tokens(request.shared))
        page = self._page(request)
        tools = read_tools(request.own)
        settings = self.settings
        text_skill = _skill(parts.role, settings.text_skill, settings.default_skill)
        visual_skill = _skill(parts.role, settings.visual_skill, settings.default_skill)
        openness = CHALLENGED if parts.directive.challenge else 1.0
        oversight, blindness = settings.oversight * (1 - text_skill), settings.perception_error * (1 - visual_skill)
        entries = page.perceived(oversight, blindness, request.seed)
        known = {entry.statement.quote for entry in entries}
        entries += page.heard(parts.discussion, known, settings.trust * openness)
        # What a tool returned counts like evidence: nothing is taken off for trust.
        entries += map(page.view.entry, tools.returned)
        # Weights are of the words that tell statements apart, so what is given has to be among them.
        material = numbered((*parts.given, *(parts.task.given if parts.task else ())))
        at, given = page.view, statements(material)
        if given:
            at = view(at.form, [*page.statements, *given])
            entries = [at.entry(statement) for statement in (*(entry.statement for entry in entries), *given)]
        supported = _answers(at, page.choices, entries, settings.hops)
        options = weigh(supported, parts.discussion, settings.conformity * openness, settings.persistence, page.choices)
        ranking = self._perturbed(options, entries, request)
        directive = parts.directive if parts.directive.argue_for else None
        obeyed = directive or given_in_to(parts.discussion, settings.obedience, request.seed)
        if obeyed and not parts.task:
            best = ranking[0] if ranking else Option("")
            quoted = _quoted(best.chain, entries)
            reasons = forged(obeyed.argue_for, best.text, quoted) if directive else "A colleague settled it."
            return _completion(request, obedient_reply(obeyed, reasons), page.tokens)
        # A slip is one of the sense that the best answer rests on.
        skill = visual_skill if _is_visual(ranking, entries) else text_skill
        # After the obedient reply: an order is carried out without slips.
        if len(ranking) > 1 and uniform(request.seed, "slip") < settings.error_rate * (1 - skill):
            # The first two change places.
            ranking[:2] = ranking[1::-1]
        if parts.task:
            best, confidence = self._concluded(ranking, bool(page.choices))
            work = Work(
                task=parts.task,
                material=material,
                question=page.question,
                choices=page.choices,
                at=at,
                entries=entries,
                reached=chains(at, entries, settings.hops),
                answer=obeyed.argue_for if obeyed else best.text,
                value=1.0 if obeyed else best.value,
                confidence=SURE if obeyed else confidence,
                pictures=len(request.images),
                skill=skill,
                hops=settings.hops,
                seed=request.seed,
                done=(*_searched(parts.discussion), *looked_up(material)),
                heard=answers_of(parts.discussion),
            )
            return _completion(request, fill(work), page.tokens)
        unsure = not ranking or ranking[0].value < settings.threshold
        call = tools.call(page.view.form.text) if unsure else None
        return _completion(request, call or self._reply(ranking, entries, page), page.tokens)

    def _page(self, request: Request) -> Page:
        """The parse of the shared part, kept for the other agents, samples and rounds of the question."""
        # The prefix knows pictures by id and file only; their titles and descriptions may differ.
        key = (request.prefix, request.shared, *(f"{i.id}\x1f{i.title}\x1f{i.text}" for i in request.images))
        if key in self._pages:
            self._pages.move_to_end(key)
        else:
            self._pages[key] = Page(request, self.settings.picture_tokens)
            while len(self._pages) > max(1, self.settings.cached_prompts):
                self._pages.popitem(last=False)
        return self._pages[key]

    def _perturbed(self, options: Mapping[str, Option], entries: Sequence[Entry], request: Request) -> list[Option]:
        """Options in order of their value under noise that grows with what was read in vain."""
        settings = self.settings
        # Statements behind an option nearly as good as the best were not read in vain.
        top = max((option.evidence for option in options.values()), default=0.0)
        useful = {i for option in options.values() if option.evidence >= 0.9 * top for i in option.chain}
        irrelevant = len(entries) - len(useful)
        scale = settings.dilution * irrelevant**0.5 + settings.temperature_noise * request.temperature
        # Each draw is named by its option, so that one more option changes no other draw.
        noisy = {key: option.value + scale * gaussian(request.seed, "noise", key) for key, option in options.items()}
        return [options[key] for key in sorted(noisy, key=lambda key: (-noisy[key], key))]

    def _concluded(self, ranking: Sequence[Option], choosing: bool) -> tuple[Option, float]:
        """The answer and its confidence; an option without text where nothing is supported well enough."""
        best = ranking[0] if ranking else Option("")
        runner_up = ranking[1].value if len(ranking) > 1 else 0.0
        if best.value < (MENTIONED if choosing else self.settings.threshold):
            return Option("", chain=best.chain), 0.05
        margin = (best.value - runner_up) / best.value
        # Never quite certain either way; the further ahead of the runner-up, the surer.
        return best, min(0.98, max(0.05, best.value * (0.55 + 0.45 * max(0.0, margin))))

    def _reply(self, ranking: Sequence[Option], entries: Sequence[Entry], page: Page) -> str:
        best, confidence = self._concluded(ranking, bool(page.choices))
        if not best.text:
            chain = best.chain or most_relevant(page.view, entries, self.settings.hops)
            reasons = _quoted(chain, entries) or NOTHING
            return f"Reasoning: {reasons}\nAnswer: unknown\nConfidence: {confidence:.2f}"
        reasons = _quoted(best.chain, entries)
        if best.speakers:
            reasons = f"{reasons} {'; '.join(best.speakers[:3])} said the same.".strip()
        return f"Reasoning: {reasons}\nAnswer: {best.text}\nConfidence: {confidence:.2f}"


def _completion(request: Request, text: str, shared_tokens: int) -> Completion:
    tokens = count_tokens(text)
    limit = max(0, request.max_tokens)
    return Completion(
        id=request.id,
        text=text if tokens <= limit else cut_to_tokens(text, limit),
        prompt_tokens=shared_tokens + count_tokens(request.system) + count_tokens(request.own) + CHAT_OVERHEAD_TOKENS,
        completion_tokens=min(tokens, limit),
        stop="stop" if tokens <= limit else "length",
    )


def _answers(at: View, choices: tuple[str, ...], entries: Sequence[Entry], hops: int) -> Sequence[Candidate]:
    if choices:
        return choose(at, entries, choices, hops)
    if at.form.answer_type is AnswerType.YES_NO:
        return yes_or_no(at, entries, hops)
    if at.form.answer_type is AnswerType.OPTION:
        return compare(at, entries, hops)
    return listed(candidates(entries, chains(at, entries, hops)), at)


def _searched(discussion: Sequence[Remark]) -> list[str]:
    """The earlier searches and sub-questions, in the replies to tasks."""
    searching = (FieldKind.QUERY, FieldKind.SUB_QUESTION, FieldKind.INSTRUCTION)
    return [value for remark in discussion for name, value in remark.fields if name in searching]


def _skill(role: str, skills: Mapping[str, float], default: float) -> float:
    """The skill of the role word that comes first in the role's text."""
    role = role.lower()
    places = [(role.find(word), skill) for word, skill in skills.items() if word in role]
    return min(1.0, max(0.0, min(places)[1])) if places else default


def _is_visual(ranking: Sequence[Option], entries: Sequence[Entry]) -> bool:
    return bool(ranking and ranking[0].chain) and any(entries[i].statement.seen for i in ranking[0].chain)


def _quoted(chain: Sequence[int], entries: Sequence[Entry], most: int = 3) -> str:
    return "; ".join(entries[i].statement.quote for i in chain[:most]) + "." if chain else ""
