"""Sampling, the policy gradient, pruning and the objective's terms, against enumeration and finite differences."""

from math import log

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Generator, Tensor

from topologies.learning.objective import alignment, credited_slope, leave_one_out, noise, nuclear_norm
from topologies.learning.pruning_rules import largest
from topologies.learning.sampling import allowed_spatial, sample_edges, sample_permutations


def seeded(seed: int = 0) -> Generator:
    return Generator().manual_seed(seed)


def log_probability(logits: Tensor, allowed: Tensor, taken: Tensor) -> Tensor:
    """log P of each wiring [k] given its speaking orders (Eq. 8): the reference for `credited_slope`."""
    theta = logits.expand(allowed.shape[1:]).reshape(-1)
    drawn, could = taken.flatten(1).to(theta.dtype), allowed.flatten(1).to(theta.dtype)
    return drawn @ theta - could @ torch.nn.functional.softplus(theta)


def test_log_probability_is_the_sum_written_out_edge_by_edge() -> None:
    logits = torch.randn(2, 4, 4, generator=seeded(3), dtype=torch.float64)
    allowed = allowed_spatial(~torch.eye(4, dtype=torch.bool), sample_permutations(5, 2, 4, seeded(4)))
    taken = sample_edges(logits.sigmoid(), allowed, seeded(5))
    for k, value in enumerate(log_probability(logits, allowed, taken).tolist()):
        expected = 0.0
        for t, j, i in allowed[k].nonzero().tolist():
            p = logits[t, j, i].sigmoid().item()
            expected += log(p if taken[k, t, j, i] else 1 - p)
        assert value == pytest.approx(expected)


@pytest.mark.parametrize("copies", [1, 3])
def test_the_slope_written_out_is_the_gradient_to_the_bit(copies: int) -> None:
    logits = torch.randn(copies, 7, 7, generator=seeded(3), requires_grad=True)
    allowed = allowed_spatial(~torch.eye(7, dtype=torch.bool), sample_permutations(10, 3, 7, seeded(4)))
    taken = sample_edges(logits.sigmoid(), allowed, seeded(5))
    credit = torch.randn(10, generator=seeded(6))
    (credit * log_probability(logits, allowed, taken)).mean().backward()
    assert logits.grad is not None
    assert torch.equal(credited_slope(logits.detach(), allowed, taken, credit), logits.grad)


def test_the_slope_stays_finite_at_extreme_logits() -> None:
    logits = torch.tensor([[[0.0, 200.0], [-200.0, 0.0]]])
    allowed = torch.tensor([[[[False, True], [True, False]]]])
    assert credited_slope(logits, allowed, allowed, torch.ones(1)).isfinite().all()


def test_credit_of_receivers_moves_the_edges_into_them_alone() -> None:
    generator = torch.Generator().manual_seed(0)
    taken, logits = torch.rand(6, 2, 3, 3, generator=generator) < 0.5, torch.randn(1, 3, 3, generator=generator)
    allowed = taken | (torch.rand(6, 2, 3, 3, generator=generator) < 0.5)
    credit = torch.randn(6, generator=generator)
    of_all = credited_slope(logits, allowed, taken, credit)
    alike = credit[:, None, None].expand(6, 2, 3).double()
    assert torch.allclose(credited_slope(logits, allowed, taken, alike), of_all, atol=1e-6)
    last = torch.zeros(6, 2, 3)
    last[:, :, 2] = alike[:, :, 2]
    slope = credited_slope(logits, allowed, taken, last)
    assert torch.allclose(slope[..., 2], of_all[..., 2], atol=1e-6)
    assert not slope[..., :2].any()


@settings(max_examples=60)
@given(agents=st.integers(1, 9), seed=st.integers(0, 2**31), density=st.floats(0, 1), p=st.floats(0, 1))
def test_every_spatial_sample_is_acyclic_and_inside_the_mask(agents: int, seed: int, density: float, p: float) -> None:
    mask = torch.rand(agents, agents, generator=seeded(seed)) < density
    order = sample_permutations(3, 2, agents, seeded(seed + 1))
    taken = sample_edges(torch.full((1, agents, agents), p), allowed_spatial(mask, order), seeded(seed + 2))
    for sample, speakers in zip(taken.flatten(0, 1), order.flatten(0, 1).tolist(), strict=True):
        assert sorted(speakers) == list(range(agents))
        assert not (sample & ~mask).any()
        graph = nx.from_numpy_array(sample.numpy(), create_using=nx.DiGraph)
        assert nx.is_directed_acyclic_graph(graph)
        assert all(speakers.index(sender) < speakers.index(receiver) for sender, receiver in graph.edges)


def test_both_directions_of_an_edge_are_equally_likely() -> None:
    agents, k = 5, 20_000
    mask = ~torch.eye(agents, dtype=torch.bool)
    allowed = allowed_spatial(mask, sample_permutations(k, 1, agents, seeded()))
    frequency = sample_edges(torch.full((1, agents, agents), 0.5), allowed, seeded(1)).float().mean((0, 1))
    five_sigma = 5 * (0.25 * 0.75 / k) ** 0.5
    assert (frequency[mask] - 0.25).abs().max() < five_sigma


def test_every_speaking_order_is_equally_likely() -> None:
    orders = sample_permutations(12_000, 1, 3, seeded())[:, 0]
    counts = orders.unique(dim=0, return_counts=True)[1]
    assert len(counts) == 6
    assert (counts - 2000).abs().max() < 5 * (12_000 * 5 / 36) ** 0.5


