"""The worked examples of README's guide: each conforms, and they run together from the command line."""

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from actors.agents.roles import TEXTUAL
from actors.autogen.hosted import HostedAgent
from actors.messages import Kind, Question, Source, Status, Turn
from actors.reader.reader import Reader, ReaderSettings
from experiments.config.loading import load
from experiments.conformance.attacks import check_attack
from experiments.conformance.methods import check_method
from experiments.conformance.parts import check_dataset, check_encoder, check_model
from experiments.jobs import plan_of
from experiments.running.inputs import open_dataset
from retrieval.embed import make_encoder
from tests.support.paths import ROOT


def test_each_part_of_the_guide_conforms(mine: Path) -> None:
    names = sorted(path.stem for path in (mine / "mine").iterdir())
    assert names == "capitals compare framework letters parrot quoting second_opinion whisper".split()
    check_method("mine.second_opinion:SecondOpinion")
    check_attack("mine.whisper:Whisper")
    config = load([f"experiment={mine / 'mine' / 'compare.yaml'}", "model=mine.parrot:Parrot"])
    check_dataset(open_dataset(plan_of(config), mine))
    check_model(plan_of(config).models.main.maker()(), "parrot")
    check_encoder(make_encoder("mine.letters:Letters"), "letters")


@pytest.mark.parametrize("agent", ["quoting", "framework"])
async def test_agents_of_other_libraries_hold_a_role(mine: Path, agent: str) -> None:
    if agent == "framework":
        pytest.importorskip("agent_framework")
    passage = Source("p1", "p1", Kind.TEXT, "Ana Brix", "Ana Brix was born in Tarn Hollow.")
    turn = Turn("d1", Question("q1", "Where was Ana Brix born?", evidence=(passage,)), "text_critic", 1, seed=7)
    role = replace(TEXTUAL[0], agent=f"mine.{agent}:critic")
    result = await HostedAgent(role, Reader(ReaderSettings())).take(turn)
    message, usage = result.message, result.usage
    assert message.status is Status.OK
    assert "Tarn Hollow" in message.content
    assert (message.calls, usage.calls) == (1, 1)


@pytest.mark.ray
@pytest.mark.smoke
def test_the_guide_s_parts_run_together_and_a_resumed_run_has_to_name_them_again(mine: Path) -> None:
    words = ["attack=mine.whisper:Whisper", "model=mine.parrot:Parrot", "retrieval.encoder=mine.letters:Letters"]
    small = ["data.limit=4", "wandb.mode=disabled", "figures=false", f"output={mine / 'runs'}"]
    ran = run(f"experiment={mine / 'mine' / 'compare.yaml'}", *small, *words, package=mine)
    assert ran.returncode == 0, ran.stderr
    assert re.search(r"second_opinion +\d\.\d{3}", ran.stdout)
    [folder] = (mine / "runs").glob("*-compare")
    refused = run(f"resume={folder}", package=mine)
    assert refused.returncode == 2
    assert all(
        name in refused.stderr for name in ("mine.whisper", "mine.parrot", "mine.letters", "mine.second_opinion")
    )
    named = [*words, 'methods=[single,"mine.second_opinion:SecondOpinion"]', "data=mine.capitals:load"]
    again = run(f"resume={folder}", *named, "runtime=inline", package=mine)
    assert again.returncode == 0, again.stderr


def run(*words: str, package: Path) -> subprocess.CompletedProcess[str]:
    """`python run.py` where Python, in every process, also looks into the package's folder."""
    there = {**os.environ, "PYTHONPATH": str(package)}
    command = [sys.executable, "run.py", *words]
    return subprocess.run(command, cwd=ROOT, env=there, capture_output=True, text=True, check=False)
