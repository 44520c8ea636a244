"""ScienceQA's files, each one JSON object by problem."""

from __future__ import annotations

import ast
import warnings
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StrictInt, StringConstraints, TypeAdapter
from pydantic_core import PydanticCustomError

from experiments.datasets.layouts.fields import Id, Label, Many, Said, Text, like
from experiments.datasets.layouts.limits import LETTERING


def _words(text: str) -> str:
    """Recognised words in reading order. ocrs.json holds each picture's list of (box, word, confidence) as text."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a backslash in a word
            found = ast.literal_eval(text)  # Python literals, not JSON; this runs no code
        words = [word for _, word, _ in found]
        "".join(words).encode()  # of texts, and without lone surrogates
    # Python's own limits of nesting come as three of these.
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError) as error:
        raise PydanticCustomError("lettering", "a list of (box, word, confidence) in Python's notation") from error
    return "; ".join(words)


@dataclass(frozen=True, slots=True)
class Problem:
    """A member of problems.json. Its solution is not among the fields and gets nowhere."""

    question: Said
    choices: Annotated[Many[Said], Field(min_length=1)]
    answer: StrictInt
    hint: Annotated[Text, StringConstraints(strip_whitespace=True)]
    image: Label | None
    grade: Annotated[str, like(r"^(grade)?[0-9]{1,2}$", "a grade such as grade7")]
    subject: Literal["natural science", "social science", "language science"]
    topic: Label
    category: Text
    # Stripped: a hint or lecture of blanks alone is none.
    lecture: Annotated[Text, StringConstraints(strip_whitespace=True)]
    split: Literal["train", "val", "test"]


@dataclass(frozen=True, slots=True)
class Splits:
    """pid_splits.json; a split that is not there is empty."""

    train: Many[Id]
    val: Many[Id] = ()
    test: Many[Id] = ()
    minival: Many[Id] = ()
    minitest: Many[Id] = ()


PROBLEM = TypeAdapter(Problem)
SPLITS = TypeAdapter(Splits)
CAPTION = TypeAdapter(Text)
LETTERING_OF = TypeAdapter(Annotated[str, StringConstraints(max_length=LETTERING), AfterValidator(_words)])
