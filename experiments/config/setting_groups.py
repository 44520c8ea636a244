"""Groups of settings that belong to no other file."""

import re
from dataclasses import dataclass, field
from typing import Any, Literal

from actors.backends.model_settings import ModelSettings
from actors.lookup import names_code
from actors.reader.reader import ReaderSettings
from actors.settings import setting
from experiments.attacks.catalogue import ATTACKS
from topologies.graph_file import is_graph_file
from topologies.learning.learner_settings import Graph, Inference

MOST_TRIALS = 10_000  # of a sweep: it checks them all before it starts


def is_style_file(name: str) -> bool:
    """True for a path. Names of matplotlib's own styles have letters, digits, - and _ alone."""
    return not re.fullmatch(r"[\w-]*", name)


def is_outside_method(name: str) -> bool:
    """True for a method that is code of others, or a graph in a file."""
    return is_graph_file(name) or names_code("methods")(name)


@dataclass
class FigureSettings:
    """Figures of a run."""

    kind: bool | None = None
    """Draw the run's figures at its end (null: yes, but not for the trials of a sweep). `figures=true` is short for
    it."""
    style: str = setting("", outside=is_style_file, path=is_style_file, since="0.4.0")
    """Style over the project's own: the name of one of matplotlib's, such as `ggplot`, or the path of a file of
    matplotlib settings (`mine.mplstyle`)."""


@dataclass
class RoleField:
    """One field of a role's own form."""

    name: str = ""
    """Label of its line in a reply; `answer` and `confidence` fields have fixed labels."""
    asks: str = ""
    """Request to the model, in words."""
    value: Literal["text", "picture", "entity", "triple", "choice", "answer", "confidence"] = "text"
    """Kind of value: `text`, `picture` (a description), `entity` (a name), `triple` (head | relation | tail), `choice`
    (one of `choices`), `answer` (to the question) or `confidence` (from 0 to 1)."""
    choices: list[str] = field(default_factory=list)
    many: bool = False
    """Allows several values."""
    required: bool = True
    """Repeats a call whose reply lacks it; after a second such reply the turn fails."""

    def __post_init__(self) -> None:
        """Raises ValueError for a field that cannot be asked for."""
        if self.value in ("answer", "confidence"):
            label = self.value.capitalize()
            if self.name not in ("", label) or self.many:
                raise ValueError(f"name={self.name!r}: the field of value {self.value} is one {label}")
        elif not re.fullmatch(r"[A-Za-z][A-Za-z -]{0,39}", self.name) or self.name in ("Answer", "Confidence"):
            raise ValueError(f"name={self.name!r}: expected a name of letters that no field of another value has")
        if (self.value == "choice") != (len(set(self.choices)) > 1):
            raise ValueError(f"choices={self.choices}: expected several, for a field of value choice and no other")


@dataclass
class RoleSettings:
    """Settings of one role, by its name in traces: `roles.text_critic.agent=package.module:function`."""

    agent: str | None = setting(None, outside=names_code("agents"))
    """`package.module:function` that makes an agent of AutoGen or agent-framework for the role, or is an async function
    of messages (null: a built-in agent)."""
    model: dict[str, Any] = setting(factory=dict, over=ModelSettings)
    """Overrides over `model` for this role, by the same keys: `roles.visual_critic.model.name=...`. Another kind starts
    from the defaults, another address without a key. Roles with equal models share one pool, of one replica unless
    `replicas` is given."""
    reader: dict[str, Any] = setting(factory=dict, over=ReaderSettings)
    """Overrides over `reader` for this role, by the same keys."""
    instances: int | None = setting(None, at_least=1, at_most=10_000)
    """Number of agents with this role (null: `topology.instances`)."""
    instruction: str = ""
    """Instruction of the role (empty: the built-in one). A role of your own is `text_<name>` or `visual_<name>` here,
    and `<name>` in `topology.text` or `topology.visual`."""
    form: list[RoleField] = field(default_factory=list)
    """Fields of the replies of a team's role (empty: reasoning, answer and confidence). Each has `name`, `asks` (the
    request, in words), `value` (`text`, `picture`: a description, `entity`, `triple`, `choice`: one of `choices`,
    `answer`, `confidence`), `many` and `required`. A role whose form has no answer gives none."""

    def __post_init__(self) -> None:
        """Raises ValueError for a form with two fields of one name."""
        # As labels are read: by their letters.
        names = [re.sub(r"[^a-z]", "", (field.name or field.value).lower()) for field in self.form]
        if len(set(names)) < len(names):
            raise ValueError("form: two fields have one name")


