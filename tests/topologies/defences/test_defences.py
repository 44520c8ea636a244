"""Fixed graphs and defences: every method answers, the same at any concurrency, and does what it says it does."""

import functools
import random
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from actors.errors import UserError
from actors.messages import Message, Question, Status, Trace, Turn, derive_seed
from actors.runtime.in_order import in_order
from actors.runtime.inline import Local
from experiments.attacks.attack import Attack
from experiments.config.config import Config
from experiments.config.loading import load
from experiments.datasets.item import Dataset, Item, Score
from experiments.evidence.evidence import Evidence
from experiments.evidence.library import LabelledLibrary
from experiments.jobs import plan_of
from experiments.records.progress import Progress
from experiments.records.recorder import Recorder, RunFolder
from experiments.records.tracking import Tracker, WandbSettings
from experiments.running.calibration import calibrate
from experiments.running.inputs import open_dataset
from experiments.running.run_context import RunContext
from experiments.running.speakers import attacked_discussion
from experiments.scripted.speaker import ScriptedSpeaker
from retrieval.embed import make_encoder
from retrieval.store import Store
from tests.support.topologies import BY_NAME
from tests.support.topologies import topology as topology_of
from tests.support.words import joined
from topologies.answers import ballot
from topologies.baselines import constant_wiring
from topologies.catalogue import METHODS
from topologies.defences import suspicion as suspicions
from topologies.defences.majority import Majority, vote
from topologies.defences.online import most_suspicious, robust_z
from topologies.defences.resilience import CHALLENGE, Inspector, corrected
from topologies.graphs import complete
from topologies.learning.learned_topology import LearnedTopology, make_learner
from topologies.learning.variants import VARIANTS
from topologies.method import DefenceSettings, Library, MethodContext, SystemSettings, TopK
from topologies.topology import Topology, Wired

WORDS = """experiment=mmqa_prune data.limit=3 pruning.steps=3 topology.text=[critic,data_analyst,scientist]
topology.visual=[scientist,critic] retrieval.texts=3
retrieval.pictures=1 defence.calibration=4 defence.dropped=1""".split()
LEARNED = [name for name in VARIANTS if name != "m3prune"]
FAILING = "text_data_analyst"
QUESTION = Question("q1", "Where?")
Watched = tuple[Question, Trace]


class Room(ScriptedSpeaker):
    """The roles of a configuration, who take a while, each time another."""

    def __init__(self, config: Config, failing: Collection[str] = ()) -> None:
        roles = (*plan_of(config).roles.team, *plan_of(config).roles.helpers)
        super().__init__(roles, failing=failing, delays=random.Random(id(self)))


@dataclass
class World:
    config: Config
    dataset: Dataset
    evidence: Evidence

    @property
    def agents(self) -> list[str]:
        return [role.name for role in plan_of(self.config).roles.team]

    async def held(
        self,
        topology: Topology,
        room: Room,
        concurrency: int = 32,
        attack: Attack | None = None,
        questions: int | None = None,
    ) -> list[Trace]:
        """Discussions of the first so many questions, or of all."""
        attack = attack or Attack(self.config.attack, self.agents, self.dataset, 0)

        async def one(numbered: tuple[int, Item]) -> Trace:
            number, item = numbered
            question = await self.evidence.question(item)
            return await attacked_discussion(attack, topology, item, question, room, 0, phase="evaluate", number=number)

        items = enumerate(islice(self.dataset.evaluate(), questions))
        return [trace async for _, trace in in_order(items, one, concurrency)]

    async def calibrated(self, folder: Path, room: Room, dataset: Dataset | None = None) -> Sequence[Watched]:
        dataset = dataset or self.dataset
        run = RunFolder(folder)
        run.path.mkdir(exist_ok=True)
        with Recorder(run) as recorder, Progress() as progress:
            tracker = Tracker(folder, {}, WandbSettings(mode="disabled"))
            context = RunContext.of(plan_of(self.config), dataset, self.evidence, recorder, tracker, progress, room)
            return await calibrate(context)


@functools.cache
def world(cache: Path, *words: str, learner: str = "m3prune") -> World:
    # Not probes: four watched questions are too few of them.
    learned_or_fixed = [m for m in METHODS if not m.needs_library and m.learner in (None, VARIANTS[learner])]
    methods = ",".join(m.name for m in learned_or_fixed if not m.probes)
    config = load(joined(*WORDS, f"methods=[{methods}]", *words))
    dataset = open_dataset(plan_of(config), cache)
    store = Store.open(cache / "indexes", dataset.corpus, make_encoder(config.retrieval.encoder))
    return World(config, dataset, Evidence(store, config.retrieval))


