"""What a user can choose, group by group; plain dataclasses, so that OmegaConf can read them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from topologies.settings import Estimator, Inference


@dataclass
class DataSettings:
    """Which questions. `data=mmqa` is short for `data.kind=mmqa`."""

    kind: Literal["sample", "mmqa", "scienceqa", "tatqa", "mh", "vidoseek", "webqa", "crisismmd", "mmbench"] = "sample"
    root: str | None = None
    """Folder of the benchmark's official release; the generated sample needs none."""
    limit: int | None = 100
    """Evaluated questions, chosen by seed; null for all."""
    selection: Literal["all", "paper"] = "all"
    """MultimodalQA only: `paper` leaves out the questions that need a table (1,161 of the 2,441)."""
    split: Literal["test", "minitest", "val", "minival"] = "test"
    """ScienceQA only: what is evaluated."""
    task: Literal["informative", "humanitarian", "humanitarian_merged", "damage"] = "informative"
    """CrisisMMD only: informativeness, humanitarian category (`_merged`: five of them, not eight), or damage."""


@dataclass
class RetrievalSettings:
    """Which evidence the agents get."""

    encoder: str = "lexical"
    """`lexical`, or the name or folder of a sentence-transformers or CLIP-like model (`pip install '.[encoders]'`)."""
    mode: Literal["hybrid", "vector", "text"] = "hybrid"
    scope: Literal["question", "corpus", "both"] = "question"
    """Search the question's own pool, as the benchmarks do, the whole corpus, or first the pool and then the corpus."""
    texts: int = 8
    """Passages and table rows for each question."""
    pictures: int = 5
    radius: float | None = None
    """Leave out what is farther than this from the question (distance of the vectors)."""
    web: Literal["none", "corpus", "serper", "recorded"] = "corpus"
    """What systems that search the web get. `corpus`: no web, but texts of the corpus outside the question's own pool
    in its stead; `serper`: Google, through serper.dev, recorded in the run's web.jsonl; `recorded`: only what
    `retrieval.web_file` holds; `none`: nothing is ever found."""
    web_file: str | None = None
    """recorded: the web.jsonl of an earlier run. A query that it does not hold is an error."""
    web_key_env: str = "SERPER_API_KEY"
    """serper: the environment variable that holds the key, which is never written down."""
    web_url: str = "https://google.serper.dev/search"


@dataclass
class ModelSettings:
    """Who answers. `model=vllm` is short for `model.kind=vllm`."""

    kind: Literal["none", "reader", "vllm", "openai", "replay"] = "reader"
    """`openai`: any endpoint that speaks OpenAI's protocol; `replay`: what the run `replay.run` recorded;
    `none`: nobody (for `judge`)."""
    name: str = ""
    """vLLM: a Hugging Face id or a local folder. Endpoint: the model's name there."""
    replicas: int = 2
    """Engines of vLLM or copies of the reader, each in its own process (an endpoint needs one)."""
    capacity: int = 64
    """Requests that one replica works on at once; more wait with their senders."""
    cpus: float = 0.5
    """Cores that Ray reserves for each replica."""
    gpus: float | None = None
    """GPUs that Ray reserves for each replica (null: `tensor_parallel` for vLLM where the cluster has any, else 0)."""
    tensor_parallel: int = 1
    max_model_len: int | None = None
    """vLLM: longest context, in tokens of prompt and reply (null: the model's own)."""
    dtype: str = "auto"
    engine: dict[str, Any] = field(default_factory=dict)
    """Further engine arguments, passed to vLLM as they are."""
    hang_s: float = 120.0
    """vLLM: an engine that gives no sign of life for so long is started anew."""
    base_url: str = ""
    """Endpoint: its address up to and including the version (`http://host:8000/v1`)."""
    key_env: str = ""
    """Endpoint: the environment variable that holds its key (empty: it needs none); the key is never written down."""
    timeout_s: float = 120.0
    """Endpoint: how long one request may take."""
    retries: int = 4
    """Endpoint: how often a request that met a fault is sent again, with growing pauses; rate limits are waited out."""
    requests_per_minute: float | None = None
    """Endpoint: rate limits of its own (null: none)."""
    tokens_per_minute: float | None = None
    extra: dict[str, Any] = field(default_factory=dict)
    """Endpoint: further fields of the request's body, sent as they are."""


@dataclass
class RoleSettings:
    """One role, by its name in traces: `roles.text_critic.agent=package.module:function`."""

    agent: str | None = None
    """`package.module:function` that makes the AutoGen agent holding the role (null: ours)."""


@dataclass
class ReplaySettings:
    run: str | None = None
    """The run folder whose recorded turns `model=replay` answers with."""


