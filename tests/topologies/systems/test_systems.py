"""Rules that every method keeps, for any replies and failures of its agents."""

import ast
import re

import pytest

from actors.agents.roles import ROLES
from actors.messages import Kind, Message, Question, Source, Status, Turn
from experiments.config.loading import experiments, load
from experiments.conformance.methods import check_all, check_discussion, plan_small
from experiments.conformance.observed import ObservedDiscussion
from experiments.conformance.observed_method import ObservedMethod
from experiments.conformance.sample_world import SampleWorld, sample_world
from experiments.datasets.item import Item
from experiments.planning.plan import Plan
from experiments.scripted.replies import improvised
from experiments.scripted.speaker import ScriptedSpeaker
from retrieval.embed import make_encoder
from retrieval.store import Store
from tests.support.paths import ROOT
from tests.support.topologies import BY_NAME, SYSTEMS
from topologies.catalogue import METHODS

pytestmark = pytest.mark.slow

NAMES = list(BY_NAME)
FIELDS = frozenset(
    "Intents Sub-question Retrieve Enough Relevant Side Supported Visual Selected Best Triple Entity Keyword Theme "
    "Query Action Step Type Parents Instruction Summary Description Thought Answer Candidate Confidence Score Goal "
    "Need Offer".split()
)
GIVEN = re.compile(
    r"((Candidate|Answer) \d+|Instruction|Thought|Triple(?: \d+)?|Found|Sub-question|Node \d+(?: \([^)]*\))?): \S"
)
TOPOLOGIES = ROOT / "topologies"


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> SampleWorld:
    """Two generated questions of different kinds."""
    return sample_world(tmp_path_factory.mktemp("systems"))


@pytest.fixture(scope="module")
def schoolbook(sample: SampleWorld, tmp_path_factory: pytest.TempPathFactory) -> SampleWorld:
    """A question with choices, a hint and a picture of its own, and lectures on it and on others."""
    sources = [
        Source(
            "hint", "hint", Kind.TEXT, "Food webs", "In this tundra the caribou eats lichen and the bear eats berries."
        ),
        Source(
            "web", "web", Kind.IMAGE, "Food webs", "A food web with a bear, a caribou, lichen and berries.", "web.png"
        ),
    ]
    lectures = {
        "Consumers": "A consumer eats other living things. The caribou is a consumer.",
        "Producers": "A producer makes its own food. Lichen is a producer of the tundra.",
        "Magnets": "A magnet attracts iron. Two like poles push each other away.",
        "Solids": "A solid has a shape of its own. Ice is a solid.",
    }
    sources += [Source(title, title, Kind.TEXT, title, text) for title, text in lectures.items()]
    question = Question("q", "Which of these is a producer?", ("caribou", "lichen", "bear"), own=("hint", "web"))
    item = Item(question, ("lichen",), pool=tuple(source.doc for source in sources), own=("hint", "web"))
    store = Store.open(tmp_path_factory.mktemp("schoolbook"), lambda: iter(sources), make_encoder("lexical"))
    return SampleWorld(sample.dataset, store, (item,))


def planned(name: str) -> Plan:
    """A method alone; a system as its experiment has it."""
    return plan_small(name, experiment=experiment_of(name) if name in SYSTEMS else "sp")


def experiment_of(name: str) -> str:
    """The experiment of a system's own name; of a variant, that of the system whose name begins its own."""
    return max((known for known in experiments() if f"{name}_".startswith(f"{known}_")), key=len)


class LostError(Exception):
    """Stands for the runtime's own, which must not matter to a method."""


async def check_lost(subject: ObservedMethod) -> None:
    """Requires that a lost agent ends the discussion, at its start or at its end, so that it is held again."""
    whole = await subject.observe(improvised(1))
    for last in {1, len(whole.team.turns)}:
        team = ScriptedSpeaker(whole.team.roles.values(), improvised(1))

        async def ask(turn: Turn, team: ScriptedSpeaker = team, last: int = last) -> Message:
            if len(team.turns) + 1 == last:
                raise LostError
            return await team.ask(turn)

        made = await subject.topology(whole.library)
        with pytest.raises((LostError, ExceptionGroup)) as caught:
            await made.answer(whole.question, ask, 7)
        assert caught.errisinstance(LostError) or caught.group_contains(LostError)


def check_vocabulary(observed: ObservedDiscussion) -> None:
    for turn in observed.team.turns:
        if turn.task is not None:
            assert {field.name for field in turn.task.fields} <= FIELDS
            assert [given for given in turn.task.inputs if not GIVEN.match(given.line)] == []


@pytest.mark.parametrize("name", NAMES)
async def test_a_method_keeps_to_all_that_others_rely_on(name: str, sample: SampleWorld) -> None:
    subject = await check_all(planned(name), sample)
    await check_lost(subject)
    for item in sample.items:
        read = await subject.observe(item=item)
        check_discussion(subject.method, read)
        assert {message.status for message in read.trace.turns} == {Status.OK}
    for observed in subject.discussions.values():
        check_vocabulary(observed)


@pytest.mark.parametrize("name", [name for name in NAMES if not BY_NAME[name].needs_graph])
async def test_embedded_readers_do_every_step_on_a_question_with_a_picture(name: str, schoolbook: SampleWorld) -> None:
    subject = ObservedMethod(planned(name), schoolbook, {})
    seen = await subject.observe()
    check_discussion(subject.method, seen)
    check_vocabulary(seen)
    assert {message.status for message in seen.trace.turns} == {Status.OK}
    assert seen.trace.answer is None or seen.trace.answer in seen.question.choices


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_system_is_an_experiment_of_its_own_name_and_a_variant_one_of_its_system_s(name: str) -> None:
    experiment = experiment_of(name)
    assert load([f"experiment={experiment}"]).methods[-1] == experiment
    assert re.fullmatch(r"\S.{9,107}", experiments()[experiment])


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
            allowed = {"actors.messages", "actors.errors", "actors.lookup", "actors.settings", "actors.received"}
            assert set(ours) <= allowed, path.name
