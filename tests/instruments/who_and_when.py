"""Who&When (arXiv 2505.00212; 184 logs, MIT): the agent and the step that made a task fail, without a model.

    python -m tests.instruments.who_and_when <folder of the logs, "Who&When" of ag2ai/Agents_Failure_Attribution>

A log has no agents that could be asked again, so no intervention is possible. Of ours there is the suspicion from the
record alone, where a step gives the final answer if it states the text after the log's last `answer`. `random` is the
expected share of a choice among the log's agents, and among its steps.
"""

import json
import re
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from actors.messages import Message, Question, Status, Trace
from experiments.attribution.suspects import suspicion

Guess = tuple[str, int]
PARTS = ("Algorithm-Generated", "Hand-Crafted")
ANSWER = re.compile(r"answer\W+(?:is\W+)?([^\n]{1,80})", re.IGNORECASE)


def speakers(log: dict[str, Any]) -> list[str]:
    """The agent of each step; an orchestrator's thoughts and instructions are its own."""
    return [str(step.get("name") or step["role"]).split(" (")[0] for step in log["history"]]


def suspected(log: dict[str, Any]) -> Guess:
    """The most suspicious agent, and its first step with the final answer (else its first step)."""
    names, texts = speakers(log), [str(step["content"]).lower() for step in log["history"]]
    stated = [found for text in texts for found in ANSWER.findall(text)]
    final = stated[-1].strip(" .*`'\"") if stated else texts[-1][-20:]
    turns = tuple(
        Message(f"{n}/{name}", name, n, answer="final" if final in text else None, heard=tuple(earlier))
        for n, (name, text, earlier) in enumerate(
            (name, text, [f"{i}/{other}" for i, other in enumerate(names[:n])])
            for n, (name, text) in enumerate(zip(names, texts, strict=True))
        )
    )
    trace = Trace("log", "log", 0, tuple(dict.fromkeys(names)), turns, "final", Status.OK, 0)
    found = suspicion(trace, Question("log", str(log["question"])), seed=0)
    agent = max(found, key=lambda name: found[name])
    steps = [turn.round for turn in turns if turn.agent == agent]
    return agent, next((n for n in steps if turns[n].answer), steps[0])


def most_frequent(log: dict[str, Any]) -> Guess:
    agent = Counter(speakers(log)).most_common(1)[0][0]
    return agent, speakers(log).index(agent)


METHODS: dict[str, Callable[[dict[str, Any]], Guess]] = {
    "first step": lambda log: (speakers(log)[0], 0),
    "last step": lambda log: (speakers(log)[-1], len(log["history"]) - 1),
    "middle step": lambda log: (speakers(log)[len(log["history"]) // 2], len(log["history"]) // 2),
    "most frequent agent, its first step": most_frequent,
    "suspicion from the record (ours)": suspected,
}


def table(folder: Path) -> list[tuple[str, ...]]:
    """Shares of right agents and steps of each method, in both parts."""
    logs = {part: [json.loads(path.read_text()) for path in sorted((folder / part).glob("*.json"))] for part in PARTS}
    rows = [("method", *(f"{part} ({len(of)}) {what}" for part, of in logs.items() for what in ("agent", "step")))]
    chance = [
        (sum(1 / len(set(speakers(log))) for log in of), sum(1 / len(log["history"]) for log in of))
        for of in logs.values()
    ]
    counts = {"random (expected)": chance}
    for name, method in METHODS.items():
        counts[name] = [
            (
                sum(method(log)[0] == log["mistake_agent"] for log in of),
                sum(str(method(log)[1]) == str(log["mistake_step"]) for log in of),
            )
            for of in logs.values()
        ]
    for name, pairs in counts.items():
        shares = [right / max(1, len(of)) for pair, of in zip(pairs, logs.values(), strict=True) for right in pair]
        rows.append((name, *(f"{share:.3f}" for share in shares)))
    return rows


if __name__ == "__main__":
    for row in table(Path(sys.argv[1])):
        print("".join(f"{cell:<38}" if not i else f"{cell:>34}" for i, cell in enumerate(row)))
