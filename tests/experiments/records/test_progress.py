"""Progress is a line now and then in a file, and bars on a terminal."""

import io
import re
import time

import pytest
from rich.console import Console

from experiments.records import progress as progress_module
from experiments.records.progress import Progress, plain


def test_progress_prints_a_plain_line_where_there_is_no_terminal() -> None:
    output = io.StringIO()
    with Progress(Console(file=output)) as progress:
        bar = progress.phase("stage 1", total=40, completed=30)
        for _ in range(10):
            bar.advance()
    assert output.getvalue().startswith("stage 1: 40/40, ")
    assert output.getvalue().count("\n") == 1


def test_progress_prints_turns_that_end_before_any_unit_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_module, "PLAIN_EVERY_S", 0.0)
    output = io.StringIO()
    with Progress(Console(file=output)) as progress:
        bar = progress.phase("stage 1", total=40)
        bar.turn()
        bar.turn()
    said = [line.rpartition(", ")[0] for line in output.getvalue().splitlines()]
    assert said == ["stage 1: 0/40, 0.0/s; turns: 1", "stage 1: 0/40, 0.0/s; turns: 2"]


def test_a_phase_that_waits_for_others_counts_its_time_from_its_first_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 0.0
    monkeypatch.setattr(progress_module.time, "monotonic", lambda: now_s)
    output = io.StringIO()
    with Progress(Console(file=output)) as progress:
        bar = progress.phase("evaluating full", total=2)
        now_s = 40.0
        for _ in range(2):
            bar.ask()
            now_s += 1
            bar.turn()
            bar.advance()
    assert output.getvalue() == "evaluating full: 2/2, 1.0/s, took 0:00:02; turns: 2, 1.0/s\n"


def test_a_phase_in_which_nothing_ends_tells_for_how_long(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SILENT_AFTER_S", "WATCHED_EVERY_S"):
        monkeypatch.setattr(progress_module, name, 0.02)
    screen = io.StringIO()
    with Progress(Console(file=screen)) as progress:
        progress.phase("evaluating single", total=2)
        bar = progress.phase("evaluating full", total=2)
        time.sleep(0.2)
        assert screen.getvalue() == ""  # both wait for others
        bar.ask()
        while screen.getvalue().count("\n") < 2:
            time.sleep(0.02)
        bar.advance(2)
        at_its_end = screen.getvalue()
        time.sleep(0.2)
        assert screen.getvalue() == at_its_end
    first, *_, last = screen.getvalue().splitlines()
    assert re.fullmatch(r"evaluating full: 0/2, 0\.0/s; nothing new for \d+ s", first)
    assert last.startswith("evaluating full: 2/2, ")


@pytest.mark.parametrize("width", [40, 80, 160])
def test_a_terminal_of_any_width_has_the_figures_of_a_phase_and_no_emoji(width: int) -> None:
    output = io.StringIO()
    with Progress(Console(file=output, force_terminal=True, width=width, color_system=None)) as progress:
        bars = [progress.phase("learning m3prune :parrot: stage 1", total=4_000_000) for _ in range(2)]
        for bar in bars:
            bar.advance(1_234_567)
            bar.turn()
        progress.print("[bold]:parrot:")
    shown = output.getvalue()
    assert shown.count("1,234,567/4,000,000") >= 2
    assert shown.count(":parrot:") >= 3
    assert "[bold]" in shown
    assert "\u2026" not in shown


def test_phases_that_are_over_take_no_more_lines() -> None:
    heights = []
    for phases in (2, 30):
        output = io.StringIO()
        with Progress(Console(file=output, force_terminal=True, width=80)) as progress:
            for number in range(phases):
                progress.phase(f"phase {number}", total=1).advance()
        heights.append(output.getvalue().count("\n"))
    assert heights[0] == heights[1]


def test_a_plain_line_tells_rate_and_time_left_without_what_was_done_before() -> None:
    assert (
        plain("m3prune", completed=60, total=100, new_units=10, elapsed_s=5) == "m3prune: 60/100, 2.0/s, 0:00:20 left"
    )
    assert plain("m3prune", completed=0, total=100, new_units=0, elapsed_s=5) == "m3prune: 0/100, 0.0/s"


def test_a_plain_line_tells_turns_and_rates_below_one_a_second() -> None:
    slow = plain("m3prune", completed=1, total=100, new_units=1, elapsed_s=80, turns=19)
    assert slow == "m3prune: 1/100, 0.013/s, 2:12:00 left; turns: 19, 0.24/s"
    fast = plain("m3prune", completed=100, total=100, new_units=100, elapsed_s=4, turns=1900)
    assert fast == "m3prune: 100/100, 25.0/s, took 0:00:04; turns: 1,900, 475.0/s"


@pytest.mark.parametrize("total", [3, None])
def test_items_are_counted_from_the_first_second_on(total: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_module, "SHOWN_AFTER_S", 0)
    screen = io.StringIO()
    with Progress(Console(file=screen)) as progress:
        assert list(progress.counted("reading", "abc", total)) == ["a", "b", "c"]
    first, *_, last = screen.getvalue().splitlines()
    assert first.startswith("reading: 1/3" if total else "reading: 1, ")
    assert last.startswith("reading: 3/3")


def test_a_long_step_shows_that_it_is_under_way_and_a_short_one_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    with Progress(Console(file=screen)) as progress:
        with progress.waiting("indexing"):
            pass
        assert screen.getvalue() == ""
        monkeypatch.setattr(progress_module, "SHOWN_AFTER_S", 0.01)
        with progress.waiting("indexing"):
            time.sleep(0.3)
    assert screen.getvalue().startswith("indexing: 0/1, ")
    assert "indexing: 1/1" in screen.getvalue()


def test_a_step_that_fails_is_not_shown_as_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_module, "SHOWN_AFTER_S", 0.01)
    screen = io.StringIO()

    def interrupted(progress: Progress) -> None:
        with progress.waiting("indexing"):
            time.sleep(0.3)
            raise KeyboardInterrupt

    with Progress(Console(file=screen)) as progress, pytest.raises(KeyboardInterrupt):
        interrupted(progress)
    assert screen.getvalue().startswith("indexing: 0/1, ")
    assert "indexing: 1/1" not in screen.getvalue()
