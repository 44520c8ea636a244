"""The embedded reader does tasks: it fills the lines of a form from its prompt alone, or visibly does not."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.agents.role_agent import RoleAgent
from actors.agents.roles import DECISION
from actors.messages import (
    NO_DIRECTIVE,
    Directive,
    Field,
    FieldKind,
    Heard,
    InputLine,
    Kind,
    Message,
    Modality,
    Prompted,
    Question,
    Role,
    Source,
    Status,
    Task,
    Turn,
    Value,
    derive_seed,
)
from actors.prompting.form import form_of
from actors.prompting.prompt import build_request
from actors.prompting.reply import read
from actors.prompting.reply import reply_of as parsed
from actors.reader.grading import agree
from actors.reader.question import described, parts
from actors.reader.reader import Reader, ReaderSettings
from actors.reader.statements import numbered, read_statement
from actors.reader.tasks import SKILLS, triples_of
from actors.settings import AgentSettings
from experiments.datasets.mmqa import Mmqa
from experiments.datasets.sample.release import write_sample

EXACT = ReaderSettings(skill=1.0, noise=0.0)
YES_NO = ("yes", "no")
VALUES = {
    **dict.fromkeys(("Enough", "Relevant", "Retrieve", "Supported", "Visual"), YES_NO),
    "Action": ("texts", "pictures", "answer"),
    "Intents": ("1", "2", "3"),
    "Side": ("b", "c", "neither"),
    "Type": ("Question", "Retrieval", "Answer", "Stop"),
}
MANY = frozenset(("Candidate", "Entity", "Keyword", "Step", "Sub-question", "Theme", "Triple"))
OPTIONAL = frozenset(("Parents", "Selected"))

ROW = Source("t:0", "t", Kind.TABLE, "Mira Holt - Films", "Film = Night Harbour; Year = 1988; Role = Anna")
OTHER_ROW = Source("t:1", "t", Kind.TABLE, "Mira Holt - Films", "Film = Paper Moon; Year = 1995; Role = The nurse")
DIRECTED = Source("p1", "p1", Kind.TEXT, "Night Harbour", "Night Harbour was directed by Paul Venn.")
TOWN = Source("p2", "p2", Kind.TEXT, "Torley", "Torley is a town on the river Amsel. Its market is held in the spring.")
POSTER = Source("i1", "i1", Kind.IMAGE, "Night Harbour", "The poster shows three red boats and a green dog.", "a.png")
EVIDENCE = (TOWN, ROW, OTHER_ROW, DIRECTED, POSTER)
BRIDGED = "Who directed the film that had Mira Holt as Anna?"


def field(name: str) -> Field:
    return Field(
        FieldKind(name),
        "what belongs here",
        VALUES.get(name, ()),
        name in MANY,
        name in OPTIONAL,
        most=8 if name == "Triple" else None,
        tools=("texts", "pictures") if name == "Step" else (),
    )


def reply_of(line: str, agent: str = "b", round: int = 1) -> Message:
    """A reply to a task, from its fields as a discussion shows them."""
    fields = tuple((name, value) for part in line.split("; ") for name, _, value in [part.partition(": ")])
    return Message(f"{round}/{agent}", agent, round, content=line, fields=fields)


def answer(text: str, number: int = 1) -> InputLine:
    return InputLine(FieldKind.ANSWER, text, number)


def do(
    text: str,
    *names: str,
    inputs: tuple[InputLine, ...] = (),
    evidence: tuple[Source, ...] = EVIDENCE,
    instruction: str = "Do what the form asks for.",
    heard: tuple[str, ...] = (),
    directive: Directive = NO_DIRECTIVE,
    settings: ReaderSettings = EXACT,
    fields: tuple[Field, ...] = (),
    choices: tuple[str, ...] = (),
) -> Message:
    said = tuple(Heard(reply_of(line, round=n), 1.0) for n, line in enumerate(heard))
    task = Task(instruction, fields or tuple(map(field, names)), inputs)
    turn = Turn("d", Question("q", text, choices, evidence), "decision", 9, 5, said, task=task, directive=directive)
    return asyncio.run(RoleAgent(DECISION, Reader(settings)).take(turn)).message


def test_every_kind_of_line_can_be_filled_and_read_back() -> None:
    given = (answer("Paul Venn"), answer("Torley", 2), InputLine(FieldKind.NODE, f"Question: {BRIDGED}", 1))
    message = do(BRIDGED, *SKILLS, inputs=given)
    assert message.status is Status.OK
    assert {name for name, _ in message.fields} | {"Parents"} == set(SKILLS)


def test_the_same_request_gets_the_same_reply() -> None:
    settings = ReaderSettings()
    assert do(BRIDGED, *SKILLS, settings=settings) == do(BRIDGED, *SKILLS, settings=settings)


def test_a_line_of_a_kind_without_a_skill_is_not_filled() -> None:
    message = do(BRIDGED, "Node")
    assert message.status is Status.UNPARSED
    assert message.fields == ()


def test_nothing_is_said_where_there_is_nothing_to_say() -> None:
    nothing = do("Who wrote Silver Lake?", "Selected", "Answer", "Enough", "Relevant", evidence=())
    assert nothing.values("Selected") == ()
    assert nothing.values("Answer") == ("unknown",)
    assert nothing.values("Enough") == nothing.values("Relevant") == ("no",)


def test_only_values_that_the_form_allows_are_given() -> None:
    three = Field(FieldKind.ACTION, "", ("look_up", "see_image", "finish"))
    assert do("What colour are the boats on the poster of Silver Lake?", fields=(three,)).values("Action") == (
        "see_image",
    )
    assert do("Where was Silver Lake filmed?", fields=(three,), evidence=()).values("Action") == ("look_up",)
    assert do("Who directed Night Harbour?", fields=(three,)).values("Action") == ("finish",)
    strange = do(BRIDGED, fields=(Field(FieldKind.ENOUGH, "", ("maybe", "perhaps")),))
    assert strange.status is Status.UNPARSED


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Who wrote Silver Lake?", ("Who wrote Silver Lake?",)),
        (BRIDGED, ("Which film had Mira Holt as Anna?", BRIDGED)),
        (
            "What colour is the logo of the club whose captain is Paul Venn?",
            (
                "Which club is it whose captain is Paul Venn?",
                "What colour is the logo of the club whose captain is Paul Venn?",
            ),
        ),
        (
            "Which came out first: Paper Moon or the film with boats on its poster?",
            (
                "Which film has boats on its poster?",
                "Which came out first: Paper Moon or the film with boats on its poster?",
            ),
        ),
        (
            "What information supports the conclusion that Seth acquired this trait?",
            ("What information supports the conclusion that Seth acquired this trait?",),
        ),
        (
            "Which figure of speech is used in this text? Would you be careful? That cost a million!",
            ("Which figure of speech is used in this text? Would you be careful? That cost a million!",),
        ),
    ],
)
def test_a_question_is_taken_apart_by_its_wording(text: str, expected: tuple[str, ...]) -> None:
    assert parts(text) == expected


def test_the_number_of_intents_is_that_of_the_parts_up_to_three() -> None:
    assert do("Who wrote Silver Lake?", "Intents").values("Intents") == ("1",)
    assert do(BRIDGED, "Intents", "Sub-question").values("Intents") == ("2",)


def test_multi_hop_questions_of_the_sample_are_split_and_name_what_they_describe(tmp_path: Path) -> None:
    write_sample(tmp_path / "sample", seed=5, train=0, dev=60)
    hops = [
        item.question.text
        for item in Mmqa.at(tmp_path / "sample").evaluate()
        if item.tags["type"].startswith(("Compose", "Compare"))
    ]
    split = [parts(text) for text in hops if len(parts(text)) > 1]
    assert len(split) >= 0.9 * len(hops)
    for text, pieces in zip([text for text in hops if len(parts(text)) > 1], split, strict=True):
        assert {thing.question for thing in described(text)} <= set(pieces)


def test_what_was_found_is_named_in_the_next_question() -> None:
    one = Field(FieldKind.SUB_QUESTION, "the next thing to find out")
    first = do(BRIDGED, "Query", evidence=()).values("Query")
    assert first == ("Which film had Mira Holt as Anna?",)
    assert do(BRIDGED, fields=(one,), evidence=(ROW, OTHER_ROW)).values("Sub-question") == (
        "Who directed Night Harbour?",
    )
    again = do(BRIDGED, "Query", evidence=(), heard=(f"Query: {first[0]}",)).values("Query")
    assert again == (BRIDGED,)


def test_relevance_tells_a_source_that_bears_on_the_question_from_one_that_does_not() -> None:
    near = do("Who directed Night Harbour?", "Relevant", evidence=(DIRECTED,))
    far = do("Who directed Night Harbour?", "Relevant", evidence=(TOWN,))
    assert (near.values("Relevant"), far.values("Relevant")) == (("yes",), ("no",))


def test_candidates_are_selected_by_their_numbers_and_the_evidence_where_there_are_none() -> None:
    given = (
        InputLine(FieldKind.CANDIDATE, "Torley is a town.", 1),
        InputLine(FieldKind.CANDIDATE, "Night Harbour | was directed by | Paul Venn", 2),
    )
    assert do("Who directed Night Harbour?", "Selected", inputs=given, evidence=()).values("Selected") == ("2",)
    assert do("Who directed Night Harbour?", "Selected").values("Selected")[0].split(", ")[0] == "4"


def test_a_candidate_that_the_question_names_is_the_one_to_start_from() -> None:
    asked = "In the valley, in a fight with Zinogre: first it jumps back, then it roars. What is the second attack?"
    one = Field(FieldKind.SELECTED, "the number of one candidate", most=1)
    given = tuple(InputLine(FieldKind.CANDIDATE, name, n) for n, name in enumerate(("Anjanath", "Zinogre", "Amsel"), 1))
    assert do(asked, fields=(one,), inputs=given, evidence=()).values("Selected") == ("2",)


def test_a_candidate_that_names_what_is_shown_is_worth_what_that_says() -> None:
    given = tuple(
        InputLine(FieldKind.CANDIDATE, f"Page: {parts}", n) for n, parts in enumerate(("[1]", "[3]", "[4], [5]"), 1)
    )
    one = Field(FieldKind.SELECTED, "the number of one candidate", optional=True, most=1)
    assert do("Who directed Night Harbour?", fields=(one,), inputs=given).values("Selected") == ("3",)
    assert do("Where is the market of Torley held?", fields=(one,), inputs=given).values("Selected") == ("1",)


def test_a_question_that_points_at_its_picture_is_first_searched_by_it() -> None:
    form = (
        Field(FieldKind.ACTION, "", ("texts", "pictures", "similar", "web", "answer")),
        Field(FieldKind.SUB_QUESTION, "", optional=True),
        Field(FieldKind.QUERY, "", optional=True),
    )
    asked = "Who built this tower?"
    assert do(asked, fields=form, evidence=()).fields == (("Action", "similar"),)
    found = InputLine(FieldKind.FOUND, "pictures, shown to you: Skagen Beacon")
    later = do(asked, fields=form, evidence=(), inputs=(found,))
    assert later.fields[:2] == (("Action", "texts"), ("Sub-question", asked))
    assert do("Who built Silver Lake?", fields=form, evidence=()).values("Action") == ("texts",)
    tools = Field(FieldKind.STEP, "", many=True, optional=True, tools=("texts", "similar"), value=Value.CALL)
    assert do(asked, fields=(tools,), evidence=()).values("Step") == (f"similar | {asked}", f"texts | {asked}")


def test_what_does_not_bear_on_the_question_is_not_summed_up() -> None:
    form = (field("Relevant"), replace(field("Summary"), optional=True))
    assert do("Who directed Night Harbour?", fields=form, evidence=(TOWN,)).fields == (("Relevant", "no"),)


def test_a_row_and_the_passage_about_what_stands_in_it_are_selected_together() -> None:
    chosen = do(BRIDGED, "Selected").values("Selected")[0].split(", ")
    assert {"2", "4"} <= set(chosen)
    assert "1" not in chosen


def test_the_answer_that_the_evidence_bears_out_is_the_only_one_supported() -> None:
    asked = "Who directed Night Harbour?"
    assert do(asked, "Supported", inputs=(answer("Paul Venn"),)).values("Supported") == ("yes",)
    assert do(asked, "Supported", inputs=(answer("Torley"),)).values("Supported") == ("no",)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("Paul Venn", "paul venn.", True),
        ("Paul Venn", "It is Paul Venn", True),
        ("Paul Venn", "Torley", False),
        ("12", "twelve", True),
        ("", "", True),
        ("", "Torley", False),
    ],
)
def test_answers_are_compared_by_words_and_numbers(one: str, other: str, same: bool) -> None:
    assert agree(one, other) is agree(other, one) is same


def test_a_side_is_preferred_whose_answer_is_borne_out_or_on_which_both_agree() -> None:
    def judged(evidence: tuple[Source, ...], **answers: str) -> Message:
        heard = tuple(
            Heard(reply_of(f"Thought: I say so; Answer: {said}", agent), 0.5) for agent, said in answers.items()
        )
        task = Task("Say which.", (field("Side"), field("Candidate")))
        turn = Turn("d", Question("q", "Who directed Night Harbour?", (), evidence), "decision", 9, 5, heard, task=task)
        return asyncio.run(RoleAgent(DECISION, Reader(EXACT)).take(turn)).message

    differing = judged(EVIDENCE, b="Torley", c="Paul Venn")
    assert differing.values("Side") == ("c",)
    assert differing.values("Candidate") == ("Torley", "Paul Venn")
    assert judged((), b="Torley", c="Paul Venn").values("Side") == ("neither",)
    assert judged((), b="Torley", c="Torley").values("Side") == ("b",)


def test_parts_are_answered_where_the_words_tell_and_left_open_where_only_a_sight_can() -> None:
    pair = Field(FieldKind.SUB_QUESTION, "", many=True, value=Value.PAIR)
    film, director = do(BRIDGED, fields=(pair,)).values("Sub-question")
    assert film.endswith("? | Night Harbour")
    assert director == f"{BRIDGED} | uncertain"
    seen = do("What colour are the boats on the poster of Night Harbour?", fields=(pair,), evidence=(DIRECTED,))
    assert seen.values("Sub-question") == ("What colour are the boats on the poster of Night Harbour? | uncertain",)


def test_statements_give_triples() -> None:
    assert triples_of(read_statement("1", DIRECTED.title, DIRECTED.text, seen=False)) == [
        ("Night Harbour", "was directed by", "Paul Venn")
    ]
    assert ("Night Harbour", "Year", "1988") in triples_of(read_statement("1", ROW.title, ROW.text, seen=False))
    assert triples_of(read_statement("1", POSTER.title, POSTER.text, seen=True)) == [
        ("Night Harbour", "shows", "three red boats"),
        ("Night Harbour", "shows", "a green dog"),
    ]
    passage = "The architect of the museum was Paul Venn."
    assert triples_of(read_statement("1", "Wend Rooms", passage, seen=False)) == [
        ("Wend Rooms", "architect", "Paul Venn")
    ]


def test_a_given_graph_keeps_what_bears_on_the_question_and_gains_what_was_read() -> None:
    given = (
        InputLine(FieldKind.TRIPLE, "Torley | lies on | Amsel"),
        InputLine(FieldKind.TRIPLE, "Night Harbour | was shot in | Calver"),
    )
    kept = do("Who directed Night Harbour?", "Triple", inputs=given, evidence=(DIRECTED,)).values("Triple")
    assert "Night Harbour | was directed by | Paul Venn" in kept
    assert "Night Harbour | was shot in | Calver" in kept
    assert "Torley | lies on | Amsel" not in kept


def test_what_was_found_counts_as_read() -> None:
    given = (InputLine(FieldKind.FOUND, "Night Harbour: Night Harbour was directed by Paul Venn."),)
    assert do("Who directed Night Harbour?", "Answer", inputs=given, evidence=()).values("Answer") == ("Paul Venn",)
    told = ("Triple: Night Harbour | was directed by | Paul Venn",)
    assert do("Who directed Night Harbour?", "Answer", heard=told, evidence=()).values("Answer") == ("Paul Venn",)


def test_a_plan_retrieves_for_every_part_then_answers_then_stops() -> None:
    question = InputLine(FieldKind.NODE, f"Question: {BRIDGED}", 1)
    form = ("Type", "Parents", "Instruction")
    first = do(BRIDGED, *form, inputs=(question,), evidence=())
    assert (first.values("Type"), first.values("Instruction")) == (
        ("Retrieval",),
        ("Which film had Mira Holt as Anna?",),
    )
    found = "Mira Holt had the role of Anna in a film."
    film = InputLine(FieldKind.NODE, "Retrieval (from 1): Which film had Mira Holt as Anna?", 2, found)
    second = do(BRIDGED, *form, inputs=(question, film), evidence=())
    assert (second.values("Type"), second.values("Parents")) == (("Retrieval",), ("2",))
    nothing = InputLine(FieldKind.NODE, f"Retrieval (from 2): {BRIDGED}", 3, "nothing found")
    third = do(BRIDGED, *form, inputs=(question, film, nothing), evidence=())
    assert (third.values("Type"), third.values("Parents")) == (("Answer",), ("2, 3",))
    answered = InputLine(FieldKind.NODE, f"Answer (from 2, 3): {BRIDGED}", 4, "Paul Venn")
    last = do(BRIDGED, *form, inputs=(question, film, nothing, answered), evidence=())
    assert (last.values("Type"), last.values("Parents")) == (("Stop",), ("4",))


def test_steps_pair_a_tool_of_the_task_with_each_part() -> None:
    steps = do("Who directed the film with red boats on its poster?", "Step", evidence=()).values("Step")
    assert steps[0] == "pictures | Which film has red boats on its poster?"
    assert steps[-1] == "texts | Who directed the film with red boats on its poster?"


def test_a_description_repeats_what_pictures_show_and_a_summary_what_bears_on_the_question() -> None:
    message = do("What is on the poster of Night Harbour?", "Description", "Summary")
    assert "three red boats" in message.values("Description")[0]
    assert "Torley" not in message.values("Summary")[0]
    blind = do(
        "What is on the poster of Night Harbour?",
        fields=(replace(field("Description"), optional=True),),
        evidence=(TOWN,),
    )
    assert blind.fields == ()


def test_names_and_noun_groups_are_told_apart() -> None:
    message = do("Along the Ralam Railway, which traditional dish is eaten in Torley?", "Entity", "Keyword", "Theme")
    assert message.values("Entity") == ("Ralam Railway", "Torley")
    assert message.values("Theme")[0] == "traditional dish"
    assert {"Ralam Railway", "Torley", "traditional dish"} <= set(message.values("Keyword"))


def test_orders_to_argue_reach_the_answer_of_a_task_and_nothing_else() -> None:
    asked = "Who directed Night Harbour?"
    plain = do(asked, "Triple", "Answer")
    led = do(asked, "Triple", "Answer", directive=Directive(argue_for="Torley"))
    assert led.status is Status.OK
    assert led.values("Answer") == ("Torley",)
    assert led.values("Triple") == plain.values("Triple")


def test_an_answering_turn_reads_what_tasks_brought_to_light() -> None:
    heard = Heard(reply_of("Triple: Night Harbour | was directed by | Paul Venn"), 1.0)
    turn = Turn("d", Question("q", "Who directed Night Harbour?"), "decision", 2, 5, (heard,))
    assert asyncio.run(RoleAgent(DECISION, Reader(EXACT)).take(turn)).message.answer == "Paul Venn"


@pytest.mark.parametrize(
    ("budget", "fields"),
    [
        (None, (("Enough", "no"), ("Answer", "Paul Venn"), ("Selected", "1"), ("Query", "Which film?"))),
        (4, ()),
    ],
)
def test_a_message_whose_text_is_cut_has_no_fields(budget: int | None, fields: object) -> None:
    heard = Heard(reply_of("Enough: no; Answer: Paul Venn; Selected: 1; Query: Which film?"), 0.5)
    turn = Turn("d", Question("q", "Who?"), "a", 2, 5, (heard,))
    parts = build_request(turn, Role("", Modality.BOTH, "A role."), (), AgentSettings(budget_words=budget)).parts
    assert isinstance(parts, Prompted)
    (remark,) = parts.discussion
    assert (remark.fields, remark.weight) == (fields, 0.5)


def test_what_the_reader_says_for_want_of_anything_is_no_statement() -> None:
    thought = do("Who wrote Silver Lake?", "Thought", evidence=()).values("Thought")[0]
    assert do("Who wrote Silver Lake?", "Answer", evidence=(), heard=(f"Thought: {thought}",)).values("Answer") == (
        "unknown",
    )


line_text = st.text(max_size=40)


@given(
    st.lists(st.sampled_from(sorted(SKILLS)), min_size=1, max_size=4, unique=True),
    st.lists(line_text, max_size=4),
    line_text,
)
def test_no_wording_breaks_a_task(names: list[str], given_lines: list[str], text: str) -> None:
    task = Task(
        text,
        tuple(map(field, names)),
        tuple(InputLine(FieldKind.CANDIDATE, line, n) for n, line in enumerate(given_lines)),
    )
    turn = Turn("d", Question("q", text, (), EVIDENCE), "decision", 1, derive_seed(text), task=task)
    request = build_request(turn, Role("", Modality.BOTH, DECISION.instruction))
    completion = Reader(EXACT).read(request)
    reply = parsed(turn, read(form_of(turn), completion.text))
    assert completion.prompt_tokens > 0
    assert reply is None or {name for name, _ in reply.fields} <= set(names)


def test_an_answer_goes_by_what_its_turn_is_given() -> None:
    found = (
        InputLine(FieldKind.FOUND, "Paper Moon was directed by Paul Venn."),
        InputLine(FieldKind.NODE, "Retrieval (from 1): Find where he was born.", 2, "Paul Venn was born in Torley."),
    )
    for asked, expected in (("Who directed Paper Moon?", "Paul Venn"), ("Where was Paul Venn born?", "Torley")):
        turn = Turn("d", Question("q", asked), "decision", 9, 5, inputs=found)
        told = asyncio.run(RoleAgent(DECISION, Reader(EXACT)).take(turn)).message
        assert (told.status, told.answer) == (Status.OK, expected)
        assert asyncio.run(RoleAgent(DECISION, Reader(EXACT)).take(replace(turn, inputs=()))).message.answer is None


def test_material_without_a_number_goes_by_its_place_in_its_kind() -> None:
    lines = (
        InputLine(FieldKind.FOUND, "a\nb"),
        InputLine(FieldKind.CANDIDATE, "x", 2),
        InputLine(FieldKind.FOUND, "c"),
    )
    assert [(g.text, g.number) for g in numbered(lines)] == [("a b", 1), ("x", 2), ("c", 2)]
