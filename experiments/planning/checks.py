"""Checks a plan as a whole: runtime, replay, defences, attack, models, web and files."""

from pathlib import Path

from actors.errors import UserError
from experiments.attacks.catalogue import attack_kind
from experiments.evidence.library import check_web
from experiments.planning.lock import read_lock
from experiments.planning.plan import Plan
from topologies.systems.bdog_scene_graphs import read_blueprints
from topologies.topology import DECISION_AGENT


def check_plan(plan: Plan) -> None:
    """Raises UserError for settings, models, files or an attack that would end a run at its start or later."""
    config = plan.config
    if config.runtime == "inline" and config.ray.address is not None:
        raise UserError(f"runtime=inline uses no Ray, and ray.address={config.ray.address} names one: drop either")
    check_methods(plan)
    check_models(plan)
    check_web(config.retrieval, replayed=config.replays)
    # Read for its errors; the method reads it again when it is made.
    read_blueprints(config.systems.blueprints)
    if config.figures.style:
        from experiments.analysis.figures.style import own_style  # imports matplotlib

        own_style(config.figures.style)
    check_comparisons(plan)
    check_attack_phases(plan)


def check_methods(plan: Plan) -> None:
    """Raises UserError where a method cannot have the team, its rounds or what it needs from other methods."""
    config = plan.config
    agents = plan.roles.agents
    dropped = config.defence.dropped or 0
    if plan.watched_questions and dropped >= len(agents):
        raise UserError(f"defence.dropped={dropped}: expected fewer than the {len(agents)} agents of the team")
    if config.ablation in ("no_inter", "no_alignment") and plan.job.learns and not plan.learners:
        raise UserError(
            f"ablation={config.ablation} leaves out a part of a learner, and none of the methods learns a graph"
        )
    for method in plan.methods:
        method.check(agents, config.topology.rounds)
        if method.spends and method.name not in plan.spent:
            raise UserError(f"methods: {method.name} spends the tokens of a team; name one before it, such as full")


def check_models(plan: Plan) -> None:
    """Raises UserError for models with settings that cannot work, and agents of others that cannot be imported."""
    hosted = {role.played: role.agent for role in plan.roles.launched if role.agent}
    for role, agent in hosted.items():
        from actors.autogen.hosted import load_factory  # imports AutoGen, which a run without such agents does without

        load_factory(agent, f"roles.{role}.agent")  # for its errors alone; each agent's process loads its own
    for backend in plan.models.all:
        # `maker` checks the settings; nothing is started before it is called in a replica's process. Of a replay only
        # the judge answers anew.
        if backend is plan.models.judge or not plan.config.replays:
            backend.maker()


def check_comparisons(plan: Plan) -> None:
    """Raises UserError for evaluations of one name, a plan that cannot be read, and a pair that is not compared."""
    config = plan.config
    if len(set(plan.evaluated)) < len(plan.evaluated):
        raise UserError(
            f"attack.clean, compare.twins: two evaluations share a name of {', '.join(plan.evaluated)}; rename yours"
        )
    if config.compare.plan:
        read_lock(Path(config.compare.plan))
    pair = config.compare.stop
    names = [method.name for method in plan.methods]
    if pair and (len(pair) != 2 or len(set(pair)) != 2 or not set(pair) <= set(names)):
        raise UserError(f"compare.stop=[{', '.join(pair)}]: expected two of the methods, {', '.join(names)}")


def check_attack_phases(plan: Plan) -> None:
    """Raises UserError for an attack that would never begin."""
    attack = plan.config.attack
    agents = ", ".join(plan.roles.attackable)
    if DECISION_AGENT in plan.attackers and not plan.roles.team_is_asked:
        raise UserError(f"attack.agents: none of the methods asks the decision agent; there are {agents}")
    questions = []  # of each attacked phase; None where all questions of a data set are evaluated
    if attack.attacks("evaluate"):
        questions.append(plan.config.data.limit)
    if attack.attacks("train"):
        if plan.learners:
            questions.append(plan.training_questions)
        if plan.watched_questions:
            questions.append(plan.watched_questions)
        if not questions:
            raise UserError(
                "attack.when=train: none of the methods learns a graph or watches agents, so no agent is attacked"
            )
    most_questions = None if None in questions else max(filter(None, questions), default=None)
    # Systems decide their rounds.
    rounds = plan.config.topology.rounds if plan.roles.team_is_asked else None
    attack_kind(attack.kind)(attack).check_phases(rounds, most_questions)
