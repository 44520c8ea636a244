"""What a user can choose, group by group; plain dataclasses, so that OmegaConf can read them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Literal

from actors.errors import UserError
from actors.settings import at_least, setting
from topologies.learning.learner_settings import Graph, Inference

MOST_TRIALS = 10_000  # of a sweep: it checks them all before it starts


@dataclass
class RoleField:
    """One field of a role's own form."""

    name: str = ""
    """What its line begins with; of an `answer` and a `confidence` their own names."""
    asks: str = ""
    """In words, what it should say."""
    value: Literal["text", "picture", "entity", "triple", "choice", "answer", "confidence"] = "text"
    """`text`, `picture` (what pictures show, in words), `entity` (a name), `triple` (head | relation | tail), `choice`
    (one of `choices`), `answer` (to the question), `confidence` (from 0 to 1)."""
    choices: list[str] = field(default_factory=list)
    many: bool = False
    """There may be several of it."""
    required: bool = True
    """Without it the reply is asked for once more, and then the turn has failed."""

    def check_values(self, key: str) -> None:
        """Raises UserError for a field that cannot be asked for."""
        if self.value in ("answer", "confidence"):
            if self.name not in ("", self.value.capitalize()) or self.many:
                raise UserError(f"{key}: the field of value {self.value} is one {self.value.capitalize()}")
        elif not re.fullmatch(r"[A-Za-z][A-Za-z -]{0,39}", self.name) or self.name in ("Answer", "Confidence"):
            raise UserError(
                f"{key}.name={self.name!r}: expected a name of letters, and none that fields of other values have"
            )
        if (self.value == "choice") != (len(set(self.choices)) > 1):
            raise UserError(f"{key}.choices={self.choices}: expected several, for a field of value choice and no other")


@dataclass
class RoleSettings:
    """One role, by its name in traces: `roles.text_critic.agent=package.module:function`."""

    agent: str | None = None
    """`package.module:function` that makes the AutoGen agent holding the role (null: ours)."""
    model: dict[str, Any] = field(default_factory=dict)
    """What the role's model has otherwise than `model`, by the same keys: `roles.visual_critic.model.name=...`. What is
    not said is as in `model`; of another kind, as by default. An address of its own has no key but its own. Roles whose
    models are equal share one pool, of one replica unless `replicas` is said."""
    reader: dict[str, Any] = field(default_factory=dict)
    """What the embedded reader has otherwise than `reader` for this role, by the same keys."""
    instances: int | None = at_least(1, default=None, most=10_000)
    """How many agents of the team have the role (null: `topology.instances`)."""
    instruction: str = ""
    """What the role is told to do (empty: as we tell it). One of your own is called `text_<name>` or `visual_<name>`
    here, and `<name>` in `topology.text` or `topology.visual`."""
    form: list[RoleField] = field(default_factory=list)
    """The fields of its replies, of a role of the team (empty: reasoning, answer and confidence): each with `name`,
    `asks` (in words, what it should say), `value` (`text`, `picture`: what pictures show, `entity`, `triple`, `choice`:
    one of `choices`, `answer`, `confidence`), `many` and `required`. Without an answer among them the role gives
    none."""

    def check_values(self, key: str) -> None:
        """Raises UserError for a form whose fields cannot be told apart."""
        for number, part in enumerate(self.form):
            part.check_values(f"{key}.form[{number}]")
        # As labels are read: by their letters.
        names = [re.sub(r"[^a-z]", "", (part.name or part.value).lower()) for part in self.form]
        if len(set(names)) < len(names):
            raise UserError(f"{key}.form: two fields have one name")


@dataclass
class ReplaySettings:
    run: str | None = None
    """The run folder whose recorded turns `model=replay` answers with."""


@dataclass
class CostSettings:
    """Prices and speeds from which `dry_run=true` prints a price and hours; it prints neither without them."""

    run: str | None = None
    """Earlier run folder whose time and caches predict the hours, scaled by tokens."""
    prompt_tokens_per_s: float | None = at_least(1e-9, default=None)
    """Prompt tokens per second of all replicas together; takes the place of `costs.run`."""
    completion_tokens_per_s: float | None = at_least(1e-9, default=None)
    """Completion tokens per second of all replicas together; takes the place of `costs.run`."""
    prompt_price: float | None = at_least(0, default=None)
    """Price of a million prompt tokens, in any currency."""
    cached_price: float | None = at_least(0, default=None)
    """Price of a million prompt tokens that a prefix cache serves (null: as other prompt tokens)."""
    completion_price: float | None = at_least(0, default=None)
    """Price of a million completion tokens."""
    gpu_hour_price: float | None = at_least(0, default=None)
    """Price of an hour of one GPU."""


