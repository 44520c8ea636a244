"""The embedded reader answers from its prompt and from nothing else."""

import asyncio
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.agents.roles import DECISION, TEXTUAL, VISUAL
from actors.messages import (
    UNTITLED_PASSAGE,
    UNTITLED_TABLE,
    Heard,
    Kind,
    Message,
    Modality,
    Question,
    Request,
    Role,
    Source,
    Turn,
)
from actors.prompting import prompt
from actors.prompting.prompt import build_request
from actors.prompting.reply import parse_reply
from actors.reader.english import count_tokens
from actors.reader.perception import PICTURE_TOKENS
from actors.reader.reader import Reader, ReaderSettings
from actors.reader.statements import read_statement
from actors.settings import AgentSettings

EXACT = ReaderSettings(skill=1.0, noise=0.0)

ROWS = (
    Source("t1:0", "t1", Kind.TABLE, "Mira Holt - Films", "Film = Night Harbour; Year = 1988; Role = Anna"),
    Source("t1:1", "t1", Kind.TABLE, "Mira Holt - Films", "Film = Paper Moon; Year = 1995; Role = The nurse"),
    Source("t1:2", "t1", Kind.TABLE, "Mira Holt - Films", "Film = Last Ferry; Year = 2003; Role = Captain Dole"),
)
PASSAGES = (
    Source(
        "p1", "p1", Kind.TEXT, "Night Harbour", "Night Harbour is a film directed by Paul Venn. It was shot in Calver."
    ),
    Source("p2", "p2", Kind.TEXT, "Paul Venn", "Paul Venn is a director. He was born in Torley in 1941."),
    Source("p3", "p3", Kind.TEXT, "Torley", "Torley is a town on the river Amsel. Its market is held in the spring."),
)
PICTURES = (
    Source(
        "i1",
        "i1",
        Kind.IMAGE,
        "Night Harbour",
        "The poster shows three red boats. The letters say 'COME HOME'.",
        "a.png",
    ),
    Source("i2", "i2", Kind.IMAGE, "Paper Moon", "The poster shows a green dog beside two blue chairs.", "b.png"),
    Source("i3", "i3", Kind.IMAGE, "Last Ferry", "The poster shows a yellow house.", "c.png"),
)
EVERYTHING = (*ROWS, *PASSAGES, *PICTURES)


def request(
    text: str,
    evidence: tuple[Source, ...] = EVERYTHING,
    *,
    modality: Modality = Modality.BOTH,
    role: str = DECISION.instruction,
    heard: tuple[Heard, ...] = (),
    recalled: tuple[Message, ...] = (),
    choices: tuple[str, ...] = (),
    seed: int = 7,
    max_tokens: int = 512,
) -> Request:
    turn = Turn("d", Question("q", text, choices, evidence), "a", 1, seed, heard)
    return build_request(turn, Role("", modality, role), recalled, AgentSettings(temperature=0, max_tokens=max_tokens))


def reply(asked: Request, using: ReaderSettings = EXACT) -> Message:
    parsed = parse_reply(Reader(using).read(asked).text)
    assert parsed is not None
    return parsed


def says(
    answer: str | None, content: str = "", confidence: float = 0.9, agent: str = "x", weight: float = 1.0
) -> Heard:
    return Heard(Message(f"m-{agent}", agent, 1, content, answer, confidence), weight)


ONE_STATEMENT = [
    ("Who directed Night Harbour?", "Paul Venn"),
    ("In which town was Paul Venn born?", "Torley"),
    ("In which year was Paul Venn born?", "1941"),
    ("What role did Mira Holt play in Last Ferry?", "Captain Dole"),
    ("In what year did Mira Holt appear in Paper Moon?", "1995"),
    ("What color is the dog on the poster of Paper Moon?", "green"),
    ("How many chairs are on the poster of Paper Moon?", "two"),
    ("What is written on the poster of Night Harbour?", "COME HOME"),
    ("What animal is on the poster of Paper Moon?", "dog"),
]
LINKED = [
    ("In which town was the director of Night Harbour born?", "Torley"),
    ("In which year did Mira Holt appear in the film whose poster shows a green dog?", "1995"),
    ("What colour are the boats on the poster of the film of 1988 with Mira Holt?", "red"),
    ("Which film of Mira Holt has a yellow house on its poster?", "Last Ferry"),
]
COMPARED = [
    ("Which film did Mira Holt appear in first: Last Ferry or Paper Moon?", "Paper Moon"),
    ("Which film did Mira Holt appear in later, Night Harbour or Paper Moon?", "Paper Moon"),
    (
        "Which is the more recent film of Mira Holt: Paper Moon or the film with a yellow house on its poster?",
        "Last Ferry",
    ),
    ("Which came earlier: the film directed by Paul Venn or Last Ferry?", "Night Harbour"),
]
YES_OR_NO = [
    ("Is there a green dog on the poster of Paper Moon?", "yes"),
    ("Is there a red dog on the poster of Paper Moon?", "no"),
    ("Was Paul Venn born in Torley?", "yes"),
]


