"""Shows a turn as its agent saw it: the prompt, the raw reply with what was read from it, sources, searches and times.

All of it is read from the run folder. Of pictures the folder has the paths: one is shown only where it lies in a folder
that the user trusts.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from actors.errors import UserError
from actors.messages import FieldKind, Message, Trace
from actors.pictures import data_url
from experiments.config import saved
from experiments.config.loading import named_again
from experiments.config.references import at_home
from experiments.records.recorder import RunFolder
from experiments.records.timings import of_trace
from experiments.records.turn_log import DiscussionTurns, RecordedSource, RecordedTurn, turns_of_trace

Details = dict[str, Any]
NOT_RECORDED = "no prompt is recorded: the turn is a replay's, or of a version before 0.4.0"


def inspect(run: RunFolder, group: str, line: int, turn: str, overrides: Sequence[str] = ()) -> Details:
    """Collects the details of one turn, for JSON. Raises UserError for a turn that is not recorded, or damaged.

    Args:
        group: a method, or `<method>.train-<stage>`. line: of its traces, from 1. turn: a message's id.
        overrides: name again what the configuration names outside of the folder, and may be opened.
    """
    folder, phase = folder_of(run, group)
    trace = next(folder.traces(phase, only={line - 1}), None)
    messages = {message.id: message for message in trace.turns} if trace else {}
    if trace is None or turn not in messages:
        raise UserError(f"{run.path}: no turn {turn!r} in line {line} of {group}")

    turns = turns_of_trace(folder, phase, trace)
    details: Details = {"calls": [], "marks": [], "sources": []}
    titles: dict[str, str] = {}
    if turns and turn in turns.turns:
        details = shown(turns, turns.turns[turn], messages[turn], trusted_folders(run, overrides))
        for other in turns.turns.values():
            titles |= {source.id: turns.text(source.title) for source in other.sources}
    else:
        details["note"] = NOT_RECORDED

    source_ids = {source["id"] for source in details["sources"]}
    details["searches"] = list(searches(trace, turn, source_ids, titles))

    times = of_trace(folder, phase, trace)
    if times and (time := times.turns.get(turn)):
        details["started"] = times.started + time.start
        details |= {"seconds": time.seconds, "cached_tokens": time.cached_tokens, "replica": time.replica}
    return details


def folder_of(run: RunFolder, group: str) -> tuple[RunFolder, str]:
    """Finds the folder and the phase of a group's traces. Raises UserError for a group that is not recorded."""
    method, _, stage = group.rpartition(".train-")
    for folder in run.all_learned():
        if folder.name == method and _has_phase(folder.training_traces(), f"train-{stage}"):
            return folder, f"train-{stage}"
    if _has_phase(run.evaluation_traces(), f"evaluate-{group}"):
        return run, f"evaluate-{group}"
    raise UserError(f"{run.path}: {group} is neither an evaluation of this run nor a stage of learning")


def _has_phase(traces: Iterable[Path], phase: str) -> bool:
    return any(path.stem == phase for path in traces)


def shown(turns: DiscussionTurns, turn: RecordedTurn, message: Message, trusted: Sequence[Path]) -> Details:
    """Collects the calls of a turn, the places of what was read from the replies, and its sources."""
    by_number = {source.number: source for source in turn.sources}
    calls: list[Details] = []
    replies: list[str] = []
    # An agent reads sources of its modality alone.
    source_numbers = {source.number for source in turn.sources if source.id in message.cut}
    for call in turn.calls:
        shared = turns.text(call.shared)
        source_numbers |= {source.number for source in turn.sources if f"\n[{source.number}] " in shared}
        folders = () if call.described else trusted
        reply = turns.text(call.reply)
        replies.append(reply)
        calls.append(
            {
                "system": turns.text(call.system),
                "shared": shared,
                "own": turns.text(call.own),
                "correction": turns.text(call.correction),
                "images": [source_details(turns, by_number[number], folders) for number in call.images],
                "reply": reply,
                "prompt_tokens": call.prompt_tokens,
                "completion_tokens": call.completion_tokens,
            }
        )
    sources = []
    for source in turn.sources:
        if source.number in source_numbers:
            sources.append({**source_details(turns, source, trusted), "cut": source.id in message.cut})
    return {"calls": calls, "marks": marks(message, replies), "sources": sources}


