"""The baselines that the papers compare with: what defines each of them, on scripted agents and a real index, and all
of them on the embedded reader."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from actors.agents.roles import SINGLE
from actors.messages import Completion, Hit, Kind, Message, Modality, Question, Request, Source, Status, Trace, Turn
from experiments.config.loading import load
from experiments.datasets.item import Item
from experiments.datasets.mmqa import Mmqa
from experiments.datasets.sample.release import write_sample
from experiments.evidence.evidence import Evidence
from experiments.evidence.library import LabelledLibrary
from experiments.evidence.retrieval_settings import RetrievalSettings
from experiments.scripted.replies import answered
from experiments.scripted.speaker import ScriptedSpeaker
from retrieval.embed import LexicalEncoder
from retrieval.store import Store
from tests.support.topologies import SYSTEMS, topology
from topologies.systems import visual_retrieval
from topologies.systems.ddcot import REASONER, RECOGNISER, WITHOUT_PICTURE, divide
from topologies.systems.ddcot import WITH_PICTURE as WITH_PICTURE_OF_DDCOT
from topologies.systems.helpers import NO_PASSAGE
from topologies.systems.llava_mr2ag import best_answer, certainty
from topologies.systems.mad import AFFIRMATIVE, NEGATIVE, OPEN, OPPOSE, REPLY, ROUNDS
from topologies.systems.visual_retrieval import READ, READ_FOR_WORDS, reranked
from topologies.systems.zero_shot import REVISIONS

pytestmark = pytest.mark.slow

ZERO_SHOT = ("sp", "cot", "self_correction", "ddcot", "ccot", "mad")
RETRIEVING = ("wiki_llava", "rora_vlm", "echosight", "llava_mr2ag", "core_mmrag")

LIGHTHOUSE = "a striped lighthouse on a cliff above the sea"
SOURCES = (
    Source("hint", "hint", Kind.TEXT, "Hint", "A sailor took this picture."),
    Source("own", "own", Kind.IMAGE, "Navigation", LIGHTHOUSE),
    Source("pic-skagen", "pic-skagen", Kind.IMAGE, "Skagen Beacon", f"{LIGHTHOUSE} in fog"),
    Source("pic-bus", "pic-bus", Kind.IMAGE, "Red Bus", "a bus in a street"),
    Source("skagen-1", "skagen-1", Kind.TEXT, "Skagen Beacon", f"Skagen Beacon is {LIGHTHOUSE} of Denmark."),
    Source("skagen-2", "skagen-2", Kind.TEXT, "Skagen Beacon", "Winstrup was the one who built it in 1858."),
    Source(
        "bus-1", "bus-1", Kind.TEXT, "Red Bus", "Who built the Red Bus? It was built by Sisu, who built it in 1960."
    ),
    Source("navigation-1", "navigation-1", Kind.TEXT, "Navigation", "Charts and compasses tell where a ship is."),
    Source("house-1", "house-1", Kind.TEXT, "Country House", "Who built the house? Palladio built it."),
)
DOCS = tuple(source.doc for source in SOURCES)
BY_ID = {source.id: source for source in SOURCES}
WITH_PICTURE = Item(Question("q1", "Who built it?"), ("Winstrup",), pool=DOCS, own=("hint", "own"))
WITHOUT = Item(
    Question("q2", "Who built the striped lighthouse?"), ("Winstrup",), pool=tuple(set(DOCS) - {"hint", "own"})
)

# Nearer to the question's words than any section of the pages that the pictures lead to.
RIVALS = tuple(
    Source(f"rival-{n}", f"rival-{n}", Kind.TEXT, f"Rival {n}", "Who built it? They built it.") for n in range(120)
)
CROWDED = replace(WITH_PICTURE, pool=(*DOCS, *(source.doc for source in RIVALS)))

Said = str | Sequence[str] | Callable[[Turn], str | Sequence[str]]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store.open(tmp_path_factory.mktemp("baselines"), lambda: iter(SOURCES), LexicalEncoder())


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store.open(tmp_path_factory.mktemp("crowded"), lambda: iter((*SOURCES, *RIVALS)), LexicalEncoder())


def scripted(fields: Mapping[str, Said], answer: Callable[[Turn], str]) -> Callable[[Turn], str]:
    """Replies to tasks from `fields`, where a field that is not there is left out; to questions from `answer`."""

    def reply(turn: Turn) -> str:
        if turn.task is None:
            return answer(turn)
        lines = []
        for field in turn.task.fields:
            said = fields.get(field.name, ())
            values = said(turn) if callable(said) else said
            lines += [f"{field.name}: {value}" for value in ([values] if isinstance(values, str) else values)]
        return "\n".join(lines) or "Well."

    return reply


async def held(
    name: str,
    store: Store,
    fields: Mapping[str, Said] | None = None,
    answer: Callable[[Turn], str] = lambda turn: answered("Winstrup", 0.5),
    item: Item = WITH_PICTURE,
    texts: int = 4,
    pictures: int = 2,
    words: Sequence[str] = (),
    experiment: str = "",
) -> tuple[Trace, list[Turn]]:
    """One discussion, and what was asked for in it, in order; configured by the method's own preset, or by another."""
    config = load([f"experiment={experiment or name}", *words])
    config.retrieval = RetrievalSettings(texts=texts, pictures=pictures)
    team = ScriptedSpeaker((SINGLE, *SYSTEMS[name].roles), scripted(fields or {}, answer))
    library = LabelledLibrary(Evidence(store, config.retrieval), [item])
    trace = await topology(name, library, config).answer(item.question, team.ask, 7)
    return trace, sorted(team.turns, key=lambda turn: turn.round)


