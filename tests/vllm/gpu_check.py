"""Runs `model=vllm` on this machine's GPUs and compares it with the engine alone; takes some ten minutes.

    python -m tests.vllm.gpu_check                  (pip install '.[vllm,test]'; needs a GPU, and two for two replicas)
    python -m tests.vllm.gpu_check --model Qwen/Qwen2.5-VL-7B-Instruct --questions 40 --replicas 4
    python -m tests.vllm.gpu_check --tiny           (on a CPU, with a random model)

The default is a small vision-language model. The same discussions of a team with visual agents are held

- twice with one replica, and once with several;
- without reusing completions, so that the engine generates every reply.

The table has, for each run, the turns and how many were read at once, the pictures in the evidence that the model saw,
the share of prompt tokens that the engine's prefix cache served, whether traces, scores and metrics have the bytes of
the first run, and turns and calls a second. In the last row, vLLM's own benchmark (`vllm bench throughput`) answers as
many prompts with the same mean lengths and share of common prefixes. It has no pictures and no schemas, and no request
waits for the reply to another.

The last line is one JSON object. The exit code is 1 where bytes differ or the model saw no picture.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from experiments.api import Run, load_run
from experiments.records import usage
from experiments.records.recorder import RunFolder

PROJECT = Path(__file__).parents[2]
MODEL = "Qwen/Qwen2.5-VL-3B-Instruct"
TEAM = (
    "experiment=mmqa_prune",
    "methods=[full]",
    "topology.text=[critic,data_analyst,scientist]",
    "topology.visual=[critic,data_analyst]",
    "completions.reuse=false",
    "wandb.mode=disabled",
    "figures=false",
)
# A random model's replies cannot be read, and its context is short.
TINY = (
    "model.dtype=float32",
    "model.max_model_len=4096",
    "model.engine.max_num_seqs=8",
    "model.engine.distributed_executor_backend=uni",
    "agents.max_tokens=16",
    "failures.window=1000",
)
PREFIXES = 8  # different ones in the engine's own benchmark
# Runs in a separate process, whose engine ends with it. The command `vllm bench` does not start with the CPU build,
# whose package has another name.
BENCHMARK = """
from vllm.benchmarks.throughput import FlexibleArgumentParser, add_cli_args, main

if __name__ == "__main__":
    parser = FlexibleArgumentParser()
    add_cli_args(parser)
    main(parser.parse_args())
