"""Calls, tokens, hours and price of a run that has not started, and their table."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from actors.errors import UserError
from actors.messages import Usage
from experiments.analysis.result_table import ResultTable
from experiments.config.setting_groups import CostSettings
from experiments.dry_run.power import power_notes
from experiments.planning.plan import Plan
from experiments.planning.topologies import compared_pairs
from experiments.records import usage
from experiments.records.recorder import RunFolder

HEADERS = ("phase", "discussions", "turns", "calls", "prompt\ntokens", "completion\ntokens")


@dataclass
class PhaseCounts:
    """Counts of a phase, of all phases, or of one model's part in them.

    Turns and calls are exact as long as every reply can be read. With `exact=False` they are expected: they depend on
    learned edges or on replies. Tokens are always expected.

    prompt: tokens of prompts.
    completion: tokens of replies.
    made, made_prompt, made_completion: calls that a model answers and their tokens. The completion cache answers
        the others, whose prompts repeat earlier ones.
    cached: tokens of `made_prompt` that a prefix cache may serve.
    longest: tokens of the longest prompt.
    by_model: the part of each model by its key, where there are several.
    """

    name: str = ""
    exact: bool = True
    discussions: int = 0
    turns: int = 0
    calls: int = 0
    prompt: float = 0.0
    completion: float = 0.0
    made: float = 0.0
    made_prompt: float = 0.0
    made_completion: float = 0.0
    cached: float = 0.0
    longest: int = 0
    by_model: "dict[str, PhaseCounts]" = field(default_factory=dict)

    def scaled(self, name: str, discussions: int) -> "PhaseCounts":
        """Extrapolates the counts of a sample to all discussions of a phase."""

        def extrapolated(part: "PhaseCounts") -> "PhaseCounts":
            values = {key: getattr(part, key) * discussions / self.discussions for key in _EXPECTED}
            values |= {key: getattr(part, key) * discussions // self.discussions for key in _EXACT}
            return replace(part, **values)

        parts = {key: extrapolated(part) for key, part in self.by_model.items()}
        return replace(extrapolated(self), name=name, discussions=discussions, by_model=parts)


_EXACT = ("turns", "calls")
_EXPECTED = ("prompt", "completion", "made", "made_prompt", "made_completion", "cached")
_SUMMED = ("discussions", *_EXACT, *_EXPECTED)


def total(phases: Iterable[PhaseCounts], name: str = "all") -> PhaseCounts:
    """Sums phases, and finds the longest of their prompts."""
    phases = list(phases)
    whole = PhaseCounts(name, exact=all(phase.exact for phase in phases))
    for key in _SUMMED:
        setattr(whole, key, sum(getattr(phase, key) for phase in phases))
    whole.longest = max((phase.longest for phase in phases), default=0)
    for key in dict.fromkeys(key for phase in phases for key in phase.by_model):
        whole.by_model[key] = total(phase.by_model[key] for phase in phases if key in phase.by_model)
    return whole


@dataclass(frozen=True)
class EarlierRun:
    """Time and usage of a finished run (`costs.run`) without its judge. Mean tokens of replies by role ("": all)."""

    name: str
    seconds: float
    used: Usage
    reply_tokens: Mapping[str, float]

    @staticmethod
    def read(path: str) -> "EarlierRun":
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


@dataclass(frozen=True)
class RunCounts:
    """Counts of a whole run.

    judged: calls of the judge, which may be another model at another price; in no sum.
    rule: how tokens were counted.
    reply_tokens: tokens of a usual reply; `measured` where roles have lengths from real replies.
    questions: how many questions were sampled for each phase.
    warnings: differences between the run and what its user may expect.
    clusters: numbers of questions of the evaluated clusters.
    """

    plan: Plan
    phases: tuple[PhaseCounts, ...]
    judged: PhaseCounts | None
    rule: str
    reply_tokens: int
    measured: bool
    questions: int
    warnings: tuple[str, ...]
    earlier: EarlierRun | None
    clusters: tuple[int, ...]

    @property
    def whole(self) -> PhaseCounts:
        """Sum of all phases, without the judge."""
        return total(self.phases)

    @property
    def hours(self) -> float | None:
        return hours(self.plan.config.costs, self.earlier, self.whole)

    @property
    def price(self) -> float | None:
        return self.plan.config.costs.price(self.whole.prompt, self.whole.completion)


def hours(costs: CostSettings, earlier: EarlierRun | None, counts: PhaseCounts) -> float | None:
    """Hours at stated speeds without any cache, else as an earlier run took with its caches."""
    if any(rates := (costs.prompt_tokens_per_s, costs.completion_tokens_per_s)):
        # An unstated speed takes no time: the hours are then those of the other part alone.
        per_prompt, per_completion = (1 / rate if rate else 0.0 for rate in rates)
    elif earlier:
        # Wall-clock seconds for each token that agents needed, cached ones included.
        used = earlier.used.prompt_tokens + earlier.used.completion_tokens + earlier.used.reused_tokens
        per_prompt = per_completion = earlier.seconds / used
    else:
        return None
    return (counts.prompt * per_prompt + counts.completion * per_completion) / 3600


def counts_table(counts: RunCounts) -> ResultTable:
    """Makes a row per phase, with tokens rounded to three digits."""
    # A sum of one phase would only repeat it.
    several = len(counts.phases) > 1
    # The judge comes below the sum, which does not include it.
    phases = [*counts.phases, *([counts.whole] if several else []), *([counts.judged] if counts.judged else [])]
    rows = [
        (
            phase.name,
            *(f"{n:,}" for n in (phase.discussions, phase.turns, phase.calls)),
            *map(short, (phase.prompt, phase.completion)),
        )
        for phase in phases
    ]
    return ResultTable(HEADERS, rows, tuple(_notes(counts)), total=len(counts.phases) if several else None)


def _notes(counts: RunCounts) -> Iterator[str]:
    whole, most = counts.whole, counts.plan.config.agents.max_tokens
    yield "Turns and calls are exact; a reply that cannot be read, or a call that fails, takes one more."
    if vague := [phase.name for phase in counts.phases if not phase.exact]:
        yield (
            f"Except in {', '.join(vague)}: needed turns depend on the learned graph, a system's next call on earlier "
            "replies, and a twin's samples on their length. For a learned graph these are upper bounds, as if every "
            "turn were needed and no other method had asked the same."
        )
    for method, source in counts.plan.shared_from.items():
        except_for = " except to confirm its cut" if counts.plan.learners[method].confirming else ""
        yield f"{method} learns from the discussions of {source} and holds none for its training{except_for}."
    by_role = " on average, with a measured length for each role" if counts.measured else ""
    yield (
        f"Tokens are estimated from the real prompts of {counts.questions:,} questions in each phase, counted as "
        f"{counts.rule}. A reply is assumed to have {counts.reply_tokens:,} tokens{by_role}; at the "
        f"{most:,} that agents.max_tokens allows there would be {short(whole.calls * most)} "
        "completion tokens."
    )
    for model, part in whole.by_model.items():
        own = counts.plan.config.costs.price(part.prompt, part.completion)
        yield (
            f"Of these, {counts.plan.models.phrases[model]} has {part.calls:,} calls with {short(part.prompt)} prompt "
            f"and {short(part.completion)} completion tokens expected" + (f", {own:,.2f} of the price." if own else ".")
        )
    cached = f" ({short(whole.cached)} of them from a prefix cache with room for them)" if whole.cached else ""
    if counts.plan.config.completions.reuse:
        yield (
            f"About {whole.made:,.0f} of the calls differ from each other, if no two different prompts get the same "
            f"reply; the completion cache answers the others ({1 - whole.made / max(1, whole.calls):.0%}). Computed "
            f"calls have {short(whole.made_prompt)} prompt tokens{cached} and {short(whole.made_completion)} "
            "completion tokens."
        )
    yield f"The longest prompt has about {whole.longest:,} tokens."
    yield from _cost_notes(counts)
    plan = counts.plan
    yield from power_notes(plan.config.compare, counts.clusters, compared_pairs(plan.methods, plan.clean))
    yield from (f"Warning: {warning}." for warning in counts.warnings)


def _cost_notes(counts: RunCounts) -> Iterator[str]:
    costs, taken, earlier = counts.plan.config.costs, counts.hours, counts.earlier
    if taken and (costs.prompt_tokens_per_s or costs.completion_tokens_per_s):
        yield f"Hours at the given rates: {taken:,.2f} (without any cache)."
    elif taken and earlier:
        used = earlier.used
        yield (
            f"Hours as {earlier.name} took, scaled by tokens: {taken:,.2f}; at its concurrency, with "
            f"{used.reused / (used.calls + used.reused):.0%} of calls answered from the completion cache and "
            f"{used.cached_tokens / used.prompt_tokens:.0%} of prompt tokens from a prefix cache."
        )
    gpus = sum(backend.replicas * backend.gpus_each for backend in counts.plan.models.of_agents.values())
    if taken and gpus:
        gpu_hours, each = gpus * taken, costs.gpu_hour_price
        cost = "" if each is None else f", for {each * gpu_hours:,.2f}"
        yield f"GPUs: {gpus:g}, for {gpu_hours:,.2f} GPU hours{cost}."
    if counts.price:
        whole = counts.whole
        cached = costs.price(whole.made_prompt - whole.cached, whole.made_completion, whole.cached) or 0.0
        yield f"Price at the given rates: {counts.price:,.2f} (without any cache); {cached:,.2f} with both caches."
    if counts.judged and (taken or counts.price):
        yield "The judge is in none of these."


def short(tokens: float) -> str:
    """Writes a number with three digits: 812, 45.6k, 7.89M."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if tokens >= size:
            value = tokens / size
            return f"{value:.{0 if value >= 100 else 1 if value >= 10 else 2}f}{unit}"
    return f"{tokens:.0f}"
