"""Triples and captions that a run's model extracts from the corpus: HM-RAG's Eqs. 1-3, MMAPG's Eqs. 1-2, in LightRAG's
way.

A source is one turn of an agent of its own: `graph_extractor` takes its words apart, a long source in parts (parts.py)
and with further looks where these are wanted (gleaning.py); `captioner` describes a picture. Both ask with a form and
see no question, so that no label can reach what is built. HM-RAG gives no prompt for either.

What was extracted lies in a file of JSON lines beside the indexes, by the source's content: a source is taken apart
once, whatever corpora it is in, and a killed run goes on where it was.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from actors.messages import (
    Field,
    FieldKind,
    Given,
    Kind,
    Modality,
    Question,
    Role,
    Source,
    Status,
    Task,
    Trace,
    Triple,
    Turn,
    Value,
    derive_seed,
)
from experiments.evidence.parts import PART_WORDS, parts_of
from experiments.records import jsonl
from retrieval.extract import Extraction
from topologies.topology import Ask, discussion_id

DAMAGED = "delete the file, and everything is extracted again"

EXTRACTOR = Role(
    "graph_extractor",
    Modality.TEXT,
    "You build a knowledge graph out of sources. You write down what a source states, and nothing beyond it.",
)
CAPTIONER = Role(
    "captioner",
    Modality.VISUAL,
    "You describe pictures for people who look for them by words. You write down what is there to see, and no guesses.",
)
TRIPLES = Task(
    "Take the source apart into triples: two things, and how the first is related to the second. Things are people, "
    "places, organisations, works, events, kinds of things, properties, dates and quantities. Write each by its full "
    "name as the source spells it, never by a pronoun; what the whole source is about goes by its title. Keep a date "
    "or a quantity in one piece. Give every relation that the source states, in a few of its own words.",
    (Field(FieldKind.TRIPLE, "thing | relation | thing", many=True, optional=True, value=Value.TRIPLE),),
)
CAPTION = Task(
    "Describe the picture in two to four sentences: who or what is on it, where on it, in which colours and numbers, "
    "and all lettering, signs and labels word for word. Take names from its title, and from the description that came "
    "with it, where one is given and the picture bears it out.",
    (Field(FieldKind.DESCRIPTION, "what there is to see"),),
)


@dataclass(eq=False)
class Step:
    """One kind of extraction, as a discussion of one turn for each source.

    method: its name in discussions and files.
    phase: its name in usage and progress.
    """

    method: str
    phase: str
    role: Role
    task: Task
    asks: str

    def shown(self, source: Source) -> Source | None:
        """The source as the agent reads it; None where there is nothing in it to extract."""
        if self.role is CAPTIONER:
            return source if source.kind is Kind.IMAGE and (source.image or source.text) else None
        # A picture's words are taken apart like any others: what it shows was put into them before.
        words = replace(source, kind=Kind.TEXT, image=None) if source.kind is Kind.IMAGE else source
        return words if any(map(str.isalpha, words.text)) else None

    def questions(self, source: Source, part_words: int = PART_WORDS) -> list[Question]:
        """What is asked about a source, or about each part of a longer one, under ids that equal ones share."""
        shown = self.shown(source)
        if shown is None:
            return []
        # Of a picture the words are one description, whatever their number.
        texts = [shown.text] if self.role is CAPTIONER else parts_of(shown.text, part_words)
        parts = (replace(shown, text=text) for text in texts)
        return [Question(source_key(part), self.asks, evidence=(part,), own=(part.doc,)) for part in parts]

    async def answer(self, question: Question, ask: Ask, seed: int = 0, sample: int = 0) -> Trace:
        """A discussion of one turn. It does not depend on the run's seed, as what is kept serves all runs."""
        (source,) = question.evidence
        given: tuple[Given, ...] = ()
        if self.role is CAPTIONER and source.image is not None and source.text:
            given = (Given(FieldKind.DESCRIPTION, source.text),)
        message = await ask(
            Turn(
                discussion=discussion_id(self.method, question, sample),
                question=question,
                agent=self.role.name,
                round=1,
                seed=derive_seed("extract", self.method, question.id),
                task=replace(self.task, given=given),
            )
        )
        return Trace(question.id, self.method, sample, (self.role.name,), (message,), None, message.status, seed)


