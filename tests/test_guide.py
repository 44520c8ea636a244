"""Worked examples of the pages: parts of one's own conform and run together, and code of the pages runs."""

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from actors.agents.roles import TEXTUAL
from actors.autogen.hosted import HostedAgent
from actors.messages import Kind, Question, Source, Status, Turn
from actors.reader.reader import Reader, ReaderSettings
from experiments.config.loading import load
from experiments.config.saved import save
from experiments.conformance.attacks import check_attack
from experiments.conformance.methods import check_method
from experiments.conformance.parts import check_dataset, check_encoder, check_model
from experiments.jobs import plan_of
from experiments.running.inputs import open_dataset
from retrieval.embed import make_encoder
from tests.support.fake_run import make_run
from tests.support.paths import ROOT
from topologies.wiring import Wirings


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


def test_the_code_that_reads_a_run_reads_one(tmp_path: Path) -> None:
    folder = make_run(tmp_path, steps=2, questions=3)
    save(load(["experiment=mmqa_prune"]), folder.config)
    section = (ROOT / "docs" / "python.md").read_text().partition("## Reading what a run recorded")[2]
    code = re.findall(r"^    (.*)$", section.partition("\n## ")[0], re.MULTILINE)
    names: dict[str, Any] = {}
    exec(re.sub(r'"runs/[^"]*"', repr(str(folder.path)), "\n".join(code)), names)
    assert set(names["scores"]["question"]) == {scored.question for scored in folder.scores()}
    assert names["batch"].num_rows


def test_the_learner_is_a_library() -> None:
    random = np.random.default_rng(0)

    def simulate(wirings: Wirings) -> tuple[Any, Any]:
        samples, rounds, agents, _ = wirings.spatial.shape
        return random.random((samples, rounds, agents)), random.random(samples)

    section = (ROOT / "docs" / "learning.md").read_text().partition("## The learner as a library")[2]
    names: dict[str, Any] = {"simulate": simulate}
    exec(re.findall(r"```python\n(.*?)```", section, re.DOTALL)[0], names)
    assert names["scores"].spatial.shape == names["spatial"].shape == (9, 9)


def run(*words: str, package: Path) -> subprocess.CompletedProcess[str]:
    """`python run.py` where Python, in every process, also looks into the package's folder."""
    there = {**os.environ, "PYTHONPATH": str(package)}
    command = [sys.executable, "run.py", *words]
    return subprocess.run(command, cwd=ROOT, env=there, capture_output=True, text=True, check=False)