async def method(here: World, name: str, watched: Sequence[Watched]) -> Topology:
    [learned_method] = tuple(plan_of(here.config).learners)
    learner = make_learner(plan_of(here.config).learners[learned_method])
    while not learner.finished:
        k, shape = 2, (here.config.topology.rounds, len(here.agents))
        learner.learn(learner.sample(k), np.random.default_rng(0).random((k, *shape)), np.linspace(0, 1, k))
        if learner.step == here.config.pruning.steps:
            learner.next_stage()
    learned = LearnedTopology(learned_method, here.agents, Local(learner), here.config.topology.inference)
    await learned.freeze()
    return topology_of(name, LabelledLibrary(here.evidence, ()), here.config, here.agents, learned, watched)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(method.name, marks=[pytest.mark.slow] if method.name in LEARNED else [])
        for method in METHODS
        if not method.needs_library
    ],
)
async def test_every_method_gives_the_same_traces_at_any_concurrency_and_survives_a_failing_agent(
    cache: Path, tmp_path: Path, name: str
) -> None:
    here = world(cache, learner=name if name in LEARNED else "m3prune")
    watched = await here.calibrated(tmp_path / "run", Room(here.config)) if BY_NAME[name].needs_calibration else ()
    topology = await method(here, name, watched)
    traces = await here.held(topology, Room(here.config))
    assert traces == await here.held(topology, Room(here.config), concurrency=1)
    assert len(traces) == 3
    for trace in traces:
        assert trace.method == name
        assert trace.status is Status.OK
        assert len({turn.id for turn in trace.turns}) == len(trace.turns)
    if name not in ("closed_book", "single"):
        assert any(trace.answer for trace in traces)
        for trace in await here.held(topology, Room(here.config, failing=[FAILING])):
            assert trace.status is Status.OK
            turns = [turn for turn in trace.turns if turn.agent == FAILING]
            assert all(turn.status is Status.FAILED and "connection was refused" in turn.error for turn in turns)
            heard = {id for turn in trace.turns for id in turn.heard}
            assert not heard & {turn.id for turn in turns}


async def test_fixed_graphs_take_the_turns_and_edges_that_their_names_promise(cache: Path, tmp_path: Path) -> None:
    here = world(cache)
    watched = await here.calibrated(tmp_path / "run", Room(here.config))
    took = {}
    for name in here.config.methods:
        [trace] = await here.held(await method(here, name, watched), Room(here.config), questions=1)
        took[name] = (len(trace.turns), len(trace.spatial), len(trace.temporal))
    whole = 5 * 2 + 1
    assert took["full"] == took["challenger"] == (whole, 2 * 10, 25)
    assert took["inspector"] == (whole + 10, 2 * 10, 25)
    assert took["debate"] == (whole, 0, 25)
    assert took["chain"][:2] == took["star"][:2] == took["tree"][:2] == (whole, 2 * 4)
    assert took["layered"][:2] == (whole, 2 * 6)
    assert took["majority"] == (5, 0, 0)
    assert took["agreement"] == took["anomaly"] == (whole - 2, 2 * 6, 16)
    assert took["single"] == took["closed_book"] == (1, 0, 0)


def message(agent: str, answer: str | None, confidence: float | None = None, number: int = 1) -> Message:
    return Message(f"{number}/{agent}", agent, number, f"{agent} says {answer}", answer, confidence)


def test_the_most_frequent_answer_wins_however_it_is_written() -> None:
    assert vote(QUESTION, [message("a", "Oslo", 0.9), message("b", "the Tarn."), message("c", "tarn")]) == "the Tarn."


def test_a_tie_goes_to_the_more_confident_and_then_to_the_first() -> None:
    assert vote(QUESTION, [message("a", "Oslo", 0.5), message("b", "Tarn", 0.75)]) == "Tarn"
    assert vote(QUESTION, [message("a", "Oslo", 0.5), message("b", "Tarn", 0.5)]) == "Oslo"
    assert vote(QUESTION, [message("a", "Oslo"), message("b", "Tarn", 0.25)]) == "Tarn"
    three = [0.1, 0.2, 0.3]
    tied = [message("a", "x", c) for c in three] + [message("b", "y", c) for c in reversed(three)]
    assert vote(QUESTION, tied) == "x"


