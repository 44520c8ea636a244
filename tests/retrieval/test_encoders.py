"""Encoders by name: the built-in one, a package's own, and what is no encoder."""

import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from actors import lookup
from actors.errors import UserError
from actors.messages import Kind, Search, Source
from retrieval.embed import make_encoder
from retrieval.store import Store

MODULE = '''
import numpy as np

class Initials:
    """One place for each letter that a text begins with."""

    name, dim, reads_pictures, late_interaction = "initials", 26, False, False

    def __init__(self):
        self.fingerprint = f"initials-{VERSION}"

    def encode_query(self, text):
        return np.eye(self.dim, dtype=np.float32)[ord(text[0].lower()) - ord("a")]

    def encode_sources(self, sources):
        return np.stack([self.encode_query(source.title) for source in sources])

class Half:
    name = "half"
    dim = 2

VERSION = 1
'''
SOURCES = [Source(title, title, Kind.TEXT, title, "river") for title in ("Aran", "Belt", "Cave")]


@pytest.fixture(autouse=True)
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "their_encoders.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "their_encoders", raising=False)


def test_an_index_is_built_and_searched_with_an_encoder_of_one_s_own(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "lance", lambda: iter(SOURCES), make_encoder("their_encoders:Initials"))
    assert [hit.source.id for hit in store.search(Search("barge", 1, mode="vector"))] == ["Belt"]


def test_an_encoder_of_an_installed_package_goes_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = EntryPoint("initials", "their_encoders:Initials", "agora_mm.encoders")
    monkeypatch.setattr(lookup, "entry_points", lambda group: [entry] if group == entry.group else [])
    assert make_encoder("initials").name == "initials"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("their_encoders:Nothing", r"retrieval\.encoder=their_encoders:Nothing: "),
        ("their_encoders:Half", r"\bHalf\b.*\bfingerprint, .*encode_sources"),
    ],
)
def test_what_is_no_encoder_is_refused_with_what_it_lacks(name: str, says: str) -> None:
    with pytest.raises(UserError, match=says):
        make_encoder(name)