@pytest.mark.parametrize(("question", "answer"), [*ONE_STATEMENT, *LINKED, *COMPARED, *YES_OR_NO])
def test_a_question_is_answered_from_statements_that_share_names(question: str, answer: str) -> None:
    assert reply(request(question)).answer == answer


def test_without_the_decisive_statement_the_answer_is_not_given() -> None:
    asked = "In which town was Paul Venn born?"
    assert reply(request(asked)).answer == "Torley"
    left = tuple(source for source in EVERYTHING if source.id != "p2")
    assert reply(request(asked, left)).answer != "Torley"


def test_without_evidence_nothing_is_known() -> None:
    parsed = reply(request("Who directed Night Harbour?", ()))
    assert parsed.answer is None
    assert parsed.confidence is not None
    assert parsed.confidence < 0.1


def test_the_title_of_an_untitled_source_is_no_answer_and_no_link() -> None:
    stated = Source("p", "p", Kind.TEXT, UNTITLED_PASSAGE, "Oslo is the capital of Norway.")
    other = Source("o", "o", Kind.TEXT, UNTITLED_PASSAGE, "Torley is a town on the river Amsel.")
    message = reply(request("What is the capital of Norway?", (stated, other)))
    assert message.answer == "Oslo"
    assert "Torley" not in message.content


def test_the_title_of_an_untitled_table_is_no_name_of_its_rows() -> None:
    row = read_statement("1", UNTITLED_TABLE, "Film = Paper Moon; Year = 1995")
    assert row.names_thing("paper moon")
    assert not row.names_thing("table")


@pytest.mark.parametrize("title", ["As of", "2019, the", "The answer"])
def test_no_answer_is_given_that_its_readers_would_ask_for_again(title: str) -> None:
    row = Source("t:0", "t", Kind.TABLE, title, "Assets: Total assets; 2019 = $2,664; 2018 = $3,025")
    given = Reader(EXACT).read(request("What are the total assets?", (row,))).text
    assert parse_reply(given) is not None


def test_the_reasoning_names_its_evidence() -> None:
    content = reply(request("In which town was the director of Night Harbour born?")).content
    numbers = {source.id: n for n, source in enumerate(EVERYTHING, 1)}
    assert f"[{numbers['p1']}]" in content
    assert f"[{numbers['p2']}]" in content


def test_a_question_for_several_gets_all_that_stand_equally_well() -> None:
    boat = Source("i4", "i4", Kind.IMAGE, "Grey Sail", "The poster shows three red boats.", "d.png")
    answer = reply(request("Which films have red boats on the poster?", (*PICTURES, boat))).answer
    assert answer is not None
    assert set(answer.split(", ")) == {"Night Harbour", "Grey Sail"}


CHOICES = ("a spring", "a magnet", "a lamp")
HINT = Source("h", "h", Kind.TEXT, "Hint", "The drawing shows a compass. A compass needle is a small magnet.")


def test_the_choice_that_the_evidence_supports_is_taken() -> None:
    assert reply(request("What is a compass needle?", (HINT,), choices=CHOICES)).answer == "a magnet"


def test_no_choice_is_guessed_without_support() -> None:
    assert reply(request("What is a compass needle?", (), choices=CHOICES)).answer is None


def test_only_a_choice_is_an_answer_where_choices_are_given() -> None:
    crowd = tuple(says("a cucumber", agent=f"x{i}", weight=0.3) for i in range(3))
    assert reply(request("What is a compass needle?", (HINT,), choices=CHOICES, heard=crowd)).answer == "a magnet"


