"""The embedded reader fills the form of any task with what it extracts from its prompt."""

import asyncio
from dataclasses import replace

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
from actors.reader.question import parts
from actors.reader.reader import Reader, ReaderSettings
from actors.reader.statements import NOTHING, numbered
from actors.settings import AgentSettings

EXACT = ReaderSettings(skill=1.0, noise=0.0)
YES_NO = ("yes", "no")
NUMBERS, SHARE, ANSWER = {"value": Value.NUMBERS}, {"value": Value.SHARE}, {"value": Value.ANSWER}
FIELDS = {
    name: Field(FieldKind(name), "what belongs here", **options)
    for name, options in {
        **{verdict: {"values": YES_NO} for verdict in ("Enough", "Relevant", "Retrieve", "Supported", "Visual")},
        "Action": {"values": ("texts", "pictures", "finish")},
        "Answer": ANSWER,
        "Candidate": {"many": True},
        "Confidence": SHARE,
        "Description": {},
        "Entity": {"many": True},
        "Instruction": {},
        "Intents": {"values": ("1", "2", "3")},
        "Keyword": {"many": True},
        "Parents": {"optional": True, **NUMBERS},
        "Query": {},
        "Selected": {"optional": True, **NUMBERS},
        "Side": {"values": ("b", "c", "neither")},
        "Step": {"many": True, "tools": ("texts", "pictures"), "value": Value.CALL},
        "Sub-question": {"many": True},
        "Summary": {},
        "Theme": {"many": True},
        "Thought": {},
        "Triple": {"many": True, "value": Value.TRIPLE},
        "Type": {"values": ("Question", "Retrieval", "Answer", "Stop")},
    }.items()
}

ROW = Source("t:0", "t", Kind.TABLE, "Mira Holt - Films", "Film = Night Harbour; Year = 1988; Role = Anna")
OTHER_ROW = Source("t:1", "t", Kind.TABLE, "Mira Holt - Films", "Film = Paper Moon; Year = 1995; Role = The nurse")
DIRECTED = Source("p1", "p1", Kind.TEXT, "Night Harbour", "Night Harbour was directed by Paul Venn.")
TOWN = Source("p2", "p2", Kind.TEXT, "Torley", "Torley is a town on the river Amsel. Its market is held in the spring.")
POSTER = Source("i1", "i1", Kind.IMAGE, "Night Harbour", "The poster shows three red boats and a green dog.", "a.png")
EVIDENCE = (TOWN, ROW, OTHER_ROW, DIRECTED, POSTER)
ASKED = "Who directed Night Harbour?"
BRIDGED = "Who directed the film that had Mira Holt as Anna?"


def message_with(line: str, agent: str = "b", round: int = 1) -> Message:
    """A reply to a task, from its fields as a discussion shows them."""
    fields = tuple((name, value) for part in line.split("; ") for name, _, value in [part.partition(": ")])
    return Message(f"{round}/{agent}", agent, round, content=line, fields=fields)


def do(
    text: str,
    *fields: str | Field,
    inputs: tuple[InputLine, ...] = (),
    evidence: tuple[Source, ...] = EVIDENCE,
    heard: tuple[Message, ...] = (),
    directive: Directive = NO_DIRECTIVE,
) -> Message:
    form = tuple(FIELDS[field] if isinstance(field, str) else field for field in fields)
    turn = Turn(
        "d",
        Question("q", text, (), evidence),
        "decision",
        9,
        5,
        tuple(Heard(message, 1.0) for message in heard),
        task=Task("Do what the form asks for.", form, inputs),
        directive=directive,
    )
    return asyncio.run(RoleAgent(DECISION, Reader(EXACT)).take(turn)).message


def test_every_kind_of_field_is_filled_and_read_back() -> None:
    node = InputLine(FieldKind.NODE, f"Retrieval: {BRIDGED}", 1, "Night Harbour was directed by Paul Venn.")
    message = do(BRIDGED, *FIELDS, inputs=(InputLine(FieldKind.ANSWER, "Paul Venn", 1), node))
    assert message.status is Status.OK
    assert {name for name, _ in message.fields} == set(FIELDS)


