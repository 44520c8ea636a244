"""Settings of the runtime and the agents, and how a settings class declares its fields.

A settings class is a dataclass. A field is declared with `setting(...)`, and its description is the docstring below it:

    rounds: int = setting(3, at_least=1, at_most=100)
    '''BDoG: most rounds of a debate.'''

`validated` makes the settings from values, which pydantic types and holds to their bounds. What no type can express a
class checks in `__post_init__`: it raises ValueError with a text that begins with the name of the field.
`experiments.unused` refuses a setting that was chosen in a run where it has no effect.
"""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field
from functools import cache
from typing import Any, Literal, TypeVar, cast

from pydantic import TypeAdapter, ValidationError

from actors.errors import UserError

Group = TypeVar("Group")

# Ways to keep replies to their form; `AgentSettings.replies` describes each value.
Replies = Literal["auto", "enforced", "text"]

# Keys of a field's metadata. Those of bounds are pydantic's.
AT_LEAST, AT_MOST, ABOVE, BELOW = "ge", "le", "gt", "lt"
WHEN = "when"
OVER = "over"
OUTSIDE = "outside"
SINCE = "since"
BEFORE = "before"
NEEDS = "needs"
PATH = "path"
BOUNDS = {AT_LEAST: "at least", ABOVE: "more than", AT_MOST: "at most", BELOW: "less than"}
MOST = 1_000_000_000  # of numbers without another bound; far beyond it they overflow somewhere
SHOWN = 80  # characters of a wrong value
# Expected values, by the first word of the type of pydantic's error.
EXPECTED = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "string": "text",
    "list": "a list, such as [a,b]",
    "dict": "keys and values, such as {a: 1}",
    "dataclass": "keys and values, such as {a: 1}",
}


def setting(
    default: Any = MISSING,
    *,
    factory: Callable[[], Any] | None = None,
    at_least: float | None = None,
    at_most: float | None = None,
    above: float | None = None,
    below: float | None = None,
    when: str = "",
    over: type | None = None,
    outside: Callable[[Any], bool] | None = None,
    since: str = "",
    before: Any = MISSING,
    needs: Callable[[Any], str] | None = None,
    path: Callable[[str], bool] | None = None,
) -> Any:
    """Declares a field of a settings class: its default, its bounds, when it counts, and where it leads.

    default: the default; `factory` makes it where it is a list or a group.
    at_least, at_most, above, below: bounds of the number; the last two exclude the bound.
    when: conditions that must all hold, separated by `, `, for the setting to have an effect. Each is
        `<sibling>=<value>|<value>` or `<sibling>!=<value>` of a field of the same group, or the name of a fact of the
        plan, such as `learns`. A group's condition holds for all its settings. Which parts of a run (methods, attacks,
        models, ...) read the setting is declared by them, in `reads`.
    over: the group of settings that the field, a dict, has overrides for.
    outside: true for a value that leads out of a run folder: code to import, an address, a file to read or write.
        A resumed run takes it from a saved configuration only where the command line repeats it.
    since: the version that introduced the field. before: its value in run folders of earlier versions.
    needs: the extra of the project (`pip install '.[extra]'`) that a value needs; empty for none.
    path: true for a value that is a path, which is made absolute when it is read.
    """
    bounds = {AT_LEAST: at_least, ABOVE: above, AT_MOST: at_most, BELOW: below}
    metadata: dict[str, Any] = {key: bound for key, bound in bounds.items() if bound is not None}
    if metadata and at_most is None and below is None:
        metadata[AT_MOST] = MOST
    facts = {WHEN: when, OVER: over, OUTSIDE: outside, SINCE: since, NEEDS: needs, PATH: path}
    metadata |= {key: fact for key, fact in facts.items() if fact}
    if before is not MISSING:
        metadata[BEFORE] = before
    if factory is not None:
        return field(default_factory=factory, metadata=metadata)
    return field(default=default, metadata=metadata)


