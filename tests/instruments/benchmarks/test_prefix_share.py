"""The prefix cache that is counted with behaves as an engine's, and a run's prompts are counted by phase."""

import json
import subprocess
import sys

import pytest

from tests.instruments.benchmarks.prefix_share import PrefixCache
from tests.support.paths import ROOT


def test_whole_blocks_from_the_start_are_served_and_the_last_token_is_computed() -> None:
    cache = PrefixCache(4)
    assert cache.serve(range(10)) == 0
    assert cache.serve(range(10)) == 8
    assert cache.serve([*range(6), 99, 100, 101]) == 4  # its second block differs
    assert cache.serve(range(8)) == 4  # two whole blocks are kept, but somebody must compute the last token
    assert cache.serve([99, *range(1, 10)]) == 0  # equal blocks behind another start are others


def test_a_bounded_cache_forgets_what_was_used_longest_ago_and_the_ends_of_prompts_first() -> None:
    cache = PrefixCache(2, most_tokens=6)
    cache.serve([1, 2, 3, 4, 0])
    cache.serve([5, 6, 0])
    cache.serve([1, 2, 0])  # used again
    cache.serve([7, 8, 0])  # there is no room for four blocks
    assert cache.serve([5, 6, 0]) == 2
    assert cache.serve([1, 2, 3, 4, 0]) == 2  # its second block went, the one that it stands on did not


@pytest.mark.slow
def test_every_phase_of_a_run_is_counted_and_a_smaller_cache_serves_less() -> None:
    small = ["data.limit=1", "pruning.steps=1", "training.samples=3", "methods=[full,m3prune]"]
    small += ["topology.text=[critic,scientist]", "topology.visual=[critic,scientist]"]
    # In a process of its own, for a run ends by setting up signals and logs as a program does.
    command = [sys.executable, "-m", "tests.instruments.benchmarks.prefix_share", "--bounded", "1600", *small]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    report = json.loads(done.stdout.splitlines()[-1])
    assert list(report) == ["learning m3prune", "evaluating full", "evaluating m3prune"]
    for row in report.values():
        assert 0 <= row["bounded_share"] <= row["cached_share"] < 1
        assert 0 < row["computed_tokens"] < row["prompt_tokens"]
    learning = report["learning m3prune"]
    assert learning["bounded_share"] < learning["cached_share"]
    assert learning["joined_share"] > 0  # whoever speaks without having heard anybody does so in several samples
