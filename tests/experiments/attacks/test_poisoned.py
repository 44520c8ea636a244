"""Poisoned evidence: sources that have to be found, and pictures that really have the text."""

import base64
import io
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from PIL import Image, ImageChops

from actors.completions.cache import completion_key
from actors.errors import UserError
from actors.messages import Search, Trace
from actors.pictures import data_url, identity, read_picture
from experiments.attacks.attack import Attack
from experiments.attacks.attack_metrics import attack_cost
from experiments.attacks.kind import AttackSettings
from experiments.attacks.poison import PLANTED, draw_claim
from experiments.datasets.item import Item
from experiments.evidence.evidence import Evidence
from experiments.evidence.library import LabelledLibrary
from experiments.evidence.retrieval_settings import RetrievalSettings
from experiments.running.speakers import attacked_discussion
from retrieval.embed import LexicalEncoder
from retrieval.store import Store
from tests.experiments.attacks.test_attacks import SEED, Films, Office, attack, everybody, item


@dataclass
class Pools(Films):
    """Films whose evidence is retrieved, each from the documents of two; `own`: it is the question's own."""

    own: bool = False

    def _pooled(self, asked: Item, other: int) -> Item:
        docs = tuple(source.doc for source in (*asked.question.evidence, *item(other).question.evidence))
        own = docs if self.own else ()
        return replace(asked, question=replace(asked.question, evidence=()), pool=docs, own=own)

    def train(self) -> Iterator[Item]:
        return (self._pooled(asked, n + 1) for n, asked in enumerate(Films.train(self)))

    def evaluate(self) -> Iterator[Item]:
        return (self._pooled(asked, n) for n, asked in enumerate(Films.evaluate(self)))


def poisoned(
    folder: Path, films: Pools, scope: Any = "question", texts: int = 2, **settings: Any
) -> tuple[Attack, Evidence]:
    by = Attack(AttackSettings(kind="corpus", **settings), everybody().agents, films, SEED)
    evidence = Evidence(Store.open(folder, films.corpus, LexicalEncoder()), RetrievalSettings(scope=scope, texts=texts))
    by.prepare(evidence)
    return by, evidence


async def answered(by: Attack, evidence: Evidence, asked: Item, phase: Any = "evaluate") -> Trace:
    question = await evidence.question(asked)
    return await attacked_discussion(by, everybody(), asked, question, Office(), SEED, phase=phase, number=0)


async def test_a_published_source_is_found_by_its_own_question_and_clean_discussions_find_none(tmp_path: Path) -> None:
    by, evidence = poisoned(tmp_path, Pools(), texts=4, sources=2)
    for asked in Pools().evaluate():
        trace = await answered(by, evidence, asked)
        found = [id for id in trace.evidence if id.startswith(PLANTED)]
        assert sorted(found) == [f"{PLANTED}-{asked.question.id}-{n}" for n in (0, 1)]
        clean = await answered(by.absent(), evidence, asked)
        assert not any(id.startswith(PLANTED) for id in clean.evidence)
    cost = attack_cost([trace])
    assert (cost["attack_retrieved"], cost["attack_sources"], cost["attack_agents"]) == (1, 2, 0)
    assert cost["attack_tokens"] > 0


async def test_what_is_published_and_not_found_harms_nobody(tmp_path: Path) -> None:
    by, evidence = poisoned(tmp_path, Pools(), texts=0)
    [asked, *_] = Pools().evaluate()
    trace = await answered(by, evidence, asked)
    clean = await answered(by.absent(), evidence, asked)
    assert trace.turns == clean.turns
    assert (attack_cost([trace])["attack_retrieved"], attack_cost([trace])["attack_sources"]) == (0, 1)


async def test_only_the_phase_of_the_attack_is_poisoned(tmp_path: Path) -> None:
    by, evidence = poisoned(tmp_path, Pools(), when="evaluate")
    [asked, *_] = Pools().train()
    assert not any(id.startswith(PLANTED) for id in (await answered(by, evidence, asked, "train")).evidence)


async def test_a_system_s_own_search_finds_what_was_published(tmp_path: Path) -> None:
    by, evidence = poisoned(tmp_path, Pools())
    library = LabelledLibrary(evidence, Pools().evaluate())
    [asked, *_] = Pools().evaluate()
    search = Search(asked.question.text, 4)
    for searched, finds in ((library.over(by.evidence), True), (library, False)):
        hits = await searched.search(asked.question, search)
        assert any(hit.source.id.startswith(PLANTED) for hit in hits) is finds


def test_a_corpus_that_no_question_searches_cannot_be_poisoned(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="attack=corpus") as refused:
        poisoned(tmp_path, Pools(own=True))
    assert "\n" not in str(refused.value)
    poisoned(tmp_path, Pools(own=True), scope="corpus")


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    Image.new("RGB", (320, 240), "navy").save(tmp_path / "photo.png")
    return tmp_path / "photo.png"


async def test_a_vision_model_gets_a_picture_with_the_text_in_it(photo: Path) -> None:
    asked = item(7)
    [text, picture] = asked.question.evidence
    asked = replace(asked, question=replace(asked.question, evidence=(text, replace(picture, image=str(photo)))))
    requests = []
    for share in (0.0, 1.0):
        office, by = Office(), attack(kind="picture", share=share)
        trace = await attacked_discussion(
            by, everybody(), asked, asked.question, office, SEED, phase="evaluate", number=0
        )
        requests.append(next(request for request in office.requests if request.images))
    (clean,), (altered,) = (request.images for request in requests)
    assert str(trace.target) in altered.text
    assert (clean.image, clean.id, clean.title) == (str(photo), altered.id, altered.title)
    pixels = Image.open(io.BytesIO(base64.b64decode(data_url(str(altered.image)).partition(",")[2])))
    box = ImageChops.difference(pixels, read_picture(photo)).getbbox()
    assert box is not None
    assert box[1] > 100  # at the foot alone
    assert box[3] == 240
    keys = [completion_key(replace(requests[0], images=()), "m", [identity(str(s.image))]) for s in (clean, altered)]
    assert keys[0] != keys[1]
    cost = attack_cost([trace])
    assert (cost["attack_sources"], cost["attack_messages"]) == (1, 0)


def test_a_drawn_picture_is_one_file_and_another_text_is_another(photo: Path, tmp_path: Path) -> None:
    first = draw_claim(str(photo), "Oslo", tmp_path / "drawn")
    draw_claim.cache_clear()
    assert draw_claim(str(photo), "Oslo", tmp_path / "drawn") == first
    assert draw_claim(str(photo), "Graz", tmp_path / "drawn") != first
    assert len(list((tmp_path / "drawn").iterdir())) == 2


async def test_a_planted_picture_is_a_file_that_models_can_read() -> None:
    office, by, asked = Office(), attack(kind="poison", source="image"), item(7)
    await attacked_discussion(by, everybody(), asked, asked.question, office, SEED, phase="evaluate", number=0)
    planted = {image for request in office.requests for image in request.images if image.title == by.target(asked)}
    assert {read_picture(str(image.image)).size for image in planted} == {(640, 360)}
