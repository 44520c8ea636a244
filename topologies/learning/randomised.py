"""Estimator `effects`: sampled wirings as a randomised experiment, whose estimates become the edges' logits."""

from collections.abc import Mapping, Sequence
from math import sqrt

import torch
from torch import Tensor

from topologies.learning.edge_state import EdgeState
from topologies.learning.effects import (
    Estimate,
    Sums,
    among_peers,
    by_kind,
    certain_harm,
    chance_of,
    credited_sum,
    posterior_of_all,
    raw_effects,
    sender_sums,
    side_by_side,
    significant,
    sums_to_agents,
    surprise,
)
from topologies.learning.estimator import EdgeEstimator, ScoredDiscussions
from topologies.learning.grades import relative_grades
from topologies.learning.interactions import MOST_AGENTS, pair_sums, without_spoilers
from topologies.learning.objective import Terms, credited
from topologies.learning.pruning_rules import worst_half
from topologies.learning.sampling import Draws, draws_of
from topologies.learning.spec import LearnerSpec, Surrogate
from topologies.learning.stages import Stage
from topologies.learning.surrogate import compare, moments
from topologies.wiring import KINDS, Floats

OWN, FINAL = "own", "final"
CREDITS = (OWN, FINAL)
BETWEEN_AGENTS = KINDS[:2]
RESTART = 0.5
"""Share of the agents that a receiver hears whose loss makes another receiver of it."""
CHANGED = 2.0
"""Standard errors of a change of the mean effect from which on sums from before a restart count no more."""
LINKED, WEAK = 2.0, 0.2
"""Own scores count until the link to utility lacks so many standard errors and is surely below this slope."""


