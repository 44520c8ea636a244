"""What every system and every method that needs no learning keeps to, whatever its agents say and however they fail."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import pytest

from actors.agents.roles import DECISION, ROLES, SINGLE
from actors.messages import Message, Role, Status, Trace, Turn
from actors.models import Model
from actors.reader.reader import Reader, ReaderSettings
from experiments.config.config import Config
from experiments.config.loading import PRESETS, experiments, load
from experiments.datasets.item import Item
from experiments.datasets.mmqa import Mmqa
from experiments.datasets.sample.release import write_sample
from experiments.datasets.scienceqa import ScienceQa
from experiments.evidence.evidence import Evidence
from experiments.evidence.library import LabelledLibrary
from experiments.records.traces import encode
from experiments.running.methods import METHODS
from retrieval.embed import make_encoder
from retrieval.store import Store
from tests.support.bench import (
    BY_NAME,
    SYSTEMS,
    Remembered,
    Reply,
    Script,
    Seen,
    Team,
    Watched,
    improvised,
    run_discussion,
    said_answers,
    stubborn,
    topology,
)
from tests.support.paths import ROOT

TEAM = ("text_critic", "visual_scientist", "text_logic_expert")
OTHERS = [m.name for m in METHODS if not (m.needs_graph or m.needs_calibration or m.needs_library)]
NAMES = [*OTHERS, *SYSTEMS]
TURNS_AT_MOST = 120
FIELDS = frozenset(
    "Intents Sub-question Retrieve Enough Relevant Same Supported Visual Selected Best Triple Entity Keyword Theme "
    "Query Action Step Type Parents Instruction Summary Description Thought Answer Confidence Score".split()
)
GIVEN = re.compile(r"(Candidate \d+|Answer \d+|Triple|Found|Sub-question|Node \d+(?: \([^)]*\))?): \S")
TOPOLOGIES = ROOT / "topologies"


@dataclass
class Benchmark:
    """A few questions over a small corpus, and what was found and computed for them so far, in any test."""

    items: tuple[Item, ...]
    store: Store
    reader: Model
    known: dict[Any, Any]


def opened(folder: Path, corpus: Any, items: Sequence[Item]) -> Benchmark:
    store = Store.open(folder, corpus, make_encoder("lexical"))
    return Benchmark(tuple(items), store, Remembered(Reader(ReaderSettings())), {})


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Benchmark:
    """Two generated questions of different kinds."""
    folder = tmp_path_factory.mktemp("systems")
    write_sample(folder / "sample", seed=3, train=0, dev=8)
    data = Mmqa(folder / "sample")
    items = list(data.evaluate())
    kinds = {item.tags["type"]: item for item in reversed(items)}
    return opened(folder, data.corpus, list(kinds.values())[:2])


@pytest.fixture(scope="module")
def scienceqa(tmp_path_factory: pytest.TempPathFactory, shared_data: Path) -> Benchmark:
    """A real question with a hint and a picture, and lectures on others."""
    data = ScienceQa(shared_data / "scienceqa")
    item = next(item for item in data.evaluate() if item.tags["context"] == "IMG+TXT")
    lectures = [doc for other in islice(data.evaluate(), 40) for doc in other.withheld]
    docs = {*item.pool, *item.withheld, *lectures}
    return opened(tmp_path_factory.mktemp("scienceqa"), lambda: data.corpus(docs), [item])


@cache
def configured(name: str) -> Config:
    return load([f"experiment={experiment_of(name) if name in SYSTEMS else 'sp'}"])


def experiment_of(name: str) -> str:
    """The experiment of a system's own name; of a variant, that of the system whose name begins its own."""
    return max((known for known in experiments() if f"{name}_".startswith(f"{known}_")), key=len)


def roles_of(name: str) -> dict[str, Role]:
    team = [ROLES[agent] for agent in TEAM] if BY_NAME[name].asks_team else []
    return {role.name: role for role in (DECISION, SINGLE, *BY_NAME[name].roles, *team)}


