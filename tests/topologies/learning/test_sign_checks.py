"""Checks of estimated effects: the sign of the surrogate, pairs of senders, and receivers that have lost messages."""

import numpy as np
import pytest
import torch

from topologies.learning.effects import by_kind, significant
from topologies.learning.interactions import pair_sums, without_spoilers
from topologies.learning.learner import Learner
from topologies.learning.learner_settings import PruningSettings
from topologies.learning.pruning_rules import worst_half
from topologies.learning.surrogate import compare, moments
from topologies.wiring import Wirings

SENDERS, SAMPLES = 6, 4000


def sums(on_own: float, on_final: float, seed: int = 0, odd: float = 0.0) -> torch.Tensor:
    """Moments of senders whose edges have these effects, the last one's on the final answer being `odd` if not 0; both
    scores share half of their noise."""
    draw = torch.Generator().manual_seed(seed)
    x = torch.randint(0, 2, (SAMPLES, SENDERS), generator=draw).double() - 0.5
    shared, own, final = torch.randn(3, SAMPLES, 1, generator=draw, dtype=torch.float64)
    effects = torch.full((SENDERS,), on_final, dtype=torch.float64)
    effects[-1] = odd or on_final
    return moments(x * (on_own * x + shared + own), x * ((x @ effects)[:, None] + shared + final))


def test_a_surrogate_of_the_right_sign_counts_and_one_of_the_wrong_sign_does_not() -> None:
    right, wrong = compare(sums(0.5, 0.3), linked=True), compare(sums(0.5, -0.3), linked=True)
    assert right.low < 0.6 < right.high
    assert (right.credit, right.low > 0, right.senders) == ("own", True, ())
    assert (wrong.credit, wrong.high < 0) == ("final", True)
    assert compare(sums(0.5, 0.3), linked=False).credit == "final"


def test_one_sender_that_helps_receivers_and_harms_the_team_is_named() -> None:
    found = compare(sums(0.5, 0.3, odd=-0.5), linked=True)
    assert (found.senders, found.credit) == ((SENDERS - 1,), "own")


def test_noise_that_both_scores_share_is_no_sign_and_without_effects_nothing_is_known() -> None:
    found = [compare(sums(0.0, 0.0, seed), linked=True) for seed in range(40)]
    assert sum(one.low > 0 or one.high < 0 for one in found) <= 4
    assert all(one.senders == () for one in found)


@pytest.mark.parametrize(("weight", "after"), [(0.5, "own"), (0.0, "final")])
def test_own_answers_count_from_the_first_question_on_until_they_are_known_to_say_nothing(
    weight: float, after: str
) -> None:
    learner, draw, credits = Learner(["text"] * 3, pruning=PruningSettings(interim=0)), np.random.default_rng(0), []
    for _ in range(40):
        own = (draw.random((10, 2, 3)) < 0.5).astype(float)
        learner.learn(learner.sample(10), own, weight * own[:, -1].mean(1) + draw.random(10) * (1 - weight))
        checked = learner.surrogate()
        assert checked is not None
        credits.append(checked.credit)
    assert (credits[0], credits[-1]) == ("own", after)


@pytest.mark.parametrize("together", [-1.0, 0.0])
def test_of_two_that_harm_together_and_help_alone_the_better_is_spared(together: float) -> None:
    draw = torch.Generator().manual_seed(1)
    heard = torch.rand(3000, 1, 3, 1, generator=draw) < 0.5
    a, b = heard[:, 0, 0, 0].double(), heard[:, 0, 1, 0].double()
    credit = 0.3 * a + 0.2 * b + together * a * b + 0.3 * torch.randn(3000, generator=draw)
    pairs = pair_sums(heard.double() - 0.5, heard, (credit - credit.mean())[:, None, None])
    senders = torch.tensor([0.3, 0.2, 0.0]).double() + together / 2 * torch.tensor([1, 1, 0])
    spared = without_spoilers(pairs, senders)
    if together:
        assert spared[0].item() == pytest.approx(0.3, abs=0.05)
        assert spared[1:].equal(senders[1:])
    else:
        assert spared.equal(senders)


def test_at_most_half_of_what_a_receiver_hears_goes_at_once_and_the_most_harmful_first() -> None:
    logits = torch.arange(9.0).view(3, 3) - 9
    logits = torch.cat([logits, logits, torch.tensor([[-1.0], [-3.0], [-2.0]])], dim=1)
    present = torch.ones_like(logits, dtype=torch.bool)
    cut = by_kind(worst_half(present, logits, present))
    assert (cut["spatial"] | cut["temporal"]).sum(0).tolist() == [2, 2, 2]
    assert cut["spatial"].sum() + cut["temporal"].sum() == 9
    assert cut["decision"].flatten().tolist() == [False, True, True]


def test_a_distance_from_peers_counts_as_far_as_it_is_no_chance() -> None:
    apart = torch.tensor([-0.4, 0.02, 0.0]).double()
    kept = significant(torch.stack([apart, apart**2 + 0.2]) * 50, torch.tensor(50.0))
    assert kept[0].item() == pytest.approx(-0.36, abs=0.02)
    assert kept[1:].tolist() == [0.0, 0.0]


def crowded(wirings: Wirings, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """A receiver is right more often when it hears anything, and less often with each message beyond two."""
    heard = (wirings.spatial | wirings.temporal).sum(2)
    right = (generator.random(heard.shape) < 0.4 + 0.4 * (heard > 0) - 0.12 * np.maximum(heard - 2, 0)).astype(float)
    return right, right[:, -1].mean(1)


@pytest.mark.slow
def test_messages_that_replace_each_other_are_not_all_cut() -> None:
    learner = Learner(["text"] * 8, seed=1, pruning=PruningSettings(rate=0.0, steps=60, interim=6))
    generator = np.random.default_rng(0)
    while not learner.finished:
        wirings = learner.sample(10)
        learner.learn(wirings, *crowded(wirings, generator))
    kept = learner.inference()
    heard = kept.spatial.sum(0) + kept.temporal.sum(0)
    # Agents that the team does not hear any more hear none either.
    assert (heard > 0).sum() >= 3
    assert heard.max() <= 8
