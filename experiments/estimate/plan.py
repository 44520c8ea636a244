"""The plan of a run: its turns, calls and tokens, as data and as the table that a dry run prints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from experiments.analysis.table import Table
from experiments.config.settings import CostSettings
from experiments.estimate.earlier_run import EarlierRun

HEADERS = (
    "phase",
    "discussions",
    "turns",
    "calls",
    *(f"prompt\n{bound}" for bound in ("lowest", "expected", "highest")),
    "completion\nexpected",
)


@dataclass(frozen=True, slots=True)
class Range:
    """`lower`: nobody is heard; `expected`: as planned; `upper`: everybody is heard, as in the complete graph."""

    lower: float
    expected: float
    upper: float

    def __add__(self, other: Range) -> Range:
        return Range(self.lower + other.lower, self.expected + other.expected, self.upper + other.upper)

    def times(self, factor: float) -> Range:
        """All three values multiplied by a factor."""
        return Range(self.lower * factor, self.expected * factor, self.upper * factor)


NOTHING = Range(0, 0, 0)


@dataclass(frozen=True, slots=True)
class Share:
    """What one model is asked of a phase, as expected, and its own longest prompts."""

    calls: int
    prompt: float
    completion: float
    longest: int
    at_most: int

    def __add__(self, other: Share) -> Share:
        return Share(
            self.calls + other.calls,
            self.prompt + other.prompt,
            self.completion + other.completion,
            max(self.longest, other.longest),
            max(self.at_most, other.at_most),
        )


@dataclass(frozen=True, slots=True)
class Phase:
    """One part of a run. `turns` and `calls` are `exact`, as long as every reply can be read, or estimates, where they
    depend on what will be learned; tokens are estimates.

    `shared` of the expected prompt tokens are what agents that read the same have in common on a question. `distinct`
    is the number of calls that differ from each other and from those of the phases before, estimated without knowing
    any reply; `spared_prompt` and `spared_completion` are the tokens of the others, and `cached` are the prompt tokens
    of distinct calls that a prefix cache may serve. `longest` is the size of the longest prompt in tokens, and
    `at_most` its size if every reply in it had the length allowed. `by_model` is the part of each model, by its key,
    where there are several.
    """

    name: str
    discussions: int
    turns: int
    calls: int
    prompt: Range
    completion: float
    shared: float
    distinct: float
    longest: int
    at_most: int
    exact: bool = True
    spared_prompt: float = 0.0
    spared_completion: float = 0.0
    cached: float = 0.0
    by_model: Mapping[str, Share] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Plan:
    """Turns, calls and tokens of a run.

    `judged` is apart from the rest: a judge may be another model, at another price.

    `models` names the models by key, where there are several. `rule` is how tokens were counted, `questions` how many
    were sampled for each phase, and `reuse` whether completions are kept. `hours` and `price` are None without rates.
    `warnings` are differences between the run and what its user may expect. `donors` maps each method that learns from
    another one's discussions to that method. `measured` is True where lengths of replies were measured. `gpus` are
    those of all replicas.
    """

    phases: tuple[Phase, ...]
    judged: Phase | None
    rule: str
    reply_tokens: int
    questions: int
    max_tokens: int
    reuse: bool
    warnings: tuple[str, ...]
    models: Mapping[str, str] = field(default_factory=dict)
    donors: Mapping[str, str] = field(default_factory=dict)
    costs: CostSettings = field(default_factory=CostSettings)
    earlier: EarlierRun | None = None
    measured: bool = False
    gpus: float = 0.0

    @property
    def whole(self) -> Phase:
        """All phases as one, the judge left out."""
        return total(self.phases)

    @property
    def made(self) -> Made:
        """The calls that a model answers, as expected."""
        return made(self.whole, self.reuse)

    @property
    def saved(self) -> float:
        """The share of calls that a completion cache answers."""
        return 1 - self.whole.distinct / max(1, self.whole.calls)

    @property
    def hours(self) -> Range | None:
        """At the stated speeds, else as an earlier run took them."""
        return hours(self.costs, self.earlier, self.whole.prompt, self.whole.completion)

    @property
    def price(self) -> Range | None:
        """Of all tokens, without any cache."""
        return price(self.costs, self.whole.prompt, self.whole.completion)

    @property
    def least_price(self) -> float | None:
        """Of the expected tokens that no cache answers."""
        rates = self.costs
        if self.price is None:
            return None
        cached_price = rates.prompt_price if rates.cached_price is None else rates.cached_price
        made = self.made
        parts = (
            (made.prompt - made.cached, rates.prompt_price),
            (made.cached, cached_price),
            (made.completion, rates.completion_price),
        )
        return sum(tokens * (each or 0.0) for tokens, each in parts) / 1e6


@dataclass(frozen=True, slots=True)
class Made:
    """Calls that a model answers and their tokens. `cached` of the prompt tokens may come from a prefix cache."""

    calls: float
    prompt: float
    cached: float
    completion: float


def made(whole: Phase, reuse: bool) -> Made:
    """The calls of a run that are made; with `reuse`, the completion cache answers all others."""
    if not reuse:
        return Made(whole.calls, whole.prompt.expected, whole.cached, whole.completion)
    return Made(
        whole.distinct,
        whole.prompt.expected - whole.spared_prompt,
        whole.cached,
        whole.completion - whole.spared_completion,
    )


def total(phases: Iterable[Phase]) -> Phase:
    """The sum of phases, and the longest of their prompts."""
    phases = list(phases)
    by_model: dict[str, Share] = {}
    for phase in phases:
        for model, share in phase.by_model.items():
            by_model[model] = by_model[model] + share if model in by_model else share
    return Phase(
        name="all",
        discussions=sum(phase.discussions for phase in phases),
        turns=sum(phase.turns for phase in phases),
        calls=sum(phase.calls for phase in phases),
        prompt=sum((phase.prompt for phase in phases), NOTHING),
        completion=sum(phase.completion for phase in phases),
        shared=sum(phase.shared for phase in phases),
        distinct=sum(phase.distinct for phase in phases),
        longest=max((phase.longest for phase in phases), default=0),
        at_most=max((phase.at_most for phase in phases), default=0),
        exact=all(phase.exact for phase in phases),
        spared_prompt=sum(phase.spared_prompt for phase in phases),
        spared_completion=sum(phase.spared_completion for phase in phases),
        cached=sum(phase.cached for phase in phases),
        by_model=by_model,
    )


def hours(costs: CostSettings, earlier: EarlierRun | None, prompt: Range, completion: float) -> Range | None:
    """Hours of a run: at stated speeds, which leave out every cache, or with the speed and caches of an earlier run."""
    per_prompt = per_completion = 0.0
    if costs.prompt_tokens_per_s is not None or costs.completion_tokens_per_s is not None:
        # A speed that is not stated takes no time: the hours are then those of the other part alone.
        per_prompt = 1 / costs.prompt_tokens_per_s if costs.prompt_tokens_per_s else 0.0
        per_completion = 1 / costs.completion_tokens_per_s if costs.completion_tokens_per_s else 0.0
    elif earlier is not None:
        per_prompt = per_completion = earlier.seconds_per_token
    else:
        return None
    replies = completion * per_completion
    return (prompt.times(per_prompt) + Range(replies, replies, replies)).times(1 / 3600)


def price(costs: CostSettings, prompt: Range, completion: float) -> Range | None:
    """The price in the currency of the rates, without any discount for cached prompts."""
    if costs.prompt_price is None and costs.completion_price is None:
        return None
    replies = completion * (costs.completion_price or 0.0)
    # Prices are per million tokens.
    return (prompt.times(costs.prompt_price or 0.0) + Range(replies, replies, replies)).times(1e-6)


def plan_table(plan: Plan) -> Table:
    """A row per phase; turns and calls exact, tokens rounded."""
    # A sum of one phase would only repeat it.
    several = len(plan.phases) > 1
    # The judge stands below the sum, which does not include it.
    phases = [*plan.phases, *([plan.whole] if several else []), *([plan.judged] if plan.judged else [])]
    return Table(
        HEADERS, [_cells(phase) for phase in phases], tuple(_notes(plan)), total=len(plan.phases) if several else None
    )


def _notes(plan: Plan) -> Iterator[str]:
    """Notes below the table: how exact it is, what caches may serve, hours, price, and warnings."""
    whole = plan.whole
    yield "Turns and calls are exact; only a reply that cannot be read, or a call that fails, takes one more."
    if vague := [phase.name for phase in plan.phases if not phase.exact]:
        yield (
            f"Those of {', '.join(vague)} are estimates all the same: which turns are needed is known only when the "
            "graph is learned, and what a system asks next depends on what it was told. Of a learned graph they are "
            "upper bounds: no turn is taken to be left out, nor answered already by another method's."
        )
    for method, source in plan.donors.items():
        yield f"{method} learns from the discussions of {source}, so that its training takes none of its own."
    by_role = " on average, of each role what was measured" if plan.measured else ""
    yield (
        f"Tokens are estimated from the real prompts of {plan.questions:,} questions in each phase, counted as "
        f"{plan.rule}. A reply is taken to have {plan.reply_tokens:,} tokens{by_role}; with the "
        f"{plan.max_tokens:,} that agents.max_tokens allows there would be {short(whole.calls * plan.max_tokens)} "
        "completion tokens."
    )
    for model, share in whole.by_model.items():
        rates = price(plan.costs, Range(share.prompt, share.prompt, share.prompt), share.completion)
        yield (
            f"Of these, {plan.models[model]} has {share.calls:,} calls with {short(share.prompt)} prompt and "
            f"{short(share.completion)} completion tokens expected"
            + (f", {rates.expected:,.2f} of the price." if rates else ".")
        )
    yield "Lowest: nobody is heard; expected: along edges drawn and pruned as planned; highest: everybody is heard."
    yield (
        # max: a plan may have no prompt at all, where nobody but dummies speaks.
        f"{whole.shared / max(1.0, whole.prompt.expected):.0%} of the expected prompt tokens are instruction, "
        "question, evidence and pictures, which agents that read the same share: a prefix cache can serve them from "
        "the second prompt on."
    )
    made = plan.made
    cached = f" ({short(made.cached)} of them from a prefix cache with room for them)" if made.cached else ""
    if plan.reuse:
        yield (
            f"About {whole.distinct:,.0f} of the calls differ from each other, if no two different prompts get the "
            f"same reply; the others ({plan.saved:.0%}) are answered from the completion cache. Those made have "
            f"{short(made.prompt)} prompt tokens{cached} and {short(made.completion)} completion tokens."
        )
    yield (
        f"The longest prompt has about {whole.longest:,} tokens, and {whole.at_most:,} at most (were every reply in it "
        "as long as is allowed)."
    )
    hours = plan.hours
    if hours and (plan.costs.prompt_tokens_per_s or plan.costs.completion_tokens_per_s):
        yield f"Hours at the given rates: {_range(hours)} (without any cache)."
    elif hours and plan.earlier:
        yield f"Hours as {plan.earlier.name} took them: {_range(hours)}; {plan.earlier.note}"
    if hours and plan.gpus:
        each = plan.costs.gpu_hour_price
        cost = f", for {_range(hours.times(plan.gpus * each))}" if each is not None else ""
        yield f"GPUs: {plan.gpus:g}, for {_range(hours.times(plan.gpus))} GPU hours{cost}."
    if plan.price:
        yield (
            f"Price at the given rates: {_range(plan.price)} (without any cache); {plan.least_price:,.2f} expected "
            "with both caches."
        )
    if plan.judged and (hours or plan.price):
        yield "The judge is in none of these."
    yield from (f"Warning: {warning}." for warning in plan.warnings)


def _cells(phase: Phase) -> tuple[str, ...]:
    return (
        phase.name,
        *(f"{n:,}" for n in (phase.discussions, phase.turns, phase.calls)),
        *(short(n) for n in (phase.prompt.lower, phase.prompt.expected, phase.prompt.upper, phase.completion)),
    )


def _range(value: Range) -> str:
    return f"{value.expected:,.2f} expected, {value.lower:,.2f} to {value.upper:,.2f}"


def short(tokens: float) -> str:
    """Three digits: 812, 45.6k, 7.89M."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if tokens >= size:
            value = tokens / size
            return f"{value:.{0 if value >= 100 else 1 if value >= 10 else 2}f}{unit}"
    return f"{tokens:.0f}"
