"""What a data set from others cannot do: read other files of the machine, fill its memory, or change results unseen."""

import gzip
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openpyxl
import pytest

from actors.errors import UserError
from experiments.datasets import folder
from experiments.datasets.benchmark import check_image
from experiments.datasets.catalogue import dataset_kind
from experiments.datasets.fields import RECORD
from experiments.datasets.folder import Folder
from experiments.datasets.item import Dataset
from experiments.datasets.kind import DataRequest, DataSettings
from experiments.datasets.mh import MhNode, MhQuestion
from experiments.datasets.reading import unpacked
from experiments.datasets.sheets import read_sheet
from tests.fuzz.layouts import LAYOUTS, picture
from tests.fuzz.mutations import size

Change = Callable[[Any], Any]


def opened(kind: str, root: Path, **settings: Any) -> Dataset:
    request = DataRequest(DataSettings(kind, str(root), 2, **settings), root / "cache", 2, 2, 0, True)
    return dataset_kind(kind).open(request)


def read(kind: str, root: Path, **settings: Any) -> list[str]:
    """The pictures of the corpus, all of which has been read."""
    return [source.image for source in opened(kind, root, **settings).corpus() if source.image]


def refused(kind: str, root: Path, **settings: Any) -> str:
    with pytest.raises(UserError) as caught:
        read(kind, root, **settings)
    assert str(caught.value).isprintable()
    return str(caught.value)


def release(kind: str, folder: Path) -> Path:
    LAYOUTS[kind](folder / "data")
    return folder / "data"


