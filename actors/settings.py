"""Settings of the runtime and the agents, and how a settings class declares its fields.

A field is declared with `setting(...)`, and its description is the docstring below it:

    rounds: int = setting(3, at_least=1, at_most=100)
    '''BDoG: most rounds of a debate.'''

`check_bounds` checks the bounds of a whole tree of settings, and `experiments.unused` refuses a setting that was chosen
in a run where it has no effect.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from typing import Any, Literal

from actors.errors import UserError

# How replies keep to their form; `AgentSettings.replies` describes each value.
Replies = Literal["auto", "enforced", "text"]

# Keys of a field's metadata.
BOUNDS = "bounds"
WHEN = "when"
OVER = "over"
OUTSIDE = "outside"
SINCE = "since"
BEFORE = "before"
NEEDS = "needs"
MOST = 1e9  # of numbers without another bound; far beyond it they overflow somewhere
SHOWN = 80  # characters of a wrong value


@dataclass(frozen=True, slots=True)
class Bounds:
    """The numbers that a setting may have. `open_below` and `open_above` leave out the bound itself."""

    minimum: float
    maximum: float = MOST
    open_below: bool = False
    open_above: bool = False

    def allow(self, number: float) -> bool:
        """True for a number within the bounds; never for NaN."""
        if number == self.minimum:
            return not self.open_below
        if number == self.maximum:
            return not self.open_above
        return self.minimum < number < self.maximum

    def __str__(self) -> str:
        if self == Bounds(0, 1):
            return "a number from 0 to 1"
        lower = "more than" if self.open_below else "at least"
        upper = "less than" if self.open_above else "at most"
        maximum = f"{self.maximum:,}" if isinstance(self.maximum, int) else f"{self.maximum:g}"
        return f"{lower} {self.minimum:g} and {upper} {maximum}"


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
) -> Any:
    """Declares a field of a settings class: its default, its bounds, when it counts, and where it leads.

    default: the default; `factory` makes it where it is a list or a group.
    at_least, at_most, above, below: bounds of the number, or of each number of a list; the last two exclude the bound.
    when: conditions that must all hold, separated by `, `, for the setting to have an effect. Each is
        `<sibling>=<value>|<value>` or `<sibling>!=<value>` of a field of the same group, or the name of a fact of the
        plan, such as `learns`. A group's condition holds for all its settings. Which parts of a run (methods, attacks,
        models, ...) read the setting is declared by them, in `reads`.
    over: the group of settings that the field, a dict, has overrides for.
    outside: true for a value that leads out of a run folder: code to import, an address, a file to read or write.
        A resumed run takes it from a saved configuration only where the command line repeats it.
    since: the version that introduced the field. before: its value in run folders of earlier versions.
    needs: the extra of the project (`pip install '.[extra]'`) that a value needs; empty for none.
    """
    options = {WHEN: when, OVER: over, OUTSIDE: outside, SINCE: since, NEEDS: needs}
    metadata: dict[str, Any] = {key: value for key, value in options.items() if value}
    if before is not MISSING:
        metadata[BEFORE] = before
    if any(bound is not None for bound in (at_least, at_most, above, below)):
        minimum = at_least if above is None else above
        maximum = at_most if below is None else below
        metadata[BOUNDS] = Bounds(
            minimum=-MOST if minimum is None else minimum,
            maximum=MOST if maximum is None else maximum,
            open_below=above is not None,
            open_above=below is not None,
        )
    if factory is not None:
        return field(default_factory=factory, metadata=metadata)
    return field(default=default, metadata=metadata)


def check_bounds(group: Any, prefix: str = "") -> None:
    """Checks the bounds of a tree of settings, and runs each group's `check_values`. Raises UserError with key and
    value."""
    for f in fields(group):
        key = f"{prefix}{f.name}"
        value = getattr(group, f.name)
        bounds = f.metadata.get(BOUNDS)
        if is_dataclass(value):
            check_bounds(value, f"{key}.")
        elif bounds is not None and not all(map(bounds.allow, _numbers(value))):
            raise UserError(f"{key}={shown(value)}: expected {bounds}")
    check = getattr(group, "check_values", None)
    if check is not None:
        check(prefix.rstrip("."))


def shown(value: Any) -> str:
    """A wrong value as text, cut where it is long."""
    try:
        text = str(value)
    except ValueError:  # Python refuses to write a number of thousands of digits
        text = "a number of thousands of digits"
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def _numbers(value: Any) -> Iterator[float]:
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list):
        for part in value:
            yield from _numbers(part)
    elif value is not None:
        yield value


@dataclass
class RaySettings:
    """How Ray is used. Without an address, a run starts a local Ray and stops it at its end."""

    address: str | None = setting(None, outside=bool)
    """Address of a running cluster, `auto` or `host:port`; null starts a local one."""
    start_timeout_s: float | None = setting(None, at_least=1, at_most=1e6)
    """Seconds to wait for all actors to start (null: 120, or 600 for vLLM)."""
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
