"""An endpoint that quotes its key, taken apart: no file of the run's folder or cache holds it."""

import re
from contextlib import redirect_stdout, suppress
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from actors.backends import redaction
from actors.backends.redaction import keep_secret, without_keys
from actors.messages import Message, Status
from run import main
from tests.support.endpoint import Asked, Server, Told, completion, serving
from tests.support.sessions import begin, folder_of

KEY = "sk-of-the-tests-0123456789abcdef"
BEGIN, END = KEY[:9], KEY[9:]
# What stands between the halves of the key, and is gone where the reply is read.
APART = [
    *("<think>y</think>", "<scratchpad>y</scratchpad>", "[THINK]y[/THINK]", "◁think▷y◁/think▷"),
    *("<|channel|>analysis<|message|>y<|channel|>final<|message|>", "<|im_sep|>", "【4†source】", "[^1]"),
    *("<sup>1</sup>", "<b></b>", "**", "\u200b", "&#8203;", "\\u200b"),
]
FORMS = [
    "Reasoning: it is written there.\nAnswer: {}\nConfidence: 0.9",
    "Answer: Paris\nReasoning: the page says {}, I think.",
    '{{"reasoning": "there", "answer": "{}", "confidence": 0.9}}',
    "It is {}",
    "Grade: 5\nReasoning: {}",
]


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run, with its completion cache, whose endpoint quotes the key in another way each time."""
    output = tmp_path_factory.mktemp("keys")
    asked = 0

    async def quote(request: Asked) -> Told:
        nonlocal asked
        if request.path.endswith("/models"):
            return Told({"data": [{"id": "m"}]})
        form = FORMS[asked // len(APART) % len(FORMS)]
        apart = APART[asked % len(APART)]
        asked += 1
        return Told(completion(form.format(f"{BEGIN}{apart}{END}")))

    server = Server(quote)
    with pytest.MonkeyPatch.context() as patch, serving(server), redirect_stdout(StringIO()) as printed:
        patch.setenv("KEY_OF_THE_TESTS", KEY)
        words = ["experiment=mmqa_prune", "data.limit=6", "methods=[single,full]", "wandb.mode=disabled"]
        words += ["runtime=inline", "failures.share=1", f"output={output}", "model=openai", "judge=openai"]
        for model in ("model", "judge"):
            words += [f"{model}.base_url={server.base_url}", f"{model}.name=m", f"{model}.key_env=KEY_OF_THE_TESTS"]
        assert main(words) == 0
    assert asked > len(APART) * len(FORMS)
    return folder_of(printed.getvalue())


def test_no_record_and_no_cache_holds_a_key_that_reading_joins(run_folder: Path) -> None:
    names = {path.name for path in run_folder.rglob("*")}
    assert {"scores.jsonl", "judgements.jsonl", "evaluate-full.jsonl"} <= names
    assert "[key]" in (run_folder / "scores.jsonl").read_text()
    for path in (file for file in run_folder.parent.rglob("*") if file.is_file()):
        assert not holds_key(path.read_bytes()), path


def holds_key(content: bytes) -> bool:
    return re.sub(r"\W", "", KEY).encode() in re.sub(rb"\W", b"", content)


@pytest.mark.ray
def test_a_judged_sweep_over_ray_writes_no_key_into_folders_logs_or_the_terminal(tmp_path: Path) -> None:
    """The files of Ray are read while the judge is asked: a sweep that ends well leaves none."""
    asked = 0
    ray_files: dict[str, bool] = {}
    with TemporaryDirectory(dir="/tmp") as short_folder:

        async def quote(request: Asked) -> Told:
            nonlocal asked
            if request.path.endswith("/models"):
                return Told({"data": [{"id": "m"}]})
            form = FORMS[asked % 3]
            apart = APART[asked // 3 % len(APART)]
            asked += 1
            if b"Answer to grade" in request.content:
                form = FORMS[-1]
                apart = "\u200b"  # others hide the grade, and a trial that is not judged has failed
                for path in (file for file in Path(short_folder).rglob("*") if file.is_file()):
                    with suppress(FileNotFoundError):
                        ray_files[path.name] = ray_files.get(path.name, False) or holds_key(path.read_bytes())
            return Told(completion(form.format(f"{BEGIN}{apart}{END}")))

        server = Server(quote)
        with serving(server):
            words = ["experiment=mmqa_prune", "data.limit=3", "methods=[single,full]", "figures=false"]
            words += ["sweep.seeds=2", "failures.share=1", f"output={tmp_path}", "model=openai", "judge=openai"]
            for model in ("model", "judge"):
                words += [f"{model}.base_url={server.base_url}", f"{model}.name=m", f"{model}.key_env=SWEEP_KEY"]
            process = begin(*words, SWEEP_KEY=KEY, RAY_TMPDIR=short_folder)
            printed, error = process.communicate(timeout=600)
    assert process.returncode == 0, printed + error
    assert "raylet.out" in ray_files
    assert not any(ray_files.values()), ray_files
    assert not holds_key((printed + error).encode())
    judgements = list(tmp_path.rglob("judgements.jsonl"))
    assert len(judgements) == 2
    for path in (file for file in tmp_path.rglob("*") if file.is_file()):
        assert not holds_key(path.read_bytes()), path


def test_a_record_keeps_all_but_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    # Without keys of other tests in this process, of which one begins as this one ends.
    monkeypatch.setattr(redaction, "_redactions", {})
    keep_secret([KEY, "short"])
    kept = Message("1/critic", "critic", 1, "It is short.", "Paris", 0.5, heard=("0/other",))
    assert without_keys(kept) == kept
    assert without_keys(kept).status is Status.OK
    quoting = Message("1/critic", "critic", 1, f"It is {KEY}.", fields=(("Query", f"texts | {KEY}"),))
    assert without_keys(quoting).content == "It is [key]."
    assert without_keys(quoting).fields == (("Query", "texts | [key]"),)
