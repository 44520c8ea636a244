"""Means over parts of a benchmark: by subject, hop, task or any other tag that its loader gives to questions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

# Values per tag. A tag with more, such as an id or a page title, would fill a report with tiny groups.
MOST_VALUES = 20


def by_tag(
    utilities: Mapping[str, Mapping[str, float]], tags: Mapping[str, Mapping[str, str]]
) -> dict[str, dict[str, dict[str, Any]]]:
    """The number of `questions` and each method's mean `utility` over them, by tag and value, in alphabetical order.

    utilities: by method and question. tags: by question; a value of several, such as `IMG+TXT`, counts as each.
    A tag that has one value only is left out.
    """
    parts: dict[str, dict[str, list[str]]] = {}
    # Sorted, because records come in the order of completion, which differs between runs.
    for question in sorted(tags):
        for tag, values in tags[question].items():
            # An empty tag value splits into one empty text, which is no group.
            for value in filter(None, values.split("+")):
                parts.setdefault(tag, {}).setdefault(value, []).append(question)
    return {
        tag: {
            value: {
                "questions": len(questions),
                # `fsum` is exact, so that the sum does not depend on the order of its terms.
                "utility": {
                    method: math.fsum(scores[question] for question in questions) / len(questions)
                    for method, scores in utilities.items()
                },
            }
            for value, questions in sorted(values.items())
        }
        for tag, values in sorted(parts.items())
        if 1 < len(values) <= MOST_VALUES
    }
