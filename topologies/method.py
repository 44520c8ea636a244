"""Methods, the ways of answering questions that a run compares: their requirements and settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from actors.messages import Question, Role, Trace
from actors.settings import setting
from topologies.library import Library, TopK
from topologies.topology import Topology
from topologies.wiring import Wiring


@dataclass
class DefenceSettings:
    """Settings of the methods that defend without labels."""

    calibration: int = setting(40, at_least=1, at_most=10_000_000, when="watches")
    """Training questions on which agents are watched, unlabelled, by methods that rank them (anomaly, agreement)."""
    dropped: int | None = setting(None, at_least=0, when="watches")
    """Number of agents that such a method silences (null: those that stand out, fewer than half)."""
    error_rate: float = setting(0.05, at_least=1e-9, at_most=0.5, when="methods=e_process", since="0.4.0")
    """e_process: largest probability that any honest agent is ever isolated in an evaluation."""
    tolerance: float = setting(0.1, at_least=0.001, at_most=0.4, when="methods=e_process", since="0.4.0")
    """e_process: largest share of discussions in which an honest agent gives an answer that evidence does not have."""
    block: int = setting(4, at_least=1, at_most=100_000, when="methods=e_process", since="0.4.0")
    """e_process: discussions that are held at once, whatever the concurrency; it decides between them."""


@dataclass
class SystemSettings:
    """Settings of the systems of other papers; the defaults are theirs where they have one."""

    context: Literal["own", "retrieved"] = setting(
        "own", when="methods=sp|cot|self_correction|ccot|ddcot|mad|bdog_debate|bdog_graph|bdog"
    )
    """Evidence of SP, CoT, Self-Correction, CCoT, DDCoT, MAD and BDoG: a question's own hint and picture, or also the
    evidence that was retrieved for it."""
    reader_sees: bool = setting(False, when="methods=echosight")
    """EchoSight: shows pictures to the model that answers, which in the paper reads the section alone."""
    rounds: int = setting(3, at_least=1, at_most=100, when="methods=bdog_debate|bdog")
    """BDoG: most rounds of a debate (the authors' code: 2)."""
    epsilon: int | None = setting(0, at_least=0, when="methods=bdog")
    """BDoG: largest distance between the blueprint graphs of two rounds that ends a debate (null: none does, as in the
    authors' code)."""
    blueprints: str | None = setting(None, outside=bool, when="methods=bdog_graph|bdog")
    """BDoG: JSON file of first blueprint graphs by question id, as GPT-4 or Gemini wrote them (null: drawn anew)."""
    consistency: Literal["answers", "summaries", "majority"] = setting(
        "answers", when="methods=hm_rag_no_vector|hm_rag_no_graph|hm_rag_no_web|hm_rag_no_decomposition|hm_rag"
    )
    """HM-RAG: agreement at which the light model merges the answers: equal `answers`, or `summaries` of which any two
    are alike (Eqs. 13 and 14). With `majority` an answer of two agents is final, as in the authors' code."""
    paths: int = setting(5, at_least=1, at_most=1_000, when="methods=mh_perceptive|mh_offline|mh_dfs|mh_mmkg")
    """MH-MMKG: most paths through a knowledge graph to answer with (alpha)."""


class LearnedGraph(Topology, Protocol):
    """Topology along a graph that a learner has pruned."""

    @property
    def wiring(self) -> Wiring:
        """Learned wiring. Raises RuntimeError before learning is over."""


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


@dataclass(frozen=True)
class Method:
    """One entry of `methods=[...]`.

    make: builds the topology, once for a run.
    roles: its own agents, launched with the agent that answers alone, which every method may ask.
    asks_team: whether the configured team takes part.
    needs_graph: whether a graph is learned first; `learner` names the variant of a learned method itself.
    needs_calibration: whether it watches unlabelled discussions first.
    needs_library: whether it searches itself, instead of reading the evidence that is retrieved for every question.
    alone: whether it is one turn of one agent, which has no controls (`topologies.controls`).
    check: raises UserError where it cannot take these agents and this number of rounds.
    """

    name: str
    description: str
    make: Callable[[MethodContext], Topology]
    roles: tuple[Role, ...] = ()
    asks_team: bool = True
    needs_graph: bool = False
    needs_calibration: bool = False
    needs_library: bool = False
    alone: bool = False
    learner: str = ""
    check: Callable[[Sequence[str], int], object] = lambda agents, rounds: None


def system(
    name: str,
    description: str,
    make: Callable[[MethodContext], Topology],
    roles: tuple[Role, ...] = (),
) -> Method:
    """Makes a method with its own searches, and its own agents in place of the team."""
    return Method(name, description, make, roles, asks_team=False, needs_library=True)
