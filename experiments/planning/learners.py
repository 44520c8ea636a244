"""Specifies the learners of a run, and checks them."""

from collections.abc import Sequence
from dataclasses import replace

from actors.errors import UserError
from actors.messages import Role
from experiments.config.config import Config
from topologies import graphs
from topologies.graphs import candidates_along
from topologies.learning.spec import DENSE, LearnerSpec
from topologies.learning.variants import M3PRUNE, Variant
from topologies.method import Method


def learned_variants(methods: Sequence[Method]) -> tuple[Variant, ...]:
    """Lists the variants that learn a graph. Where none is named and a method needs a graph, it is M3Prune's."""
    learned = tuple(method.learner for method in methods if method.learner)
    if not learned and any(method.needs_graph for method in methods):
        return (M3PRUNE,)
    return learned


def plan_learners(config: Config, variants: Sequence[Variant], team: Sequence[Role]) -> dict[str, LearnerSpec]:
    """Plans the learner of each method, by its name. Raises UserError for settings, samples or a team that it cannot
    have."""
    topology, specs, chosen = config.topology, {}, None
    for variant in variants:
        check_samples(variant, config.training.samples)
    if variants and len(team) > DENSE:
        raise UserError(
            f"{variants[0].name}: a run that learns records matrices of all pairs, and there are {len(team)} agents; "
            f"ask for {DENSE} at most, with topology.instances"
        )
    if variants and topology.candidates != "complete":
        drawn = {"seed": config.seed} if topology.candidates in ("regular", "small_world") else {}
        chosen = candidates_along(getattr(graphs, topology.candidates)(len(team), **drawn))
    for variant in variants:
        method = variant.name
        if config.ablation == "no_inter":
            variant = replace(variant, inter=False)
        if config.ablation == "no_alignment":
            if not variant.estimator.is_gradient:
                raise UserError(f"ablation=no_alignment: {method} has no alignment term; leave it out of methods")
            variant = replace(variant, terms=variant.terms - {"alignment"})
        specs[method] = LearnerSpec(
            modalities=[role.modality for role in team],
            rounds=topology.rounds,
            seed=config.seed,
            variant=variant,
            settings=config.learner,
            pruning=config.pruning,
            candidates=chosen,
            roles=[role.played for role in team] if topology.tied else None,
        )
        try:
            specs[method].check()
        except UserError as error:
            raise UserError(f"{method}: {error}") from error
    return specs


def check_samples(variant: Variant, samples: int) -> None:
    """Raises UserError where a learner gets too few samples of each question."""
    if (variant.estimator.compares_samples or variant.removal) and samples < 2:
        raise UserError(
            f"training.samples={samples}: {variant.name} compares the samples of a question with each other and needs "
            f"2; raise it, or leave {variant.name} out"
        )
