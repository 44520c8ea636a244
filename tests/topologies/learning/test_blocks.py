"""The matrices of a stage, whichever way their cells are found."""

from __future__ import annotations

import pytest
import torch

from topologies.learning.blocks import Block


@pytest.mark.parametrize(
    ("rows", "columns"), [([0, 1, 2], [3, 4]), ([0, 2, 4], [1, 3]), ([1, 2], [0, 3]), ([2, 1], [0, 1]), ([], [0])]
)
def test_a_block_reads_and_writes_its_own_cells_alone(rows: list[int], columns: list[int]) -> None:
    block = Block("block", "spatial", torch.tensor(rows, dtype=torch.int64), torch.tensor(columns))
    matrix = torch.arange(2 * 25.0).view(2, 5, 5)
    assert block.of(matrix).tolist() == [[[layer[j][i].item() for i in columns] for j in rows] for layer in matrix]
    written = matrix.clone()
    written[(..., *block.cells)] = -1
    own = torch.zeros(5, 5, dtype=torch.bool)
    for j in rows:
        own[j, columns] = True
    assert torch.equal(written, matrix.where(~own, torch.tensor(-1.0)))
