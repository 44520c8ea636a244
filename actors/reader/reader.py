"""Embedded reader: a small extractive model, without a neural network or a download.

It reads statements (imperfectly, by role), links those that together cover the question, finds an answer of the right
kind, and weighs its colleagues' answers. Its scores are no language model's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from actors.messages import Completion, Grading, Prompted, Request
from actors.reader.candidates import answers
from actors.reader.colleagues import CHALLENGED, Option, forged, given_in_to, stance, weigh
from actors.reader.english import count_tokens, cut_to_tokens
from actors.reader.findings import Findings
from actors.reader.form_reply import fill
from actors.reader.grading import verdict
from actors.reader.linked_evidence import Entry, LinkedEvidence, weigh_question
from actors.reader.perception import Page, gaussian, uniform
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
            text, shared_tokens = verdict(parts), count_tokens(request.shared)
        else:
            page = self._page(request.shared, request.images)
            text, shared_tokens = self._reply(request, parts, page), page.tokens
        tokens, limit = count_tokens(text), max(0, request.max_tokens)
        prompt_tokens = shared_tokens + count_tokens(request.system) + count_tokens(request.own) + CHAT_OVERHEAD_TOKENS
        if tokens <= limit:
            return Completion(request.id, text, prompt_tokens, tokens)
        return Completion(request.id, cut_to_tokens(text, limit), prompt_tokens, limit, stop="length")

    def _reply(self, request: Request, parts: Prompted, page: Page) -> str:
        settings = self.settings
        text_skill = _skill(parts.role, TEXT_SKILL) if settings.skill is None else settings.skill
        visual_skill = _skill(parts.role, VISUAL_SKILL) if settings.skill is None else settings.skill
        openness = CHALLENGED if parts.directive.challenge else 1.0
        entries = page.perceived(OVERSIGHT * (1 - text_skill), BLINDNESS * (1 - visual_skill), request.seed)
        known = {entry.statement.quote for entry in entries}
        entries += page.heard(parts.discussion, known, settings.trust * openness)
        # Weights are of words that distinguish statements, so the given lines have to be among them.
        lines = numbered((*parts.inputs, *(parts.task.inputs if parts.task else ())))
        evidence = LinkedEvidence(page.asked, entries)
        if given := statements_of(lines):
            asked = weigh_question(page.asked.form, [*page.statements, *given])
            entries = [asked.entry(statement) for statement in (*evidence.statements, *given)]
            evidence = LinkedEvidence(asked, entries)
        supported = answers(evidence, page.choices)
        options = weigh(supported, parts.discussion, settings.conformity * openness, settings.persistence, page.choices)
        # An empty option where there are fewer than two.
        best, second = (*self._perturbed(options, entries, request), Option(""), Option(""))[:2]
        directive = parts.directive if parts.directive.argue_for else None
        obeyed = directive or given_in_to(parts.discussion, settings.obedience, request.seed)
        if obeyed and not parts.task:
            quoted = _quoted(best.chain, entries)
            reasons = forged(obeyed.argue_for, best.text, quoted) if directive else "A colleague settled it."
            return _lines(f"{reasons} {obeyed.end_with}".strip(), obeyed.argue_for, obeyed.confidence)
        # A slip depends on the sense that the best answer rests on.
        skill = visual_skill if any(entries[i].statement.seen for i in best.chain) else text_skill
        # After the obedient reply: directives are obeyed without slips.
        if len(options) > 1 and uniform(request.seed, "slip") < settings.error_rate * (1 - skill):
            best, second = second, best
        if best.value == 0 or best.value < (MENTIONED if page.choices else settings.threshold):
            best, confidence = Option("", chain=best.chain), 0.05  # the support is too low
        else:
            margin = max(0.0, (best.value - second.value) / best.value)
            confidence = min(0.98, max(0.05, best.value * (0.55 + 0.45 * margin)))
        if parts.task:
            findings = Findings(
                question=page.question,
                evidence=evidence,
                answer=obeyed.argue_for if obeyed else best.text,
                value=1.0 if obeyed else best.value,
                confidence=obeyed.confidence if obeyed else confidence,
                given=lines,
                stated=[field for remark in parts.discussion for field in remark.fields],
                answers={r.speaker.partition(",")[0]: stance(r)[0] for r in parts.discussion if not r.own},
            )
            return fill(parts.task.fields, findings)
        chain = best.chain if best.text else best.chain or LinkedEvidence(page.asked, entries).best_chain[1]
        reasons = _quoted(chain, entries)
        if best.text and best.speakers:
            reasons = f"{reasons} {'; '.join(best.speakers[:3])} said the same.".strip()
        return _lines(reasons if best.text else reasons or NOTHING, best.text or "unknown", confidence)

    def _perturbed(self, options: Mapping[str, Option], entries: Sequence[Entry], request: Request) -> list[Option]:
        """Ranks options by their value under noise that grows with the number of irrelevant statements."""
        # Statements behind an option nearly as good as the best are relevant.
        top = max((option.evidence for option in options.values()), default=0.0)
        useful = {i for option in options.values() if option.evidence >= 0.9 * top for i in option.chain}
        irrelevant = len(entries) - len(useful)
        scale = self.settings.noise * (DILUTION * irrelevant**0.5 + TEMPERATURE_NOISE * request.temperature)
        # Each draw is named by its option: a further option changes no other draw.
        noisy = {key: option.value + scale * gaussian(request.seed, "noise", key) for key, option in options.items()}
        return [options[key] for key in sorted(noisy, key=lambda key: (-noisy[key], key))]


def _lines(reasoning: str, answer: str, confidence: float) -> str:
    return f"Reasoning: {reasoning}\nAnswer: {answer}\nConfidence: {confidence:.2f}"


def _skill(role: str, skills: Mapping[str, float]) -> float:
    """Finds the skill of the role word that comes first in the role's text."""
    role = role.lower()
    places = [(role.find(word), skill) for word, skill in skills.items() if word in role]
    return min(places)[1] if places else DEFAULT_SKILL


def _quoted(chain: Sequence[int], entries: Sequence[Entry]) -> str:
    return "; ".join(entries[i].statement.quote for i in chain[:3]) + "." if chain else ""
