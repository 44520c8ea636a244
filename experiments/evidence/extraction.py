"""Triples and captions that a run's model extracts from the corpus: HM-RAG's Eqs. 1-3, MMAPG's Eqs. 1-2.

A source is one turn of an agent: `graph_extractor` extracts triples, from a long source in parts and, where
`retrieval.gleaning` asks for it, with further turns for missed ones, both as GraphRAG (Edge et al. 2024) and LightRAG
do; `captioner` describes a picture. Both see no question, so that no label can reach captions and triples. HM-RAG gives
no prompt for either.

Results are kept in a file of JSON lines next to the indexes, by the source's content: a source is extracted from once,
whatever corpora it is in, and a killed run continues where it was.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from pathlib import Path
from typing import ClassVar

from actors.file_locks import file_lock
from actors.messages import (
    Field,
    FieldKind,
    InputLine,
    Kind,
    Message,
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
from experiments.records.records import Record
from retrieval.graph_tables import Extraction
from topologies.topology import Ask, discussion_id

PART_WORDS = 600  # about 800 tokens; GraphRAG measured that less is found in longer chunks

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
MISSED = Task(
    f"{TRIPLES.instruction} Under {FieldKind.FOUND.value} stands what was taken from this source before. Read the "
    "source again and give only what is missing there, in the same form; give none of those triples again, and nothing "
    "where nothing is missing.",
    TRIPLES.fields,
)
CAPTION = Task(
    "Describe the picture in two to four sentences: who or what is on it, where on it, in which colours and numbers, "
    "and all lettering, signs and labels word for word. Take names from its title, and from the description that came "
    "with it, where one is given and the picture bears it out.",
    (Field(FieldKind.DESCRIPTION, "what there is to see"),),
)

# After a full stop and closing marks, before a character that may begin a sentence.
_END = re.compile(r"(?<=[.!?])[\"”'’)\]]*\s+(?=[\"“‘(\[]?[A-Z0-9À-ÖØ-Þ])")
_ABBREVIATED = re.compile(r"\b[A-Z][a-z]{0,2}\.$")  # an initial, or a title such as `Dr.`


@dataclass(eq=False)
class Step:
    """One kind of extraction, as a discussion for each source.

    method: its name in discussions and files.
    phase: its name in usage and progress.
    gleaning: most further turns for each source, which show the agent its triples and ask for missing ones; they end
        with the first that adds nothing.
    """

    method: str
    phase: str
    role: Role
    task: Task
    asks: str
    gleaning: int = 0

    def questions(self, source: Source) -> list[Question]:
        """Asks about a source, or each part of a long one, if any. Equal sources have equal ids of questions."""
        parts: list[Source] = []
        if self.role is CAPTIONER:
            # A picture's words are one description, whatever their number.
            if source.kind is Kind.IMAGE and (source.image or source.text):
                parts = [source]
        elif any(map(str.isalpha, source.text)):
            if source.kind is Kind.IMAGE:
                # A picture's words are extracted from like any others: its caption was written before.
                source = replace(source, kind=Kind.TEXT, image=None)
            parts = [replace(source, text=text) for text in parts_of(source.text, PART_WORDS)]

        return [Question(source_key(part), self.asks, evidence=(part,), own=(part.doc,)) for part in parts]

    async def answer(self, question: Question, ask: Ask, seed: int = 0, sample: int = 0) -> Trace:
        """Discusses a source in up to 1 + `gleaning` turns. The last one's status is the trace's.

        The run's seed has no influence, since results serve all runs. There are no further turns where the first found
        nothing or could not be read.
        """
        [source] = question.evidence
        [field] = self.task.fields
        task = replace(self.task, inputs=())
        if self.role is CAPTIONER and source.image is not None and source.text:
            task = replace(self.task, inputs=(InputLine(FieldKind.DESCRIPTION, source.text),))
        turns: list[Message] = []
        values_by_key: dict[str, str] = {}

        while True:
            turn = Turn(
                discussion=discussion_id(self.method, question, sample),
                question=question,
                agent=self.role.name,
                round=len(turns) + 1,
                seed=derive_seed("extract", self.method, question.id, *((len(turns),) if turns else ())),
                task=task,
            )
            turns.append(await ask(turn))
            # By casefolded text: a model that repeats itself may spell a name another way.
            values: Sequence[str] = ()
            if turns[-1].status is Status.OK:
                values = turns[-1].values(field.name)
            new_values = {value.casefold(): value for value in values if value.casefold() not in values_by_key}
            if not new_values or len(turns) > self.gleaning:
                break

            values_by_key |= new_values
            inputs = [InputLine(FieldKind.FOUND, value) for value in values_by_key.values()]
            task = replace(MISSED, inputs=tuple(inputs))

        return Trace(
            question=question.id,
            method=self.method,
            sample=sample,
            agents=(self.role.name,),
            turns=tuple(turns),
            answer=None,
            status=turns[-1].status,
            seed=seed,
        )


GRAPH = Step(
    "triples", "extracting triples", EXTRACTOR, TRIPLES, "Which things does this source name, and how are they related?"
)
CAPTIONS = Step("captions", "writing captions", CAPTIONER, CAPTION, "What is there to see on this picture?")


def source_key(source: Source) -> str:
    """Digests what an agent reads of a source, with its picture's size and date."""
    fields = [source.kind.value, source.title, source.text]
    if source.image is not None and Path(source.image).is_file():
        stat = Path(source.image).stat()
        fields += [str(stat.st_size), str(stat.st_mtime_ns)]
    return hashlib.blake2b(json.dumps(fields).encode(), digest_size=12).hexdigest()


