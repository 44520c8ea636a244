"""Methods, the ways of answering questions that a run compares: their settings, requirements and searches."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, Protocol

from actors.messages import Hit, Kind, Question, Role, Search, Source, Trace, Triple
from actors.settings import setting
from topologies.topology import Topology
from topologies.wiring import Floats, Wiring

TEXTS = frozenset((Kind.TEXT, Kind.TABLE))
PICTURES = frozenset((Kind.IMAGE,))


def query_of(question: Question) -> str:
    """Returns the query for a question: its text and its choices."""
    return " ".join([question.text, *question.choices])


@dataclass(frozen=True, slots=True)
class TopK:
    """Size of searches: passages and rows (`texts`), `pictures`, and the largest distance (`radius`; None: any)."""

    texts: int
    pictures: int
    radius: float | None = None


class Library(Protocol):
    """Searches on behalf of one question. Systems do not see its pool, nor the sources withheld from it.

    Results come best first, in an order that depends on the arguments alone.
    """

    async def own(self, question: Question) -> tuple[Source, ...]:
        """Returns sources that are part of the question itself (its hint, its picture)."""

    async def search(self, question: Question, search: Search) -> tuple[Hit, ...]:
        """Finds the k best passages, rows or pictures. A query picture is compared by its embedding."""

    async def graph(
        self, question: Question, words: Sequence[str], k: int, *, level: Literal["entity", "theme"] = "entity"
    ) -> tuple[Triple, ...]:
        """Finds edges near `words`: of the nearest entities (with one hop), or of the nearest relations."""

    async def neighbours(self, question: Question, entity: str) -> tuple[Triple, ...]:
        """Returns all edges of an entity, as head or as tail, ordered by id."""

    async def entity(
        self, question: Question, name: str, k: int | None = None, *, near: str = ""
    ) -> tuple[Source, ...]:
        """Returns an entity's description and pictures: all of them, or the k nearest to some words."""

    async def web(self, question: Question, query: str, k: int) -> tuple[Hit, ...]:
        """Finds the k first results of a web search; none without a web."""

    async def embed(self, texts: Sequence[str]) -> Sequence[Floats]:
        """Encodes texts with the run's encoder, each as one vector [d] of unit length."""

    async def topics(self, question: Question) -> tuple[str, ...]:
        """Returns entities from which a graph search may start, if the data set names them."""

    async def annotated(self, question: Question) -> tuple[tuple[str, ...], ...]:
        """Returns labelled paths to the answer, for the upper bound that a paper calls knowledgeable."""


@dataclass
class DefenceSettings:
    """Settings of the methods that defend against attackers."""

    calibration: int = setting(40, at_least=1, at_most=10_000_000, when="watches")
    """anomaly, agreement, probes: training questions on which agents are watched, unlabelled but for probes. A run with
    `probes` watches one question of each document among them."""
    dropped: int | None = setting(None, at_least=0)
    """anomaly, agreement: number of agents to silence (null: the outliers, fewer than half)."""
    error_rate: float = setting(0.05, at_least=1e-9, at_most=0.5, since="0.4.0")
    """e_process, probes: largest probability that any honest agent is ever isolated in an evaluation."""
    least_accuracy: float = setting(0.2, above=0, below=1, since="0.4.0")
    """probes: least accuracy of an honest agent's last answers in watched discussions."""
    tolerance: float = setting(0.05, at_least=0.001, at_most=0.4, since="0.4.0")
    """e_process: largest share of discussions in which an honest agent's answer is in no evidence."""
    block: int = setting(4, at_least=1, at_most=100_000, since="0.4.0")
    """e_process: least number of discussions between two decisions, which go on at once whatever the concurrency.
    Questions of one document stay together."""


@dataclass
class SystemSettings:
    """Settings of the systems of other papers; the defaults are theirs where they have one."""

    context: Literal["own", "retrieved"] = "own"
    """SP, CoT, Self-Correction, CCoT, DDCoT, MAD and BDoG: evidence is a question's own hint and picture, or also the
    `retrieved` evidence."""
    reader_sees: bool = False
    """EchoSight: shows pictures to the model that answers; in the paper it reads the section alone."""
    rounds: int = setting(3, at_least=1, at_most=100)
    """BDoG: most rounds of a debate (the authors' code: 2)."""
    debaters: int = setting(1, at_least=1, at_most=3, since="0.4.0")
    """BDoG: proponents of a debate, and as many opponents."""
    epsilon: int | None = setting(0, at_least=0)
    """BDoG: ends a debate when the blueprint graphs of two rounds are at most this far apart (null: never, as in the
    authors' code)."""
    blueprints: str | None = setting(None, outside=bool, path=bool)
    """BDoG: JSON file of first blueprint graphs by question id, such as those of GPT-4 or Gemini (null: drawn anew)."""
    consistency: Literal["answers", "summaries", "majority"] = "answers"
    """HM-RAG: when the light model merges the answers: with equal `answers`, or with `summaries` that are all alike
    (Eqs. 13 and 14). With `majority` an answer of two agents is final, as in the authors' code."""
    match: float = setting(0.3, at_least=-1, at_most=1, since="0.4.0")
    """DyTopo: an agent hears another whose offer has a cosine above this with its need (tau)."""
    paths: int = setting(5, at_least=1, at_most=1_000)
    """MH-MMKG: largest number of paths through a knowledge graph in an answer's evidence (alpha)."""


