"""report.html: a run on one page that needs no network and no other file, to be read in any browser."""

from __future__ import annotations

import base64
import heapq
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from pathlib import Path

from actors.messages import Message, Status, Trace
from experiments import judgements, usage
from experiments.recorder import RunFolder
from experiments.records import Scored
from experiments.summary import EMBEDDED, EMBEDDED_NOTE, Metrics, cells, headers, notes

STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; color: #1a1a1a }
h1 { font-size: 1.5rem } h2 { font-size: 1.2rem; margin-top: 2.2rem }
table { border-collapse: collapse; margin: 1rem 0 }
th, td { text-align: right; padding: .3rem .8rem; border-bottom: 1px solid #ddd; vertical-align: bottom }
th:first-child, td:first-child { text-align: left }
figure { margin: 1.5rem 0 } figure img { max-width: 100% } figcaption { color: #555 }
details { border: 1px solid #ddd; border-radius: 4px; padding: .4rem .8rem; margin: .4rem 0 }
summary { cursor: pointer; overflow-wrap: anywhere }
.turn { border-left: 3px solid #0072B2; padding: .1rem .8rem; margin: .7rem 0; overflow-wrap: anywhere }
.turn.failed, .turn.unparsed { border-color: #D55E00 } .cut { color: #8a5a00 }
.said { white-space: pre-wrap } .small { color: #555; font-size: .87em }
.right { color: #00664b } .wrong { color: #a33f00 } .note { background: #fff4d6; padding: .5rem .8rem }
pre { background: #f6f6f6; padding: .8rem; overflow-x: auto }
"""


def write(run: RunFolder, metrics: Metrics, metric: str, method: str, figures: Sequence[Path], limit: int = 50) -> Path:
    """The report, with up to `limit` of the discussions of `method`. Everything that was said is escaped."""
    partial = run.report.with_suffix(".partial")
    with partial.open("w", encoding="utf-8") as page:
        page.writelines(f"{line}\n" for line in _page(run, metrics, metric, method, figures, limit))
    return partial.replace(run.report)


def _page(
    run: RunFolder, metrics: Metrics, metric: str, method: str, figures: Sequence[Path], limit: int
) -> Iterator[str]:
    title = f"{escape(metrics['experiment'])}: {escape(run.path.name)}"
    yield f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{title}</title>'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<style>{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>"
    if metrics["model"] == EMBEDDED:
        yield f'<p class="note">{escape(EMBEDDED_NOTE)}</p>'
    yield f"<h2>Methods on {metrics['questions']:,} questions of {escape(metrics['dataset'])}</h2>"
    yield from _table(metrics, metric)
    yield from (f"<p>{escape(note)}</p>" for note in notes(metrics, metric) if note != EMBEDDED_NOTE)
    if "judged" in metrics:
        yield from (f"<p>{escape(note)}</p>" for note in judgements.notes(metrics["judged"]))
    if figures:
        yield "<h2>Figures</h2>"
    for figure in figures:
        caption = escape(figure.stem.replace("-", " "))
        data = base64.b64encode(figure.read_bytes()).decode()
        image = f'<img alt="{caption}" src="data:image/png;base64,{data}">'
        yield f"<figure>{image}<figcaption>{caption}</figcaption></figure>"
    yield from _usage(run)
    yield from _discussions(run, method, limit)
    yield f"<h2>Configuration</h2>\n<pre>{escape(run.config.read_text(encoding='utf-8'))}</pre>\n</body>\n</html>"


def _table(metrics: Metrics, metric: str) -> Iterator[str]:
    yield "<table>"
    yield _row("th", headers(metrics, metric))
    yield from (_row("td", (method, *cells(metrics, method))) for method in metrics["methods"])
    yield "</table>"


def _usage(run: RunFolder) -> Iterator[str]:
    """What the run really spent, by phase; nothing where that was not recorded."""
    phases = usage.by_phase(run)
    if phases:
        yield "<h2>What was really spent</h2>\n<table>"
        yield _row("th", usage.HEADERS)
        yield from (_row("td", usage.cells(spent)) for spent in phases.values())
        yield "</table>"
        yield from (f"<p>{escape(note)}</p>" for note in usage.notes(usage.total(run)))


def _row(cell: str, texts: Iterable[str]) -> str:
    return f"<tr>{''.join(f'<{cell}>{escape(text)}</{cell}>' for text in texts)}</tr>"


def _discussions(run: RunFolder, method: str, limit: int) -> Iterator[str]:
    """The first questions by id, which do not depend on the order in which they were finished."""
    # A method's scores and traces are recorded in one order.
    of_method = enumerate(scored for scored in run.scores() if scored.method == method)
    first = heapq.nsmallest(limit, of_method, key=lambda numbered: numbered[1].question)
    found = {trace.question: trace for trace in run.traces(f"evaluate-{method}", only={n for n, _ in first})}
    yield f"<h2>Discussions of {escape(method)} ({len(first)} shown)</h2>"
    for _, scored in first:
        yield from _discussion(found[scored.question], scored)


def _discussion(trace: Trace, scored: Scored) -> Iterator[str]:
    verdict = "right" if scored.utility == 1 else "wrong" if scored.utility == 0 else "partly right"
    style = verdict if verdict != "partly right" else "small"
    yield f'<details><summary><span class="{style}">{verdict}</span> {escape(scored.text)}</summary>'
    yield f"<p>Answer: <b>{_answer(trace.answer)}</b>. Expected: <b>{escape(' | '.join(scored.gold))}</b>.</p>"
    tokens = f"{scored.prompt_tokens + scored.completion_tokens:,} tokens, {scored.calls} calls, {scored.edges} edges"
    yield f'<p class="small">Question {escape(trace.question)}; {tokens}; status {trace.status}.</p>'
    if trace.evidence:
        yield f'<p class="small">Evidence: {escape(", ".join(trace.evidence))}.</p>'
    for sources, turns in _cuts(trace).items():
        left_out = f"Left out, for want of room: {escape(', '.join(sources))} from {escape('; '.join(turns))}."
        yield f'<p class="small cut">{left_out}</p>'
    speakers = {turn.id: f"{turn.agent} ({turn.round})" for turn in trace.turns}
    for turn in trace.turns:
        yield from _turn(turn, speakers)
    if trace.decision:
        yield f'<p class="small">The decision read {escape(", ".join(trace.decision))}.</p>'
    yield "</details>"


def _cuts(trace: Trace) -> dict[tuple[str, ...], list[str]]:
    """The turns that were asked without some of their evidence, by the sources that were left out."""
    cuts: dict[tuple[str, ...], list[str]] = {}
    for turn in trace.turns:
        if turn.cut:
            cuts.setdefault(turn.cut, []).append(f"{turn.agent}, round {turn.round}")
    return cuts


def _turn(turn: Message, speakers: dict[str, str]) -> Iterator[str]:
    yield f'<div class="turn {turn.status}"><b>{escape(turn.agent)}</b>, round {turn.round}'
    if turn.heard:
        heard = ", ".join(speakers.get(message, message) for message in turn.heard)
        yield f' <span class="small">heard {escape(heard)}</span>'
    if turn.cut:
        yield f'<br><span class="small cut">asked without {escape(", ".join(turn.cut))}</span>'
    if turn.status is not Status.OK:
        yield f'<br><span class="wrong">{turn.status}</span> {escape(turn.error)}'
    if turn.content:
        yield f'<br><span class="said">{escape(turn.content)}</span>'
    if turn.status is Status.OK:
        confidence = "" if turn.confidence is None else f" (confidence {turn.confidence:.2f})"
        yield f"<br>Answer: <b>{_answer(turn.answer)}</b>{confidence}"
    yield "</div>"


def _answer(answer: str | None) -> str:
    return "<i>none</i>" if answer is None else escape(answer)
