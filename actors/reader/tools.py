"""Uses tools: looks a question up where the evidence does not answer it, and reads the results.

Only the prompt describes tools. The reader uses tools that take one text: among the unused ones, the tool whose
description shares most words with the question.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from actors.prompting.tool_text import CALL, TOOL_CALL, TOOL_RESULT, TOOLS, call_line
from actors.reader.english import content_stems, name_spans, sentences
from actors.reader.statements import Statement, read_statement

_LISTED = re.compile(r"^\[([^\]]+)\] (.*?) ?(\{.*\})$")
_RETURNED = re.compile(r"^\[([^\]]+)\] (.*)$")
_FREE_TEXT = frozenset(("query", "question", "text", "input", "prompt", "search", "q"))


@dataclass(frozen=True, slots=True)
class TextTool:
    """A tool with one text argument, named `argument`."""

    name: str
    description: str
    argument: str


@dataclass(frozen=True, slots=True)
class Tools:
    """Tools of a conversation: the listed ones, the used ones, and their results."""

    listed: tuple[TextTool, ...] = ()
    used: frozenset[str] = frozenset()
    returned: tuple[Statement, ...] = ()

    def call(self, question: str) -> str | None:
        """Returns the reply that calls the most promising tool; None when all have been used."""
        question_stems = set(content_stems(question))
        left = [tool for tool in self.listed if tool.name not in self.used]
        if not left:
            return None
        best = max(left, key=lambda tool: len(question_stems & set(content_stems(f"{tool.name} {tool.description}"))))
        # The whole question for an argument such as `query`, else the longest name in it.
        names = [] if best.argument.lower() in _FREE_TEXT else [name for name, _, _ in name_spans(question)]
        return call_line(best.name, {best.argument: max(names, key=len, default=question)})


def read_tools(own: str) -> Tools:
    """Reads the tools that the sections of a conversation list, call and report."""
    # After results, a conversation may continue without listing the tools again.
    if not any(heading in own for heading in (TOOLS, TOOL_CALL, TOOL_RESULT)):
        return Tools()
    lines: dict[str, list[str]] = {}
    section: list[str] = []
    for line in own.splitlines():
        if line.startswith("## "):
            section = lines.setdefault(line, [])
        else:
            section.append(line)
    tools = tuple(tool for line in lines.get(TOOLS, ()) if (tool := _text_tool(line)))
    used = frozenset(name for line in lines.get(TOOL_CALL, ()) for name in _used(line))
    return Tools(tools, used, tuple(_returned(lines.get(TOOL_RESULT, ()))))


def _text_tool(line: str) -> TextTool | None:
    """The tool of a line, if its only required argument is a text."""
    match = _LISTED.match(line)
    try:
        schema = json.loads(match[3]) if match else {}
    except ValueError:
        return None
    required = schema.get("required", ())
    if not match or len(required) != 1 or schema.get("properties", {}).get(required[0], {}).get("type") != "string":
        return None
    return TextTool(match[1], match[2], required[0])


def _used(line: str) -> set[str]:
    try:
        return {json.loads(line.removeprefix(CALL))["tool"]} if line.startswith(CALL) else set()
    except (ValueError, KeyError, TypeError):
        return set()


def _returned(lines: Sequence[str]) -> Iterator[Statement]:
    """Every sentence of the results, with its tool as source."""
    source = ""
    for line in lines:
        match = _RETURNED.match(line)
        # A result may have several lines; only the first one names the tool.
        source, text = (match[1], match[2]) if match else (source, line)
        title, colon, rest = text.partition(": ")
        # A longer text before a colon is no title.
        if not colon or len(title) > 80:
            title, rest = "", text
        for part in sentences(rest):
            yield read_statement(source, title, part, seen=False)
