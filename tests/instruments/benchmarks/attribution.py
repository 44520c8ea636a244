"""Compares the cheap search of attribution with exhaustive intervention, under every attack of agents and messages.

    python -m tests.instruments.benchmarks.attribution [--failures 2000] [--questions 100]

Each discussion of clean runs is attacked in every way, by one or two agents drawn for it. `explain.search=groups` and
`explain.search=single`, which tries all turns and agents, explain each wrong answer. Sets of suspects are calibrated on
the questions of the other half. A thousand failures take a few minutes.

The last line is one JSON object: shares by attack, of all failures, and of those that the attack caused.
"""

import argparse
import asyncio
import contextlib
import io
import json
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

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

AGENT_ATTACKS = ("input", "response", "collude", "sleeper", "memory", "contagion")
TRANSIT_ATTACKS = ("tamper", "impersonate", "drop", "delay", "duplicate", "misroute")
ATTACKS = (*AGENT_ATTACKS, *TRANSIT_ATTACKS)


@dataclass(frozen=True)
class Failure:
    """A wrong answer of an attacked discussion, explained by both searches.

    caused: the answer is another one without the attack.
    """

    attack: str
    caused: bool
    groups: Explained
    single: Explained

    @property
    def agent_right(self) -> bool:
        culprits = self.single.culprits
        if not culprits:
            return not self.groups.agent
        return self.groups.agent in culprits

    @property
    def turn_right(self) -> bool:
        turns = {effect.of for effect in self.single.effects if effect.kind == "turn" and effect.changed}
        if not turns:
            return not self.groups.turn
        return self.groups.turn in turns

    @property
    def most_suspicious_right(self) -> bool:
        """Whether the agent that is most suspicious by the record alone is a culprit."""
        suspicion = self.single.suspicion
        return max(suspicion, key=suspicion.__getitem__) in self.single.culprits

    @property
    def covered(self) -> bool:
        """Whether the set of suspects has a culprit."""
        return not set(self.single.suspects).isdisjoint(self.single.culprits)


def clean_run(output: Path, seed: int, questions: int) -> RunFolder:
    """Runs the full graph without an attack."""
    words = ["experiment=full", f"seed={seed}", f"data.limit={questions}", "figures=false", "wandb.mode=disabled"]
    with contextlib.redirect_stdout(io.StringIO()):
        code = main([*words, "runtime=inline", f"output={output}"])
    if code:
        raise SystemExit(f"the clean run ended with {code}")
    [folder] = output.glob("2*")
    return RunFolder.open(folder)


def drawn_attack(attack: str, agents: Sequence[str], question: str, seed: int) -> AttackSettings:
    """Draws the attackers of a discussion."""
    chance = random.Random(derive_seed(seed, question, attack))
    if attack in TRANSIT_ATTACKS:
        return AttackSettings(kind=attack, agents=chance.sample(agents, 1), share=1.0)
    number = 2 if attack == "collude" else chance.choice([1, 2])
    return AttackSettings(kind=attack, agents=chance.sample(agents, number))


async def failures_of(run: RunFolder, seed: int, questions: int) -> list[Failure]:
    """Explains the failures of a clean run's discussions under every attack."""
    opened = OpenedRun(run)
    discussions = RecordedDiscussions(opened)
    failures = []
    async with agents_of(opened) as agents:
        for line in range(1, questions + 1):
            clean = await discussions.open("full", line)
            for attack in ATTACKS:
                settings = drawn_attack(attack, list(clean.trace.agents), clean.trace.question, seed)
                attacked = replace(clean, attack=clean.attack.under(settings))
                replay = Replay(attacked, agents)
                replay.add(await clean.heard())
                trace = await replay.hold()
                if opened.dataset.score(clean.item, trace.answer).utility >= 1:
                    continue

                replay.discussion = replace(attacked, trace=trace)
                explained = {}
                for search in ("groups", "single"):
                    replay.asked.clear()
                    explanation = Explanation(replay, opened.dataset, "counterpart")
                    explained[search] = await explanation.explain(ExplainSettings(search=search), seed)
                caused = explained["groups"].effects[0].changed
                failures.append(Failure(attack, caused, explained["groups"], explained["single"]))
    return failures


def share(values: Sequence[bool]) -> float | None:
    return round(sum(values) / len(values), 3) if values else None


def row(failures: Sequence[Failure]) -> dict[str, float | None]:
    """Shares of some failures. Tokens are those of interventions, over those of the explained discussions."""
    recorded = sum(failure.groups.recorded for failure in failures) or 1
    with_culprit = [failure for failure in failures if failure.single.culprits]
    suspects = sum(len(failure.single.suspects) for failure in with_culprit)
    return {
        "failures": len(failures),
        "caused": sum(failure.caused for failure in failures),
        "with_culprit": len(with_culprit),
        "agent_right": share([failure.agent_right for failure in failures]),
        "turn_right": share([failure.turn_right for failure in failures]),
        "tokens_groups": round(sum(failure.groups.tokens for failure in failures) / recorded, 3),
        "tokens_single": round(sum(failure.single.tokens for failure in failures) / recorded, 3),
        "most_suspicious_right": share([failure.most_suspicious_right for failure in with_culprit]),
        "covered": share([failure.covered for failure in with_culprit]),
        "set_size": round(suspects / len(with_culprit), 2) if with_culprit else None,
    }


def study(number: int, questions: int) -> list[Failure]:
    """Explains at least `number` failures, with sets of suspects."""
    failures: list[Failure] = []
    seed = 0
    while len(failures) < number:
        with TemporaryDirectory() as folder:
            failures += asyncio.run(failures_of(clean_run(Path(folder), seed, questions), seed, questions))
        seed += 1
        print(f"{len(failures):,} failures of {seed} clean runs", file=sys.stderr, flush=True)

    explained = with_suspects([failure.single for failure in failures], ExplainSettings(), seed=0)
    return [replace(failure, single=single) for failure, single in zip(failures, explained, strict=True)]


def measure(failures: int, questions: int) -> dict[str, dict[str, float | None]]:
    found = study(failures, questions)
    groups = {attack: [failure for failure in found if failure.attack == attack] for attack in ATTACKS}
    groups["all"] = found
    groups["caused by the attack"] = [failure for failure in found if failure.caused]
    rows = {name: row(group) for name, group in groups.items()}

    columns = list(rows["all"])
    print(f"{'attack':<22}" + "".join(f"{column:>23}" for column in columns))
    for name, cells in rows.items():
        print(f"{name:<22}" + "".join(f"{'-' if cell is None else cell:>23}" for cell in cells.values()))
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--failures", type=int, default=2_000)
    parser.add_argument("--questions", type=int, default=100, help="of each clean run")
    print(json.dumps(measure(**vars(parser.parse_args()))))
