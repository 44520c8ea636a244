"""Fixtures that many tests share: benchmark files where they are at hand, the guide's files, an offline machine."""

import os
import re
import shutil
import signal
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

from tests.support.paths import ROOT

# Before anything imports these packages: no test logs in, reports or downloads.
os.environ["WANDB_MODE"] = "offline"
os.environ["WANDB_ERROR_REPORTING"] = "false"
os.environ["WANDB_SILENT"] = "true"
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
os.environ["MPLBACKEND"] = "Agg"
# No test speaks TLS: a client that trusts an empty folder is made at once, and one that reads the system's certificates
# takes a tenth of a second.
os.environ.pop("SSL_CERT_FILE", None)
os.environ["SSL_CERT_DIR"] = str(ROOT / "tests" / "support")
# The many processes that tests start compile the project once, whatever the caller's settings.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# Two tests at once on two cores: threads of their own would wait for each other, most of all on a busy machine.
os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
# A shell has what it starts in the background ignore Ctrl-C, and what tests start and interrupt would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# Hypothesis would fail an example that takes 200 ms: no test may depend on how fast or busy the machine is. Nor may it
# depend on luck: the same examples every time; new ones are looked for by hand.
hypothesis_settings.register_profile(
    "busy machine", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
# By hand: `--hypothesis-profile=long`, with which each generator in tests/fuzz runs for about an hour.
hypothesis_settings.register_profile(
    "long", deadline=None, max_examples=1_000_000, suppress_health_check=list(HealthCheck)
)
hypothesis_settings.load_profile("busy machine")


# Minutes each, alone; files are handed out whole.
LONG = """test_smoke.py test_sweep.py test_cluster.py test_planted.py test_run.py test_run_models.py test_data_sets.py
test_systems.py test_guide.py test_received_folder.py test_defences.py test_shared_run.py test_twins.py
test_unused.py""".split()


def pytest_configure(config: pytest.Config) -> None:
    """Has all that tests and their processes put into TMPDIR end with them, such as W&B's files of killed runs.

    `tmp_path` stays where pytest has it.
    """
    # pytest-xdist's workers share the folder of the process that starts them.
    if "PYTEST_XDIST_WORKER" in os.environ:
        return
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
    folder = tempfile.mkdtemp(prefix="t")
    os.environ["TMPDIR"] = folder
    tempfile.tempdir = None
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real benchmark files in BENCHMARK_DATA: `bdog`, `mh`, `mmqa`, `scienceqa`, `tatqa`, `vidorag`."""
    if "BENCHMARK_DATA" not in os.environ:
        pytest.skip("no benchmark files: BENCHMARK_DATA names no folder")
    return Path(os.environ["BENCHMARK_DATA"]).resolve(strict=True)


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for the runs of a module."""
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for the index and the completions of a module."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files of docs/extending.md as a package in a folder that Python looks in."""
    (tmp_path / "mine").mkdir()
    guide = (ROOT / "docs" / "extending.md").read_text()
    for name, content in re.findall(r"```(?:python|yaml)\n# (mine/[\w.]+)\n(.*?)```", guide, re.DOTALL):
        (tmp_path / name).write_text(content)
    monkeypatch.chdir(ROOT)
    monkeypatch.syspath_prepend(tmp_path)
    for module in [name for name in sys.modules if name == "mine" or name.startswith("mine.")]:
        monkeypatch.delitem(sys.modules, module)
    return tmp_path


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts long files first, so that no core waits for the last one, and marks as `full` what `python -m pytest` leaves
    out: tests that start Ray or are slow, but for the smoke tests.
    """
    items.sort(key=lambda item: item.path.name not in LONG)
    for item in items:
        marked = {mark.name for mark in item.iter_markers()}
        if marked & {"ray", "slow"} and not marked & {"smoke", "vllm"}:
            item.add_marker(pytest.mark.full)