def crowd_against(answer: str) -> tuple[Heard, ...]:
    return tuple(says(answer, agent=f"x{i}", confidence=0.95, weight=0.25) for i in range(4))


def test_a_unanimous_confident_crowd_moves_a_conforming_reader_only() -> None:
    asked = request("Who directed Night Harbour?", heard=crowd_against("Ida Krone"))
    assert reply(asked, replace(EXACT, conformity=1.5)).answer == "Ida Krone"
    assert reply(asked, replace(EXACT, conformity=0.0)).answer == "Paul Venn"


def test_a_message_counts_by_its_stated_weight_and_confidence() -> None:
    def heard(weights: tuple[float, float], confidences: tuple[float, float]) -> tuple[Heard, ...]:
        return tuple(
            says(name, agent=name, weight=w, confidence=c)
            for name, w, c in zip(("Ida Krone", "Jon Abel"), weights, confidences, strict=True)
        )

    def answer(said: tuple[Heard, ...]) -> str | None:
        return reply(request("Who directed Night Harbour?", (), heard=said)).answer

    assert answer(heard((0.8, 0.2), (0.9, 0.9))) == "Ida Krone"
    assert answer(heard((0.2, 0.8), (0.9, 0.9))) == "Jon Abel"
    assert answer(heard((0.5, 0.5), (0.9, 0.5))) == "Ida Krone"


def test_its_own_earlier_answer_tips_an_even_balance() -> None:
    even = (says("Ida Krone", agent="x1", weight=0.5), says("Jon Abel", agent="x2", weight=0.5))
    before = Message("m", "a", 1, "", "Jon Abel", 0.9)
    assert reply(request("Who directed it?", (), heard=even, recalled=(before,))).answer == "Jon Abel"


def test_a_colleague_of_the_other_modality_supplies_the_missing_link() -> None:
    asked = "In which year did Mira Holt appear in the film whose poster shows a green dog?"
    critic = next(role for role in VISUAL if "critic" in role.name)
    alone = reply(request(asked, modality=Modality.VISUAL, role=critic.instruction))
    assert alone.answer != "1995"
    said = Heard(Message("m", critic.name, 1, alone.content, alone.answer, alone.confidence), 1.0)
    reader = TEXTUAL[0].instruction
    assert reply(request(asked, modality=Modality.TEXT, role=reader, heard=(said,))).answer == "1995"


def test_a_colleague_of_the_text_tells_which_picture_to_read() -> None:
    asked = "What colour are the boats on the poster of the film that Paul Venn directed?"
    said = says("Night Harbour", "Night Harbour is a film directed by Paul Venn.", confidence=0.4)
    assert reply(request(asked, modality=Modality.VISUAL, heard=(said,))).answer == "red"


def test_the_same_request_gets_the_same_completion_from_any_reader() -> None:
    noisy = ReaderSettings()
    asked = request("In which town was the director of Night Harbour born?", heard=crowd_against("Calver"))
    one, other = Reader(noisy), Reader(noisy)
    other.read(request("Who directed Night Harbour?"))
    assert one.read(asked) == other.read(asked) == asyncio.run(one.complete(asked))


def test_a_quotation_names_its_speaker_whoever_said_the_same_before() -> None:
    reader = Reader(EXACT)
    for agent in ("ann", "bob"):
        told = says(None, "Night Harbour: It was directed by Ada Lind.", agent=agent)
        assert f"[{agent}, round 1]" in reader.read(request("Who directed Night Harbour?", (), heard=(told,))).text


def test_without_a_threshold_nothing_found_is_still_unknown() -> None:
    assert reply(request("Who directed Night Harbour?", ()), replace(EXACT, threshold=0.0)).answer is None


def answers_by_seed(
    using: ReaderSettings, question: str, evidence: tuple[Source, ...] = EVERYTHING
) -> list[str | None]:
    return [reply(request(question, evidence, seed=seed), using).answer for seed in range(60)]


def test_what_is_read_in_vain_costs_accuracy() -> None:
    noisy = replace(EXACT, noise=5.0)
    extra = tuple(
        Source(f"n{i}", f"n{i}", Kind.TEXT, f"Harbour {i}", f"Harbour {i} lies by Dorn {i}. Kim Lund {i} came from it.")
        for i in range(40)
    )
    asked = "In which town was the director of Night Harbour born?"
    plain = answers_by_seed(noisy, asked, PASSAGES).count("Torley")
    diluted = answers_by_seed(noisy, asked, (*PASSAGES, *extra)).count("Torley")
    assert diluted < plain
    assert answers_by_seed(EXACT, asked, (*PASSAGES, *extra)).count("Torley") == 60


