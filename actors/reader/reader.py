"""Embedded reader: a small extractive model, without a neural network or a download.

It reads statements (imperfectly, by role), links those that together cover the question, finds an answer of the right
kind, and weighs its colleagues' answers. Its scores are no language model's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from actors.messages import Completion, Grading, InputLine, Prompted, Remark, Request
from actors.reader.candidates import answers
from actors.reader.colleagues import CHALLENGED, Option, forged, given_in_to, stance, weigh
from actors.reader.draws import gaussian, uniform
from actors.reader.english import count_tokens, cut_to_tokens
from actors.reader.findings import Findings
from actors.reader.form_reply import fill
from actors.reader.grading import verdict
from actors.reader.linked_evidence import LinkedEvidence, weigh_question
from actors.reader.perception import Page
from actors.reader.statements import NOTHING, numbered, statements_of
from actors.settings import setting

CHAT_OVERHEAD_TOKENS = 8  # of a chat template, about as many as those of common models
MENTIONED = 0.01  # least value of the best choice: one is named even with weak support, at low confidence
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
VISUAL_SKILL = {"critic": 0.5, "data analyst": 0.75, "knowledge expert": 0.55, "scientist": 0.65, "decision": 0.7}
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


@dataclass(frozen=True, slots=True)
class Skills:
    """Skills of an agent, from 0 to 1: with texts and with pictures."""

    text: float
    visual: float


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
            text = self._reply(request, parts, page)
            shared_tokens = page.tokens

        prompt_tokens = shared_tokens + count_tokens(request.system) + count_tokens(request.own) + CHAT_OVERHEAD_TOKENS
        tokens = count_tokens(text)
        limit = max(0, request.max_tokens)
        if tokens <= limit:
            return Completion(request.id, text, prompt_tokens, tokens)
        return Completion(request.id, cut_to_tokens(text, limit), prompt_tokens, limit, stop="length")

    def _reply(self, request: Request, prompted: Prompted, page: Page) -> str:
        settings = self.settings
        task = prompted.task
        lines = numbered((*prompted.inputs, *(task.inputs if task else ())))
        skills = _skills(prompted.role, settings.skill)
        openness = CHALLENGED if prompted.directive.challenge else 1.0
        evidence = self._evidence(request, prompted.discussion, page, skills, lines, settings.trust * openness)
        options = weigh(
            answers(evidence, page.choices),
            prompted.discussion,
            conformity=settings.conformity * openness,
            persistence=settings.persistence,
            choices=page.choices,
        )
        # Empty options where there are fewer than two.
        best, second, *_ = (*self._ranked(options, len(evidence.entries), request), Option(""), Option(""))

        directive = prompted.directive if prompted.directive.argue_for else None
        obeyed = directive or given_in_to(prompted.discussion, settings.obedience, request.seed)
        if obeyed and not task:
            reasons = "A colleague settled it."
            if directive:
                reasons = forged(obeyed.argue_for, best.text, _quoted(best.chain, evidence))
            return _in_lines(f"{reasons} {obeyed.end_with}".strip(), obeyed.argue_for, obeyed.confidence)

        # A slip depends on the sense that the best answer rests on. Directives are obeyed without slips.
        seen = any(evidence.entries[number].statement.seen for number in best.chain)
        skill = skills.visual if seen else skills.text
        if len(options) > 1 and uniform(request.seed, "slip") < settings.error_rate * (1 - skill):
            best, second = second, best
        confidence = 0.05
        if best.value > 0 and best.value >= (MENTIONED if page.choices else settings.threshold):
            margin = max(0.0, (best.value - second.value) / best.value)
            confidence = min(0.98, max(0.05, best.value * (0.55 + 0.45 * margin)))
        else:
            # The support is too low.
            best = Option("", chain=best.chain)

        if not task:
            return _in_lines(_reasons(best, evidence), best.text or "unknown", confidence)
        findings = Findings(
            question=page.question,
            evidence=evidence,
            answer=obeyed.argue_for if obeyed else best.text,
            value=1.0 if obeyed else best.value,
            confidence=obeyed.confidence if obeyed else confidence,
            inputs=lines,
            fields=[field for remark in prompted.discussion for field in remark.fields],
            colleagues={
                remark.speaker.partition(",")[0]: stance(remark)[0] for remark in prompted.discussion if not remark.own
            },
        )
        return fill(task.fields, findings)

    def _evidence(
        self,
        request: Request,
        discussion: Sequence[Remark],
        page: Page,
        skills: Skills,
        lines: Sequence[InputLine],
        trust: float,
    ) -> LinkedEvidence:
        """Returns the statements that the agent perceives and hears, and those of the lines that it is given."""
        entries = page.perceived(OVERSIGHT * (1 - skills.text), BLINDNESS * (1 - skills.visual), request.seed)
        quotes = {entry.statement.quote for entry in entries}
        entries += page.heard(discussion, quotes, trust)
        given = statements_of(lines)
        if not given:
            return LinkedEvidence(page.asked, entries)

        # Weights are of words that distinguish statements, so the given lines have to be among them.
        asked = weigh_question(page.asked.form, [*page.statements, *given])
        statements = [*(entry.statement for entry in entries), *given]
        return LinkedEvidence(asked, [asked.entry(statement) for statement in statements])

    def _ranked(self, options: Mapping[str, Option], entries: int, request: Request) -> list[Option]:
        """Ranks options by their value under noise that grows with the number of irrelevant entries."""
        # Statements behind an option nearly as good as the best are relevant.
        top = max((option.evidence for option in options.values()), default=0.0)
        relevant = {number for option in options.values() if option.evidence >= 0.9 * top for number in option.chain}
        irrelevant = entries - len(relevant)
        scale = self.settings.noise * (DILUTION * irrelevant**0.5 + TEMPERATURE_NOISE * request.temperature)
        # Each draw is named by its option: a further option changes no other draw.
        noisy = {key: option.value + scale * gaussian(request.seed, "noise", key) for key, option in options.items()}
        return [options[key] for key in sorted(noisy, key=lambda key: (-noisy[key], key))]


@lru_cache(maxsize=256)
def _skills(role: str, skill: float | None) -> Skills:
    """Returns the skills of a role, or `skill` for both senses."""
    if skill is not None:
        return Skills(skill, skill)
    return Skills(_skill_of(role, TEXT_SKILL), _skill_of(role, VISUAL_SKILL))


def _skill_of(role: str, skills: Mapping[str, float]) -> float:
    """Finds the skill of the role word that comes first in the role's text."""
    role = role.lower()
    places = [(role.find(word), skill) for word, skill in skills.items() if word in role]
    return min(places)[1] if places else DEFAULT_SKILL


def _reasons(best: Option, evidence: LinkedEvidence) -> str:
    """Quotes what the answer rests on, or what comes nearest to one."""
    if not best.text:
        return _quoted(best.chain or evidence.best_chain[1], evidence) or NOTHING
    reasons = _quoted(best.chain, evidence)
    if best.speakers:
        reasons = f"{reasons} {'; '.join(best.speakers[:3])} said the same.".strip()
    return reasons


def _quoted(chain: Sequence[int], evidence: LinkedEvidence) -> str:
    quotes = [evidence.entries[number].statement.quote for number in chain[:3]]
    return f"{'; '.join(quotes)}." if quotes else ""


def _in_lines(reasoning: str, answer: str, confidence: float) -> str:
    return f"Reasoning: {reasoning}\nAnswer: {answer}\nConfidence: {confidence:.2f}"