async def discussed(
    name: str,
    on: Benchmark,
    reply: Reply | None = None,
    *,
    item: Item | None = None,
    delays: int | None = None,
    failing: Collection[str] = (),
    babbling: Collection[str] = (),
) -> Seen:
    """One discussion of one question: by embedded readers, or by agents that say what `reply` makes up."""
    item = item or on.items[0]
    evidence = Evidence(on.store, configured(name).retrieval)
    known = on.known.setdefault(repr((configured(name).retrieval, item)), {})
    if "question" not in known:
        known["question"] = await evidence.question(item)
    random = None if delays is None else Random(delays)
    library = Watched(LabelledLibrary(evidence, [item]), known, random)
    team = Team(roles_of(name), on.reader if reply is None else Script(reply), failing, babbling, random)
    made = topology(name, library, configured(name), TEAM)
    return await run_discussion(made, known["question"], team, library)


def check(name: str, seen: Seen) -> None:
    """What holds of every discussion."""
    check_transcript(name, seen)
    check_answer(seen.trace)
    assert len(seen.trace.turns) <= TURNS_AT_MOST
    for turn in seen.team.turns:
        if turn.task is not None:
            assert {field.name for field in turn.task.fields} <= FIELDS
            assert [given for given in turn.task.given if not GIVEN.match(given.line)] == []


def check_transcript(name: str, seen: Seen) -> None:
    """All that was asked, said, read and found is in the trace, in the order in which it was asked for."""
    trace, asked = seen.trace, seen.team.turns
    said = {message.id: message for message in trace.turns}
    assert (trace.method, trace.question) == (name, seen.question.id)
    assert len(said) == len(trace.turns)
    assert {message.agent for message in trace.turns} - {"decision", "inspector"} <= set(trace.agents)
    assert sorted(message.id for message in seen.team.messages) == sorted(said)
    for message in seen.team.messages:
        assert replace(said[message.id], round=message.round) == message
        assert set(message.heard) <= said.keys()
    read = [source.id for turn in sorted(asked, key=lambda turn: turn.round) for source in turn.question.evidence]
    own = [source.id for source in seen.question.evidence]
    if name not in SYSTEMS:
        assert trace.evidence == (tuple(own) if read else ())
        assert set(read) <= set(own)
        return
    assert [message.round for message in trace.turns] == list(range(1, len(asked) + 1))
    places = {message.id: place for place, message in enumerate(trace.turns)}
    for message in trace.turns:
        assert all(places[id] < places[message.id] for id in message.heard)
    assert trace.evidence == tuple(dict.fromkeys(read))
    assert set(read) <= {*own, *seen.library.given}
    assert [list(lookup.found) for lookup in trace.lookups] == seen.library.asked
    assert {lookup.of for lookup in trace.lookups} <= {"", *said}


def check_answer(trace: Trace) -> None:
    """The answer is what somebody said, and the status tells whether there is one that can be used."""
    if trace.answer is not None:
        assert trace.answer in said_answers(trace.turns)
        assert trace.status is Status.OK
    if all(message.status is not Status.OK for message in trace.turns):
        assert trace.answer is None
        assert trace.status is not Status.OK


@pytest.mark.parametrize("name", NAMES)
async def test_the_order_in_which_turns_and_searches_end_changes_nothing(name: str, sample: Benchmark) -> None:
    for reply in (improvised(1), improvised(2)):
        traces = {encode((await discussed(name, sample, reply, delays=delays)).trace) for delays in (None, 1, 2)}
        assert len(traces) == 1


@pytest.mark.parametrize("name", NAMES)
async def test_whatever_agents_say_all_of_it_is_in_the_trace_and_there_is_an_end(name: str, sample: Benchmark) -> None:
    for reply in (*map(improvised, range(3, 8)), stubborn(0), stubborn(-1)):
        check(name, await discussed(name, sample, reply))


@pytest.mark.parametrize("name", NAMES)
async def test_an_agent_that_fails_or_babbles_is_seen_and_survived(name: str, sample: Benchmark) -> None:
    replies = [improvised(11), improvised(12), stubborn(0)]
    for reply in replies:
        agents = {turn.agent for turn in (await discussed(name, sample, reply)).team.turns}
        for broken in (*({agent} for agent in sorted(agents)), agents):
            for status, how in ((Status.FAILED, "failing"), (Status.UNPARSED, "babbling")):
                seen = await discussed(name, sample, reply, **{how: broken})
                check(name, seen)
                theirs = [message for message in seen.trace.turns if message.agent in broken]
                # Where a task's lines are all optional, a reply without any of them says that there is nothing to say.
                assert all(message.status is status or not (message.fields or message.answer) for message in theirs)
                if len(broken) > 1 or agents == broken:
                    assert seen.trace.answer is None


