"""HM-RAG: each agent reads its own base, and the agreement of their answers decides who decides (Eqs. 13, 14)."""

import math
import re
from collections.abc import Callable, Collection
from pathlib import Path

import pytest
from hypothesis import strategies as st
from rouge_score.rouge_scorer import RougeScorer
from sacrebleu.metrics.bleu import BLEU

from actors.agents.roles import SINGLE
from actors.messages import Hit, Kind, Modality, Question, Source, Turn
from actors.prompting.prompt import shared_part
from experiments.config.loading import load
from experiments.conformance.observed import ObservedDiscussion, ObservedLibrary, observe_discussion
from experiments.datasets.item import Item
from experiments.evidence.evidence import Evidence
from experiments.evidence.library import LabelledLibrary
from experiments.scripted.replies import answered
from experiments.scripted.speaker import Reply, ScriptedSpeaker
from retrieval.embed import LexicalEncoder
from retrieval.store import Store
from tests.support.topologies import topology
from topologies.systems import hm_rag_agreement
from topologies.systems.hm_rag import AGENTS, CHOOSE, FROM_FOUND, ROLES
from topologies.systems.hm_rag_agreement import agreement, least_agreement, rouge_l

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
    evidence: Evidence,
    reply: Reply,
    name: str = "hm_rag",
    *words: str,
    item: Item = ITEM,
    failing: Collection[str] = (),
) -> ObservedDiscussion:
    library = ObservedLibrary(LabelledLibrary(evidence, [ITEM, CHOOSING], Web()), {})
    method = topology(name, library, load(["experiment=hm_rag", *words]))
    speaker = ScriptedSpeaker((*ROLES, SINGLE), reply, failing=failing)
    return await observe_discussion(method, item.question, speaker, library)


def read_by(seen: ObservedDiscussion, agent: str) -> set[str]:
    return {source.id for turn in seen.team.turns if turn.agent == agent for source in turn.question.evidence}


async def test_every_agent_answers_from_its_own_base(evidence: Evidence) -> None:
    seen = await discussed(evidence, says())
    assert read_by(seen, AGENTS["vector"]) == {"amber", "jurn", "poster"}
    assert read_by(seen, AGENTS["web"]) == {"web:1"}
    triples = {id for id in read_by(seen, AGENTS["graph"]) if "#" in id}
    assert {"amber#1", "poster#1"} <= triples
    assert {lookup.base for lookup in seen.trace.lookups} == {"graph", "themes", "texts", "pictures", "web", "entity"}


@pytest.mark.parametrize("summary", [AGREED, "of {} alone"])
async def test_answers_that_are_the_same_go_to_the_light_model_however_they_are_summarised(
    evidence: Evidence, summary: str
) -> None:
    seen = await discussed(evidence, says(summary=summary.format))
    assert not [turn for turn in seen.team.turns if turn.task and turn.task.fields[0].name == "Summary"]
    assert seen.trace.decision == ("light_decider",)
    assert len(seen.team.turns[-1].question.evidence) == 0


async def test_two_equal_answers_of_three_go_to_the_expert_with_all_that_was_read(evidence: Evidence) -> None:
    split = await discussed(evidence, says(answers=OTHER))
    assert split.trace.decision == ("expert_decider",)
    everything = {id for agent in AGENTS.values() for id in read_by(split, agent)}
    assert {source.id for source in split.team.turns[-1].question.evidence} == everything
    assert {heard.message.agent for heard in split.team.turns[-1].heard} == set(AGENTS.values())


async def test_by_majority_an_answer_of_two_agents_is_final_and_three_answers_go_to_the_expert(
    evidence: Evidence,
) -> None:
    settled = await discussed(evidence, says(answers=OTHER), "hm_rag", "systems.consistency=majority")
    assert (settled.trace.answer, settled.trace.decision) == ("Hesstead", ())
    assert settled.team.turns[-1].agent in AGENTS.values()
    each = says(answers=OTHER | {"graph_retriever": "Tarn"})
    seen = await discussed(evidence, each, "hm_rag", "systems.consistency=majority")
    assert seen.trace.decision == ("expert_decider",)


def of_web(text: str) -> Callable[[str], str]:
    """Summaries of which the web agent's alone is another."""
    return lambda agent: text if agent == "web_retriever" else AGREED


SAME = dict.fromkeys(AGENTS.values(), "Hesstead")


@pytest.mark.parametrize(
    ("summary", "answers", "decider"),
    [
        (of_web(AGREED), SAME, "light_decider"),
        (of_web("Goskwick, as its own page has it."), OTHER, "expert_decider"),
        (lambda agent: f"He was born in Hesstead, the {agent} says.", SAME, "light_decider"),
        # Wording decides, by a threshold.
        (of_web("Hesstead, as its own page has it."), SAME, "expert_decider"),
        # A summary that does not name its answer is not compared: the answer is.
        (lambda agent: "Nothing bears on it.", OTHER, "expert_decider"),
        (lambda agent: f"The {agent} read that.", SAME, "light_decider"),
    ],
)
async def test_summaries_that_agree_go_to_the_light_model_and_others_to_the_expert(
    evidence: Evidence, summary: Callable[[str], str], answers: dict[str, str], decider: str
) -> None:
    seen = await discussed(evidence, says(summary=summary, answers=answers), "hm_rag", "systems.consistency=summaries")
    assert seen.trace.decision == (decider,)


TEXTS = st.lists(st.sampled_from("the old red bridge crosses été 1971 river".split()), max_size=9).map(" ".join)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("the old bridge crosses the wide river at noon", "the old bridge crosses the river at noon every day"),
        ("Amber Garden was filmed in Goskwick", "it was filmed in Goskwick said Amber"),
        ("one two three four five six", "six five four three two one"),
    ],
)
def test_agreement_is_the_libraries_counts_by_the_factors_of_the_paper(
    first: str, second: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = RougeScorer(["rougeL"]).score(first, second)["rougeL"]
    assert rouge_l(first, second) == pytest.approx(min(theirs.precision, theirs.recall))
    bleu = 0.0
    for candidate, reference in ((first, second), (second, first)):
        score = BLEU(lowercase=True, tokenize="none").sentence_score(candidate, [reference])
        geometric = math.exp(sum(math.log(p / 100) for p in score.precisions) / 4)
        bleu += geometric * min(1.0, score.sys_len / score.ref_len) / 2
    for weight in (0.0, 0.25):
        monkeypatch.setattr(hm_rag_agreement, "ROUGE_WEIGHT", weight)
        fused = weight * rouge_l(first, second) + (1 - weight) * bleu
        assert agreement(first, second) == pytest.approx(fused, rel=1e-6)


def test_the_least_agreeing_pair_counts_and_a_lone_text_agrees_with_nothing() -> None:
    assert rouge_l("the bridge is red", "the old bridge is painted red today") == pytest.approx(4 / 7)
    assert least_agreement(["The Old Bridge", "the old bridge.", "été"]) == 0.0
    assert least_agreement(["The Été", "the été.", "the été"]) == pytest.approx(1.0)
    assert least_agreement(["été"]) == least_agreement([]) == least_agreement(["...", "..."]) == 0.0


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
    team = ScriptedSpeaker(ROLES, says())
    seen = await observe_discussion(method, item.question, team, library)
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
