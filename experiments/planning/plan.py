"""The plan of a run: everything that its configuration resolves to, checked once and handed on.

A run, a dry run, a study and every trial of a sweep start from a plan. Functions below it take the part that they need
(`plan.methods`, `config.training`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Literal

from experiments.attacks.attack import choose_attackers
from experiments.config.config import Config
from experiments.datasets.catalogue import dataset_kind
from experiments.datasets.kind import DatasetKind
from experiments.evidence.extraction import CAPTIONS, GRAPH, Step
from experiments.evidence.retrieval_settings import RetrievalSettings
from experiments.judging.rubric import RUBRICS, Rubric
from experiments.planning.learners import learned_variants, plan_learners
from experiments.planning.run_models import RunModels, find_models
from experiments.planning.run_roles import RunRoles, find_roles
from experiments.records.recorder import RunFolder
from topologies.catalogue import find_methods
from topologies.learning.spec import LearnerSpec, shared_training
from topologies.method import Method


class Job:
    """One value of `job=`: a kind of run, and the steps that the runner takes with it.

    name: as in the configuration.
    reads: keys of the settings that count with it and not with every job.
    asks_team: the team takes part whatever the methods are.
    learns: graphs of its learned methods are learned.
    holds_out: training questions are taken out of the evaluation whatever the methods are.
    searches: its methods search graphs and the web.
    is_counted: a dry run can count its calls and tokens.
    """

    name: ClassVar[str]
    reads: ClassVar[tuple[str, ...]] = ()
    asks_team: ClassVar[bool] = False
    learns: ClassVar[bool] = True
    holds_out: ClassVar[bool] = False
    searches: ClassVar[bool] = False
    is_counted: ClassVar[bool] = False

    def check(self, plan: Plan) -> None:
        """Checks a plan for this job, before anything is opened or started. Raises UserError."""

    def discussions(self, plan: Plan, questions: int) -> int:
        """Counts the discussions, at most, of a method that is evaluated on so many questions."""
        return questions

    def run(self, plan: Plan, folder: RunFolder) -> bool:
        """Does the job from where it was left. Returns False without a conclusion. Raises UserError; records stay."""
        raise NotImplementedError


Kind = Literal["method", "twin", "placebo", "clean"]


@dataclass(frozen=True)
class Evaluation:
    """Pass of a method over the evaluated questions: itself, a control, or without the attack."""

    name: str
    method: Method
    kind: Kind = "method"


@dataclass(frozen=True)
class Plan:
    """Parts of a run.

    config: its settings. job: its kind. methods: what it evaluates, in order.
    roles: of the team and all others. models: of agents and the judge.
    attackers: names of the compromised agents.
    learners: by learned method, in order; empty for a job that learns nothing.
    shared_from: by learned method, the method whose discussions it learns from, if not its own ones.
    dataset: the kind of data set. retrieval: its settings, nothing left to `auto`.
    extraction: the steps in which the model extracts captions and triples before the discussions.
    """

    config: Config
    job: Job
    methods: tuple[Method, ...]
    roles: RunRoles
    models: RunModels
    attackers: tuple[str, ...]
    learners: Mapping[str, LearnerSpec]
    shared_from: Mapping[str, str]
    dataset: DatasetKind
    retrieval: RetrievalSettings
    extraction: tuple[Step, ...]

    @property
    def learns(self) -> bool:
        """True if a graph is learned, or one is needed."""
        return bool(learned_variants(self.methods))

    @property
    def watches(self) -> bool:
        """True if a method watches unlabelled discussions before the evaluation."""
        return self.watched_questions > 0

    @property
    def searches(self) -> bool:
        """True if a method searches a knowledge graph and the web."""
        return self.job.searches and self.has_library

    @property
    def judges(self) -> bool:
        """True if a model judges answers."""
        return self.models.judge is not None

    @property
    def asks_reader(self) -> bool:
        """True if a model is the embedded reader, or recorded answers may be its."""
        return any("reader" in backend.reads for backend in self.models.all)

    @property
    def has_library(self) -> bool:
        """True if a method searches by question."""
        return any(method.needs_library for method in self.methods)

    @property
    def watched_questions(self) -> int:
        """Training questions that some defences watch; with `probes` one of each document among them."""
        if any(method.needs_calibration for method in self.methods):
            return self.config.defence.calibration
        return 0

    @property
    def probes(self) -> bool:
        """True if watched questions are probes, one of each document."""
        return any(method.probes for method in self.methods)

    @property
    def training_questions(self) -> int:
        """Training questions that both stages learn from."""
        return 2 * self.config.pruning.steps * self.config.training.questions_per_step

    @property
    def takes_samples(self) -> bool:
        """True unless each learner takes fewer samples of a training question than there are."""
        available = self.config.training.samples
        sample_counts = [learner.samples(available) for learner in self.learners.values()]
        return max(sample_counts, default=available) == available

    @property
    def training_steps(self) -> int:
        """Training steps of both stages, of all learners; shared ones count once."""
        return 2 * self.config.pruning.steps * max(1, len(self.learners) - len(self.shared_from))

    @property
    def processes(self) -> int:
        """Number of actors that answer: one for each role, however many agents have it, and each replica."""
        return len(self.roles.played) + sum(backend.replicas for backend in self.models.all)

    @property
    def replayed(self) -> Path | None:
        """Folder of the run that this one replays. None for a run that asks a model."""
        if self.config.replays and self.config.replay.run:
            return Path(self.config.replay.run)
        return None

    @property
    def clean(self) -> dict[str, str]:
        """Names of the evaluations without the attack, by method. Empty where there is none (`attack.clean`)."""
        attack = self.config.attack
        if not (attack.clean and attack.attacks("evaluate")):
            return {}
        return {method.name: f"{method.name}-clean" for method in self.methods}

    @property
    def controls(self) -> dict[str, dict[Kind, str]]:
        """Names of the evaluations of a method's twin and its placebo, by method. Empty without `compare.twins`."""
        if not self.config.compare.twins:
            return {}
        controls: dict[str, dict[Kind, str]] = {}
        for method in self.methods:
            if not method.alone:
                controls[method.name] = {"twin": f"{method.name}-twin", "placebo": f"{method.name}-placebo"}
        return controls

    @property
    def spent(self) -> dict[str, Method]:
        """Teams or systems whose tokens a method spends, by its name: the last one before it."""
        teams: dict[str, Method] = {}
        team = None
        for method in self.methods:
            if method.spends and team:
                teams[method.name] = team
            if not method.alone:
                team = method
        return teams

    @property
    def evaluations(self) -> tuple[Evaluation, ...]:
        """All evaluations in their order: the methods, then their controls, then those without the attack."""
        controls = self.controls
        clean = self.clean
        evaluations = [Evaluation(method.name, method) for method in self.methods]
        for method in self.methods:
            for kind, name in controls.get(method.name, {}).items():
                evaluations.append(Evaluation(name, method, kind))
        for method in self.methods:
            if method.name in clean:
                evaluations.append(Evaluation(clean[method.name], method, "clean"))
        return tuple(evaluations)

    @property
    def evaluated(self) -> tuple[str, ...]:
        """Names of all evaluations."""
        return tuple(evaluation.name for evaluation in self.evaluations)

    @property
    def rubric(self) -> Rubric:
        name = self.config.judge_rubric
        if name == "auto":
            name = self.dataset.rubric
        return RUBRICS[name]


