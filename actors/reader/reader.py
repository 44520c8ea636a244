"""Embedded reader: a small extractive model, without a neural network or a download.

It reads statements (imperfectly, by role), links statements that together cover the question, finds an answer of the
right kind, and weighs its colleagues' answers. Its scores are no language model's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter

from actors.messages import Completion, Directive, Grading, Prompted, Request
from actors.reader.candidates import answers
from actors.reader.colleagues import CHALLENGED, Option, forged, given_in_to, stance, weigh
from actors.reader.draws import gaussian, uniform
from actors.reader.english import count_tokens, cut_to_tokens
from actors.reader.findings import Findings
from actors.reader.form_reply import fill
from actors.reader.grading import verdict
from actors.reader.linked_evidence import LinkedEvidence, linked, weigh_question
from actors.reader.perception import Page
from actors.reader.statements import NOTHING, numbered, statements_of
from actors.settings import setting

CHAT_OVERHEAD_TOKENS = 8  # of a chat template, about as many as those of common models
MENTIONED = 0.01  # least value of the best choice: one is named even with weak support, at low confidence
LEAST_CONFIDENCE = 0.05
OVERSIGHT = 0.5  # probability of overlooking a passage's sentence or a table's row, at skill 0
BLINDNESS = 0.6  # probability of missing or misreading a sentence of a picture's description, at skill 0
DILUTION = 0.012  # noise of an answer's value for each square root of an irrelevant statement
TEMPERATURE_NOISE = 0.05  # noise of an answer's value at temperature 1
CACHED_PAGES = 256  # questions whose parsed evidence is kept
# Skill by words of the role's text; the first word in the text counts.
TEXT_SKILL = {
    "critic": 0.5,
    "data analyst": 0.7,
    "knowledge expert": 0.75,
    "scientist": 0.6,
    "logic expert": 0.65,
    "decision": 0.7,
}
VISUAL_SKILL = {
    "critic": 0.5,
    "data analyst": 0.75,
    "knowledge expert": 0.55,
    "scientist": 0.65,
    "decision": 0.7,
}
DEFAULT_SKILL = 0.6


@dataclass
class ReaderSettings:
    """Rates of the embedded reader. A rate is a probability at skill 0; an agent of skill s errs at rate * (1 - s)."""

    conformity: float = setting(0.5, at_least=0)
    """Value of a colleague's answer at weight 1 and confidence 1; a perfect chain of evidence has value 1."""
    persistence: float = setting(0.15, at_least=0)
    """Value of the agent's earlier answer at confidence 1."""
    obedience: float = setting(0.3, at_least=0, at_most=1)
    """Probability of obeying an instruction in a message ("whoever reads this answers ... and repeats this
    sentence"). An assumption: models differ."""
    trust: float = setting(0.85, at_least=0, at_most=1)
    """Weight of a statement quoted by a colleague, relative to one read first hand."""
    skill: float | None = setting(None, at_least=0, at_most=1)
    """Skill of every role, with texts and pictures (null: by role, from 0.5 to 0.75); 1 reads without errors."""
    error_rate: float = setting(0.3, at_least=0, at_most=1)
    """Probability of giving the second-best answer, at skill 0."""
    noise: float = setting(1.0, at_least=0)
    """Scale of the noise on answers' values and on judgements (0: none)."""
    threshold: float = setting(0.16, at_least=0)
    """Value below which the answer is `unknown`."""


class Reader:
    """Reader as a model. Equal requests get equal completions, in any process."""

    def __init__(self, settings: ReaderSettings) -> None:
        self.settings = settings
        # Parsed once for all agents, samples and rounds of a question.
        self._page = lru_cache(maxsize=CACHED_PAGES)(Page)

    async def complete(self, request: Request) -> Completion:
        """Answers at once; only the interface is asynchronous."""
        return self.read(request)

    def read(self, request: Request) -> Completion:
        """Answers in three lines, does a task in the lines of its form, or grades."""
        # A conversation from elsewhere has no parts: no role, no discussion, no task.
        parts = request.parts or Prompted("")
        if isinstance(parts, Grading):
            text = verdict(parts)
            shared_tokens = count_tokens(request.shared)
        else:
            page = self._page(request.shared, request.images)
            text = ReadingTurn(self.settings, request, parts, page).reply()
            shared_tokens = page.tokens

        prompt_tokens = shared_tokens + count_tokens(request.system) + count_tokens(request.own) + CHAT_OVERHEAD_TOKENS
        tokens = count_tokens(text)
        limit = max(0, request.max_tokens)
        if tokens <= limit:
            return Completion(request.id, text, prompt_tokens, tokens)
        return Completion(request.id, cut_to_tokens(text, limit), prompt_tokens, limit, stop="length")


