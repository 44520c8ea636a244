"""Roles from a file: what they become, and what a wrong file is told."""

from pathlib import Path

import pytest

from actors.errors import UserError
from actors.messages import FieldKind, Modality, Value
from experiments.config.loading import load
from experiments.config.saved import save
from experiments.jobs import plan_of

TEAM = ["topology.text=[critic,knowledge_expert]", "topology.visual=[critic,knowledge_expert]"]
CRITIC = "- name: critic\n  modality: text\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "mine.yaml"


def test_the_paper_s_team_has_forms_of_its_own_and_not_all_of_them_answer() -> None:
    roles = {role.name: role for role in plan_of(load(["experiment=mmqa_prune", "roles.file=paper", *TEAM])).roles.team}
    assert {name for name, role in roles.items() if role.answers} == {"text_critic", "visual_critic"}
    fact = next(field for field in roles["text_knowledge_expert"].form if field.name == "Fact")
    assert (fact.value, fact.many, fact.optional) == (Value.TRIPLE, True, True)
    assert roles["text_critic"].instruction.startswith("You are the text critic of the team. Go through")


def test_a_role_of_one_s_own_joins_the_team_and_a_built_in_one_is_told_something_else(file: Path) -> None:
    file.write_text(
        "- {name: librarian, modality: text, instruction: Look it up.}\n- {name: decision, instruction: Toss a coin.}\n"
        "- {name: painter, modality: visual, instruction: Not of this run.}\n"
    )
    config = load(["experiment=mmqa_prune", f"roles.file={file}", "topology.text=[critic,librarian]"])
    roles = {role.name: role for role in plan_of(config).roles.team}
    assert (roles["text_librarian"].modality, roles["text_librarian"].instruction) == (Modality.TEXT, "Look it up.")
    assert roles["text_critic"].instruction.startswith("You are the text critic")
    assert config.roles["decision"].instruction == "Toss a coin."


def test_a_run_keeps_what_the_file_said(file: Path, tmp_path: Path) -> None:
    file.write_text(f"{CRITIC}  form: [{{name: Doubt, asks: what is unclear}}]\n")
    config = load(["experiment=mmqa_prune", f"roles.file={file}", "roles.text_critic.model.name=A"])
    save(config, tmp_path / "config.yaml")
    file.unlink()
    [critic, *_] = plan_of(load([f"resume={tmp_path}", "roles.text_critic.model.name=A"])).roles.team
    assert [(field.kind, field.name, field.asks) for field in critic.form] == [
        (FieldKind.SUMMARY, "Doubt", "what is unclear")
    ]
    assert config.roles["text_critic"].model == {"name": "A"}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (f"{CRITIC}  instrcution: x", "'roles[0].instruction'"),
        (f"{CRITIC}  instruction: x\n{CRITIC}  instruction: y", "text_critic"),
        ("- {name: critic, modality: sound, instruction: x}", "roles[0].modality=sound:"),
        ("- {name: [", "mine.yaml"),
        ("critic: x", "expected a list"),
        ("- critic", "roles[0]=critic:"),
        ("- {name: a critic, instruction: x}", "roles[0].name=a critic:"),
        ("[]", "no roles"),
        (CRITIC, "roles[0].instruction: critic "),
        (f"{CRITIC}  form: [{{nmae: Doubt}}]", "'roles[0].form[0].name'"),
        (f"{CRITIC}  form: [{{name: Doubt, value: number}}]", "number"),
        (f"{CRITIC}  form: [{{asks: x}}]", "roles[0].form[0].name='':"),
        (f"{CRITIC}  form: [{{name: Doubt}}, {{name: doubt}}]", "roles.text_critic.form: "),
        (f"{CRITIC}  form: [{{name: Doubt, value: choice}}]", "roles[0].form[0].choices=[]:"),
        (f"{CRITIC}  form: [{{name: Verdict, value: answer}}]", "Answer"),
        ("- {name: decision, form: [{name: Doubt}]}", "form"),
        ("- {name: decisoin, instruction: x}", "roles.decisoin: "),
    ],
)
def test_a_wrong_file_gets_one_line(text: str, says: str, file: Path) -> None:
    file.write_text(text)
    with pytest.raises(UserError) as raised:
        plan_of(load(["experiment=mmqa_prune", f"roles.file={file}"]))
    assert says in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_file_that_is_not_there_is_told_ours() -> None:
    with pytest.raises(UserError, match=r"^roles\.file=papper: .*'paper'"):
        load(["experiment=mmqa_prune", "roles.file=papper"])
