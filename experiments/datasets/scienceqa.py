"""ScienceQA (Lu et al. 2022): multiple choice over a hint, a picture, both or neither, in the official layout.

One folder holds problems.json, pid_splits.json, captions.json, where there is one ocrs.json, and the pictures in
images/<split>/<problem>/. A part of it is enough: problems that are not there are skipped, and a picture whose file is
not there is described by its caption and its OCR text.

Hints and pictures (a question's own are its pool) and lectures may be retrieved, solutions never. A lecture is in the
corpus when two or more *training* problems share it; a lecture of one problem alone may describe that problem's picture
or answer. A question's own lecture is withheld from it, because it leans towards the label: over 649 validation and
test questions, their own shared lectures name the right choice and no wrong one 16 times, and the reverse 7 times.
Other lectures on the same skill do not: once and never, in 156 pairs of question and lecture. No picture of another
problem is retrieved for a question without a picture, which is about none (`DatasetKind.pictures_for`).
"""

import ast
import hashlib
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field, StrictInt, StringConstraints, TypeAdapter
from pydantic_core import PydanticCustomError

from actors.errors import UserError
from actors.messages import Question, Source
from experiments.datasets.benchmark import Benchmark, Parts, docs_of, image_source, text_source
from experiments.datasets.fields import Id, Label, Many, NonBlank, Stripped, Text
from experiments.datasets.item import Item
from experiments.datasets.kind import OF_FILES, DataRequest
from experiments.datasets.reading import placed, read_json, read_members

SUBJECTS = {"natural science": "NAT", "social science": "SOC", "language science": "LAN"}
OCR_TEXT = 256 * 1024  # characters of one picture in ocrs.json (8 kB)


def _ocr_text(text: str) -> str:
    """Recognised words in reading order. ocrs.json holds each picture's list of (box, word, confidence) as text."""
    try:
        with warnings.catch_warnings(action="ignore"):  # about a backslash in a word
            boxes = ast.literal_eval(text)  # Python literals, not JSON; this runs no code
        words = [word for _, word, _ in boxes]
        "".join(words).encode()  # raises for anything but texts without lone surrogates
    # Python's own limits of nesting raise three of these.
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError) as error:
        raise PydanticCustomError("ocr", "expected a list of (box, word, confidence) in Python's notation") from error
    return "; ".join(words)


@dataclass(frozen=True, slots=True)
class ScienceQaProblem:
    """Member of problems.json. Its solution is not among the fields and is never read."""

    question: NonBlank
    choices: Annotated[Many[NonBlank], Field(min_length=1)]
    answer: StrictInt
    hint: Stripped
    image: Label | None
    grade: Annotated[str, StringConstraints(pattern=r"^(grade)?[0-9]{1,2}$")]
    subject: Literal["natural science", "social science", "language science"]
    topic: Label
    category: Text
    lecture: Stripped
    split: Literal["train", "val", "test"]

    @property
    def lecture_doc(self) -> str:
        """Document of the lecture, equal for lectures that differ in white space only; empty without one."""
        if not self.lecture:
            return ""
        return "lecture:" + hashlib.blake2b(" ".join(self.lecture.split()).encode(), digest_size=8).hexdigest()


@dataclass(frozen=True, slots=True)
class ScienceQaCaptions:
    captions: dict[Id, Text]


PROBLEM = TypeAdapter(ScienceQaProblem)
SPLITS = TypeAdapter(dict[str, Many[Id]])
CAPTIONS = TypeAdapter(ScienceQaCaptions)
OCR = TypeAdapter(Annotated[str, StringConstraints(max_length=OCR_TEXT), AfterValidator(_ocr_text)])


