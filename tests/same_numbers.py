"""Runs small experiments on two checkouts and compares what they write, byte by byte.

    python tests/same_numbers.py record <checkout> <folder> [case ...]    run every case, or those named, of a checkout
    python tests/same_numbers.py compare <folder> <folder>      exit 0 when both hold the same bytes, else 1

A change that should move no number is checked so: record the checkout before and after it, then compare. Files with
times or process numbers are left out (`usage.jsonl`, `timings/`, logs, W&B), and so are paths of the two folders.
Configurations are compared key by key: keys that only one version has are listed at the end and count as no difference.
Cases that need a benchmark's release run where SAME_NUMBERS_DATA names a folder of releases (`scienceqa`, `mmqa`).
"""

import base64
import gzip
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import yaml

SMALL = ["data.limit=12", "pruning.steps=4", "training.samples=4", "wandb.mode=disabled"]
METHODS = "methods=[single,random,{}]"
CASES: dict[str, list[str]] = {
    "default": ["experiment=mmqa_prune", *SMALL],
    "reinforce": [*("experiment=mmqa_prune", *SMALL), "methods=[single,random,m3prune]"],
    "rloo": [
        *("experiment=mmqa_prune", *SMALL, "pruning.rate=0.4"),
        *("topology.inference=sampled", "ablation=no_alignment", "training.questions_per_step=2"),
        "agents.budget_words=12",
        "methods=[single,random,m3prune_rloo]",
    ],
    "staged": [
        "experiment=mmqa_prune",
        *SMALL,
        "learner.decision=learned",
        "methods=[single,random,m3prune]",
        "seed=3",
    ],
    "no_inter": [*("experiment=mmqa_prune", *SMALL, "ablation=no_inter"), "methods=[single,random,m3prune]"],
    "dummies": ["experiment=mmqa_prune", *SMALL, "ablation=dummy_visual", "topology.rounds=3"],
    "agentprune": ["experiment=agentprune", *SMALL, METHODS.format("agentprune")],
    "gptswarm": ["experiment=gptswarm", *SMALL, METHODS.format("gptswarm")],
    "agentdropout": ["experiment=agentdropout", *SMALL, METHODS.format("agentdropout")],
    "systems": ["experiment=systems", *SMALL, "data.limit=4"],
    "variants": [
        *("experiment=mmqa_prune", *SMALL, "data.limit=3"),
        "methods=[bdog_debate,bdog_graph,mmapg_no_planning,mmapg_no_retrieval,mh_vanilla,mh_perceptive,mh_offline,"
        "mh_vanilla_plus,mh_dfs,mh_knowledgeable,hm_rag_vector,hm_rag_graph,hm_rag_web,hm_rag_no_vector,hm_rag_no_graph,"
        "hm_rag_no_web,hm_rag_no_decomposition,hm_rag_no_decision]",
    ],
    "defences": [
        *("experiment=mmqa_prune", *SMALL, "defence.calibration=8", "defence.dropped=2"),
        "methods=[chain,star,tree,layered,debate,challenger,inspector,majority,agreement,anomaly,full]",
    ],
    "attacks": [
        *("experiment=mmqa_prune", *SMALL, "data.limit=6", "attack.number=2", "methods=[full,single,m3prune]"),
        "sweep.axes.attack.kind=[none,input,response,collude,sleeper,tamper,poison,contagion]",
    ],
    "attacked_system": [*("experiment=bdog", *SMALL, "attack=response", "attack.agents=[moderator]", "judge=reader")],
    "sweep": [*("experiment=table3", *SMALL, "data.limit=5", "pruning.steps=2", "sweep.seeds=2"), "sweep.parallel=1"],
    "table": ["experiment=mmapg_table", *SMALL, "data.limit=3", "sweep.seeds=2"],
    "judged": ["experiment=mmqa_prune", *SMALL, "judge=reader", "methods=[single,full]", "seed=5"],
    "planted": ["experiment=planted", "planted.seeds=2", "planted.truth=2000", "planted.evaluated=400", "seed=1"],
    "redundancy": ["experiment=redundancy", *SMALL, "redundancy.questions=4", "topology.rounds=2"],
    "behaviour": ["experiment=behaviour", *SMALL],
    "recall": ["experiment=recall", "data.limit=30"],
    "dry_run": ["experiment=mmqa_prune", "dry_run=true", "data.limit=20", "pruning.steps=4"],
    "dry_run_systems": ["experiment=systems", "dry_run=true", "data.limit=4", "pruning.steps=2"],
    "dry_run_sweep": ["experiment=table8", "dry_run=true", "data.limit=4", "pruning.steps=2", "training.samples=2"],
    "inline": ["experiment=mmqa_prune", *SMALL, "runtime=inline", "seed=2", "methods=[single,full,m3prune,effects]"],
    "endpoint": [
        *("experiment=mmqa_prune", *SMALL, "data.limit=4", "methods=[single,full,hm_rag,m3prune]", "model=openai"),
        *("model.name=steady", "model.base_url={endpoint}", "retrieval.pictures=0"),
    ],
    "resumed_sweep": [
        *("experiment=mmqa_prune", *SMALL, "data.limit=5", "methods=[single,full,m3prune]", "sweep.seeds=2"),
        *("sweep.axes.topology.rounds=[1,2]", "sweep.parallel=1"),
    ],
    "replay": [
        *("experiment=mmqa_prune", *SMALL, "data.limit=6", "methods=[full,m3prune]", "judge=reader"),
        *("model=replay", "replay.run={recorded}"),
    ],
    "scienceqa": [
        *("experiment=scienceqa_prune", *SMALL, "data.root={scienceqa}"),
        "methods=[sp,ccot,bdog,hm_rag,full,m3prune]",
    ],
}
# What a case needs first: a run to replay, by its words.
RECORDED = {"replay": ["experiment=mmqa_prune", *SMALL, "methods=[single,full,m3prune]"]}
# Interrupted when its first trial has ended, then resumed.
INTERRUPTED = ("resumed_sweep",)
# Files and texts with times, process numbers or speeds, which no two runs share.
# The report of a sweep's trial counts completions that trials beside it computed first, which is a matter of time.
LEFT_OUT = re.compile(
    r"(^|/)(wandb|cache|tune|timings)(/|$)|(usage|starts)\.jsonl(\.digest)?$|overview\.json$|\.log$|\.lock$|trials/[^/]+/report\.html$"
)
# Lines of these come in the order in which trials or worlds ended.
ANY_ORDER = ("trials.jsonl", "worlds.jsonl")
# Embedded traces of a report: gzipped JSON in base64, which begins so.
EMBEDDED = re.compile(rb"H4sI[\w+/]+=*")
# Times of day, durations and rates; progress lines come as often as the machine allows.
TIMES = re.compile(
    rb"took [\d.,]+ s|\"seconds\": ?[\d.e-]+|(?m:^.{0,20}\(raylet\).*\n)|A warm trial started .*|\d{8}-\d{6}|"
    rb"[\d.,]+ s</td>|"
    rb"(?m:^(?:starting|learning|evaluating|judging|trials|estimating|counting|preparing|exploring|taking|removing|watching|"
    rb"measuring|searching|asking)\b[^|]*?: .*\n)"
)
# The configuration inside a page; `config.yaml` itself is compared key by key.
CONFIGURATION = re.compile(rb"<pre[^>]*>experiment:.*?</pre>", re.DOTALL)
# What the summary of a page says of its run's start.
START = re.compile(rb"<div><dt>(Started|Took|Version|Command)</dt>.*?</div>", re.DOTALL)
PORT = 18_473  # the same for all recordings, for it is part of the configuration


