"""Attribution against exhaustive intervention, over attacked failures of every kind of attack that has attackers.

    python -m tests.instruments.attribution [failures]     2,000 by default, a few minutes for each 1,000

Each discussion of clean runs is attacked in every way, by one or two agents drawn for it. Of each wrong answer,
`groups` (what `explain.search=groups` does) is held against `single` (all turns and agents). Sets of suspects are
calibrated on the questions of the other half.
"""

import asyncio
import contextlib
import io
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from actors.messages import derive_seed
from experiments.attacks.kind import AttackSettings
from experiments.attribution.explain import Explanation
from experiments.attribution.intervention import Replay, agents_of
from experiments.attribution.opened_run import OpenedRun
from experiments.attribution.recorded_discussions import RecordedDiscussions
from experiments.attribution.suspects import with_suspects
from experiments.config.setting_groups import ExplainSettings
from experiments.records.attribution import Explained
from experiments.records.recorder import RunFolder
from run import main

KINDS = ("input", "response", "collude", "sleeper", "memory", "contagion")
IN_TRANSIT = ("tamper", "impersonate", "drop", "delay", "duplicate", "misroute")


@dataclass(frozen=True)
class Failure:
    """A wrong answer of an attacked discussion, explained in two ways. caused: without the attack it is another."""

    kind: str
    caused: bool
    groups: Explained
    single: Explained

    @property
    def agent_right(self) -> bool:
        culprits = self.single.culprits
        return self.groups.agent in culprits if culprits else not self.groups.agent

    @property
    def turn_right(self) -> bool:
        turns = {each.of for each in self.single.effects if each.kind == "turn" and each.changed}
        return self.groups.turn in turns if turns else not self.groups.turn

    @property
    def blind_right(self) -> bool:
        """Whether the most suspicious agent of the record alone is a culprit."""
        return max(self.single.suspicion, key=self.single.suspicion.__getitem__) in self.single.culprits


def clean_run(output: Path, seed: int, limit: int) -> RunFolder:
    words = ["experiment=full", f"seed={seed}", f"data.limit={limit}", "figures=false", "wandb.mode=disabled"]
    with contextlib.redirect_stdout(io.StringIO()):
        assert main([*words, "runtime=inline", f"output={output}"]) == 0
    [folder] = output.glob("2*")
    return RunFolder.open(folder)


async def failures(run: RunFolder, seed: int, limit: int) -> list[Failure]:
    """The explained failures of a clean run's discussions under every attack."""
    opened, found = OpenedRun(run), []
    discussions = RecordedDiscussions(opened)
    async with agents_of(opened) as agents:
        for line in range(1, limit + 1):
            clean = await discussions.open("full", line)
            for kind in (*KINDS, *IN_TRANSIT):
                drawn = random.Random(derive_seed(seed, clean.trace.question, kind))
                number = 2 if kind == "collude" else 1 if kind in IN_TRANSIT else drawn.choice([1, 2])
                names = drawn.sample(list(clean.trace.agents), number)
                share = {"share": 1.0} if kind in IN_TRANSIT else {}
                attack = clean.attack.under(AttackSettings(kind=kind, agents=names, **share))
                replay = Replay(replace(clean, attack=attack), agents)
                replay.add(await clean.heard())
                trace = await replay.hold()
                if opened.dataset.score(clean.item, trace.answer).utility >= 1:
                    continue
                explained = []
                for search in ("groups", "single"):
                    replay.held = replace(clean, attack=attack, trace=trace)
                    replay.asked.clear()
                    explanation = Explanation(replay, opened.dataset, "counterpart")
                    explained.append(await explanation.explain(ExplainSettings(search=search), seed))
                found.append(Failure(kind, explained[0].effects[0].changed, *explained))
    return found


def rows(found: Sequence[Failure]) -> Iterator[tuple[str, ...]]:
    """A row for each kind, for all, and for those that the attack caused."""
    of_kinds = [(kind, [each for each in found if each.kind == kind]) for kind in (*KINDS, *IN_TRANSIT)]
    caused = [each for each in found if each.caused]
    for name, of in (*of_kinds, ("all", found), ("caused by the attack", caused)):
        recorded = sum(each.groups.recorded for each in of) or 1
        tokens = [sum(getattr(each, search).tokens for each in of) / recorded for search in ("groups", "single")]
        shares = [np.mean([getattr(each, right) for each in of] or [np.nan]) for right in ("agent_right", "turn_right")]
        with_culprit = [each for each in of if each.single.culprits]
        blind = np.mean([each.blind_right for each in with_culprit] or [np.nan])
        covered = np.mean(
            [not set(each.single.suspects).isdisjoint(each.single.culprits) for each in with_culprit] or [np.nan]
        )
        size = np.mean([len(each.single.suspects) for each in with_culprit] or [np.nan])
        numbers = len(of), sum(each.caused for each in of), len(with_culprit)
        yield (name, *map(str, numbers), *(f"{share:.3f}" for share in (*shares, *tokens, blind, covered, size)))


def study(wanted: int, limit: int = 100) -> list[Failure]:
    """At least `wanted` failures, with sets of suspects."""
    found: list[Failure] = []
    seed = 0
    while len(found) < wanted:
        with TemporaryDirectory() as folder:
            found += asyncio.run(failures(clean_run(Path(folder), seed, limit), seed, limit))
        seed += 1
        print(f"{len(found):,} failures of {seed} clean runs", file=sys.stderr, flush=True)
    sets = with_suspects([each.single for each in found], ExplainSettings(), seed=0)
    return [replace(each, single=single) for each, single in zip(found, sets, strict=True)]


HEADERS = "attack,failures,caused,with culprit,agent,turn,tokens groups,tokens single,blind agent,covered,set size"

if __name__ == "__main__":
    table = [HEADERS.split(","), *rows(study(int(sys.argv[1]) if len(sys.argv) > 1 else 2_000))]
    for row in table:
        print("".join(f"{cell:<22}" if not i else f"{cell:>14}" for i, cell in enumerate(row)))
