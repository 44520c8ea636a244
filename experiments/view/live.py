"""The discussions of one run as its page asks for them. The index is from scores alone, and traces come one at a time.

They are read while their files grow, are replaced or are compressed.
"""

import json
import weakref
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from io import BytesIO
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Any, BinaryIO

from actors.errors import UserError
from experiments.analysis.agreement import agreement, concluded
from experiments.analysis.embedded import DiscussionGroup, Entry, is_attacked, scored_entry, timed
from experiments.config.saved import read
from experiments.records import jsonl
from experiments.records.jsonl import DAMAGED
from experiments.records.recorder import SCORES, RunFolder
from experiments.records.records import Scored, decode_trace, encode_trace
from experiments.records.timings import of_trace

MOST_TRACES = 5  # of a method, in which an attack on messages that hits few of them shows


class LiveRun:
    """One run's records, read on from where the last request left them. For several threads."""

    def __init__(self, run: RunFolder) -> None:
        self.run = run
        self._lock = Lock()
        self._scores = LineIndex(run.path / SCORES)
        self._entries: list[Entry] = []
        self._counts: dict[str, int] = {}
        self._traces: dict[str, LineIndex] = {}
        self._attacked: dict[str, bool] = {}
        attack = read(run.config).attack
        self._attack = "" if attack.kind == "none" else attack.kind

    def index(self, after: int = 0, version: str = "") -> dict[str, Any]:
        """Returns `{groups, entries}` as a report embeds them. The entries are those behind the first `after`.

        All entries, and `after` as 0, where the scores are not those of `version` any more. Raises UserError for
        damaged scores.
        """
        with self._lock:
            self._read_scores()
            if version != self._scores.version or after > len(self._entries):
                after = 0
            groups: list[dict[str, Any]] = []
            for method, count in self._counts.items():
                groups.append(asdict(DiscussionGroup(method, method, f"traces/evaluate-{method}.jsonl", count, count)))
            return {
                "groups": groups,
                "entries": self._entries[after:],
                "after": after,
                "version": self._scores.version,
            }

    def trace(self, group: str, line: int) -> str:
        """Returns the trace on a line (from 1) of a group's file, as JSON. Raises UserError where there is none."""
        with self._lock:
            path = self._file(group)
            text = self._traces.setdefault(group, LineIndex(path)).line(line - 1)
        trace = jsonl.decoded(path, line, text, decode_trace, DAMAGED)
        return timed(encode_trace(trace), of_trace(self.run, f"evaluate-{group}", trace))

    def pairs(self) -> list[dict[str, Any]]:
        """Returns the agreement of every two methods. Those about which nothing is concluded are left out."""
        config = read(self.run.config)
        answers = concluded(self.run, config.failures.share)
        return agreement(answers, config.seed, "utility", config.compare.margin)

    def texts(self, group: str, words: Sequence[str]) -> list[list[int]]:
        """Returns for each of `words`, in lower case, the lines of discussions that hold it. They are a group's."""
        lines_by_word: list[list[int]] = [[] for _ in words]
        with self._lock:
            path = self._file(group)
        for number, text in enumerate(jsonl.records(path, _spoken_text, DAMAGED), start=1):
            for word, lines in zip(words, lines_by_word, strict=True):
                if word in text:
                    lines.append(number)
        return lines_by_word

    def _read_scores(self) -> None:
        version = self._scores.version
        lines = list(self._scores.new())
        if version != self._scores.version:
            self._entries = []
            self._counts = {}
            self._attacked = {}

        for line in lines:
            try:
                scored = jsonl.decoded(self._scores.path, len(self._entries) + 1, line, Scored.decode, DAMAGED)
            except UserError:
                # All is read again: the next request must not go on behind the damaged line.
                self._scores = LineIndex(self._scores.path)
                raise

            # A method's scores and traces are recorded in one order.
            self._counts[scored.method] = self._counts.get(scored.method, 0) + 1
            entry = {
                "group": scored.method,
                **scored_entry(scored),
                "line": self._counts[scored.method],
                "calls": scored.calls,
                "tokens": scored.tokens,
                "failed": scored.failed_turns,
                "cut": scored.cut_turns,
            }
            if self._attack and self._is_attacked(scored.method):
                entry["attack"] = self._attack
            self._entries.append(entry)

    def _is_attacked(self, method: str) -> bool:
        """True where an attack reaches the discussions of a method, by the first of them: scores do not tell."""
        if self._counts[method] <= MOST_TRACES and not self._attacked.get(method):
            traces = self.run.traces(f"evaluate-{method}")
            self._attacked[method] = any(is_attacked(trace) for trace in islice(traces, MOST_TRACES))
        return self._attacked[method]

    def _file(self, group: str) -> Path:
        self._read_scores()  # which name the groups
        if group not in self._counts:
            raise UserError(f"{group}: the run has no discussions of this name")
        return self.run.trace_file(f"evaluate-{group}")


def _spoken_text(line: str) -> str:
    """Reads the text of a discussion's messages, in lower case."""
    texts: list[str] = []
    for turn in json.loads(line)["turns"]:
        texts += [str(turn.get(name) or "") for name in ("agent", "content", "answer", "error")]
    return "\n".join(texts).lower()


class LineIndex:
    """Complete lines of a file of a run, by number from 0.

    Only the place of each line is kept, so that one of a million is found at once.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.version = ""  # another one after the file was replaced or cut: earlier numbers count no more
        self._cuts = 0
        self._form = ""
        self._unpacked: BinaryIO | None = None
        self._places = [0]  # where each line begins, and where the next one will

    def new(self) -> Iterator[bytes]:
        """Yields the lines that no earlier call has yielded. All of them, from 0, where `version` has changed.

        Raises UserError where the file is damaged.
        """
        form = self._current_form()
        is_cut = self.path.exists() and self.path.stat().st_size < self._places[-1]
        if form != self._form or is_cut:
            # A compressed file becomes a temporary one, in which any place can be read.
            self._unpacked = jsonl.seekable(self.path) if form.endswith(".gz") else None
            if self._unpacked:
                weakref.finalize(self, self._unpacked.close)
            self._cuts += 1
            self._form = form
            self.version = f"{form}-{self._cuts}"
            self._places = [0]

        with self._content() as file:
            file.seek(self._places[-1])
            while (line := file.readline(jsonl.LINE_BYTES)).endswith(b"\n"):
                self._places.append(self._places[-1] + len(line))
                yield line

        if len(line) == jsonl.LINE_BYTES:
            raise jsonl.endless_line(self.path)

    def _current_form(self) -> str:
        """Names the file that holds the records now; empty without any."""
        for path in (self.path, jsonl.compressed(self.path)):
            if path.exists():
                return f"{path.stat().st_ino:x}{path.suffix}"
        return ""

    def line(self, number: int) -> bytes:
        """Reads one line. Raises UserError where there is none."""
        deque(self.new(), maxlen=0)
        if not 0 <= number < len(self._places) - 1:
            raise UserError(f"{self.path} has no line {number + 1}; reload the page")
        with self._content() as file:
            file.seek(self._places[number])
            return file.readline(jsonl.LINE_BYTES)

    def _content(self) -> AbstractContextManager[BinaryIO]:
        if self._unpacked:
            return nullcontext(self._unpacked)
        return self.path.open("rb") if self._form else BytesIO()
