"""Makes releases of all eight benchmarks in their official layout and size, out of made-up words and one picture.

Numbers of questions, documents and pictures are those of the official releases; lengths of texts are like those of the
parts of them that we have seen. Texts have words of a Zipf distribution, so that an index has as many distinct words as
one of real texts. Pictures are one encoded picture of about the official size; a comment in each makes its bytes
its own. WebQA's file of pictures has all 389,750 of them, but smaller ones: 5 GB where the official one has 51.
"""

import base64
import io
import json
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
from PIL import Image, ImageFilter

SYLLABLES = [consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeiou"]
FREQUENT = (
    "the of and in to a is was for on as by with at from his that it an are were which be this he has also or its "
    "first had one their not her after but new who they two been other when she during there into all may more "
    "between over city film released team year world during series known"
).split()
WORDS = 400_000
ZIPF_SHIFT = 2.7
NAMES_FROM = 5000  # a rarer word of even rank begins with a capital
SENTENCE = 16  # words


class Text:
    """Draws words, names and texts, the same each time."""

    def __init__(self) -> None:
        self.random = np.random.default_rng(0)
        self._words = np.array([_word(rank) for rank in range(WORDS)], dtype=object)
        shares = 1 / (np.arange(WORDS) + ZIPF_SHIFT)
        self._cumulated = np.cumsum(shares) / shares.sum()

    def words(self, number: int) -> list[str]:
        words: list[str] = self._words[self._cumulated.searchsorted(self.random.random(number))].tolist()
        return words

    def name(self, number: int = 2) -> str:
        ranks = self.random.integers(NAMES_FROM, WORDS, number)
        return " ".join(word.capitalize() for word in self._words[ranks])

    def texts(self, number: int, median: int, spread: float = 0.5) -> Iterator[str]:
        """Yields texts of sentences, whose lengths in words have a log-normal distribution."""
        lengths = np.maximum(3, self.random.lognormal(np.log(median), spread, number)).astype(int)
        for length in lengths.tolist():
            words = self.words(length)
            for start in range(0, length, SENTENCE):
                words[start] = words[start].capitalize()
                end = min(start + SENTENCE, length) - 1
                words[end] += "."
            yield " ".join(words)

    def text(self, median: int) -> str:
        return next(self.texts(1, median))

    def ids(self, number: int) -> list[str]:
        """Returns different ids of 32 hexadecimal digits."""
        digits = self.random.bytes(16 * number).hex()
        return [digits[32 * place : 32 * place + 32] for place in range(number)]

    def some(self, values: Sequence[Any], number: int) -> list[Any]:
        places = self.random.integers(0, len(values), number)
        return [values[place] for place in dict.fromkeys(places.tolist())]


def _word(rank: int) -> str:
    if rank < len(FREQUENT):
        return FREQUENT[rank]
    syllables: list[str] = []
    rest = rank
    while rest:
        rest, place = divmod(rest, len(SYLLABLES))
        syllables.append(SYLLABLES[place])
    word = "".join(syllables)
    return word.capitalize() if rank > NAMES_FROM and not rank % 2 else word


class Picture:
    """One encoded picture of which any number of different files can be made."""

    def __init__(self, width: int, height: int, size: float, form: str = "JPEG") -> None:
        """size: bytes of a file, roughly; detail is added until it has them."""
        random = np.random.default_rng(0)
        noise = Image.fromarray(random.integers(0, 256, (height, width, 3), dtype=np.uint8))
        plain = Image.linear_gradient("L").resize((width, height)).convert("RGB")
        self.form = form
        for radius in (64, 32, 16, 8, 6, 4, 3, 2, 1.5, 1, 0.7, 0.5, 0):
            mixed = Image.blend(plain, noise.filter(ImageFilter.GaussianBlur(radius)), 0.5)
            content = io.BytesIO()
            mixed.save(content, form)
            self._content = content.getvalue()
            if len(self._content) >= size:
                return

    def file(self, number: int) -> bytes:
        """Returns the file with a number in its comment."""
        comment = b"%012d" % number
        if self.form == "JPEG":
            part = b"\xff\xfe" + struct.pack(">H", len(comment) + 2) + comment
            return self._content[:2] + part + self._content[2:]
        text = b"tEXtComment\0" + comment
        chunk = struct.pack(">I", len(text) - 4) + text + struct.pack(">I", zlib.crc32(text))
        header = 8 + 25  # signature, and the first chunk
        return self._content[:header] + chunk + self._content[header:]

    def encoded(self, number: int) -> str:
        return base64.b64encode(self.file(number)).decode()


def write_lines(path: Path, records: Iterator[dict[str, Any]]) -> None:
    with path.open("w") as file:
        for record in records:
            file.write(json.dumps(record) + "\n")


def write_sheet(path: Path, rows: Sequence[Sequence[str]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet()
    for row in rows:
        sheet.append(list(row))
    book.save(path)


def mmqa(root: Path, share: float, detail: float) -> None:
    """MultimodalQA: 23,817 and 2,441 questions, 218,285 passages, 10,042 tables, 57,058 pictures of 400 x 300."""
    text = Text()
    passages = text.ids(int(218_285 * share))
    tables = text.ids(int(10_042 * share))
    pictures = text.ids(int(57_058 * share))

    def questions(number: int) -> Iterator[dict[str, Any]]:
        for qid, question, place in zip(text.ids(number), text.texts(number, 18, 0.3), range(number), strict=True):
            pool = text.some(passages, 10)
            answer = {"answer": text.name(1), "type": "string", "modality": "text", "text_instances": []}
            metadata = {
                "type": ("TextQ", "TableQ", "ImageQ", "Compose(TextQ,TableQ)")[place % 4],
                "modalities": ["text"],
                "wiki_entities_in_question": [{"text": text.name(), "wiki_title": text.name(), "url": text.text(4)}],
                "wiki_entities_in_answers": [],
                "pseudo_language_question": question,
                "rephrasing_meta": {"accuracy": 1.0, "edit_distance": 0.6, "confidence": 0.9},
                "image_doc_ids": text.some(pictures, 10),
                "text_doc_ids": pool,
                "intermediate_answers": [],
                "table_id": tables[place % len(tables)],
            }
            yield {
                "qid": qid,
                "question": question,
                "answers": [answer],
                "metadata": metadata,
                "supporting_context": [{"doc_id": pool[0], "doc_part": "text"}],
            }

    def table_records() -> Iterator[dict[str, Any]]:
        for id in tables:
            rows: list[Any] = []
            for _ in range(16):
                cells = [text.name(), *text.words(4)]
                rows.append([{"text": cell, "links": []} for cell in cells])
            header = [{"column_name": name, "metadata": {}} for name in text.words(5)]
            table = {"table_rows": rows, "table_name": text.name(1), "header": header}
            yield {"title": text.name(), "url": text.text(4), "id": id, "table": table}

    write_lines(root / "MMQA_train.jsonl", questions(int(23_817 * share)))
    write_lines(root / "MMQA_dev.jsonl", questions(int(2_441 * share)))
    texts = zip(passages, text.texts(len(passages), 70), strict=True)
    write_lines(
        root / "MMQA_texts.jsonl", ({"title": text.name(), "url": "u", "id": id, "text": body} for id, body in texts)
    )
    write_lines(root / "MMQA_tables.jsonl", table_records())
    write_lines(
        root / "MMQA_images.jsonl",
        ({"title": text.name(), "url": "u", "id": id, "path": f"{id}.jpg"} for id in pictures),
    )
    picture = Picture(400, 300, detail * 16_000)
    folder = root / "final_dataset_images"
    folder.mkdir()
    for number, id in enumerate(pictures):
        (folder / f"{id}.jpg").write_bytes(picture.file(number))


def scienceqa(root: Path, share: float, detail: float) -> None:
    """ScienceQA: 12,726, 4,241 and 4,241 problems, half of them with a picture of some 60 KB, and 261 lectures."""
    text = Text()
    lectures = list(text.texts(261, 150))
    picture = Picture(500, 350, detail * 60_000, "PNG")
    problems: dict[str, Any] = {}
    captions: dict[str, str] = {}
    boxes: dict[str, str] = {}
    splits: dict[str, list[str]] = {}

    for split, number in (("train", 12_726), ("val", 4_241), ("test", 4_241)):
        splits[split] = []
        for _ in range(int(number * share)):
            pid = str(len(problems) + 1)
            has_picture = len(problems) % 2 == 0
            splits[split].append(pid)
            problems[pid] = {
                "question": text.text(12),
                "choices": [text.name() for _ in range(3)],
                "answer": len(problems) % 3,
                "hint": text.text(30) if len(problems) % 3 else "",
                "image": "image.png" if has_picture else None,
                "task": "closed choice",
                "grade": f"grade{1 + len(problems) % 12}",
                "subject": "natural science",
                "topic": "biology",
                "category": text.name(1),
                "skill": text.text(5),
                "lecture": lectures[len(problems) % len(lectures)],
                "solution": text.text(60),
                "split": split,
            }
            if has_picture:
                captions[pid] = text.text(10)
                boxes[pid] = repr([([[0, 0], [9, 0], [9, 9], [0, 9]], word, 0.97) for word in text.words(4)])
                folder = root / "images" / split / pid
                folder.mkdir(parents=True)
                (folder / "image.png").write_bytes(picture.file(len(problems)))

    (root / "problems.json").write_text(json.dumps(problems, indent=1))
    (root / "pid_splits.json").write_text(json.dumps(splits))
    (root / "captions.json").write_text(json.dumps({"model": "m", "captions": captions}))
    (root / "ocrs.json").write_text(json.dumps(boxes))


def tatqa(root: Path, share: float, detail: float) -> None:
    """TAT-QA: 2,201 and 278 reports of one table and five paragraphs, with six questions each."""
    text = Text()

    def report() -> dict[str, Any]:
        rows = [["", "2019", "2018", "2017"]]
        for _ in range(9):
            amounts = text.random.integers(1, 100_000, 3)
            rows.append([text.text(4), *(f"{amount:,}" for amount in amounts.tolist())])
        paragraphs = [{"uid": uid, "order": order, "text": text.text(45)} for order, uid in enumerate(text.ids(5), 1)]
        questions: list[dict[str, Any]] = []
        for order, uid in enumerate(text.ids(6), 1):
            question = {"uid": uid, "order": order, "question": text.text(12), "answer": [text.name(1)]}
            kind = {"answer_type": "span", "answer_from": "text", "scale": "", "derivation": ""}
            questions.append(question | kind | {"rel_paragraphs": ["1"], "req_comparison": False})
        return {"table": {"uid": text.ids(1)[0], "table": rows}, "paragraphs": paragraphs, "questions": questions}

    for split, number in (("train", 2_201), ("dev", 278)):
        reports = [report() for _ in range(max(8, int(number * share)))]
        (root / f"tatqa_dataset_{split}.json").write_text(json.dumps(reports))


def mh(root: Path, share: float, detail: float) -> None:
    """MH: 238 questions on 22 monsters, whose graph has 40 entities each; seven frames of 4K for half of these."""
    text = Text()
    picture = Picture(3840, 2160, detail * 400_000)
    monsters = [text.name(1) for _ in range(max(2, int(22 * share)))]
    header = ["File", "Video", "Image", "Question", "Monster Name", "Extra Information", "Perception", "Search Route"]
    questions = [[*header, "Answer", "Type"]]
    frame = 0

    for monster in monsters:
        folder = root / "mmkg" / monster
        names = [text.name(2) for _ in range(39)]
        nodes = [["Entity", "Image", "Video", "Action", "Information"], [monster, "", "", "", text.text(40)]]
        edges = [["Entity 1", "Relation", "Information", "Condition", "Entity 2"]]
        for place, name in enumerate(names):
            clip = f"clip{place}" if place % 2 else ""
            nodes.append([name, clip, "", text.text(25), text.text(15)])
            edges.append([names[place // 2] if place else monster, text.text(3), "", text.text(5), name])
            if clip:
                (folder / "Knowledge_Images" / clip).mkdir(parents=True)
                for _ in range(7):
                    frame += 1
                    (folder / "Knowledge_Images" / clip / f"frame-{frame}.jpg").write_bytes(picture.file(frame))
        write_sheet(folder / "Node.xlsx", nodes)
        write_sheet(folder / "Relations.xlsx", edges)
        for number in range(11):
            file = f"{monster}_{number}"
            frame += 1
            (root / "questions_mh" / file).mkdir(parents=True)
            (root / "questions_mh" / file / "still.jpg").write_bytes(picture.file(frame))
            asked = [text.text(12), monster, text.text(10), text.text(20), f"{monster}>{names[0]}", text.text(12)]
            questions.append([file, "", "still.jpg", *asked, str(number % 6)])
    write_sheet(root / "questions_mh" / "question_list.xlsx", questions[: 1 + 238])


def vidoseek(root: Path, share: float, detail: float) -> None:
    """ViDoSeek: 1,142 questions over 292 documents with 5,385 pages of some 200 KB, with the words of each page."""
    text = Text()
    picture = Picture(1280, 960, detail * 200_000)
    documents = [text.name(3).replace(" ", "_") for _ in range(max(3, int(292 * share)))]
    pages = int(5_385 * share)
    (root / "img").mkdir()
    (root / "ppocr").mkdir()
    for number in range(pages):
        name = f"{documents[number % len(documents)]}_{number // len(documents) + 1}"
        (root / "img" / f"{name}.jpg").write_bytes(picture.file(number))
        (root / "ppocr" / f"{name}.txt").write_text(text.text(120))

    examples: list[dict[str, Any]] = []
    for number, uid in enumerate(text.ids(int(1_142 * share))):
        document = documents[number % len(documents)]
        kind = {"source_type": ("text", "table", "chart", "2d_layout")[number % 4], "query_type": "Single-Hop"}
        meta = {"file_name": f"{document}.pdf", "reference_page": [1], **kind}
        example = {"uid": uid, "query": text.text(18), "reference_answer": text.name(2), "meta_info": meta}
        examples.append(example)
    (root / "rag_dataset.json").write_text(json.dumps({"examples": examples}))


def webqa(root: Path, share: float, detail: float) -> None:
    """WebQA: 36,766 and 4,966 questions with 30 facts each, and 389,750 pictures in one table with its line index."""
    text = Text()
    picture = Picture(200, 150, detail * 8_000)
    pictures = int(389_750 * share)
    starts: list[int] = []
    with (root / "imgs.tsv").open("w") as file:
        for number in range(pictures):
            starts.append(file.tell())
            file.write(f"{30_000_000 + number}\t{picture.encoded(number)}\n")
    (root / "imgs.lineidx").write_text("".join(f"{start}\n" for start in starts))

    def snippets(guid: str, number: int) -> list[dict[str, Any]]:
        facts: list[dict[str, Any]] = []
        for place in range(number):
            fact = {"title": text.name(), "fact": text.text(35), "url": "https://en.wikipedia.org/wiki/Page"}
            facts.append({**fact, "snippet_id": f"{guid}_{text.random.integers(1 << 40)}_{place}"})
        return facts

    def shown(number: int) -> list[dict[str, Any]]:
        facts: list[dict[str, Any]] = []
        for place in text.random.integers(0, pictures, number).tolist():
            urls = {"url": "https://commons.wikimedia.org/wiki/File", "imgUrl": "https://upload.wikimedia.org/File"}
            facts.append({"image_id": 30_000_000 + place, "title": text.name(), "caption": text.text(14), **urls})
        return facts

    with (root / "WebQA_train_val.json").open("w") as file:
        number = int(41_732 * share)
        for place, guid in enumerate(text.ids(number)):
            question = {
                "Q": f'"{text.text(16)}"',
                "A": [f'"{text.text(12)}"'],
                "topic": text.name(),
                "split": "val" if place % 42 < 5 else "train",
                "Qcate": ("text", "YesNo", "Others", "choose")[place % 4],
                "Guid": guid,
                "Keywords_A": text.name(1),
                "txt_posFacts": snippets(guid, 1),
                "txt_negFacts": snippets(guid, 14),
                "img_posFacts": shown(1),
                "img_negFacts": shown(14),
            }
            opening = "," if place else "{"
            file.write(f"{opening}\n{json.dumps(guid)}: {json.dumps(question)}")
        file.write("\n}")


def crisismmd(root: Path, share: float, detail: float) -> None:
    """CrisisMMD: 9,601, 1,573 and 1,534 posts with agreed labels, and 18,082 pictures of some 100 KB."""
    text = Text()
    picture = Picture(800, 600, detail * 100_000)
    header = ["event_name", "tweet_id", "image_id", "tweet_text", "image", "label", "label_text", "label_image"]
    number = 0
    for split, posts in (("train", 9_601), ("dev", 1_573), ("test", 1_534), ("", 5_374)):
        rows = [header]
        for _ in range(int(posts * share)):
            number += 1
            id = f"{917_791_044_158_185_473 + number}_0"
            event = f"event_{number % 7}"
            file = f"data_image/{event}/{number % 30}_10_2017/{id}.jpg"
            (root / file).parent.mkdir(parents=True, exist_ok=True)
            (root / file).write_bytes(picture.file(number))
            label = ("informative", "not_informative")[number % 2]
            rows.append([event, id.removesuffix("_0"), id, text.text(18), file, label, label, label])
        if split:
            name = f"task_informative_text_img_agreed_lab_{split}.tsv"
            table = root / "crisismmd_datasplit_agreed_label" / name
            table.parent.mkdir(exist_ok=True)
            table.write_text("\n".join("\t".join(row) for row in rows) + "\n")


def mmbench(root: Path, share: float, detail: float) -> None:
    """MMBench: 1,164 questions in 4,329 rows, each question's picture of some 30 KB in its first row."""
    text = Text()
    picture = Picture(512, 384, detail * 30_000)
    header = "index question hint A B C D answer category image l2-category split".split()
    rows = [header]
    questions = int(1_164 * share)
    for rotation in range(4):
        for number in range(questions):
            if rotation == 3 and number >= questions * 837 // 1_164:
                break  # questions of fewer choices have fewer rotations
            if not rotation:
                image = picture.encoded(number)
            else:
                image = str(number)
            choices = [text.name() for _ in range(4)]
            index = str(number + rotation * 1_000_000)
            rows.append([index, text.text(12), "", *choices, "ABCD"[number % 4], "category", image, "ability", "dev"])
    (root / "MMBench_DEV_EN.tsv").write_text("\n".join("\t".join(row) for row in rows) + "\n")


RELEASES: dict[str, Callable[[Path, float, float], None]] = {
    "mmqa": mmqa,
    "scienceqa": scienceqa,
    "tatqa": tatqa,
    "mh": mh,
    "vidoseek": vidoseek,
    "webqa": webqa,
    "crisismmd": crisismmd,
    "mmbench": mmbench,
}
COMPLETE = "complete"


def make_release(kind: str, folder: Path, share: float, detail: float = 1.0) -> Path:
    """Makes a release below a folder unless it is there. share, detail: of the official numbers, of pictures' bytes."""
    root = folder / f"{kind}-{share:g}-{detail:g}"
    marker = folder / f"{root.name}.{COMPLETE}"
    if not marker.exists():
        root.mkdir(parents=True)
        RELEASES[kind](root, share, detail)
        marker.touch()
    return root