def test_who_failed_or_knows_nothing_has_no_vote() -> None:
    failed = replace(message("a", "Oslo", 1.0), status=Status.FAILED)
    assert vote(QUESTION, [failed, message("b", None, 1.0), message("c", "Tarn", 0.1)]) == "Tarn"
    assert vote(QUESTION, [failed, message("b", None)]) is None


async def test_a_majority_of_failures_is_a_failure() -> None:
    async def ask(turn: Turn) -> Message:
        return Message(f"1/{turn.agent}", turn.agent, 1, status=Status.FAILED, error="gone")

    trace = await Majority("majority", ["a", "b"]).answer(QUESTION, ask, seed=1)
    assert (trace.answer, trace.status, trace.certified) == (None, Status.FAILED, 0)


async def test_a_majority_is_certified_by_its_margin() -> None:
    said = {"a": "Oslo", "b": "oslo.", "c": "The Oslo", "d": "Tarn", "e": None}

    async def ask(turn: Turn) -> Message:
        return replace(message(turn.agent, said[turn.agent]), id=f"1/{turn.agent}")

    trace = await Majority("majority", list(said)).answer(QUESTION, ask, seed=1)
    # Two liars make it one Oslo to three; one makes it two to two, and the liar may be surer.
    assert (trace.answer, trace.certified) == ("Oslo", 0)
    del said["d"]
    assert (await Majority("majority", list(said)).answer(QUESTION, ask, seed=1)).certified == 1


@pytest.mark.parametrize(
    ("compared", "choices", "same", "other"),
    [
        ("text", (), (" The  Tarn-Gorges. ", "tarn gorges", "“Tarn Gorges”"), "Tarn"),
        ("text", (), ("1,161", "1161", "$1,161."), "1.161"),
        ("text", (), ("-12.5%", "\u221212.5 %", "(-12.5)"), "12.5%"),
        ("text", (), ("two", "2", "2.0"), "-2"),
        ("text", (), ("10-12", "10 12"), "10 -12"),
        ("text", (), ("?",), "!"),
        ("amounts", (), ("4.9 billion", "4900 million", "$4,900 million"), "4.9 million"),
        ("amounts", (), ("-12.5%", "-12.5 percent"), "12.5%"),
        ("amounts", (), ("4.1 and 4.6 percent", "4.6%; 4.1%"), "4.1; 4.6"),
        ("amounts", (), ("Fixed price", "the fixed price."), "Other"),
        ("text", ("Dear Ms. Allen,", "Dear ms. Allen,"), ("Dear Ms. Allen,", "A", "(a)"), "Dear ms. Allen,"),
        ("text", ("it's", "its"), ("it's", "A."), "its"),
        ("text", ("-5 °C", "5 °C"), ("-5 °C", "A"), "5 °C"),
    ],
)
def test_one_comparison_of_answers_for_all_votes(
    compared: str, choices: tuple[str, ...], same: tuple[str, ...], other: str
) -> None:
    asked = replace(QUESTION, compared=compared, choices=choices)
    assert len({ballot(asked, answer) for answer in same}) == 1
    assert ballot(asked, other) != ballot(asked, same[0])
    votes = [message("a", other, 0.9), *(message(f"b{n}", text, 0.1) for n, text in enumerate((*same, same[0])))]
    assert vote(asked, votes) == same[0]


def test_no_answer_has_no_form() -> None:
    assert ballot(QUESTION, None) is None
    assert ballot(QUESTION, "  ") is None


async def test_all_are_told_to_challenge_and_an_attacker_is_told_something_else(cache: Path) -> None:
    here = world(cache, "attack=response", "attack.agents=[1]")
    room = Room(here.config)
    trace, *_ = await here.held(await method(here, "challenger", ()), room)
    assert trace.attacked == (FAILING,)
    for turn in room.turns:
        assert (turn.instruction == CHALLENGE) == (turn.agent != FAILING)


class Scripted:
    """Agents that say their own name; the inspector answers as it is told for the speaker that it inspects."""

    def __init__(self, verdicts: dict[str, str | None]) -> None:
        self.turns: dict[str, Turn] = {}
        self._verdicts = verdicts

    async def ask(self, turn: Turn) -> Message:
        self.turns[f"{turn.round}/{turn.agent}"] = turn
        if turn.agent != "inspector":
            return replace(
                message(turn.agent, turn.agent, 0.5, turn.round), heard=tuple(h.message.id for h in turn.heard)
            )
        speaker = turn.heard[0].message.agent
        answer = self._verdicts.get(speaker, speaker)
        status = Status.FAILED if speaker == "cy" else Status.OK
        return replace(message("inspector", answer, 0.9, turn.round), status=status)


