"""A small valid instance of every layout of a data set, to be broken."""

import base64
import gzip
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from PIL import Image

from tests.support.mh_release import write_small

HEADS = {
    "mmbench": "index question hint A B C D answer category image l2-category".split(),
    "crisismmd": "event_name tweet_id image_id tweet_text image label".split(),
}


def picture(noise: int = 0) -> bytes:
    content = io.BytesIO()
    Image.linear_gradient("L").resize((16 + noise, 16)).save(content, "PNG")
    return content.getvalue()


def put(path: Path, content: Any) -> None:
    """Bytes as they are, anything else as JSON; a list in a .jsonl file a line each."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, bytes):
        path.write_bytes(content)
        return
    lines = content if ".jsonl" in path.name else [content]
    text = "".join(json.dumps(line) + "\n" for line in lines).encode()
    path.write_bytes(gzip.compress(text, mtime=0) if path.suffix == ".gz" else text)


def table(path: Path, head: list[str], rows: list[list[str]]) -> None:
    put(path, "".join("\t".join(row) + "\n" for row in [head, *rows]).encode())


def mmqa(root: Path) -> None:
    def asked(qid: str) -> dict[str, Any]:
        meta = {"type": "TextQ", "modalities": ["text"], "text_doc_ids": ["t1", "t2"], "image_doc_ids": ["i1"]}
        told = {"qid": qid, "question": f"What of {qid}?", "answers": [{"answer": "red"}, {"answer": 3}]}
        return told | {"metadata": meta | {"table_id": "b"}, "supporting_context": [{"doc_id": "t1"}]}

    put(root / "MMQA_train.jsonl.gz", [asked(f"train{n}") for n in range(3)])
    put(root / "MMQA_dev.jsonl", [asked(f"dev{n}") for n in range(3)])
    put(root / "MMQA_texts.jsonl.gz", [{"id": id, "title": "T", "text": f"passage {id}"} for id in ("t1", "t2")])
    rows = [[{"text": value} for value in row] for row in (["Ann", "1976"], ["Bea", ""])]
    held = {"table_rows": rows, "table_name": "M", "header": [{"column_name": "Name"}, {"column_name": "Year"}]}
    put(root / "MMQA_tables.jsonl", [{"id": "b", "title": "Club", "table": held}])
    put(root / "MMQA_images.jsonl", [{"id": "i1", "title": "Flag", "path": "i1.png"}])
    put(root / "final_dataset_images" / "i1.png", picture())


def scienceqa(root: Path) -> None:
    def problem(split: str, **changes: Any) -> dict[str, Any]:
        told = {"question": "Which?", "choices": ["this", "that"], "answer": 1, "hint": "", "image": None}
        kind = {"grade": "grade7", "subject": "natural science", "topic": "biology", "category": "Adaptations"}
        return told | kind | {"lecture": "Shared.", "solution": "that", "split": split} | changes

    problems = {str(n): problem("train") for n in (1, 2, 3)}
    problems |= {"4": problem("test", image="image.png", hint="Look."), "5": problem("test")}
    put(root / "problems.json", problems)
    put(root / "pid_splits.json", {"train": ["1", "2", "3"], "val": [], "test": ["4", "5"]})
    put(root / "captions.json", {"model": "m", "captions": {"4": "A jar."}})
    put(root / "ocrs.json", {"4": "[([[0, 0], [9, 0]], 'Sample A', 0.97)]"})
    put(root / "images" / "test" / "4" / "image.png", picture())


def tatqa(root: Path) -> None:
    def report(name: str) -> dict[str, Any]:
        held = {"uid": f"{name}t", "table": [["", "2019"], ["Total", "130"]]}
        span = {"answer": ["130"], "answer_type": "span", "answer_from": "table-text", "scale": ""}
        computed = {"answer": -1.5, "answer_type": "arithmetic", "answer_from": "table", "scale": ""}
        asked = [
            {"uid": f"{name}{n}", "question": "How much?", "rel_paragraphs": ["1"]} | told
            for n, told in enumerate((span, computed))
        ]
        paragraphs = [{"uid": f"{name}p", "order": 1, "text": "first"}]
        return {"table": held, "paragraphs": paragraphs, "questions": asked}

    put(root / "tatqa_dataset_train.json", [report("a"), report("b")])
    put(root / "tatqa_dataset_dev.json", [report("c")])


def vidoseek(root: Path) -> None:
    def example(uid: str) -> dict[str, Any]:
        about = {"file_name": "d.pdf", "reference_page": [1], "source_type": "text", "query_type": "single-hop"}
        return {"uid": uid, "query": "What?", "reference_answer": "12", "meta_info": about}

    put(root / "rag_dataset.json", {"examples": [example(f"q{n}") for n in range(6)]})
    for page in (1, 2):
        put(root / "img" / f"d_{page}.jpg", picture(page))
    put(root / "ppocr" / "d_1.txt", b"words")
    put(root / "vlmocr" / "d_2.json", [{"text": "more", "box": [1, 2]}])


def webqa(root: Path) -> None:
    def asked(guid: str, split: str) -> dict[str, Any]:
        told = {"Guid": guid, "Q": '"What color?"', "A": ['"It is white."'], "split": split, "Qcate": "color"}
        seen = {"image_id": 30000000, "title": "frog", "caption": "A frog"}
        snippet = {"snippet_id": f"{guid}_0", "title": "t", "fact": "f"}
        return told | {"Keywords_A": "white", "txt_posFacts": [], "img_posFacts": [seen], "txt_negFacts": [snippet]}

    put(root / "WebQA_train_val.json", {g: asked(g, s) for g, s in (("a", "train"), ("b", "train"), ("v", "val"))})
    put(root / "imgs.tsv", b"30000000\t" + base64.b64encode(picture()) + b"\n")
    put(root / "imgs.lineidx", b"0\n")


def mmbench(root: Path) -> None:
    encoded = base64.b64encode(picture()).decode()
    rows = [[str(n), f"What {n}?", "", "a", "b", "", "", "A", "c", encoded, "l"] for n in range(1, 7)]
    table(root / "MMBench_DEV_EN.tsv", HEADS["mmbench"], rows)


def crisismmd(root: Path) -> None:
    for split, ids in (("train", "345"), ("test", "12")):
        rows = [["irma", n, f"{n}_0", "Roof gone", f"data_image/{n}_0.png", "informative"] for n in ids]
        name = f"task_informative_text_img_agreed_lab_{split}.tsv"
        table(root / "crisismmd_datasplit_agreed_label" / name, HEADS["crisismmd"], rows)
    put(root / "data_image" / "1_0.png", picture())


def file(root: Path) -> None:
    def asked(n: int) -> dict[str, Any]:
        chosen = {"choices": ["this", "that"], "answer": n % 2} if n % 2 else {"answers": ["red", 3]}
        shown = {"picture": "shown.png", "passages": [{"title": "T", "text": f"passage {n}"}, "both"]}
        return {"question": f"What is {n}?", "tables": [["Name", "Year"], ["Ann", 1976]], **chosen, **shown}

    put(root / "questions.jsonl", [asked(n) for n in range(6)])
    put(root / "shown.png", picture())


LAYOUTS: dict[str, Callable[[Path], None]] = {
    "mmqa": mmqa,
    "scienceqa": scienceqa,
    "tatqa": tatqa,
    "vidoseek": vidoseek,
    "webqa": webqa,
    "mmbench": mmbench,
    "crisismmd": crisismmd,
    "mh": write_small,
    "file": file,
}