def make_plan(config: Config, job: Job) -> Plan:
    """Resolves a configuration; starts nothing, and opens no data. Raises UserError for what would end the run."""
    methods = find_methods(config.methods)
    dataset = dataset_kind(config.data.kind)
    retrieval = config.retrieval
    if retrieval.scope == "auto":
        retrieval = replace(retrieval, scope=dataset.scope)
    extraction = _extraction(retrieval, searches=job.searches and any(method.needs_library for method in methods))
    roles = find_roles(
        config,
        methods,
        team_is_asked=job.asks_team or any(method.asks_team for method in methods),
        extracting=[step.role for step in extraction],
    )
    learners = {}
    if job.learns:
        learners = plan_learners(config, learned_variants(methods), roles.team)
    shared_from = {}
    if config.training.share:
        shared_from = shared_training(learners)
    return Plan(
        config=config,
        job=job,
        methods=methods,
        roles=roles,
        models=find_models(config, roles.played),
        attackers=choose_attackers(config.attack, roles.attackable, config.seed),
        learners=learners,
        shared_from=shared_from,
        dataset=dataset,
        retrieval=retrieval,
        extraction=extraction,
    )


def _extraction(retrieval: RetrievalSettings, *, searches: bool) -> tuple[Step, ...]:
    """Lists the steps in which the model extracts from the corpus. searches: methods search its knowledge graph."""
    steps = []
    if retrieval.captions == "model":
        steps.append(CAPTIONS)
    if retrieval.graph == "model" and searches:
        steps.append(GRAPH)
    return tuple(steps)