async def test_receivers_hear_what_the_inspector_corrected_and_senders_go_on_from_their_own() -> None:
    names = ("ann", "bob", "cy")
    wiring = constant_wiring(complete(3), 3, 2)
    team = Scripted({"ann": "Tarn", "bob": None, "cy": "Oslo"})
    trace = await Inspector("m", Wired("m", names, wiring), names).answer(QUESTION, team.ask, seed=1)

    def heard(turn: str) -> dict[str, str | None]:
        return {h.message.agent: h.message.answer for h in team.turns[turn].heard}

    assert heard("1/bob") == {"ann": "Tarn"}
    assert heard("2/bob") == {"ann": "Tarn", "bob": "bob", "cy": "cy"}, "one that fails corrects nothing"
    # In round 2 ann hears herself of round 1, as she said it.
    assert heard("2/ann") == {"ann": "ann", "bob": "bob", "cy": "cy"}
    assert heard("3/decision") == {"ann": "Tarn", "bob": "bob", "cy": "cy"}
    assert [turn.answer for turn in trace.turns if turn.agent == "ann"] == ["ann", "ann"]
    order = [(turn.round, turn.agent) for turn in trace.turns]
    speakers = [(number, agent) for number in (1, 2) for name in names for agent in (name, "inspector")]
    assert order == [(number, agent) for number, agent in speakers] + [(3, "decision")]
    assert [turn.id for turn in trace.turns if turn.agent == "inspector"] == [f"{n}/inspector" for n in range(1, 7)]


def test_a_correction_keeps_the_senders_name_and_the_same_answer_in_other_words_corrects_nothing() -> None:
    said = message("ann", "the Tarn", 0.5)
    assert corrected(QUESTION, said, message("inspector", "Tarn.", 0.9)) is said
    assert corrected(QUESTION, said, replace(message("inspector", "Oslo", 0.9), status=Status.UNPARSED)) is said
    changed = corrected(QUESTION, said, message("inspector", "Oslo", 0.9))
    assert (changed.id, changed.agent, changed.answer, changed.confidence) == ("1/ann", "ann", "Oslo", 0.9)


ASKED = {f"q{n}": Question(f"q{n}", "?") for n in range(20)}


async def stubborn(position: int, seed: int, agents: int = 7) -> list[Trace]:
    """Discussions in which one agent repeats one wrong answer and the others are often right and listen."""
    names = [f"a{number}" for number in range(agents)]
    wiring = constant_wiring(complete(agents), agents, 2)

    async def ask(turn: Turn) -> Message:
        lots = random.Random(derive_seed(turn.seed, "lots"))
        wrong = f"wrong {turn.question.id}"
        if turn.agent == names[position]:
            return message(turn.agent, wrong, 0.95, turn.round)
        answer = "right" if lots.random() < 0.6 else f"mistake {lots.randrange(4)}"
        if turn.heard and lots.random() < 0.5:
            answer = lots.choice(turn.heard).message.answer or answer
        return message(turn.agent, answer, 0.4 + 0.5 * lots.random(), turn.round)

    topology = Wired("full", names, wiring)
    return [await topology.answer(question, ask, seed) for question in ASKED.values()]


@pytest.mark.parametrize("suspicion", [suspicions.disagreement, suspicions.anomaly])
async def test_a_stubborn_wrong_agent_is_found_nearly_always_wherever_it_sits(suspicion: suspicions.Suspicion) -> None:
    found = 0
    for position in range(7):
        for seed in range(3):
            scores = suspicion(await stubborn(position, seed), ASKED)
            found += int(most_suspicious(scores, 1)[position])
    assert found >= 18  # of 21; by chance it would be 3


def test_a_robust_score_counts_nothing_where_all_are_equal_and_is_not_blinded_by_what_it_looks_for() -> None:
    values = np.array([[1.0, 1.0, np.nan], [1.0, 2.0, 1.0], [1.0, 3.0, 1.0], [1.0, 4.0, 1.0], [1.0, 1000.0, 9.0]])
    z = robust_z(values)
    assert not z[:, 0].any()
    assert z[:4, 1] == pytest.approx(np.array([-2, -1, 0, 1]) / 1.4826)
    assert z[4, 1] > 600
    assert z[:, 2] == pytest.approx([0, 0, 0, 0, 8 / (1.2533 * 2)])


