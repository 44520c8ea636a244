"""Which roles, methods and learner a configuration asks for; the ablations of the paper's Table 3."""

from __future__ import annotations

import numpy as np
import pytest

from actors.errors import UserError
from actors.messages import Modality, Question
from actors.runtime.inline import Local
from experiments.config.config import Config
from experiments.config.loading import load
from experiments.conformance import scripted
from experiments.running.launch import closing_roles, learned_methods, learner_options, processes, team_roles
from experiments.running.launched import check_learners, make_learners
from experiments.running.methods import METHODS, methods_of
from topologies.baselines import random_like
from topologies.learning.learned_topology import Inference, LearnedTopology, split
from topologies.learning.learner import Learner


def learner(*words: str) -> Learner:
    config = load(["experiment=mmqa_prune", *words])
    return Learner(
        [role.modality for role in team_roles(config)], **learner_options(config, learned_methods(config)[0])
    )


def test_the_default_team_is_five_textual_and_four_visual_agents() -> None:
    names = [role.name for role in team_roles(load(["experiment=mmqa_prune"]))]
    assert [name.startswith("text_") for name in names] == [True] * 5 + [False] * 4
    assert len(team_roles(load(["experiment=scienceqa_prune"]))) == 10


def test_what_the_team_reads_is_a_setting_and_where_it_stands_in_the_graph_is_not() -> None:
    everything, own = (
        load(["experiment=mmqa_prune", "methods=[full,hm_rag,mmapg,m3prune]", *words])
        for words in ((), ("topology.evidence=own_modality",))
    )
    assert {role.evidence for role in team_roles(everything)} == {Modality.BOTH}
    assert [role.evidence for role in team_roles(own)] == [role.modality for role in team_roles(own)]
    assert [role.modality for role in team_roles(own)] == [role.modality for role in team_roles(everything)]
    # Those that retrieve words read words alone, whatever the team is shown.
    assert closing_roles(everything) == closing_roles(own)
    assert {role.evidence for role in closing_roles(everything)} == set(Modality)


def test_a_role_has_as_many_agents_as_it_or_the_team_says_each_with_its_settings() -> None:
    words = ["topology.text=[critic]", "topology.visual=[scientist]", "topology.instances=2", "ablation=dummy_visual"]
    roles = team_roles(load(["experiment=mmqa_prune", *words, "roles.text_critic.instances=3"]))
    names = ["text_critic_1", "text_critic_2", "text_critic_3", "visual_scientist_1", "visual_scientist_2"]
    assert [role.name for role in roles] == names
    assert [role.played for role in roles] == ["text_critic"] * 3 + ["visual_scientist"] * 2
    assert [role.dummy for role in roles] == [False] * 3 + [True] * 2
    assert len({role.instruction for role in roles}) == 2


def test_agents_of_one_role_are_one_process() -> None:
    def started(*words: str) -> int:
        config = load(["experiment=mmqa_prune", *words])
        return processes(config, team_roles(config))

    # Nine roles, the decision agent, the one that answers alone, and two replicas.
    assert started() == started("topology.instances=30") == 13
    assert started("model.replicas=3") == 14


def checked(*words: str) -> Learner:
    config = load(["experiment=agentprune", "methods=[agentprune]", *words])
    return make_learners(config, team_roles(config))["agentprune"]


def test_logits_are_tied_by_role_or_those_of_a_sparser_graph_where_the_configuration_says_so() -> None:
    two = ["topology.text=[critic]", "topology.visual=[scientist]", "topology.instances=20"]
    assert checked(*two).state()["logits.spatial"].shape == (1, 40, 40)
    assert checked(*two, "topology.tied=true").state()["logits.spatial"].shape == (1, 4)
    sparse = checked(*two, "topology.candidates=ring")
    assert sparse.state()["logits.spatial"].shape == (1, 2 * 39)
    assert (sparse.probabilities().spatial > 0).sum() == 2 * 39
    again = checked(*two, "topology.candidates=regular", "seed=5").probabilities().spatial
    assert (again != checked(*two, "topology.candidates=regular", "seed=6").probabilities().spatial).any()


def test_what_cannot_be_learned_among_lists_or_in_a_run_is_one_line() -> None:
    config = load(["experiment=mmqa_prune", "methods=[effects]", "topology.tied=true"])
    with pytest.raises(UserError, match="effects"):
        check_learners(config, team_roles(config))
    with pytest.raises(UserError, match=r"there are 1800 agents; ask for 1000 at most, with topology.instances"):
        checked("topology.instances=200", "topology.tied=true")