@pytest.mark.parametrize("name", FIELDS)
def test_every_kind_of_field_is_filled_without_evidence(name: str) -> None:
    assert do(BRIDGED, name, evidence=()).status is Status.OK


def test_a_field_of_a_kind_that_only_inputs_have_is_not_filled() -> None:
    message = do(BRIDGED, Field(FieldKind.NODE, "a node"))
    assert message.status is Status.UNPARSED
    assert message.fields == ()


def test_nothing_is_said_where_there_is_nothing_to_say() -> None:
    nothing = do("Who wrote Silver Lake?", "Selected", "Answer", "Enough", "Relevant", evidence=())
    assert nothing.values("Selected") == ()
    assert nothing.values("Answer") == ()
    assert nothing.values("Enough") == nothing.values("Relevant") == ("no",)


def test_only_values_that_the_form_allows_are_given() -> None:
    way = Field(FieldKind.ACTION, "", ("look_up", "see_image", "stop"))
    unseen = "What colour are the boats on the poster of Silver Lake?"
    assert do(unseen, way, evidence=()).values("Action") == ("see_image",)
    assert do("Where was Silver Lake filmed?", way, evidence=()).values("Action") == ("look_up",)
    assert do(ASKED, way).values("Action") == ("stop",)
    assert do(ASKED, Field(FieldKind.ENOUGH, "", ("surely", "hardly"))).values("Enough") == ("surely",)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Who wrote Silver Lake?", ("Who wrote Silver Lake?",)),
        (BRIDGED, ("Which film had Mira Holt as Anna?", BRIDGED)),
        (
            "What colour is the logo of the club whose captain is Paul Venn?",
            (
                "Which club whose captain is Paul Venn?",
                "What colour is the logo of the club whose captain is Paul Venn?",
            ),
        ),
    ],
)
def test_a_described_thing_is_a_question_of_its_own(text: str, expected: tuple[str, ...]) -> None:
    assert parts(text) == expected


def test_intents_are_counted() -> None:
    assert do("Who wrote Silver Lake?", "Intents").values("Intents") == ("1",)
    assert do(BRIDGED, "Intents", "Sub-question").values("Intents") == ("2",)


def test_a_name_that_was_found_is_looked_up_next_and_nothing_twice() -> None:
    first = do(BRIDGED, "Query", evidence=()).values("Query")
    assert first == ("Which film had Mira Holt as Anna?",)
    played = Source("p3", "p3", Kind.TEXT, "Mira Holt", "Mira Holt played in Night Harbour.")
    assert do(BRIDGED, "Query", evidence=(played,)).values("Query") == ("Night Harbour",)
    again = do(BRIDGED, "Query", evidence=(), heard=(message_with(f"Query: {first[0]}"),))
    assert again.values("Query") == (BRIDGED,)


def test_relevance_tells_a_source_that_bears_on_the_question_from_one_that_does_not() -> None:
    assert do(ASKED, "Relevant", evidence=(DIRECTED,)).values("Relevant") == ("yes",)
    assert do(ASKED, "Relevant", evidence=(TOWN,)).values("Relevant") == ("no",)


def test_candidates_are_selected_by_their_numbers_and_the_evidence_where_there_are_none() -> None:
    candidates = (
        InputLine(FieldKind.CANDIDATE, "Torley is a town.", 1),
        InputLine(FieldKind.CANDIDATE, "Night Harbour | was directed by | Paul Venn", 2),
    )
    assert do(ASKED, "Selected", inputs=candidates, evidence=()).values("Selected") == ("2",)
    assert do(ASKED, "Selected").values("Selected")[0].split(", ")[0] == "4"


