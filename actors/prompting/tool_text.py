"""Tools in words: how a prompt lists them and a reply calls them, for models of which nothing else is known; and the
other headings of a conversation."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

TOOLS = "## Tools"
TOOL_CALL = "## Tool call"
TOOL_RESULT = "## Tool result"
INSTRUCTIONS = "## Instructions"
FORMAT = "## Format"
MESSAGE = "## Message"
CALL = "Call:"

_HOW = f"""Before you answer you may use these tools. To use some, reply with nothing else but one line for each call:
{CALL} {{"tool": "<its name>", "arguments": {{<its arguments as JSON>}}}}
What they return is then shown to you. Where nothing more has to be looked up, answer as you were asked to."""
_MUST = f"""Now use one of these tools: reply with nothing but one line for each call:
{CALL} {{"tool": "<its name>", "arguments": {{<its arguments as JSON>}}}}"""


@dataclass(frozen=True, slots=True)
class ToolText:
    """A tool as a model reads it; `parameters` is the JSON schema of its arguments."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Call:
    """A call as a model wrote it."""

    tool: str
    arguments: Mapping[str, Any]


def tools_part(tools: Sequence[ToolText], required: bool = False) -> str:
    """The section that lists the tools, one a line: `[name] description`, a space, the schema as JSON."""
    lines = [TOOLS, _MUST if required else _HOW]
    for tool in tools:
        schema = json.dumps(tool.parameters, sort_keys=True, ensure_ascii=False)
        lines.append(f"[{tool.name}] {' '.join(tool.description.split())} {schema}")
    return "\n".join(lines)


def call_line(tool: str, arguments: Mapping[str, Any]) -> str:
    return f"{CALL} {json.dumps({'tool': tool, 'arguments': arguments}, ensure_ascii=False)}"


def parse_calls(text: str, names: Collection[str]) -> tuple[str, tuple[Call, ...]]:
    """The text before the calls, and the calls; no calls when anything about them is wrong.

    A reply that names an unknown tool, whose JSON is broken, or that goes on after its calls is plain text: a call is
    never made up from half of one. Fences around the calls are let pass.
    """
    lines = [line for line in text.strip().splitlines() if not line.strip().startswith("```")]
    first = next((i for i, line in enumerate(lines) if line.strip().startswith(CALL)), None)
    if first is None:
        return text, ()
    decoder = json.JSONDecoder()
    rest = "\n".join(lines[first:]).strip()
    calls = []
    while rest:
        if not rest.startswith(CALL):
            return text, ()
        rest = rest.removeprefix(CALL).lstrip()
        try:
            read, end = decoder.raw_decode(rest)
        except (ValueError, RecursionError):
            return text, ()
        call = _checked(read, names)
        if call is None:
            return text, ()
        calls.append(call)
        rest = rest[end:].lstrip()
    return "\n".join(lines[:first]).strip(), tuple(calls)


def _checked(read: object, names: Collection[str]) -> Call | None:
    if not isinstance(read, dict) or read.keys() != {"tool", "arguments"}:
        return None
    tool, arguments = read["tool"], read["arguments"]
    if not isinstance(tool, str) or tool not in names or not isinstance(arguments, dict):
        return None
    return Call(tool, arguments)
