"""Samples of a question that speak in one order: each is drawn as alone, and equal turns recur."""

import pytest
import torch

from topologies.learning.learner import Learner
from topologies.learning.learner_settings import LearnerSettings
from topologies.learning.sampling import draws_of, sample_wirings
from topologies.wiring import KINDS, Wirings

N, T, K = 3, 2, 6
MASK = {"spatial": ~torch.eye(N, dtype=torch.bool), "temporal": torch.ones(N, N, dtype=torch.bool)}
MANY = 3000  # questions


def sampled(seed: int, shared: bool) -> Wirings:
    generator = torch.Generator().manual_seed(3)
    chances = {kind: torch.rand(1, N, 1 if kind == "decision" else N, generator=generator) for kind in KINDS}
    orders = torch.arange(K * MANY) // K * K if shared else None
    everybody = torch.ones(N, 1, dtype=torch.bool)
    return sample_wirings(K * MANY, T, MASK, chances, everybody, generator.manual_seed(seed), None, orders)


def test_each_wiring_is_drawn_as_it_would_be_alone() -> None:
    plain, common = sampled(1, False), sampled(2, True)
    for number in range(K):
        for one, other in zip(draws_of(plain).values(), draws_of(common).values(), strict=True):
            for mine, theirs in zip(one, other, strict=True):
                frequencies = mine[number::K].double().mean(0) - theirs[number::K].double().mean(0)
                assert float(frequencies.abs().max()) < 5 * (0.5 / MANY) ** 0.5


def test_samples_share_their_orders_and_nothing_else() -> None:
    wirings = sampled(1, True)
    assert (wirings.order.reshape(MANY, K, T, N) == wirings.order[::K, None]).all()
    by_question = wirings.spatial.reshape(MANY, K, T, N, N)
    assert not (by_question[:, 0] == by_question[:, 1]).all()


def test_samples_of_one_question_speak_in_one_order_where_the_settings_say_so() -> None:
    shared = LearnerSettings(shared_orders=True)
    order = Learner(["text"] * 5, settings=shared).sample(8, questions=2).order
    assert (order[:4] == order[0]).all()
    assert (order[4:] == order[4]).all()
    assert (order[0] != order[4]).any()


def test_wirings_of_several_questions_must_be_as_many_for_each() -> None:
    with pytest.raises(ValueError, match=r"\b7 wirings .*\b2 questions"):
        Learner(["text"] * 3).sample(7, questions=2)