class Effects(EdgeEstimator):
    """Logits that are each edge's effect / standard deviation (effects.py).

    The effect is the one on the receiver's own answers, which are many, as long as these go with the final answer's
    utility. Where they do not (agents that give no answer, a decision by other things), it is the effect on utility
    itself. Both together, weighted by their precision, measured worse: the second only adds noise.

    All rounds share an edge's logit. `state` has sums over all samples so far, in double precision:
    sums.<kind>: [5, 1, sender, receiver]; squares of surprises, products with the receiver's and the utility's credit
        (`credited_sum`), and U of effects.py by both.
    spread.<kind>: [2, credits]; squared credit, and the number of credits. harm.<kind>: [sender, receiver], 1 for an
        edge that was certain to harm.
    link: [3]; products of last own credits and the final one, and the squares of both.
    scores: [rounds, agents], of agents' own answers; utility: [1], of final answers; samples: [1], their number.
    senders: [5, agents], `surrogate.moments`; pairs: [4, agents, agents], `interactions.pair_sums`.
    apart: [2, agents], own scores minus the modality's and their squares, over `questions` questions; steps: [1].
    old.<kind>: sums from before receivers lost half of what they heard; changed: 1 where these count no more.
    heard: [2, agents + 1], how many agents each receiver (the decision agent last) heard when its sums were last
        restarted, and how often they were.
    """

    prefix = "seen."

    def __init__(self, spec: LearnerSpec, edges: EdgeState) -> None:
        super().__init__(spec, edges)
        assert not edges.by_round, "an edge has one effect in all rounds"
        self.visual = torch.tensor(spec.visual)
        agents = len(self.visual)
        self.looks_at_pairs = agents <= MOST_AGENTS

        paired = agents if self.looks_at_pairs else 0
        shapes: dict[str, Sequence[int]] = {
            "scores": (spec.rounds, agents),
            "utility": (1,),
            "samples": (1,),
            "link": (3,),
            "senders": (5, agents),
            "pairs": (4, paired, paired),
            "apart": (2, agents),
            "questions": (),
            "heard": (2, agents + 1),
            "changed": (),
            "steps": (1,),
        }

        for kind, logits in edges.logits.items():
            shapes[f"sums.{kind}"] = (1 + 2 * len(CREDITS), *logits.shape)
            shapes[f"old.{kind}"] = shapes[f"sums.{kind}"]
            shapes[f"spread.{kind}"] = (2, len(CREDITS))
            shapes[f"harm.{kind}"] = logits.shape[1:]
        self.state = {name: torch.zeros(shape, dtype=torch.float64) for name, shape in shapes.items()}

    def chances(self, stage: Stage) -> dict[str, Tensor]:
        """Fair coins: they tell most about an edge, and following p was not better."""
        return self.constant_chances(stage, 0.5)

    def lookahead(self, steps_left: int) -> int:
        return steps_left  # only pruning changes how it samples

    def learn(self, stage: Stage, discussions: ScoredDiscussions) -> tuple[dict[str, Tensor], Terms]:
        """Adds one step's samples to the sums and sets the logits. Returns their change, by kind.

        The probability of each draw is the wirings' own: another learner's wirings will do, though their probabilities
        change from step to step. Edges that it has pruned are not drawn, and their sums stay as they are.

        An edge is credited with its receiver's own score in the round that it leads to, and with the utility of the
        final answer, both apart from what other samples of the question scored.
        """
        chances = discussions.wirings.chances
        if not chances:
            raise ValueError("wirings have no chances: effects learns from those that `Learner.sample` draws")
        own_credit, final_credit = self._credits(discussions)
        draws = draws_of(discussions.wirings)
        self._restart_sums(draws)

        # Temporal edges have no first round, and edges to the decision agent have one alone.
        credits = {"spatial": own_credit, "temporal": own_credit[:, 1:], "decision": final_credit[:, :1]}
        surprises: dict[str, Tensor] = {}
        for kind, probability in chances.items():
            allowed_edges, drawn_edges = draws[kind]
            surprises[kind] = surprise(drawn_edges, allowed_edges, torch.tensor(probability))
            final_of_kind = final_credit[:, : credits[kind].shape[1]].expand_as(credits[kind])
            credit = torch.stack([credits[kind], final_of_kind], 1)
            self._add(kind, draws[kind], surprises[kind], credit, discussions.wirings.features)

        samples, _, agents = own_credit.shape

        # Surprises of each sender's edges to agents, weighted by either credit.
        own_sums = torch.zeros(samples, agents, dtype=torch.float64)
        final_sums = torch.zeros_like(own_sums)
        for kind in BETWEEN_AGENTS:
            own_sums += (surprises[kind] @ credits[kind][..., None])[..., 0].sum(1)
            final_sums += surprises[kind].sum((1, 3)) * final_credit[:, 0]
        self.state["senders"] += moments(own_sums, final_sums)

        if self.looks_at_pairs:
            heard_edges = draws["spatial"].drawn_edges
            heard_edges[:, 1:] |= draws["temporal"].drawn_edges
            surprises["spatial"][:, 1:] += surprises["temporal"]
            self.state["pairs"] += pair_sums(surprises["spatial"], heard_edges, own_credit)

        for question in discussions.questions:
            turn_scores = discussions.turn_scores[discussions.question == question]
            difference = among_peers(turn_scores.mean((0, 1)), self.visual)
            self.state["apart"] += torch.stack([difference, difference**2])
            self.state["questions"] += 1

        last_own = own_credit[:, -1]
        last_final = final_credit[:, -1].expand_as(last_own)
        link = [(last_own * last_final).sum(), (last_own**2).sum(), (last_final**2).sum()]
        self.state["link"] += torch.stack(link)
        self.state["scores"] += discussions.turn_scores.sum(0)
        self.state["utility"] += discussions.utility.double().sum()
        self.state["samples"] += samples
        self.state["steps"] += 1
        # The objective's other terms would move nothing.
        return self._set_logits(stage), Terms()

    def _credits(self, discussions: ScoredDiscussions) -> tuple[Tensor, Tensor]:
        """Credits of each turn [k, rounds, agents] and of the final answer [k, rounds, 1]."""
        rounds = self.spec.rounds
        utility = discussions.utility.double()[:, None, None].expand(-1, rounds, 1)
        values = torch.cat([discussions.turn_scores, utility], 2)
        earlier = torch.cat([self.state["scores"], self.state["utility"].expand(rounds, 1)], 1)
        credit = credited(values, discussions.question, earlier, float(self.state["samples"]))
        return credit[..., :-1], credit[..., -1:]

    def _add(self, kind: str, draws: Draws, surprises: Tensor, credit: Tensor, features: Floats | None) -> None:
        """Adds draws of a kind to the sums.

        credit: [k, CREDITS, rounds, receiver]; features: of the questions [k, d].
        """
        squared_credit = credit**2
        squares = (surprises**2).sum(0)[None]
        products = credited_sum(surprises, credit)
        bounds = credited_sum(draws.allowed_edges, 0.25 * squared_credit)
        self.state[f"sums.{kind}"] += torch.cat([squares, products, bounds]).sum(1, keepdim=True)
        credit_squares = self.state[f"spread.{kind}"]
        credit_squares[0] += squared_credit.sum((0, 2, 3))
        credit_squares[1] += squared_credit[:, 0].numel()

    def _restart_sums(self, draws: Mapping[str, Draws]) -> None:
        """Begins anew with edges into receivers that now hear half or twice as many agents. The effect of a message
        depends on how many others there are. Earlier sums count until they differ (`_mean_effect_changed`).

        Not where cut edges are drawn all the same, by another learner: nothing has changed there.
        """
        mask = self._mask()
        was_drawn = {kind: draws[kind].drawn_edges.any(0).any(0) for kind in KINDS}
        if (side_by_side(was_drawn) & ~mask).any():
            return

        agents = len(mask)
        number = mask.sum(0)
        senders = torch.cat([number[:agents] + number[agents:-1], number[-1:]]).double()
        senders_before, restarts = self.state["heard"]
        fewer_or_more = (senders <= senders_before * RESTART) | (senders * RESTART >= senders_before)
        changed = (senders > 0) & fewer_or_more
        restarted = changed & (senders_before > 0)
        self.state["heard"] = torch.stack([senders.where(changed, senders_before), restarts + restarted])
        if not restarted.any():
            return

        for kind in KINDS:
            receivers = restarted[-1:] if kind == "decision" else restarted[:-1]
            new = self.state[f"sums.{kind}"]
            old = self.state[f"old.{kind}"]
            old[..., receivers] = old[..., receivers] * (1 - self.state["changed"]) + new[..., receivers]
            new[..., receivers] = 0.0
        self.state["changed"].zero_()

    def _mask(self) -> Tensor:
        """Edges that are left, bool [sender, 2 N + 1]."""
        return side_by_side(self.edges.mask)[0]

    @property
    def _restarted(self) -> bool:
        """True if the sums of any receiver have begun anew."""
        return bool(self.state["heard"][1].any())

    def _mean_effect_changed(self) -> bool:
        """True if the edges left between agents have another mean effect than before receivers lost others."""
        if not self._restarted:
            return False
        new = self._part("sums")[:2]
        old = self._part("old")[:2]
        counts = (self._mask() & (old[0] > 0))[:, :-1]

        new_squares, new_products = (new[..., :-1] * counts).sum((1, 2)).tolist()
        old_squares, old_products = (old[..., :-1] * counts).sum((1, 2)).tolist()
        if not new_squares or not old_squares:
            return False

        difference = new_products / new_squares - old_products / old_squares
        squared_credit, count = self.state["spread.spatial"][:, CREDITS.index(OWN)].tolist()
        variance = (1 / new_squares + 1 / old_squares) * squared_credit / count
        return bool(difference**2 > CHANGED**2 * variance)

    def _part(self, name: str) -> Tensor:
        """Sums of one name, [5, sender, 2 N + 1]."""
        return side_by_side({kind: self.state[f"{name}.{kind}"] for kind in KINDS})[:, 0]

    def _sums(self) -> Tensor:
        """Sums over all samples that count, [5, sender, 2 N + 1]."""
        sums = self._part("sums")
        if self._restarted:
            sums = sums + self._part("old") * (1 - self.state["changed"])
        return sums

    def forecast(self, steps: int, steps_left: int) -> dict[str, Estimate]:
        # Of all stages: sums go on.
        return super().forecast(int(self.state["steps"]), steps_left)

    def begin(self, stage: Stage) -> None:
        self._set_logits(stage)  # a sender's edges of the first stage say what to expect of its new ones

    def harmful(self, stage: Stage) -> dict[str, Tensor]:
        """Finds edges that are certain to harm by now, bool [sender, receiver] by kind. They harm singly, or together
        with all others of their sender. Edges to an agent that no other hears any more are among them.

        In `error_rate` of all learners at most, any edge or sender without effect is among them.
        """
        rate = self.settings.error_rate / (2 * len(CREDITS))  # half for edges, half for senders
        edges = side_by_side(stage.start).long()
        sender_edges = edges.sum(1)
        logits = side_by_side(self.edges.logits)[0]
        mask = self._mask()
        # An edge that harms by one credit may help by the one that counts, of which the logits are.
        harms = logits.sigmoid() < 0.5

        sums = self._sums()
        total, bound = sums[1:3], sums[3:]
        sender_test = Sums(sender_sums(total), sender_sums(bound))
        senders = certain_harm(sender_test, sender_edges, len(edges), rate) & (sender_sums(logits * mask) < 0)

        # Each new start of an edge's test has a smaller share of the error rate: 1/2, 1/6, 1/12, ...
        restarts = self.state["heard"][1]
        rates = rate / ((restarts + 1) * (restarts + 2))
        column_rates = torch.cat([rates[:-1], rates])
        singly = certain_harm(Sums(total, bound), edges, int(edges.sum()), column_rates) & harms
        with_sender = senders[..., None].expand_as(singly).clone()
        # Reading an agent may help where hearing it harms.
        with_sender[..., -1] &= harms[:, -1]
        harmful = worst_half((singly | with_sender).any(0), logits, mask)

        for kind, harmful_now in by_kind((harmful & mask).double()).items():
            self.state[f"harm.{kind}"] = self.state[f"harm.{kind}"].maximum(harmful_now)
        if stage.start["decision"].any():  # else the decision agent reads all
            remaining = by_kind(mask & ~harmful)
            to_others = (remaining["spatial"] | remaining["temporal"]) & ~torch.eye(len(edges), dtype=torch.bool)
            silent = ~(to_others.any(1) | remaining["decision"][:, 0])
            harmful[:, :-1] |= torch.cat([silent, silent])
        return by_kind(harmful)

    def worse_agents(self) -> Tensor:
        total, squares = self.state["apart"]
        grades = relative_grades(total, squares, self.state["questions"], self.settings.error_rate)
        return (grades < -1)[:, None]

    def certain_harm(self) -> dict[str, Tensor]:
        return {kind: self.state[f"harm.{kind}"] > 0 for kind in KINDS}

    def evidence(self) -> float:
        """Chance of such scores without any effect, corrected for the number of tests.

        Tests are of each edge, each sender, all edges, and senders weighted by their own scores, by both credits.
        """

        sums = self._sums()
        total, bound = sums[1:3], sums[3:]
        edges = Sums(total.flatten(1), bound.flatten(1))
        senders = Sums(sender_sums(total), sender_sums(bound))

        own_scores = self.state["apart"][0]
        weights = torch.stack([torch.ones_like(own_scores), own_scores])[:, None]
        together = Sums((weights * senders.total).sum(2, True), (weights**2 * senders.bound).sum(2, True))
        chances = torch.cat([chance_of(test).flatten() for test in (edges, senders, together)])
        return min(1.0, len(chances) * float(chances.min()))

    def _set_logits(self, stage: Stage) -> dict[str, Tensor]:
        """Sets the stage's logits by the sums; returns the change, by kind."""
        change = {}
        harm = self.certain_harm()
        self.state["changed"].fill_(self._mean_effect_changed())
        for kind, logits in by_kind(self.posterior().logits).items():
            change[kind] = (logits - self.edges.logits[kind]) * stage.start[kind]
            self.edges.logits[kind] += change[kind]
            self.edges.rank_anew(kind, harm[kind])
        return change

    def posterior(self) -> Estimate:
        """Effects by the sums so far, [sender, 2 N + 1]."""

        sums = self._sums()
        surrogate = self.surrogate()
        raw = self._raw(sums, surrogate.credit)

        if surrogate.senders and surrogate.low > 0:
            # In units of effects on own answers.
            final = self._raw(sums, FINAL)
            senders = list(surrogate.senders)
            raw.mean[senders, :-1] = final.mean[senders, :-1] / surrogate.slope
            raw.variance[senders, :-1] = final.variance[senders, :-1] / surrogate.slope**2

        if surrogate.credit == OWN and self.looks_at_pairs:
            squares, products = sums_to_agents(sums[:2])
            sender_effects = products / squares.clamp(min=1e-9)
            gains = without_spoilers(self.state["pairs"], sender_effects) - sender_effects
            raw.mean[:, :-1] += gains[:, None]

        return posterior_of_all(raw, significant(self.state["apart"], self.state["questions"]))

    def _raw(self, sums: Tensor, credit: str) -> Estimate:
        """Effects by one credit, before anything is expected of them."""
        place = CREDITS.index(credit)
        variances = []
        for kind in KINDS:
            squared, count = self.state[f"spread.{kind}"][:, place]
            # As long as all samples of a question score the same, not even the absence of an effect is known.
            variance = (squared / count.clamp(min=1)).where(squared > 0, torch.inf)
            variances.append(variance.expand(self.edges.mask[kind].shape[1:]))
        return raw_effects(sums[1 + place], sums[0], torch.cat(variances, dim=1))

    def surrogate(self) -> Surrogate:
        return compare(self.state["senders"], self._linked())

    def _linked(self) -> bool:
        """True unless it is known that utility hardly rises with agents' own scores: its slope is not above 0 by two
        standard errors, and by as many below `WEAK`. Before that, effects on utility are noise.

        Receivers of one discussion share its utility, so that all of them count as one.
        """
        product, own_square, final_square = self.state["link"].tolist()
        if own_square <= 0:
            return False
        slope = product / own_square
        samples = float(self.state["samples"])
        error = LINKED * sqrt(max(final_square - slope * product, 0.0) / samples / own_square)
        return bool(slope > error or slope + error > WEAK)