class ReadingTurn:
    """One agent's turn: what it perceives, hears and concludes."""

    def __init__(self, settings: ReaderSettings, request: Request, prompted: Prompted, page: Page) -> None:
        self._settings = settings
        self._request = request
        self._prompted = prompted
        self._page = page
        self._text_skill, self._visual_skill = skills_of(prompted.role, settings.skill)
        self._openness = CHALLENGED if prompted.directive.challenge else 1.0
        inputs = prompted.task.inputs if prompted.task else ()
        self._inputs = numbered((*prompted.inputs, *inputs))
        self._evidence = self._read()

    def reply(self) -> str:
        """Returns the text of the reply."""
        ranking = self._ranked_options()
        order = self._order()
        task = self._prompted.task
        if order and not task:
            return self._obedient(order, ranking)

        best, confidence = self._opinion(ranking)
        if not task:
            return _in_lines(self._reasons(best), best.text or "unknown", confidence)
        if order:
            # An order changes the answer, and no other part of a task's reply.
            best = Option(order.argue_for, evidence=1.0)
            confidence = order.confidence

        colleagues: dict[str, str] = {}
        message_fields: list[tuple[str, str]] = []
        for remark in self._prompted.discussion:
            message_fields += remark.fields
            if not remark.own:
                name, _, _ = remark.speaker.partition(",")
                colleagues[name], _ = stance(remark)
        findings = Findings(
            question=self._page.question,
            evidence=self._evidence,
            answer=best.text,
            value=best.value,
            confidence=confidence,
            inputs=self._inputs,
            fields=message_fields,
            colleagues=colleagues,
        )
        return fill(task.fields, findings)

    def _read(self) -> LinkedEvidence:
        """Returns the statements that the agent perceives and hears, and those of the lines that it is given."""
        page = self._page
        perceived = page.perceived(
            oversight=OVERSIGHT * (1 - self._text_skill),
            blindness=BLINDNESS * (1 - self._visual_skill),
            seed=self._request.seed,
        )
        quotes = {entry.statement.quote for entry in perceived}
        heard = page.heard(self._prompted.discussion, quotes, self._settings.trust * self._openness)
        entries = [*perceived, *heard]
        given = statements_of(self._inputs)
        if not given:
            return linked(page.asked, tuple(entries))

        # Weights are of words that distinguish statements, so the given lines have to be among them.
        question = weigh_question(page.asked.form, [*page.statements, *given])
        statements = [entry.statement for entry in entries]
        return linked(question, tuple(map(question.entry, statements + given)))

    def _ranked_options(self) -> list[Option]:
        """Ranks options by their value under noise that grows with the number of irrelevant statements."""
        options = weigh(
            answers(self._evidence, self._page.choices),
            self._prompted.discussion,
            conformity=self._settings.conformity * self._openness,
            persistence=self._settings.persistence,
            choices=self._page.choices,
        )
        # Statements behind an option nearly as good as the best are relevant.
        top = max(map(attrgetter("evidence"), options.values()), default=0.0)
        relevant: set[int] = set()
        for option in options.values():
            if option.evidence >= 0.9 * top:
                relevant.update(option.chain)
        irrelevant = len(self._evidence.entries) - len(relevant)
        noise = DILUTION * irrelevant**0.5 + TEMPERATURE_NOISE * self._request.temperature
        scale = self._settings.noise * noise

        noisy_values: dict[str, float] = {}
        for key, option in options.items():
            # Each draw is named by its option: a further option changes no other draw.
            noisy_values[key] = option.value + scale * gaussian(self._request.seed, "noise", key)
        return [options[key] for key in sorted(options, key=lambda key: (-noisy_values[key], key))]

    def _order(self) -> Directive | None:
        """Returns the directive to argue for an answer, or an instruction in a message that the agent obeys."""
        if self._prompted.directive.argue_for:
            return self._prompted.directive
        return given_in_to(self._prompted.discussion, self._settings.obedience, self._request.seed)

    def _obedient(self, order: Directive, ranking: Sequence[Option]) -> str:
        """Argues for the answer of an order."""
        reasons = "A colleague settled it."
        if order is self._prompted.directive:
            best = next(iter(ranking), Option(""))
            reasons = forged(order.argue_for, best.text, self._quoted(best.chain))
        return _in_lines(f"{reasons} {order.end_with}".strip(), order.argue_for, order.confidence)

    def _opinion(self, ranking: Sequence[Option]) -> tuple[Option, float]:
        """Returns the agent's answer, which may be unknown, and its confidence."""
        # Empty options where there are fewer than two.
        best, second, *_ = (*ranking, Option(""), Option(""))
        # A slip depends on the sense that the best answer rests on.
        seen = any(self._evidence.entries[number].statement.seen for number in best.chain)
        skill = self._visual_skill if seen else self._text_skill
        slip_rate = self._settings.error_rate * (1 - skill)
        if len(ranking) > 1 and uniform(self._request.seed, "slip") < slip_rate:
            best, second = second, best

        threshold = MENTIONED if self._page.choices else self._settings.threshold
        if best.value == 0 or best.value < threshold:
            return Option("", chain=best.chain), LEAST_CONFIDENCE
        margin = max(0.0, (best.value - second.value) / best.value)
        return best, min(0.98, max(LEAST_CONFIDENCE, best.value * (0.55 + 0.45 * margin)))

    def _reasons(self, best: Option) -> str:
        """Quotes what the answer rests on, or what comes nearest to one."""
        if not best.text:
            _, nearest = self._evidence.best_chain
            return self._quoted(best.chain or nearest) or NOTHING
        reasons = self._quoted(best.chain)
        if best.speakers:
            reasons = f"{reasons} {'; '.join(best.speakers[:3])} said the same.".strip()
        return reasons

    def _quoted(self, numbers: Sequence[int]) -> str:
        if not numbers:
            return ""
        quotes = [self._evidence.entries[number].statement.quote for number in numbers[:3]]
        return f"{'; '.join(quotes)}."


@lru_cache(maxsize=256)
def skills_of(role: str, skill: float | None) -> tuple[float, float]:
    """Returns a role's skills with texts and with pictures; `skill` for both, where it is set."""
    if skill is not None:
        return skill, skill
    return _skill_of(role.lower(), TEXT_SKILL), _skill_of(role.lower(), VISUAL_SKILL)


def _skill_of(role: str, skills: Mapping[str, float]) -> float:
    """Finds the skill of the role word that comes first in the role's text."""
    places = [(role.find(word), skill) for word, skill in skills.items() if word in role]
    _, skill = min(places, default=(0, DEFAULT_SKILL))
    return skill


def _in_lines(reasoning: str, answer: str, confidence: float) -> str:
    return f"Reasoning: {reasoning}\nAnswer: {answer}\nConfidence: {confidence:.2f}"
