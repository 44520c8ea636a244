"""Settings of learning and pruning: plain dataclasses, so that OmegaConf can read them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from math import exp
from typing import NamedTuple

from actors.settings import at_least, share


class Estimator(StrEnum):
    """Names of the estimators (estimators.py)."""

    REINFORCE = "reinforce"
    RLOO = "rloo"
    EFFECTS = "effects"


class Peer(StrEnum):
    """The learners' names, which are those of their methods (peers.py)."""

    M3PRUNE = "m3prune"
    RLOO = "m3prune_rloo"
    EFFECTS = "effects"
    AGENTPRUNE = "agentprune"
    GPTSWARM = "gptswarm"
    AGENTDROPOUT = "agentdropout"


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
    """The t of Eq. 13, which the pruning rate decays with: the cuts of a stage, or the rounds of each discussion."""

    CUT = "cut"
    ROUND = "round"


class Noise(StrEnum):
    """The noise term of Eq. 7, v being the distance of p * mask from the unpruned matrix.

    `rms`: relu(v - epsilon), v the root mean square over all edges; `hinge`: the same for each matrix, v its Frobenius
    norm; `squared`: the square of `hinge`. While v is above it, epsilon has an effect with `squared` alone.
    """

    RMS = "rms"
    HINGE = "hinge"
    SQUARED = "squared"