def validated(kind: type[Group], values: Mapping[str, Any], key: str = "") -> Group:
    """Makes the settings of a class from values by name, nested as the classes are.

    key: of the group, which begins the keys in errors. Raises UserError with the first wrong value.
    """
    try:
        return cast(Group, _adapter(cast(Any, kind)).validate_python(values))
    except ValidationError as error:
        raise UserError(_line_of(error.errors()[0], key)) from error


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _line_of(error: Mapping[str, Any], group: str) -> str:
    """Writes key, value and what was expected."""
    key = group
    for part in error["loc"]:
        key += f"[{part}]" if isinstance(part, int) else f".{part}"
    key = key.lstrip(".")
    context = error.get("ctx", {})
    if error["type"] == "value_error":  # of a `__post_init__`
        return f"{key}.{context['error']}"
    bounds = [f"{BOUNDS[bound]} {number_text(limit)}" for bound, limit in context.items() if bound in BOUNDS]
    if bounds:
        expected = bounds[0]
    elif "expected" in context:  # 'a', 'b' or 'c'
        expected = f"one of {context['expected'].replace(' or ', ', ')}".replace("'", "")
    else:
        expected = EXPECTED[error["type"].partition("_")[0]]
    return f"{key}={setting_text(error['input'])}: expected {expected}"


def bounds_text(metadata: Mapping[str, Any]) -> str:
    """Writes the bounds of a field. Empty where it has none."""
    return " and ".join(f"{words} {number_text(metadata[key])}" for key, words in BOUNDS.items() if key in metadata)


def number_text(number: float) -> str:
    """Writes a bound."""
    return f"{number:,}" if isinstance(number, int) else f"{number:g}"


def setting_text(value: Any) -> str:
    """Writes a wrong value as the command line has it, cut where it is long."""
    return "null" if value is None else shown(value)


def shown(value: Any) -> str:
    """A wrong value as text, cut where it is long."""
    try:
        text = str(value)
    except ValueError:  # Python refuses to write a number of thousands of digits
        text = "a number of thousands of digits"
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


START_S = 120.0  # all comes up, unless there is a model to load that takes longer


@dataclass
class RaySettings:
    """Settings of Ray. Without an address, a run starts a local Ray and stops it at its end."""

    address: str | None = setting(None, outside=bool)
    """Address of a running cluster, `auto` or `host:port`; null starts a local one."""
    start_timeout_s: float | None = setting(None, at_least=1, at_most=1e6)
    """Seconds to wait for all actors to start (null: 120, 600 for vLLM, and for an endpoint 120 and six times
    `model.timeout_s`)."""
    hung_s: float = setting(60.0, at_least=1)
    """Seconds without a sign of life after which an agent, a replica, a learner or a sweep's trial is restarted."""


@dataclass
class AgentSettings:
    """Settings that all agents share."""

    retries: int = setting(2, at_least=0, at_most=100)
    """Repetitions of a failed model call before the turn is recorded as failed."""
    temperature: float = setting(0.7, at_least=0, at_most=100)
    """Sampling temperature; every turn has its own seed."""
    max_tokens: int = setting(512, at_least=1, at_most=10_000_000)
    """Longest reply, in tokens."""
    replies: Replies = "auto"
    """Form of replies: `enforced`: JSON, by the model's own decoder; `text`: labelled lines, read tolerantly; `auto`:
    the first wherever the model can. A judge whose model cannot is asked in lines."""
    likelihoods: bool = True
    """Take confidences from the model's probabilities where it reports them, and from its reply elsewhere."""
    weights: Literal["each", "brief"] = "each"
    """How a prompt states the weights of messages: `each`: one by one; `brief`: in one sentence where all are equal,
    which saves tokens in a long discussion."""
    evidence: float = setting(1.0, at_least=0, at_most=1, since="0.4.0")
    """Share of a question's sources that an agent sees, drawn for each agent and source alone (1: every agent sees all
    sources). With less, a team knows more than any one of its agents."""
    budget_words: int | None = setting(None, at_least=1)
    """Words of colleagues' reasoning that an agent reads in a turn, split by the edges' weights (null: all). Their
    answers are always read."""


@dataclass
class CompletionSettings:
    """The completion cache: in memory, and on disk for later runs."""

    reuse: bool = True
    """Reuse completions of equal requests; false computes every request."""
    disk_gb: float = setting(4.0, at_least=0, at_most=1e6, when="reuse=true")
    """Gigabytes kept on disk at most; the least recently used are deleted first."""
    memory_mb: float = setting(64.0, at_least=0, at_most=1e6, when="reuse=true")
    """Megabytes that each agent keeps in memory at most."""