def parts_of(text: str, most_words: int) -> list[str]:
    """Divides a long text after sentences. One that is too long, as in scans, is divided between words."""
    if len(text.split()) <= most_words:
        return [text]

    ends = [0]
    for match in _END.finditer(text):
        if not _ABBREVIATED.search(text[: match.start()][-8:]):
            ends.append(match.end())

    parts: list[list[str]] = []
    for start, end in pairwise([*ends, len(text)]):
        words = text[start:end].split()
        for place in range(0, len(words), most_words):
            piece = words[place : place + most_words]
            if parts and len(parts[-1]) + len(piece) <= most_words:
                parts[-1] += piece
            else:
                parts.append(piece)

    return [" ".join(part) for part in parts]


@dataclass(frozen=True, slots=True)
class Extracted(Record):
    """Values extracted from a source or a part, and the error of the first unread reply."""

    key: str
    values: tuple[str, ...]
    error: str = ""
    REMEDY: ClassVar[str] = "delete the file, and everything is extracted again"

    @staticmethod
    def of(step: Step, trace: Trace) -> "Extracted":
        """Returns a discussion's values in the order of its turns, and the first error."""
        [field] = step.task.fields
        values: list[str] = []
        for number, turn in enumerate(trace.turns):
            if turn.status is Status.OK:
                turn_values = turn.values(field.name)
                # A further turn adds what the turns before it have not given.
                values += turn_values if number == 0 else [v for v in dict.fromkeys(turn_values) if v not in values]
        errors = [turn.error for turn in trace.turns if turn.error]
        return Extracted(trace.question, tuple(values), errors[0] if errors else "")


def extracted_file(folder: Path, step: Step, identity: str) -> Path:
    """Names the file of a step's results. It depends on the identity of its model, and on its prompts."""
    text = repr((identity, step.role, step.task, step.asks))
    return folder / f"{step.method}-{hashlib.blake2b(text.encode(), digest_size=12).hexdigest()}.jsonl"


def extraction_lock(path: Path) -> AbstractContextManager[None]:
    """Makes the lock of a file of extractions: processes that need the same wait for one of them."""
    return file_lock(path.with_suffix(".lock"))


def read_extracted(path: Path) -> dict[str, Extracted]:
    """Reads all complete lines, by source. Raises UserError for a damaged one."""
    return {extracted.key: extracted for extracted in Extracted.read(path)}


def missing(step: Step, sources: Iterable[Source], extracted: Mapping[str, Extracted]) -> Iterator[Question]:
    """Yields the questions about sources, or parts of them, without a result. Each comes once."""
    ids = set(extracted)
    for question in chain.from_iterable(map(step.questions, sources)):
        if question.id not in ids:
            ids.add(question.id)
            yield question


def statements(sources: Iterable[Source], extracted: Mapping[str, Extracted]) -> Extraction:
    """Makes a graph's extraction, whose key covers all triples. A source has a triple of several parts once."""
    digest = hashlib.blake2b(digest_size=12)

    def triples_of(source: Source) -> Iterator[Triple]:
        parts = [extracted[part.id].values for part in GRAPH.questions(source) if part.id in extracted]
        number = 0
        for value in dict.fromkeys(chain.from_iterable(parts)):
            head, relation, tail = map(str.strip, value.split(" | "))
            if head and tail and head != tail:
                number += 1
                yield Triple(f"{source.id}#{number}", head, relation, tail, source.id)

    for triple in chain.from_iterable(map(triples_of, sources)):
        digest.update(repr((triple.id, triple.head, triple.relation, triple.tail)).encode(errors="replace"))
    return Extraction(f"model-{digest.hexdigest()}", triples_of)


def captioned(
    corpus: Callable[[], Iterator[Source]], extracted: Mapping[str, Extracted], otherwise: str = ""
) -> Callable[[], Iterator[Source]]:
    """Gives the corpus the written captions. Other pictures get the text `otherwise`, unless that is empty."""

    def described() -> Iterator[Source]:
        for source in corpus():
            for question in CAPTIONS.questions(source):
                caption = extracted.get(question.id)
                text = caption.values[0] if caption and caption.values else otherwise
                if text:
                    source = replace(source, text=text)
            yield source

    return described
