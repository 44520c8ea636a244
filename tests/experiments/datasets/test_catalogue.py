"""Data sets by name: ours, and those of other packages."""

import importlib
from pathlib import Path

import pytest

from actors.errors import UserError
from experiments.config.loading import load
from experiments.datasets.kind import DatasetKind
from experiments.datasets.mmqa import Mmqa
from experiments.jobs import plan_of
from experiments.running.inputs import open_dataset

PACKAGE = """
from actors.messages import Question
from experiments.datasets.item import Item, text_score

NOT_A_LOADER = 3


class Capitals:
    name, metric = "capitals", "EM"

    def __init__(self, limit):
        self.limit = limit

    def train(self):
        return iter(())

    def evaluate(self):
        return (Item(Question(f"q{n}", "The capital of Ghana?"), ("Accra",)) for n in range(self.limit))

    def corpus(self):
        return iter(())

    def score(self, item, answer):
        return text_score(item, answer)


def load(request):
    return Capitals(request.settings.limit)


def load_files(request):
    return Capitals(len(list(request.root.iterdir())))
"""


@pytest.fixture(autouse=True)
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module of somebody else, and the entry point under which it was installed."""
    (tmp_path / "capitals.py").write_text(PACKAGE)
    about = tmp_path / "capitals-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: capitals\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[agora_mm.datasets]\ncapitals = capitals:load\n")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()


@pytest.mark.parametrize("name", ["capitals:load", "capitals"])
def test_a_data_set_of_another_package_is_opened_by_its_reference_or_its_installed_name(
    name: str, tmp_path: Path
) -> None:
    dataset = open_dataset(plan_of(load(["experiment=mmqa_prune", f"data={name}", "data.limit=3"])), tmp_path)
    items = list(dataset.evaluate())
    assert [item.question.id for item in items] == ["q0", "q1", "q2"]
    assert dataset.score(items[0], "It is Accra.").utility == 1.0


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("capitols", "'capitals'"),
        ("mmqq", "'mmqa'"),
        ("capitals:lod", "data=capitals:lod"),
        ("capitals:NOT_A_LOADER", "DatasetKind"),
        ("capitals:load_files", "data.root="),
        ("mmqa", "github.com/allenai/multimodalqa"),
    ],
)
def test_a_data_set_that_cannot_be_opened_is_refused_in_one_line(name: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(UserError) as refused:
        open_dataset(plan_of(load(["experiment=mmqa_prune", f"data={name}"])), tmp_path)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_loader_may_have_attributes_of_its_kind() -> None:
    class Pages(Mmqa):
        scope = "corpus"

    kind = DatasetKind.of(Pages, "mine:Pages")
    assert (kind.name, kind.release, kind.scope, kind.rubric) == ("mine:Pages", Mmqa.release, "corpus", "graded")