def source_details(turns: DiscussionTurns, source: RecordedSource, trusted: Sequence[Path]) -> Details:
    """Describes a source, with its picture where that lies in a trusted folder."""
    details: Details = {
        "id": source.id,
        "number": source.number,
        "title": turns.text(source.title),
        "kind": source.kind.value,
        "text": turns.text(source.text),
    }
    if source.image:
        # The links of a path are followed before it is compared.
        path = Path(source.image).resolve()
        if any(path.is_relative_to(folder) for folder in trusted):
            try:
                details["src"] = data_url(source.image)
            except OSError as error:
                details["text"] += f" ({error})"
        elif trusted:
            details["text"] += f" (the picture {source.image} is opened only if the command line names its folder)"
    return details


def trusted_folders(run: RunFolder, overrides: Sequence[str]) -> list[Path]:
    """Lists the folders of pictures that may be opened: a cache next to the run, and folders that are named again."""
    config = saved.read(run.config)
    at_home(config, run.path)
    again = named_again(overrides)
    folders = []
    if config.cache in (again.cache, str(Path(config.output) / "cache")):
        folders.append(Path(str(config.cache)).resolve())
    if config.data.root and config.data.root == again.data.root:
        root = Path(config.data.root).resolve()
        # A file of questions has its pictures in its folder.
        folders.append(root.parent if root.is_file() else root)
    return folders


def searches(trace: Trace, turn: str, source_ids: set[str], titles: dict[str, str]) -> Iterator[Details]:
    """Lists the searches that the turn asked for or whose results it read."""
    for lookup in trace.lookups:
        if lookup.of != turn and source_ids.isdisjoint(lookup.found):
            continue
        results = []
        for id in lookup.found:
            # A triple has the title of its source.
            results.append({"id": id, "title": titles.get(re.sub(r"#\d+$", "", id), "")})
        yield {"base": lookup.base, "query": lookup.query, "asked": lookup.of == turn, "found": results}


def marks(message: Message, replies: Iterable[str]) -> list[Details]:
    """Finds the values that were read from a reply and its repair: `call` (from 0), `start`, `end`, and `field`'s name.

    Places count UTF-16 units, as a browser's strings do. A value with several places is left out.
    """
    values = list(message.fields)
    if message.answer is not None:
        values.append((FieldKind.ANSWER, message.answer))
    if message.confidence is not None:
        values.append((FieldKind.CONFIDENCE, f"{message.confidence:g}"))
    if message.content:
        values.append((FieldKind.REASONING, message.content))
    places = []
    for number, reply in enumerate(replies):
        for name, value in values:
            span = place_of(name, value, reply)
            if span is None:
                continue
            start = _utf16_units(reply[: span[0]])
            end = _utf16_units(reply[: span[1]])
            places.append({"call": number, "start": start, "end": end, "field": name})
    return places


def _utf16_units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def place_of(name: str, value: str, reply: str) -> tuple[int, int] | None:
    """Finds the one place of a value in a reply; None for several."""
    # On one line or several.
    pattern = r"\s+".join(map(re.escape, value.split()))
    if name == FieldKind.CONFIDENCE:
        pattern += "0*"

    # Its label makes a value unique that others mention.
    for label in (rf"(?<!\w){re.escape(name)}\W{{1,8}}", ""):
        matches = list(re.finditer(rf"(?i){label}(?<!\w)(?P<value>{pattern})(?!\w)", reply))
        if len(matches) == 1:
            return matches[0].span("value")
    return None
