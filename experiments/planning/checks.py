"""Checks a plan as a whole: runtime, replay, defences, attack, models, web and files."""

from pathlib import Path

from actors.errors import UserError
from experiments.attacks.catalogue import attack_kind
from experiments.evidence.library import check_web
from experiments.planning.lock import read_lock
from experiments.planning.plan import Plan
from topologies.systems.bdog_scene_graphs import read_blueprints


def check_plan(plan: Plan) -> None:
    """Raises UserError for settings, models, files or an attack that would end a run at its start or later."""
    config, team = plan.config, plan.roles.team
    if config.runtime == "inline" and config.ray.address is not None:
        raise UserError(f"runtime=inline uses no Ray, and ray.address={config.ray.address} names one: drop either")
    if config.replay.run is not None and config.model.kind != "replay":
        raise UserError(f"replay.run={config.replay.run} is read with model=replay alone: name that too, or drop it")
    if plan.watched_questions and (dropped := config.defence.dropped or 0) >= len(team):
        raise UserError(f"defence.dropped={dropped}: expected fewer than the {len(team)} agents of the team")
    if config.ablation in ("no_inter", "no_alignment") and plan.job.learns and not plan.learners:
        raise UserError(
            f"ablation={config.ablation} leaves out a part of a learner, and none of the methods learns a graph"
        )
    for method in plan.methods:
        method.check(plan.roles.agents, config.topology.rounds)
        if method.spends and method.name not in plan.spent:
            raise UserError(f"methods: {method.name} spends the tokens of a team; name one before it, such as full")
    for name, agent in {role.played: role.agent for role in plan.roles.launched if role.agent}.items():
        from actors.autogen.hosted import load_factory  # imports AutoGen, which a run without such agents does without

        load_factory(agent, f"roles.{name}.agent")  # for its errors alone; each agent's process loads its own
    models = plan.models
    for backend in filter(None, (models.judge,)) if config.model.kind == "replay" else models.all:
        # `maker` checks the settings; nothing is started before it is called in a replica's process.
        backend.maker()
    check_web(config.retrieval, replayed=config.model.kind == "replay")
    # Read for its errors; the method reads it again when it is made.
    read_blueprints(config.systems.blueprints)
    if config.figures.style:
        from experiments.analysis.figures.style import own_style  # imports matplotlib

        own_style(config.figures.style)
    if len(set(plan.evaluated)) < len(plan.evaluated):
        raise UserError(
            f"attack.clean, compare.twins: two evaluations share a name of {', '.join(plan.evaluated)}; rename yours"
        )
    if config.compare.plan:
        read_lock(Path(config.compare.plan))
    pair, names = config.compare.stop, [method.name for method in plan.methods]
    if pair and (len(pair) != 2 or len(set(pair)) != 2 or not set(pair) <= set(names)):
        raise UserError(f"compare.stop=[{', '.join(pair)}]: expected two of the methods, {', '.join(names)}")
    # An attack that would never begin.
    settings = config.attack
    evaluated = [config.data.limit] if settings.attacks("evaluate") else []
    # Questions of each phase before the evaluation.
    training = [plan.training_questions] if plan.learners else []
    training += [plan.watched_questions] if plan.watched_questions else []
    if settings.attacks("train") and not (evaluated or training):
        raise UserError(
            "attack.when=train: none of the methods learns a graph or watches agents, so no agent is attacked"
        )
    phases = [*evaluated, *(training if settings.attacks("train") else ())]
    # Systems decide their rounds; the data set decides how many questions are evaluated where no limit is given.
    rounds = config.topology.rounds if plan.roles.team_is_asked else None
    questions = None if None in phases else max(filter(None, phases), default=None)
    attack_kind(settings.kind)(settings).check_phases(rounds, questions)
