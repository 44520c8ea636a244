"""The study of the guide, run as its first cell says: with the installed project, in the notebook's own folder."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from experiments.api import load_run
from tests.support.paths import ROOT


@pytest.mark.slow
def test_the_study_runs_from_its_first_cell_to_its_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.delenv("MPLBACKEND")  # a kernel has its own
    notebook = nbformat.read(ROOT / "docs" / "study.ipynb", as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert sum(bool(line.strip()) for cell in code for line in cell.source.splitlines()) <= 32
    assert not any(cell.outputs for cell in code)
    # Fewer questions: the same cells, figures and tables in a tenth of the time.
    for size, small in (('"data.limit": 40', 8), ('"pruning.steps": 6', 2), ('"training.questions_per_step": 8', 2)):
        assert size in code[0].source
        code[0].source = code[0].source.replace(size, f"{size.partition(': ')[0]}: {small}")
    NotebookClient(notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": tmp_path}}).execute()
    [folder] = (tmp_path / "runs").glob("*-mmqa_prune")
    methods = load_run(folder).metrics.to_arrow()["method"].to_pylist()
    shown = [output for cell in code for output in cell.outputs]
    assert any("image/png" in output.get("data", {}) for output in shown)
    assert all(any(name in output["data"]["text/plain"] for output in shown if "data" in output) for name in methods)
    printed = "".join(output.get("text", "") for output in shown)
    assert str(folder) in printed
    assert "\x1b" not in printed
    assert not [output for output in shown if output.get("name") == "stderr"]