class ScienceQa(Benchmark):
    """Trains on the official train split and evaluates on `data.split`, in the order of pid_splits.json.

    With `data.pictures`, both are of questions with a picture only.
    """

    name = "scienceqa"
    metric = "accuracy"
    reads = (*OF_FILES, "data.split", "data.pictures")
    release = "the data/ folder of github.com/lupantech/ScienceQA"
    pictures_for = "pictured"
    parts: ClassVar[Parts] = {name: (f"{name}.json",) for name in ("problems", "pid_splits", "captions")}

    def __init__(self, request: DataRequest) -> None:
        super().__init__(request)
        self.evaluated = request.settings.split

    def split(self, name: str, count: int | None) -> Iterator[Item]:
        pids = [pid for pid in self.splits.get(name, ()) if pid in self.problems]
        if self.settings.pictures:
            pids = [pid for pid in pids if self.problems[pid].image]
        for pid in self.chosen(pids, str, count):
            problem = self.problems[pid]
            docs = docs_of(self.own_sources(pid))
            # A question with both a picture and a hint counts in both, "IMG+TXT".
            context = [tag for tag, part in (("IMG", problem.image), ("TXT", problem.hint)) if part]
            # The two grade bands of the paper's tables.
            grade = int(problem.grade.removeprefix("grade"))
            band = "G1-6" if grade <= 6 else "G7-12"
            # Its own lecture could be the answer's explanation.
            withheld = (problem.lecture_doc,) if problem.lecture_doc in self.lectures else ()
            yield Item(
                question=Question(pid, problem.question, problem.choices),
                gold=(problem.choices[problem.answer],),
                pool=docs,
                supporting=docs,
                own=docs,
                withheld=withheld,
                tags={
                    "subject": SUBJECTS[problem.subject],
                    "context": "+".join(context) or "NO",
                    "grade": band,
                    "topic": problem.topic,
                },
                # Questions of one lecture ask for one skill.
                cluster=problem.lecture_doc,
            )

    def sources(self) -> Iterator[Source]:
        """Lectures, then hints and pictures of all problems."""
        for doc, (category, text) in self.lectures.items():
            yield text_source(doc, category, text)
        for pid in self.problems:
            yield from self.own_sources(pid)

    def own_sources(self, pid: str) -> list[Source]:
        """Lists a problem's hint and pictures, titled by its category. Raises UserError for one without a source."""
        problem = self.problems[pid]
        title = problem.category
        sources: list[Source] = []
        if problem.hint:
            sources.append(text_source(f"{pid}:hint", title, problem.hint))
        if not problem.image:
            return sources

        description = self.descriptions.get(pid, "")
        with placed(f"{self.folder.root / 'problems.json'}, problem {pid}"):
            # Sorted: of two files with one stem, the same one counts on every machine.
            files = {file.stem: file for file in self.folder.files("images", problem.split, pid)}
            if "image" not in files and not description:
                expected = self.folder.root / "images" / problem.split / pid / problem.image
                raise UserError(
                    f"question {pid} has no source for its picture: copy {expected},"
                    f" or captions.json with its caption, from {self.release}"
                )

        sources.append(image_source(f"{pid}:image", title, description, files.get("image")))
        for number, choice in enumerate(problem.choices):
            file = files.get(f"choice_{number}")
            if file:
                sources.append(image_source(f"{pid}:choice_{number}", title, f"Picture of the choice {choice}.", file))

        return sources

    @cached_property
    def splits(self) -> dict[str, tuple[str, ...]]:
        return read_json(self.path("pid_splits"), SPLITS)

    @cached_property
    def problems(self) -> dict[str, ScienceQaProblem]:
        path = self.path("problems")
        problems: dict[str, ScienceQaProblem] = {}
        for where, pid, problem in read_members(path, PROBLEM, "problem"):
            if not 0 <= problem.answer < len(problem.choices):
                raise UserError(
                    f"{where}: answer {problem.answer} of {len(problem.choices)} choices: expected the place of one, "
                    "from 0"
                )
            problems[pid] = problem

        # The release's other splits (minival, minitest, trainval) are made of these three.
        pids = set[str]()
        for split in ("train", "val", "test"):
            pids.update(self.splits.get(split, ()))
        present = len(pids & problems.keys())
        if present < len(pids):
            self.note(f"scienceqa: {path} has {present:,} of the release's {len(pids):,} problems")
        return problems

    @cached_property
    def descriptions(self) -> dict[str, str]:
        """Caption and OCR text of pictures, by problem."""
        descriptions = dict(read_json(self.path("captions"), CAPTIONS).captions)
        ocr = self.folder.file("ocrs.json")
        if ocr is None:
            return descriptions

        for _, pid, words in read_members(ocr, OCR, "problem"):
            if words:
                descriptions[pid] = f"{descriptions.get(pid, '')} Lettering: {words}.".lstrip()
        return descriptions

    @cached_property
    def lectures(self) -> dict[str, tuple[str, str]]:
        """Category and text by document, of the lectures that two or more training problems share."""
        # Training problems alone, so that no evaluated problem puts its own lecture into the corpus.
        training = [self.problems[pid] for pid in self.splits.get("train", ()) if pid in self.problems]
        uses = Counter(problem.lecture_doc for problem in training)
        lectures: dict[str, tuple[str, str]] = {}
        for problem in training:
            if problem.lecture and uses[problem.lecture_doc] > 1:
                # The category is that of the first problem with the lecture.
                lectures.setdefault(problem.lecture_doc, (problem.category, problem.lecture))
        return lectures