def test_pictures_are_missed_or_misread_at_the_rate_of_the_role() -> None:
    asked = "What color is the dog on the poster of Paper Moon?"
    seen = answers_by_seed(replace(EXACT, skill=0.0), asked)
    assert seen.count("green") < 40
    assert {"red", "blue", "yellow"} & set(seen)
    assert answers_by_seed(EXACT, asked).count("green") == 60


def test_a_picture_without_description_gives_its_title_only() -> None:
    bare = tuple(replace(picture, text="") for picture in PICTURES)
    assert reply(request("What color is the dog on the poster of Paper Moon?", bare)).answer is None


def test_pictures_told_otherwise_are_not_taken_from_the_cache() -> None:
    reader = Reader(EXACT)
    changed = tuple(replace(picture, text=picture.text.replace("green", "purple")) for picture in PICTURES)
    asked = "What color is the dog on the poster of Paper Moon?"
    for evidence, colour in ((PICTURES, "green"), (changed, "purple")):
        parsed = parse_reply(reader.read(request(asked, evidence)).text)
        assert parsed is not None
        assert parsed.answer == colour


def test_a_skilled_role_errs_less() -> None:
    by_role = replace(EXACT, error_rate=1.0, skill=None)
    asked = "In which town was the director of Night Harbour born?"
    right = {
        role: sum(
            reply(request(asked, seed=s, role=f"You are the {role}."), by_role).answer == "Torley" for s in range(100)
        )
        for role in ("critic of knowledge experts", "knowledge expert")
    }
    first, second = right.values()
    assert 10 < first < second - 10  # the word that comes first in the role's text counts


def test_confidence_is_higher_for_stated_than_for_doubtful_answers() -> None:
    sure = reply(request("Who directed Night Harbour?")).confidence
    doubtful = reply(request("Who directed the famous opera about the Harbour of Lisbon?")).confidence
    assert sure is not None
    assert doubtful is not None
    assert sure > doubtful


def test_tokens_are_counted_and_the_limit_is_honoured() -> None:
    asked = request("Who directed Night Harbour?")
    whole = Reader(EXACT).read(asked)
    assert whole.stop == "stop"
    assert whole.completion_tokens == count_tokens(whole.text)
    pictures = PICTURE_TOKENS * len(PICTURES)
    assert whole.prompt_tokens >= pictures + count_tokens(asked.system + asked.shared + asked.own) - 2
    short = Reader(EXACT).read(replace(asked, max_tokens=5))
    assert short.stop == "length"
    assert short.completion_tokens == 5
    assert whole.text.startswith(short.text)
    assert parse_reply(short.text) is None


UGLY = st.text(alphabet=st.sampled_from(list("aB1 [](){}:;=|,.?!'\"\n#-–é’Answer")), max_size=120)
LINES = st.lists(
    st.sampled_from([prompt.QUESTION, prompt.EVIDENCE, prompt.DISCUSSION, prompt.WEIGHTS, prompt.ROLE]) | UGLY,
    max_size=8,
)
WORDINGS = ["Which of A B or", "Is it? or first", "how many", "(s)", "What colour is", "Which is first: X or Y?", ""]


@settings(max_examples=150)
@given(st.sampled_from(WORDINGS), UGLY, LINES, LINES, UGLY, st.integers(0, 2**63 - 1), st.integers(0, 80))
def test_no_prompt_however_ugly_breaks_it(
    wording: str, question: str, shared: list[str], own: list[str], shown: str, seed: int, limit: int
) -> None:
    picture = Source("i", "i", Kind.IMAGE, shown[:20], shown)
    asked = Request(
        "r",
        "p",
        prompt.overview(True, True, found=True),
        "\n".join([prompt.QUESTION, wording + question, *shared]),
        "\n".join(own),
        (picture,),
        seed,
        0.0,
        limit,
    )
    completion = Reader(ReaderSettings()).read(asked)
    assert completion.completion_tokens <= limit
    assert completion.stop == "length" or parse_reply(completion.text) is not None
