"""The web of a run: results are kept in its folder, so that a resumed or replayed run gets the same."""

from __future__ import annotations

import os
from pathlib import Path

from actors.errors import UserError, WebError
from experiments.evidence.settings import SERPER_KEY, RetrievalSettings
from experiments.records.run_files import write_atomically
from retrieval.web_search import RecordedWeb, Serper, Web

RECORDING = "web.jsonl"


def check_web(retrieval: RetrievalSettings, replayed: bool = False) -> None:
    """Checks, before anything is started, that the web can be searched. Raises UserError where it cannot."""
    if retrieval.web == "serper" and not replayed and not os.environ.get(retrieval.web_key_env):
        # Another name than ours may be the key itself, by mistake.
        named = SERPER_KEY if retrieval.web_key_env == SERPER_KEY else "that retrieval.web_key_env names"
        raise UserError(
            f"retrieval.web=serper needs a key of serper.dev in the environment variable {named}: "
            "export it first, or choose retrieval.web=corpus"
        )
    if retrieval.web == "recorded" and not (retrieval.web_file and os.path.isfile(retrieval.web_file)):
        raise UserError(
            f"retrieval.web=recorded needs retrieval.web_file=<web.jsonl of a run>; {retrieval.web_file} is no file"
        )


def open_web(retrieval: RetrievalSettings, folder: Path, replayed: Path | None = None) -> Web | None:
    """The web that a run searches; None where the corpus stands in for it, or nothing does.

    Earlier recordings (of this run, in `retrieval.web_file`, or in the run `replayed`) come first. A replay searches
    nothing live.

    Raises UserError when the recording cannot be read.
    """
    if retrieval.web not in ("serper", "recorded"):
        return None
    recording = folder / RECORDING
    before = Path(retrieval.web_file) if retrieval.web == "recorded" and retrieval.web_file else None
    if replayed is not None:  # its recording has all that its turns were given, whatever the settings name
        before = replayed / RECORDING
    live = None
    if retrieval.web == "serper" and replayed is None:
        # `check_web` has made sure of the key before the run began.
        live = Serper(retrieval.web_url, os.environ.get(retrieval.web_key_env, ""), retrieval.web_key_env)
    try:
        # A run that is resumed goes on with its own recording, which begins with the earlier one.
        if before is not None and before.is_file() and not recording.exists():
            write_atomically(recording, before.read_bytes())
        return RecordedWeb(recording, live)
    except (WebError, OSError) as error:
        raise UserError(str(error)) from error
