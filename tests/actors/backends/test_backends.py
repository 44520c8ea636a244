"""The kinds of models: what a configuration's names mean, what is refused, and what completions depend on."""

import json
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
import torch

from actors import lookup
from actors.backends.backend import Backend
from actors.backends.backends import find_backend
from actors.backends.model_settings import ModelSettings, model_name
from actors.backends.openai_model import OpenAIModel
from actors.backends.vllm_backend import declared_type
from actors.backends.vllm_model import VllmModel
from actors.errors import UserError
from actors.messages import Request
from actors.reader.reader import Reader, ReaderSettings
from experiments.config.loading import load

PACKAGE = """
from actors.messages import Completion

class Echo:
    def __init__(self, settings):
        self.settings = settings

    async def complete(self, request):
        return Completion(request.id, f"{self.settings.extra['greeting']} {request.own}")

def mute(settings):
    return object()

NUMBER = 3
"""
REQUEST = Request("q", "", "system", "shared", "own")


def backend(kind: str, key: str = "model", reader: ReaderSettings | None = None, **settings: object) -> Backend:
    return find_backend(key, ModelSettings(kind, **settings), reader or ReaderSettings())  # type: ignore[arg-type]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of a user's own, `their_models.echo`."""
    folder = tmp_path / "their_models"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "echo.py").write_text(PACKAGE)
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("their_models", "their_models.echo"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return folder


def test_each_kind_makes_its_own_model() -> None:
    assert isinstance(backend("reader").maker()(), Reader)
    assert isinstance(backend("vllm", name="m").maker()(), VllmModel)
    assert isinstance(backend("openai", name="m", base_url="http://h/v1").maker()(), OpenAIModel)


@pytest.mark.parametrize(
    ("kind", "settings", "says"),
    [
        ("vllm", {}, "judge=vllm needs judge.name"),
        ("vllm", {"name": "m", "engine": {"dtype": "half"}}, r"judge\.engine\.dtype: .*judge\.dtype"),
        ("transformers", {"name": "m"}, "'transformers'.*judge=openai"),
        ("openai", {"name": "m"}, "judge=openai needs judge.base_url"),
        ("openai", {"name": "m", "base_url": "htp:/x"}, "judge: base_url='htp:/x': expected an address"),
        ("openai", {"name": "m", "base_url": "http://h/v1", "key_env": "NO_SUCH_KEY"}, r"judge\.key_env: "),
        ("replay", {}, "judge=replay cannot answer"),
        ("none", {}, "judge=none cannot answer"),
    ],
)
def test_settings_that_cannot_work_are_refused_before_anything_starts(
    kind: str, settings: dict[str, object], says: str
) -> None:
    with pytest.raises(UserError, match=says):
        backend(kind, "judge", **settings).maker()


def test_completions_depend_on_what_changes_an_answer_and_on_nothing_else(tmp_path: Path) -> None:
    """Completions that earlier versions kept are found again: the text is the key."""
    assert backend("vllm", name="org/m", replicas=7, hang_s=9.0).identity() == (
        '{"dtype": "auto", "engine": {}, "kind": "vllm", "max_model_len": null, "name": "org/m"}'
    )
    assert backend("openai", name="m", base_url="http://h/v1", timeout_s=1.0, extra={"top_p": 1}).identity() == (
        '{"base_url": "http://h/v1", "extra": {"top_p": 1}, "kind": "openai", "name": "m"}'
    )
    read = json.loads(backend("reader", reader=ReaderSettings(trust=0.3)).identity())
    assert (read["kind"], read["settings"]["trust"], len(read["code"])) == ("reader", 0.3, 32)
    (tmp_path / "weights").write_text("1")
    assert json.loads(backend("vllm", name=str(tmp_path)).identity())["files"][0][:2] == ["weights", 1]


def test_only_what_runs_here_takes_gpus_by_itself_and_an_endpoint_needs_one_process() -> None:
    assert backend("vllm", tensor_parallel=2).processes(8) == (4, 2.0)
    assert backend("vllm", tensor_parallel=2, replicas=3).processes(8) == (3, 2.0)
    assert backend("vllm", tensor_parallel=2).processes(1) == (1, 2.0)
    assert backend("vllm", tensor_parallel=2).processes(0) == (1, 0.0)
    assert backend("vllm", gpus=0.5).processes(2) == (4, 0.5)
    assert backend("vllm", gpus=0.0).processes(2) == (1, 0.0)
    assert backend("reader").processes(8) == (2, 0.0)
    assert backend("reader", gpus=0.25).processes(0) == (2, 0.25)
    assert backend("openai", replicas=4, gpus=1.0).processes(8) == (1, 0.0)


def test_an_endpoint_may_use_all_attempts_of_its_first_request_before_the_start_is_over() -> None:
    slow = backend("openai", timeout_s=1800.0)
    assert slow.start_timeout_s > 3 * 1800
    assert backend("vllm").start_timeout_s > backend("reader").start_timeout_s


async def test_a_model_of_one_s_own_is_named_by_its_place(package: Path) -> None:
    words = ["model=their_models.echo:Echo", "model.extra.greeting=Hello", "judge=their_models.echo:Echo"]
    config = load(["experiment=mmqa_prune", *words])
    assert config.judge["kind"] == "their_models.echo:Echo"
    echo = find_backend("model", config.model, config.reader)
    assert (await echo.maker()().complete(REQUEST)).text == "Hello own"
    assert model_name(config.model) == "their_models.echo:Echo"
    assert echo.processes(8) == (2, 0.0)
    assert echo.choice() is None


async def test_a_model_of_an_installed_package_goes_by_its_name(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = EntryPoint("echo", "their_models.echo:Echo", "agora_mm.models")
    monkeypatch.setattr(lookup, "entry_points", lambda group: [entry] if group == entry.group else [])
    model = backend("echo", extra={"greeting": "Hi"}).maker()()
    assert (await model.complete(REQUEST)).text == "Hi own"
    known = "reader, vllm, openai, replay, none, echo"
    with pytest.raises(UserError, match=rf"'echo'.*{known}"):
        backend("ecco")


def test_completions_of_one_s_own_model_depend_on_its_settings_and_its_code(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = backend("their_models.echo:Echo", name="a", extra={"greeting": "Hi"}).identity()
    known = json.loads(first)
    assert (known["reference"], known["name"], known["extra"]) == ("their_models.echo:Echo", "a", {"greeting": "Hi"})
    assert backend("their_models.echo:Echo", name="a", extra={"greeting": "Hello"}).identity() != first
    assert backend("their_models.echo:Echo", name="a", extra={"greeting": "Hi"}, replicas=9).identity() == first
    with (package / "echo.py").open("a") as file:
        file.write("# changed\n")
    assert backend("their_models.echo:Echo", name="a", extra={"greeting": "Hi"}).identity() != first


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("their_models.echo:Eco", r"model=their_models\.echo:Eco: "),
        ("their_models.nothing:Echo", r"model=their_models\.nothing:Echo: .*ModuleNotFoundError"),
        ("their_models.echo:NUMBER", r"model=their_models\.echo:NUMBER"),
    ],
)
def test_a_reference_to_nothing_that_makes_a_model_is_refused(package: Path, kind: str, says: str) -> None:
    with pytest.raises(UserError, match=says):
        backend(kind).maker()


def test_what_cannot_answer_is_noticed_when_it_is_made(package: Path) -> None:
    with pytest.raises(ValueError, match=r"their_models\.echo:mute.*\bcomplete\b"):
        backend("their_models.echo:mute").maker()()


def model_folder(folder: Path, type: str) -> str:
    """The folder of a model whose configuration names this number type."""
    (folder / "config.json").write_text(json.dumps({"dtype": type}))
    return str(folder)


@pytest.mark.parametrize(
    ("type", "able", "dtype"),
    [
        ("float32", True, "float32"),
        ("bfloat16", True, "bfloat16"),
        ("float16", True, "bfloat16"),
        ("float32", False, "float32"),
        ("bfloat16", False, "float32"),
        ("float16", False, "float32"),
    ],
)
def test_on_a_cpu_vllm_has_what_it_needs_there_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, type: str, able: bool, dtype: str
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"amx_bf16": able})
    on_cpu, line = backend("vllm", name=model_folder(tmp_path, type)).on(0)
    assert (on_cpu.settings.dtype, on_cpu.settings.engine) == (dtype, {"block_size": 32, "enforce_eager": True})
    assert line == (
        f"vLLM on a CPU, with what was not set: model.dtype={dtype} model.engine.block_size=32 "
        "model.engine.enforce_eager=true model.hang_s=1800 model.replicas=1"
    )


