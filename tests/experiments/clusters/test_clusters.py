"""The cluster files are what Ray and KubeRay take, and the command in each is a run that fits the cluster.

KubeRay's own schema is in no package: KUBERAY_CRD=<ray.io_rayjobs.yaml of its Helm chart> has the manifest held
against it.
"""

import json
import shlex
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import ray.autoscaler
import yaml

from experiments.config.config import Config
from experiments.config.loading import load
from tests.support.paths import ROOT

CLUSTERS = ROOT / "experiments" / "clusters"


def read(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((CLUSTERS / name).read_text())
    return found


def configured(command: str) -> Config:
    """The configuration of the command that a file names."""
    words = shlex.split(command)
    return load([word for word in words[words.index("run") + 1 :] if "=" in word])


def ray_cluster_of_job() -> dict[str, Any]:
    """The cluster that KubeRay makes for the job, as its autoscaler reads it."""
    job = read("kuberay.yaml")
    return {"metadata": {"name": "agora-mm", "namespace": "default"}, "spec": job["spec"]["rayClusterSpec"]}


def test_the_cluster_file_is_what_rays_schema_says() -> None:
    schema = json.loads((Path(ray.autoscaler.__file__).parent / "ray-schema.json").read_text())
    jsonschema.validate(read("aws.yaml"), schema)


def test_ray_takes_the_cluster_file_and_knows_the_node_that_is_the_head(monkeypatch: pytest.MonkeyPatch) -> None:
    from ray.autoscaler._private.util import prepare_config, validate_config

    monkeypatch.chdir(ROOT)  # the checkout is what is copied to the nodes
    config = prepare_config(read("aws.yaml"))
    validate_config(config)
    assert config["available_node_types"]["head"]["max_workers"] == 0


def test_kuberays_autoscaler_reads_the_manifest() -> None:
    from ray.autoscaler._private.kuberay.autoscaling_config import _derive_autoscaling_config_from_ray_cr as derived

    groups = derived(ray_cluster_of_job())["available_node_types"]
    assert groups["gpu"]["resources"]["GPU"] == 1
    assert (groups["gpu"]["min_workers"], groups["gpu"]["max_workers"]) == (0, 8)
    assert "GPU" not in groups["headgroup"]["resources"]


@pytest.mark.parametrize("name", ["aws.yaml", "kuberay.yaml"])
def test_the_command_of_a_file_is_a_run_whose_replicas_fit_its_cluster(name: str) -> None:
    if name == "kuberay.yaml":
        command, [group] = read(name)["spec"]["entrypoint"], ray_cluster_of_job()["spec"]["workerGroupSpecs"]
        most = group["maxReplicas"]
    else:
        text = (CLUSTERS / name).read_text()
        quoted = text[text.index('"python3') + 1 :]
        command = " ".join(line.lstrip("# ") for line in quoted[: quoted.index('"')].splitlines())
        most = read(name)["available_node_types"]["gpu"]["max_workers"]
    config = configured(command)
    assert config.model.kind == "vllm"
    assert config.model.replicas == most
    assert config.ray.address == "auto"
    assert config.output == "/runs"
    assert config.ray.start_timeout_s


def strict(schema: Any) -> Any:
    """A schema that refuses fields that it does not name."""
    if isinstance(schema, list):
        return [strict(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: strict(value) for key, value in schema.items()}
    if isinstance(schema.get("properties"), dict) and not schema.get("x-kubernetes-preserve-unknown-fields"):
        found.setdefault("additionalProperties", False)
    return found
