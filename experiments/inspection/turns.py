"""Rebuilds a turn: the exact prompt, the raw reply and the values read from it, its sources, searches and times.

No prompt is stored. It is built again from the recorded discussion and the run's configuration, by the same agent.
"""

import asyncio
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any

from actors.errors import UserError
from actors.messages import Completion, FieldKind, Message, Role, Source, Turn
from actors.pictures import data_url
from actors.prompting.form import Form, form_of, places, still_asked
from actors.prompting.prompt import evidence_for, in_own_form
from actors.prompting.reply import read
from actors.runtime.team import distinct_roles, make_agent
from experiments.inspection.held_again import HeldAgain, HeldDiscussions, differing
from experiments.inspection.kept_replies import KeptReplies, NotKept
from experiments.inspection.opened_run import OpenedRun
from experiments.records.recorder import RunFolder
from experiments.records.timings import of_trace
from experiments.running.model_record import recorded_abilities
from retrieval.store import EVERYTHING

MOST_OPEN = 4  # runs, each with its data set and index
KEPT = 16  # discussions that were held again, as usually several turns of one are opened
Details = dict[str, Any]
NOTHING: Details = {"calls": [], "marks": [], "sources": [], "searches": []}


def inspect(run: RunFolder, group: str, line: int, turn: str, named: Sequence[str] = ()) -> Details:
    """Collects the details of one turn, for JSON. Raises UserError like `TurnInspector`.

    Args:
        group: a method, or `<method>.train-<stage>`. line: of its traces, from 1. turn: a message's id.
        named: as of `OpenedRun`.
    """
    return _opened(run.path, tuple(named)).turn(group, line, turn)


