"""Keys are in the environment of no process that a run starts: W&B's, Ray's, agents, replicas."""

import os
from pathlib import Path

import psutil
import pytest

from experiments.api import run
from experiments.jobs import plan_of
from tests.support.endpoint import Asked, Server, Told, completion, serving
from tests.support.sessions import begin, finish

KEY = "sk-of-the-tests-0123456789abcdef"
WANDB_KEY = "0123456789abcdef" * 3


@pytest.mark.ray
def test_no_process_that_a_run_starts_has_the_key_in_its_environment(tmp_path: Path) -> None:
    """By the name of each process, whether its environment has a key, seen while the endpoint is asked."""
    seen: dict[str, bool] = {}

    async def answer(asked: Asked) -> Told:
        if asked.path.endswith("/models"):
            return Told({"data": [{"id": "m"}]})
        for process in psutil.Process(process_of_run.pid).children(recursive=True):
            name = process.name()
            environment = Path(f"/proc/{process.pid}/environ")
            if environment.exists():
                variables = environment.read_bytes()
                has_key = any(key.encode() in variables for key in (KEY, WANDB_KEY))
                seen[name] = seen.get(name, False) or has_key
        return Told(completion("Reasoning: I looked.\nAnswer: unknown\nConfidence: 0.6"))

    server = Server(answer)
    with serving(server):
        words = [f"model.base_url={server.base_url}", "model.name=m", "model.key_env=RUN_KEY", "wandb.mode=offline"]
        words += ["experiment=mmqa_prune", "methods=[single]", "data.limit=6", "figures=false", f"output={tmp_path}"]
        process_of_run = begin("model=openai", *words, RUN_KEY=KEY, WANDB_API_KEY=WANDB_KEY)
        finish(process_of_run)
    assert server.asked[-1].headers["authorization"] == f"Bearer {KEY}"
    assert {"raylet", "gcs_server", "wandb-core"} <= set(seen)
    assert not [name for name, has_key in seen.items() if has_key]


@pytest.mark.slow
def test_a_notebook_keeps_its_keys_and_its_runs_find_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def answer(asked: Asked) -> Told:
        if asked.path.endswith("/models"):
            return Told({"data": [{"id": "m"}]})
        return Told(completion("Reasoning: I looked.\nAnswer: unknown\nConfidence: 0.6"))

    monkeypatch.setenv("RUN_KEY", KEY)
    monkeypatch.setenv("WANDB_API_KEY", WANDB_KEY)
    server = Server(answer)
    with serving(server):
        settings = {
            "model": {"kind": "openai", "base_url": server.base_url, "name": "m", "key_env": "RUN_KEY"},
            "wandb": {"mode": "disabled"},
            "methods": ["single"],
            "data": {"limit": 1},
            "runtime": "inline",
            "figures": False,
            "output": str(tmp_path),
        }
        first = run("mmqa_prune", settings)
        # These read a configuration in this process.
        plan_of(first.config)
        assert [os.environ[name] for name in ("RUN_KEY", "WANDB_API_KEY")] == [KEY, WANDB_KEY]
        second = run("mmqa_prune", settings, seed=1)
    assert second.results["methods"]
    assert {asked.headers["authorization"] for asked in server.asked} == {f"Bearer {KEY}"}
