"""Phases side by side: graphs are learned at once, the rest is evaluated meanwhile, and the records are the same."""

from pathlib import Path

import pytest

from actors.errors import ModelError
from actors.messages import Turn, TurnResult
from experiments.config.config import Config
from experiments.config.loading import load
from experiments.records.recorder import RunFolder
from tests.experiments.running.test_attacked_run import SMALL, Team, carry_out
from tests.support.words import joined

LEARNERS = ["methods=[single,full,m3prune,agentprune,random]"]


class Watched(Team):
    """A team that knows which discussions are held, and when they began."""

    def __init__(self, config: Config, failing: str = "") -> None:
        super().__init__(config)
        self.most = 0  # at once
        self.begun: list[str] = []  # the methods of discussions, in the order of their first turns
        self._open: set[str] = set()
        self._failing = failing

    async def take(self, turn: Turn) -> TurnResult:
        method = turn.discussion.partition("/")[0]
        if method == self._failing:
            raise ModelError(f"{method} is not to be learned")
        if turn.discussion not in self._open:
            self._open.add(turn.discussion)
            self.begun.append(method)
            self.most = max(self.most, len(self._open))
        return await super().take(turn)

    def close(self, discussion: str) -> None:
        self._open.discard(discussion)
        super().close(discussion)

    def first(self, method: str) -> int:
        """The place of a method's first discussion among all."""
        return self.begun.index(method)

    def last(self, method: str) -> int:
        return len(self.begun) - 1 - self.begun[::-1].index(method)


def records(folder: RunFolder) -> dict[str, bytes]:
    files = [*folder.path.glob("traces/*"), *folder.path.glob("learned/*/traces/*"), folder.path / "scores.jsonl"]
    files += [*folder.path.glob("learned/*/*.json*"), *folder.path.glob("learned/*/topology.safetensors")]
    return {path.relative_to(folder.path).as_posix(): path.read_bytes() for path in files}


def watched(words: list[str], output: Path, side_by_side: bool = True) -> tuple[Watched, dict[str, bytes]]:
    team = Watched(load(joined(*SMALL, f"output={output}", *words)))
    folder = carry_out(words, output, speaker=team, side_by_side=side_by_side)
    return team, records(folder)


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> tuple[Watched, dict[str, bytes]]:
    return watched([*LEARNERS, "concurrency=7"], tmp_path_factory.mktemp("beside"))


def test_learners_learn_at_once_and_methods_without_a_graph_are_evaluated_meanwhile(
    beside: tuple[Watched, dict[str, bytes]],
) -> None:
    team, _ = beside
    assert team.first("train.agentprune") < team.last("train.m3prune")
    assert team.first("train.m3prune") < team.last("train.agentprune")
    for method in ("single", "full"):
        assert team.first(method) < team.last("train.m3prune")
    # Those that need a graph wait for it, and methods behind them for their turn.
    assert team.last("train.m3prune") < team.first("m3prune")
    assert team.last("train.agentprune") < team.first("agentprune")
    assert team.last("agentprune") < team.first("random")


def test_all_phases_together_hold_no_more_discussions_than_the_run_may(
    beside: tuple[Watched, dict[str, bytes]],
) -> None:
    team, _ = beside
    assert team.most <= 7  # two learners need two each


@pytest.mark.parametrize("words", [["concurrency=1"], pytest.param(["concurrency=64"], marks=pytest.mark.slow)])
def test_the_records_are_those_of_one_phase_after_another(
    beside: tuple[Watched, dict[str, bytes]], tmp_path: Path, words: list[str]
) -> None:
    assert watched([*LEARNERS, *words], tmp_path)[1] == beside[1]


def test_one_after_another_where_what_is_not_learned_to_the_end_would_be_evaluated_in_vain(
    beside: tuple[Watched, dict[str, bytes]], tmp_path: Path
) -> None:
    team, written = watched(LEARNERS, tmp_path, side_by_side=False)
    assert written == beside[1]
    assert team.last("train.m3prune") < team.first("train.agentprune")
    assert team.last("train.agentprune") < min(team.first(method) for method in ("single", "full"))


def test_where_a_learner_fails_the_others_end_and_what_is_recorded_serves_the_next_start(
    beside: tuple[Watched, dict[str, bytes]], tmp_path: Path
) -> None:
    failing = Watched(load(joined(*SMALL, f"output={tmp_path}", *LEARNERS)), failing="train.agentprune")
    with pytest.raises(ExceptionGroup) as raised:
        carry_out(LEARNERS, tmp_path, speaker=failing)
    assert raised.group_contains(ModelError, match="train.agentprune is not to be learned")
    [path] = tmp_path.glob("*-attacked")
    assert records(carry_out(LEARNERS, tmp_path, RunFolder.open(path))) == beside[1]
