"""Settings of learning and pruning: plain dataclasses, so that OmegaConf can read them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from math import exp


class Estimator(StrEnum):
    """Names of the estimators (estimators.py)."""

    REINFORCE = "reinforce"
    RLOO = "rloo"
    EFFECTS = "effects"


class Init(StrEnum):
    """The probabilities at the start: .5 (the paper's Fig. 19), or noise that sums to one (Eq. 4 as printed)."""

    HALF = "half"
    GUMBEL = "gumbel"


class Decision(StrEnum):
    """The agents that the decision agent reads: all, those with an edge left, or a learned column of edges."""

    ALL = "all"
    CONNECTED = "connected"
    LEARNED = "learned"


class Clock(StrEnum):
    """One tick of the pruning rate: a training step (Algorithm 1), or a round of discussion (section 4.3)."""

    STEP = "step"
    ROUND = "round"


class Inference(StrEnum):
    """Answers after learning: along one deterministic wiring (section 8), or along sampled ones."""

    THRESHOLD = "threshold"
    SAMPLED = "sampled"


class Likelihood(StrEnum):
    """The edges in the probability of a wiring: all that could be drawn, or (Eq. 8 literally) those taken."""

    BERNOULLI = "bernoulli"
    PRESENT = "present"


class Optimiser(StrEnum):
    """The update along the gradient: plain ascent (the paper's), or Adam."""

    ASCENT = "ascent"
    ADAM = "adam"


class Rule(StrEnum):
    """Names of the pruning rules (pruning_rules.py)."""

    PROGRESSIVE = "progressive"
    ONCE = "once"
    LIKELY = "likely"
    AGENTS = "agents"


@dataclass
class LearnerSettings:
    """How edges are learned. The weights are those of the objective's terms; 0 switches a term off.

    `effects` is the default because it measures best in the testbed with known truth (`experiment=planted`); the paper
    is `estimator=reinforce`. Weights come from gradients per logit, measured with 5 textual and 4 visual agents, T = 2
    and K = 10. An edge that raises utility by .05 pulls its logit by .012 a step, in noise of standard deviation .08
    (rloo) or .11 (reinforce), so in 40 steps of eta = .1 nothing moves far, and only differences inside a matrix decide
    what is cut.
    """

    estimator: Estimator = Estimator.EFFECTS
    learning_rate: float = 0.1  # eta
    optimiser: Optimiser = Optimiser.ASCENT
    init: Init = Init.HALF
    tau: float = 1.0  # temperature of Eq. 4, for init = gumbel
    likelihood: Likelihood = Likelihood.BERNOULLI
    # At weight 1 the rank pulls every logit by .06 to .13, differing by up to .06 inside a matrix, always the same way:
    # it would decide the pruning alone. At .1 it breaks ties between edges whose utilities differ by less than .02.
    rank_weight: float = 0.1
    noise_weight: float = 1.0  # pulls by .002 to .003, all edges of a matrix alike
    epsilon: float = 0.1  # noise level that Eq. 7 tolerates, as a root mean square
    align_weight: float = 0.25  # at 1 it pulls by .014; Eq. 12 divides the mean by the visual agents, four or five
    per_round: bool = False  # logits of their own for every round; masks stay shared
    # None in the next two is the estimator's own choice: the paper's, except with `effects`, where the other measured
    # best.
    decision: Decision | None = None  # None: `learned` with `effects`, else `all`
    staged: bool | None = None  # stage 1 without edges between modalities; None: False with `effects`, else True
    inter: bool = True  # False: no second stage and no edge between modalities
    temporal: bool = True  # False: no edges from one round to the next

    def check(self) -> None:
        """Raises ValueError with the first setting that makes no sense, its value and what it may be."""
        _one_of("estimator", self.estimator, Estimator)
        _one_of("init", self.init, Init)
        _one_of("likelihood", self.likelihood, Likelihood)
        _one_of("optimiser", self.optimiser, Optimiser)
        if self.decision is not None:
            _one_of("decision", self.decision, Decision)
        for name in ("learning_rate", "tau"):
            if not getattr(self, name) > 0:
                raise ValueError(f"learner {name} must be above 0, got {getattr(self, name)}")
        for name in ("rank_weight", "noise_weight", "align_weight", "epsilon"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"learner {name} must be 0 or more, got {getattr(self, name)}")


@dataclass
class PruningSettings:
    """How fast edges go: tick t cuts the share p_t = p_{t-1} exp(-t / T) of every matrix's edges (Eqs. 13, 14).

    After 40 steps this share of the edges is left, for 5 textual and 4 visual agents (rounding keeps more of a small
    matrix): p_0 = .02: 1.00, .05: .76, .1: .56, .15: .40, .2: .29, .3: .16, .5: .05. The rate decays so fast that
    nearly all cuts fall into the first quarter of a stage. `effects`, which knows nothing by then, cuts at the end of
    a stage: every edge that harms and, after the last one (in stages: after each), the least beyond the same share.
    """

    rate: float = 0.15  # p_0; 0 with `effects`: harmful edges go, no others
    intra_rate: float | None = None  # p_0 of the first stage (edges inside a modality), if it differs
    inter_rate: float | None = None  # p_0 of the second (all others)
    clock: Clock = Clock.STEP
    rule: Rule = Rule.PROGRESSIVE
    final_rate: float | None = None  # the share of every matrix that `once` and `agents` cut; None: see `share_at_end`
    agent_rate: float = 0.2  # with `agents`: the share of the team that goes after the first stage
    steps: int = 40  # training steps of a stage; T is the number of ticks in them

    def ticks(self, rounds: int) -> int:
        """Ticks of the clock in one training step."""
        return rounds if self.clock == Clock.ROUND else 1

    def first_rate(self, intra: bool) -> float:
        """p_0 of edges inside a modality, or of all others."""
        own = self.intra_rate if intra else self.inter_rate
        return self.rate if own is None else own

    def share_at_end(self) -> float:
        """The share of a matrix's edges that `once` and `agents` leave.

        Without a `final_rate` it is the share that `progressive` leaves with the same p_0, so that a comparison of
        rules is one of equally sparse graphs.
        """
        return share_left(self.rate, self.steps, self.steps) if self.final_rate is None else 1 - self.final_rate

    def check(self) -> None:
        """Raises ValueError with the first setting that makes no sense, its value and what it may be."""
        _one_of("rule", self.rule, Rule)
        _one_of("clock", self.clock, Clock)
        for name in ("rate", "intra_rate", "inter_rate", "final_rate", "agent_rate"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < 1:
                raise ValueError(f"pruning {name} must be from 0 to below 1, got {value}")
        if self.steps < 1:
            raise ValueError(f"pruning steps must be at least 1, got {self.steps}")


def share_left(rate: float, ticks: int, total: int) -> float:
    """The share of a matrix's edges that Eqs. 13 and 14 leave after so many ticks of a stage of `total`."""
    share = 1.0
    for tick in range(1, ticks + 1):
        rate *= exp(-tick / total)
        share *= 1 - rate
    return share


def _one_of(name: str, value: str, allowed: Iterable[str]) -> None:
    names = [str(each) for each in allowed]
    if value not in names:
        raise ValueError(f"{name} must be one of {', '.join(names)}, got {value}")
