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
    significant,
    surprise,
)
from topologies.learning.interactions import MOST_AGENTS, pair_sums, without_spoilers
from topologies.learning.objective import Terms, credited
from topologies.learning.pruning_rules import worst_half
from topologies.learning.sampling import drawn
from topologies.learning.spec import LearnerSpec, Surrogate
from topologies.learning.stages import Stage
from topologies.learning.surrogate import compare, moments
from topologies.wiring import KINDS, Wirings

MOST = 8.0  # logits stay within this: p is .9997 there
OWN, FINAL = "own", "final"
CREDITS = (OWN, FINAL)
RENEWED = 0.5  # share of the edges into a receiver whose cut makes another receiver of it
CHANGED = 2.0  # standard errors of a change of the mean effect from which on what was seen before counts no more
LINKED, WEAK = 2.0, 0.2  # own scores count until the link to utility lacks so many standard errors and is surely weak


class Effects:
    """Logits that are each edge's effect / standard deviation (effects.py).

    The effect is the one on the receiver's own answers, which are many, as long as these go with the final answer's
    utility. Where they do not (agents that give no answer, a decision by other things), it is the effect on utility
    itself. Both together, weighted by their precision, measured worse: the second only adds noise.

    `state`: sums over all samples so far, in double precision:
    sums.<kind>: [5, rounds or 1, sender, receiver]; squares of draws, products with the receiver's and the utility's
        credit (`credited_sum`), and U of effects.py by both.
    spread.<kind>: [2, credits]; squared credit, and the number of credits. harm.<kind>: [sender, receiver], 1 for an
        edge that was certain to harm.
    link: [3]; products of last own credits and the final one, and the squares of both.
    scores: [rounds, agents], of agents' own answers; utility: [1], of final answers; samples: [1], their number.
    senders: [5, agents], `surrogate.moments`; pairs: [4, agents, agents], `interactions.pair_sums`.
    apart: [2, agents], own scores minus the modality's and their squares, over `questions` questions; steps: [1].
    old.<kind>: sums from before receivers lost half of what they heard; changed: 1 where these count no more.
    heard: [2, agents + 1], how many agents each receiver (the decision agent last) heard then, and how often it began
        anew.
    """

    prefix = "seen."

    def __init__(self, spec: LearnerSpec, edges: EdgeState) -> None:
        self.spec, self.settings, self.edges = spec, spec.settings, edges
        self.visual = torch.tensor([str(modality) == "visual" for modality in spec.modalities])
        agents = len(self.visual)
        paired = agents if agents <= MOST_AGENTS else 0
        shapes: dict[str, Sequence[int]] = {"scores": (spec.rounds, agents), "link": (3,), "utility": (1,)}
        shapes |= {"samples": (1,), "senders": (5, agents), "pairs": (4, paired, paired), "apart": (2, agents)}
        shapes |= {"questions": (), "heard": (2, agents + 1), "changed": (), "steps": (1,)}
        for kind, theta in edges.logits.items():
            shapes |= {f"{epoch}.{kind}": (1 + 2 * len(CREDITS), *theta.shape) for epoch in ("sums", "old")}
            shapes |= {f"spread.{kind}": (2, len(CREDITS)), f"harm.{kind}": theta.shape[1:]}
        self.state = {name: torch.zeros(shape, dtype=torch.float64) for name, shape in shapes.items()}

    def chances(self, stage: Stage) -> dict[str, Tensor]:
        """Fair coins: they tell most about an edge, and following p was not better."""
        return {kind: torch.full_like(self.edges.logits[kind], 0.5) for kind in stage.drawn}

    def lookahead(self, steps_left: int) -> int:
        return steps_left  # only pruning changes how it samples

    def learn(
        self, stage: Stage, wirings: Wirings, turn_scores: Tensor, utility: Tensor, group: Tensor
    ) -> tuple[dict[str, Tensor], Terms]:
        """Adds one step's samples to the sums and sets the logits. Returns their change, by kind.

        The probability of each draw is the wirings' own: another learner's wirings will do, though their probabilities
        change from step to step. Edges that it has pruned are not drawn, and their sums stay as they are.

        An edge is credited with its receiver's own score in the round that it leads to, and with the utility of the
        final answer, both apart from what other samples of the question scored.
        """
        if not wirings.chances:
            raise ValueError("wirings have no chances: effects learns from those that `Learner.sample` draws")
        utility, of_answers = utility.double(), self.state["utility"].expand(self.spec.rounds, 1)
        values = torch.cat([turn_scores.double(), utility[:, None, None].expand(-1, self.spec.rounds, 1)], 2)
        before, count = torch.cat([self.state["scores"], of_answers], 1), float(self.state["samples"])
        own, final = credited(values, group, before, count).tensor_split([-1], 2)
        # Temporal edges have no first round, and edges to the decision agent have one alone.
        credits = {"spatial": own, "temporal": own[:, 1:], "decision": final[:, :1]}
        edges = drawn(wirings)
        # Surprises of each sender's edges to agents, with each credit [k, senders]; and of all kinds of edges together.
        of_own, of_final = torch.zeros(2, len(utility), len(self.visual), dtype=torch.float64)
        together, heard = torch.zeros(0), torch.zeros(0)
        self._renew({kind: taken for kind, (_, taken) in edges.items()})
        for kind, probability in wirings.chances.items():
            credit = torch.stack([credits[kind], final[:, : credits[kind].shape[1]].expand_as(credits[kind])], 1)
            unforeseen = self._add(kind, *edges[kind], torch.tensor(probability), credit)
            if kind == "decision":
                continue
            of_own += (unforeseen @ credits[kind][..., None])[..., 0].sum(1)
            of_final += unforeseen.sum((1, 3)) * final[:, 0]
            if kind == "spatial":
                together, heard = unforeseen, edges[kind][1]
            else:
                together[:, 1:] += unforeseen
                heard[:, 1:] |= edges[kind][1]
        self.state["senders"] += moments(of_own, of_final)
        if len(self.visual) <= MOST_AGENTS:
            self.state["pairs"] += pair_sums(together, heard, own)
        for question in range(int(group.max()) + 1):
            apart = among_peers(turn_scores.double()[group == question].mean((0, 1)), self.visual)
            self.state["apart"] += torch.stack([apart, apart**2])
            self.state["questions"] += 1
        last, of_answer = own[:, -1], final[:, -1].expand_as(own[:, -1])
        self.state["link"] += torch.stack([(last * of_answer).sum(), (last**2).sum(), (of_answer**2).sum()])
        self.state["scores"] += turn_scores.sum(0)
        self.state["utility"] += utility.sum()
        self.state["samples"] += len(utility)
        self.state["steps"] += 1
        # The objective's other terms would move nothing.
        return self._update(stage), Terms(*torch.zeros(3))

    def _add(self, kind: str, allowed: Tensor, taken: Tensor, probability: Tensor, credit: Tensor) -> Tensor:
        """Adds draws of a kind to the sums; returns their surprise. credit: [k, CREDITS, rounds, receiver]."""
        unforeseen, squared = surprise(taken, allowed, probability), credit**2
        bounds = credited_sum(allowed, 0.25 * squared)
        moments = torch.cat([(unforeseen**2).sum(0)[None], credited_sum(unforeseen, credit), bounds])
        total = self.state[f"sums.{kind}"]
        total += moments.sum(1, keepdim=True) if total.shape[1] == 1 else moments
        self.state[f"spread.{kind}"][0] += squared.sum((0, 2, 3))
        self.state[f"spread.{kind}"][1] += squared[:, 0].numel()
        return unforeseen

    def _renew(self, taken: Mapping[str, Tensor]) -> None:
        """Begins anew with edges into receivers that now hear half or twice as many agents. The effect of a message
        depends on how many others there are. Earlier sums count until they differ (`_changed`).

        Not where cut edges are drawn all the same, by another learner: nothing has changed there.
        """
        mask = {kind: self.edges.mask[kind].any(0) for kind in KINDS}
        if any(bool((drawn.any(0).any(0) & ~mask[kind]).any()) for kind, drawn in taken.items()):
            return
        now = torch.cat([(mask["spatial"].long() + mask["temporal"].long()).sum(0), mask["decision"].sum(0)]).double()
        before, times = self.state["heard"]
        renewed = (now > 0) & ((now <= before * RENEWED) | (now * RENEWED >= before))
        fresh = renewed & (before > 0)
        self.state["heard"] = torch.stack([now.where(renewed, before), times + fresh])
        if not bool(fresh.any()):
            return
        for kind in KINDS:
            receivers = fresh[-1:] if kind == "decision" else fresh[:-1]
            new, old = self.state[f"sums.{kind}"], self.state[f"old.{kind}"]
            old[..., receivers] = old[..., receivers] * (1 - self.state["changed"]) + new[..., receivers]
            new[..., receivers] = 0.0
        self.state["changed"].zero_()

    def _changed(self) -> bool:
        """True if the edges left between agents have another mean effect than before receivers lost others."""
        if not self._renewed():
            return False
        sums = torch.zeros(2, 2, dtype=torch.float64)
        for kind in KINDS[:2]:
            both = torch.stack([self.state[f"{epoch}.{kind}"][:2] for epoch in ("sums", "old")])
            sums += (both * (self.edges.mask[kind] & (both[1, :1] > 0))).sum((2, 3, 4))
        (new, of_new), (old, of_old) = sums.tolist()
        squared, count = self.state["spread.spatial"][:, CREDITS.index(OWN)].tolist()
        if not new or not old:
            return False
        apart = of_new / new - of_old / old
        return bool(apart**2 > CHANGED**2 * (1 / new + 1 / old) * squared / count)

    def _renewed(self) -> bool:
        """True if the sums of any receiver have begun anew (`_renew`)."""
        return bool(self.state["heard"][1].any())

    def _sums(self) -> dict[str, Tensor]:
        """Sums over all samples that count, [5, rounds or 1, sender, receiver] by kind."""
        now = {kind: self.state[f"sums.{kind}"] for kind in KINDS}
        if not self._renewed():
            return now
        return {kind: total + self.state[f"old.{kind}"] * (1 - self.state["changed"]) for kind, total in now.items()}

    def outlook(self, steps: int, left: int) -> dict[str, Estimate]:
        """Forecasts the logits, by kind, for the end of a stage with some steps left."""
        return {
            kind: end_of_estimate(theta, int(self.state["steps"]), left) for kind, theta in self.edges.logits.items()
        }

    def begin(self, stage: Stage) -> None:
        self._update(stage)  # a sender's edges of the first stage say what to expect of its new ones

    def harmful(self, stage: Stage) -> dict[str, Tensor]:
        """Finds edges that are certain to harm by now, bool [sender, receiver] by kind. They harm singly, or together
        with all others of their sender. Edges to an agent that no other hears any more are among them.

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
        gone: dict[str, Tensor] = {}
        # Each new start of an edge's test has a smaller share of the error rate: 1/2, 1/6, 1/12, ...
        times = self.state["heard"][1]
        shares = rate / ((times + 1) * (times + 2))
        tests = self._tests()
        senders = certain_harm(_senders(tests), of_senders, len(of_senders), rate) & worse
        for kind, count in number.items():
            of_receiver = shares[-1:] if kind == "decision" else shares[:-1]
            edges = certain_harm(tests[kind].over(1), count, int(of_senders.sum()), of_receiver) & doubtful[kind]
            # Reading an agent may help where hearing it harms.
            of_sender = senders[..., None] & (doubtful[kind] | (kind != "decision"))
            gone[kind] = (edges | of_sender).any(0)
        gone = worst_half(gone, {kind: theta.mean(0) for kind, theta in logits.items()}, mask)
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
        """Returns the chance of such scores without any effect, corrected for the number of tests.

        Tests are of each edge, each sender, all edges, and senders weighted by their own scores, by both credits.
        """
        tests = self._tests()
        senders, better = _senders(tests), self.state["apart"][0]
        edges = Sums(
            *(torch.cat([part.flatten(1) for part in parts], 1) for parts in zip(*tests.values(), strict=True))
        )
        # All senders together, and weighted.
        weights = torch.stack([torch.ones_like(better), better])[:, None]
        summed = Sums(*((w * part).sum(2, True) for w, part in zip((weights, weights**2), senders, strict=True)))
        chances = torch.cat([chance_of(each).flatten() for each in (edges, senders, summed)])
        return min(1.0, len(chances) * float(chances.min()))

    def _tests(self) -> dict[str, Sums]:
        """S and U of edges by kind, [credits, rounds or 1, sender, receiver]."""
        return {kind: Sums(*total[1:].tensor_split(2)) for kind, total in self._sums().items()}

    def _update(self, stage: Stage) -> dict[str, Tensor]:
        """Sets the stage's logits by the sums; returns the change, by kind."""
        change, harm = {}, self.certain_harm()
        self.state["changed"].fill_(self._changed())
        for kind, effect in self.posterior().items():
            theta = (effect.mean / effect.variance.sqrt()).clamp(-MOST, MOST).float()
            change[kind] = (theta - self.edges.logits[kind]) * stage.start[kind]
            self.edges.logits[kind] += change[kind]
            self.edges.rank_anew(kind, harm[kind])
        return change

    def posterior(self) -> dict[str, Estimate]:
        """Effects by the sums so far, [rounds or 1, sender, receiver] by kind."""
        checked = self.surrogate()
        raw = self._raw(checked.credit)
        if checked.senders and checked.low > 0:
            # In units of effects on own answers.
            final, apart = self._raw(FINAL), list(checked.senders)
            for kind in KINDS[:2]:
                for part, other, power in zip(raw[kind], final[kind], (1, 2), strict=True):
                    part[:, apart] = other[:, apart] / checked.slope**power
        if checked.credit == OWN and len(self.visual) <= MOST_AGENTS:
            squares, total = torch.stack([self._sums()[kind][:2].sum((1, 3)) for kind in KINDS[:2]]).sum(0)
            senders = total / squares.clamp(min=1e-9)
            spared = without_spoilers(self.state["pairs"], senders) - senders
            for kind in KINDS[:2]:
                raw[kind].mean.add_(spared[:, None])
        return posterior_by_kind(raw, significant(self.state["apart"], self.state["questions"]))

    def _raw(self, credit: str) -> dict[str, Estimate]:
        """Effects by one credit, before anything is expected of them."""
        raw, place = {}, CREDITS.index(credit)
        for kind, sums in self._sums().items():
            squared, count = self.state[f"spread.{kind}"][:, place]
            # As long as all samples of a question score the same, not even the absence of an effect is known.
            spread = (squared / count.clamp(min=1)).where(squared > 0, torch.inf)
            raw[kind] = raw_effects(sums[1 + place], sums[0], spread)
        return raw

    def surrogate(self) -> Surrogate:
        """Checks whether effects on own answers stand for effects on the final one. Chooses which count."""
        return compare(self.state["senders"], self._linked())

    def _linked(self) -> bool:
        """True unless it is known that utility hardly rises with agents' own scores: its slope is not above 0 by two
        standard errors, and by as many below `WEAK`. Before that, effects on utility are noise.

        Receivers of one discussion share its utility, so that all of them count as one.
        """
        product, own, final = (float(part) for part in self.state["link"])
        if own <= 0:
            return False
        slope = product / own
        error = LINKED * sqrt(max(final - slope * product, 0.0) / max(float(self.state["samples"]), 1.0) / own)
        return slope > error or slope + error > WEAK


def _senders(tests: Mapping[str, Sums]) -> Sums:
    """All edges of a sender together [credits, senders]."""
    each = [kind.over(1, 3) for kind in tests.values()]
    return Sums(*(torch.stack(parts).sum(0) for parts in zip(*each, strict=True)))
