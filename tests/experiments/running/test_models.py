"""Which models a run asks, and which roles share one."""

from __future__ import annotations

import pytest

from actors.errors import UserError
from experiments.config.loading import load
from experiments.running.models import by_key, check_models, models_named, replicas, role_backends

OPENAI = ["experiment=mmqa_prune", "model=openai", "model.name=A", "model.base_url=http://a/v1"]
ROLES = ("text_critic", "visual_critic", "visual_scientist", "single")


def test_roles_with_equal_models_share_one_and_those_with_the_run_s_own_ask_that() -> None:
    eyes = [f"roles.{role}.model.name=B" for role in ROLES[1:3]]
    own = role_backends(load([*OPENAI, *eyes, "roles.text_critic.model.name=A"]), ROLES)
    assert own.keys() == {"visual_critic", "visual_scientist"}
    assert list(by_key(own)) == ["roles.visual_critic.model"]
    assert own["visual_critic"] is own["visual_scientist"]


def test_a_role_s_model_has_one_replica_unless_it_says_how_many() -> None:
    words = [*OPENAI[:1], "model.replicas=4", "roles.text_critic.reader.trust=0.3", "roles.single.reader.trust=0.4"]
    config = load([*words, "roles.single.model.replicas=3"])
    assert {role: backend.replicas for role, backend in role_backends(config, ROLES).items()} == {
        "text_critic": 1,
        "single": 3,
    }
    assert replicas(config) == 4 + 1 + 3


def test_models_of_other_settings_have_caches_of_their_own() -> None:
    config = load(["experiment=mmqa_prune", "roles.single.reader.error_rate=0", "roles.text_critic.reader.trust=0.3"])
    own = role_backends(config, ROLES)
    assert len({backend.identity() for backend in own.values()}) == len(own) == 2


def test_settings_of_the_reader_make_no_other_model_of_an_endpoint() -> None:
    assert not role_backends(load([*OPENAI, "roles.single.reader.error_rate=0"]), ROLES)


def test_records_name_all_models_the_run_s_own_first() -> None:
    eyes = [f"roles.{role}.model.name=B" for role in ROLES[1:3]]
    assert models_named(load([*OPENAI, *eyes, "roles.single.model=reader"])) == "A + B + reader"
    assert models_named(load(OPENAI)) == "A"


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("roles.single.model.name=''", r"roles.single.model=openai needs roles.single.model.base_url="),
        ("roles.single.model=vllm", r"roles.single.model=vllm needs roles.single.model.name="),
        ("roles.single.model=replay", r"roles.single.model=replay cannot answer"),
    ],
)
def test_a_role_s_model_that_cannot_work_is_found_out_before_anything_starts(word: str, says: str) -> None:
    with pytest.raises(UserError, match=says):
        check_models(load([*OPENAI, word]))