class TurnInspector:
    """Rebuilds turns of one run, whose data and evidence are opened once. Its methods may be called in any thread."""

    def __init__(self, path: Path, named: Sequence[str] = ()) -> None:
        """Opens the run in a folder. Where that is refused, all turns have the reason as their note."""
        self._run = run = RunFolder(path)
        self._lock = Lock()
        self._held: dict[tuple[str, int], HeldAgain] = {}
        self._refused = ""
        try:
            self._opened = OpenedRun(run, named)
            self._discussions = HeldDiscussions(self._opened)
        except UserError as error:
            self._refused = str(error)

    def turn(self, group: str, line: int, turn: str) -> Details:
        """Collects a turn's details, as `inspect`. Raises UserError for a turn that is not recorded, or damaged."""
        if self._refused:
            return {**NOTHING, "note": self._refused}
        # In a thread without an event loop, such as that of a notebook.
        with self._lock, ThreadPoolExecutor(1) as thread:
            return thread.submit(asyncio.run, self._turn(group, line, turn)).result()

    async def _turn(self, group: str, line: int, id: str) -> Details:
        if (group, line) not in self._held:
            if len(self._held) == KEPT:
                self._held.clear()
            self._held[group, line] = await self._discussions.hold(group, line)
        held = self._held[group, line]
        message = next((message for message in held.trace.turns if message.id == id), None)
        if message is None:
            raise UserError(f"{self._run.path}: no turn {id!r} in line {line} of {group}")
        details: Details = {**NOTHING}
        notes = [held.note]
        if turn := held.turns.get(id):
            launched = self._opened.plan.roles.launched
            role = distinct_roles(launched)[next(each.played for each in launched if each.name == turn.agent)]
            notes.append(await self._rebuild(details, held, turn, role, message))
        details["searches"] = self._searches(held, id, [source["id"] for source in details["sources"]])
        times = of_trace(held.folder, held.phase, held.trace)
        if times and (time := times.turns.get(id)):
            details |= {"started": times.started + time.start, **time._asdict()}
            del details["start"]
        if note := "; ".join(filter(None, notes)):
            details["note"] = note
        return details

    async def _rebuild(self, details: Details, held: HeldAgain, turn: Turn, role: Role, message: Message) -> str:
        """Adds calls, marks and sources to a turn's details. Returns a note on missing or differing parts."""
        opened, plan = self._opened, self._opened.plan
        recorded = recorded_abilities(self._run)
        abilities = recorded.get(role.name, recorded[""])
        model = KeptReplies(plan.models.of_role(role.name), abilities, plan.config.completions, opened.cache)
        agent = make_agent(role, model, plan.config.agents)
        for id, earlier in held.turns.items():
            if turn.recall and earlier.agent == turn.agent and earlier.round < turn.round:
                agent.memory.remember(earlier, held.memories[id])
        again = None
        try:
            again = (await agent.take(turn, message.cut)).message
        except NotKept:
            pass
        finally:
            model.close()
        evidence, numbers = evidence_for(turn.question, role.evidence), places(turn.question)
        completions = [call.completion for call in model.calls if call.completion]
        details["calls"] = calls = []
        for call in model.calls:
            reply = call.completion
            shown = {name: getattr(call.request, name) for name in ("system", "shared", "own", "correction")}
            shown["images"] = [_source(image) | {"caption": image.text} for image in call.request.images]
            tokens = {name: getattr(reply, name) if reply else 0 for name in ("prompt_tokens", "completion_tokens")}
            calls.append(shown | {"reply": reply.text if reply else None, "source": call.source} | tokens)
        details["marks"] = marks(form_of(in_own_form(turn, role)), completions)
        details["sources"] = [
            _source(source) | {"number": numbers[source.id], "cut": source.id in message.cut} for source in evidence
        ]
        if again is None:
            return f"no reply: {message.error or model.missing or 'the completion cache does not hold it'}"
        return differing("the message", again, held.memories[message.id])

    def _searches(self, held: HeldAgain, id: str, read: Sequence[str]) -> list[Details]:
        """Lists the searches that the turn asked for or whose results it read."""
        of_turn = [each for each in held.trace.lookups if each.of == id or not set(read).isdisjoint(each.found)]
        # A triple has the title of its source.
        sources = {each: re.sub(r"#\d+$", "", each) for lookup in of_turn for each in lookup.found}
        known = self._opened.evidence.store.sources(sources.values(), EVERYTHING)
        titles = {source.id: source.title for source in known}
        return [
            {"base": each.base, "query": each.query, "asked": each.of == id}
            | {"found": [{"id": found, "title": titles.get(sources[found], "")} for found in each.found]}
            for each in of_turn
        ]


_opened = lru_cache(maxsize=MOST_OPEN)(TurnInspector)


def marks(form: Form, completions: Sequence[Completion]) -> list[Details]:
    """Finds the values that were read from a reply and its repair: `call` (from 0), `start`, `end`, and `field`'s name.

    Places count UTF-16 units, as a browser's strings do. A value with several places is left out.
    """
    found, asked = [], form
    for call, completion in enumerate(completions):
        text = completion.text
        reading = read(asked, text, completion.stop == "length", form)
        for name, value in reading.values:
            # On one line or several; a number may end in zeros.
            written = r"\s+".join(map(re.escape, value.split())) + ("0*" if name == FieldKind.CONFIDENCE else "")
            # Its label makes a value unique that others mention.
            for before in (rf"(?<!\w){re.escape(name)}\W{{1,8}}", ""):
                pattern = rf"(?i){before}(?<!\w)(?P<value>{written})(?!\w)"
                spans = [each.span("value") for each in re.finditer(pattern, text)]
                if len(spans) == 1:
                    start, end = (len(text[:place].encode("utf-16-le", "surrogatepass")) // 2 for place in spans[0])
                    found.append({"call": call, "start": start, "end": end, "field": name})
                    break
        asked = still_asked(asked, reading.faults)
    return found


def _source(source: Source) -> Details:
    shown: Details = {"id": source.id, "title": source.title, "kind": source.kind.value, "text": source.text}
    if source.image:
        try:
            shown["src"] = data_url(source.image)
        except OSError as error:
            shown["text"] += f" ({error})"
    return shown