def rewrite(path: Path, old: str, new: str) -> None:
    packed = path.suffix == ".gz"
    text = (gzip.decompress(path.read_bytes()) if packed else path.read_bytes()).decode()
    assert old in text
    changed = text.replace(old, new).encode()
    path.write_bytes(gzip.compress(changed) if packed else changed)


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A picture outside of the data."""
    path = tmp_path / "secret.png"
    path.write_bytes(picture())
    return path


@pytest.mark.parametrize("way", ["absolute", "relative"])
@pytest.mark.parametrize(
    ("kind", "file", "named", "id"),
    [
        ("mmqa", "MMQA_images.jsonl", "i1.png", "line 1: picture i1"),
        (
            "crisismmd",
            "crisismmd_datasplit_agreed_label/task_informative_text_img_agreed_lab_test.tsv",
            "data_image/1_0.png",
            "image_id 1_0",
        ),
    ],
)
def test_a_picture_outside_of_the_release_is_refused_with_its_id(
    way: str, kind: str, file: str, named: str, id: str, tmp_path: Path, secret: Path
) -> None:
    root = release(kind, tmp_path)
    rewrite(root / file, named, str(secret) if way == "absolute" else "../../secret.png")
    said = refused(kind, root)
    assert "secret.png" in said
    assert id in said


@pytest.mark.parametrize(
    ("sheet", "column", "value"),
    [
        ("questions_mh/question_list.xlsx", 3, "/usr"),
        ("questions_mh/question_list.xlsx", 1, "../../.."),
        ("mmkg/Roarer/Node.xlsx", 2, "../../../../usr"),
    ],
)
def test_a_cell_that_names_a_folder_of_the_machine_is_refused(
    sheet: str, column: int, value: str, tmp_path: Path
) -> None:
    root = release("mh", tmp_path)
    book = openpyxl.load_workbook(root / sheet)
    book.worksheets[0].cell(4, column).value = value
    book.save(root / sheet)
    assert f"{value!r} leads outside" in refused("mh", root)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("mmqa", "final_dataset_images/i1.png"),
        ("scienceqa", "images/test/4/image.png"),
        ("vidoseek", "img/d_1.jpg"),
        ("crisismmd", "data_image/1_0.png"),
        ("mh", "mmkg/Roarer/Knowledge_Images/Bite/1.png"),
    ],
)
def test_a_link_that_leads_outside_is_followed_only_where_the_user_says_so(
    kind: str, name: str, tmp_path: Path, secret: Path
) -> None:
    root = release(kind, tmp_path)
    (root / name).unlink()
    (root / name).symlink_to(secret)
    assert "data.allow_links=true" in refused(kind, root)
    assert str(root / name) in read(kind, root, allow_links=True)


@pytest.mark.parametrize(("kind", "name"), [("vidoseek", "ppocr/d_1.txt"), ("webqa", "imgs.tsv"), ("tatqa", "")])
def test_no_text_comes_from_outside_either(kind: str, name: str, tmp_path: Path) -> None:
    root = release(kind, tmp_path)
    file = root / (name or "tatqa_dataset_train.json")
    file.rename(tmp_path / "elsewhere")
    file.symlink_to(tmp_path / "elsewhere")
    assert f"/{file.name} " in refused(kind, root)


def test_links_inside_and_a_folder_that_is_a_link_itself_are_followed(tmp_path: Path) -> None:
    root = release("mmqa", tmp_path)
    image = root / "final_dataset_images" / "i1.png"
    image.rename(root / "kept.png")
    image.symlink_to(root / "kept.png")
    (tmp_path / "here").symlink_to(root)
    assert len(read("mmqa", tmp_path / "here")) == 1


def test_a_folder_that_links_lead_to_twice_is_not_read_again_and_again(tmp_path: Path) -> None:
    for level in range(12):
        (tmp_path / f"level_{level}").mkdir()
    for level in range(11):
        for link in range(8):
            (tmp_path / f"level_{level}" / f"link_{link}").symlink_to(tmp_path / f"level_{level + 1}")
    with pytest.raises(UserError, match="link_"):
        list(Folder(tmp_path, "its release").files_below("level_0"))


def test_a_folder_of_too_many_folders_or_files_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "deep" / "/".join("d" * 40)).mkdir(parents=True)
    with pytest.raises(UserError, match=r"\b32 .*its release"):
        list(Folder(tmp_path, "its release").files_below("deep"))
    monkeypatch.setattr(folder, "FRAMES", 2)
    for number in range(3):
        (tmp_path / f"{number}.png").write_bytes(b"")
    with pytest.raises(UserError, match=r"\b2 files"):
        list(Folder(tmp_path, "its release").files_below())


def test_what_is_no_regular_file_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    for name in ("pipe", "zero"):
        with pytest.raises(UserError, match=rf"/{name}\b"):
            Folder(tmp_path, "its release", allow_links=True).file(name)


@pytest.mark.parametrize("name", ["x" * 256 + ".png", "é" * 128, "a\x00b", "a\nb", "\ud800"])
def test_a_name_that_no_file_has_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        Folder(tmp_path, "its release").file(name)
    assert str(caught.value).isprintable()


def test_a_line_that_unpacks_to_too_much_is_not_read_on(tmp_path: Path) -> None:
    root = release("mmqa", tmp_path)
    (root / "MMQA_texts.jsonl.gz").write_bytes(gzip.compress(b'["' + b"x" * (2 * RECORD)))
    assert "MMQA_texts.jsonl.gz, record 1: " in refused("mmqa", root)


@pytest.mark.parametrize(("row", "cell"), [("9", "XFD9"), ("99999999", "A99999999")])
def test_a_cell_far_off_is_refused(row: str, cell: str, tmp_path: Path) -> None:
    path = release("mh", tmp_path) / "mmkg" / "Roarer" / "Node.xlsx"
    size(path, lambda strategy: (row, cell))
    with pytest.raises(UserError, match=r"Node\.xlsx, row [\d,]+: .*\b256\b.*\b100,000\b"):
        list(read_sheet(path, MhNode, by_name=False))


def test_a_long_text_that_many_cells_share_is_not_copied_for_each(tmp_path: Path) -> None:
    path = tmp_path / "Node.xlsx"
    openpyxl.Workbook().save(path)
    with zipfile.ZipFile(path) as packed:
        parts = {name: packed.read(name) for name in packed.namelist()}
    kind = "application/vnd.openxmlformats-officedocument.spreadsheetml.sharedStrings+xml"
    types, sheet = "[Content_Types].xml", "xl/worksheets/sheet1.xml"
    shared = f'<Override PartName="/xl/sharedStrings.xml" ContentType="{kind}"/></Types>'.encode()
    parts[types] = parts[types].replace(b"</Types>", shared)
    space = b'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
    parts["xl/sharedStrings.xml"] = b"<sst %b><si><t>%b </t></si></sst>" % (space, b"x" * 4_000_000)
    rows = b'<row><c t="s"><v>0</v></c></row>' * 20
    parts[sheet] = b"<worksheet %b><sheetData>%b</sheetData></worksheet>" % (space, rows)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in parts.items():
            packed.writestr(name, content)
    with pytest.raises(UserError, match=r"Node\.xlsx, row 5: .*\b16,777,216\b"):
        list(read_sheet(path, MhQuestion, by_name=True))


def test_a_small_file_of_endless_pixels_is_not_decoded(tmp_path: Path) -> None:
    path = tmp_path / "bomb.png"
    path.write_bytes(picture())
    size(path, lambda strategy: None)
    with pytest.raises(UserError, match=r"bomb\.png.*\b89 "):
        check_image(path)


def test_a_picture_of_a_format_that_starts_programs_is_not_opened(tmp_path: Path) -> None:
    path = tmp_path / "picture.png"
    path.write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n%%EOF\n")
    with pytest.raises(UserError, match=r"picture\.png"):
        check_image(path)


@pytest.mark.parametrize(
    ("kind", "file", "old", "new", "says"),
    [
        (
            "mmqa",
            "MMQA_dev.jsonl",
            '"question": "What of dev1?"',
            '"question": null',
            "line 2: question: ",
        ),
        ("mmqa", "MMQA_dev.jsonl", '"red"', '"\\ud800"', "line 1: "),
        ("mmqa", "MMQA_dev.jsonl", '"red"', '" "', "answers.0: "),
        ("mmqa", "MMQA_dev.jsonl", '"red"', "[" * 100_000, "line 1: "),
        ("mmqa", "MMQA_dev.jsonl", '"dev1"', '"a\\nb"', "qid: "),
        ("tatqa", "tatqa_dataset_dev.json", "-1.5", "NaN", "0.questions."),
        (
            "scienceqa",
            "ocrs.json",
            "[([[0, 0], [9, 0]], 'Sample A', 0.97)]",
            "(" * 300,
            "problem 4: ",
        ),
        ("scienceqa", "problems.json", '"2"', '"1"', "problem 1 "),
        ("webqa", "WebQA_train_val.json", "30000000", '"../../x"', "img_posFacts.0.image_id: "),
    ],
)
def test_a_field_of_another_kind_is_named_with_what_was_expected(
    kind: str, file: str, old: str, new: str, says: str, tmp_path: Path
) -> None:
    root = release(kind, tmp_path)
    rewrite(root / file, old, new)
    said = refused(kind, root)
    assert file in said
    assert says in said


@pytest.mark.parametrize("kind", ["mmqa", "scienceqa", "tatqa", "mmbench", "crisismmd"])
def test_a_byte_order_mark_changes_nothing_and_another_encoding_is_refused(kind: str, tmp_path: Path) -> None:
    root = release(kind, tmp_path)
    before = [item.question for item in opened(kind, root).evaluate()]
    files = [path for path in root.rglob("*") if path.suffix in (".json", ".jsonl", ".tsv")]
    kept = {path: path.read_bytes() for path in files}
    for path, content in kept.items():
        path.write_bytes(b"\xef\xbb\xbf" + content)
    assert [item.question for item in opened(kind, root).evaluate()] == before
    for path, content in kept.items():
        path.write_bytes(content.decode().encode("utf-16"))
    assert str(root) in refused(kind, root)


@pytest.mark.parametrize(
    ("kind", "file", "old", "new", "says"),
    [
        ("mmqa", "MMQA_dev.jsonl", '"qid": "dev1"', '"qid": "dev0"', "question dev0 "),
        ("mmqa", "MMQA_train.jsonl.gz", "train", "dev", "are both learned from and evaluated"),
        ("mmqa", "MMQA_texts.jsonl.gz", '"id": "t2"', '"id": "t1"', "line 2: id t1 "),
        ("tatqa", "tatqa_dataset_train.json", '"uid": "a', '"uid": "c', "are both learned from and evaluated"),
        ("scienceqa", "pid_splits.json", '["4", "5"]', '["4", "4"]', "question 4 "),
        ("scienceqa", "pid_splits.json", '["4", "5"]', '["1", "2"]', "are both learned from and evaluated"),
        ("vidoseek", "rag_dataset.json", '"uid": "q1"', '"uid": "q0"', "q0 "),
    ],
)
def test_what_would_change_results_unseen_is_refused_when_the_data_is_opened(
    kind: str, file: str, old: str, new: str, says: str, tmp_path: Path
) -> None:
    root = release(kind, tmp_path)
    rewrite(root / file, old, new)
    assert says in refused(kind, root)


@pytest.mark.parametrize("file", ["MMQA_dev.jsonl", "MMQA_texts.jsonl.gz"])
def test_a_file_without_records_is_refused(file: str, tmp_path: Path) -> None:
    root = release("mmqa", tmp_path)
    (root / file).write_bytes(gzip.compress(b"\n") if file.endswith(".gz") else b"")
    assert str(root) in refused("mmqa", root)


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    path = tmp_path / "lines.gz"
    path.write_bytes(gzip.compress(b"one\n") + bytes(1_000) + gzip.compress(b"two\n"))
    return path


def test_zeros_without_end_are_not_waited_for(packed: Path) -> None:
    os.truncate(packed, 20 * 2**30)  # takes no room on the disk
    with unpacked(packed) as file, pytest.raises(gzip.BadGzipFile, match="zeros"):
        file.read()
