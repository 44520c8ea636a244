"""The systems of the papers and their baselines, by name: what each is, who takes part, how it is made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from actors.messages import Role
from experiments.config.config import Config
from topologies.library import Library, Reach
from topologies.systems.bdog.bdog import ROLES as BLUEPRINT_DEBATERS
from topologies.systems.bdog.bdog import Bdog
from topologies.systems.bdog.blueprints import read_blueprints
from topologies.systems.ccot import CCoT
from topologies.systems.core_mmrag import CoreMmrag
from topologies.systems.ddcot import DDCoT
from topologies.systems.direct import DIRECT, STEP_BY_STEP, Direct
from topologies.systems.e_agent import ROLES as TOOL_PLANNERS
from topologies.systems.e_agent import EAgent
from topologies.systems.echosight import EchoSight
from topologies.systems.hm_rag.hm_rag import BASES as HM_BASES
from topologies.systems.hm_rag.hm_rag import ROLES as HM_AGENTS
from topologies.systems.hm_rag.hm_rag import HmRag
from topologies.systems.llava_mr2ag import LlavaMr2ag
from topologies.systems.mad import ROLES as DEBATERS
from topologies.systems.mad import Debate
from topologies.systems.mh_mmkg.mh_mmkg import ROLES as SEARCHERS
from topologies.systems.mh_mmkg.mh_mmkg import SETTINGS as MH_SETTINGS
from topologies.systems.mh_mmkg.mh_mmkg import MhMmkg
from topologies.systems.mmapg.mmapg import ROLES as PLANNED
from topologies.systems.mmapg.mmapg import Mmapg
from topologies.systems.omnisearch import ROLES as SEARCH_PLANNERS
from topologies.systems.omnisearch import OmniSearch
from topologies.systems.rora_vlm import RoraVlm
from topologies.systems.self_correction import SelfCorrection
from topologies.systems.vidorag.vidorag import ROLES as PAGE_READERS
from topologies.systems.vidorag.vidorag import ViDoRAG
from topologies.systems.wiki_llava import WikiLlava
from topologies.topology import Topology


@dataclass(frozen=True)
class System:
    """`roles` are launched beside the agent that answers alone, which every system may ask."""

    description: str
    make: Callable[[str, Library, Config], Topology]
    roles: tuple[Role, ...] = ()


def _reach(config: Config) -> Reach:
    """As much as the methods retrieve that are given their evidence."""
    return Reach(config.retrieval.texts, config.retrieval.pictures, config.retrieval.radius)


def _retrieving(make: Callable[[str, Library, Reach], Topology]) -> Callable[[str, Library, Config], Topology]:
    return lambda n, lib, c: make(n, lib, _reach(c))


def _graph_search(name: str, library: Library, config: Config) -> Topology:
    directed = config.data.kind == "mh"  # a graph that the data set brings; one that is extracted is not
    return MhMmkg(name, library, MH_SETTINGS[name], config.systems.paths, directed)


def _bdog(graph: bool = True, debate: bool = True) -> Callable[[str, Library, Config], Topology]:
    def make(name: str, library: Library, config: Config) -> Topology:
        chosen = config.systems
        given = read_blueprints(chosen.blueprints) if graph else {}
        return Bdog(name, library, chosen.rounds, chosen.epsilon, graph=graph, debate=debate, given=given)

    return make


def _mmapg(planning: bool = True, retrieval: bool = True) -> Callable[[str, Library, Config], Topology]:
    return lambda n, lib, c: Mmapg(
        n,
        lib,
        reach=_reach(c),
        steps=c.systems.steps,
        planning=planning,
        retrieval=retrieval,
    )


def _hm_rag(*bases: str, decompose: bool = True, decide: bool = True) -> Callable[[str, Library, Config], Topology]:
    return lambda n, lib, c: HmRag(
        n,
        lib,
        reach=_reach(c),
        threshold=c.systems.agreement,
        rouge_weight=c.systems.rouge_weight,
        bases=bases or HM_BASES,
        decompose=decompose,
        decide=decide,
    )


def _searching(make: Callable[[str, Library, Reach, int], Topology]) -> Callable[[str, Library, Config], Topology]:
    """A system that searches step by step, so many times at most."""
    return lambda n, lib, c: make(n, lib, _reach(c), c.systems.turns)


SYSTEMS = {
    "sp": System("one agent answers at once, without retrieval", lambda n, lib, c: Direct(n, lib, DIRECT)),
    "cot": System("one agent answers step by step, without retrieval", lambda n, lib, c: Direct(n, lib, STEP_BY_STEP)),
    "self_correction": System(
        "an agent answers, criticises its own answer and revises it, without retrieval",
        lambda n, lib, c: SelfCorrection(n, lib),
    ),
    "ddcot": System(
        "sub-questions answered from text or from the picture, then joint reasoning, without retrieval",
        lambda n, lib, c: DDCoT(n, lib),
    ),
    "ccot": System(
        "a scene graph of the pictures, then the answer with it, without retrieval", lambda n, lib, c: CCoT(n, lib)
    ),
    "mad": System("two debaters and a judge, without retrieval", lambda n, lib, c: Debate(n, lib), DEBATERS),
    "wiki_llava": System("the picture names documents, the question their passages", _retrieving(WikiLlava)),
    "rora_vlm": System("names of retrieved pictures extend the query; foreign pictures go", _retrieving(RoraVlm)),
    "echosight": System(
        "sections of visually retrieved documents, reranked; the best one is read",
        lambda n, lib, c: EchoSight(n, lib, c.retrieval.pictures),
    ),
    "llava_mr2ag": System("each passage judged and answered from by itself; scores pick", _retrieving(LlavaMr2ag)),
    "core_mmrag": System("closed-book and evidence answers, reconciled", _retrieving(CoreMmrag)),
    "bdog_debate": System("debate of proponent, opponent and moderator", _bdog(graph=False), BLUEPRINT_DEBATERS),
    "bdog_graph": System("a blueprint graph, and the answer from it", _bdog(debate=False)),
    "bdog": System("debate on a blueprint graph, until it no longer changes", _bdog(), BLUEPRINT_DEBATERS),
    "mmapg_no_planning": System("retrieval and reasoning alternate, examined", _mmapg(planning=False), PLANNED),
    "mmapg_no_retrieval": System("adaptive planning, nearest sources unexamined", _mmapg(retrieval=False), PLANNED),
    "mmapg": System("adaptive planning graph over texts and pictures, examined", _mmapg(), PLANNED),
    **{name: System(setting.description, _graph_search, SEARCHERS) for name, setting in MH_SETTINGS.items()},
    "omnisearch": System(
        "a planner asks one sub-question after another and chooses where to look",
        _searching(OmniSearch),
        SEARCH_PLANNERS,
    ),
    "vidorag": System(
        "retrieval cut off by a Gaussian mixture; seeker, inspector and synthesiser", _searching(ViDoRAG), PAGE_READERS
    ),
    "hm_rag_vector": System("one agent with texts and pictures", _hm_rag("vector", decompose=False), HM_AGENTS),
    "hm_rag_graph": System("one agent with a knowledge graph", _hm_rag("graph", decompose=False), HM_AGENTS),
    "hm_rag_web": System("one agent with the web", _hm_rag("web", decompose=False), HM_AGENTS),
    "hm_rag_no_vector": System("HM-RAG without its vector agent", _hm_rag("graph", "web"), HM_AGENTS),
    "hm_rag_no_graph": System("HM-RAG without its graph agent", _hm_rag("vector", "web"), HM_AGENTS),
    "hm_rag_no_web": System("HM-RAG without its web agent", _hm_rag("vector", "graph"), HM_AGENTS),
    "hm_rag_no_decomposition": System("HM-RAG on the whole question", _hm_rag(decompose=False), HM_AGENTS),
    "hm_rag_no_decision": System("HM-RAG by a vote of its agents", _hm_rag(decide=False), HM_AGENTS),
    "hm_rag": System("vector, graph and web agents, a decision by agreement", _hm_rag(), HM_AGENTS),
    "e_agent": System("one plan of tool calls, run once, and the answer", _searching(EAgent), TOOL_PLANNERS),
}
