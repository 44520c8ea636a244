"""The models of a run together: how many replicas each gets, and what is refused before any is loaded."""

from pathlib import Path

import pytest

from actors.backends.backends import find_backend
from actors.backends.model_settings import ModelSettings
from actors.errors import UserError
from actors.reader.reader import ReaderSettings
from actors.runtime.inline import Inline
from experiments.config.loading import load
from experiments.jobs import plan_of
from experiments.running.launching import COMPLETIONS, Pool, check_gpus, launch_pools, plan_pools

GIB = 2**30


def planned(gpus: float, *models: tuple[str, ModelSettings]) -> list[Pool]:
    return plan_pools([find_backend(key, settings, ReaderSettings()) for key, settings in models], gpus)


def refused(check: object, *arguments: object) -> str:
    with pytest.raises(UserError) as caught:
        check(*arguments)  # type: ignore[operator]
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_last_model_takes_the_gpus_that_are_left() -> None:
    pools = planned(
        4, ("judge", ModelSettings("vllm", name="j", replicas=1)), ("model", ModelSettings("vllm", name="m"))
    )
    assert [(pool.backend.key, pool.replicas, pool.gpus) for pool in pools] == [("judge", 1, 1.0), ("model", 3, 1.0)]
    check_gpus(pools, 4)


def test_pools_that_do_not_fit_on_the_gpus_together_are_refused_before_any_is_loaded() -> None:
    judge, large = ModelSettings("vllm", name="j"), ModelSettings("vllm", name="m", tensor_parallel=2)
    said = refused(check_gpus, planned(2, ("judge", judge), ("model", large)), 2)
    assert "4 GPUs (judge 2 x 1, model 1 x 2)" in said
    # Three parts of .6 are 1.8 GPUs, and no two of them fit on one.
    parts = ModelSettings("vllm", name="m", replicas=3, gpus=0.6, engine={"gpu_memory_utilization": 0.5})
    assert "GPUs" in refused(check_gpus, planned(2, ("model", parts)), 2)
    check_gpus(planned(3, ("model", parts)), 3)


def test_engines_that_share_a_gpu_may_not_set_aside_more_than_its_memory() -> None:
    def halves(**engine: float) -> list[Pool]:
        settings = ModelSettings("vllm", name="m", replicas=1, gpus=0.5, engine=dict(engine))
        return planned(1, ("roles.decision.model", settings), ("model", settings))

    said = refused(check_gpus, halves(), 1)
    assert "set aside 180%" in said
    assert "engine.gpu_memory_utilization of roles.decision.model and model to 0.45 " in said
    check_gpus(halves(gpu_memory_utilization=0.45), 1)


def test_why_completions_cannot_be_kept_is_logged_where_pools_are_launched(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / COMPLETIONS).write_text("no folder")
    plan = plan_of(load(["experiment=mmqa_prune", f"cache={tmp_path}"]))
    with Inline() as runtime:
        launch_pools(plan, runtime, print)
    [warned] = caplog.messages
    assert str(tmp_path / COMPLETIONS) in warned