def test_the_features_are_what_their_names_say() -> None:
    said = [("a", "x"), ("b", "y"), ("c", "x"), ("a", "x"), ("b", "x"), ("c", None)]
    turns = tuple(message(agent, answer, 0.5, 1 + n // 3) for n, (agent, answer) in enumerate(said))
    trace = Trace(
        "q", "full", 0, ("a", "b", "c"), turns, "x", Status.OK, 0, spatial=((1, 0, 1),), temporal=((2, 0, 1),)
    )
    of_a, of_b, of_c = suspicions.features([trace], {"q": QUESTION})
    told = dict(zip(suspicions.FEATURES, of_a, strict=True))
    assert told["agreed"] == 0.5
    assert told["followed"] == 1.0
    assert np.isnan(told["left"])
    assert told["repeats"] == 1.0
    assert dict(zip(suspicions.FEATURES, of_b, strict=True))["agrees"] == 0.5
    assert dict(zip(suspicions.FEATURES, of_b, strict=True))["repeats"] == 0.0
    assert dict(zip(suspicions.FEATURES, of_c, strict=True))["silent"] == 0.5


async def test_the_silenced_are_heard_by_nobody_and_never_all_silenced() -> None:
    async def ask(turn: Turn) -> Message:
        return Message(f"{turn.round}/{turn.agent}", turn.agent, turn.round, answer="x")

    defence, library = DefenceSettings(dropped=1), cast("Library", None)
    context = MethodContext("m", ("a", "b", "c"), 2, 0, TopK(1, 1), SystemSettings(), defence, None, library)
    trace = await suspicions.silenced(context, lambda traces, asked: np.array([0.0, 1.0, 0.0])).answer(QUESTION, ask, 1)
    assert (trace.decision, trace.weights) == (("a", "c"), ((1.0, 0.0, 1.0),) * 2)
    assert trace.spatial == ((1, 0, 2), (2, 0, 2))
    assert trace.temporal == ((2, 0, 0), (2, 0, 2), (2, 2, 0), (2, 2, 2))
    with pytest.raises(ValueError, match="silenced"):
        most_suspicious(np.zeros(3), 3)


async def test_calibration_is_held_once_and_seen_by_no_label(cache: Path, tmp_path: Path) -> None:
    here = world(cache)
    room = Room(here.config)
    watched = await here.calibrated(tmp_path / "run", room)
    assert len(watched) == 4
    assert len(room.turns) == 4 * (5 * 2 + 1)
    trained = {item.question.id for item in here.dataset.train()}
    assert {trace.question for _, trace in watched} <= trained
    assert list(await here.calibrated(tmp_path / "run", room)) == watched, "what is recorded is not held again"
    assert len(room.turns) == 4 * (5 * 2 + 1)
    mislabelled = await here.calibrated(tmp_path / "other", Room(here.config), Mislabelled(here.dataset))
    assert mislabelled == watched


class Mislabelled:
    """A data set whose labels are all wrong."""

    def __init__(self, whole: Dataset) -> None:
        self.name, self.metric, self.corpus, self._whole = whole.name, whole.metric, whole.corpus, whole

    def train(self) -> Iterator[Item]:
        return (replace(item, gold=("nothing of the kind",)) for item in self._whole.train())

    def evaluate(self) -> Iterator[Item]:
        return (replace(item, gold=("nothing of the kind",)) for item in self._whole.evaluate())

    def score(self, item: Item, answer: str | None) -> Score:
        raise AssertionError("nobody scores a calibration")


@pytest.mark.parametrize(("when", "attacked"), [("both", (FAILING,)), ("train", (FAILING,)), ("evaluate", ())])
async def test_a_calibration_is_attacked_when_training_is(
    cache: Path, tmp_path: Path, when: str, attacked: tuple[str, ...]
) -> None:
    here = world(cache, "attack=response", "attack.agents=[1]", f"attack.when={when}")
    watched = await here.calibrated(tmp_path / "run", Room(here.config))
    assert {trace.attacked for _, trace in watched} == {attacked}


async def test_a_calibration_that_cannot_be_is_refused_in_one_line(cache: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"defence.dropped=5"):
        world(cache, "methods=[anomaly]", "defence.dropped=5")
    world(cache, "methods=[anomaly]", "defence.dropped=9", "topology.instances=2")
    here = world(cache)
    here.config.defence.calibration = 7
    with pytest.raises(UserError, match=r"defence\.calibration=7"):
        await here.calibrated(tmp_path / "run", Room(here.config))
