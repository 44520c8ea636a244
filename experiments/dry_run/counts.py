"""Calls, tokens, hours and price of a run that has not started."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from actors.errors import UserError
from actors.messages import Usage
from experiments.config.setting_groups import CostSettings
from experiments.planning.plan import Plan
from experiments.records.recorder import RunFolder
from experiments.records.usage import by_phase


@dataclass
class PhaseCounts:
    """Counts of a phase, of all phases, or of one model's part in them.

    Turns and calls are exact as long as every reply can be read. With `exact=False` they are expected: they depend on
    learned edges or on replies. Tokens are always expected.

    prompt: tokens of prompts.
    completion: tokens of replies.
    computed, computed_prompt, computed_completion: calls that a model answers and their tokens. The completion cache
        answers the others, whose prompts repeat earlier ones.
    cached: tokens of `computed_prompt` that a prefix cache may serve.
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
    computed: float = 0.0
    computed_prompt: float = 0.0
    computed_completion: float = 0.0
    cached: float = 0.0
    longest: int = 0
    by_model: "dict[str, PhaseCounts]" = field(default_factory=dict)

    def add_call(self, prompt: float, completion: float) -> None:
        """Counts a call with its tokens."""
        self.calls += 1
        self.prompt += prompt
        self.completion += completion

    def scaled(self, name: str, discussions: int, sampled: int | None = None) -> "PhaseCounts":
        """Extrapolates the counts of a sample to all discussions of a phase. `sampled` are this sample's by default."""
        if sampled is None:
            sampled = self.discussions
        by_model = {model: part.scaled(model, discussions, sampled) for model, part in self.by_model.items()}
        scaled = replace(self, name=name, discussions=discussions, by_model=by_model)
        for key in _EXACT:
            setattr(scaled, key, getattr(self, key) * discussions // sampled)
        for key in _EXPECTED:
            setattr(scaled, key, getattr(self, key) * discussions / sampled)
        return scaled


_EXACT = ("turns", "calls")
_EXPECTED = ("prompt", "completion", "computed", "computed_prompt", "computed_completion", "cached")


def total(phases: Iterable[PhaseCounts], name: str = "all") -> PhaseCounts:
    """Sums phases, and finds the longest of their prompts."""
    sums = PhaseCounts(name)
    for phase in phases:
        sums.exact = sums.exact and phase.exact
        sums.longest = max(sums.longest, phase.longest)
        for key in ("discussions", *_EXACT, *_EXPECTED):
            setattr(sums, key, getattr(sums, key) + getattr(phase, key))
        for model, part in phase.by_model.items():
            sums.by_model[model] = total([sums.by_model.get(model, PhaseCounts()), part], model)
    return sums


@dataclass(frozen=True)
class EarlierRun:
    """Time and usage of a finished run (`costs.run`) without its judge. Mean tokens of replies by role ("": all)."""

    name: str
    seconds: float
    usage: Usage
    reply_tokens: Mapping[str, float]

    @staticmethod
    def read(path: str) -> "EarlierRun":
        """Raises UserError where `path` is no run folder, or its run called no model."""
        folder = RunFolder.open(Path(path))
        seconds = 0.0
        by_role = {"": Usage()}
        for name, phase in by_phase(folder).items():
            if name == "judging":
                continue
            seconds += phase.seconds
            by_role[""] += phase.total
            for role, role_usage in phase.agents.items():
                by_role[role] = by_role.get(role, Usage()) + role_usage

        if not seconds or not by_role[""].prompt_tokens:
            raise UserError(f"costs.run={path} has recorded no calls of a model; name a run that computed its answers")
        reply_tokens = {}
        for role, role_usage in by_role.items():
            if role_usage.calls:
                reply_tokens[role] = role_usage.completion_tokens / role_usage.calls
        return EarlierRun(folder.name, seconds, by_role[""], reply_tokens)


@dataclass(frozen=True)
class RunCounts:
    """Counts of a whole run.

    judge: calls of the judge, which may be another model at another price; in no sum.
    rule: how tokens were counted.
    reply_tokens: tokens of a usual reply; `has_measured_replies` where roles have lengths of their own.
    questions: how many questions were sampled for each phase.
    warnings: differences between the run and what its user may expect.
    clusters: numbers of questions of the evaluated clusters.
    """

    plan: Plan
    phases: tuple[PhaseCounts, ...]
    judge: PhaseCounts | None
    rule: str
    reply_tokens: int
    has_measured_replies: bool
    questions: int
    warnings: tuple[str, ...]
    earlier: EarlierRun | None
    clusters: tuple[int, ...]

    @property
    def total(self) -> PhaseCounts:
        """Sum of all phases, without the judge."""
        return total(self.phases)

    @property
    def hours(self) -> float | None:
        return hours(self.plan.config.costs, self.earlier, self.total)

    @property
    def price(self) -> float | None:
        return self.plan.config.costs.price(self.total.prompt, self.total.completion)


def hours(costs: CostSettings, earlier: EarlierRun | None, counts: PhaseCounts) -> float | None:
    """Hours at stated speeds without any cache, else as an earlier run took with its caches."""
    if costs.states_speed:
        # An unstated speed takes no time: the hours are then those of the other part alone.
        seconds = 0.0
        if costs.prompt_tokens_per_s:
            seconds += counts.prompt / costs.prompt_tokens_per_s
        if costs.completion_tokens_per_s:
            seconds += counts.completion / costs.completion_tokens_per_s
        return seconds / 3600
    if earlier:
        # Wall-clock seconds for each token that agents needed, cached ones included.
        usage = earlier.usage
        tokens = usage.prompt_tokens + usage.completion_tokens + usage.reused_tokens
        return (counts.prompt + counts.completion) * earlier.seconds / tokens / 3600
    return None
