"""Whole runs through run.py on a real engine: neither more replicas nor a killed engine change a result."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from tests.support.words import joined

pytestmark = pytest.mark.vllm

PROJECT = Path(__file__).parents[2]
CONTEXT_TOKENS = 1600  # too few for what agents are given in the second round
LATEST_S = 300
OVER_RAY = f"ray.start_timeout_s={LATEST_S}"
LEFT_S = 15  # Ray's own processes take some seconds
MARK = "RUN_OF_A_TEST"


@dataclass
class Started:
    """A run in processes of its own, all of which have its mark."""

    process: subprocess.Popen[bytes]
    log: Path
    mark: str

    def said(self) -> str:
        return self.log.read_text()

    def until(self, happened: Callable[[], object]) -> None:
        for _ in range(20 * LATEST_S):
            if happened():
                return
            assert self.process.poll() is None, self.said()
            time.sleep(0.05)
        raise AssertionError(f"still not after {LATEST_S} s: {self.said()}")

    def processes(self, *titles: str) -> list[psutil.Process]:
        """All that still run, or those whose title has one of these words."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.environ().get(MARK) == self.mark and process.status() != psutil.STATUS_ZOMBIE:
                    command = " ".join(process.cmdline())
                    found += [process] if not titles or any(title in command for title in titles) else []
        return found

    def until_none_is_left(self) -> None:
        for _ in range(20 * LEFT_S):
            if not self.processes():
                return
            time.sleep(0.05)
        raise AssertionError([" ".join(process.cmdline())[:80] for process in self.processes()])

    def folder(self) -> Path:
        return Path(re.findall("^run: (.*)$", self.said(), re.MULTILINE)[-1])  # an engine may say more as it ends


def heeding() -> None:
    """What a shell starts in the background ignores SIGINT, and hands that down."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextmanager
def started(folder: Path, *words: str) -> Iterator[Started]:
    mark, log = uuid.uuid4().hex, folder / f"{uuid.uuid4().hex}.log"
    environment = dict(os.environ, **{MARK: mark, "PYTHONUNBUFFERED": "1"})
    with open(log, "wb") as out:
        process = subprocess.Popen(
            [sys.executable, "run.py", *words],
            cwd=PROJECT,
            env=environment,
            stdout=out,
            stderr=out,
            start_new_session=True,
            preexec_fn=heeding,
        )
    run = Started(process, log, mark)
    try:
        yield run
    finally:
        for left in run.processes():
            with suppress(psutil.NoSuchProcess):
                left.kill()
        process.wait()


@pytest.fixture(scope="module")
def words(tiny_model: Path, output: Path) -> list[str]:
    return [
        *("experiment=mmqa_prune", "model=vllm", f"model.name={tiny_model}", "model.dtype=float32"),
        *("model.engine.block_size=32", "model.engine.enforce_eager=true", "model.engine.limit_mm_per_prompt.image=5"),
        *("model.engine.distributed_executor_backend=uni", f"model.max_model_len={CONTEXT_TOKENS}"),
        *("agents.max_tokens=16", "completions.reuse=false", f"output={output}"),
        *("topology.text=[critic,scientist]", "topology.visual=[critic]", "methods=[single,full,m3prune]"),
        *("data.limit=4", "pruning.steps=2", "training.samples=2", "wandb.mode=disabled", "figures=false"),
        # Almost no reply of a random model can be read.
        "failures.window=1000",
    ]


@pytest.fixture(scope="module")
def undisturbed(words: list[str], output: Path) -> Path:
    """The folder of a run with one engine."""
    with started(output, *words, "runtime=inline") as run:
        assert run.process.wait(LATEST_S) == 0, run.said()
        return run.folder()


def recorded(folder: Path) -> dict[str, bytes]:
    paths = [*folder.glob("**/traces/*.jsonl"), folder / "metrics.json"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def test_evidence_that_does_not_fit_is_cut_and_counted_and_so_are_the_tokens_that_the_prefix_cache_served(
    undisturbed: Path,
) -> None:
    traces = [json.loads(line) for line in (undisturbed / "traces" / "evaluate-full.jsonl").read_text().splitlines()]
    turns = [turn for trace in traces for turn in trace["turns"]]
    cut = [turn for turn in turns if turn.get("cut")]
    assert cut
    # Traces leave out the status of a turn that is ok.
    assert {turn.get("status", "ok") for turn in turns} <= {"ok", "unparsed"}
    row = json.loads((undisturbed / "metrics.json").read_text())["methods"]["full"]
    assert row["cut_turns"] == len(cut)
    report = (undisturbed / "report.html").read_text()
    assert "asked without" in report
    served = re.findall(r"prefix cache: ([\d,]+) \(", report)
    assert served
    assert "0" not in served


def test_an_engine_killed_among_two_changes_no_result_and_leaves_no_process(
    undisturbed: Path, words: list[str], output: Path
) -> None:
    with started(output, *words, "model.replicas=2", OVER_RAY) as run:
        run.until(lambda: ", stage 1" in run.said())
        assert "0/8, 2 replicas still loading" in run.said()
        run.processes("VLLM::EngineCore")[0].kill()
        assert run.process.wait(LATEST_S) == 0, run.said()
        run.until_none_is_left()
        assert recorded(run.folder()) == recorded(undisturbed)


def test_a_run_interrupted_while_its_model_loads_leaves_no_process_and_says_how_to_go_on(
    words: list[str], output: Path
) -> None:
    with started(output, *words, OVER_RAY) as run:
        # An engine's process has no title of its own at first.
        run.until(lambda: run.processes("multiprocessing.spawn", "VLLM::"))
        os.killpg(run.process.pid, signal.SIGINT)  # as a terminal does: the whole group gets it
        assert run.process.wait(LATEST_S) == 130
        assert " run.py resume=" in run.said().rpartition("go on with: ")[2]
        run.until_none_is_left()


def test_a_folder_that_is_not_there_is_one_line(words: list[str], output: Path) -> None:
    with started(output, *joined(*words, "model.name=/no/such/model", "runtime=inline")) as run:
        assert run.process.wait(LATEST_S) == 2
        assert "error: " in run.said().splitlines()[-1]
        assert "'/no/such/model'" in run.said().splitlines()[-1]