def shown(turn: Turn) -> set[str]:
    return {source.id for source in turn.question.evidence}


def steps(turns: Sequence[Turn]) -> list[str]:
    """The first field of each turn's task, or `Answer`."""
    return [turn.task.fields[0].name if turn.task else "Answer" for turn in turns]


@pytest.mark.parametrize("name", ZERO_SHOT)
async def test_zero_shot_baselines_are_shown_what_is_part_of_the_question_and_look_nothing_up(
    name: str, store: Store
) -> None:
    fields = {"Sub-question": ["Who?"], "Triple": ["a | b | c"], "Thought": "So.", "Answer": "Winstrup"}
    trace, turns = await held(name, store, fields)
    assert not trace.lookups
    assert set().union(*map(shown, turns)) == {"hint", "own"}
    trace, turns = await held(name, store, fields, item=WITHOUT)
    assert not trace.lookups
    assert not trace.evidence


async def test_self_correction_revises_with_answer_and_critique_in_memory(store: Store) -> None:
    answers = {1: "Palladio", 3: "Winstrup", 5: "Winstrup"}
    fields = {
        "Thought": "He built houses.",
        "Supported": lambda turn: "no" if "Palladio" in turn.task.inputs[0].text else "yes",
    }
    trace, turns = await held("self_correction", store, fields, lambda turn: answered(answers[turn.round], 0.5))
    assert steps(turns) == ["Answer", "Thought", "Answer", "Thought"]
    assert [turn.recall for turn in turns] == [0, 1, 2, 3]
    assert trace.answer == "Winstrup"


async def test_self_correction_keeps_an_answer_without_a_fault_or_without_a_readable_critique(store: Store) -> None:
    for fields in ({"Thought": "None.", "Supported": "yes"}, {"Thought": "Hm.", "Supported": "perhaps"}, {}):
        trace, turns = await held("self_correction", store, fields)
        assert (len(turns), trace.answer) == (2, "Winstrup")


async def test_a_critique_that_names_no_fault_is_no_fault_itself(store: Store) -> None:
    trace, _ = await held("self_correction", store, {"Thought": "none", "Supported": "yes"})
    assert [(turn.status, turn.calls) for turn in trace.turns] == [(Status.OK, 1)] * 2


async def test_self_correction_ends_when_nothing_changes_and_after_its_last_revision(store: Store) -> None:
    fields = {"Thought": "Wrong.", "Supported": "no"}
    _, turns = await held("self_correction", store, fields)
    assert steps(turns) == ["Answer", "Thought", "Answer"]
    trace, turns = await held("self_correction", store, fields, lambda turn: answered(f"guess {turn.round}", 0.5))
    assert len(turns) == 1 + 2 * REVISIONS
    assert trace.answer == f"guess {1 + 2 * REVISIONS}"


