"""HM-RAG: each agent reads its own base, and how much their answers agree decides who decides."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from actors.agents.roles import SINGLE
from actors.messages import Hit, Kind, Modality, Question, Role, Source, Turn
from actors.prompting.prompt import shared_part
from experiments.config.loading import load
from experiments.conformance.scripted import (
    ObservedDiscussion,
    ObservedLibrary,
    Reply,
    Script,
    ScriptedTeam,
    answered,
    run_discussion,
    topology,
)
from experiments.datasets.item import Item
from experiments.evidence.evidence import Evidence
from experiments.evidence.library import LabelledLibrary
from retrieval.embed import LexicalEncoder
from retrieval.store import Store
from tests.support.paths import ROOT
from topologies.systems.hm_rag import AGENTS, CHOOSE, FROM_FOUND, ROLES

SOURCES = (
    Source("amber", "amber", Kind.TEXT, "Amber Valley", "Amber Valley was directed by Fivan Jurn."),
    Source("jurn", "jurn", Kind.TEXT, "Fivan Jurn", "Fivan Jurn was born in Hesstead."),
    Source("poster", "poster", Kind.IMAGE, "Amber Valley", "The poster shows two red bells.", "poster.png"),
    Source("photo", "photo", Kind.IMAGE, "A portrait", "", "photo.png"),
)
POOL = ("amber", "jurn", "poster", "photo")
ITEM = Item(
    Question("q", "Where was the director of Amber Valley born?"), ("Hesstead",), pool=("amber", "jurn", "poster")
)
CHOOSING = Item(Question("c", "Where was he born?", ("Hesstead", "Goskwick")), ("Hesstead",), pool=POOL, own=("photo",))
SUB_QUESTIONS = ("Who directed Amber Valley?", "Where was Fivan Jurn born?")
ANSWERS = {"vector_retriever": "Hesstead", "graph_retriever": "hesstead.", "web_retriever": "The Hesstead"}
OTHER = ANSWERS | {"web_retriever": "Goskwick"}
AGREED = "He was born in Hesstead."


class Web:
    """One page for any query."""

    async def search(self, query: str, k: int) -> tuple[Hit, ...]:
        return (Hit(Source("web:1", "web:1", Kind.TEXT, "A page", f"About {query}"), 1.0),)[:k]


@pytest.fixture(scope="module")
def evidence(tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    store = Store.open(tmp_path_factory.mktemp("hm"), lambda: iter(SOURCES), LexicalEncoder())
    return Evidence(store, load(["experiment=hm_rag"]).retrieval)


def says(
    intents: str = "1", summary: Callable[[str], str] = lambda agent: AGREED, answers: dict[str, str] | None = None
) -> Reply:
    """A team of which every agent answers as told, and says the summary that it is given."""

    def reply(turn: Turn) -> str:
        if turn.task is None:
            return answered((answers or ANSWERS).get(turn.agent, f"by {turn.agent}"), 0.5)
        lines = {
            "Intents": [intents],
            "Sub-question": SUB_QUESTIONS,
            "Keyword": ["Amber Valley"],
            "Theme": ["directed by"],
            "Summary": [summary(turn.agent)],
        }
        return "\n".join(f"{field.name}: {value}" for field in turn.task.fields for value in lines[field.name])

    return reply


async def discussed(
    evidence: Evidence, reply: Reply, name: str = "hm_rag", *words: str, item: Item = ITEM, **of_team: set[str]
) -> ObservedDiscussion:
    library = ObservedLibrary(LabelledLibrary(evidence, [ITEM, CHOOSING], Web()), {})
    roles: dict[str, Role] = {role.name: role for role in (*ROLES, SINGLE)}
    method = topology(name, library, load(["experiment=hm_rag", *words]))
    return await run_discussion(method, item.question, ScriptedTeam(roles, Script(reply), **of_team), library)


def read_by(seen: ObservedDiscussion, agent: str) -> set[str]:
    return {source.id for turn in seen.team.turns if turn.agent == agent for source in turn.question.evidence}


async def test_every_agent_answers_from_its_own_base(evidence: Evidence) -> None:
    seen = await discussed(evidence, says())
    assert read_by(seen, AGENTS["vector"]) == {"amber", "jurn", "poster"}
    assert read_by(seen, AGENTS["web"]) == {"web:1"}
    triples = {id for id in read_by(seen, AGENTS["graph"]) if "#" in id}
    assert {"amber#1", "poster#1"} <= triples
    assert {lookup.base for lookup in seen.trace.lookups} == {"graph", "themes", "texts", "pictures", "web", "entity"}


async def test_answers_that_are_the_same_go_to_the_light_model(evidence: Evidence) -> None:
    seen = await discussed(evidence, says())
    assert seen.trace.decision == ("light_decider",)
    assert len(seen.team.turns[-1].question.evidence) == 0


async def test_two_equal_answers_of_three_go_to_the_expert_with_all_that_was_read(evidence: Evidence) -> None:
    split = await discussed(evidence, says(answers=OTHER))
    assert split.trace.decision == ("expert_decider",)
    everything = {id for agent in AGENTS.values() for id in read_by(split, agent)}
    assert {source.id for source in split.team.turns[-1].question.evidence} == everything
    assert {heard.message.agent for heard in split.team.turns[-1].heard} == set(AGENTS.values())


async def test_retrieval_agents_read_captions_and_the_expert_alone_sees_the_questions_picture(
    evidence: Evidence,
) -> None:
    seen = await discussed(evidence, says(answers=OTHER), item=CHOOSING)
    *others, expert = seen.team.turns
    assert expert.agent == "expert_decider"
    assert not [source for turn in others for source in turn.question.evidence if source.kind is Kind.IMAGE]
    assert [source.image for source in expert.question.evidence if source.kind is Kind.IMAGE] == ["photo.png"]
    read = {source for turn in others if turn.agent == AGENTS["vector"] for source in turn.question.evidence}
    # Without a caption a picture is its title.
    assert {source.text for source in read} >= {"The poster shows two red bells.", "A portrait"}
    shown = {role.name: role.modality for role in ROLES}
    assert [name for name, modality in shown.items() if modality is not Modality.TEXT] == ["expert_decider"]


async def test_an_agent_is_asked_for_unknown_only_where_the_form_of_its_reply_has_it(evidence: Evidence) -> None:
    for item, orders in ((ITEM, FROM_FOUND), (CHOOSING, CHOOSE)):
        for intents in ("1", "2"):
            seen = await discussed(evidence, says(intents=intents), item=item)
            answering = [turn for turn in seen.team.turns if turn.agent in AGENTS.values() and turn.task is None]
            # Sub-questions have no choices.
            assert all(turn.instruction == (orders if turn.question.choices else FROM_FOUND) for turn in answering)
            assert {turn.instruction for turn in answering if turn.question.text == item.question.text} == {orders}
    assert not any("unknown" in role.instruction for role in ROLES)


async def test_the_decomposer_and_the_web_are_asked_the_question_without_its_choices(evidence: Evidence) -> None:
    seen = await discussed(evidence, says(), item=CHOOSING)
    [judged] = [turn for turn in seen.team.turns if turn.agent == "decomposer"]
    assert (judged.question.text, judged.question.choices) == (CHOOSING.question.text, ())
    assert judged.question.evidence == ()
    assert {lookup.query for lookup in seen.trace.lookups if lookup.base == "web"} == {CHOOSING.question.text}


@pytest.mark.parametrize("intents", ["1", "2"])
async def test_a_source_has_one_number_for_whoever_reads_it_or_hears_of_it(intents: str, evidence: Evidence) -> None:
    seen = await discussed(evidence, says(intents=intents, answers=OTHER), item=CHOOSING)
    numbers: dict[str, set[str]] = {}
    for turn in seen.team.turns:
        text, _ = shared_part(turn.question, Modality.BOTH)
        # In the order of the prompt: passages, and then pictures.
        ids = sorted(turn.question.evidence, key=lambda source: source.kind is Kind.IMAGE)
        shown = re.findall(r"^\[(\d+)\]", text, re.MULTILINE)
        assert len(shown) == len(ids)
        for number, source in zip(shown, ids, strict=True):
            numbers.setdefault(number, set()).add(source.id)
    assert seen.team.turns[-1].agent == "expert_decider"
    assert len(seen.team.turns[-1].question.evidence) == len(numbers)
    assert {len(ids) for ids in numbers.values()} == {1}


async def test_entities_bring_no_more_sources_than_the_reach_has_texts(tmp_path: Path) -> None:
    lectures = [
        Source(f"a{n:02}", f"a{n:02}", Kind.TEXT, "Amber Valley", f"Amber Valley was shown in hall {n} by Fivan Jurn.")
        for n in range(80)
    ]
    settings = load(["experiment=hm_rag", "retrieval.texts=4"]).retrieval
    crowded = Evidence(Store.open(tmp_path, lambda: iter(lectures), LexicalEncoder()), settings)
    item = Item(ITEM.question, ITEM.gold, pool=tuple(source.doc for source in lectures))
    library = ObservedLibrary(LabelledLibrary(crowded, [item], Web()), {})
    method = topology("hm_rag_graph", library, load(["experiment=hm_rag", "retrieval.texts=4"]))
    team = ScriptedTeam({role.name: role for role in ROLES}, Script(says()))
    seen = await run_discussion(method, item.question, team, library)
    brought = [id for id in read_by(seen, AGENTS["graph"]) if "#" not in id]
    assert len(brought) == 4


async def test_several_intents_are_answered_one_after_the_other(evidence: Evidence) -> None:
    seen = await discussed(evidence, says(intents="2"))
    asked = [turn for turn in seen.team.turns if turn.agent == "vector_retriever" and turn.task is None]
    assert [turn.question.text for turn in asked] == [*SUB_QUESTIONS, ITEM.question.text]
    assert [len(turn.heard) for turn in asked] == [0, 1, 2]
    assert {lookup.query for lookup in seen.trace.lookups if lookup.base == "web"} == set(SUB_QUESTIONS)
    whole = await discussed(evidence, says(intents="2"), "hm_rag_no_decomposition")
    assert len(whole.trace.turns) < len(seen.trace.turns)
    assert "decomposer" not in whole.trace.agents


async def test_a_decomposition_that_fails_leaves_the_question_whole(evidence: Evidence) -> None:
    seen = await discussed(evidence, says(intents="2"), failing={"decomposer"})
    assert {turn.question.text for turn in seen.team.turns} == {ITEM.question.text}
    assert seen.trace.answer == "by light_decider"


async def test_a_lone_answer_is_for_the_expert(evidence: Evidence) -> None:
    seen = await discussed(evidence, says(), failing={"graph_retriever", "web_retriever"})
    assert seen.trace.decision == ("expert_decider",)


async def test_a_variant_leaves_its_agent_out(evidence: Evidence) -> None:
    for base, agent in AGENTS.items():
        without = await discussed(evidence, says(), f"hm_rag_no_{base}")
        assert agent not in without.trace.agents
        alone = await discussed(evidence, says(), f"hm_rag_{base}")
        assert alone.trace.decision == (agent,)
        assert set(alone.trace.agents) == {agent}


async def test_without_a_decision_the_most_frequent_answer_wins(evidence: Evidence) -> None:
    seen = await discussed(evidence, says(), "hm_rag_no_decision")
    assert (seen.trace.answer, seen.trace.decision) == ("Hesstead", ())
    assert not {"light_decider", "expert_decider"} & set(seen.trace.agents)


@pytest.mark.parametrize("name", ["hm_rag", "hm_rag_table", "hm_rag_crisismmd"])
def test_agents_answer_at_temperature_0_as_in_the_paper(name: str) -> None:
    assert load([f"experiment={name}"]).agents.temperature == 0


def test_the_experiment_names_the_system_last() -> None:
    assert load(["experiment=hm_rag"]).methods[-1] == "hm_rag"
    assert (ROOT / "experiments" / "presets" / "hm_rag.yaml").read_text().startswith("# HM-RAG")
