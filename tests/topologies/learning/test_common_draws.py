"""Samples of a question with draws in common: each is drawn as alone, estimates keep their expectation, turns recur."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Generator, Tensor

from experiments.studies.planted.worlds import different_turns
from topologies.learning.learner import Learner
from topologies.learning.learner_settings import Decision, LearnerSettings
from topologies.learning.objective import credited_slope, leave_one_out
from topologies.learning.sampling import CommonDraws, sample_wirings
from topologies.learning.variants import M3PRUNE, RLOO, Variant
from topologies.wiring import KINDS, Wirings, drawn

N, T, K = 3, 2, 6
MASK = {"spatial": ~torch.eye(N, dtype=torch.bool), "temporal": torch.ones(N, N, dtype=torch.bool)}
MANY = 3000  # questions
WAYS = [(True, None), (False, 2), (True, 2), (True, 3)]


def sampled(logits: dict[str, Tensor], seed: int, orders: bool = False, beginnings: int | None = None) -> Wirings:
    chances = {kind: theta.sigmoid() for kind, theta in logits.items()}
    common = CommonDraws.of(K * MANY, T, MANY, orders, beginnings)
    everybody = torch.ones(N, 1, dtype=torch.bool)
    return sample_wirings(K * MANY, T, MASK, chances, everybody, Generator().manual_seed(seed), None, common)


def worth(wirings: Wirings, seed: int) -> Tensor:
    """A utility of each wiring that depends on all its edges, on pairs of edges over rounds, and on the orders."""
    noise = Generator().manual_seed(seed)
    spatial, temporal = torch.tensor(wirings.spatial).double(), torch.tensor(wirings.temporal).double()
    features = torch.cat([spatial.flatten(1), temporal.flatten(1), torch.tensor(wirings.decision).double()], dim=1)
    first = features @ torch.randn(features.shape[1], generator=noise).double()
    pairs = ((features @ torch.randn(features.shape[1], 4, generator=noise).double()) ** 2).sum(1)
    order = torch.tensor(wirings.order).double().flatten(1)
    return 1 + first + 0.1 * pairs + order @ torch.randn(order.shape[1], generator=noise).double()


def gradients(variant: Variant, logits: dict[str, Tensor], wirings: Wirings, utility: Tensor) -> dict[str, Tensor]:
    """The gradient's estimate as the learner makes it, of all questions together."""
    settings = LearnerSettings(decision=Decision.LEARNED)
    learner = Learner(["text"] * N, rounds=T, variant=replace(variant, staged=False), settings=settings)
    learner._edges.logits.update(logits)
    group = torch.arange(len(utility)) // K
    made = learner._estimator
    return made._expected(wirings, made.credit(wirings, utility, group))  # type: ignore[union-attr]


def spread(gradient: dict[str, Tensor], of: Any) -> dict[str, Tensor]:
    """The standard error of a gradient's estimate, from batches of questions."""
    return {kind: torch.stack([part[kind] for part in of]).std(0) / len(of) ** 0.5 for kind in gradient}


def parts(wirings: Wirings, utility: Tensor, number: int = 30) -> list[tuple[Wirings, Tensor]]:
    size = len(utility) // number
    made = []
    for start in range(0, len(utility), size):
        cut = slice(start, start + size)
        draws = None if wirings.draws is None else wirings.draws[cut] - start
        allowed = type(wirings.allowed)(wirings.allowed.spatial[cut], wirings.allowed.temporal[cut])
        made.append(
            (
                Wirings(
                    wirings.spatial[cut],
                    wirings.temporal[cut],
                    allowed,
                    wirings.order[cut],
                    wirings.decision[cut],
                    wirings.decision_allowed[cut],
                    wirings.chances,
                    None,
                    draws,
                ),
                utility[cut],
            )
        )
    return made


@pytest.mark.slow
@settings(max_examples=4, deadline=None, derandomize=True)
@given(st.integers(0, 10_000), st.sampled_from(WAYS), st.sampled_from([M3PRUNE, RLOO]), st.sampled_from([1, 2]))
def test_a_gradient_has_the_expectation_that_plain_sampling_gives_it(
    seed: int, way: tuple[bool, int | None], variant: Variant, copies: int
) -> None:
    noise = Generator().manual_seed(seed)
    shapes = {"spatial": (copies, N, N), "temporal": (1, N, N), "decision": (1, N, 1)}
    logits = {kind: torch.randn(*shape, generator=noise).double() for kind, shape in shapes.items()}
    found = []
    for orders, beginnings in ((False, None), way):
        wirings = sampled(logits, seed + 1, orders, beginnings)
        each = [gradients(variant, logits, *part) for part in parts(wirings, worth(wirings, seed))]
        mean = {kind: torch.stack([part[kind] for part in each]).mean(0) for kind in KINDS}
        found.append((mean, spread(mean, each)))
    (plain, plain_error), (common, common_error) = found
    for kind in KINDS:
        error = (plain_error[kind] ** 2 + common_error[kind] ** 2).sqrt()
        assert bool(((plain[kind] - common[kind]).abs() <= 4.5 * error + 1e-9).all()), kind


