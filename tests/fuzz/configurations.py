"""Odd configurations: every key of every experiment with values that nobody should have written."""

import json
import tempfile
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, get_type_hints

from hypothesis import strategies as st

from actors.errors import UserError, visible
from actors.settings import BOUNDS
from experiments.config.config import Config
from experiments.config.loading import PRESETS, experiments, load
from experiments.config.saved import read, save
from experiments.config.setting_groups import RoleSettings
from experiments.jobs import plan_of
from experiments.sweeps.expansion import expand
from tests.fuzz.loading import TooLong, bounded
from tests.fuzz.received import ROLES, SWEPT, TAGS

LINE = 3_000  # characters: more is no line that anybody reads

NUMBERS = "0 -1 1 2 5 0.5 1.5 -0.1 1e-9 1e9 1e18 1e308 1e400 -1e400 nan .nan inf .inf -inf 9223372036854775808".split()
WORDS = "null ~ true None FULL full auto x ../x /etc".split()
WORDS += ["", "''", "' '", "é" * 200, "x" * 9999]
TREES = "[] [[]] [x] [[x]] [null] [1,[2]] {} {a:1} {a: {b: [1]}} [{a: 1}] {1: 2} {null: 1} [.nan] {? [a] : b}".split()
TEXTS = "${seed} ${oc.env:HOME} ${ !!python/name:os.system %".split()
TEXTS += ["&a [*a]", "\ud800", "\0", "\x1b[2J", "a\nb"]
DEEP = ["[" * 2_000, "[" * 2_000 + "]" * 2_000, "{a: " * 2_000, "[" * 60 + "]" * 60, "9" * 5_000]
# As YAML takes them for something else.
READ = "yes no on off 010 0x10 1_000 1.10 2024_10_01 12:30:00 = << 1e5 .5 5. +1 'a #b' a#b [a #b]".split()
ODD = st.one_of(
    *map(st.sampled_from, (NUMBERS, WORDS, TREES, TEXTS, DEEP, TAGS, READ)),
    st.text(max_size=6),
    st.integers().map(str),
    st.floats().map(str),
)


@cache
def keys() -> dict[str, bool]:
    """Every key of a configuration, groups too, and whether it holds a number."""
    return dict(_keys(Config, ""))


def _keys(group: Any, prefix: str) -> Iterator[tuple[str, bool]]:
    hints = get_type_hints(group)
    for f in fields(group):
        yield prefix + f.name, bool(f.metadata.keys() & BOUNDS)
        if is_dataclass(hints[f.name]):
            yield from _keys(hints[f.name], f"{prefix}{f.name}.")
        elif f.name == "roles":
            for role in ROLES:
                yield f"roles.{role}", False
                yield from _keys(RoleSettings, f"roles.{role}.")
        elif f.name == "axes":
            yield from ((f"sweep.axes.{key}", False) for key in ("topology.rounds", "nothing", *SWEPT))


# `resume` is of folders, and has a generator of its own.
WORD = st.builds(
    lambda key, place, value: f"{key}{place}={value}",
    st.sampled_from(sorted(keys())).filter(lambda key: key not in ("resume", "experiment")),
    st.sampled_from(["", "", "", "[0]", ".x", ".", "[", ".0", "[x]", "[agent]", "..x"]),
    ODD,
)
# What might pass for one: a number where one belongs.
NUMBER_WORD = st.builds(
    lambda key, value: f"{key}={value}",
    st.sampled_from(sorted(key for key, is_number in keys().items() if is_number)),
    st.one_of(st.sampled_from(NUMBERS), st.floats().map(str), st.integers().map(str)),
)
COMMAND = st.builds(
    lambda name, words: [f"experiment={name}", *words],
    st.sampled_from(sorted(experiments())),
    st.lists(st.one_of(WORD, NUMBER_WORD), min_size=1, max_size=2),
)


MORE = st.one_of(
    st.builds(lambda key, value: f"{key}: {value}", st.sampled_from(["resume", "experiment", "dry_run", "x"]), ODD),
    st.builds(lambda role, value: f"roles: {{{json.dumps(role)}: {value}}}", st.sampled_from(ROLES), ODD),
    st.builds(
        lambda key, value: f"sweep: {{axes: {{{json.dumps(key)}: [{value}]}}}}", st.sampled_from([*SWEPT, *ROLES]), ODD
    ),
    # A name for a name for a name: two to the thirtieth of the last.
    st.just("\n".join(["x0: &x0 [a]", *(f"x{n}: &x{n} [*x{n - 1}, *x{n - 1}]" for n in range(1, 31))])),
)


@st.composite
def presets(draw: st.DrawFn) -> bytes:
    """A preset with a byte, a line or its end changed, or with more in it than belongs there."""
    content = draw(st.sampled_from(sorted(PRESETS.glob("*.yaml")))).read_bytes()
    lines = content.splitlines(keepends=True)
    place = draw(st.integers(0, len(lines) - 1))
    match draw(st.sampled_from(["cut", "byte", "twice", "gone", "value", "indent", "more"])):
        case "cut":
            return content[: draw(st.integers(0, len(content)))]
        case "byte":
            at = draw(st.integers(0, len(content) - 1))
            return content[:at] + bytes([draw(st.integers(0, 255))]) + content[at + 1 :]
        case "twice":
            lines.insert(place, lines[place])
        case "gone":
            del lines[place]
        case "more":
            lines.append(b"\n" + draw(MORE).encode(errors="surrogatepass") + b"\n")
        case "indent":
            lines[place] = b"  " + lines[place]
        case _:
            key, _, _ = lines[place].partition(b":")
            lines[place] = key + b": " + draw(ODD).encode(errors="surrogatepass") + b"\n"
    return b"".join(lines)


def outcome(words: list[str]) -> str:
    """`accepted`, `refused`, or what went wrong between the command line and the start of a run."""
    try:
        with bounded():
            config = load(words)
            if config.resume:
                return "a preset resumes a run"
            if config.is_sweep:
                expand(config)
            else:
                plan_of(config)
            with tempfile.TemporaryDirectory() as folder:
                save(config, path := Path(folder) / "config.yaml")
                # As nothing equals nan: a configuration that holds one would not either.
                if read(path) != config:
                    return "what is saved is not what was said"
    except UserError as error:
        text = str(error)
        return "refused" if text and visible(text) == text and len(text) < LINE else f"no line to read: {text[:200]!r}"
    except TooLong:
        return "no end"
    except BaseException as error:
        return f"{type(error).__name__}: {str(error)[:200]}"
    return "accepted"