@pytest.mark.parametrize("config", ['{"torch_dtype": "float16"}', '{"text_config": {"dtype": "float16"}}'])
def test_the_number_type_is_found_where_earlier_and_multi_modal_models_have_it(tmp_path: Path, config: str) -> None:
    (tmp_path / "config.json").write_text(config)
    assert declared_type(str(tmp_path)) == "float16"


def test_the_longest_step_of_an_engine_is_waited_for_on_a_cpu_and_on_a_gpu(tmp_path: Path) -> None:
    name = model_folder(tmp_path, "bfloat16")
    left_open, given = (backend("vllm", name=name, hang_s=hang_s) for hang_s in (None, 9.0))
    waits = [one.maker()().hang_s for one in (left_open, left_open.on(0)[0], given, given.on(0)[0])]  # type: ignore[attr-defined]
    assert waits == [120, 1800, 9, 9]


def test_what_was_set_stays_and_completions_do_not_tell_who_set_it(tmp_path: Path) -> None:
    name = model_folder(tmp_path, "float32")
    left_open = backend("vllm", name=name).on(0)[0]
    engine = {"enforce_eager": True, "block_size": 32}
    given = backend("vllm", name=name, dtype="float32", engine=engine, replicas=3, hang_s=60.0)
    assert given.on(0) == (given, "")
    assert given.identity() == left_open.identity()
    other, line = backend("vllm", name=name, dtype="float16", engine={"block_size": 64}, replicas=2, hang_s=60.0).on(0)
    assert (other.settings.dtype, other.settings.engine["block_size"]) == ("float16", 64)
    assert line.endswith("not set: model.engine.enforce_eager=true")


def test_on_gpus_and_for_other_kinds_nothing_is_chosen() -> None:
    for one, gpus in ((backend("vllm", name="m"), 1), (backend("reader"), 0)):
        assert one.on(gpus) == (one, "")


def test_a_type_of_weights_that_is_not_known_is_left_to_vllm() -> None:
    on_cpu, line = backend("vllm", name="nobody/has-this").on(0)
    assert on_cpu.settings.dtype == "auto"
    assert "dtype" not in line
