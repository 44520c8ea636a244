"""Bad input through the command line: one clear line on standard error, exit code 2, no traceback."""

import re
import shutil
import socket
from collections import namedtuple
from pathlib import Path

import pytest

from experiments.config.saved import save
from experiments.datasets.sample.release import write_sample
from run import main

ENDPOINT = ["model=openai", "model.name=x", "model.base_url=http://x/v1"]
SLEEPER = ["experiment=mmqa_prune", "attack=sleeper"]
LONG = "x" * 300  # letters of a name; file systems allow 255 bytes
SHOWN = "x" * 20  # of them, as an error shows a long value


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "sample"
    write_sample(folder, train=4, dev=4)
    return folder


@pytest.fixture
def release(sample: Path, tmp_path: Path) -> Path:
    """A release in MultimodalQA's layout to break."""
    return Path(shutil.copytree(sample, tmp_path / "release"))


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The one line that these words get."""
    assert main(list(words)) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    return error


def recall(release: Path, tmp_path: Path) -> list[str]:
    return ["experiment=recall", "data=mmqa", f"data.root={release}", f"output={tmp_path / 'runs'}"]


def test_without_words_some_experiments_are_named_and_help_lists_all_one_a_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([]) == 0
    assert "experiment=two_attackers" in capsys.readouterr().out
    assert main(["help=experiments"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum(bool(re.match(r"mmqa_prune +M3Prune on MultimodalQA", line)) for line in lines) == 1


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["experiment=mmqa_prun"], "'mmqa_prune'"),
        (["seed=1"], "experiment="),
        (["experiment=mmqa_prune", "data.limt=3"], "'data.limit'"),
        (["experiment=mmqa_prune", "data.kind=nothing"], "scienceqa"),
        (["experiment=mmqa_prune", "methods=[magic]"], "closed_book, single, full, chain"),
        (["experiment=mmqa_prune", "topology.text=[critik]"], "'critic'"),
        (["experiment=mmqa_prune", "data=scienceqa"], "data.root="),
        (["experiment=mmqa_prune", "data=mmqa", "data.root=/nowhere"], "data.root=/nowhere"),
        (["experiment=mmqa_prune", "learner.learning_rate=-1"], "learning_rate"),
        (["experiment=mmqa_prune", "model=vllm", "dry_run=true"], "model.name"),
        (["experiment=recall", "retrieval.encoder=/nowhere"], "retrieval.encoder: "),
        (["experiment=recall", "retrieval.picture_encoder=/nowhere"], "retrieval.picture_encoder: "),
        (["experiment=mmqa_prune", "ray.address=nowhere"], "host:port"),
        (["experiment=mmqa_prune", "topology.text=[]", "topology.visual=[]"], "topology.text"),
        (["experiment=mmqa_prune", "methods=[m3prune_rloo]", "training.samples=1"], "training.samples=1"),
        (["experiment=mmqa_prune", "attack=sleeper", "attack.from_round=3"], "attack.from_round=3"),
        ([*SLEEPER, "data.limit=50", "attack.from_question=70", "attack.when=evaluate"], "attack.from_question=70"),
        ([*SLEEPER, "attack.when=train", "attack.from_question=90", "pruning.steps=10"], "attack.from_question=90"),
        (["experiment=mmqa_prune", "replay.run=/tmp"], "replay.run"),
        (["experiment=mmqa_prune", "runtime=inline", "ray.address=auto"], "runtime=inline"),
        (["experiment=mmqa_prune", "methods=[anomaly]", "defence.dropped=9"], "defence.dropped=9"),
        (["experiment=mmqa_prune", "pruning.steps=100000"], "4,000"),
        (["experiment=mmqa_prune", "topology.instances=1000000000"], "topology.instances"),
        (["experiment=mmqa_prune", "attack=response", "attack.agents=[nobody]"], "nobody"),
        (["experiment=bdog", "attack=response", "attack.agents=[decision]"], "attack.agents"),
        (["experiment=mmqa_prune", "systems.paths=2"], "systems.paths"),
        (["experiment=mmqa_prune", *ENDPOINT, "model.key_env=NO_KEY"], "model.key_env"),
        (["experiment=mmqa_prune", "sweep.seeds=2", "retrieval.gleaning=2"], "retrieval.gleaning"),
        (["experiment=recall", "sweep.seeds=2"], "sweep"),
        (["experiment=mmqa_prune", "sweep.axes.seed=[1,2]"], "sweep.seeds="),
        (["experiment=mmqa_prune", "sweep.axes.topology.rounds=[2,2]"], "sweep.axes.topology.rounds"),
        (["experiment=mmqa_prune", "sweep.seeds=9999", "sweep.axes.topology.rounds=[1,2]"], "19,998 trials"),
        (
            ["experiment=planted", "planted.learners=[m3prune_rloo]", "training.samples=1"],
            "training.samples=1: m3prune_rloo",
        ),
    ],
)
def test_a_wrong_word_is_told_what_would_be_right_and_leaves_nothing(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert says in refused(capsys, *words, f"output={tmp_path / 'new' / 'runs'}", "wandb.mode=disabled")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([f"experiment={LONG}.yaml"], f"experiment={SHOWN}"),
        ([f"resume={LONG}"], SHOWN),
        (["experiment=mmqa_prune", f"roles.file={LONG}.yaml"], f"roles.file={SHOWN}"),
        (["experiment=mmqa_prune", "data=mmqa", f"data.root={LONG}"], SHOWN),
        (["experiment=mmqa_prune", "model=replay", f"replay.run={LONG}"], SHOWN),
        (
            ["experiment=omnisearch", "retrieval.web=recorded", f"retrieval.web_file={LONG}"],
            f"/{SHOWN}",
        ),
    ],
)
def test_a_name_that_is_too_long_for_a_file_is_one_that_is_not_there(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    more = [] if words[0].startswith("resume=") else [f"output={tmp_path}", "wandb.mode=disabled"]
    assert says in refused(capsys, *words, *more)
    assert not list(tmp_path.iterdir())


def test_too_few_training_questions_are_noticed_before_anything_starts(
    release: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from experiments.running import runtime_start

    monkeypatch.setattr(runtime_start, "runtime_started", None)
    words = ["data=mmqa", f"data.root={release}", f"output={tmp_path}", "wandb.mode=disabled", "pruning.steps=3"]
    assert "stage 2 needs 3 " in refused(capsys, "experiment=mmqa_prune", *words)
    calibrated = ["methods=[anomaly]", "defence.calibration=5", *words[:-1]]
    assert "only 4 " in refused(capsys, "experiment=mmqa_prune", *calibrated)


def test_a_ray_address_that_does_not_answer_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"ray.address=127.0.0.1:{port}"
    error = refused(capsys, "experiment=mmqa_prune", address, f"output={tmp_path}", "wandb.mode=disabled")
    assert str(port) in error
    assert "ray.address" in error


def test_a_missing_data_file_is_named_with_where_to_get_it(
    release: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (release / "MMQA_tables.jsonl").unlink()
    error = refused(capsys, *recall(release, tmp_path))
    assert "MMQA_tables.jsonl" in error
    assert "github.com/allenai/multimodalqa" in error


def test_a_question_whose_sources_are_not_in_the_corpus_is_named(tmp_path: Path) -> None:
    from actors.errors import UserError
    from actors.messages import Kind, Question, Source
    from experiments.datasets.item import Item
    from experiments.evidence.evidence import Evidence
    from experiments.evidence.retrieval_settings import RetrievalSettings
    from retrieval.embed import LexicalEncoder
    from retrieval.store import Store

    store = Store.open(tmp_path, lambda: iter([Source("t1", "t1", Kind.TEXT, "A", "b")]), LexicalEncoder())
    item = Item(Question("q7", "Who?"), gold=("x",), pool=("t2", "t3"))
    with pytest.raises(UserError, match=r"^question q7: .*\b2 "):
        Evidence(store, RetrievalSettings()).retrieve(item)


def test_a_folder_that_is_no_run_is_not_resumed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert str(tmp_path) in refused(capsys, f"resume={tmp_path}")


def test_a_corrupted_checkpoint_is_named_and_nothing_is_lost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from experiments.config.loading import load
    from experiments.records.recorder import RunFolder

    run = RunFolder.create(tmp_path, "mmqa_prune")
    small = ["data.limit=2", "pruning.steps=1", "runtime=inline", "wandb.mode=disabled"]
    save(load(["experiment=mmqa_prune", *small, f"output={tmp_path}"]), run.config)
    graph = run.learned("m3prune")
    graph.path.mkdir(parents=True)
    graph.topology.write_bytes(b"\x08\x00\x00\x00\x00\x00\x00\x00garbage!")
    (graph.path / "learning.jsonl").write_text("{}\n")
    assert "topology.safetensors " in refused(capsys, f"resume={run.path}")
    assert (graph.path / "learning.jsonl").read_text() == "{}\n"


def test_an_output_or_index_folder_that_cannot_be_written_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    assert str(blocked) in refused(capsys, "experiment=recall", f"output={blocked}/runs")
    assert str(blocked) in refused(capsys, "experiment=recall", f"output={tmp_path}", f"cache={blocked}/cache")


def test_a_cache_on_a_full_disk_is_noticed_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from experiments.running import inputs

    words = ["experiment=mmqa_prune", f"output={tmp_path / 'runs'}", f"cache={tmp_path / 'cache'}", "data.limit=1"]
    full = namedtuple("full", "free")
    free = {tmp_path / "runs": 10**12, tmp_path / "cache": 10**6}
    monkeypatch.setattr(inputs.shutil, "disk_usage", lambda folder: full(free[folder]))
    assert f"0 MB are free in {tmp_path / 'cache'}" in refused(capsys, *words, "wandb.mode=disabled")


def test_too_little_memory_or_disk_is_noticed_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:

    from experiments.running import inputs

    monkeypatch.setattr(inputs, "ACTOR_MB", 10**9)
    assert "MB of memory" in refused(capsys, "experiment=mmqa_prune", f"output={tmp_path}", "wandb.mode=disabled")
    monkeypatch.setattr(inputs, "ACTOR_MB", 0)
    monkeypatch.setattr(inputs, "FREE_DISK_MB", 10**12)
    assert "make room" in refused(capsys, "experiment=mmqa_prune", f"output={tmp_path}", "wandb.mode=disabled")
