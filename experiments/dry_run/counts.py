"""Calls and tokens of a run that has not started, its hours and price, and the table that a dry run prints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from actors.errors import UserError
from actors.messages import Usage
from experiments.analysis.result_table import ResultTable
from experiments.config.setting_groups import CostSettings
from experiments.records import usage
from experiments.records.recorder import RunFolder

HEADERS = (
    *("phase", "discussions", "turns", "calls", "prompt\nlowest", "prompt\nexpected", "prompt\nhighest"),
    "completion\nexpected",
)


class Range(NamedTuple):
    """Three values: nobody is heard, messages follow the planned edges, everybody is heard (complete graph)."""

    lower: float
    expected: float
    upper: float

    def __str__(self) -> str:
        return f"{self.expected:,.2f} expected, {self.lower:,.2f} to {self.upper:,.2f}"


@dataclass
class PhaseCounts:
    """Counts of one phase of a run, of all phases, or of one model's part in them.

    Turns and calls are exact as long as every reply can be read. With `exact=False` they are expected: they depend on
    learned edges or on replies. Tokens are always expected.

    Attributes:
        prompt: tokens of prompts; `lowest` and `highest` where nobody or everybody is heard.
        completion: tokens of replies.
        shared: prompt tokens that all agents with the same evidence have in common on a question.
        made, made_prompt, made_completion: calls that a model answers and their tokens. The completion cache answers
            the others, whose prompts repeat earlier ones.
        cached: tokens of `made_prompt` that a prefix cache may serve.
        longest: tokens of the longest prompt; `at_most` if every reply in it had the longest allowed length.
        by_model: the part of each model by its key, where there are several.
    """

    name: str = ""
    exact: bool = True
    discussions: int = 0
    turns: int = 0
    calls: int = 0
    prompt: float = 0.0
    lowest: float = 0.0
    highest: float = 0.0
    completion: float = 0.0
    shared: float = 0.0
    made: float = 0.0
    made_prompt: float = 0.0
    made_completion: float = 0.0
    cached: float = 0.0
    longest: int = 0
    at_most: int = 0
    by_model: dict[str, PhaseCounts] = field(default_factory=dict)

    @property
    def prompts(self) -> Range:
        return Range(self.lowest, self.prompt, self.highest)

    def scaled(self, name: str, discussions: int, bounds: Iterable[PhaseCounts] = ()) -> PhaseCounts:
        """The counts of a sample, extrapolated to all discussions of a phase.

        Args:
            bounds: counts of the same questions where nobody and where everybody is heard.
        """
        samples = (self, *bounds)

        def extrapolated(counts: PhaseCounts, others: Iterable[PhaseCounts]) -> PhaseCounts:
            values = {key: getattr(counts, key) * discussions / self.discussions for key in _EXPECTED}
            values |= {key: getattr(counts, key) * discussions // self.discussions for key in _EXACT}
            return PhaseCounts(**values, **{key: max(getattr(each, key) for each in others) for key in _LARGEST})

        phase = extrapolated(self, samples)
        phase.name, phase.discussions = name, discussions
        for key, part in self.by_model.items():
            phase.by_model[key] = extrapolated(part, [each.by_model[key] for each in samples if key in each.by_model])
        prompts = [counts.prompt * discussions / counts.discussions for counts in samples]
        phase.lowest, phase.highest = min(prompts), max(prompts)
        return phase


_EXACT, _LARGEST = ("turns", "calls"), ("longest", "at_most")
_EXPECTED = ("prompt", "completion", "shared", "made", "made_prompt", "made_completion", "cached")
_SUMMED = ("discussions", "lowest", "highest", *_EXACT, *_EXPECTED)


def total(phases: Iterable[PhaseCounts], name: str = "all") -> PhaseCounts:
    """The sum of phases, and the longest of their prompts."""
    phases = list(phases)
    whole = PhaseCounts(name, exact=all(phase.exact for phase in phases))
    for key in _SUMMED:
        setattr(whole, key, sum(getattr(phase, key) for phase in phases))
    for key in _LARGEST:
        setattr(whole, key, max((getattr(phase, key) for phase in phases), default=0))
    for key in dict.fromkeys(key for phase in phases for key in phase.by_model):
        whole.by_model[key] = total(phase.by_model[key] for phase in phases if key in phase.by_model)
    return whole


@dataclass(frozen=True)
class EarlierRun:
    """Time and usage of a finished run (`costs.run`), without its judge.

    `reply_tokens` are the mean tokens of a reply by role, and under "" those of all roles.
    """

    name: str
    seconds: float
    used: Usage
    reply_tokens: Mapping[str, float]

    @staticmethod
    def read(path: str) -> EarlierRun:
        """Raises UserError where `path` is no run folder, or its run called no model."""
        folder = RunFolder.open(Path(path))
        phases = [phase for name, phase in usage.by_phase(folder).items() if name != "judging"]
        replies: dict[str, Usage] = {}
        for phase in phases:
            for role, used in phase.agents.items():
                for key in ("", role):
                    replies[key] = replies.get(key, Usage()) + used
        seconds, whole = sum(phase.seconds for phase in phases), replies.get("", Usage())
        if not seconds or not whole.prompt_tokens:
            raise UserError(f"costs.run={path} has recorded no calls of a model; name a run that computed its answers")
        lengths = {role: used.completion_tokens / used.calls for role, used in replies.items() if used.calls}
        return EarlierRun(folder.name, seconds, whole, lengths)

    @property
    def seconds_per_token(self) -> float:
        """Wall-clock seconds for each token that agents needed, cached ones included."""
        return self.seconds / (self.used.prompt_tokens + self.used.completion_tokens + self.used.reused_tokens)


@dataclass(frozen=True)
class RunCounts:
    """Counts of a whole run.

    Attributes:
        judged: calls of the judge, which may be another model at another price; in no sum.
        rule: how tokens were counted.
        reply_tokens: tokens of a usual reply; `measured` where roles have lengths from real replies.
        questions: how many questions were sampled for each phase.
        warnings: differences between the run and what its user may expect.
        models: a phrase for each model by its key, where there are several.
        sources: for each method that learns from another method's discussions, that method.
        gpus: GPUs of all replicas.
    """

    phases: tuple[PhaseCounts, ...]
    judged: PhaseCounts | None
    rule: str
    reply_tokens: int
    measured: bool
    questions: int
    max_tokens: int
    reuse: bool
    warnings: tuple[str, ...]
    models: Mapping[str, str]
    sources: Mapping[str, str]
    costs: CostSettings
    earlier: EarlierRun | None
    gpus: float

    @property
    def whole(self) -> PhaseCounts:
        """The sum of all phases, without the judge."""
        return total(self.phases)

    @property
    def hours(self) -> Range | None:
        return hours(self.costs, self.earlier, self.whole.prompts, self.whole.completion)

    @property
    def price(self) -> Range | None:
        return price(self.costs, self.whole.prompts, self.whole.completion)

    @property
    def price_with_caches(self) -> float:
        """The expected price of computed tokens, where both caches have room."""
        costs, whole = self.costs, self.whole
        cached_price = costs.prompt_price if costs.cached_price is None else costs.cached_price
        computed = whole.made_prompt - whole.cached
        prompt = computed * (costs.prompt_price or 0.0) + whole.cached * (cached_price or 0.0)
        return (prompt + whole.made_completion * (costs.completion_price or 0.0)) / 1e6


def hours(costs: CostSettings, earlier: EarlierRun | None, prompts: Range, completion: float) -> Range | None:
    """Hours at stated speeds without any cache, else at the speed and with the caches of an earlier run."""
    if rates := _rates(costs):
        # An unstated speed takes no time: the hours are then those of the other part alone.
        per_prompt, per_completion = (1 / rate if rate else 0.0 for rate in rates)
    elif earlier:
        per_prompt = per_completion = earlier.seconds_per_token
    else:
        return None
    return Range(*((prompt * per_prompt + completion * per_completion) / 3600 for prompt in prompts))


def price(costs: CostSettings, prompts: Range, completion: float) -> Range | None:
    """The price in the currency of the rates, without any cache."""
    if costs.prompt_price is None and costs.completion_price is None:
        return None
    replies = completion * (costs.completion_price or 0.0)
    # Rates are per million tokens.
    return Range(*((prompt * (costs.prompt_price or 0.0) + replies) / 1e6 for prompt in prompts))


def _rates(costs: CostSettings) -> tuple[float | None, float | None] | None:
    rates = costs.prompt_tokens_per_s, costs.completion_tokens_per_s
    return rates if any(rates) else None


def counts_table(counts: RunCounts) -> ResultTable:
    """A row per phase, with tokens rounded to three digits."""
    # A sum of one phase would only repeat it.
    several = len(counts.phases) > 1
    # The judge comes below the sum, which does not include it.
    phases = [*counts.phases, *([counts.whole] if several else []), *([counts.judged] if counts.judged else [])]
    rows = [
        (
            phase.name,
            *(f"{n:,}" for n in (phase.discussions, phase.turns, phase.calls)),
            *map(short, (*phase.prompts, phase.completion)),
        )
        for phase in phases
    ]
    return ResultTable(HEADERS, rows, tuple(_notes(counts)), total=len(counts.phases) if several else None)


def _notes(counts: RunCounts) -> Iterator[str]:
    whole = counts.whole
    yield "Turns and calls are exact; a reply that cannot be read, or a call that fails, takes one more."
    if vague := [phase.name for phase in counts.phases if not phase.exact]:
        yield (
            f"Except in {', '.join(vague)}: needed turns depend on the learned graph, and a system's next call on "
            "earlier replies. For a learned graph these are upper bounds, as if every turn were needed and no other "
            "method had asked the same."
        )
    for method, source in counts.sources.items():
        yield f"{method} learns from the discussions of {source} and holds none for its training."
    by_role = " on average, with a measured length for each role" if counts.measured else ""
    yield (
        f"Tokens are estimated from the real prompts of {counts.questions:,} questions in each phase, counted as "
        f"{counts.rule}. A reply is assumed to have {counts.reply_tokens:,} tokens{by_role}; at the "
        f"{counts.max_tokens:,} that agents.max_tokens allows there would be {short(whole.calls * counts.max_tokens)} "
        "completion tokens."
    )
    for model, part in whole.by_model.items():
        own = price(counts.costs, Range(part.prompt, part.prompt, part.prompt), part.completion)
        yield (
            f"Of these, {counts.models[model]} has {part.calls:,} calls with {short(part.prompt)} prompt and "
            f"{short(part.completion)} completion tokens expected"
            + (f", {own.expected:,.2f} of the price." if own else ".")
        )
    yield "Lowest: nobody is heard; expected: along planned edges; highest: everybody is heard."
    yield (
        # max: a run of dummies alone has no prompt.
        f"{whole.shared / max(1.0, whole.prompt):.0%} of the expected prompt tokens are instruction, question, "
        "evidence and pictures, which agents with the same evidence share: a prefix cache can serve them from the "
        "second prompt on."
    )
    cached = f" ({short(whole.cached)} of them from a prefix cache with room for them)" if whole.cached else ""
    if counts.reuse:
        yield (
            f"About {whole.made:,.0f} of the calls differ from each other, if no two different prompts get the same "
            f"reply; the completion cache answers the others ({1 - whole.made / max(1, whole.calls):.0%}). Computed "
            f"calls have {short(whole.made_prompt)} prompt tokens{cached} and {short(whole.made_completion)} "
            "completion tokens."
        )
    yield (
        f"The longest prompt has about {whole.longest:,} tokens, and {whole.at_most:,} at most (if every reply in it "
        "had the longest allowed length)."
    )
    yield from _cost_notes(counts)
    yield from (f"Warning: {warning}." for warning in counts.warnings)


def _cost_notes(counts: RunCounts) -> Iterator[str]:
    costs, taken, earlier = counts.costs, counts.hours, counts.earlier
    if taken and _rates(costs):
        yield f"Hours at the given rates: {taken} (without any cache)."
    elif taken and earlier:
        used = earlier.used
        yield (
            f"Hours as {earlier.name} took, scaled by tokens: {taken}; at its concurrency, with "
            f"{used.reused / (used.calls + used.reused):.0%} of calls answered from the completion cache and "
            f"{used.cached_tokens / used.prompt_tokens:.0%} of prompt tokens from a prefix cache."
        )
    if taken and counts.gpus:
        gpu_hours = Range(*(counts.gpus * each for each in taken))
        each = costs.gpu_hour_price
        cost = "" if each is None else f", for {Range(*(each * of_gpus for of_gpus in gpu_hours))}"
        yield f"GPUs: {counts.gpus:g}, for {gpu_hours} GPU hours{cost}."
    if counts.price:
        yield (
            f"Price at the given rates: {counts.price} (without any cache); {counts.price_with_caches:,.2f} expected "
            "with both caches."
        )
    if counts.judged and (taken or counts.price):
        yield "The judge is in none of these."


def short(tokens: float) -> str:
    """A number with three digits: 812, 45.6k, 7.89M."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if tokens >= size:
            value = tokens / size
            return f"{value:.{0 if value >= 100 else 1 if value >= 10 else 2}f}{unit}"
    return f"{tokens:.0f}"