class LearnedGraph(Topology, Protocol):
    """Topology along a graph that a learner has pruned."""

    @property
    def common(self) -> Wiring:
        """Learned wiring of a question of which nothing is known. Raises RuntimeError before learning is over."""

    async def wiring(self, question: Question) -> Wiring:
        """Learned wiring for a question, the common one unless graphs depend on it. Raises as `common`."""


@dataclass(frozen=True)
class Known:
    """Facts from the records of a run that a method needs.

    tokens: of the team before it in `methods`, by question in their order; left_over: of the method's own ones
        (`topologies.controls.twin`). Empty unless it `spends`.
    graded: the mean score in training of each agent's answers alone; empty unless it is chosen by them (`graded`).
    probes: right answers of each agent to probes, and its answers to them; empty unless a method has `probes`.
    """

    tokens: Mapping[str, int] = field(default_factory=dict)
    left_over: Mapping[str, float] = field(default_factory=dict)
    graded: Mapping[str, float] = field(default_factory=dict)
    probes: Mapping[str, tuple[int, int]] = field(default_factory=dict)


@dataclass(frozen=True)
class MethodContext:
    """Everything that a method can make its topology from.

    method: its name, which the topology and its traces carry; agents: names of the team, which discusses over `rounds`.
    seed: of all random draws of a method; top_k: size of its searches.
    learned: the learned graph; None unless a method `needs_graph`.
    library: searches; it knows the run's questions only where a method `needs_library`.
    watched: unlabelled discussions of the complete graph; none unless a method `needs_calibration`.
    asked: the questions of `watched`, by id.
    directed: whether the data set's knowledge graph has edges that lead one way.
    advice: the data set's own instruction to an agent that decides where a search through its graph goes on.
    """

    method: str
    agents: Sequence[str]
    rounds: int
    seed: int
    top_k: TopK
    systems: SystemSettings
    defence: DefenceSettings
    learned: LearnedGraph | None
    library: Library
    watched: Sequence[Trace] = ()
    asked: Mapping[str, Question] = field(default_factory=dict)
    directed: bool = False
    advice: str = ""
    known: Known = field(default_factory=Known)


@dataclass(frozen=True)
class Method:
    """One entry of `methods=[...]`.

    make: builds the topology, once for a run.
    roles: its own agents, launched with the agent that answers alone, which every method may ask.
    roles_by: returns them where the settings decide how many there are.
    asks_team: whether the configured team takes part.
    needs_graph: whether a graph is learned first. learner: of a learned method itself, its
        `topologies.learning.variants.Variant`.
    needs_calibration: whether it watches unlabelled discussions first. probes: whether it is told how many of these
        questions, one of each document, each agent answered right.
    needs_library: whether it searches itself, instead of reading the evidence that is retrieved for every question.
    alone: whether it is one turn of one agent, which has no controls (`topologies.controls`).
    spends: whether it spends the tokens of the team before it; graded: whether it is chosen by grades of training.
    reads: keys of settings that it reads and most methods do not, such as `systems.rounds`. Others are refused.
    rivals: methods that `experiment=<name>` evaluates before it; settings: those of its paper, for that experiment.
    check: raises UserError where it cannot take these agents and this number of rounds.
    """

    name: str
    description: str
    make: Callable[[MethodContext], Topology]
    roles: tuple[Role, ...] = ()
    roles_by: Callable[[SystemSettings], tuple[Role, ...]] | None = None
    asks_team: bool = True
    needs_graph: bool = False
    needs_calibration: bool = False
    needs_library: bool = False
    alone: bool = False
    learner: Any = None
    spends: bool = False
    graded: bool = False
    probes: bool = False
    reads: tuple[str, ...] = ()
    rivals: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    check: Callable[[Sequence[str], int], object] = lambda agents, rounds: None


system = partial(Method, asks_team=False, needs_library=True)
"""Makes a method with its own searches, and its own agents in place of the team."""
