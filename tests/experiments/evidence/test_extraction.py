"""Triples and captions by a model: asked once for each source and kept, the same whatever ends first."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from actors.errors import TooManyFailures
from actors.messages import Kind, Question, Source, Turn, TurnResult, Usage
from experiments.config.loading import load
from experiments.datasets.item import Item
from experiments.dry_run.counting import count_run
from experiments.evidence.evidence import Evidence
from experiments.evidence.extraction import CAPTIONER, EXTRACTOR, GRAPH
from experiments.evidence.retrieval_settings import RetrievalSettings
from experiments.jobs import plan_of
from experiments.records import jsonl, usage
from experiments.records.progress import Progress
from experiments.records.recorder import Recorder, RunFolder
from experiments.records.tracking import Tracker, WandbSettings
from experiments.records.usage import UsageLog
from experiments.running.discussions import Discussions
from experiments.running.model_extraction import extract, extract_graph, identity, write_captions
from experiments.running.run_context import RunContext
from experiments.scripted.speaker import ScriptedSpeaker
from retrieval.embed import LexicalEncoder
from retrieval.graph import KnowledgeGraph
from retrieval.store import SearchSpace, Store
from tests.support.words import joined

SOURCES = (
    Source("p1", "p1", Kind.TEXT, "Amber Valley", "Amber Valley was directed by Fivan Jurn in 1971."),
    Source("p2", "p2", Kind.TEXT, "Rusty Garden", "The director of Rusty Garden was Tona Stornley."),
    Source("t1:0", "t1", Kind.TABLE, "Drova Buxen - Films", "Year = 1971; Title = Amber Valley; Studio = Travick"),
    Source("i1", "i1", Kind.IMAGE, "Amber Valley", "The poster shows two red bells and a blue cat.", "amber.png"),
    Source("again", "again", Kind.TEXT, "Rusty Garden", "The director of Rusty Garden was Tona Stornley."),
    Source("i2", "i2", Kind.IMAGE, "A blank", "", "blank.png"),
)
ROLES = (EXTRACTOR, CAPTIONER)
WORDS = ["experiment=hm_rag", "retrieval.graph=model"]


class Corpus:
    """A data set of these sources and no question."""

    name, metric = "corpus", "EM"

    def corpus(self) -> Iterator[Source]:
        return iter(SOURCES)

    def train(self) -> Iterator[Item]:
        return iter(())

    def evaluate(self) -> Iterator[Item]:
        return iter(())


class Dying(ScriptedSpeaker):
    """A team whose process ends after so many turns."""

    left = 2

    async def take(self, turn: Turn) -> TurnResult:
        if not self.left:
            raise RuntimeError("killed")
        self.left -= 1
        return await super().take(turn)


def context(folder: Path, recorder: Recorder, *words: str) -> RunContext:
    config = load(joined(*WORDS, *words))
    store = Store.open(folder / "indexes", Corpus().corpus, LexicalEncoder())
    evidence = Evidence(store, RetrievalSettings(scope="corpus"))
    tracker = Tracker(recorder.run.path, {}, WandbSettings(mode="disabled"))
    about: Any = plan_of(config), Corpus(), evidence, recorder, tracker, Progress()
    return RunContext.of(*about, ScriptedSpeaker(ROLES))


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[Recorder]:
    run = RunFolder(tmp_path / "run")
    run.path.mkdir()
    with Recorder(run) as recorder:
        yield recorder


def by(run: RunContext, team: ScriptedSpeaker) -> RunContext:
    """The run with another team, whose turns are its usage."""

    def spent() -> dict[str, Usage]:
        return {EXTRACTOR.name: Usage(calls=len(team.turns))}

    return replace(run, speaker=team, usage=UsageLog(run.recorder.run, spent))


async def test_a_graph_is_built_of_what_the_model_says_of_each_source(tmp_path: Path, recorder: Recorder) -> None:
    team, run = ScriptedSpeaker(ROLES), context(tmp_path, recorder)
    stated = await extract_graph(by(run, team))
    # Two passages are one, and a picture of which nothing is said has nothing to take apart.
    assert len(team.turns) == 4
    assert {turn.question.evidence[0].title for turn in team.turns} == {source.title for source in SOURCES[:4]}
    graph = KnowledgeGraph.open(run.evidence.store, extraction=stated)
    found = {(triple.head, triple.tail, triple.source) for triple in graph.search(["Rusty Garden"], 9)}
    assert {("Rusty Garden", "Tona Stornley", "p2"), ("Rusty Garden", "Tona Stornley", "again")} <= found
    assert ("Amber Valley", "1971", "t1:0") in {(t.head, t.tail, t.source) for t in graph.search(["Amber Valley"], 9)}
    assert [source.id for source in graph.entity("Amber Valley")] == ["p1", "t1:0", "i1"]
    (phase,) = usage.by_phase(recorder.run).values()
    assert (phase.phase, phase.agents[EXTRACTOR.name].calls) == ("extracting triples", 4)


async def test_nothing_is_asked_for_twice_and_a_kill_loses_no_source(tmp_path: Path, recorder: Recorder) -> None:
    whole, run = ScriptedSpeaker(ROLES), context(tmp_path / "whole", recorder)
    expected = await extract(GRAPH, by(run, whole), SOURCES.__iter__)
    run, dying = context(tmp_path / "killed", recorder, "concurrency=1"), Dying(ROLES)
    with pytest.raises(RuntimeError):
        await extract(GRAPH, by(run, dying), SOURCES.__iter__)
    again = ScriptedSpeaker(ROLES)
    assert await extract(GRAPH, by(run, again), SOURCES.__iter__) == expected
    assert len(dying.turns) + len(again.turns) <= len(whole.turns) + 1
    silent = ScriptedSpeaker(ROLES)
    await extract(GRAPH, by(run, silent), SOURCES.__iter__)
    assert silent.turns == []


async def test_the_file_is_the_same_at_any_concurrency(tmp_path: Path, recorder: Recorder) -> None:
    files = []
    for name, concurrency in (("one", 1), ("many", 8)):
        run, team = (
            context(tmp_path / name, recorder, f"concurrency={concurrency}"),
            ScriptedSpeaker(ROLES, delays=Random(3)),
        )
        await extract(GRAPH, by(run, team), SOURCES.__iter__)
        (file,) = (tmp_path / name / "indexes").glob("triples-*.jsonl")
        files.append((file.name, file.read_bytes()))
    assert files[0] == files[1]


async def test_a_source_whose_turn_failed_is_asked_about_again_and_one_unreadable_is_not(
    tmp_path: Path, recorder: Recorder
) -> None:
    run, unreachable = context(tmp_path, recorder), ScriptedSpeaker(ROLES, failing=[EXTRACTOR.name])
    with pytest.raises(TooManyFailures):
        await extract(GRAPH, by(run, unreachable), SOURCES.__iter__)
    team = ScriptedSpeaker(ROLES)
    kept = await extract(GRAPH, by(run, team), SOURCES.__iter__)
    assert len(kept) == len(team.turns) == 4
    garbled = replace(next(iter(kept.values())), values=(), error="Triple: nothing there")
    (file,) = (tmp_path / "indexes").glob("triples-*.jsonl")
    jsonl.replace(file, [f"{one.encode()}\n".encode() for one in [*list(kept.values())[1:], garbled]])
    silent = ScriptedSpeaker(ROLES)
    assert (await extract(GRAPH, by(run, silent), SOURCES.__iter__))[garbled.key] == garbled
    assert silent.turns == []


async def test_captions_are_written_of_pictures_alone_and_found_by_their_words(
    tmp_path: Path, recorder: Recorder
) -> None:
    run, team = context(tmp_path, recorder, "retrieval.captions=model"), ScriptedSpeaker(ROLES)
    store = await write_captions(by(run, team))
    assert {turn.agent for turn in team.turns} == {CAPTIONER.name}
    assert {turn.question.evidence[0].id for turn in team.turns} == {"i1", "i2"}
    # What the data set says of a picture is shown to whoever sees its file.
    assert {given.text for turn in team.turns for given in turn.task.inputs} == {SOURCES[3].text}  # type: ignore[union-attr]
    texts = {source.id: source.text for source in store.everything()}
    assert texts["p1"] == SOURCES[0].text
    assert "red bells" in texts["i1"]
    assert texts["i2"] == "A blank is shown."
    assert store.folder != run.evidence.store.folder


async def test_pictures_with_captions_of_the_model_are_searched_as_the_data_set_wants(
    tmp_path: Path, recorder: Recorder
) -> None:
    # The run's evidence has settled what the configuration leaves open: here, that the whole corpus is searched.
    run = context(tmp_path, recorder, "retrieval.captions=model", "retrieval.graph=rules")
    job, item = (
        Discussions(run, {}),
        Item(Question("q", "What rings?"), ("a bell",)),
    )
    await job.prepare()
    assert job.context.evidence.store.folder != run.evidence.store.folder
    assert job.learning.context is job.context
    assert job.context.evidence.spaces(item) == run.evidence.spaces(item) == [SearchSpace(None, item.withheld)]


async def test_agents_that_extract_see_no_question(tmp_path: Path, recorder: Recorder) -> None:
    run, team = context(tmp_path, recorder), ScriptedSpeaker(ROLES)
    await extract_graph(by(run, team))
    assert {request.shared.splitlines()[1] for request in team.requests} == {GRAPH.asks}
    assert all(request.images == () for request in team.requests)


def test_agents_that_extract_are_launched_where_they_are_asked_and_never_attacked() -> None:
    def launched(*words: str) -> set[str]:
        config = load(["experiment=hm_rag", *words])
        assert not {EXTRACTOR.name, CAPTIONER.name} & set(plan_of(config).roles.attackable)
        return {role.name for role in plan_of(config).roles.launched} & {EXTRACTOR.name, CAPTIONER.name}

    assert launched() == set()
    assert launched("retrieval.graph=model") == {EXTRACTOR.name}
    assert launched("retrieval.captions=model", "methods=[sp]") == {CAPTIONER.name}
    # Nobody searches a graph: none is extracted.
    assert launched("retrieval.graph=model", "methods=[single]") == set()


def test_another_model_or_other_settings_of_it_extract_anew() -> None:
    def told(*words: str) -> str:
        return identity(load([*WORDS, *words]), GRAPH)

    same = {told(), told("seed=7"), told("concurrency=3"), told("data.limit=9"), told("model.replicas=1")}
    assert len(same) == 1
    others = [told("agents.temperature=0.5"), told("agents.max_tokens=99"), told("reader.error_rate=0.9")]
    assert len({*same, *others}) == 4


def test_a_dry_run_counts_a_turn_for_each_source_that_is_left(tmp_path: Path) -> None:
    words = ["experiment=hm_rag", "data.limit=2", "methods=[hm_rag_graph]", f"output={tmp_path}"]
    extracted = count_run(plan_of(load([*words, "retrieval.graph=model", "retrieval.captions=model"]))).phases
    captions, triples, asking = extracted
    assert [captions.name, triples.name] == ["writing captions", "extracting triples"]
    assert asking.turns == count_run(plan_of(load(words))).total.turns
    assert triples.turns > captions.turns == captions.discussions > 0
    assert captions.exact
