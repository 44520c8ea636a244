"""The plan of a configuration: roles, models and learners, and the ablations of M3Prune's Table 3."""

import pytest

from actors.errors import UserError
from actors.messages import Modality
from experiments.config.config import Config
from experiments.config.loading import load
from experiments.jobs import plan_of
from experiments.planning.run_models import find_models
from topologies.catalogue import METHODS, find_methods
from topologies.learning.learned_topology import make_learner
from topologies.learning.learner import Learner

OPENAI = ["experiment=mmqa_prune", "model=openai", "model.name=A", "model.base_url=http://a/v1"]
ROLES = ("text_critic", "visual_critic", "visual_scientist", "single")


def learner(*words: str) -> Learner:
    plan = plan_of(load(["experiment=mmqa_prune", *words]))
    return make_learner(next(iter(plan.learners.values())))


def test_the_default_team_is_five_textual_and_four_visual_agents() -> None:
    names = [role.name for role in plan_of(load(["experiment=mmqa_prune"])).roles.team]
    assert [name.startswith("text_") for name in names] == [True] * 5 + [False] * 4
    assert len(plan_of(load(["experiment=scienceqa_prune"])).roles.team) == 10


def test_what_the_team_reads_is_a_setting_and_where_it_stands_in_the_graph_is_not() -> None:
    everything, own = (
        load(["experiment=mmqa_prune", "methods=[full,hm_rag,mmapg,m3prune]", *words])
        for words in ((), ("topology.evidence=own_modality",))
    )
    assert {role.evidence for role in plan_of(everything).roles.team} == {Modality.BOTH}
    assert [role.evidence for role in plan_of(own).roles.team] == [role.modality for role in plan_of(own).roles.team]
    assert [role.modality for role in plan_of(own).roles.team] == [
        role.modality for role in plan_of(everything).roles.team
    ]
    # Those that retrieve words read words alone, whatever the team is shown.
    assert plan_of(everything).roles.helpers == plan_of(own).roles.helpers
    assert {role.evidence for role in plan_of(everything).roles.helpers} == set(Modality)


def test_a_role_has_as_many_agents_as_it_or_the_team_says_each_with_its_settings() -> None:
    words = ["topology.text=[critic]", "topology.visual=[scientist]", "topology.instances=2", "ablation=dummy_visual"]
    roles = plan_of(load(["experiment=mmqa_prune", *words, "roles.text_critic.instances=3"])).roles.team
    names = ["text_critic_1", "text_critic_2", "text_critic_3", "visual_scientist_1", "visual_scientist_2"]
    assert [role.name for role in roles] == names
    assert [role.played for role in roles] == ["text_critic"] * 3 + ["visual_scientist"] * 2
    assert [role.dummy for role in roles] == [False] * 3 + [True] * 2
    assert len({role.instruction for role in roles}) == 2


def test_agents_of_one_role_are_one_process() -> None:
    def started(*words: str) -> int:
        config = load(["experiment=mmqa_prune", *words])
        return plan_of(config).processes

    # Nine roles, the decision agent, the one that answers alone, and two replicas.
    assert started() == started("topology.instances=30") == 13
    assert started("model.replicas=3") == 14


def checked(*words: str) -> Learner:
    return make_learner(plan_of(load(["experiment=agentprune", "methods=[agentprune]", *words])).learners["agentprune"])


def test_logits_are_tied_by_role_or_those_of_a_sparser_graph_where_the_configuration_says_so() -> None:
    two = ["topology.text=[critic]", "topology.visual=[scientist]", "topology.instances=20"]
    assert checked(*two).state()["logits.spatial"].shape == (1, 40, 40)
    assert checked(*two, "topology.tied=true").state()["logits.spatial"].shape == (1, 2, 2)
    sparse = checked(*two, "topology.candidates=ring")
    assert (sparse.probabilities().spatial > 0).sum() == 2 * 39
    again = checked(*two, "topology.candidates=regular", "seed=5").probabilities().spatial
    assert (again != checked(*two, "topology.candidates=regular", "seed=6").probabilities().spatial).any()