def test_only_roles_of_the_team_have_instances_and_no_two_agents_have_one_name() -> None:
    base = ["experiment=mmqa_prune", "topology.text=[critic,critic_1]", "topology.visual=[]"]
    own = ["roles.text_critic_1.instruction=Doubt."]
    assert len(team_roles(load([*base, *own]))) == 2
    with pytest.raises(UserError, match=r"text_critic_1 would be the name of two agents"):
        team_roles(load([*base, *own, "roles.text_critic.instances=2"]))
    with pytest.raises(UserError, match=r"roles.decision.instances: only roles of the team"):
        team_roles(load(["experiment=mmqa_prune", "roles.decision.instances=2"]))
    with pytest.raises(UserError, match=r"topology.instances"):
        load(["experiment=mmqa_prune", "topology.instances=0"])


@pytest.mark.parametrize("modality", ["text", "visual"])
def test_a_dummy_ablation_silences_one_modality(modality: str) -> None:
    roles = team_roles(load(["experiment=mmqa_prune", f"ablation=dummy_{modality}"]))
    assert all(role.dummy == (role.modality == modality) for role in roles)


def test_without_the_inter_graph_there_is_one_stage_and_no_edge_between_modalities() -> None:
    ablated = learner("ablation=no_inter")
    assert ablated.stages == 1
    assert not ablated.sample(4).spatial[..., :5, 5:].any()
    assert learner().stages == 2


def test_without_alignment_the_term_does_not_count() -> None:
    assert "alignment" not in learner("ablation=no_alignment").spec.variant.terms
    with pytest.raises(UserError, match="no_alignment: effects"):
        learner("ablation=no_alignment", "methods=[effects]")
    assert "alignment" in learner().spec.variant.terms


def test_roles_and_methods_are_named_once() -> None:
    with pytest.raises(UserError, match="each role once"):
        team_roles(load(["experiment=mmqa_prune", "topology.text=[critic,critic]"]))
    with pytest.raises(UserError, match="each once"):
        methods_of(Config(methods=["full", "full"]))


def test_a_method_that_does_not_exist_is_refused_with_those_that_do() -> None:
    known = ", ".join(method.name for method in METHODS)
    with pytest.raises(UserError, match=rf"methods: there is no 'complete'\. .*Known: {known}; "):
        methods_of(Config(methods=["complete"]))


def test_the_inspector_is_launched_only_where_its_method_is_asked_for() -> None:
    words = "experiment=mmqa_prune", "roles.inspector.agent=actors.nothing:at_all"
    assert [role.name for role in closing_roles(load(["experiment=mmqa_prune"]))] == ["decision", "single"]
    asked = closing_roles(load(["experiment=mmqa_prune", "methods=[full,inspector]"]))
    assert [role.name for role in asked] == ["decision", "single", "inspector"]
    with pytest.raises(UserError, match=r"roles.inspector: nobody in this run has the role"):
        team_roles(load([*words]))
    team_roles(load([*words, "methods=[inspector]"]))


def test_a_role_that_nobody_has_is_told_the_nearest() -> None:
    for word in ("roles.text_crtic.model.name=x", "roles.text_critc.agent=a.b:c"):
        with pytest.raises(UserError, match=r"nobody in this run has the role. Did you mean 'text_critic'\? There"):
            team_roles(load(["experiment=mmqa_prune", word]))
    # A system's own roles may be named, in a run of which the team is no part.
    words = ["experiment=mmapg", "methods=[mmapg]"]
    team_roles(load([*words, "roles.graph_planner.model.name=x"]))
    with pytest.raises(UserError, match=r"roles.text_critic: nobody in this run has the role"):
        team_roles(load([*words, "roles.text_critic.model.name=x"]))


def test_a_random_graph_has_as_many_edges_as_the_pruned_one_and_differs_by_question() -> None:
    [pruned] = split(learner().inference_wirings())
    wire = random_like(pruned, rounds=2, seed=1)
    first, again, other = wire(Question("q1", "")), wire(Question("q1", "")), wire(Question("q2", ""))
    assert len(first.spatial) == len(other.spatial) == len(pruned.spatial)
    assert len(first.temporal) == len(pruned.temporal)
    np.testing.assert_array_equal(first.spatial, again.spatial)
    assert (first.spatial != other.spatial).any()


async def test_m3prune_answers_along_one_wiring_or_a_sampled_one() -> None:
    from tests.topologies.test_discussion import Recording

    names = [f"a{number}" for number in range(9)]
    wirings = []
    for inference in Inference:
        topology = LearnedTopology("m3prune", names, Local(learner()), inference)
        with pytest.raises(RuntimeError, match="freeze"):
            _ = topology.wiring
        await topology.freeze()
        assert scripted.topology("m3prune", None, Config(), names, topology) is topology
        traces = [await topology.answer(Question(f"q{n}", "?"), Recording().ask, seed=1) for n in range(2)]
        wirings.append([trace.spatial for trace in traces])
    assert wirings[0][0] == wirings[0][1]
    assert wirings[1][0] != wirings[1][1]
