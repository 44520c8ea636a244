"""Where a team gains nothing, no gain is found, and a gain is found where there is one and is large enough."""

import numpy as np
import pytest

from tests.support.planted_gains import PLACEBO, TEAM, TWIN, World, discussions, drawn_scores, gains
from topologies.controls.twin import tokens_of

STUDIES = 100


@pytest.mark.parametrize(
    ("world", "coordination", "hearing"),
    [(World(), 0, 0), (World(any=0.25), 1, 0), (World(own=0.25), 1, 1)],
    ids=["none", "by hearing anything", "by hearing colleagues"],
)
def test_gains_are_found_where_they_are_and_not_elsewhere(world: World, coordination: int, hearing: int) -> None:
    found = [[test["verdict"] for test in gains(drawn_scores(world, 100, seed), seed)] for seed in range(STUDIES)]
    for place, there in enumerate((coordination, hearing)):
        claimed = sum(one[place] == "better" for one in found)
        # Shares of 1,000 studies: tests/instruments/benchmarks/planted_gains.py.
        assert claimed >= 0.8 * STUDIES if there else claimed <= 0.05 * STUDIES


def test_discussions_of_such_a_world_have_its_gains_and_their_twin_has_their_tokens() -> None:
    world = World(own=0.2, any=0.1)
    held, chances = discussions(world, 400, 0), world.chances(400, 0)
    for name, gain in ((TEAM, 0.3), (TWIN, 0.0), (PLACEBO, 0.1)):
        right = np.mean([trace.answer == "right" for trace in held[name]])
        assert right == pytest.approx(np.minimum(1, chances + gain).mean(), abs=0.06)
    spent = {name: sum(tokens_of(trace.turns) for trace in of) for name, of in held.items()}
    assert spent[TWIN] == pytest.approx(spent[TEAM], rel=0.01)