async def prompts(name: str, store: Store, monkeypatch: pytest.MonkeyPatch, fields: Mapping[str, Said]) -> list[str]:
    """What the model is told in each turn."""
    seen: list[Request] = []
    complete = ScriptedSpeaker.complete

    async def noting(self: ScriptedSpeaker, request: Request) -> Completion:
        seen.append(request)
        return await complete(self, request)

    monkeypatch.setattr(ScriptedSpeaker, "complete", noting)
    own = replace(WITH_PICTURE, question=replace(WITH_PICTURE.question, own=("hint", "own")))
    await held(name, store, fields, item=own)
    return [f"{request.system}\n{request.shared}\n{request.own}" for request in seen]


async def test_sp_is_asked_for_the_answer_alone_and_cot_for_steps_at_any_length(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    fields = {"Answer": "Winstrup", "Thought": "It stands there, as one sees. " * 60}
    [direct] = await prompts("sp", store, monkeypatch, fields)
    [steps] = await prompts("cot", store, monkeypatch, fields)
    for text in (direct, steps):
        assert not any(word in text.lower() for word in ("scientist", "confidence", "found for it", "others"))
    assert not any(word in direct for word in ("Reasoning", "Thought"))
    assert "one or two sentences" not in steps
    trace, _ = await held("cot", store, fields)
    assert [(turn.status, turn.calls) for turn in trace.turns] == [(Status.OK, 1)]
    assert trace.answer == "Winstrup"


PARTS = ("What does the picture show?", "Who builds lighthouses?")
DIVIDED = (f"{PARTS[0]} | uncertain", f"{PARTS[1]} | engineers")
DUTIES: dict[str, Said] = {
    "Sub-question": DIVIDED,
    "Thought": "So it was him.",
    "Answer": lambda turn: "a lighthouse" if turn.agent == RECOGNISER.name else "Winstrup",
}


async def test_ddcot_divides_in_one_turn_that_sees_no_picture_and_knows_whether_there_is_one(store: Store) -> None:
    choosing = replace(WITH_PICTURE, question=replace(WITH_PICTURE.question, choices=("Winstrup", "Palladio")))
    _, turns = await held("ddcot", store, DUTIES, item=choosing)
    assert [turn.agent for turn in turns] == ["divider", "recogniser", "divider"]
    assert shown(turns[0]) == {"hint"}
    assert turns[0].question.choices == ("Winstrup", "Palladio")
    assert turns[0].task is not None
    assert WITH_PICTURE_OF_DDCOT in turns[0].task.instruction
    _, turns = await held("ddcot", store, DUTIES, item=WITHOUT)
    assert turns[0].task is not None
    assert WITHOUT_PICTURE in turns[0].task.instruction


async def test_ddcot_puts_uncertain_parts_to_the_pictures_and_nothing_else_to_them(store: Store) -> None:
    _, turns = await held("ddcot", store, DUTIES)
    assert [(turn.agent, shown(turn)) for turn in turns] == [
        ("divider", {"hint"}),
        ("recogniser", {"own"}),
        ("divider", {"hint"}),
    ]
    assert (turns[1].question.text, turns[1].question.choices) == (PARTS[0], ())
    assert (REASONER.modality, RECOGNISER.modality) == (Modality.TEXT, Modality.VISUAL)


async def test_ddcot_integrates_all_parts_with_what_was_found_and_marks_what_is_still_uncertain(store: Store) -> None:
    third = "When was it built?"
    fields = {
        **DUTIES,
        "Sub-question": (*DIVIDED, f"{third} | uncertain"),
        "Answer": lambda turn: {PARTS[0]: "a lighthouse", third: "unknown"}.get(turn.question.text, "Winstrup"),
    }
    trace, turns = await held("ddcot", store, fields)
    assert turns[-1].task is not None
    assert tuple(given.line for given in turns[-1].task.inputs) == (
        f"Sub-question: {PARTS[0]}",
        "Found: What does the picture show: a lighthouse",
        f"Sub-question: {PARTS[1]}",
        "Found: Who builds lighthouses: engineers",
        f"Sub-question: {third} -> uncertain",
    )
    assert not turns[-1].heard
    assert (turns[-1].question.text, trace.answer) == ("Who built it?", "Winstrup")


async def test_ddcot_leaves_parts_uncertain_where_there_is_no_picture(store: Store) -> None:
    _, turns = await held("ddcot", store, DUTIES, item=WITHOUT)
    assert [turn.agent for turn in turns] == ["divider", "divider"]
    assert turns[-1].task is not None
    assert turns[-1].task.inputs[0].line == f"Sub-question: {PARTS[0]} -> uncertain"


async def test_ddcot_without_parts_puts_the_question_to_the_pictures(store: Store) -> None:
    _, turns = await held("ddcot", store, {"Answer": "Winstrup", "Thought": "It is so."})
    assert [(turn.agent, turn.question.text) for turn in turns[1:]] == [
        ("recogniser", "Who built it?"),
        ("divider", "Who built it?"),
    ]


def test_a_part_without_an_answer_is_uncertain_and_one_that_is_asked_twice_counts_once() -> None:
    lines = ("Who? | Ann", "Where?", "When? | Unknown.", "Why? | uncertain, look at it", "Who? | Bob", "How? |")
    assert divide(lines) == {"Who?": "Ann", "Where?": None, "When?": None, "Why?": None, "How?": None}


@pytest.mark.parametrize(
    "said", ["It cannot be determined from the text.", "The text does not provide it", "Not provided.", "Not possible"]
)
def test_what_the_authors_take_for_uncertain_is_uncertain(said: str) -> None:
    assert divide([f"Who? | {said}"]) == {"Who?": None}


GRAPH: dict[str, Said] = {"Triple": ["lighthouse | on | cliff", "lighthouse | is | striped"], "Answer": "Winstrup"}


async def test_ccot_answers_with_the_scene_graph_of_the_pictures(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    trace, (graph, answer) = await held("ccot", store, GRAPH)
    assert shown(graph) == shown(answer) == {"hint", "own"}
    assert answer.task is not None
    assert [given.text for given in answer.task.inputs] == GRAPH["Triple"]
    assert trace.answer == "Winstrup"
    *_, last = await prompts("ccot", store, monkeypatch, GRAPH)
    assert not any(part in last for part in ("others", "## Weights", "## Role", "scientist"))


async def test_ccot_answers_directly_where_there_is_no_picture_or_no_graph(store: Store) -> None:
    _, turns = await held("ccot", store, {"Answer": "Winstrup"}, item=WITHOUT)
    assert steps(turns) == ["Answer"]
    _, turns = await held("ccot", store, {"Answer": "Winstrup"})
    assert steps(turns) == ["Triple", "Answer"]
    assert [turn.task.inputs for turn in turns if turn.task] == [(), ()]


def debating(
    side: Said = "neither", answer: Said = "Winstrup", candidate: Said = ("Palladio", "Sisu")
) -> dict[str, Said]:
    """Replies of a debate: the sides differ, and the moderator says this of them."""

    def said(turn: Turn) -> str | Sequence[str]:
        if turn.agent == "debate_moderator":
            return answer(turn) if callable(answer) else answer
        return {"affirmative": "Palladio", "negative": "Sisu"}.get(turn.agent, "Winstrup")

    return {"Thought": "I say so.", "Answer": said, "Side": side, "Candidate": candidate}


def speakers(turns: Sequence[Turn]) -> list[str]:
    return [turn.agent for turn in turns]


def heard(turn: Turn) -> list[str]:
    return [each.message.id for each in turn.heard]


ROUND = ["affirmative", "negative", "debate_moderator"]


async def test_the_moderator_s_preference_ends_a_debate_with_its_answer_and_no_further_turn(store: Store) -> None:
    fields = debating(lambda turn: "negative" if turn.round == 6 else "neither")
    trace, turns = await held("mad", store, fields)
    assert speakers(turns) == ROUND * 2
    assert (trace.answer, trace.decision) == ("Winstrup", ("debate_moderator",))


@pytest.mark.parametrize(
    "fields",
    [
        debating("neither"),
        debating("affirmative", ()),
        debating("affirmative", "unknown"),
        debating("both"),
        debating(()),
    ],
    ids=["an answer without a side", "a side without an answer", "unknown", "no such side", "nothing readable"],
)
async def test_a_debate_without_a_preference_goes_on_to_a_judge_who_was_not_there(
    fields: dict[str, Said], store: Store
) -> None:
    trace, turns = await held("mad", store, fields)
    assert speakers(turns) == [*ROUND * ROUNDS, "debate_judge", "debate_judge"]
    assert heard(turns[9]) == heard(turns[10]) == ["1/affirmative", "2/negative"]
    assert [turn.recall for turn in turns[9:]] == [0, 1]
    assert steps(turns[9:]) == ["Candidate", "Thought"]
    assert (trace.answer, trace.decision) == ("Winstrup", ("debate_judge",))


async def test_equal_answers_end_no_debate_that_the_moderator_does_not_end(store: Store) -> None:
    _, turns = await held("mad", store, {**debating(), "Answer": "Winstrup"})
    assert len(turns) == 3 * ROUNDS + 2


async def test_debaters_and_moderator_remember_what_they_said_and_heard(store: Store) -> None:
    _, turns = await held("mad", store, debating())
    assert [turn.recall for turn in turns[:9]] == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert heard(turns[6]) == ["2/negative", "5/negative"]
    assert heard(turns[7]) == ["1/affirmative", "4/affirmative", "7/affirmative"]
    assert heard(turns[5]) == ["1/affirmative", "2/negative", "4/affirmative", "5/negative"]


async def test_the_negative_side_must_disagree_at_first_and_later_both_are_asked_whether_they_agree(
    store: Store,
) -> None:
    _, turns = await held("mad", store, debating())
    tasks = [turn.task for turn in turns[:9] if turn.agent != "debate_moderator"]
    assert tasks == [OPEN, OPPOSE, REPLY, REPLY, REPLY, REPLY]
    assert AFFIRMATIVE.instruction == NEGATIVE.instruction


async def test_a_debate_in_which_neither_side_says_anything_has_no_answer(store: Store) -> None:
    trace, turns = await held("mad", store, {**debating("both"), "Thought": (), "Answer": ()})
    assert len(turns) == 3 * ROUNDS
    assert (trace.answer, trace.status) == (None, Status.UNPARSED)


@pytest.mark.parametrize("name", RETRIEVING)
async def test_retrieving_baselines_never_lose_what_is_part_of_the_question(name: str, store: Store) -> None:
    fields = {"Retrieve": "yes", "Relevant": "yes", "Selected": "2", "Confidence": "0.5"}
    trace, turns = await held(name, store, fields)
    assert trace.lookups
    # EchoSight's reader sees no pictures.
    assert shown(turns[-1]) > ({"hint"} if name == "echosight" else {"hint", "own"})


@pytest.mark.parametrize("item", [CROWDED, WITHOUT], ids=["with a picture", "without"])
async def test_wiki_llava_reads_passages_of_the_document_that_the_picture_names_however_near_others_are(
    item: Item, crowded: Store
) -> None:
    _, [turn] = await held("wiki_llava", crowded, item=item, pictures=1)
    assert shown(turn) - {"hint", "own", "pic-skagen"} == {"skagen-1", "skagen-2"}


async def test_wiki_llava_reads_so_many_passages_of_each_of_so_many_documents(
    crowded: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(visual_retrieval, "DOCUMENTS", 2)
    trace, [turn] = await held("wiki_llava", crowded, item=CROWDED, texts=1)
    assert [lookup.query for lookup in trace.lookups] == ["source own", "Who built it?", "Who built it?"]
    passages = [source for source in turn.question.evidence if source.kind is Kind.TEXT and source.id != "hint"]
    assert (len(passages), len({source.title for source in passages})) == (2, 2)


def of(id: str) -> Said:
    """The number under which a source is shown."""
    return lambda turn: str([source.id for source in turn.question.evidence].index(id) + 1)


@pytest.mark.parametrize("item", [WITH_PICTURE, WITHOUT], ids=["with a picture", "without"])
async def test_rora_vlm_looks_for_the_question_once_for_each_picture_with_its_name_and_what_is_said_of_it(
    item: Item, store: Store
) -> None:
    trace, _ = await held("rora_vlm", store, {"Relevant": "yes"}, item=item)
    assert [(lookup.base, lookup.query) for lookup in trace.lookups[1:]] == [
        ("texts", f"{item.question.text} Skagen Beacon {LIGHTHOUSE} in fog"),
        ("texts", f"{item.question.text} Red Bus a bus in a street"),
    ]


async def test_rora_vlm_drops_pictures_that_the_model_finds_foreign_and_the_passages_that_only_they_brought(
    store: Store,
) -> None:
    pictures = {"own", "pic-skagen", "pic-bus"}
    trace, turns = await held("rora_vlm", store, {"Relevant": "yes", "Selected": of("pic-skagen")})
    assert shown(turns[0]) == pictures
    assert shown(turns[1]) & pictures == {"own", "pic-skagen"}
    _, with_skagen, with_bus = (set(lookup.found) for lookup in trace.lookups)
    assert with_bus - with_skagen
    assert shown(turns[1]) - pictures - {"hint"} == with_skagen
    _, turns = await held("rora_vlm", store, {"Relevant": "no"})
    assert shown(turns[1]) == {"hint", "own"}
    trace, turns = await held("rora_vlm", store)
    assert shown(turns[1]) >= pictures | with_skagen | with_bus


async def test_rora_vlm_without_a_picture_of_the_question_s_own_or_one_that_is_kept_reads_for_the_words(
    store: Store,
) -> None:
    trace, turns = await held("rora_vlm", store, {"Relevant": "no"}, item=WITHOUT)
    assert trace.lookups[-1].query == WITHOUT.question.text
    assert shown(turns[1]) == set(trace.lookups[-1].found)


async def test_echosight_reads_one_section_of_a_document_that_looks_like_the_question_s_picture(store: Store) -> None:
    trace, [turn] = await held("echosight", store)
    assert shown(turn) == {"hint", "skagen-1"}
    assert trace.lookups[0].query == "source own"
    fewer = replace(WITH_PICTURE, pool=("own", "hint", "navigation-1", "pic-bus", "bus-1"))
    _, [turn] = await held("echosight", store, item=fewer)
    assert shown(turn) == {"hint", "bus-1"}  # it looks like none other; its own picture is no evidence


async def test_who_reads_passages_is_told_where_there_is_none_and_of_no_picture_that_is_not_there(store: Store) -> None:
    bare = replace(WITH_PICTURE, pool=("own",), own=("own",))
    for name in ("echosight", "wiki_llava"):
        assert (await held(name, store, item=bare))[1][0].instruction == NO_PASSAGE
        assert (await held(name, store))[1][0].instruction != NO_PASSAGE
    assert (await held("echosight", store))[1][0].instruction == READ
    assert (await held("echosight", store, item=WITHOUT))[1][0].instruction == READ_FOR_WORDS


async def test_echosight_reranks_all_sections_of_the_pages_that_look_like_the_picture_and_no_others(
    crowded: Store,
) -> None:
    trace, _ = await held("echosight", crowded, item=CROWDED)
    ranked = [set(lookup.found) for lookup in trace.lookups if lookup.base == "texts"]
    assert ranked == [{"skagen-1", "skagen-2", "bus-1"}] * 2


async def test_echosight_s_reader_sees_the_picture_only_where_it_is_told_to(store: Store) -> None:
    kinds = {
        sees: {source.kind for source in turn.question.evidence}
        for sees in (False, True)
        for _, [turn] in [await held("echosight", store, words=[f"systems.reader_sees={sees}"])]
    }
    assert kinds == {False: {Kind.TEXT}, True: {Kind.TEXT, Kind.IMAGE}}


def test_echosight_blends_half_a_document_s_visual_score_with_half_a_section_s_best_similarity() -> None:
    alike = [Hit(BY_ID["pic-skagen"], 0.8), Hit(BY_ID["pic-bus"], 0.1)]
    by_question = [Hit(BY_ID["bus-1"], 0.8), Hit(BY_ID["skagen-2"], 0.2)]
    by_picture = [Hit(BY_ID["skagen-2"], 0.4)]
    ranked = [(hit.source.id, round(hit.score, 6)) for hit in reranked(alike, [by_question, by_picture])]
    assert ranked == [("skagen-2", 0.6), ("bus-1", 0.45)]
    assert [hit.source.id for hit in reranked([], [by_question, by_picture])] == ["bus-1", "skagen-2"]


async def test_llava_mr2ag_looks_nothing_up_where_it_says_that_it_need_not(store: Store) -> None:
    trace, turns = await held("llava_mr2ag", store, {"Retrieve": "no", "Confidence": "0.9"})
    assert steps(turns) == ["Retrieve", "Answer"]
    assert not trace.lookups
    assert trace.evidence == ("hint", "own")


async def test_llava_mr2ag_answers_from_each_relevant_passage_by_itself(store: Store) -> None:
    about_skagen: Said = lambda turn: "yes" if any(id.startswith("skagen") for id in shown(turn)) else "no"  # noqa: E731
    trace, turns = await held(
        "llava_mr2ag", store, {"Retrieve": "yes", "Relevant": about_skagen, "Confidence": "0.5"}, texts=8
    )
    judged = [turn for turn in turns if steps([turn]) == ["Relevant"]]
    assert [shown(turn) - {"own"} for turn in judged] == [{id} for id in trace.lookups[-1].found]
    assert len(judged) > 2
    answers = [turn for turn in turns if turn.task is None]
    assert sorted(sorted(shown(turn) - {"hint", "own"}) for turn in answers) == [["skagen-1"], ["skagen-2"]]


async def test_llava_mr2ag_judges_a_passage_without_pictures_that_are_not_the_question_s_own(store: Store) -> None:
    fields = {"Retrieve": "yes", "Relevant": "yes", "Confidence": "0.5"}
    _, turns = await held("llava_mr2ag", store, fields, item=WITHOUT, texts=1, pictures=1)
    assert [(step, len(shown(turn))) for step, turn in zip(steps(turns), turns, strict=True)] == [
        ("Retrieve", 0),
        ("Relevant", 1),
        ("Answer", 2),
    ]


async def test_llava_mr2ag_gives_the_answer_with_the_largest_product_of_scores(store: Store) -> None:
    def answer(turn: Turn) -> str:
        return answered("Winstrup", 1.0) if "skagen-2" in shown(turn) else answered("Palladio", 0.1)

    fields: dict[str, Said] = {"Retrieve": "yes", "Relevant": "yes", "Confidence": "0.5"}
    trace, _ = await held("llava_mr2ag", store, fields, answer, WITHOUT)
    assert trace.answer == "Winstrup"
    fields["Confidence"] = lambda turn: "0.01" if "skagen-2" in shown(turn) else "1"
    trace, _ = await held("llava_mr2ag", store, fields, answer, WITHOUT)
    assert trace.answer == "Palladio"


async def test_llava_mr2ag_judges_passages_of_the_pages_that_look_like_the_picture(crowded: Store) -> None:
    trace, turns = await held("llava_mr2ag", crowded, {"Retrieve": "yes", "Relevant": "no"}, item=CROWDED)
    assert trace.lookups[0].query == "source own"
    assert turns[0].task is not None
    assert [field.name for field in turns[0].task.fields] == ["Retrieve"]
    judged = [shown(turn) - {"own"} for turn in turns if steps([turn]) == ["Relevant"]]
    assert sorted(map(sorted, judged)) == [["bus-1"], ["skagen-1"], ["skagen-2"]]


async def test_llava_mr2ag_counts_the_likeness_of_a_passage_s_page(store: Store) -> None:
    def answer(turn: Turn) -> str:
        return answered("Winstrup" if "skagen-2" in shown(turn) else "Sisu", 0.5)

    # The bus' passage is the nearest to the question's words, its picture the less like the question's.
    judged: Said = lambda turn: "yes" if shown(turn) & {"bus-1", "skagen-2"} else "no"  # noqa: E731
    trace, _ = await held("llava_mr2ag", store, {"Retrieve": "yes", "Relevant": judged}, answer)
    assert trace.lookups[-1].found[0] == "bus-1"
    assert trace.answer == "Winstrup"


@pytest.mark.parametrize(("stated", "counts"), [("90%", 0.9), ("90", 0.5), ((), 0.5)])
async def test_llava_mr2ag_counts_a_confidence_that_is_not_a_share_as_one_half_and_the_verdict_all_the_same(
    stated: Said, counts: float, store: Store
) -> None:
    fields: dict[str, Said] = {"Retrieve": "yes", "Relevant": "yes", "Confidence": stated}
    trace, turns = await held("llava_mr2ag", store, fields)
    verdicts = [message for message in trace.turns if message.values("Relevant") == ("yes",)]
    assert [certainty(message) for message in verdicts] == [counts] * 3
    assert {message.calls for message in verdicts} == {1}
    assert len([turn for turn in turns if turn.task is None]) == 3


def test_llava_mr2ag_picks_among_those_that_have_an_answer_and_the_first_of_equal_ones() -> None:
    a, b, c = (
        Message(f"{n}/single", "single", n, answer=said, confidence=0.5) for n, said in enumerate((None, "b", "c"))
    )
    assert best_answer([a, b, c], [1.0, 0.2, 0.2]) is b
    assert best_answer([a, b, c], [1.0, 0.0, 0.1]) is c
    assert best_answer([a, replace(b, answer=None)], [0.1, 0.2]) is a


async def test_core_mmrag_reconciles_an_answer_without_evidence_and_one_from_the_page_chosen_by_picture_and_text(
    crowded: Store,
) -> None:
    trace, turns = await held(
        "core_mmrag", crowded, {"Selected": "2"}, lambda turn: answered(f"answer {turn.round}", 0.5), CROWDED
    )
    assert steps(turns) == ["Answer", "Selected", "Answer", "Answer"]
    internal, choice, external, final = turns
    assert shown(internal) == {"hint", "own"}
    assert trace.lookups[0].query == "source own"
    assert shown(choice) == {"hint", "own", "pic-skagen", "skagen-1", "skagen-2", "pic-bus", "bus-1"}
    assert choice.task is not None
    numbers = {source.id: n for n, source in enumerate(choice.question.evidence, 1)}
    assert choice.task.inputs[1].line == f"Candidate 2: Red Bus: [{numbers['pic-bus']}], [{numbers['bus-1']}]"
    assert shown(external) == shown(final) == {"hint", "own", "pic-bus", "bus-1"}
    assert not external.heard
    assert [heard.message.answer for heard in final.heard] == ["answer 1", "answer 3"]
    assert trace.answer == "answer 4"


async def test_core_mmrag_takes_the_page_that_looks_most_alike_where_none_is_chosen(store: Store) -> None:
    for fields in ({}, {"Selected": "9"}, {"Selected": "none"}):
        _, turns = await held("core_mmrag", store, fields)
        assert steps(turns) == ["Answer", "Selected", "Answer", "Answer"]
        assert shown(turns[2]) == {"hint", "own", "pic-skagen", "skagen-1", "skagen-2"}


async def test_core_mmrag_puts_what_words_find_together_by_page_where_there_is_no_picture(store: Store) -> None:
    _, turns = await held("core_mmrag", store, {"Selected": "1"}, item=WITHOUT, texts=8)
    assert shown(turns[2]) == {"pic-skagen", "skagen-1", "skagen-2"}


async def test_core_mmrag_keeps_the_internal_answer_where_nothing_is_found(store: Store) -> None:
    alone = replace(WITH_PICTURE, pool=("hint", "own"))
    trace, turns = await held("core_mmrag", store, item=alone)
    assert (steps(turns), trace.answer) == (["Answer"], "Winstrup")


async def test_on_the_sample_what_is_retrieved_tells_and_knowledge_alone_does_not(tmp_path: Path) -> None:
    write_sample(tmp_path / "sample", seed=3, train=0, dev=10)
    data = Mmqa.at(tmp_path / "sample")
    items = list(data.evaluate())
    store = Store.open(tmp_path / "index", data.corpus, LexicalEncoder())
    utility = {}
    for name in (*ZERO_SHOT, *RETRIEVING):
        # The sample's questions have no pictures of their own: what is found among pictures is all that these tell.
        config = load([f"experiment={name}", "systems.reader_sees=true"])
        library = LabelledLibrary(Evidence(store, config.retrieval), items)
        team = ScriptedSpeaker((SINGLE, *SYSTEMS[name].roles))
        method = topology(name, library, config)
        traces = [await method.answer(item.question, team.ask, 1) for item in items]
        utility[name] = sum(data.score(item, t.answer).utility for item, t in zip(items, traces, strict=True))
    assert max(utility[name] for name in ZERO_SHOT) == 0
    assert min(utility[name] for name in RETRIEVING) > 0