@dataclass
class RateSettings:
    """What tokens cost, for `dry_run=true`: prices in any currency per million tokens, and speeds of all replicas
    together."""

    prompt_price: float | None = None
    completion_price: float | None = None
    prompt_tokens_per_s: float | None = None
    completion_tokens_per_s: float | None = None


@dataclass
class TopologySettings:
    """The agents and how they discuss."""

    text: list[str] = field(
        default_factory=lambda: ["critic", "data_analyst", "knowledge_expert", "scientist", "logic_expert"]
    )
    """Textual roles."""
    visual: list[str] = field(default_factory=lambda: ["critic", "data_analyst", "knowledge_expert", "scientist"])
    """Visual roles."""
    rounds: int = 2
    """T of the paper."""
    inference: Inference = Inference.THRESHOLD
    """How to answer with what was learned: `threshold` (one deterministic wiring) or `sampled`."""


@dataclass
class TrainingSettings:
    """How discussions are drawn for learning; a stage has `pruning.steps` steps."""

    samples: int = 10
    """K of the paper: wirings sampled for each question of a step."""
    questions_per_step: int = 1


@dataclass
class WandbSettings:
    """Weights & Biases; offline runs lie in the run folder and are uploaded with `wandb sync`."""

    mode: Literal["offline", "online", "disabled"] = "offline"
    project: str = "agora-mm"
    group: str | None = None


@dataclass
class AttackSettings:
    """Which agents are compromised, or what is tampered with. `attack=response` is short for `attack.kind=response`."""

    kind: Literal["none", "input", "response", "collude", "sleeper", "tamper", "poison", "contagion"] = "none"
    """`input`: ignores evidence and colleagues; `response`: argues for a wrong answer (several argue each for its own);
    `collude`: several argue together for the same one; `sleeper`: as response, honest at first; `tamper`: messages are
    rewritten on the wire; `poison`: a source is planted in the evidence; `contagion`: as response, and asks whoever
    reads it to pass it on."""
    agents: list[Any] = field(default_factory=list)
    """Positions in the team (from 0) or role names, such as [0, visual_critic]; empty: `number` of them, by seed."""
    number: int = 1
    """How many are compromised where `agents` names none."""
    when: Literal["train", "evaluate", "both"] = "both"
    rate: float = 0.5
    """tamper: the share of messages that are rewritten (of those that `agents` send, of all where it is empty)."""
    source: Literal["text", "image"] = "text"
    """poison: what is planted, a passage or a picture of which there is only a caption."""
    from_round: int = 2
    """sleeper: the first round in which it is no longer honest ..."""
    from_question: int = 0
    """... and how many questions of a phase it answers honestly first."""


@dataclass
class DefenceSettings:
    """What the methods that defend without labels go by."""

    calibration: int = 40
    """Training questions on which agents are watched, unlabelled, by methods that rank them (anomaly, agreement)."""
    dropped: int = 1
    """How many agents such a method silences."""


@dataclass
class SystemSettings:
    """What can be chosen about the systems of other papers; the defaults are theirs."""

    turns: int = 5
    """Most turns of a system that searches in a loop (OmniSearch, ViDoRAG)."""
    rounds: int = 3
    """BDoG: most rounds of a debate ..."""
    epsilon: int = 0
    """... which ends when the blueprint graphs of two rounds are no farther apart than this."""
    blueprints: str | None = None
    """BDoG: a JSON file of first blueprint graphs by question id, as GPT-4 or Gemini wrote them; null: drawn anew."""
    steps: int = 10
    """MMAPG: most nodes of a plan."""
    paths: int = 5
    """Most paths through a knowledge graph that MH-MMKG answers with (alpha)."""
    agreement: float = 0.5
    """HM-RAG: how much every two of its agents' answers must agree, from 0 to 1, for the light model to merge them."""
    rouge_weight: float = 0.5
    """HM-RAG: the share of ROUGE-L in that; the rest is BLEU's."""


@dataclass
class RedundancySettings:
    """Definition 1, measured: `job: redundancy` takes every edge away in turn."""

    questions: int = 40
    """Evaluated questions on which each edge's absence is tried."""
    estimators: list[Estimator] = field(default_factory=lambda: list(Estimator))
    """Learners whose pruning is compared with what is redundant."""


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
    seeds: int = 1
    """Every trial once for each of so many seeds, from `seed` on."""
    search: Literal["grid", "random"] = "grid"
    samples: int | None = None
    """random: how many of the combinations of points and axes to draw, each for every seed."""
    stop: Literal["none", "asha"] = "none"
    """asha: trials whose mean training utility falls behind end early, without an evaluation."""
    grace: int = 10
    """asha: training steps that every trial gets."""
    reduction: int = 3
    """asha: one in so many goes on at every rung."""
    parallel: int = 2
    """Trials under way at once."""
