"""Writes a knowledge graph in the layout of MH-MMKG's release, around the paths of a question list."""

from collections.abc import Sequence
from pathlib import Path

import openpyxl
from PIL import Image

from experiments.datasets.mh import MhQuestion
from experiments.datasets.sheets import read_sheet

NODE_HEADER = ("Entity", "Image", "Video", "Action Description", "Additional Information")
RELATION_HEADER = ("Entity 1", "Relation", "Information", "Condition", "Entity 2")
LIST_HEADER = (
    "File",
    "Video",
    "Image",
    "Question",
    "Monster Name",
    "Extra Information",
    "Perception",
    "Search Route",
    "Answer",
    "Type",
)

Cells = Sequence[str | int | None]


def write_sheet(path: Path, header: Sequence[str], rows: Sequence[Cells]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    book = openpyxl.Workbook()
    sheet = book.worksheets[0]
    for row in (header, *rows):
        sheet.append(list(row))
    book.save(path)


def write_picture(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (8, 8), (90, 30, 60)).save(path)


def write_graph_of(questions: Path, root: Path) -> None:
    """Sheets in which every annotated path can be followed; what the release says beside that is made up here.

    A monster's entities are those that paths name in its part; each monster has an attack that no path leads to.
    """
    records = [record for _, record in read_sheet(questions, MhQuestion, by_name=True)]
    monsters = list(dict.fromkeys(record.monster for record in records))
    nodes: dict[str, dict[str, None]] = {monster: {monster: None, "Unseen Attack": None} for monster in monsters}
    edges: dict[str, dict[tuple[str, str], None]] = {m: {(m, "Unseen Attack"): None} for m in monsters}
    for record in records:
        for path in record.route.split(";"):
            # Names after a monster's are of its part of the graph.
            inside = before = record.monster
            for name in path.split(">")[1:]:
                edges[inside][before, name] = None
                if name in monsters:
                    inside = name
                else:
                    nodes[inside][name] = None
                before = name
    for monster in monsters:
        folder = root / "mmkg" / monster
        rows = [(name, None, None, f"{monster} does its {name}.", None) for name in nodes[monster] if name != monster]
        write_sheet(folder / "Node.xlsx", NODE_HEADER, [(monster, None, None, None, f"About {monster}."), *rows])
        links = [(head, "leads to", None, None, tail) for head, tail in edges[monster]]
        write_sheet(folder / "Relations.xlsx", RELATION_HEADER, links)


def write_small(root: Path) -> None:
    """Two monsters, four questions: one of text alone, one with a picture, one with frames, one across monsters."""
    questions = root / "questions_mh"
    spin, kin = "Roarer>Ground Phase>Spin", "Roarer>White Roarer>Bite"
    on = f"{spin}>Bite;{spin}>Roar"
    ground, turns = "{} is on the ground.", "It turns."
    rows: list[Cells] = [
        ("Roarer_Pure Text1", None, None, "What is the nickname of{}?", "Roarer", None, None, "Roarer", "The King", 0),
        ("Roarer_Spin", "Spin.mp4", "Spin", "What is next of{}?", "Roarer", ground, turns, on, "Bite or Roar", 2),
        ("Roarer_Spin", None, "Spin.png", "What is{} doing?", "Roarer", None, turns, spin, "Spin", 1),
        ("Roarer_Bite", None, "no.png", "And{}'s kin?", "Roarer", None, "It bites.", kin, "Yes", 5),
    ]
    write_sheet(questions / "question_list.xlsx", LIST_HEADER, rows)
    write_picture(questions / "Roarer_Spin" / "Spin.png")
    # By name 10 and 101 come before 9: only an order by number is right.
    for frame in (10, 9, 101):
        write_picture(questions / "Roarer_Spin" / "Spin" / f"frame-{frame}.png")
    roarer, white = root / "mmkg" / "Roarer", root / "mmkg" / "White Roarer"
    nodes: list[Cells] = [
        ("Roarer", None, None, None, "Roarer is known as the King."),
        ("Ground Phase", None, None, None, "It stands on the ground."),
        ("Spin", "Spin.png", "Spin.mp4", "It turns around itself.", None),
        ("Bite", "Bite", None, "It snaps at the hunter.", "Hurts."),
        ("Roar", None, None, "It roars.", None),
        ("Fire Element", None, None, None, None),
    ]
    write_sheet(roarer / "Node.xlsx", NODE_HEADER, nodes)
    write_picture(roarer / "Knowledge_Images" / "Spin.png")
    for frame in (1, 2):
        write_picture(roarer / "Knowledge_Images" / "Bite" / f"{frame}.png")
    edges: list[Cells] = [
        ("Roarer", "has phase", None, None, "Ground Phase"),
        ("Ground Phase", "has attack", None, None, "Spin"),
        ("Spin", "continues with", "close", "the hunter is near", "Bite"),
        ("Spin", "continues with", None, None, "Roar"),
        ("Roar", "returns to", None, None, "Ground Phase"),
        ("Roarer", "fears", None, None, "Fire Element"),
        ("Roarer", "has subspecies", None, None, "White Roarer"),
    ]
    write_sheet(roarer / "Relations.xlsx", RELATION_HEADER, edges)
    write_sheet(
        white / "Node.xlsx", NODE_HEADER, [("White Roarer", None, None, None, None), ("Bite", None, None, "It snaps.")]
    )
    # The other of the two names that the release uses for this sheet.
    write_sheet(white / "Relation.xlsx", RELATION_HEADER, [("White Roarer", "has attack", None, None, "Bite")])