@dataclass
class TopologySettings:
    """The agents and how they discuss."""

    text: list[str] = field(
        default_factory=lambda: ["critic", "data_analyst", "knowledge_expert", "scientist", "logic_expert"]
    )
    """Textual roles."""
    visual: list[str] = field(default_factory=lambda: ["critic", "data_analyst", "knowledge_expert", "scientist"])
    """Visual roles."""
    instances: int = at_least(1, default=1, most=10_000)
    """How many agents have each role, where the role itself does not say. Those of `text_critic` are then called
    `text_critic_1`, `text_critic_2`, ... and share one process."""
    rounds: int = at_least(1, default=2, most=100)
    """T of the paper."""
    evidence: Literal["all", "own_modality"] = "all"
    """What each agent of the team is shown. `all`: everything that was retrieved, as in the paper (Eq. 1);
    `own_modality`: textual roles passages and table rows, visual ones pictures, so that an agent knows of the other
    kind only what it hears. That is for studying what edges between modalities carry, and makes shorter prompts.
    Whoever decides or answers alone is shown everything, and agents of other systems what their systems show them."""
    candidates: Graph = Graph.COMPLETE
    """The edges that methods which learn by policy gradient may choose among: all, or those of a sparser graph, in
    either direction."""
    tied: bool = False
    """Such a method learns one probability for each pair of roles, which all their instances share. With this and with
    sparse candidates it learns from utility alone: the terms of rank, noise and alignment are of matrices of all
    pairs."""
    inference: Inference = Inference.THRESHOLD
    """How to answer with what was learned: `threshold` (one deterministic wiring) or `sampled`."""


@dataclass
class TrainingSettings:
    """How discussions are drawn for learning; a stage has `pruning.steps` steps."""

    samples: int = at_least(1, default=10, most=10_000)
    """K of the paper: wirings sampled for each question of a step."""
    questions_per_step: int = setting(1, at_least=1, at_most=10_000)
    """Training questions of a step."""
    share: bool = True
    """Where several graphs are learned, `effects` learns from the discussions of the first of the others that tries all
    edges (`m3prune`, `m3prune_rloo`, `agentprune` or `agentdropout`), while that one does, and holds none of its own.
    The others learn from their own alone: a policy gradient is that of the policy's own draws. What another prunes
    early, `effects` sees less of, and an agent that it is certain to be misled by goes from its own graph alone."""


@dataclass
class SweepSettings:
    """Many runs that share their agents, replicas, indexes and completions. A run is a sweep when it has axes, points
    or more than one seed.
    """

    axes: dict[str, Any] = field(default_factory=dict)
    """Values to try by key: `sweep.axes.topology.rounds=[2,4,8]`; every combination is a trial. A value may be a list
    or a group itself."""
    points: list[dict[str, Any]] = field(default_factory=list)
    """Settings that go together, by dotted key; each is combined with all axes."""
    seeds: int = at_least(1, default=1, most=MOST_TRIALS)
    """Every trial once for each of so many seeds, from `seed` on."""
    search: Literal["grid", "random"] = "grid"
    """All combinations of points and axes, or a random sample of them."""
    samples: int | None = setting(None, at_least=1, at_most=MOST_TRIALS, when="search=random")
    """random: how many of the combinations of points and axes to draw, each for every seed."""
    stop: Literal["none", "asha"] = "none"
    """asha: trials whose mean training utility falls behind end early, without an evaluation."""
    grace: int = setting(10, at_least=1, when="stop=asha")
    """asha: training steps that every trial gets."""
    reduction: int = setting(3, at_least=2, at_most=1_000, when="stop=asha")
    """asha: one in so many goes on at every rung."""
    parallel: int = at_least(1, default=2, most=1_000)
    """Trials under way at once."""