def test_a_candidate_is_worth_what_the_sources_that_it_names_state() -> None:
    shown = ("[1]", "[3]", "[4], [5]")
    candidates = tuple(InputLine(FieldKind.CANDIDATE, f"Page: {sources}", n) for n, sources in enumerate(shown, 1))
    single = replace(FIELDS["Selected"], most=1)
    assert do(ASKED, single, inputs=candidates).values("Selected") == ("3",)
    assert do("Where is the market of Torley held?", single, inputs=candidates).values("Selected") == ("1",)


def test_a_required_number_is_named_even_if_nothing_fits() -> None:
    candidates = (InputLine(FieldKind.CANDIDATE, "Amsel", 1), InputLine(FieldKind.CANDIDATE, "Torley", 2))
    required = replace(FIELDS["Selected"], optional=False)
    assert do(ASKED, required, inputs=candidates, evidence=()).values("Selected") == ("1",)
    assert do(ASKED, "Selected", inputs=candidates, evidence=()).status is Status.OK


def test_what_does_not_bear_on_the_question_is_not_summed_up() -> None:
    form = (FIELDS["Relevant"], replace(FIELDS["Summary"], optional=True))
    assert do(ASKED, *form, evidence=(TOWN,)).fields == (("Relevant", "no"),)


def test_a_row_and_the_passage_about_one_of_its_cells_are_selected_together() -> None:
    selected = do(BRIDGED, "Selected").values("Selected")[0].split(", ")
    assert {"2", "4"} <= set(selected)
    assert "1" not in selected


@pytest.mark.parametrize(("answer", "verdict"), [("Paul Venn", "yes"), ("Torley", "no")])
def test_the_own_answer_alone_is_supported(answer: str, verdict: str) -> None:
    line = InputLine(FieldKind.ANSWER, answer, 1)
    assert do(ASKED, "Supported", inputs=(line,)).values("Supported") == (verdict,)


def test_a_side_with_the_same_answer_is_preferred() -> None:
    def judged(evidence: tuple[Source, ...], **answers: str) -> Message:
        heard = tuple(message_with(f"Thought: I say so; Answer: {text}", agent) for agent, text in answers.items())
        return do(ASKED, "Side", "Candidate", evidence=evidence, heard=heard)

    differing = judged(EVIDENCE, b="Torley", c="Paul Venn")
    assert differing.values("Side") == ("c",)
    assert differing.values("Candidate") == ("Torley", "Paul Venn")
    assert judged((), b="unknown", c="unknown").values("Side") == ("neither",)


def test_parts_have_the_answer_to_the_whole_where_it_is_known() -> None:
    pair = replace(FIELDS["Sub-question"], value=Value.PAIR)
    asked = "Who directed the film that has three red boats on its poster?"
    part = "Which film has three red boats on its poster? | uncertain"
    assert do(asked, pair, evidence=(DIRECTED, POSTER)).values("Sub-question") == (part, f"{asked} | Paul Venn")
    assert do(asked, pair, evidence=()).values("Sub-question") == (part, f"{asked} | uncertain")


def test_statements_give_triples() -> None:
    assert do(ASKED, "Triple", evidence=(DIRECTED,)).values("Triple") == (
        "Night Harbour | was directed by | Paul Venn",
    )
    assert "Night Harbour | Year | 1988" in do(BRIDGED, "Triple", evidence=(ROW,)).values("Triple")
    seen = do("What is on the poster of Night Harbour?", "Triple", evidence=(POSTER,)).values("Triple")
    assert seen == ("Night Harbour | shows | The poster shows three red boats and a green dog",)


def test_triples_that_were_found_are_not_found_again() -> None:
    found = InputLine(FieldKind.FOUND, "Night Harbour | was directed by | Paul Venn")
    optional = replace(FIELDS["Triple"], optional=True)
    repeated = do(ASKED, optional, inputs=(found,), evidence=(DIRECTED,))
    assert (repeated.status, repeated.fields) == (Status.OK, ())


