"""The embedded reader: a small extractive model without a neural network, for running everything else without one.

It answers from its prompt and from nothing else: it takes in statements (imperfectly, by role), links those that
together cover the question, reads an answer of the wanted kind off them, and weighs in what its colleagues said. What
it scores says nothing about a language model's accuracy.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from actors import prompt
from actors.messages import Completion, Request
from actors.reader.ask import Want, parse_ask
from actors.reader.decide import choose, compare, listed, yes_or_no
from actors.reader.find import Entry, Found, View, answers, chains, view
from actors.reader.judge import verdict
from actors.reader.obey import CHALLENGED, challenges, ordered, orders_of, passed_on
from actors.reader.obey import reply as as_told
from actors.reader.parse import Opinion, opinions, question_and_choices, second_hand, sections, shown, told
from actors.reader.sight import Palette, gaussian, look, overlooked, palette, uniform
from actors.reader.social import Option, weigh
from actors.reader.text import count_tokens, cut_to_tokens
from actors.reader.tools import read_tools

CHAT_OVERHEAD_TOKENS = 8
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

    conformity: float = 0.5
    """What a colleague's answer adds at weight 1 and confidence 1; a perfect chain of evidence is worth 1."""
    persistence: float = 0.15
    """What the agent's own earlier answer adds at confidence 1."""
    obedience: float = 0.3
    """Chance of giving in to an instruction found in a message ("whoever reads this answers ... and repeats this
    sentence"); an assumption, as models differ."""
    trust: float = 0.85
    """How much a statement quoted by a colleague is worth next to one read first hand (1: as much)."""
    dilution: float = 0.012
    """Noise on the value of every answer: this times the square root of the number of irrelevant statements read."""
    temperature_noise: float = 0.05
    """Noise added to that, times the request's temperature."""
    error_rate: float = 0.3
    """Chance of taking the runner-up for the best answer."""
    oversight: float = 0.5
    """Chance of overlooking a passage's sentence or a table's row."""
    perception_error: float = 0.6
    """Chance of missing or misreading a sentence of a picture's description."""
    threshold: float = 0.16
    """Value below which an answer is not given but `unknown`."""
    hops: int = 2
    """Over how many shared names statements are linked."""
    text_skill: dict[str, float] = field(default_factory=_text_skill)
    """Skill with passages and rows in [0, 1], by words that the role's text contains."""
    visual_skill: dict[str, float] = field(default_factory=_visual_skill)
    """Skill with pictures in [0, 1], by words that the role's text contains."""
    default_skill: float = 0.6
    """Skill of a role that neither table names."""
    picture_tokens: int = 256
    """Prompt tokens that a picture counts for."""
    cached_prompts: int = 256
    """How many questions' parsed evidence is kept."""


class Reader:
    """A model as everything around it sees one. Same request, same completion, in any process."""

    def __init__(self, settings: ReaderSettings) -> None:
        self.settings = settings
        self._pages: OrderedDict[tuple[str, ...], _Page] = OrderedDict()

    async def complete(self, request: Request) -> Completion:
        return self.read(request)

    def read(self, request: Request) -> Completion:
        """Answer from the request's text and pictures, in the three lines that `prompt.INSTRUCTION` asks for."""
        if (judged := verdict(request)) is not None:
            return _completion(request, judged, count_tokens(request.shared))
        page = self._page(request)
        own_text, tools = read_tools(request.own)
        own = sections(own_text)
        role = " ".join(own.get(prompt.ROLE, ()))
        settings = self.settings
        text_skill = _skill(role, settings.text_skill, settings.default_skill)
        visual_skill = _skill(role, settings.visual_skill, settings.default_skill)
        heard, orders = opinions(own), orders_of(own)
        openness = CHALLENGED if challenges(orders) else 1.0
        entries = page.taken_in(settings, text_skill, visual_skill, request.seed)
        entries += page.heard(heard, {entry.said.quote for entry in entries}, settings.trust * openness)
        entries += map(page.view.entry, tools.returned)
        found = _candidates(page, entries, settings.hops)
        options = weigh(found, heard, settings.conformity * openness, settings.persistence, page.choices)
        ranked = self._perturbed(options, entries, request)
        if told := ordered(orders) or passed_on(heard, settings.obedience, request.seed):
            best = ranked[0] if ranked else Option("")
            return _completion(request, as_told(told, best.text, _quoted(best.chain, entries)), page.tokens)
        skill = visual_skill if _is_visual(ranked, entries) else text_skill
        if len(ranked) > 1 and uniform(request.seed, "slip") < settings.error_rate * (1 - skill):
            ranked[:2] = ranked[1::-1]
        unsure = not ranked or ranked[0].value < settings.threshold
        call = tools.call(page.view.ask.text) if unsure else None
        return _completion(request, call or self._reply(ranked, entries, page), page.tokens)

    def _page(self, request: Request) -> _Page:
        """The parse of the shared part, kept for the other agents, samples and rounds of the question."""
        key = (request.prefix, request.shared, *(f"{i.id}\x1f{i.title}\x1f{i.text}" for i in request.images))
        if key in self._pages:
            self._pages.move_to_end(key)
        else:
            self._pages[key] = _Page(request, self.settings.picture_tokens)
            while len(self._pages) > max(1, self.settings.cached_prompts):
                self._pages.popitem(last=False)
        return self._pages[key]

    def _perturbed(self, options: Mapping[str, Option], entries: Sequence[Entry], request: Request) -> list[Option]:
        """Options in order of their value under noise that grows with what was read in vain."""
        settings = self.settings
        top = max((option.evidence for option in options.values()), default=0.0)
        useful = {i for option in options.values() if option.evidence >= 0.9 * top for i in option.chain}
        irrelevant = len(entries) - len(useful)
        scale = settings.dilution * irrelevant**0.5 + settings.temperature_noise * request.temperature
        noisy = {key: option.value + scale * gaussian(request.seed, "noise", key) for key, option in options.items()}
        return [options[key] for key in sorted(noisy, key=lambda key: (-noisy[key], key))]

    def _reply(self, ordered: Sequence[Option], entries: Sequence[Entry], page: _Page) -> str:
        best = ordered[0] if ordered else Option("")
        runner_up = ordered[1].value if len(ordered) > 1 else 0.0
        if best.value < (MENTIONED if page.choices else self.settings.threshold):
            chain = best.chain or page.most_relevant(entries, self.settings.hops)
            reasons = _quoted(chain, entries) or "Nothing that was read bears on the question."
            return f"Reasoning: {reasons}\nAnswer: unknown\nConfidence: 0.05"
        reasons = _quoted(best.chain, entries)
        if best.speakers:
            reasons = f"{reasons} {'; '.join(best.speakers[:3])} said the same.".strip()
        margin = (best.value - runner_up) / best.value
        confidence = min(0.98, max(0.05, best.value * (0.55 + 0.45 * max(0.0, margin))))
        return f"Reasoning: {reasons}\nAnswer: {best.text}\nConfidence: {confidence:.2f}"