def record(checkout: Path, folder: Path, only: list[str]) -> None:
    """Runs every case in a process of its own, in the checkout; skips cases that were recorded before."""
    release = Path(os.environ.get("SAME_NUMBERS_DATA", "/nonexistent"))
    # Only where it is used: other recordings may run at the same time.
    with _endpoint() if not only or "endpoint" in only else nullcontext("") as address:
        for name, words in CASES.items():
            if only and name not in only:
                continue
            case = folder / name
            needs = [key for key in ("scienceqa", "mmqa") if any(f"{{{key}}}" in word for word in words)]
            if (case / "out.txt").exists() or any(not (release / key).is_dir() for key in needs):
                continue
            shutil.rmtree(case, ignore_errors=True)  # left by an interrupted recording
            case.mkdir(parents=True)
            places = {"scienceqa": release / "scienceqa", "mmqa": release / "mmqa", "endpoint": address}
            if name in RECORDED:
                _run(checkout, folder, case, RECORDED[name])
                places["recorded"] = (case / "runs").rename(case / "first") / next((case / "first").glob("*-*")).name
            printed = _run(checkout, folder, case, [_filled(word, places) for word in words], name in INTERRUPTED)
            # A run folder's name holds the time, which would differ between two recordings.
            for run in (case / "runs").glob("*-*") if (case / "runs").is_dir() else ():
                run.rename(case / "run")
            shutil.rmtree(case / "runs", ignore_errors=True)
            shutil.rmtree(case / "first", ignore_errors=True)
            # Last, because this file marks a case as recorded: an interrupted one is run again.
            (case / "out.txt").write_bytes(b"exit 0\n" + printed)
            print(f"{name}: exit 0", flush=True)


def _filled(word: str, places: Mapping[str, object]) -> str:
    for key, place in places.items():
        word = word.replace(f"{{{key}}}", str(place))
    return word


