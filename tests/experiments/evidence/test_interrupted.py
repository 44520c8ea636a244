"""Ctrl-C while an index is built or pictures are checked leaves what is done for the next start."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from experiments.datasets.sample.release import write_sample
from tests.support.paths import ROOT

# An encoder, in whose module the signal is sent in the main thread at a known point.
MODULE = """
import os
import signal
import time

from experiments.evidence import manifest
from retrieval import graph_tables
from retrieval.embed import LexicalEncoder

PHASE = os.environ.get("INTERRUPTED", "")
check_image, state_of = manifest.check_image, manifest.state_of
named = graph_tables._named
counts = {"encoding": 0, "checking": 0, "graph": 0}


def count(phase, number, at):
    counts[phase] += number
    if phase == PHASE and counts[phase] == at:
        os.kill(os.getpid(), signal.SIGINT)


def checked(path):
    os.write(1, f"CHECKED {path}\\n".encode())  # in one piece: threads check side by side
    check_image(path)


def state_after_check(path):
    count("checking", 1, at=3)
    return state_of(path)


def slowly_named(source):
    print("NAMED 1", flush=True)
    count("graph", 1, at=3)
    if PHASE == "graph":
        time.sleep(0.05)
    return named(source)


graph_tables._named = slowly_named
manifest.check_image = checked
manifest.state_of = state_after_check


class Encoder(LexicalEncoder):
    def encode_sources(self, sources):
        print(f"ENCODED {len(sources)}", flush=True)
        count("encoding", len(sources), at=1024)
        return super().encode_sources(sources)
"""
TEXTS = 1600


def start(folder: Path, interrupted: str = "", method: str = "single") -> subprocess.CompletedProcess[str]:
    data = ["data=mmqa", f"data.root={folder / 'release'}", "data.limit=2", "retrieval.encoder=interrupting:Encoder"]
    words = ["experiment=mmqa_prune", "runtime=inline", f"methods=[{method}]", *data]
    words += [f"output={folder}", f"cache={folder / 'cache'}", "wandb.mode=disabled"]
    environment = {**os.environ, "PYTHONPATH": str(folder), "INTERRUPTED": interrupted}
    return subprocess.run(
        [sys.executable, "run.py", *words], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


def lines(process: subprocess.CompletedProcess[str], word: str) -> list[str]:
    return [line.removeprefix(f"{word} ") for line in process.stdout.splitlines() if line.startswith(f"{word} ")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_sample(tmp_path / "release", train=0, dev=16)
    with (tmp_path / "release" / "MMQA_texts.jsonl").open("a") as texts:
        for number in range(TEXTS):
            texts.write(
                json.dumps({"id": f"t{number}", "title": "", "text": f"text number {number}", "url": ""}) + "\n"
            )
    (tmp_path / "interrupting.py").write_text(MODULE)
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("phase", ["encoding", "checking"])
def test_what_is_done_before_an_interruption_is_not_done_again(folder: Path, phase: str) -> None:
    interrupted = start(folder, phase)
    assert interrupted.returncode == 130, interrupted.stderr
    # The run folder is named before anything is read.
    [run_folder] = folder.glob("*-mmqa_prune")
    assert str(run_folder) in interrupted.stdout.splitlines()[0]
    assert f"resume={run_folder}" in interrupted.stderr

    again = start(folder)
    assert again.returncode == 0, again.stderr
    encoded = sum(map(int, lines(again, "ENCODED")))
    checked = lines(again, "CHECKED")
    [manifest] = (folder / "cache" / "indexes").glob("release-*.json")
    read = json.loads(manifest.read_bytes())
    if phase == "encoding":
        # The batch that was under way is lost.
        assert encoded == read["sources"] - 512
        assert len(checked) == len(read["decoded"])
    else:
        assert encoded == 0
        assert len(checked) == len(read["decoded"]) - 2


@pytest.mark.slow
def test_a_knowledge_graph_that_is_built_in_a_thread_ends_with_the_run(folder: Path) -> None:
    interrupted = start(folder, "graph", method="hm_rag")
    assert interrupted.returncode == 130, interrupted.stderr
    assert 3 <= len(lines(interrupted, "NAMED")) < TEXTS
    again = start(folder, method="hm_rag")
    assert again.returncode == 0, again.stderr
    assert len(lines(again, "NAMED")) > TEXTS