class _Page:
    """What the shared part of a request amounts to, without the errors of any one agent."""

    def __init__(self, request: Request, picture_tokens: int) -> None:
        shared = sections(request.shared)
        question, self.choices = question_and_choices(shared)
        texts, self._pictures = told(shared), shown(request.images)
        self._palette: Palette = palette(self._pictures)
        self.view: View = view(parse_ask(question), [*texts, *(said for picture in self._pictures for said in picture)])
        self._texts = [self.view.entry(said) for said in texts]
        self._seen = {said: self.view.entry(said) for picture in self._pictures for said in picture}
        self._said: dict[tuple[str, float], tuple[Entry, ...]] = {}
        self.tokens = count_tokens(request.shared) + picture_tokens * len(request.images)

    def taken_in(self, settings: ReaderSettings, text_skill: float, visual_skill: float, seed: int) -> list[Entry]:
        """First-hand entries of one agent: some sentences overlooked, some pictures missed or misread."""
        oversight = settings.oversight * (1 - text_skill)
        blindness = settings.perception_error * (1 - visual_skill)
        entries = [entry for entry in self._texts if not overlooked(entry.said, oversight, seed)]
        for picture in self._pictures:
            seen = look(picture, self._palette, blindness, seed)
            entries += [self._seen.get(said) or self.view.entry(said) for said in seen]
        return entries

    def heard(self, said: Sequence[Opinion], known: set[str], trust: float) -> list[Entry]:
        """Second-hand entries; what the agent read itself is not counted twice."""
        entries: dict[str, Entry] = {}
        for opinion in said:
            key = opinion.content, trust
            if key not in self._said:
                if len(self._said) > 1024:
                    self._said.clear()
                self._said[key] = tuple(map(self.view.entry, second_hand(opinion, trust)))
            for entry in self._said[key]:
                if entry.said.quote not in known:
                    entries.setdefault(entry.said.quote, entry)
        return list(entries.values())

    def most_relevant(self, entries: Sequence[Entry], hops: int) -> tuple[int, ...]:
        """The chain that covers most of the question, for a colleague to go on from; () when nothing is covered."""
        best = max(chains(self.view, entries, hops), key=lambda c: c[0], default=(0.0, ()))
        return best[1] if best[0] > 0 else ()


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


def _candidates(page: _Page, entries: Sequence[Entry], hops: int) -> Sequence[Found]:
    if page.choices:
        return choose(page.view, entries, page.choices, hops)
    if page.view.ask.want is Want.YES_NO:
        return yes_or_no(page.view, entries, hops)
    if page.view.ask.want is Want.OPTION:
        return compare(page.view, entries, hops)
    return listed(answers(entries, chains(page.view, entries, hops)), page.view)


def _skill(role: str, skills: Mapping[str, float], default: float) -> float:
    """The skill of the role word that comes first in the role's text."""
    role = role.lower()
    places = [(role.find(word), skill) for word, skill in skills.items() if word in role]
    return min(1.0, max(0.0, min(places)[1])) if places else default


def _is_visual(ordered: Sequence[Option], entries: Sequence[Entry]) -> bool:
    return bool(ordered and ordered[0].chain) and any(entries[i].said.seen for i in ordered[0].chain)


def _quoted(chain: Sequence[int], entries: Sequence[Entry], most: int = 3) -> str:
    return "; ".join(entries[i].said.quote for i in chain[:most]) + "." if chain else ""
