"""The layout of a request: what is shared, in which order things come, and that no content can pass for a heading."""

from dataclasses import replace
from itertools import takewhile

import pytest

from actors.agents.role_agent import cut_more, least_relevant
from actors.agents.roles import TEXTUAL
from actors.messages import (
    Abilities,
    Completion,
    FieldKind,
    Heard,
    InputLine,
    Kind,
    Message,
    Modality,
    Question,
    Role,
    Source,
    Status,
    Turn,
)
from actors.prompting import prompt
from actors.prompting.form import AS_JSON, form_of, in_lines
from actors.prompting.prompt import build_request, with_own_evidence
from actors.settings import AgentSettings

SOURCES = (
    Source("t1", "t1", Kind.TEXT, "Ana Brix", "She was born in Tarn Hollow."),
    Source("i1", "i1", Kind.IMAGE, "A poster", "Two boats.", "poster.png"),
)
QUESTION = Question("q1", "Where was Ana Brix born?", evidence=SOURCES)


def turn(heard: tuple[Heard, ...] = (), question: Question = QUESTION) -> Turn:
    return Turn("d1", question, "text_critic", 1, seed=7, heard=heard)


def test_agents_of_one_modality_share_everything_before_what_is_their_own() -> None:
    first, second = (build_request(turn(), role) for role in TEXTUAL[:2])
    assert (first.system, first.shared, first.images, first.prefix) == (
        second.system,
        second.shared,
        second.images,
        second.prefix,
    )
    assert first.own != second.own


def test_a_modality_reads_its_own_kind_of_evidence_and_the_decision_agent_both() -> None:
    text, visual, both = (build_request(turn(), Role("", m, "")) for m in Modality)
    assert "Tarn Hollow" in text.shared
    assert not text.images
    assert "Tarn Hollow" not in visual.shared
    assert [(image.id, image.image) for image in visual.images] == [("2", "poster.png")]
    assert "Two boats" not in visual.shared, "what a picture shows is for the model to see"
    assert "Tarn Hollow" in both.shared
    assert both.images


def test_who_reads_everything_shares_it_with_all_others_that_do_whatever_the_modality() -> None:
    text, visual, both = (build_request(turn(), Role("", m, "", reads=Modality.BOTH)) for m in Modality)
    for request in (text, visual):
        assert (request.system, request.shared, request.images, request.prefix) == (
            both.system,
            both.shared,
            both.images,
            both.prefix,
        )
    # Its role tells it to look at pictures.
    blind = build_request(turn(question=ranked(1, 0)), Role("", Modality.VISUAL, "", reads=Modality.BOTH))
    assert prompt.NO_PICTURES in blind.own
    assert prompt.NO_PICTURES not in visual.own


def test_what_was_heard_comes_in_one_order_and_its_weights_after_the_role() -> None:
    said = [Message(f"1/{name}", name, 1, f"{name} speaks", name) for name in ("visual_critic", "text_scientist")]
    one = build_request(turn(heard=(Heard(said[0], 0.7), Heard(said[1], 0.3))), Role("", Modality.TEXT, "role"))
    other = build_request(turn(heard=(Heard(said[1], 0.3), Heard(said[0], 0.7))), Role("", Modality.TEXT, "role"))
    assert one.own == other.own
    assert one.own.index("text_scientist speaks") < one.own.index("visual_critic speaks") < one.own.index("## Role")
    assert one.own.index("## Role") < one.own.index(": 0.300, 0.700")


def test_a_source_goes_by_its_number_in_the_evidence_whatever_is_cut() -> None:
    text = build_request(turn(), Role("", Modality.TEXT, "")).shared
    assert "[1] Ana Brix" in text
    cut = build_request(turn(), Role("", Modality.BOTH, ""), cut=("t1",))
    assert "[2] A poster" in cut.shared
    assert "Ana Brix:" not in cut.shared
    assert [image.id for image in cut.images] == ["2"]