def test_what_cannot_be_learned_with_ties_or_in_a_run_is_one_line() -> None:
    config = load(["experiment=mmqa_prune", "methods=[effects]", "topology.tied=true"])
    with pytest.raises(UserError, match="effects"):
        plan_of(config)
    with pytest.raises(UserError, match=r"\b1800 .*\b1000 .*topology\.instances"):
        checked("topology.instances=200", "topology.tied=true")


def test_only_roles_of_the_team_have_instances_and_no_two_agents_have_one_name() -> None:
    base = ["experiment=mmqa_prune", "topology.text=[critic,critic_1]", "topology.visual=[]"]
    own = ["roles.text_critic_1.instruction=Doubt."]
    assert len(plan_of(load([*base, *own])).roles.team) == 2
    with pytest.raises(UserError, match=r"text_critic_1"):
        plan_of(load([*base, *own, "roles.text_critic.instances=2"]))
    with pytest.raises(UserError, match=r"^roles\.decision\.instances: "):
        plan_of(load(["experiment=mmqa_prune", "roles.decision.instances=2"]))
    with pytest.raises(UserError, match=r"topology.instances"):
        load(["experiment=mmqa_prune", "topology.instances=0"])


@pytest.mark.parametrize("modality", ["text", "visual"])
def test_a_dummy_ablation_silences_one_modality(modality: str) -> None:
    roles = plan_of(load(["experiment=mmqa_prune", f"ablation=dummy_{modality}"])).roles.team
    assert all(role.dummy == (role.modality == modality) for role in roles)


def test_without_the_inter_graph_there_is_one_stage_and_no_edge_between_modalities() -> None:
    ablated = learner("ablation=no_inter")
    assert ablated.stages == 1
    assert not ablated.sample(4).spatial[..., :5, 5:].any()
    assert learner().stages == 2


def test_without_alignment_the_objective_lacks_the_term() -> None:
    plan = plan_of(load(["experiment=mmqa_prune", "methods=[m3prune]", "ablation=no_alignment"]))
    assert "alignment" not in plan.learners["m3prune"].variant.terms
    with pytest.raises(UserError, match=r"effects .*alignment"):
        learner("ablation=no_alignment", "methods=[effects]")


def test_roles_and_methods_are_named_once() -> None:
    with pytest.raises(UserError, match=r"topology\.text"):
        plan_of(load(["experiment=mmqa_prune", "topology.text=[critic,critic]"]))
    with pytest.raises(UserError, match="each once"):
        find_methods(Config(methods=["full", "full"]).methods)


def test_a_method_that_does_not_exist_is_refused_with_those_that_do() -> None:
    known = ", ".join(method.name for method in METHODS)
    with pytest.raises(UserError, match=rf"^methods: .*'complete'.*: {known}; "):
        find_methods(Config(methods=["complete"]).methods)


def test_the_inspector_is_launched_only_where_its_method_is_asked_for() -> None:
    words = "experiment=mmqa_prune", "roles.inspector.reader.trust=0.3"
    assert [role.name for role in plan_of(load(["experiment=mmqa_prune"])).roles.helpers] == ["decision", "single"]
    asked = plan_of(load(["experiment=mmqa_prune", "methods=[full,inspector]"])).roles.helpers
    assert [role.name for role in asked] == ["decision", "single", "inspector"]
    with pytest.raises(UserError, match=r"^roles\.inspector: "):
        plan_of(load([*words]))
    plan_of(load([*words, "methods=[inspector]"]))


