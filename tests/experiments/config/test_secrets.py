"""Passwords and keys are refused before anything is written down, and no message shows them."""

from pathlib import Path

import pytest

from run import main


@pytest.mark.parametrize(
    "words",
    [
        ["model.base_url=http://me:s3cretword@host/v1"],
        ["model.base_url=http://host/v1?key=s3cretword"],
        ["model=openai", "model.name=m", "sweep.axes.model.base_url=['http://me:s3cretword@host/v1']"],
        ["sweep.axes.judge.base_url=['http://host/v1?key=s3cretword']"],
        ["sweep.points=[{model.base_url: 'http://me:s3cretword@host/v1'}]"],
        ["sweep.points=[{model: {base_url: 'http://me:s3cretword@host/v1'}}]"],
        ["roles.decision.model.base_url=http://me:s3cretword@host/v1"],
        ["model.key_env=sk-s3cretword-1"],
        ["model.key_env=s3cretword_looks_like_a_name"],
        ["model=openai", "model.name=m", "model.base_url=http://h/v1", "model.key_env=S3CRETWORD"],
        ["sweep.axes.model.key_env=[s3cretword]"],
        ["retrieval.web=serper", "retrieval.web_key_env=s3cretword", "methods=[omnisearch]"],
        ["model.base_url=[http://me:s3cretword@host", "seed=1"],
        ["model.extra.x=${oc.env:SECRET_OF_THE_TEST}"],
        ["wandb.group=${oc.env:SECRET_OF_THE_TEST}"],
        ["sweep.axes.model.extra.x=['${oc.env:SECRET_OF_THE_TEST}']"],
        ["model.key_env=SECRET_OF_THE_TEST", "model.extra.x=Bearer s3cretword-of-the-test"],
    ],
)
def test_a_secret_is_neither_saved_nor_shown(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_OF_THE_TEST", "s3cretword-of-the-test")
    output = tmp_path / "runs"
    assert main(["experiment=mmqa_prune", "wandb.mode=disabled", *words, f"output={output}"]) == 2
    said = capsys.readouterr()
    assert "s3cretword" not in (said.out + said.err).lower()
    assert said.err.count("\n") == 1
    assert not output.exists()


def test_a_preset_fills_nothing_in_either(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    preset = tmp_path / "mine.yaml"
    preset.write_text("# Mine\nmodel:\n  extra:\n    x: ${oc.env:HOME}\n")
    assert main([f"experiment={preset}", f"output={tmp_path / 'runs'}"]) == 2
    assert "model.extra.x: " in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()
