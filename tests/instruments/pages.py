"""Writes the program's own output and figures into README.md and docs/, so that no page is older than the program.

    python -m tests.instruments.pages [README.md docs/recipes.md ...] [--runs FOLDER] [--show]

A block of output in a page stands between two comments. The first one names the command:

    <!-- output of `python run.py experiment=twins` -->
    <!-- end of output -->

The block is what the command prints on a terminal of 80 columns (or as `, 100 columns -->` names) after its progress,
without the lines that every run of the embedded reader has. `, table -->` takes the table alone, and
`, lines "Price" -->` the paragraphs that begin with a word. `<experiment=twins>` among the words is the run folder of
that command. A figure has its comment in the line above:

    <!-- figure of `python run.py experiment=two_attackers`: effects-edges-spatial -->
    ![...](attackers.png)

Each command runs once, in this process's environment, with `runtime=inline`, which prints the same. All pages take
half an hour on two cores. Numbers in the text around a block are the author's: `--show` prints the changes to blocks.
With `--runs`, run folders stay, and a command whose folder is there does not run again.
"""

import argparse
import difflib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.paths import ROOT

PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
OUTPUT = re.compile(
    r"^<!-- output of `python run\.py (?P<words>[^`]+)`(?:, (?P<part>table|lines \"[^\"]+\"))?"
    r"(?:, (?P<columns>\d+) columns)? -->\n"
    r"(?P<block>.*?)"
    r"^<!-- end of output -->$",
    re.MULTILINE | re.DOTALL,
)
FIGURE = re.compile(
    r"^<!-- figure of `python run\.py (?P<words>[^`]+)`: (?P<name>[\w-]+) -->\n!\[[^\]]*\]\((?P<file>[^)]+)\)",
    re.MULTILINE,
)
RUN_FOLDER = re.compile(r"<([^>]+)>")
COLUMNS = 80
TERMINAL = {"TERM": "xterm", "FORCE_COLOR": "1"}
PROGRESS_END = "\x1b[?25h"  # a terminal's cursor is shown again
STYLE = re.compile(r"\x1b\[[\d;?]*[a-zA-Z]")
# Beginnings of paragraphs that every run of the embedded reader prints.
EVERY_RUN = ("The model is the embedded reader", "No room for ", "took ", "run: ")


@dataclass(frozen=True)
class Finished:
    """A command that has ended: what it printed, and its run folder (None of a dry run)."""

    printed: str
    folder: Path | None


class Commands:
    """Runs each command once. Run folders and caches lie in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._finished: dict[str, Finished] = {}

    def finished(self, words: str, columns: int = COLUMNS) -> Finished:
        if words not in self._finished:
            self._finished[words] = self._run(words, columns)
        return self._finished[words]

    def _run(self, words: str, columns: int) -> Finished:
        output = self._folder / f"{re.sub(r'[^a-z0-9_=]+', '-', words)[:80]}-{zlib.crc32(words.encode()):08x}"
        log = output / "printed.txt"
        if not log.exists():
            print(f"python run.py {words}", file=sys.stderr, flush=True)
            shutil.rmtree(output, ignore_errors=True)
            output.mkdir(parents=True)
            filled = RUN_FOLDER.sub(lambda found: str(self.finished(found[1]).folder), words)
            further = ["runtime=inline", "wandb.mode=disabled", f"output={output}", f"cache={self._folder / 'cache'}"]
            if words.startswith("table="):
                further = []
            done = subprocess.run(
                [sys.executable, "run.py", *shlex.split(filled), *further],
                cwd=ROOT,
                env={**os.environ, **TERMINAL, "COLUMNS": str(columns)},
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode:
                raise SystemExit(f"python run.py {words} ended with {done.returncode}: {done.stderr}")
            log.write_text(done.stdout)
        folders = [config.parent for config in output.glob("*/config.yaml")]
        return Finished(results(log.read_text(), columns), folders[0] if folders else None)


def results(printed: str, columns: int = COLUMNS) -> str:
    """Takes the result out of what a run printed: plain lines after its progress, without those of every run."""
    plain = STYLE.sub("", printed.rpartition(PROGRESS_END)[2])
    kept = [paragraph for paragraph in paragraphs(plain, columns) if not paragraph[0].startswith(EVERY_RUN)]
    return "\n".join(line for paragraph in kept for line in paragraph).strip("\n")


def paragraphs(text: str, columns: int) -> Iterator[list[str]]:
    """Joins lines to paragraphs: a line goes on in the next one if it fills the terminal, or a blank was its last."""
    paragraph: list[str] = []
    for line in text.splitlines():
        goes_on = paragraph and (paragraph[-1].endswith(" ") or len(paragraph[-1]) == columns)
        if paragraph and not (goes_on and line.strip()):
            yield paragraph
            paragraph = []
        paragraph.append(line)
    if paragraph:
        yield paragraph


def part_of(text: str, part: str | None, columns: int = COLUMNS) -> str:
    """Takes the first table, or the paragraphs that begin as `lines "..."` says; all where no part is named."""
    if part is None:
        return text
    if part == "table":
        in_markdown = [line for line in text.splitlines() if line.startswith("|")]
        return "\n".join(in_markdown) or text.partition("\n\n")[0]
    beginning = part.removeprefix('lines "').removesuffix('"')
    found = [
        line for paragraph in paragraphs(text, columns) if paragraph[0].startswith(beginning) for line in paragraph
    ]
    if not found:
        raise SystemExit(f"no line begins with {beginning!r} in:\n{text}")
    return "\n".join(found)


def indented(text: str) -> str:
    """Indents lines as Markdown marks output, unless they are Markdown themselves."""
    lines = [line.rstrip() for line in text.splitlines()]
    if text.startswith("|"):
        return "".join(f"{line}\n" for line in lines)
    return "".join(f"    {line}\n" if line else "\n" for line in lines)


def written(page: Path, commands: Commands) -> str:
    """Makes the page's text with new blocks, and copies its figures."""
    text = page.read_text()
    for figure in FIGURE.finditer(text):
        folder = commands.finished(figure["words"]).folder
        assert folder is not None, f"{figure['words']} has no run folder"
        shutil.copy(folder / "figures" / f"{figure['name']}.png", page.parent / figure["file"])

    def block(found: re.Match[str]) -> str:
        columns = int(found["columns"] or COLUMNS)
        printed = part_of(commands.finished(found["words"], columns).printed, found["part"], columns)
        first, _, _ = found[0].partition("\n")
        return f"{first}\n\n{indented(printed)}\n<!-- end of output -->"

    return OUTPUT.sub(block, text)


def main(pages: list[Path], runs: Path | None, show: bool) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        commands = Commands(runs.absolute() if runs else Path(temporary))
        for page in pages:
            before, after = page.read_text(), written(page, commands)
            if show:
                name = str(page.relative_to(ROOT))
                sys.stdout.writelines(difflib.unified_diff(before.splitlines(True), after.splitlines(True), name, name))
            page.write_text(after)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", type=lambda name: Path(name).resolve(), default=PAGES)
    parser.add_argument("--runs", type=Path, help="folder in which run folders stay")
    parser.add_argument("--show", action="store_true", help="print what differs in the pages")
    options = parser.parse_args()
    main(list(options.pages), options.runs, options.show)
