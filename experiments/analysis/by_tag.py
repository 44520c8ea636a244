"""Means of each part of a benchmark: by subject, hop, task or ability, whatever its loader tags questions with."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

MOST_VALUES = 20  # of a tag that questions are grouped by; one with more is not a grouping for a report


def by_tag(
    utilities: Mapping[str, Mapping[str, float]], tags: Mapping[str, Mapping[str, str]]
) -> dict[str, dict[str, dict[str, Any]]]:
    """By tag and value, in order: how many `questions` have it, and each method's mean `utility` over them.

    utilities: by method and question. tags: by question; a value of several, such as `IMG+TXT`, counts as each.
    A tag that has one value only is left out.
    """
    parts: dict[str, dict[str, list[str]]] = {}
    for question in sorted(tags):
        for tag, values in tags[question].items():
            for value in filter(None, values.split("+")):
                parts.setdefault(tag, {}).setdefault(value, []).append(question)
    return {
        tag: {
            value: {
                "questions": len(questions),
                "utility": {
                    method: math.fsum(of[question] for question in questions) / len(questions)
                    for method, of in utilities.items()
                },
            }
            for value, questions in sorted(values.items())
        }
        for tag, values in sorted(parts.items())
        if 1 < len(values) <= MOST_VALUES
    }
