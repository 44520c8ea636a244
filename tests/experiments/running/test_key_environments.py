"""The key of an endpoint is in the environment of no process that a run starts: W&B's, Ray's, agents, replicas."""

from pathlib import Path

import psutil
import pytest

from tests.support.endpoint import Asked, Server, Told, completion, serving
from tests.support.sessions import begin, finish

KEY = "sk-of-the-tests-0123456789abcdef"


@pytest.mark.ray
def test_no_process_that_a_run_starts_has_the_key_in_its_environment(tmp_path: Path) -> None:
    """By the name of each process, whether its environment has the key, seen while the endpoint is asked."""
    seen: dict[str, bool] = {}

    async def answer(asked: Asked) -> Told:
        if asked.path.endswith("/models"):
            return Told({"data": [{"id": "m"}]})
        for process in psutil.Process(run.pid).children(recursive=True):
            name = process.name()
            environment = Path(f"/proc/{process.pid}/environ")
            if environment.exists():
                seen[name] = seen.get(name, False) or KEY.encode() in environment.read_bytes()
        return Told(completion("Reasoning: I looked.\nAnswer: unknown\nConfidence: 0.6"))

    server = Server(answer)
    with serving(server):
        words = [f"model.base_url={server.base_url}", "model.name=m", "model.key_env=RUN_KEY", "wandb.mode=offline"]
        words += ["experiment=mmqa_prune", "methods=[single]", "data.limit=6", "figures=false", f"output={tmp_path}"]
        run = begin("model=openai", *words, RUN_KEY=KEY)
        finish(run)
    assert server.asked[-1].headers["authorization"] == f"Bearer {KEY}"
    assert {"raylet", "gcs_server", "wandb-core"} <= set(seen)
    assert not [name for name, has_key in seen.items() if has_key]