@dataclass
class GameSettings:
    """Attacks against defences as a zero-sum game, and an attacker that knows the defence (`job=game`)."""

    attacks: list[str] = setting(
        factory=lambda: [attack.name for attack in ATTACKS if attack.in_games], outside=names_code("attacks")
    )
    """Kinds of attack, by the names of `help=attacks`."""
    number: int = setting(2, at_least=1, at_most=10_000)
    """Budget of an attacker: agents that it compromises, or whose messages it reaches in transit."""
    training: int = setting(12, at_least=1, at_most=100_000)
    """Training questions on which the game is solved and attackers choose their responses."""
    tries: int = setting(16, at_least=0, at_most=10_000)
    """Most settings that an attacker tries for a response: agents, rounds, target, confidence, phrasing, kind, ..."""


@dataclass
class ReplaySettings:
    run: str | None = setting(None, path=bool)
    """Run folder with the recorded turns that `model=replay` answers with."""


@dataclass
class ExplainSettings:
    """Attribution: turns without which an answer would have been another. `explain=<run>` explains a finished run."""

    answers: int = setting(0, at_least=0, at_most=10_000_000)
    """Most answers that a run explains at its end; 0: none, or with `explain=<run>` all."""
    which: Literal["wrong", "right"] = "wrong"
    """Answers to explain."""
    method: str | None = None
    """Evaluation whose answers are explained (null: the last method's)."""
    by: Literal["auto", "counterpart", "silence", "sample"] = "auto"
    """Replacement of a turn: `counterpart`: the honest turn, with the attack off and the same seed; `silence`: no
    message; `sample`: the turn with another seed; `auto`: `counterpart` where there is an attack, else `silence`."""
    search: Literal["auto", "single", "groups"] = "auto"
    """Interventions: `groups`: the attack, and parts of it until the smallest set that matters is found; `single`: also
    all agents and turns, and edges of turns that matter; `auto`: `groups`."""
    budget: float = setting(1.0, above=0, since="0.4.0")
    """Tokens that interventions may use, as a share of the explained discussions' tokens."""
    calibration: str | None = setting(None, outside=bool, path=bool)
    """Attacked and explained run that calibrates sets of suspects (null: the run itself, each half by the other)."""


@dataclass
class CompareSettings:
    """Comparisons of methods: margin, plan, early stopping and power."""

    margin: float = setting(0.05, above=0, below=1, since="0.4.0")
    """Loss of utility below which a method is not worse than another. State it before the run."""
    question: str = setting("", since="0.4.0")
    """Question of the study, in words."""
    plan: str | None = setting(None, outside=bool, path=bool, since="0.4.0")
    """File of a plan that `lock=<file>` wrote before the run; the report names what differs from it."""
    stop: list[str] = setting(factory=list, since="0.4.0")
    """Two methods, [effects, full]: evaluation stops when an anytime-valid test of them reaches a verdict (empty: it
    does not). Questions then come in an order by seed, and are looked at ten by ten."""
    variance_from: str | None = setting(None, outside=bool, since="0.4.0")
    """Earlier run or sweep that gives the variance of differences, for the power in a dry run."""
    deviation: float = setting(0.5, above=0, at_most=1, since="0.4.0")
    """Standard deviation of a question's difference between two methods, where no earlier run has it."""
    correlation: float = setting(0.15, at_least=0, at_most=1, since="0.4.0")
    """Correlation of the differences of a cluster's questions, where no earlier run has it."""
    graph_deviation: float = setting(0.0, at_least=0, at_most=1, since="0.4.0")
    """Standard deviation between the graphs that a method learns with different seeds, where no earlier run has it."""
    twins: bool = setting(False, when="controls", since="0.4.0")
    """Evaluate two controls of every method: `<method>-twin`, one agent that spends the method's tokens on a vote of
    samples of its answer, and `<method>-placebo`, the method with messages of another question."""


@dataclass
class CostSettings:
    """Prices and speeds from which `dry_run=true` prints a price and hours. It prints neither without them."""

    run: str | None = setting(None, outside=bool)
    """Earlier run folder whose time and caches predict the hours, scaled by tokens."""
    prompt_tokens_per_s: float | None = setting(None, at_least=1e-9)
    """Prompt tokens per second of all replicas together; takes the place of `costs.run`."""
    completion_tokens_per_s: float | None = setting(None, at_least=1e-9)
    """Completion tokens per second of all replicas together; takes the place of `costs.run`."""
    prompt_price: float | None = setting(None, at_least=0)
    """Price of a million prompt tokens, in any currency."""
    cached_price: float | None = setting(None, at_least=0)
    """Price of a million prompt tokens that a prefix cache serves (null: as other prompt tokens)."""
    completion_price: float | None = setting(None, at_least=0)
    """Price of a million completion tokens."""
    gpu_hour_price: float | None = setting(None, at_least=0)
    """Price of an hour of one GPU."""

    @property
    def states_speed(self) -> bool:
        """True if a speed is given, which takes the place of an earlier run's."""
        return bool(self.prompt_tokens_per_s or self.completion_tokens_per_s)

    def price(self, prompt: float, completion: float, cached: float = 0) -> float | None:
        """Prices computed and prefix-cached prompt tokens, and completion tokens. None without a price of either."""
        if self.prompt_price is None and self.completion_price is None:
            return None
        prompt_price = self.prompt_price or 0.0
        cached_price = prompt_price if self.cached_price is None else self.cached_price
        completion_price = self.completion_price or 0.0
        return (prompt * prompt_price + cached * cached_price + completion * completion_price) / 1e6


