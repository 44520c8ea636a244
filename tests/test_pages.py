"""Links of the pages lead somewhere, and what they show of the program's output names a command that is read."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from experiments.config.loading import load
from tests.instruments.pages import FIGURE, OUTPUT, PAGES, RUN_FOLDER, part_of, results
from tests.support.paths import ROOT

EVERY_PAGE = (*PAGES, *(ROOT / name for name in ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")))
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives to a page's headings."""
    headings = re.findall(r"^#+ (.+)$", FENCED.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def lost_links(page: Path) -> Iterator[str]:
    for link in LINK.findall(FENCED.sub("", page.read_text())):
        name, _, anchor = link.partition("#")
        if "://" in name:
            continue
        target = (page.parent / name).resolve() if name else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            yield link


@pytest.mark.parametrize("page", EVERY_PAGE, ids=lambda page: page.name)
def test_a_link_of_a_page_leads_to_a_file_and_a_heading(page: Path) -> None:
    assert list(lost_links(page)) == []


def test_readme_lists_every_page() -> None:
    listed = set(LINK.findall((ROOT / "README.md").read_text()))
    assert {f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")} <= listed


def test_every_block_of_output_names_a_command_that_is_read() -> None:
    found = [
        match["words"] for page in PAGES for pattern in (OUTPUT, FIGURE) for match in pattern.finditer(page.read_text())
    ]
    commands = {*found, *(inner for words in found for inner in RUN_FOLDER.findall(words))}
    assert len(commands) > 5
    for words in commands:
        if not words.startswith("table="):
            assert load(shlex.split(words)).experiment
    for page in PAGES:
        assert page.read_text().count("<!-- output of") == len(OUTPUT.findall(page.read_text())), page.name


def test_output_is_what_stands_behind_the_progress_of_a_run() -> None:
    printed = (
        "\x1b[?25l\x1b[2mlearning\x1b[0m 3/4\r\x1b[2K\x1b[?25h\n"
        "\x1b[1mmethod  EM\x1b[0m\nfull    1 \n\n"
        "Price of all the discussions that this plan has, at the rates that were given: \n5.\n"
        "The model is the embedded reader: these figures\nsay nothing.\nrun: x\n"
    )
    text = results(printed)
    assert part_of(text, "table") == "method  EM\nfull    1"
    assert part_of(text, 'lines "Price"').splitlines()[1] == "5."
    assert text.splitlines()[-1] == "5."