def test_a_given_graph_keeps_what_bears_on_the_question_and_gains_what_was_read() -> None:
    graph = (
        InputLine(FieldKind.TRIPLE, "Torley | lies on | Amsel"),
        InputLine(FieldKind.TRIPLE, "Night Harbour | was shot in | Calver"),
    )
    triples = do(ASKED, "Triple", inputs=graph, evidence=(DIRECTED,)).values("Triple")
    assert "Night Harbour | was directed by | Paul Venn" in triples
    assert "Torley | lies on | Amsel" not in triples


def test_a_plan_searches_then_answers_then_stops() -> None:
    question = InputLine(FieldKind.NODE, f"Question: {BRIDGED}", 1)
    form = ("Type", "Parents", "Instruction")
    first = do(BRIDGED, *form, inputs=(question,), evidence=())
    assert first.fields == (("Type", "Retrieval"), ("Instruction", "Which film had Mira Holt as Anna?"))
    found = "Mira Holt played in Night Harbour."
    film = InputLine(FieldKind.NODE, "Retrieval (from 1): Which film had Mira Holt as Anna?", 2, found)
    second = do(BRIDGED, *form, inputs=(question, film), evidence=())
    assert second.fields == (("Type", "Retrieval"), ("Parents", "2"), ("Instruction", "Night Harbour"))
    directed = InputLine(FieldKind.NODE, "Retrieval (from 2): Night Harbour", 3, f"{ROW.title}: {ROW.text}")
    third = do(BRIDGED, *form, inputs=(question, film, directed), evidence=())
    assert third.values("Type") == ("Answer",)
    answered = InputLine(FieldKind.NODE, f"Answer (from 2, 3): {BRIDGED}", 4, "Paul Venn")
    last = do(BRIDGED, *form, inputs=(question, film, directed, answered), evidence=())
    assert last.values("Type") == ("Stop",)


def test_steps_pair_a_tool_of_the_task_with_each_part() -> None:
    steps = do("Who directed the film that shows red boats on its poster?", "Step", evidence=()).values("Step")
    assert steps[0] == "pictures | Which film shows red boats on its poster?"
    assert steps[-1] == "texts | Who directed the film that shows red boats on its poster?"


def test_a_description_repeats_what_pictures_show_and_a_summary_what_bears_on_the_question() -> None:
    message = do("What is on the poster of Night Harbour?", "Description", "Summary")
    assert "three red boats" in message.values("Description")[0]
    assert "Torley" not in message.values("Summary")[0]
    optional = replace(FIELDS["Description"], optional=True)
    assert do("What is on the poster of Night Harbour?", optional, evidence=(TOWN,)).fields == ()


def test_keywords_are_names_and_the_theme_is_what_is_asked_for() -> None:
    message = do("Which traditional dish is eaten in Torley?", "Keyword", "Theme")
    assert message.values("Keyword") == ("Torley",)
    assert message.values("Theme") == ("traditional dish",)


def test_orders_to_argue_reach_the_answer_of_a_task_and_nothing_else() -> None:
    plain = do(ASKED, "Triple", "Answer")
    led = do(ASKED, "Triple", "Answer", directive=Directive(argue_for="Torley"))
    assert led.status is Status.OK
    assert led.values("Answer") == ("Torley",)
    assert led.values("Triple") == plain.values("Triple")


@pytest.mark.parametrize(
    ("budget", "fields"),
    [
        (None, (("Enough", "no"), ("Answer", "Paul Venn"), ("Selected", "1"), ("Query", "Which film?"))),
        (4, ()),
    ],
)
def test_a_message_whose_text_is_cut_has_no_fields(budget: int | None, fields: object) -> None:
    heard = Heard(message_with("Enough: no; Answer: Paul Venn; Selected: 1; Query: Which film?"), 0.5)
    turn = Turn("d", Question("q", "Who?"), "a", 2, 5, (heard,))
    prompted = build_request(turn, Role("", Modality.BOTH, "A role."), (), AgentSettings(budget_words=budget)).parts
    assert isinstance(prompted, Prompted)
    (remark,) = prompted.discussion
    assert (remark.fields, remark.weight) == (fields, 0.5)


