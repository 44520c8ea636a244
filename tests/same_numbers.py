"""Runs small experiments on two checkouts and compares what they write, byte by byte.

    python tests/same_numbers.py record <checkout> <folder> [case ...]    run every case, or those named, of a checkout
    python tests/same_numbers.py compare <folder> <folder>      exit 0 when both hold the same bytes, else 1

A change that is meant to move no number is held to it: record the checkout before and after it, then compare. What
holds times or process numbers is left out (`usage.jsonl`, `starts.jsonl`, logs, W&B), and so are paths of the two
folders themselves.
Cases that need a benchmark's release run where SAME_NUMBERS_DATA names a folder of releases (`scienceqa`, `mmqa`).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

SMALL = ["data.limit=12", "pruning.steps=4", "training.samples=4", "wandb.mode=disabled"]
METHODS = "methods=[single,random,{}]"
CASES: dict[str, list[str]] = {
    "default": ["experiment=mmqa_prune", *SMALL],
    "reinforce": [
        *("experiment=mmqa_prune", *SMALL, "learner.estimator=reinforce", "pruning.clock=round"),
        "methods=[single,random,m3prune]",
    ],
    "rloo": [
        *("experiment=mmqa_prune", *SMALL, "learner.estimator=rloo", "learner.per_round=true"),
        *("topology.inference=sampled", "ablation=no_alignment", "training.questions_per_step=2"),
        *("learner.likelihood=present", "learner.init=gumbel", "agents.budget_words=12"),
        "methods=[single,random,m3prune_rloo]",
    ],
    "staged": ["experiment=mmqa_prune", *SMALL, "learner.staged=true", "learner.decision=connected", "seed=3"],
    "no_inter": [
        *("experiment=mmqa_prune", *SMALL, "ablation=no_inter", "learner.estimator=reinforce"),
        "methods=[single,random,m3prune]",
    ],
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
    "attacked_system": [
        *("experiment=bdog", *SMALL, "attack=response", "attack.agents=[moderator]", "judge=reader"),
    ],
    "sweep": [
        *("experiment=table3", *SMALL, "data.limit=5", "pruning.steps=2", "sweep.seeds=2"),
        "sweep.parallel=1",
    ],
    "table": ["experiment=mmapg_table", *SMALL, "data.limit=3", "sweep.seeds=2"],
    "judged": ["experiment=mmqa_prune", *SMALL, "judge=reader", "methods=[single,full]", "seed=5"],
    "planted": ["experiment=planted", "planted.seeds=2", "planted.truth=2000", "planted.evaluated=400", "seed=1"],
    "redundancy": ["experiment=redundancy", *SMALL, "redundancy.questions=4", "topology.rounds=2"],
    "behaviour": ["experiment=behaviour", *SMALL],
    "recall": ["experiment=recall", "data.limit=30"],
    "dry_run": ["experiment=mmqa_prune", "dry_run=true", "data.limit=20", "pruning.steps=4"],
    "dry_run_systems": ["experiment=systems", "dry_run=true", "data.limit=4", "pruning.steps=2"],
    "dry_run_sweep": ["experiment=table8", "dry_run=true", "data.limit=4", "pruning.steps=2", "training.samples=2"],
    "scienceqa": [
        *("experiment=scienceqa_prune", *SMALL, "data.root={scienceqa}"),
        "methods=[sp,ccot,bdog,hm_rag,full,m3prune]",
    ],
}
# Files and texts with times, process numbers or speeds, which no two runs share.
# The report of a sweep's trial counts completions that trials beside it computed first, which is a matter of time.
LEFT_OUT = re.compile(r"(^|/)(wandb|cache|tune)(/|$)|(usage|starts)\.jsonl$|\.log$|\.lock$|trials/[^/]+/report\.html$")
# Lines of these come in the order in which trials or worlds ended.
ANY_ORDER = ("trials.jsonl", "worlds.jsonl")
# Times of day, durations and rates; progress lines come as often as the machine allows.
TIMES = re.compile(
    rb"took [\d.,]+ s|(?m:^.{0,20}\(raylet\).*\n)|A warm trial started .*|\d{8}-\d{6}|[\d.,]+ s</td>|"
    rb"(?m:^(?:starting|learning|evaluating|judging|trials|estimating|preparing|exploring|taking|removing|watching|"
    rb"measuring|searching|asking)\b[^|]*?: .*\n)"
)
# Settings that have another name since then, by group and key: old, new.
RENAMED = {("", "rates"): "costs", ("learner", "rate"): "learning_rate", ("attack", "rate"): "share"}


def record(checkout: Path, folder: Path, only: list[str]) -> None:
    """Every case in a process of its own, in the checkout; a case that was recorded before is not run again."""
    release = Path(os.environ.get("SAME_NUMBERS_DATA", "/nonexistent"))
    for name, words in CASES.items():
        if only and name not in only:
            continue
        case = folder / name
        needs = [key for key in ("scienceqa", "mmqa") if any(f"{{{key}}}" in word for word in words)]
        if (case / "out.txt").exists() or any(not (release / key).is_dir() for key in needs):
            continue
        shutil.rmtree(case, ignore_errors=True)  # what an interrupted recording left
        case.mkdir(parents=True)
        filled = [word.replace("{scienceqa}", str(release / "scienceqa")) for word in words]
        filled = [word.replace("{mmqa}", str(release / "mmqa")) for word in filled]
        command = [sys.executable, "run.py", *filled, f"output={case}/runs", f"cache={folder}/cache"]
        process = subprocess.run(command, cwd=checkout, capture_output=True, check=False)
        (case / "errors.txt").write_bytes(process.stderr)
        if process.returncode:
            raise SystemExit(f"{name}: exit {process.returncode}: {process.stderr.decode(errors='replace').strip()}")
        # A run folder's name holds the time, which would differ between two recordings.
        for run in (case / "runs").glob("*-*") if (case / "runs").is_dir() else ():
            run.rename(case / "run")
        shutil.rmtree(case / "runs", ignore_errors=True)
        # Last, because this file marks a case as recorded: an interrupted one is run again.
        (case / "out.txt").write_bytes(b"exit %d\n" % process.returncode + process.stdout)
        print(f"{name}: exit {process.returncode}", flush=True)


def compare(before: Path, after: Path) -> int:
    """Prints every file that differs or is there once only, and how many are the same."""
    known, now = _files(before), _files(after)
    same, different = 0, []
    for name in sorted(known.keys() | now.keys()):
        if name.partition("/")[0] not in {n.partition("/")[0] for n in known} & {n.partition("/")[0] for n in now}:
            continue  # a case that was recorded for one of them only
        if name in known and name in now and _content(before, name) == _content(after, name):
            same += 1
        else:
            where = "differs" if name in known and name in now else "only before" if name in known else "only after"
            different.append(f"{name}: {where}")
    print(*different, sep="\n")
    print(json.dumps({"files": same + len(different), "same": same, "different": len(different)}))
    # Two folders without a common file prove nothing.
    return 1 if different or not same else 0


def _files(folder: Path) -> dict[str, Path]:
    paths = ((path.relative_to(folder).as_posix(), path) for path in folder.rglob("*") if path.is_file())
    # Errors hold warnings and progress; they are there to be read when a case fails.
    return {name: path for name, path in paths if not LEFT_OUT.search(name) and not name.endswith("errors.txt")}


def _content(folder: Path, name: str) -> bytes:
    content = (folder / name).read_bytes()
    content = content.replace(str(folder).encode(), b"FOLDER")
    if name.endswith((".yaml", ".html")):
        content = _renamed(content.decode()).encode()
    if name.endswith(ANY_ORDER):
        content = b"\n".join(sorted(content.splitlines()))
    return TIMES.sub(b"", content)


def _renamed(text: str) -> str:
    """A configuration, alone or inside a page, under the names that its settings have now."""
    group, lines = "", []
    for line in text.splitlines():
        key = re.match(r"(  )?(\w+):", line)
        if key:
            group = group if key[1] else key[2]
            new = RENAMED.get((group if key[1] else "", key[2]))
            line = f"{key[1] or ''}{new}{line[key.end(2) :]}" if new else line
        lines.append(line)
    return "\n".join(lines)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["record", checkout, folder, *only]:
            record(Path(checkout).absolute(), Path(folder).absolute(), only)
        case ["compare", before, after]:
            sys.exit(compare(Path(before).absolute(), Path(after).absolute()))
        case _:
            sys.exit(__doc__)
