"""`ask=`: one question to a team, on the terminal."""

import json
from pathlib import Path

import pytest
from PIL import Image

from experiments.command_line import main
from tests.fuzz.layouts import put
from tests.support.endpoint import Asked, Server, Told, completion, serving

QUESTION = "Who built the bridge of Marn?"
PASSAGE = {"title": "Bridge of Marn", "text": "The bridge of Marn was built by Ada Lund in 1931."}


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    lines = [{"question": QUESTION, "answer": "Ada Lund", "passages": [PASSAGE]}]
    put(tmp_path / "questions.jsonl", [*lines, {"question": "What grows?", "answer": "barley", "passages": "Barley."}])
    return [f"data.root={tmp_path / 'questions.jsonl'}", "data=file", f"output={tmp_path / 'runs'}"]


def printed(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    assert main(list(words)) == code
    both = capsys.readouterr()
    return both.err if code == 2 else both.out


def test_a_team_answers_over_the_corpus_and_its_turns_come_before_the_answer(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = printed(capsys, f"ask={QUESTION}", *words, "costs.prompt_price=2").splitlines()
    turns = [line for line in lines if line[:1].isdigit() and ". " in line[:4]]
    assert len(turns) == 19
    assert turns[0].startswith("1. text_critic: ")
    assert lines.index(turns[-1]) < lines.index("Answer: Ada Lund")
    assert any(line.startswith("Cost: calls 19; prompt tokens ") for line in lines)
    assert any(line.startswith("Price ") for line in lines)
    # No run was made; the index is kept for the next question.
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["cache"]


def test_own_passages_choices_and_pictures_are_read_by_a_model_at_an_endpoint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def answer(request: Asked) -> Told:
        if not request.content:
            return Told({"data": [{"id": "m"}]})
        return Told(completion("Reasoning: The lamp \x1b[31m is green.\nAnswer: B\nConfidence: 0.9"))

    Image.new("RGB", (20, 20), "green").save(tmp_path / "lamp.png")
    (tmp_path / "note.txt").write_text("The lamp of the harbour.")
    server = Server(answer)
    own = [f"ask.pictures={tmp_path / 'lamp.png'}", f"ask.passages=[{tmp_path / 'note.txt'}, Other words.]"]
    with serving(server):
        model = ["model=openai", f"model.base_url={server.base_url}", "model.name=m"]
        out = printed(
            capsys,
            "ask=Which colour?",
            "ask.choices=[red,green]",
            *own,
            *model,
            "methods=[single]",
            f"output={tmp_path}",
        )
    assert "Answer: green" in out
    assert "\x1b[31m" not in out
    asked = json.dumps([request.json() for request in server.asked if request.content])
    assert all(text in asked for text in ("The lamp of the harbour.", "Other words.", "image_url", "Which colour?"))


def test_without_evidence_or_with_failed_turns_there_is_no_answer_and_the_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = printed(capsys, "ask=Who?", "methods=[single]", f"output={tmp_path}", code=1)
    assert "Answer: none" in out
    assert "There was no evidence" in out

    async def refuse(request: Asked) -> Told:
        if not request.content:
            return Told({"data": [{"id": "m"}]})
        return Told({"error": {"message": "no room"}}, status=400 if len(server.asked) > 3 else 500)

    server = Server(refuse)
    with serving(server):
        model = ["model=openai", f"model.base_url={server.base_url}", "model.name=m", "model.retries=0"]
        assert main(["ask=Who?", *model, "methods=[single]", f"output={tmp_path}"]) in (1, 2)
    both = capsys.readouterr()
    assert "no room" in both.out + both.err


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["ask="], "no question"),
        (["ask=Who?", "ask.colour=red"], "ask.colour"),
        (["ask=Who?", "ask.pictures=lost.png"], "lost.png"),
        (["ask=Who?", "ask.passages=lost.txt"], "lost.txt"),
        (["ask=Who?", "methods=[m3prune]"], "m3prune"),
        (["ask=Who?", "methods=[single,full]"], "methods="),
        (["ask=Who?", "attack=response"], "attack"),
        (["ask=Who?", "resume=x"], "resume="),
        (["ask=Who?", "sead=1"], "'seed'"),
        (["ask=Who?", "data=file"], "data.root="),
    ],
)
def test_what_one_question_cannot_have_is_refused_in_one_line(
    options: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    error = printed(capsys, *options, f"output={tmp_path}", code=2)
    assert says in error
    assert error.count("\n") == 1