@settings(max_examples=60)
@given(size=st.integers(1, 6), seed=st.integers(0, 2**31), density=st.floats(0, 1), room=st.integers(0, 40))
def test_pruning_keeps_the_best_and_at_least_one(size: int, seed: int, density: float, room: int) -> None:
    scores = torch.rand(size, size, generator=seeded(seed))
    present = torch.rand(size, size, generator=seeded(seed + 1)) < density
    kept = largest(scores, present, room, seeded(seed + 2))
    edges = int(present.sum())
    assert not (kept & ~present).any()
    assert int(kept.sum()) == (max(1, min(room, edges)) if edges else 0)
    if edges:
        assert (present & ~kept).sum() == 0 or scores[kept].min() >= scores[present & ~kept].max()


def test_ties_are_cut_without_favour_and_reproducibly() -> None:
    present, scores = torch.ones(4, 4, dtype=torch.bool), torch.zeros(4, 4)
    kept = torch.stack([largest(scores, present, 8, seeded(seed)) for seed in range(1000)])
    assert (kept.float().mean(0) - 0.5).abs().max() < 5 * (0.25 / 1000) ** 0.5
    assert (kept[7] == largest(scores, present, 8, seeded(7))).all()


@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (1, 6)])
def test_nuclear_norm_is_the_sum_of_singular_values_with_the_right_gradient(shape: tuple[int, int]) -> None:
    matrix = torch.randn(*shape, generator=seeded(), dtype=torch.float64, requires_grad=True)
    expected = np.linalg.svd(matrix.detach().numpy(), compute_uv=False).sum()
    assert nuclear_norm(matrix).item() == pytest.approx(expected)
    assert torch.autograd.gradcheck(nuclear_norm, matrix)


def test_nuclear_norm_of_a_rank_one_matrix_has_the_gradient_of_smallest_norm() -> None:
    matrix = torch.full((4, 4), 0.5, requires_grad=True)
    nuclear_norm(matrix).backward()
    torch.testing.assert_close(matrix.grad, torch.full((4, 4), 0.25))


def test_nuclear_norm_of_nothing_has_no_gradient() -> None:
    matrix = torch.zeros(3, 3, requires_grad=True)
    nuclear_norm(matrix).backward()
    assert matrix.grad is not None
    assert not matrix.grad.any()


def test_noise_is_the_root_mean_square_over_all_edges_that_there_were() -> None:
    initial = torch.tensor([[0, 1], [1, 0]]).bool()
    weighted = torch.tensor([[[0.9, 0.5], [0.0, 0.9]]], dtype=torch.float64, requires_grad=True)
    assert noise([initial], [weighted], "rms", 0.1).item() == pytest.approx(((0.25 + 1) / 2) ** 0.5 - 0.1)
    assert torch.autograd.gradcheck(lambda x: noise([initial, initial], [x, x * x], "rms", 0.1), weighted)


def test_noise_by_the_paper_s_norm_is_of_each_matrix_and_none_within_the_level() -> None:
    initial = torch.ones(2, 2, dtype=torch.bool)
    far = torch.full((1, 2, 2), 0.5, dtype=torch.float64, requires_grad=True)
    near = torch.full((1, 2, 2), 0.99, dtype=torch.float64)
    beyond = 1.0 - 0.1  # the norm of four gaps of one half
    assert noise([initial, initial], [far, near], "squared", 0.1).item() == pytest.approx(beyond**2)
    assert torch.autograd.gradcheck(lambda x: noise([initial, initial], [x, x * x], "squared", 0.1), far)
    assert not noise([], [], "squared", 0.1)


def test_alignment_is_the_mean_cosine_of_telling_and_hearing() -> None:
    told = torch.rand(3, 2, generator=seeded(), dtype=torch.float64, requires_grad=True)
    heard = torch.rand(2, 3, generator=seeded(1), dtype=torch.float64, requires_grad=True)
    expected = torch.nn.functional.cosine_similarity(told, heard.T).mean() / 2  # visual agents
    torch.testing.assert_close(alignment(told, heard), expected)
    torch.testing.assert_close(alignment(told, told.T).item(), 0.5)
    assert torch.autograd.gradcheck(alignment, (told, heard))


def test_a_row_of_zeros_contributes_nothing_to_alignment() -> None:
    told = torch.tensor([[0.0, 0.0], [0.3, 0.4]], requires_grad=True)
    heard = torch.tensor([[0.7, 0.3], [0.1, 0.4]])
    value = alignment(told, heard)
    value.backward()
    assert value.item() == pytest.approx(0.5 / 2)  # of two rows one is aligned, over two visual agents
    assert told.grad is not None
    assert told.grad.isfinite().all()
    assert alignment(torch.zeros(2, 2), torch.zeros(2, 2)).item() == 0


def test_leave_one_out_compares_with_the_others_of_the_same_question() -> None:
    credit = leave_one_out(torch.tensor([1.0, 0.0, 0.0, 4.0, 2.0]), torch.tensor([7, 7, 7, 3, 3]))
    assert credit.tolist() == [1.0, -0.5, -0.5, 2.0, -2.0]


def test_leave_one_out_of_a_single_sample_says_what_to_do() -> None:
    with pytest.raises(ValueError, match=r"\bsamples\b"):
        leave_one_out(torch.tensor([1.0, 0.0, 1.0]), torch.tensor([0, 0, 1]))