def test_a_source_goes_by_its_number_in_the_order_that_a_discussion_gives_its_evidence() -> None:
    part = replace(QUESTION, evidence=SOURCES[::-1], order=("t0", "t1", "t2", "i1"))
    request = build_request(turn(question=part), Role("", Modality.BOTH, ""))
    assert "[2] Ana Brix" in request.shared
    assert [image.id for image in request.images] == ["4"]
    # What an attacker adds has a number of its own.
    request = build_request(turn(question=replace(part, order=("i1", "i2"))), Role("", Modality.BOTH, ""))
    assert "[3] Ana Brix" in request.shared
    assert [image.id for image in request.images] == ["1"]


def test_a_budget_of_words_is_split_by_weight_and_leaves_the_answers() -> None:
    talk = " ".join(f"w{number}" for number in range(100))
    said = (Heard(Message("1/a", "a", 1, talk, "x"), 0.75), Heard(Message("1/b", "b", 1, talk, "y"), 0.25))
    settings = AgentSettings(budget_words=40)
    lines = build_request(turn(heard=said), Role("", Modality.TEXT, "role"), (), settings).own.splitlines()
    assert lines[1].endswith("w29 Answer: x")
    assert lines[2].endswith("w9 Answer: y")


def test_an_agent_is_not_shown_its_own_turns_that_said_nothing() -> None:
    said = [Message(f"{n}/x", "x", n, f"turn {n}", status=status) for n, status in enumerate(Status, 1)]
    own = build_request(turn(), Role("", Modality.TEXT, "role"), said).own
    assert "[x, round 1] turn 1" in own
    assert "turn 2" not in own
    assert "turn 3" not in own


def test_the_form_of_the_reply_comes_last() -> None:
    assert build_request(turn(), Role("", Modality.TEXT, "role")).own.endswith(
        f"{prompt.REPLY_FORM}\n{in_lines(form_of(turn()))}"
    )


def test_a_prompt_speaks_of_nothing_that_is_not_there() -> None:
    bare = build_request(turn(question=Question("q1", "Where?")), Role("", Modality.BOTH, "role"))
    whole = f"{bare.system}\n{bare.shared}\n{bare.own}".lower()
    assert not any(word in whole for word in ("picture", "passage", "evidence", "colleague", "others"))
    assert prompt.NOTHING_RETRIEVED in bare.own
    heard = (Heard(Message("1/x", "x", 1, "I looked it up", "here"), 1.0),)
    told = build_request(turn(heard, question=Question("q1", "Where?")), Role("", Modality.BOTH, "role"))
    assert prompt.NOTHING_RETRIEVED not in told.own
    lines = (InputLine(FieldKind.NODE, "Retrieval: find it", 2, "it is\nhere"),)
    given = build_request(
        replace(turn(question=Question("q1", "Where?")), inputs=lines), Role("", Modality.BOTH, "role")
    )
    searched = replace(turn(question=Question("q1", "Where?")), searched=True)
    for instruction, knowledge in (("", ": use what you know."), ("Say unknown where it does not tell.", ".")):
        own = build_request(replace(searched, instruction=instruction), Role("", Modality.BOTH, "role")).own
        assert f"{prompt.ANSWER}. {prompt.NOTHING_FOUND}{knowledge}\n" in own
    assert f"\n{prompt.GIVEN}\nNode 2: Retrieval: find it -> it is here\n{prompt.TASK}\n" in given.own
    assert prompt.NOTHING_RETRIEVED not in given.own
    assert given.parts is not None
    assert given.parts.inputs == lines
    texts = build_request(turn(question=ranked(1, 0)), Role("", Modality.BOTH, "role"))
    assert "picture" not in f"{texts.system}{texts.own}"
    blind = build_request(turn(question=ranked(1, 0)), Role("", Modality.VISUAL, "role"))
    assert prompt.NO_PICTURES in blind.own


