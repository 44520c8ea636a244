"""What a finished run took, read from its folder: what a cost model is fitted on and held against."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from actors.backends.settings import model_name
from actors.errors import UserError
from actors.messages import Usage
from experiments.analysis.turn_counts import by_phase as turns_by_phase
from experiments.config.config import Config
from experiments.config.loading import read
from experiments.cost.demand import Demand
from experiments.records import usage
from experiments.records.recorder import RunFolder
from experiments.records.starts import AGENT, LEARNER, REPLICA, Start, Taken, read_starts
from experiments.records.trials import TRIALS

JUDGE = "judge"


@dataclass(frozen=True, slots=True)
class Observed:
    """One run. `phases` are the demand and the seconds of each; `replies` calls and completion tokens by role."""

    path: Path
    config: Config
    start: Start
    demand: Demand
    phases: tuple[tuple[Demand, float], ...]
    replies: Mapping[str, tuple[int, int]]
    turns: int
    repairs: int
    disk_kb: float

    @property
    def model(self) -> tuple[str, str]:
        return self.config.model.kind, model_name(self.config.model)

    @property
    def undisturbed(self) -> tuple[float, float, float]:
        """Seconds to start, of discussions, and of the end, without those in which other programs had the cores."""
        start = self.start
        whole = (start.up_s, start.discussing_s, start.total_s)
        up_s, discussing_s, total_s = (took - waited for took, waited in zip(whole, start.waited, strict=True))
        return up_s, discussing_s, total_s - up_s - discussing_s

    @property
    def speeds(self) -> tuple[float, float, float]:
        """Of a core until agents could be asked, while they were, and after that."""
        assert self.start.speeds is not None, "observe() refuses a run without them"
        return self.start.speeds

    @property
    def speed(self) -> float:
        """The mean over the run."""
        up_s, discussing_s, end_s = self.undisturbed
        up, discussing, end = self.speeds
        return (up * up_s + discussing * discussing_s + end * end_s) / (up_s + discussing_s + end_s)

    def count(self, kind: str) -> int:
        """Processes of one kind, on this machine."""
        return self.start.taken.get(kind, Taken()).count

    @property
    def processes(self) -> int:
        return self.count(AGENT) + self.count(REPLICA)

    @property
    def learners(self) -> int:
        return self.count(LEARNER)


def observe(path: Path) -> Observed:
    """Reads a run folder; nothing that it names is imported or opened.

    Raises:
        UserError: it is none, its run has not gone from its beginning to its end in one start, or is not of methods.
    """
    run = RunFolder.open(path)
    if (run.path / TRIALS).is_dir():
        raise UserError(f"{path} is a sweep's folder; give run folders, such as those below its {TRIALS}/")
    config, starts = read(run.config), list(read_starts(run.path))
    if config.job != "prune" or len(starts) != 1:
        raise UserError(
            f"{path} does not tell what a whole run takes: give a run of methods that ended well without being resumed"
        )
    if starts[0].speeds is None:
        raise UserError(f"{path} does not tell how fast its machine was, as runs of earlier versions: run it anew")
    answers: dict[str, int] = {}
    for scored in run.scores():
        answers[scored.method] = answers.get(scored.method, 0) + 1
    graphs = run.all_learned()
    steps = sum(1 for graph in graphs for step in graph.learning() if step.terms)
    spent = {name: phase for name, phase in usage.by_phase(run).items() if name != "judging"}
    phases = tuple((demand_of(phase.total), phase.seconds) for phase in spent.values())
    replies: dict[str, tuple[int, int]] = {}
    for phase in spent.values():
        for role, used in phase.agents.items():
            calls, tokens = replies.get(role, (0, 0))
            replies[role] = calls + used.calls, tokens + used.completion_tokens
    whole = sum((phase.total for phase in spent.values()), Usage())
    counted = turns_by_phase(run, answers).values()
    return Observed(
        path=path,
        config=config,
        start=starts[0],
        demand=replace(
            demand_of(whole),
            steps=steps,
            graphs=len(graphs),
            answers=sum(answers.values()),
            figures=sum(1 for _ in run.figures.glob("*.png")),
        ),
        phases=phases,
        replies={role: reply for role, reply in replies.items() if reply[0]},
        turns=sum(counts.turns for counts in counted),
        repairs=sum(counts.repairs for counts in counted),
        disk_kb=sum(file.stat().st_size for file in run.path.rglob("*") if file.is_file()) / 1000,
    )


def demand_of(used: Usage) -> Demand:
    """What agents' usage says of a run or a phase."""
    return Demand(
        calls=used.calls + used.reused,
        made=used.calls,
        prompt=used.prompt_tokens,
        cached=used.cached_tokens,
        completion=used.completion_tokens,
    )
