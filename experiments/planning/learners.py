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
from topologies.wiring import Edges, Ints


def learned_variants(methods: Sequence[Method]) -> tuple[Variant, ...]:
    """Lists the variants that learn a graph. Where none is named and a method needs a graph, it is M3Prune's."""
    variants = tuple(method.learner for method in methods if method.learner)
    if not variants and any(method.needs_graph for method in methods):
        return (M3PRUNE,)
    return variants


def plan_learners(config: Config, variants: Sequence[Variant], team: Sequence[Role]) -> dict[str, LearnerSpec]:
    """Specifies the learner of each variant, by name. Raises UserError for settings, samples or a team that it cannot
    have."""
    if not variants:
        return {}
    if len(team) > DENSE:
        raise UserError(
            f"{variants[0].name}: a run that learns records matrices of all pairs, and there are {len(team)} agents; "
            f"ask for {DENSE} at most, with topology.instances"
        )
    for variant in variants:
        check_samples(variant, config.training.samples)

    candidates = _candidates(config, len(team))
    roles = [role.played for role in team] if config.topology.tied else None
    specs = {}
    for variant in variants:
        spec = LearnerSpec(
            modalities=[role.modality for role in team],
            rounds=config.topology.rounds,
            seed=config.seed,
            variant=_ablated(variant, config.ablation),
            settings=config.learner,
            pruning=config.pruning,
            candidates=candidates,
            roles=roles,
        )
        try:
            spec.check()
        except UserError as error:
            raise UserError(f"{variant.name}: {error}") from error
        specs[variant.name] = spec
    return specs


def _candidates(config: Config, agents: int) -> Edges[Ints] | None:
    """Draws the graph whose edges learners choose among. None for all pairs of agents."""
    kind = config.topology.candidates
    if kind == "complete":
        return None
    graph = getattr(graphs, kind)
    edges = graph(agents, seed=config.seed) if graph in graphs.DRAWN else graph(agents)
    return candidates_along(edges)


def _ablated(variant: Variant, ablation: str) -> Variant:
    """Leaves out a part of a learner. Raises UserError for one that does not have it."""
    if ablation == "no_inter":
        return replace(variant, inter=False)
    if ablation == "no_alignment":
        if not variant.estimator.is_gradient:
            raise UserError(f"ablation=no_alignment: {variant.name} has no alignment term; leave it out of methods")
        return replace(variant, terms=variant.terms - {"alignment"})
    return variant


def check_samples(variant: Variant, samples: int) -> None:
    """Raises UserError where a learner gets too few samples of each question."""
    if (variant.estimator.compares_samples or variant.removal) and samples < 2:
        raise UserError(
            f"training.samples={samples}: {variant.name} compares the samples of a question with each other and needs "
            f"2; raise it, or leave {variant.name} out"
        )