def test_where_all_is_part_of_the_question_nothing_is_said_to_have_been_found_for_it() -> None:
    own = build_request(turn(question=replace(ranked(1, 1), own=("t0", "i0"))), Role("", Modality.BOTH, "")).system
    assert "belong to it" in own
    assert "retrieved for it" not in own
    assert "Not all of them" not in own
    assert (
        "retrieved for it"
        in build_request(turn(question=replace(ranked(1, 1), own=("t0",))), Role("", Modality.BOTH, "")).system
    )


def test_who_works_alone_may_have_no_role_and_hears_of_no_others() -> None:
    own = Heard(Message("1/text_critic", "text_critic", 1, "I looked", "here"), 1.0)
    alone = build_request(turn((own,)), Role("", Modality.BOTH, "")).own
    assert prompt.ROLE not in alone
    assert prompt.ON_MERITS not in alone
    other = Heard(Message("1/x", "x", 1, "I looked", "there"), 1.0)
    assert prompt.ON_MERITS in build_request(turn((other,)), Role("", Modality.BOTH, "")).own


def test_what_is_part_of_the_question_is_marked_as_such() -> None:
    question = replace(ranked(2, 2), own=("t0", "i1"))
    shared = build_request(turn(question=question), Role("", Modality.BOTH, "role")).shared
    assert f"{prompt.OWN}\n[1] Title 0" in shared
    assert f"{prompt.EVIDENCE}\n[2] Title 1" in shared
    assert shared.endswith(f"[3] Picture 0\n[4] Picture 1 ({prompt.OF_THE_QUESTION})")


def test_a_model_that_reads_no_pictures_gets_them_described() -> None:
    blind = Abilities(pictures=False)
    request = build_request(turn(question=ranked(0, 2)), Role("", Modality.BOTH, "role"), abilities=blind)
    assert [image.image for image in request.images] == [None, None]


def test_replies_are_enforced_where_the_model_can_and_nobody_asked_for_text() -> None:
    able = Abilities(schema=True)
    for replies, abilities, enforced in (
        ("auto", able, True),
        ("auto", Abilities(), False),
        ("text", able, False),
        ("enforced", able, True),
    ):
        settings = AgentSettings(replies=replies)  # type: ignore[arg-type]
        request = build_request(turn(), Role("", Modality.TEXT, "role"), settings=settings, abilities=abilities)
        assert bool(request.schema) is enforced
        assert (AS_JSON in request.own) is enforced


def ranked(texts: int, pictures: int) -> Question:
    evidence = [Source(f"t{i}", f"t{i}", Kind.TEXT, f"Title {i}", "word " * 20) for i in range(texts)]
    evidence += [Source(f"i{i}", f"i{i}", Kind.IMAGE, f"Picture {i}", "", f"{i}.png") for i in range(pictures)]
    return Question("q1", "Where?", evidence=tuple(evidence))


def test_evidence_is_cut_from_its_worst_rank_on_and_passages_before_pictures() -> None:
    order = [source.id for source in least_relevant(ranked(4, 2), Modality.BOTH, ("t3",))]
    assert order == ["t2", "t1", "i1", "t0", "i0"]
    assert [source.id for source in least_relevant(ranked(2, 2), Modality.VISUAL, ())] == ["i1", "i0"]


@pytest.mark.parametrize(("excess", "cut"), [(1, 1), (20, 1), (45, 2), (10_000, 4)])
def test_as_much_is_cut_as_the_excess_asks_for(excess: int, cut: int) -> None:
    question = ranked(4, 0)
    request = build_request(turn(question=question), Role("", Modality.TEXT, "role"))
    tokens = len((request.system + request.shared + request.own).split())
    told = Completion("x", "", tokens, stop="too_long", limit_tokens=max(1, tokens - excess))
    assert len(cut_more(question, Modality.TEXT, (), request, told)) == cut


def test_where_a_model_does_not_say_how_long_is_too_long_a_quarter_goes_at_a_time() -> None:
    question = ranked(8, 0)
    request = build_request(turn(question=question), Role("", Modality.TEXT, "role"))
    told = Completion("x", "", stop="too_long")
    assert cut_more(question, Modality.TEXT, (), request, told) == ["t7", "t6"]
    assert cut_more(question, Modality.TEXT, tuple(f"t{i}" for i in range(8)), request, told) == []