class Graph(StrEnum):
    """Graphs among whose edges a learner may choose (candidate_graphs.py)."""

    COMPLETE = "complete"
    RING = "ring"
    STAR = "star"
    TREE = "tree"
    LAYERED = "layered"
    REGULAR = "regular"
    SMALL_WORLD = "small_world"


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

    `effects` is the default of a learner by itself, because it measures best in the testbed with known truth
    (`experiment=planted`); `reinforce` is the paper's, `rloo` the same with a baseline. In a run each learned method
    has its own.

    Weights come from gradients per logit, measured with 5 textual and 4 visual agents, T = 2 and K = 10. An edge that
    raises utility by .05 pulls its logit by .012 a step, in noise of standard deviation .08 (rloo) or .11 (reinforce).
    Plain ascent with eta = .1 moves nothing in 40 steps; with Adam p spreads as in the paper's Figs. 3 and 19, yet
    mostly by that noise, and what is cut ranks little better than by chance (`experiment=planted`).
    """

    estimator: Estimator = Estimator.EFFECTS
    learning_rate: float = at_least(0, default=0.1, most=100)  # eta
    optimiser: Optimiser = Optimiser.ADAM  # the paper prints plain ascent, with which no p leaves .45 to .53
    init: Init = Init.HALF
    tau: float = at_least(0, default=1.0, most=1e6)  # temperature of Eq. 4, for init = gumbel
    likelihood: Likelihood = Likelihood.BERNOULLI
    # At weight 1 the rank pulls every logit by .06 to .13, differing by up to .06 inside a matrix, always the same way:
    # it would decide the pruning alone. At .1 it breaks ties between edges whose utilities differ by less than .02.
    rank_weight: float = at_least(0, default=0.1, most=1e6)
    rank_from: int = at_least(0, default=1)  # the first stage that has the term
    noise: Noise = Noise.RMS
    noise_weight: float = at_least(0, default=1.0, most=1e6)  # `rms` pulls all edges of a matrix alike, .002 to .003
    epsilon: float = at_least(0, default=0.1)  # the noise level that Eq. 7 tolerates
    align_weight: float = at_least(0, default=1.0, most=1e6)
    error_rate: float = share(0.05)  # `effects`: of learners to whom no edge matters, those that may hold that one does
    per_round: bool = False  # logits of their own for every round; with the rule `agents` masks too, else one for all
    # None in the next two is the estimator's own choice: the paper's, except with `effects`, where the other measured
    # best.
    decision: Decision | None = None  # None: `learned` with `effects`, else `all`
    staged: bool | None = None  # stage 1 without edges between modalities; None: False with `effects`, else True
    # The next two make turns recur among the K samples of a question, whose completions are then joined. Neither
    # changes how a wiring is drawn, nor what is expected of an estimate: only which samples have draws in common.
    shared_orders: bool = False  # the samples of a question speak in one order, drawn for it
    # How many different beginnings (all rounds but the last) the samples of a question have among them; None: each its
    # own. What the edges of a beginning do is told by comparing beginnings, so that fewer of them tell less.
    beginnings: int | None = at_least(2, default=None, most=10_000)
    # A stage ends at a look (`pruning.looks`) at which cutting would misjudge edges by at most this share of what they
    # are worth, beside cutting after all its steps (settling.py); None: never before its last step.
    settled: float | None = share(None)
    inter: bool = True  # False: no second stage and no edge between modalities
    temporal: bool = True  # False: no edges from one round to the next

    def check(self) -> None:
        """Raises ValueError with the first setting that makes no sense, its value and what it may be."""
        _one_of("estimator", self.estimator, Estimator)
        _one_of("init", self.init, Init)
        _one_of("likelihood", self.likelihood, Likelihood)
        _one_of("optimiser", self.optimiser, Optimiser)
        _one_of("noise", self.noise, Noise)
        if self.decision is not None:
            _one_of("decision", self.decision, Decision)
        if not 0 < self.error_rate < 1:
            raise ValueError(f"learner error_rate must be between 0 and 1, got {self.error_rate}")
        for name in ("learning_rate", "tau"):
            if not getattr(self, name) > 0:
                raise ValueError(f"learner {name} must be above 0, got {getattr(self, name)}")
        if self.beginnings is not None and self.beginnings < 2:
            raise ValueError(f"learner beginnings must be at least 2, to be compared, got {self.beginnings}")
        if self.settled is not None and not 0 <= self.settled <= 1:
            raise ValueError(f"learner settled must be from 0 to 1, got {self.settled}")
        for name in ("rank_weight", "noise_weight", "align_weight", "epsilon"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"learner {name} must be 0 or more, got {getattr(self, name)}")


@dataclass
class PruningSettings:
    """How fast edges go: cut t of a stage takes the share p_t = p_{t-1} exp(-t / T) of every matrix (Eqs. 13, 14).

    With eight cuts in 40 steps this share of the edges is left: p_0 = .05: .88, .1: .76, .15: .66, .2: .57, .25: .49,
    .3: .42, .4: .30, .5: .21; half of the cuts fall into the first ten steps. `effects`, which knows nothing by then,
    cuts at the end of a stage: every edge that harms and, after the last one (in stages: after each), the least beyond
    the same share.
    """

    rate: float = share(0.25)  # p_0; 0 with `effects`: harmful edges go, no others
    intra_rate: float | None = share(None)  # p_0 of the first stage (edges inside a modality), if it differs
    inter_rate: float | None = share(None)  # p_0 of the second (all others)
    # Of a stage, evenly spread over its steps; with a cut after every step nearly all come in the first nine.
    cuts: int = at_least(1, default=8)
    clock: Clock = Clock.CUT
    rule: Rule = Rule.PROGRESSIVE
    final_rate: float | None = share(None)  # share of a matrix that `once` and `agents` cut; None: as `progressive`
    agent_rate: float = share(0.2)  # with `agents`: the share of the team that goes after the first stage
    steps: int = at_least(1, default=40, most=1_000_000)  # training steps of a stage
    looks: int = at_least(0, default=4)  # `effects`: times in a stage that edges certain to harm go; 0: at its end

    def steps_to_look(self, step: int) -> int:
        """The number of steps, after `step` of a stage, until edges that are certain to harm go or the stage ends."""
        ends = spread_over(self.steps, self.looks) or [self.steps]
        return min((end for end in ends if end > step), default=step + 1) - step

    def is_look(self, step: int) -> bool:
        """Whether a stage is looked at after so many steps of it, before its end."""
        return step < self.steps and step in spread_over(self.steps, self.looks)

    def first_rate(self, intra: bool) -> float:
        """p_0 of edges inside a modality, or of all others."""
        own = self.intra_rate if intra else self.inter_rate
        return self.rate if own is None else own

    def schedule(self, first_rate: float, rounds: int) -> list[Cut]:
        """What is cut after each step of a stage; `rounds` of a discussion matter to their clock only."""
        due, share, rate = spread_over(self.steps, self.cuts), 1.0, first_rate
        made: list[Cut] = []
        for step in range(1, self.steps + 1):
            if self.clock == Clock.ROUND:
                # Section 4.3 literally: the rate decays over a discussion's rounds, and starts anew with the next.
                rate, ticks, total = first_rate, range(1, rounds + 1), rounds
            else:
                number = due.index(step) + 1 if step in due else 0
                ticks, total = range(number, number + 1) if number else range(0), len(due)
            for tick in ticks:
                rate *= exp(-tick / total)
                share *= 1 - rate
            made.append(Cut(rate, share))
        return made

    def share_at_end(self, rounds: int) -> float:
        """The share of a matrix's edges that `once` and `agents` leave.

        Without a `final_rate` it is the share that `progressive` leaves with the same p_0, so that a comparison of
        rules is one of equally sparse graphs.
        """
        return self.schedule(self.rate, rounds)[-1].share if self.final_rate is None else 1 - self.final_rate

    def check(self) -> None:
        """Raises ValueError with the first setting that makes no sense, its value and what it may be."""
        _one_of("rule", self.rule, Rule)
        _one_of("clock", self.clock, Clock)
        for name in ("rate", "intra_rate", "inter_rate", "final_rate", "agent_rate"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < 1:
                raise ValueError(f"pruning {name} must be from 0 to below 1, got {value}")
        if self.looks < 0:
            raise ValueError(f"pruning looks must be 0 or more, got {self.looks}")
        for name in ("steps", "cuts"):
            if getattr(self, name) < 1:
                raise ValueError(f"pruning {name} must be at least 1, got {getattr(self, name)}")


def spread_over(steps: int, times: int) -> list[int]:
    """The steps of a stage, from 1, after which something is due that comes so many times, evenly: cuts and looks.

    The n-th comes once n / times of the steps are done, rounded up, so the last comes after the last step; never more
    than once after a step.
    """
    times = min(times, steps)
    return [-(-steps * n // times) for n in range(1, times + 1)]


class Cut(NamedTuple):
    """After one step: p_t, the rate last used, and the share of a matrix's first edges that is left."""

    rate: float
    share: float


def _one_of(name: str, value: str, allowed: Iterable[str]) -> None:
    names = [str(each) for each in allowed]
    if value not in names:
        raise ValueError(f"{name} must be one of {', '.join(names)}, got {value}")