def test_a_role_that_nobody_has_is_told_the_nearest() -> None:
    for word in ("roles.text_crtic.model.name=x", "roles.text_critc.agent=a.b:c"):
        with pytest.raises(UserError, match="'text_critic'"):
            plan_of(load(["experiment=mmqa_prune", word]))
    # A system's own roles may be named, in a run of which the team is no part.
    words = ["experiment=mmapg", "methods=[mmapg]"]
    plan_of(load([*words, "roles.graph_planner.model.name=x"]))
    with pytest.raises(UserError, match=r"^roles\.text_critic: "):
        plan_of(load([*words, "roles.text_critic.model.name=x"]))


def test_roles_with_equal_models_share_one_and_those_with_the_run_s_own_ask_that() -> None:
    eyes = [f"roles.{role}.model.name=B" for role in ROLES[1:3]]
    found = find_models(load([*OPENAI, *eyes, "roles.text_critic.model.name=A"]), ROLES)
    own = found.of_roles
    assert own.keys() == {"visual_critic", "visual_scientist"}
    assert list(found.of_roles_by_key) == ["roles.visual_critic.model"]
    assert own["visual_critic"] is own["visual_scientist"]


def test_a_role_s_model_has_one_replica_unless_it_says_how_many() -> None:
    words = [*OPENAI[:1], "model.replicas=4", "roles.text_critic.reader.trust=0.3", "roles.single.reader.trust=0.4"]
    found = find_models(load([*words, "roles.single.model.replicas=3", "judge=reader"]), ROLES)
    assert {role: backend.replicas for role, backend in found.of_roles.items()} == {"text_critic": 1, "single": 3}
    assert (found.main.replicas, found.judge and found.judge.replicas) == (4, 1)


def test_models_of_other_settings_have_caches_of_their_own() -> None:
    config = load(["experiment=mmqa_prune", "roles.single.reader.error_rate=0", "roles.text_critic.reader.trust=0.3"])
    own = find_models(config, ROLES).of_roles
    assert len({backend.identity() for backend in own.values()}) == len(own) == 2


def test_settings_of_the_reader_make_no_other_model_of_an_endpoint() -> None:
    assert not find_models(load([*OPENAI, "roles.single.reader.error_rate=0"]), ROLES).of_roles


def test_records_name_all_models_the_run_s_own_first() -> None:
    eyes = [f"roles.{role}.model.name=B" for role in ROLES[1:3]]
    assert load([*OPENAI, *eyes, "roles.single.model=reader"]).models_named == "A + B + reader"
    assert load(OPENAI).models_named == "A"


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("roles.single.model.name=''", r"^roles\.single\.model=openai .*roles\.single\.model\.base_url="),
        ("roles.single.model=vllm", r"^roles\.single\.model=vllm .*roles\.single\.model\.name="),
        ("roles.single.model=replay", r"^roles\.single\.model=replay "),
    ],
)
def test_a_role_s_model_that_cannot_work_is_found_out_before_anything_starts(word: str, says: str) -> None:
    with pytest.raises(UserError, match=says):
        plan_of(load([*OPENAI, word]))


def test_the_judge_s_model_is_the_run_s_but_for_what_it_overrides() -> None:
    own = find_models(load([*OPENAI, "model.key_env=KEY", "judge.name=B"]), ()).judge
    assert own is not None
    assert (own.settings.kind, own.settings.name, own.settings.base_url, own.replicas) == (
        "openai",
        "B",
        "http://a/v1",
        1,
    )
    other = find_models(load([*OPENAI, "model.key_env=KEY", "judge.base_url=http://b/v1"]), ()).judge
    assert other is not None
    assert (other.settings.key_env, other.settings.name) == ("", "A")
    reader = find_models(load([*OPENAI, "judge=reader"]), ()).judge
    assert reader is not None
    assert (reader.settings.kind, reader.settings.name) == ("reader", "")
    assert find_models(load([*OPENAI, "judge=none"]), ()).judge is None
    with pytest.raises(UserError, match=r"judge.nmae"):
        load([*OPENAI, "judge.nmae=B"])