@dataclass
class TopologySettings:
    """The agents and how they discuss."""

    text: list[str] = field(
        default_factory=lambda: ["critic", "data_analyst", "knowledge_expert", "scientist", "logic_expert"]
    )
    """Textual roles of the team."""
    visual: list[str] = field(default_factory=lambda: ["critic", "data_analyst", "knowledge_expert", "scientist"])
    """Visual roles of the team."""
    without: list[str] = setting(factory=list, since="0.4.0")
    """Roles that are left out of the team, such as [text_critic]."""
    instances: int = setting(1, at_least=1, at_most=10_000)
    """Number of agents for each role whose number is not set. Several agents of `text_critic` are named
    `text_critic_1`, `text_critic_2`, ... and share one process."""
    rounds: int = setting(2, at_least=1, at_most=100)
    """Rounds of a discussion (T in the paper)."""
    evidence: Literal["all", "own_modality"] = "all"
    """Evidence that each agent of the team reads. `all`: everything retrieved, as in the paper (Eq. 1); `own_modality`:
    textual roles read passages and table rows, visual roles pictures, which shows what edges between modalities carry
    and shortens prompts. The decision agent and a single agent read everything; systems show their agents what their
    papers say."""
    candidates: Graph = "complete"
    """Graph whose edges, in either direction, learners choose among."""
    tied: bool = False
    """Policy-gradient methods learn one probability for each pair of roles, shared by all instances."""
    inference: Inference = "threshold"
    """Wiring of a learned graph at evaluation: `threshold` (one deterministic wiring) or `sampled`."""


@dataclass
class TrainingSettings:
    """Discussions for learning; a stage has `pruning.steps` steps."""

    samples: int = setting(10, at_least=1, at_most=10_000, when="takes_samples")
    """Wirings sampled for each question of a step (K in the paper); `effects` takes six at most."""
    questions_per_step: int = setting(1, at_least=1, at_most=10_000)
    """Training questions of a step."""
    share: bool = setting(False, before=True)
    """Lets `effects` learn from the discussions of another learned method that tries all edges (`m3prune`,
    `m3prune_rloo`, `agentprune` or `agentdropout`; the first in `methods`). This saves the tokens of its training, and
    costs accuracy: it sees less of the edges that the other method prunes early, and drops misleading agents from its
    own graph alone. Other methods always learn from their own discussions, as a policy gradient must."""


@dataclass
class SweepSettings:
    """Many runs that share agents, replicas, indexes and completions: with axes, points or more than one seed."""

    axes: dict[str, Any] = field(default_factory=dict)
    """Values to try by key: `sweep.axes.topology.rounds=[2,4,8]`; every combination is a trial. A value may
    be a list or a group."""
    points: list[dict[str, Any]] = field(default_factory=list)
    """Settings that vary together, by dotted key; each point is combined with all axes."""
    seeds: int = setting(1, at_least=1, at_most=MOST_TRIALS)
    """Number of seeds, counted from `seed`; every combination runs once with each."""
    search: Literal["grid", "random"] = "grid"
    """Runs all combinations of points and axes, or a random sample of them."""
    samples: int | None = setting(None, at_least=1, at_most=MOST_TRIALS, when="search=random")
    """random: number of combinations to draw, each run with every seed."""
    stop: Literal["none", "asha"] = "none"
    """`asha` ends trials early, without an evaluation, when their mean training utility falls behind."""
    grace: int = setting(10, at_least=1, when="stop=asha")
    """asha: training steps of every trial before it can end early."""
    reduction: int = setting(3, at_least=2, at_most=1_000, when="stop=asha")
    """asha: reduction factor; at each rung one trial in this many continues."""
    parallel: int = setting(2, at_least=1, at_most=1_000)
    """Trials that run at the same time."""
    start: bool = setting(True, since="0.4.0")
    """False writes the folders of the trials and starts none: `resume=<trial folder>` runs one as a job by itself, and
    `resume=<sweep folder> sweep.start=true` runs the other trials and sums up all."""
    planted: dict[str, Any] = setting(factory=dict, since="0.4.0")
    """Settings of `planted` (`help=planted`): explores these worlds with the sweep's learners too, and draws both
    (empty: no worlds)."""