GRAPH = Step(
    "triples", "extracting triples", EXTRACTOR, TRIPLES, "Which things does this source name, and how are they related?"
)
CAPTIONS = Step("captions", "writing captions", CAPTIONER, CAPTION, "What is there to see on this picture?")


def source_key(source: Source) -> str:
    """The digest of all that an agent reads of a source, with its picture's size and date."""
    fields = [source.kind.value, source.title, source.text]
    if source.image is not None and Path(source.image).is_file():
        stat = Path(source.image).stat()
        fields += [str(stat.st_size), str(stat.st_mtime_ns)]
    return hashlib.blake2b(json.dumps(fields).encode(), digest_size=12).hexdigest()


@dataclass(frozen=True, slots=True)
class Kept:
    """What was extracted from a source or a part of one; `error` of the first reply that was not readable, of which
    nothing is left."""

    key: str
    values: tuple[str, ...]
    error: str = ""

    @staticmethod
    def of(step: Step, trace: Trace) -> Kept:
        """What a discussion gave, in the order of its turns."""
        (field,) = step.task.fields
        first, *later = trace.turns
        values = first.said(field.name) if first.status is Status.OK else ()
        for message in later:
            said = message.said(field.name) if message.status is Status.OK else ()
            values += tuple(value for value in dict.fromkeys(said) if value not in values)
        return Kept(trace.question, values, next((turn.error for turn in trace.turns if turn.error), ""))

    def encode(self) -> str:
        """One line of plain ASCII, without its newline."""
        return json.dumps({"key": self.key, "values": self.values, "error": self.error}, separators=(",", ":"))

    @staticmethod
    def decode(line: str) -> Kept:
        record = json.loads(line)
        return Kept(record["key"], tuple(map(str, record["values"])), record["error"])


def kept_file(folder: Path, step: Step, identity: str) -> Path:
    """The file of a step's results; another one for another model, other settings of it or other prompts."""
    told = repr((identity, step.role, step.task, step.asks))
    return folder / f"{step.method}-{hashlib.blake2b(told.encode(), digest_size=12).hexdigest()}.jsonl"


def read_kept(path: Path) -> dict[str, Kept]:
    """All complete lines by source. Raises UserError for one that is damaged."""
    return {kept.key: kept for kept in jsonl.records(path, Kept.decode, DAMAGED)}


def missing(
    step: Step, sources: Iterable[Source], kept: Mapping[str, Kept], part_words: int = PART_WORDS
) -> Iterator[Question]:
    """The questions about those sources, or parts of them, of which nothing is kept, each once."""
    seen = set(kept)
    for source in sources:
        for question in step.questions(source, part_words):
            if question.id not in seen:
                seen.add(question.id)
                yield question


def statements(sources: Iterable[Source], kept: Mapping[str, Kept], part_words: int = PART_WORDS) -> Extraction:
    """What a graph is built of; its key is of all that these sources state. What several parts of a source state is one
    triple of it."""
    digest = hashlib.blake2b(digest_size=12)

    def triples_of(source: Source) -> Iterator[Triple]:
        parts = [kept[part.id].values for part in GRAPH.questions(source, part_words) if part.id in kept]
        values, number = chain.from_iterable(parts), 0
        for value in dict.fromkeys(values):
            head, relation, tail = (part.strip() for part in value.split(" | "))
            if head and tail and head != tail:
                number += 1
                yield Triple(f"{source.id}#{number}", head, relation, tail, source.id)

    for source in sources:
        for triple in triples_of(source):
            digest.update(repr((triple.id, triple.head, triple.relation, triple.tail)).encode(errors="replace"))
    return Extraction(f"model-{digest.hexdigest()}", triples_of)


def captioned(
    corpus: Callable[[], Iterator[Source]], kept: Mapping[str, Kept], otherwise: str = ""
) -> Callable[[], Iterator[Source]]:
    """The corpus with the captions that were written; a picture without one keeps what its data set says, or has what
    is given to stand for one."""

    def described() -> Iterator[Source]:
        for source in corpus():
            questions = CAPTIONS.questions(source)
            values = kept[questions[0].id].values if questions and questions[0].id in kept else ()
            text = values[0] if values else otherwise
            yield replace(source, text=text) if questions and text else source

    return described