@pytest.mark.parametrize("name", NAMES)
async def test_a_lost_agent_ends_the_discussion_so_that_it_is_held_again(name: str, sample: Benchmark) -> None:
    seen = await discussed(name, sample, improvised(1))
    for last in {1, len(seen.team.turns)}:
        team = Team(seen.team.roles, Script(improvised(1)))

        async def ask(turn: Turn, team: Team = team, last: int = last) -> Message:
            if len(team.turns) + 1 == last:
                raise LostError
            return await team.ask(turn)

        with pytest.raises((LostError, ExceptionGroup)) as caught:
            await topology(name, seen.library, configured(name), TEAM).answer(seen.question, ask, 7)
        assert caught.errisinstance(LostError) or caught.group_contains(LostError)


class LostError(Exception):
    """Stands for the runtime's own, which this must not matter to."""


@pytest.mark.parametrize("name", NAMES)
async def test_labels_change_nothing(name: str, sample: Benchmark) -> None:
    item = sample.items[0]
    other = replace(item, gold=("something else",), supporting=(), tags={})
    for reply in (None, improvised(13)):
        labelled, relabelled = [await discussed(name, sample, reply, item=each) for each in (item, other)]
        assert encode(labelled.trace) == encode(relabelled.trace)
        assert {turn.id: turn for turn in labelled.team.turns} == {turn.id: turn for turn in relabelled.team.turns}


@pytest.mark.parametrize("name", NAMES)
async def test_what_is_withheld_is_never_found_and_never_read(name: str, sample: Benchmark) -> None:
    open_to_it = await discussed(name, sample, improvised(14))
    docs = tuple(source.doc for source in open_to_it.question.evidence[::2])
    ids = tuple(source.id for source in open_to_it.question.evidence[1::2])
    seen = await discussed(name, sample, improvised(14), item=replace(sample.items[0], withheld=(*docs, *ids)))
    for turn in seen.team.turns:
        assert not {source.id for source in turn.question.evidence} & set(ids)
        assert not {source.doc for source in turn.question.evidence} & set(docs)
    assert not seen.library.given & set(ids)


@pytest.mark.parametrize("name", NAMES)
async def test_embedded_readers_do_every_step_on_the_sample(name: str, sample: Benchmark) -> None:
    for item in sample.items:
        seen = await discussed(name, sample, item=item)
        check(name, seen)
        assert {message.status for message in seen.trace.turns} == {Status.OK}


@pytest.mark.parametrize("name", NAMES)
async def test_embedded_readers_do_every_step_on_a_real_question(name: str, scienceqa: Benchmark) -> None:
    seen = await discussed(name, scienceqa)
    check(name, seen)
    assert {message.status for message in seen.trace.turns} == {Status.OK}
    assert seen.trace.answer is None or seen.trace.answer in seen.question.choices


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_system_is_an_experiment_of_its_own_name_and_a_variant_one_of_its_system_s(name: str) -> None:
    experiment = experiment_of(name)
    assert configured(name).methods[-1] == experiment
    first = (PRESETS / f"{experiment}.yaml").read_text().splitlines()[0]
    assert re.fullmatch(r"# \S.{9,107}", first)


def test_roles_of_one_name_are_one_role_and_names_of_methods_differ() -> None:
    known = dict(ROLES)
    for method in METHODS:
        assert len({role.name for role in method.roles}) == len(method.roles)
        for role in method.roles:
            assert known.setdefault(role.name, role) == role
    assert len(BY_NAME) == len(METHODS)


def test_topologies_know_messages_and_nothing_of_the_runtime_the_corpus_or_the_labels() -> None:
    for path in sorted(TOPOLOGIES.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                assert node.level == 0
                names = [node.module or ""]
            ours = [n for n in names if n.split(".")[0] in ("actors", "retrieval", "experiments", "ray", "lancedb")]
            assert set(ours) <= {"actors.messages", "actors.errors"}, path.name
