"""Estimator `effects`: sampled wirings as a randomised experiment, whose estimates become the edges' logits."""

from collections.abc import Mapping, Sequence
from math import sqrt

import torch
from torch import Tensor

from topologies.learning.early_stopping import end_of_estimate
from topologies.learning.edge_state import EdgeState
from topologies.learning.effects import (
    Estimate,
    Sums,
    among_peers,
    certain_harm,
    chance_of,
    credited_sum,
    posterior_by_kind,
    raw_effects,
    surprise,
)
from topologies.learning.objective import Terms, credited, terms_of
from topologies.learning.spec import LearnerSpec
from topologies.learning.stages import Stage
from topologies.wiring import KINDS, Wirings, drawn

MOST = 8.0  # logits stay within this: p is .9997 there
OWN, FINAL = "own", "final"
CREDITS = (OWN, FINAL)
LINKED = 2.0  # standard errors of the link between own scores and utility from which on own scores count


class Effects:
    """Logits that are each edge's effect / standard deviation (effects.py).

    The effect is the one on the receiver's own answers, which are many, as long as these go with the final answer's
    utility. Where they do not (agents that give no answer, a decision by other things), it is the effect on
    utility itself. Both together, weighted by their precision, measured worse: the second only adds noise. The
    objective's other terms are reported, and move nothing.

    `state`: sums over all samples so far, in double precision:
    own.<kind>, final.<kind>: [rounds or 1, sender, receiver], products with the receiver's and the utility's credit
        (`credited_sum`); bound.<credit>.<kind>: U of effects.py. squares.<kind>: of the draws alone.
    spread.<credit>.<kind>: [2]; squared credit, and the number of credits. harm.<kind>: [sender, receiver], 1 for an
        edge that was certain to harm.
    link: [3]; products of last own credits and the final one, and the squares of both.
    scores: [rounds, agents], of agents' own answers; utility: [1], of final answers; samples: [1], their number.
    """

    prefix = "seen."

    def __init__(self, spec: LearnerSpec, edges: EdgeState) -> None:
        self.spec, self.settings, self.edges = spec, spec.settings, edges
        self.visual = torch.tensor([str(modality) == "visual" for modality in spec.modalities])
        shapes: dict[str, Sequence[int]] = {"scores": (spec.rounds, len(self.visual))}
        shapes |= {"link": (3,), "utility": (1,), "samples": (1,)}
        for kind, theta in edges.logits.items():
            of_edges = ("squares", *CREDITS, *(f"bound.{credit}" for credit in CREDITS))
            shapes |= {f"{name}.{kind}": theta.shape for name in of_edges}
            shapes |= {f"spread.{credit}.{kind}": (2,) for credit in CREDITS}
            shapes |= {f"harm.{kind}": theta.shape[1:]}
        if self.settings.early_stop is not None:
            shapes["steps"] = (1,)  # how many there were, in all stages
        self.state = {name: torch.zeros(shape, dtype=torch.float64) for name, shape in shapes.items()}

    def chances(self, stage: Stage) -> dict[str, Tensor]:
        """Fair coins: they tell most about an edge, and following p was not better."""
        return {kind: torch.full_like(self.edges.logits[kind], 0.5) for kind in stage.drawn}

    def lookahead(self, steps_left: int) -> int:
        return steps_left  # only pruning changes how it samples

    def learn(
        self, stage: Stage, wirings: Wirings, turn_scores: Tensor, utility: Tensor, group: Tensor
    ) -> tuple[dict[str, Tensor], Terms]:
        """Adds one step's samples to the sums, and sets the logits anew; returns their change, by kind.

        The probability of each draw is the wirings' own: another learner's wirings will do, though their probabilities
        change from step to step. Edges that it has pruned are not drawn, and their sums stay as they are.

        An edge is credited with its receiver's own score in the round that it leads to, and with the utility of the
        final answer, both apart from what other samples of the question scored.
        """
        if not wirings.chances:
            raise ValueError("wirings have no chances: effects learns from those that `Learner.sample` draws")
        terms = terms_of(stage, self.edges.mask, self.edges.logits, self.settings)
        utility, count = utility.double(), float(self.state["samples"])
        own, final = turn_scores.double(), utility[:, None, None]
        own = credited(own, group, self.state["scores"], count)
        final = credited(final, group, self.state["utility"], count)
        # Temporal edges have no first round, and edges to the decision agent have one alone.
        credits = {"spatial": own, "temporal": own[:, 1:], "decision": final}
        edges = drawn_tensors(wirings)
        for kind, probability in wirings.chances.items():
            of_kind = {OWN: credits[kind], FINAL: final.expand_as(credits[kind])}
            self._add(kind, *edges[kind], torch.tensor(probability), credits=of_kind)
        last, of_answer = own[:, -1], final[:, -1].expand_as(own[:, -1])
        self.state["link"] += torch.stack([(last * of_answer).sum(), (last**2).sum(), (of_answer**2).sum()])
        self.state["scores"] += turn_scores.sum(0)
        self.state["utility"] += utility.sum()
        self.state["samples"] += len(utility)
        if "steps" in self.state:
            self.state["steps"] += 1
        return self._update(stage), terms

    def _add(self, kind: str, *draws: Tensor, credits: Mapping[str, Tensor]) -> Tensor:
        """Adds the draws of one kind of edge to the sums; returns their surprise."""
        allowed, taken, probability = draws
        unforeseen = surprise(taken, allowed, probability)
        for name, credit in credits.items():
            self._sum(f"{name}.{kind}", credited_sum(unforeseen, credit))
            self._sum(f"bound.{name}.{kind}", credited_sum(allowed, 0.25 * credit**2))
            of_credits = [float((credit**2).sum()), float(credit.numel())]
            self.state[f"spread.{name}.{kind}"] += torch.tensor(of_credits, dtype=torch.float64)
        self._sum(f"squares.{kind}", (unforeseen**2).sum(0))
        return unforeseen

    def _sum(self, name: str, moment: Tensor) -> None:
        total = self.state[name]
        total += moment.sum(0, keepdim=True) if len(total) == 1 else moment

    def outlook(self, steps: int, left: int) -> dict[str, Estimate]:
        """Forecasts the logits, by kind, for the end of a stage with some steps left."""
        return {
            kind: end_of_estimate(theta, int(self.state["steps"]), left) for kind, theta in self.edges.logits.items()
        }

    def begin(self, stage: Stage) -> None:
        self._update(stage)  # a sender's edges of the first stage say what to expect of its new ones

    def harmful(self, stage: Stage) -> dict[str, Tensor]:
        """Edges that are certain to harm by now, singly or all of a sender's together, and edges to an agent that no
        other hears any more; bool [sender, receiver] by kind.

        In `error_rate` of all learners at most, any edge or sender without effect is among them.
        """
        rate = self.settings.error_rate / (2 * len(CREDITS))  # half for edges, half for senders
        logits = self.edges.logits
        mask = {kind: left.any(0) for kind, left in self.edges.mask.items()}
        number = {kind: start * len(logits[kind]) for kind, start in stage.start.items()}
        of_senders = torch.stack([count.sum(1) for count in number.values()]).sum(0)
        # An edge that harms by one credit may help by the one that counts.
        doubtful = {kind: (self.edges.probability(kind) < 0.5).all(0) for kind in mask}
        worse = torch.stack([(logits[kind].mean(0) * mask[kind]).sum(1) for kind in mask]).sum(0) < 0
        gone = {kind: torch.zeros_like(left) for kind, left in mask.items()}
        for credit in CREDITS:
            sums = self._sums(credit)
            senders = certain_harm(_senders(sums), of_senders, len(of_senders), rate) & worse
            for kind, count in number.items():
                edges = certain_harm(sums[kind].over(0), count, int(of_senders.sum()), rate) & doubtful[kind]
                gone[kind] |= edges | senders[:, None]
        for kind, cut in gone.items():
            self.state[f"harm.{kind}"] = self.state[f"harm.{kind}"].maximum((cut & mask[kind]).double())
        if not bool(stage.start["decision"].any()):
            return gone  # the decision agent reads all
        left = {kind: mask[kind] & ~gone[kind] for kind in mask}
        others = ~torch.eye(len(self.visual), dtype=torch.bool)
        # Agents that only themselves would hear.
        unheard = ~(((left["spatial"] | left["temporal"]) & others).any(1) | left["decision"][:, 0])
        return {kind: cut if kind == "decision" else cut | unheard for kind, cut in gone.items()}

    def certain_harm(self) -> dict[str, Tensor]:
        """Returns the edges that `harmful` has named so far, bool [sender, receiver] by kind."""
        return {kind: self.state[f"harm.{kind}"] > 0 for kind in KINDS}

    def evidence(self) -> float:
        """Returns the chance of scores like these if no edge had an effect, corrected for the number of tests.

        Tests are of all edges, all senders, all edges together, and senders weighted by their own scores, each by both
        credits.
        """
        better = among_peers(self._mean_scores(), self.visual)
        chances = []
        for credit in CREDITS:
            sums = self._sums(credit)
            senders = _senders(sums)
            weighted = Sums((better * senders.total).sum()[None], (better**2 * senders.spread).sum()[None])
            edges = Sums(*(torch.cat([part.flatten() for part in parts]) for parts in zip(*sums.values(), strict=True)))
            everything = Sums(senders.total.sum()[None], senders.spread.sum()[None])
            chances += [chance_of(each) for each in (edges, senders, everything, weighted)]
        return min(1.0, len(chances) * min(chances))

    def _mean_scores(self) -> Tensor:
        """Of each agent's own answers [agents]; 0 before the first sample."""
        return self.state["scores"].mean(0) / self.state["samples"].clamp(min=1)

    def _sums(self, credit: str) -> dict[str, Sums]:
        return {kind: Sums(self.state[f"{credit}.{kind}"], self.state[f"bound.{credit}.{kind}"]) for kind in KINDS}

    def _update(self, stage: Stage) -> dict[str, Tensor]:
        """Sets the stage's logits by the sums; returns the change, by kind."""
        change, harm = {}, self.certain_harm()
        for kind, effect in self.posterior().items():
            theta = (effect.mean / effect.variance.sqrt()).clamp(-MOST, MOST).float()
            change[kind] = (theta - self.edges.logits[kind]) * stage.start[kind]
            self.edges.logits[kind] += change[kind]
            self.edges.rank_anew(kind, harm[kind])
        return change

    def credit(self) -> str:
        return OWN if self._linked() else FINAL

    def posterior(self) -> dict[str, Estimate]:
        """Effects by the sums so far, [rounds or 1, sender, receiver] by kind."""
        credit, raw = self.credit(), {}
        for kind in KINDS:
            squared, count = self.state[f"spread.{credit}.{kind}"]
            # As long as all samples of a question score the same, not even the absence of an effect is known.
            spread = (squared / count.clamp(min=1)).where(squared > 0, torch.inf)
            raw[kind] = raw_effects(self.state[f"{credit}.{kind}"], self.state[f"squares.{kind}"], spread)
        return posterior_by_kind(raw, self._mean_scores(), self.visual)

    def _linked(self) -> bool:
        """True if utility rises with agents' own scores: the slope of one on the other, in its standard errors.

        Receivers of one discussion share its utility, so that all of them count as one.
        """
        product, own, final = (float(part) for part in self.state["link"])
        if own <= 0:
            return False
        slope = product / own
        residual = max(final - slope * product, 0.0) / max(float(self.state["samples"]), 1.0)
        return slope > LINKED * sqrt(residual / own)


def _senders(sums: Mapping[str, Sums]) -> Sums:
    """All edges of a sender together [senders]."""
    each = [kind.over(0, 2) for kind in sums.values()]
    return Sums(*(torch.stack(parts).sum(0) for parts in zip(*each, strict=True)))


def drawn_tensors(wirings: Wirings) -> dict[str, tuple[Tensor, Tensor]]:
    """`drawn` as tensors, copied: arrays that crossed a process are read-only."""
    return {kind: (torch.tensor(allowed), torch.tensor(taken)) for kind, (allowed, taken) in drawn(wirings).items()}