"""


@dataclass(frozen=True, slots=True)
class Row:
    """Counts of one run. Seconds are those of its discussions, without the start of the engines.

    calls: requests to the model. A turn that is asked again has more than one.
    """

    name: str
    turns: int
    calls: int
    read_at_once: int
    failed_turns: int
    pictures: int
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    seconds: float

    @property
    def turns_per_s(self) -> float:
        return self.turns / self.seconds

    @property
    def calls_per_s(self) -> float:
        return self.calls / self.seconds

    @property
    def cached_share(self) -> float:
        return self.cached_tokens / max(self.prompt_tokens, 1)


def hold(name: str, words: Sequence[str]) -> tuple[Row, dict[str, bytes]]:
    """Holds the discussions in one process. Returns its counts, and its files that a repetition writes again.

    Raises CalledProcessError where the run fails.
    """
    print(f"{name} ...", file=sys.stderr, flush=True)
    command = [sys.executable, "run.py", *TEAM, *words]
    output = subprocess.run(command, cwd=PROJECT, check=True, stdout=subprocess.PIPE, text=True).stdout
    run = load_run(re.findall("^run: (.*)$", output, re.MULTILINE)[-1])

    phase = usage.by_phase(RunFolder.open(run.path))[f"{usage.EVALUATING}full"]
    counts = run.results["methods"]["full"]
    row = Row(
        name,
        turns=counts["turns"],
        calls=phase.total.calls,
        read_at_once=counts["read_at_once"],
        failed_turns=counts["failed_turns"],
        pictures=count_pictures(run),
        prompt_tokens=phase.total.prompt_tokens,
        cached_tokens=phase.total.cached_tokens,
        completion_tokens=phase.total.completion_tokens,
        seconds=phase.seconds,
    )
    paths = [run.path / "metrics.json", run.path / "scores.jsonl", *(run.path / "traces").iterdir()]
    return row, {path.name: path.read_bytes() for path in paths}


def count_pictures(run: Run) -> int:
    """Counts the pictures in the evidence of all discussions. 0 where the model did not see them as pictures."""
    model = json.loads((run.path / "model.json").read_text())
    if not model["abilities"]["pictures"]:
        return 0
    pictures = {path.stem for path in run.path.parent.glob("cache/sample-*/final_dataset_images/*.png")}
    return sum(len(pictures.intersection(trace.evidence)) for trace in run.traces("full"))


def benchmark_engine(model: str, row: Row, arguments: Sequence[str], folder: Path) -> float:
    """Measures requests a second of vLLM's own benchmark, with lengths and common prefixes as in a run."""
    prompt_tokens = row.prompt_tokens // row.calls
    prefix_tokens = row.cached_tokens // row.calls
    script = folder / "benchmark.py"
    script.write_text(BENCHMARK)
    result = folder / "benchmark.json"
    lengths = {
        "prefix-len": max(prefix_tokens, 1),
        "suffix-len": max(prompt_tokens - prefix_tokens, 1),
        "output-len": max(row.completion_tokens // row.calls, 1),
        "num-prefixes": PREFIXES,
    }
    command = [sys.executable, str(script), f"--model={model}", "--dataset-name=prefix_repetition"]
    command += [f"--prefix-repetition-{name}={number}" for name, number in lengths.items()]
    # Each prefix is repeated as often: the number of prompts has to be a multiple of theirs.
    prompts = max(row.calls // PREFIXES, 1) * PREFIXES
    command += [f"--num-prompts={prompts}", f"--output-json={result}", "--enable-prefix-caching", *arguments]
    print("the engine's own benchmark ...", file=sys.stderr, flush=True)
    subprocess.run(command, check=True, stdout=sys.stderr)
    return float(json.loads(result.read_text())["requests_per_second"])


def check(model: str, questions: int, replicas: int, share_gpu: bool, tiny: bool) -> dict[str, Any]:
    """Holds the three runs and the benchmark. Returns their figures, and which files of a repetition differ."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        arguments = ["--max-model-len=8192"]
        settings = ["model.max_model_len=8192"]
        if tiny:
            # Repairs torchvision's import, here and in the processes that the runs start.
            here = str(Path(__file__).parent)
            os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH")]))
            import tests.vllm.sitecustomize  # noqa: F401
            from tests.vllm.tiny_model import write_tiny_model

            model = str(write_tiny_model(folder / "tiny"))
            arguments = ["--dtype=float32", "--enforce-eager", "--block-size=32"]
            settings = list(TINY)
        if share_gpu:
            settings += [f"model.gpus={1 / replicas}", f"model.engine.gpu_memory_utilization={0.9 / replicas:.2f}"]
        words = ["model=vllm", f"model.name={model}", f"data.limit={questions}", f"output={folder}", *settings]

        first, first_files = hold("one replica", [*words, "model.replicas=1"])
        again, again_files = hold("the same again", [*words, "model.replicas=1"])
        several, several_files = hold(f"{replicas} replicas", [*words, f"model.replicas={replicas}"])

        differing = {}
        for row, files in ((again, again_files), (several, several_files)):
            differing[row.name] = [name for name, content in first_files.items() if files.get(name) != content]
        rows = (first, again, several)
        print_table(rows, differing)
        engine_per_s = benchmark_engine(model, again, arguments, folder)
        print(f"{'the engine alone':83}  {engine_per_s:7.2f}")
    return {
        "model": "tiny random Qwen2.5-VL" if tiny else model,
        "questions": questions,
        "runs": [asdict(row) for row in rows],
        "engine_per_s": engine_per_s,
        "differing": differing,
    }


def print_table(rows: Sequence[Row], differing: Mapping[str, Sequence[str]]) -> None:
    print(f"{'run':16} turns  read  failed  pictures  prompt tokens  cached  same bytes  turns/s  calls/s")
    for row in rows:
        same_bytes = "-"
        if row.name in differing:
            same_bytes = "no" if differing[row.name] else "yes"
        print(
            f"{row.name:16} {row.turns:5}  {row.read_at_once:4}  {row.failed_turns:6}  {row.pictures:8}"
            f"  {row.prompt_tokens:13,}  {row.cached_share:6.1%}  {same_bytes:>10}"
            f"  {row.turns_per_s:7.2f}  {row.calls_per_s:7.2f}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=MODEL, help="a vision-language model, by its name on the hub or its folder")
    parser.add_argument("--questions", type=int, default=20)
    parser.add_argument("--replicas", type=int, default=2)
    parser.add_argument("--share-gpu", action="store_true", help="all replicas on one GPU, each with its share")
    parser.add_argument("--tiny", action="store_true", help="a random model that this writes, on a CPU")
    figures = check(**vars(parser.parse_args()))
    print(json.dumps(figures))
    if any(figures["differing"].values()) or not all(row["pictures"] for row in figures["runs"]):
        sys.exit(1)


if __name__ == "__main__":
    main()
