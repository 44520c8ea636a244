"""Long sources in parts and second looks at a source: what is asked, what is joined, and when it ends."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.messages import FieldKind, Kind, Message, Source, Status, Turn
from experiments.config.loading import load
from experiments.dry_run.counting import count_run
from experiments.evidence import extraction
from experiments.evidence.extraction import GRAPH, MISSED, Extracted, parts_of, statements
from experiments.jobs import plan_of
from experiments.records.recorder import Recorder
from experiments.running.model_extraction import extract, identity
from experiments.scripted.speaker import ScriptedSpeaker
from tests.experiments.evidence.test_extraction import ROLES, WORDS, by, context, recorder

__all__ = ["recorder"]  # a fixture

FILMS = [f"Film {letter}{other} Harbour" for letter in "ABCDEF" for other in "ghijk"]
# Thirty triples: more than the embedded reader writes down in one turn.
LONG = Source("long", "long", Kind.TEXT, "Films", " ".join(f"{film} was directed by Paul Venn." for film in FILMS))


class Saying(ScriptedSpeaker):
    """An extractor that says these lists of triples in turn, and fails where there is none."""

    def __init__(self, *said: tuple[str, ...] | Status) -> None:
        super().__init__(ROLES)
        self._said = list(said)

    async def ask(self, turn: Turn) -> Message:
        self.turns.append(turn)
        said = self._said.pop(0)
        status = said if isinstance(said, Status) else Status.OK
        fields = () if isinstance(said, Status) else tuple((FieldKind.TRIPLE.value, value) for value in said)
        error = "" if status is Status.OK else "no reply"
        return Message(f"{turn.round}/{turn.agent}", turn.agent, turn.round, status=status, error=error, fields=fields)


async def gleaned(looks: int, *said: tuple[str, ...] | Status) -> tuple[Extracted, Status, list[Turn]]:
    team, (question,) = Saying(*said), GRAPH.questions(LONG)
    trace = await replace(GRAPH, gleaning=looks).answer(question, team.ask)
    return Extracted.of(GRAPH, trace), trace.status, team.turns


async def test_what_was_found_is_shown_and_what_was_missed_is_added_until_nothing_new_comes() -> None:
    kept, status, turns = await gleaned(5, ("a | is | b",), ("A | is | b", "c | is | d"), ("c | is | d",))
    assert kept.values[0] == "a | is | b"
    assert kept.values[-1] == "c | is | d"
    assert (status, len(turns)) == (Status.OK, 3)
    assert turns[0].task == GRAPH.task
    assert turns[2].task is not None
    assert turns[2].task.instruction == MISSED.instruction
    assert [(line.kind, line.text) for line in turns[2].task.inputs] == [
        (FieldKind.FOUND, "a | is | b"),
        (FieldKind.FOUND, "c | is | d"),
    ]
    assert len({turn.seed for turn in turns}) == 3


async def test_looks_end_at_their_number_and_where_nothing_was_found_or_a_turn_failed() -> None:
    assert len((await gleaned(1, ("a | is | b",), ("c | is | d",)))[2]) == 2
    assert len((await gleaned(3, ()))[2]) == 1
    kept, status, turns = await gleaned(3, ("a | is | b",), Status.UNPARSED)
    assert (kept.values, kept.error, status, len(turns)) == (("a | is | b",), "no reply", Status.UNPARSED, 2)
    # A call that failed leaves the source to the next run, which has the first reply from the cache.
    assert (await gleaned(3, ("a | is | b",), Status.FAILED))[1] is Status.FAILED


@pytest.mark.parametrize(("looks", "turns", "found"), [(0, 1, 8), (1, 2, 16), (4, 5, 30)])
async def test_the_embedded_reader_gives_on_a_further_look_what_it_has_not_given_before(
    looks: int, turns: int, found: int, tmp_path: Path, recorder: Recorder
) -> None:
    team, run = ScriptedSpeaker(ROLES), context(tmp_path, recorder, f"retrieval.gleaning={looks}")
    (kept,) = (await extract(GRAPH, by(run, team), lambda: iter([LONG]))).values()
    assert len(team.turns) == turns
    assert kept.error == ""
    assert len(kept.values) == len(set(kept.values)) == found


async def test_a_long_source_is_asked_about_in_parts_whose_triples_are_joined_each_once(
    tmp_path: Path, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sources() -> Iterator[Source]:
        yield LONG

    monkeypatch.setattr(extraction, "PART_WORDS", 100)
    team, run = ScriptedSpeaker(ROLES), context(tmp_path, recorder)
    kept = await extract(GRAPH, by(run, team), sources)
    read = [turn.question.evidence[0] for turn in team.turns]
    assert len(read) > 2
    assert all(part.title == "Films" and part.text.endswith("Venn.") for part in read)
    assert all(len(part.text.split()) <= 100 for part in read)
    heads = [triple.head for triple in statements(sources(), kept).of(LONG)]
    # Of all parts, in their order; the embedded reader overlooks a sentence now and then.
    assert heads == [film for film in FILMS if film in heads]
    assert {FILMS[-1], FILMS[-2]} & set(heads)
    said = {key: Extracted(key, (f"part {n} | is | here", "a | is | b")) for n, key in enumerate(kept)}
    stated = list(statements(sources(), said).of(LONG))
    assert [triple.head for triple in stated] == ["part 0", "a", *(f"part {n}" for n in range(1, len(said)))]
    assert {triple.source for triple in stated} == {"long"}
    assert len({triple.id for triple in stated}) == len(stated)


@pytest.mark.slow
@given(st.lists(st.integers(1, 30), min_size=1, max_size=40), st.integers(5, 60))
def test_parts_are_the_whole_text_and_end_with_sentences(lengths: list[int], most: int) -> None:
    text = " ".join(" ".join(["Word"] + ["word"] * (n - 2) + ["end."] * (n > 1)) + "." * (n == 1) for n in lengths)
    parts = parts_of(text, most)
    assert " ".join(parts) == text
    assert all(len(part.split()) <= most for part in parts)
    if max(lengths) <= most:
        assert all(part.endswith(".") for part in parts)


def test_further_turns_are_kept_apart_and_a_dry_run_counts_one(tmp_path: Path) -> None:
    assert identity(load([*WORDS, "retrieval.gleaning=1"]), GRAPH) != identity(load(WORDS), GRAPH)
    words = ["experiment=hm_rag", "data.limit=2", "methods=[hm_rag_graph]", f"output={tmp_path}", *WORDS[1:]]
    once, looked = (count_run(plan_of(load([*words, f"retrieval.gleaning={looks}"]))).phases[0] for looks in (0, 2))
    assert looked.turns == 2 * once.turns
