"""Text recognised in pictures by RapidOCR, and how its words become lines."""

import itertools
from pathlib import Path

import pytest
from PIL import Image, ImageDraw, ImageFont

from experiments.datasets.vidoseek import ViDoSeek
from retrieval import ocr


def page(file: Path, *lines: str) -> Path:
    picture = Image.new("RGB", (640, 40 + 80 * len(lines)), "white")
    for number, line in enumerate(lines):
        ImageDraw.Draw(picture).text((30, 30 + 80 * number), line, "black", ImageFont.load_default(size=40))
    picture.save(file)
    return file


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_lines_go_from_top_to_bottom_and_left_to_right(order: tuple[int, ...]) -> None:
    words = [
        (ocr.Box(0.0, 0.0, 40.0, 20.0), "Steam"),
        (ocr.Box(60.0, 4.0, 90.0, 22.0), "explosion"),
        (ocr.Box(50.0, 40.0, 90.0, 60.0), "C"),
        (ocr.Box(0.0, 42.0, 30.0, 60.0), "195"),
    ]
    assert ocr.in_reading_order([words[n] for n in order]) == "Steam explosion\n195 C"


def test_a_page_is_read_once_and_what_was_read_is_kept(tmp_path: Path) -> None:
    pytest.importorskip("rapidocr")
    file = page(tmp_path / "page.png", "Steam explosion", "195 Centigrade")
    assert ocr.Ocr(tmp_path / "ocr").text(file) == "Steam explosion\n195 Centigrade"
    (kept,) = (tmp_path / "ocr").glob("*.txt")
    kept.write_text("kept")
    assert ocr.Ocr(tmp_path / "ocr").text(file) == "kept"
    copy = tmp_path / "copy.png"
    copy.write_bytes(file.read_bytes())
    assert ocr.Ocr(tmp_path / "ocr").text(copy) == "kept"  # by content, wherever it lies


def test_a_picture_without_words_has_none_and_a_broken_one_is_named(tmp_path: Path) -> None:
    pytest.importorskip("rapidocr")
    reader = ocr.Ocr(tmp_path / "ocr")
    assert reader.text(page(tmp_path / "blank.png")) == ""
    (tmp_path / "broken.png").write_bytes(b"\x89PNG")
    with pytest.raises(OSError, match=r"broken\.png"):
        reader.text(tmp_path / "broken.png")


def test_pages_of_visual_documents_are_searched_by_what_is_recognised(tmp_path: Path) -> None:
    pytest.importorskip("rapidocr")
    (tmp_path / "img").mkdir()
    page(tmp_path / "img" / "Soil_1.jpg", "Switchgrass")
    page(tmp_path / "img" / "Soil_2.jpg", "Bagasse")
    (tmp_path / "ppocr").mkdir()
    (tmp_path / "ppocr" / "Soil_2.txt").write_text("what the release recognised")
    told = {source.id: source.text for source in ViDoSeek.at(tmp_path).corpus()}
    assert told == {
        "Soil_1:text": "Switchgrass",
        "Soil_1": "Switchgrass",
        "Soil_2:text": "what the release recognised",
        "Soil_2": "what the release recognised",
    }