def _run(checkout: Path, folder: Path, case: Path, words: list[str], interrupted: bool = False) -> bytes:
    """Runs one command, once interrupted and resumed where asked; returns what it printed."""
    # A command line takes each key once: a case's own words take the place of the common ones.
    by_key = {word.partition("=")[0]: word for word in words}
    command = [sys.executable, "run.py", *by_key.values(), f"output={case}/runs", f"cache={folder}/cache"]
    if interrupted:
        process = subprocess.Popen(
            command, cwd=checkout, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
        )
        while process.poll() is None and not any((case / "runs").glob("*/trials.jsonl")):
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        process.communicate()
        run = next((case / "runs").glob("*-*"))
        command = [sys.executable, "run.py", f"resume={run}", f"cache={folder}/cache"]
    finished = subprocess.run(command, cwd=checkout, capture_output=True, check=False)
    (case / "errors.txt").write_bytes(finished.stderr)
    if finished.returncode:
        error = finished.stderr.decode(errors="replace").strip()
        raise SystemExit(f"{case.name}: exit {finished.returncode}: {error}")
    return finished.stdout


@contextmanager
def _endpoint() -> Iterator[str]:
    """A server of OpenAI's protocol whose reply depends on the request alone."""
    server = ThreadingHTTPServer(("127.0.0.1", PORT), _Endpoint)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{PORT}/v1"
    finally:
        server.shutdown()
        server.server_close()


class _Endpoint(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._send({"data": [{"id": "steady"}]})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        prompt = json.dumps(body["messages"])
        chance = random.Random(f"{body.get('seed')}")
        # Words of the question alone, so that a reworded prompt gets the same reply.
        names = re.findall(r"\b[A-Z][a-z]+ [A-Z][a-z]+\b", prompt) or ["Unknown"]
        text = (
            f"Answer: {chance.choice(sorted(set(names)))}\nReasoning: It is stated.\nConfidence: {chance.random():.2f}"
        )
        message = {"role": "assistant", "content": text}
        usage = {"prompt_tokens": len(prompt) // 4, "completion_tokens": len(text) // 4}
        self._send({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": usage})

    def _send(self, body: object) -> None:
        content = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Prints nothing."""


def compare(before: Path, after: Path) -> int:
    """Prints every file that differs or is there once only, keys of one version alone, and how many are the same."""
    known, now = _files(before), _files(after)
    cases = {n.partition("/")[0] for n in known} & {n.partition("/")[0] for n in now}
    same, different, keys = 0, [], {"only before": set(), "only after": set()}
    for name in sorted(known.keys() | now.keys()):
        if name.partition("/")[0] not in cases:
            continue  # a case that was recorded for one of them only
        if name not in known or name not in now:
            different.append(f"{name}: {'only before' if name in known else 'only after'}")
        elif name.endswith("config.yaml"):
            changed = _compare_keys(_content(before, name), _content(after, name), keys)
            different += [f"{name}: {key} differs" for key in changed]
            same += not changed
        elif _content(before, name) == _content(after, name):
            same += 1
        else:
            different.append(f"{name}: differs")
    print(*different, sep="\n")
    print(*(f"settings {where}: {', '.join(sorted(names))}" for where, names in keys.items() if names), sep="\n")
    print(json.dumps({"files": same + len(different), "same": same, "different": len(different)}))
    # Two folders without a common file prove nothing.
    return 1 if different or not same else 0


def _compare_keys(before: bytes, after: bytes, keys: dict[str, set[str]]) -> list[str]:
    """The keys of both configurations whose values differ; notes keys that only one of them has."""
    old, new = (dict(_flat(yaml.safe_load(content))) for content in (before, after))
    keys["only before"] |= old.keys() - new.keys()
    keys["only after"] |= new.keys() - old.keys()
    return sorted(key for key in old.keys() & new.keys() if old[key] != new[key])


def _flat(tree: object, prefix: str = "") -> Iterator[tuple[str, object]]:
    if isinstance(tree, dict) and tree:
        for key, value in tree.items():
            yield from _flat(value, f"{prefix}.{key}" if prefix else str(key))
    else:
        yield prefix, tree


def _files(folder: Path) -> dict[str, Path]:
    paths = ((path.relative_to(folder).as_posix(), path) for path in folder.rglob("*") if path.is_file())
    # Errors hold warnings and progress; they are there to be read when a case fails.
    return {name: path for name, path in paths if not LEFT_OUT.search(name) and not name.endswith("errors.txt")}


def _content(folder: Path, name: str) -> bytes:
    content = (folder / name).read_bytes()
    if name.endswith(".gz"):
        # Paths of the folder are inside.
        content = gzip.decompress(content)
    content = content.replace(str(folder).encode(), b"FOLDER")
    if name.endswith(".html"):
        content = START.sub(b"", CONFIGURATION.sub(b"", content))
        content = EMBEDDED.sub(lambda found: gzip.decompress(base64.b64decode(found[0])), content)
    if name.endswith(ANY_ORDER):
        content = b"\n".join(sorted(content.splitlines()))
    return TIMES.sub(b"", content)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["record", checkout, folder, *only]:
            record(Path(checkout).absolute(), Path(folder).absolute(), only)
        case ["compare", before, after]:
            sys.exit(compare(Path(before).absolute(), Path(after).absolute()))
        case _:
            sys.exit(__doc__)
