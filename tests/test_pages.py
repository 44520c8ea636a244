"""Links of the pages lead somewhere, commands of the pages are accepted, and blocks of output name such commands."""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from experiments.command_line import main
from experiments.commands import COMMANDS
from experiments.config.keys import declared
from experiments.config.loading import load, load_overrides
from experiments.jobs import plan_of
from experiments.reference import reference
from experiments.unused import check_reads, check_used
from tests.instruments.pages import FIGURE, OUTPUT, PAGES, RUN_FOLDER, part_of, results
from tests.support.paths import ROOT

CURRENT_PAGES = (*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md")
EVERY_PAGE = (*CURRENT_PAGES, ROOT / "CHANGELOG.md")  # which also names what is gone
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
COMMAND = re.compile(r"^ +python run\.py (.+?)(?: {2,}.*)?$|`python run\.py ([^`]+)`", re.MULTILINE)
MODULE = re.compile(r"python -m ([\w.]*\w)(?!\w|\.[\w<])")
# Files, folders, keys and addresses that the reader has: of such commands the keys are looked up alone.
READERS_OWN = re.compile(r"[<]|\.\.\.|\bruns/|\bmine\b|plan\.lock|key_env=")
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


def commands(page: Path) -> Iterator[str]:
    return commands_in(page.read_text())


def commands_in(text: str) -> Iterator[str]:
    for indented, inline in COMMAND.findall(text):
        line = re.sub(r" (&&|\\?\|) .*", "", indented or inline)
        if line.replace("\\", "").strip(". |"):
            yield line


@pytest.mark.parametrize("page", CURRENT_PAGES, ids=lambda page: page.name)
def test_a_command_of_a_page_is_accepted(page: Path) -> None:
    for line in commands(page):
        # A placeholder such as <run folder> is one word.
        words = shlex.split(re.sub(r"<[^>]*>", "<>", line))
        word, _, value = words[0].partition("=")
        if word == "help":
            assert "<" in value or reference(value)
        elif word in COMMANDS or READERS_OWN.search(line):
            for key in (override.partition("=")[0] for override in words[1:]):
                is_option = key.partition(".")[0] == word.partition(".")[0]  # such as `export.to` of `export=`
                assert declared(key) or is_option or key.startswith("roles."), f"{key} in: {line}"
        else:
            config, overrides = load_overrides(words)
            plan = plan_of(config)
            check_reads(plan)
            if not config.is_sweep:
                check_used(overrides, plan)


@pytest.mark.parametrize("page", CURRENT_PAGES, ids=lambda page: page.name)
def test_a_module_that_a_page_starts_is_there(page: Path) -> None:
    for name in set(MODULE.findall(page.read_text())) - {"build", "pytest"}:
        module = ROOT.joinpath(*name.split("."))
        assert module.with_suffix(".py").exists() or (module / "__main__.py").exists(), name


@pytest.mark.parametrize("page", EVERY_PAGE, ids=lambda page: page.name)
def test_a_link_of_a_page_leads_to_a_file_and_a_heading(page: Path) -> None:
    assert list(lost_links(page)) == []


def test_readme_lists_every_page() -> None:
    listed = set(LINK.findall((ROOT / "README.md").read_text()))
    assert {f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")} <= listed


def test_the_code_layout_names_every_folder() -> None:
    layout = (ROOT / "CONTRIBUTING.md").read_text().partition("## Code layout")[2].partition("\n### ")[0]
    tops = [ROOT / name for name in ("actors", "experiments", "topologies", "retrieval")]
    folders = [*tops, *(path.parent for top in tops for path in top.glob("*/__init__.py"))]
    assert [path.name for path in folders if f"{path.name}/" not in layout] == []


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
        "The model is the embedded reader: these figures say nothing about a language \nmodel's accuracy.\n"
        "\nGains in EM\nfull +0.1\ntook 3 s\nrun: x\n"
    )
    text = results(printed)
    assert part_of(text, "table").splitlines() == ["method  EM", "full    1 "]
    assert part_of(text, 'lines "Price"').splitlines()[1] == "5."
    assert text.splitlines()[-4:] == ["5.", "", "Gains in EM", "full +0.1"]


def test_the_page_on_data_has_a_file_of_questions_that_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs" / "data.md").read_text().partition("## Your own questions")[2]
    lines = re.findall(r"^```json\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)[0]
    experiment, ask = (shlex.split(line) for line in commands_in(page) if "questions.jsonl" in line)
    (tmp_path / "questions.jsonl").write_text(lines)
    monkeypatch.chdir(tmp_path)
    assert main([*experiment, "runtime=inline", "wandb.mode=disabled", "figures=false", f"output={tmp_path}"]) == 0
    assert main([*ask, f"output={tmp_path}"]) == 0
    [metrics] = tmp_path.glob("*/metrics.json")
    scores = json.loads(metrics.read_text())["methods"]
    assert len(lines.splitlines()) == 10
    assert {name: row["failed_turns"] for name, row in scores.items()} == {"single": 0, "full": 0}