def test_a_request_that_was_cut_starts_as_the_whole_one_does_and_goes_to_the_same_replica() -> None:
    question = ranked(4, 2)
    whole = build_request(turn(question=question), Role("", Modality.BOTH, "role"))
    short = build_request(turn(question=question), Role("", Modality.BOTH, "role"), cut=("t3", "t2"))
    assert (short.prefix, short.images, short.own) == (whole.prefix, whole.images, whole.own)
    assert short.id != whole.id
    shared = list(takewhile(lambda pair: pair[0] == pair[1], zip(short.shared, whole.shared, strict=False)))
    assert "Title 1" in "".join(one for one, _ in shared)
    assert "Title 2" not in short.shared


def test_what_an_agent_said_itself_stands_once_in_the_discussion_and_is_marked_behind_it() -> None:
    mine, theirs = Message("1/x", "x", 1, "mine"), Message("1/y", "y", 1, "theirs", heard=("1/x",))
    heard = (Heard(theirs, 0.75), Heard(mine, 0.25, temporal=True))
    own = build_request(turn(heard), Role("", Modality.TEXT, "role"), [mine]).own
    assert own.index("[x, round 1] mine") < own.index("[y, round 1] theirs") < own.index(prompt.ROLE)
    assert f"{prompt.WEIGHTS}\n{prompt.IN_ORDER}: you 0.250, 0.750\n{prompt.TASK}" in own
    assert own.count("mine") == 1


def test_weights_that_are_all_alike_are_said_in_one_sentence_where_that_is_asked_for() -> None:
    mine, theirs, third = Message("1/x", "x", 1, "mine"), Message("1/y", "y", 1, "theirs"), Message("1/z", "z", 1, "z")
    brief = AgentSettings(weights="brief")

    def said(heard: tuple[Heard, ...], settings: AgentSettings) -> str:
        own = build_request(turn(heard), Role("", Modality.TEXT, "role"), [mine], settings).own
        return own.partition(f"{prompt.WEIGHTS}\n")[2].partition("\n")[0]

    alike = (Heard(mine, 1 / 3, temporal=True), Heard(theirs, 1 / 3), Heard(third, 1 / 3))
    assert said(alike, brief) == f"{prompt.ALIKE}; your own: number 1."
    assert said(alike[1:], brief) == f"{prompt.OTHERS_ALIKE}; your own: number 1."
    for heard in ((Heard(theirs, 0.7), Heard(third, 0.3)), ()):
        assert said(heard, brief) == said(heard, AgentSettings())
    assert said(alike, AgentSettings()) == f"{prompt.IN_ORDER}: you 0.333, 0.333, 0.333"
    told = [build_request(turn(alike), Role("", Modality.TEXT, "role"), [mine], each).parts for each in (brief, None)]
    assert told[0] == told[1]


def test_agents_see_different_parts_of_the_evidence_and_each_the_same_one_in_all_rounds() -> None:
    sources = tuple(Source(f"t{number}", f"doc{number}", Kind.TEXT, "", f"Text {number}.") for number in range(40))
    question = replace(QUESTION, evidence=sources, own=("doc0",))
    seen = {}
    for agent in ("text_critic", "text_scientist"):
        first = with_own_evidence(Turn("d", question, agent, 1, seed=1), share=0.5)
        second = with_own_evidence(Turn("another", question, agent, 2, seed=9), share=0.5)
        assert first.question == second.question
        assert first.question.order == tuple(source.id for source in sources), "sources keep their numbers"
        seen[agent] = {source.id for source in first.question.evidence}
        assert 10 < len(seen[agent]) < 30
        assert "t0" in seen[agent], "part of the question"
    assert seen["text_critic"] != seen["text_scientist"]
    everything = Turn("d", question, "text_critic", 1, seed=1)
    assert with_own_evidence(everything, share=1.0) is everything
    assert [source.id for source in with_own_evidence(everything, share=0.0).question.evidence] == ["t0"]