def test_a_baseline_of_samples_that_share_the_draw_would_shrink_the_gradient() -> None:
    logits = {kind: torch.zeros(1, N, 1 if kind == "decision" else N) for kind in KINDS}
    wirings = sampled(logits, 5, True, 2)
    utility = torch.tensor(wirings.spatial[:, 0].sum((1, 2))).float()  # what the first round's edges do alone
    right = gradients(RLOO, logits, wirings, utility)["spatial"]
    allowed, taken = (torch.tensor(each) for each in drawn(wirings)["spatial"])
    naive = credited_slope(logits["spatial"], allowed, taken, leave_one_out(utility, torch.arange(K * MANY) // K))
    # Two of the five others share the draw, and what these have in common is taken off.
    edges = MASK["spatial"][None]
    assert float(naive[edges].mean() / right[edges].mean()) == pytest.approx(0.6, abs=0.1)


@pytest.mark.parametrize(("orders", "beginnings"), WAYS)
def test_each_wiring_is_drawn_as_it_would_be_alone(orders: bool, beginnings: int | None) -> None:
    noise = Generator().manual_seed(3)
    logits = {kind: torch.randn(1, N, 1 if kind == "decision" else N, generator=noise) for kind in KINDS}
    plain, common = sampled(logits, 1), sampled(logits, 2, orders, beginnings)
    for number in range(K):
        for one, other in zip(drawn(plain).values(), drawn(common).values(), strict=True):
            for mine, theirs in zip(one, other, strict=True):
                frequencies = mine[number::K].mean(0) - theirs[number::K].mean(0)
                assert float(np.abs(frequencies).max()) < 5 * (0.5 / MANY) ** 0.5


def test_samples_share_what_the_settings_say_and_nothing_else() -> None:
    logits = {kind: torch.zeros(1, N, 1 if kind == "decision" else N) for kind in KINDS}
    one = sampled(logits, 1, True)
    assert one.draws is None  # every sample has draws of its own
    assert (one.order.reshape(MANY, K, T, N) == one.order[::K, None]).all()
    two = sampled(logits, 1, False, 2)
    by_question = two.spatial.reshape(MANY, K, T, N, N)
    assert (by_question[:, 0, 0] == by_question[:, 2, 0]).all()
    assert (two.order.reshape(MANY, K, T, N)[:, 1, 0] == two.order.reshape(MANY, K, T, N)[:, 5, 0]).all()
    assert not (by_question[:, 0, 0] == by_question[:, 1, 0]).all()
    assert not (by_question[:, 0, 1] == by_question[:, 2, 1]).all()
    assert not (
        two.temporal.reshape(MANY, K, T, N, N)[:, 0, 1] == two.temporal.reshape(MANY, K, T, N, N)[:, 2, 1]
    ).all()


def test_effects_counts_a_draw_that_samples_share_once() -> None:
    common = LearnerSettings(shared_orders=True, beginnings=2)
    learner = Learner(["text"] * 4, settings=common)
    wirings = learner.sample(8, questions=2)
    scores = np.random.default_rng(0).random((8, 2, 4))
    scores[:, 0] = scores[wirings.draws[:, 0], 0]  # the same turns
    learner.learn(wirings, scores, scores.mean((1, 2)), np.arange(8) // 4)
    sums = learner._estimator.sums  # type: ignore[union-attr]
    leads = wirings.draws[:, 0] == np.arange(8)
    assert leads.sum() == 4
    # Each fair coin has a squared surprise of 1/4; in the second round every sample tossed its own.
    allowed = wirings.allowed.spatial[leads, 0].sum(0) + wirings.allowed.spatial[:, 1].sum(0)
    assert torch.allclose(sums["squares.spatial"][0], torch.tensor(allowed).double() / 4)
    assert float(sums["spread.own.spatial"][1]) == (4 + 8) * 4
    assert float(sums["spread.own.temporal"][1]) == 8 * 4


def test_equal_histories_are_the_same_turn() -> None:
    alone, shared, halves = (
        Learner(["text"] * 5 + ["visual"] * 4, variant=RLOO, settings=settings).sample(10)
        for settings in (
            LearnerSettings(),
            LearnerSettings(shared_orders=True),
            LearnerSettings(shared_orders=True, beginnings=2),
        )
    )
    counts = [different_turns(wirings)[0] for wirings in (alone, shared, halves)]
    assert counts == sorted(counts, reverse=True)
    assert counts[2] <= 10 * 10 + 2 * 9  # ten second rounds with their decisions, and two first ones
    same = Learner(["text"] * 5).sample(1)
    twice = type(same)(
        *(np.concatenate([each, each]) for each in (same.spatial, same.temporal)),
        same.allowed,
        np.concatenate([same.order] * 2),
        np.concatenate([same.decision] * 2),
        same.decision_allowed,
    )
    assert different_turns(twice) == different_turns(same)


def test_wirings_of_several_questions_must_be_as_many_for_each() -> None:
    with pytest.raises(ValueError, match="7 wirings cannot be drawn for 2 questions"):
        Learner(["text"] * 3).sample(7, questions=2)
