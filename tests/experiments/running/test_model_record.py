"""What a run says of its model, what it refuses, and what a resumed one holds it to."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from actors.backends.backends import find_backend
from actors.backends.model_settings import ModelSettings
from actors.errors import UserError
from actors.messages import Abilities
from actors.reader.reader import ReaderSettings
from experiments.config.loading import load
from experiments.planning.run_models import find_models
from experiments.records.recorder import RunFolder
from experiments.running.model_record import check_abilities, describe

ABLE = Abilities(schema=True, likelihoods=True, context_tokens=8192)


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path)


def said(abilities: Abilities, *words: str) -> str:
    config = load(["experiment=mmqa_prune", *words])
    [line] = describe(config, find_models(config, ()), {"model": abilities})
    return line


def check(abilities: Abilities, folder: RunFolder, *words: str) -> None:
    config = load(["experiment=mmqa_prune", *words])
    check_abilities(config.agents, find_models(config, ()), {"model": abilities}, folder)


def test_one_line_says_what_the_model_can_do_and_how_it_is_used() -> None:
    assert said(ABLE) == (
        "model reader: replies kept to a schema; its own probabilities as confidences; pictures as pictures; "
        "8,192 tokens"
    )
    assert said(Abilities(pictures=False, seeds=False)) == (
        "model reader: replies in lines; stated confidences; pictures as captions; no seeds"
    )


def test_what_the_run_asks_for_otherwise_is_said_as_well() -> None:
    assert "replies in lines; stated confidences" in said(ABLE, "agents.replies=text", "agents.likelihoods=false")


def test_a_run_without_pictures_says_nothing_of_them() -> None:
    assert "picture" not in said(ABLE, "topology.visual=[]", "retrieval.pictures=0")
    assert "picture" in said(ABLE, "topology.visual=[]")


def test_enforced_replies_need_a_model_that_can_be_kept_to_a_schema(folder: RunFolder) -> None:
    check(ABLE, folder, "agents.replies=enforced")
    with pytest.raises(UserError, match=r"agents\.replies=enforced.*\breader .*schema") as refused:
        check(Abilities(), folder, "agents.replies=enforced")
    assert "\n" not in str(refused.value)


def test_a_context_without_room_for_a_prompt_is_refused(folder: RunFolder) -> None:
    check(ABLE, folder, "agents.max_tokens=8191")
    with pytest.raises(UserError, match=r"agents\.max_tokens=8192 .*\b8192\b"):
        check(ABLE, folder, "agents.max_tokens=8192")


def test_a_run_is_resumed_with_the_model_that_it_began_with(folder: RunFolder) -> None:
    check(ABLE, folder)
    assert json.loads(folder.model.read_text())["abilities"]["context_tokens"] == 8192
    check(ABLE, folder)
    with pytest.raises(UserError, match=r"\breader .*schema=false, context_tokens=null, .*schema=true, .*=8192"):
        check(Abilities(likelihoods=True), folder)


def test_models_of_roles_are_described_checked_and_recorded_too(folder: RunFolder) -> None:
    config = load(["experiment=mmqa_prune", "agents.replies=enforced"])
    eyes = find_backend("roles.visual_critic.model", ModelSettings("openai", "eyes"), ReaderSettings())
    models = replace(find_models(config, ()), of_roles=dict.fromkeys(("visual_critic", "visual_scientist"), eyes))

    def check(abilities: Abilities) -> None:
        check_abilities(config.agents, models, {"model": ABLE, eyes.key: abilities}, folder)

    _, line = describe(config, models, {"model": ABLE, eyes.key: Abilities(schema=True)})
    assert line.startswith("model eyes of visual_critic, visual_scientist: replies kept to a schema; stated")
    with pytest.raises(UserError, match=r"\beyes .*roles\.visual_critic\.model\.abilities\.schema=true"):
        check(Abilities())
    check(Abilities(schema=True))
    record = json.loads(folder.model.read_text())
    assert (record["name"], record["roles"]["visual_scientist"]["name"]) == ("reader", "eyes")
    check(Abilities(schema=True))
    with pytest.raises(UserError, match=r"\beyes .*likelihoods=true.*likelihoods=false"):
        check(Abilities(schema=True, likelihoods=True))


def test_a_record_that_is_damaged_is_not_passed_over(folder: RunFolder) -> None:
    folder.model.write_text('{"abilities": ')
    with pytest.raises(UserError, match=r"\bmodel\.json "):
        check(ABLE, folder)


def test_a_record_without_end_is_not_read_whole(folder: RunFolder) -> None:
    with folder.model.open("wb") as file:
        file.truncate(2**35)
    with pytest.raises(UserError, match=r"\bmodel\.json is damaged .*\b1,048,576\b"):
        check(ABLE, folder)


def test_what_earlier_versions_did_not_ask_for_is_not_compared(folder: RunFolder) -> None:
    folder.model.write_text(json.dumps({"abilities": {"pictures": True, "flies": True}}))
    check(replace(ABLE, served=("m", "", ""), adapted=(("extra.seed=null", "refused"),)), folder)


def test_every_setting_of_an_adaptation_is_named_under_its_model() -> None:
    able = replace(ABLE, adapted=(("extra.max_tokens=null extra.max_completion_tokens=9", "refused"),))
    config = load(["experiment=mmqa_prune"])
    assert any(
        "model.extra.max_tokens=null model.extra.max_completion_tokens=9," in line
        for line in describe(config, find_models(config, ()), {"model": able})
    )