def test_what_the_reader_says_for_want_of_anything_is_no_statement() -> None:
    thought = do("Who wrote Silver Lake?", "Thought", evidence=()).values("Thought")[0]
    heard = (message_with(f"Thought: {thought}"),)
    assert do("Who wrote Silver Lake?", "Answer", evidence=(), heard=heard).values("Answer") == ()


def test_an_input_that_says_that_nothing_was_found_is_no_statement() -> None:
    question = InputLine(FieldKind.NODE, "Question: Who wrote Silver Lake?", 1)
    node = InputLine(FieldKind.NODE, "Retrieval (from 1): Silver Lake", 2, "nothing found")
    message = do("Who wrote Silver Lake?", "Thought", inputs=(question, node), evidence=())
    assert message.status is Status.OK
    assert message.values("Thought") == (NOTHING,)


def test_long_sentences_leave_room_for_the_fields_behind_them() -> None:
    long = Source("p", "p", Kind.TEXT, "Night Harbour", f"Night Harbour was directed by {'very ' * 400}old Paul Venn.")
    message = do(ASKED, "Thought", "Summary", "Answer", evidence=(long,))
    assert [name for name, _ in message.fields][:2] == ["Thought", "Summary"]
    assert message.status is Status.OK


def test_a_no_among_the_inputs_is_a_statement() -> None:
    candidates = (InputLine(FieldKind.CANDIDATE, "no", 1),)
    message = do("Is Torley a village?", "Thought", inputs=candidates, evidence=())
    assert message.values("Thought") == ("no.",)


@given(
    st.lists(st.sampled_from(sorted(FIELDS)), min_size=1, max_size=4, unique=True),
    st.lists(st.text(max_size=40), max_size=4),
    st.text(max_size=40),
)
def test_no_wording_breaks_a_task(names: list[str], texts: list[str], text: str) -> None:
    lines = tuple(InputLine(FieldKind.CANDIDATE, line, n) for n, line in enumerate(texts))
    task = Task(text, tuple(FIELDS[name] for name in names), lines)
    turn = Turn("d", Question("q", text, (), EVIDENCE), "decision", 1, derive_seed(text), task=task)
    completion = Reader(EXACT).read(build_request(turn, Role("", Modality.BOTH, DECISION.instruction)))
    reply = parsed(turn, read(form_of(turn), completion.text))
    assert completion.prompt_tokens > 0
    assert reply is None or {name for name, _ in reply.fields} <= set(names)


def test_an_answer_goes_by_what_its_turn_is_given_and_by_what_tasks_brought_to_light() -> None:
    found = (
        InputLine(FieldKind.FOUND, "Paper Moon was directed by Paul Venn."),
        InputLine(FieldKind.NODE, "Retrieval (from 1): Find where he was born.", 2, "Paul Venn was born in Torley."),
    )
    heard = (Heard(message_with("Triple: Night Harbour | was directed by | Paul Venn"), 1.0),)
    for turn, expected in (
        (Turn("d", Question("q", "Who directed Paper Moon?"), "decision", 9, 5, inputs=found), "Paul Venn"),
        (Turn("d", Question("q", "Where was Paul Venn born?"), "decision", 9, 5, inputs=found), "Torley"),
        (Turn("d", Question("q", ASKED), "decision", 9, 5, heard), "Paul Venn"),
        (Turn("d", Question("q", ASKED), "decision", 9, 5), None),
    ):
        message = asyncio.run(RoleAgent(DECISION, Reader(EXACT)).take(turn)).message
        assert (message.status, message.answer) == (Status.OK, expected)


def test_a_given_line_without_a_number_has_its_place_in_its_kind() -> None:
    lines = (
        InputLine(FieldKind.FOUND, "a\nb"),
        InputLine(FieldKind.CANDIDATE, "x", 2),
        InputLine(FieldKind.FOUND, "c"),
    )
    assert [(line.text, line.number) for line in numbered(lines)] == [("a b", 1), ("x", 2), ("c", 2)]
