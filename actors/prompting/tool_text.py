"""Lists tools in a prompt and parses calls of them in a reply, as plain text."""

import json
from collections.abc import Collection, Mapping, Sequence
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


def tools_part(tools: Sequence[Mapping[str, Any]], required: bool = False) -> str:
    """Writes the section of tools, one a line: `[name] description`, a space, the schema of its arguments as JSON.

    tools: `name`, and where there are any `description` and `parameters`, a JSON schema.
    """
    lines = [TOOLS, _MUST if required else _HOW]
    for tool in tools:
        # Sorted keys: equal tools give equal prompts, and so equal seeds and cached completions.
        schema = json.dumps(tool.get("parameters", {}), sort_keys=True, ensure_ascii=False)
        # One line a tool however its description is laid out, since the list is read line by line.
        lines.append(f"[{tool['name']}] {' '.join(tool.get('description', '').split())} {schema}")
    return "\n".join(lines)


def call_line(tool: str, arguments: Mapping[str, Any]) -> str:
    """Writes a call as `parse_calls` reads it."""
    return f"{CALL} {json.dumps({'tool': tool, 'arguments': arguments}, ensure_ascii=False)}"


def parse_calls(text: str, names: Collection[str]) -> tuple[str, tuple[tuple[str, Mapping[str, Any]], ...]]:
    """Returns the text before the calls, and (tool, arguments) of each; no calls where anything about them is wrong.

    A reply that names an unknown tool, has broken JSON, or goes on after its calls is plain text: no call is made up
    from half of one.
    """
    # Models put calls in code fences without being asked to.
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
            # Not line by line: a model may write the arguments on several lines.
            parsed, end = decoder.raw_decode(rest)
        except (ValueError, RecursionError):  # the latter for brackets that are nested too deeply
            return text, ()
        if not isinstance(parsed, dict) or parsed.keys() != {"tool", "arguments"}:
            return text, ()
        tool, arguments = parsed["tool"], parsed["arguments"]
        if not isinstance(tool, str) or tool not in names or not isinstance(arguments, dict):
            return text, ()
        calls.append((tool, arguments))
        rest = rest[end:].lstrip()
    return "\n".join(lines[:first]).strip(), tuple(calls)
