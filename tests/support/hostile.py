"""Texts that mean harm to whoever shows them, and reports made of them."""

import json
from collections.abc import Callable
from dataclasses import replace

from experiments.analysis.reports import write_run_report
from experiments.records.recorder import RunFolder
from tests.support.fake_run import METHODS

HOSTILE = (
    '<meta http-equiv="refresh" content="0;url=http://evil.example/">',
    "</title></script></style></pre><script>location='http://evil.example'</script>",
    '"><img src=http://evil.example/x onerror=alert(1)>',
    "' autofocus onfocus=alert(1) x='",
    "<base href=http://evil.example/><form action=http://evil.example><iframe src=//evil.example>",
    "javascript:alert(1)",
    "\x1b]0;owned\x07\x1b[2J\r\nok",
    "[link=http://evil.example]x[/link][/]",
    "<svg/onload=alert(1)>",
    "<math><mtext><table><mglyph><style><!--</style><img title='--&gt;&lt;img src=1 onerror=alert(1)&gt;'>",
    "<noscript><p title='</noscript><img src=x onerror=alert(1)>'>",
    "--><!--><script>alert(1)</script>",
    "]]><![CDATA[<script>alert(1)</script>",
    "</textarea></template></xmp></noembed><object data=data:text/html,x><embed src=//evil.example>",
    "<a href='jav&#x09;ascript:alert(1)'>x</a><area href=//evil.example ping=//evil.example>",
    "<link rel=stylesheet href=//evil.example><style>@import '//evil.example'</style>",
    "<video poster=//evil.example><source src=//evil.example></video><input type=image src=//evil.example>",
    "url(javascript:alert(1)); background:url(//evil.example)",
    "${alert(1)} {{7*7}} <%= 7*7 %> `${location='//evil.example'}`",
    "\\u003cscript\\u003ealert(1)\\u003c/script\\u003e \\x3cscript\\x3e",
    "+ADw-script+AD4-alert(1)+ADw-/script+AD4-",
    "\uff1cscript\uff1ealert(1)\uff1c/script\uff1e",
    "<\0script>alert(1)</script>\u2028\u2029",
    "\u202egnp.exe",
)


def write_report(run: RunFolder, text: Callable[[], str]) -> None:
    """The report of a run in whose records every text that is free is another one of `text`'s."""
    scores = [
        replace(scored, text=text(), gold=(text(),), answer=text(), tags={text(): text()}, group="")
        for scored in run.scores()
    ]
    (run.path / "scores.jsonl").write_text("".join(f"{scored.encode()}\n" for scored in scores))
    for path in (run.path / "traces").glob("evaluate-*.jsonl"):
        traces = [json.loads(line) for line in path.read_text().splitlines()]
        for told in traces:
            told["attack"], told["answer"] = text(), text()
            for turn in told["turns"]:
                turn |= {"agent": text(), "content": text(), "error": text(), "status": "failed"}
        path.write_text("".join(f"{json.dumps(told)}\n" for told in traces))
    run.config.write_text(json.dumps({"experiment": text()}))
    row = {"utility": 0.5, "ci95": [0.4, 0.6], "f1": 0.5, "prompt_tokens": 1, "completion_tokens": 1, "calls": 1}
    row |= {"edges": 1, "failed_turns": 0, "turns": 1, "read_at_once": 1, "read_after_repair": 0, "repairs": 0}
    metrics = {"experiment": text(), "model": text(), "dataset": text(), "questions": 2, "metric": text(), "paired": {}}
    metrics["methods"] = dict.fromkeys(METHODS, row)
    write_run_report(run, metrics, text(), [])
