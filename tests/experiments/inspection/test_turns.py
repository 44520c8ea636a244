"""What each turn was asked and replied, read from the run folder."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from actors.errors import UserError
from actors.messages import Message
from experiments.inspection.turns import inspect
from experiments.records import jsonl
from experiments.records.recorder import RunFolder

TEAM = ["topology.text=[critic,scientist]", "topology.visual=[critic]"]
SMALL = ["data.limit=2", "pruning.steps=2", "training.samples=3", "wandb.mode=disabled", "figures=false"]


def ran(output: Path, *words: str) -> RunFolder:
    from run import main

    before = set(output.glob("2*"))
    assert main([*words, *SMALL, "runtime=inline", f"output={output}"]) == 0
    [folder] = set(output.glob("2*")) - before
    return RunFolder.open(folder)


def every_turn(run: RunFolder) -> Iterator[tuple[Message, dict[str, Any]]]:
    groups = [(path.stem.removeprefix("evaluate-"), run, path.stem) for path in run.evaluation_traces()]
    for graph in run.all_learned():
        groups += [(f"{graph.name}.{path.stem}", graph, path.stem) for path in graph.training_traces()]
    assert groups
    for group, folder, phase in groups:
        for line, trace in enumerate(folder.traces(phase), start=1):
            for turn in trace.turns:
                details = inspect(run, group, line, turn.id)
                json.dumps(details)
                assert len(details["calls"]) == turn.calls, (group, line, turn.id)
                assert sum(call["prompt_tokens"] for call in details["calls"]) == turn.prompt_tokens
                assert "note" not in details, (group, line, turn.id)
                assert details["seconds"] > 0
                yield turn, details


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return ran(tmp_path_factory.mktemp("runs"), "experiment=mmqa_prune", "methods=[single,full]")


def test_every_prompt_and_reply_of_a_run_is_recorded(run: RunFolder) -> None:
    turns = list(every_turn(run))
    assert len(turns) == 2 * (1 + 19)
    for turn, each in turns:
        assert all(source["text"] or source.get("src") for source in each["sources"])
        assert turn.answer is None or "Answer" in {mark["field"] for mark in each["marks"]}
    pictures = [image for _, each in turns for call in each["calls"] for image in call["images"]]
    assert pictures
    assert all(image["src"].startswith("data:image/") for image in pictures)


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        [
            "experiment=mmqa_prune",
            "methods=[m3prune,m3prune_rloo,effects,agentdropout]",
            "training.questions_per_step=2",
            *TEAM,
        ],
        [
            "experiment=mmqa_prune",
            "methods=[full,gptswarm]",
            "attack=collude",
            "attack.number=2",
            "attack.clean=true",
            *TEAM,
        ],
        ["experiment=mmqa_prune", "methods=[inspector,challenger,anomaly]", "attack=tamper", "agents.budget_words=12"],
        ["experiment=mmqa_prune", "methods=[full]", "attack=input", "agents.weights=brief", "compare.twins=true"],
        ["experiment=mmqa_prune", "methods=[full]", "attack=poison", "attack.when=evaluate", "roles.file=paper"],
        ["experiment=mmqa_prune", "methods=[full]", "attack=corpus", "attack.clean=true"],
        ["experiment=mmqa_prune", "methods=[full]", "attack=memory", "attack.number=2"],
        ["experiment=mmqa_prune", "methods=[m3prune]", "topology.inference=sampled", "topology.rounds=3", *TEAM],
        ["experiment=systems", "methods=[hm_rag,mmapg,bdog,mh_mmkg,mad,vidorag]", "retrieval.graph=model"],
    ],
    ids=lambda words: " ".join(words[1:]),
)
def test_of_learners_attacks_defences_and_systems_too(tmp_path: Path, words: list[str]) -> None:
    searches = [search for _, each in every_turn(ran(tmp_path, *words)) for search in each["searches"]]
    # A source that some turn has read has a title.
    assert not searches or any(found["title"] for search in searches for found in search["found"])
    assert bool(searches) == ("hm_rag" in words[1])


def test_marks_are_the_places_of_what_was_read(run: RunFolder) -> None:
    details = inspect(run, "full", 1, "3/decision")
    [message] = [
        turn for trace in run.traces("evaluate-full", only={0}) for turn in trace.turns if turn.id == "3/decision"
    ]
    [call] = details["calls"]
    read = {mark["field"]: call["reply"][mark["start"] : mark["end"]] for mark in details["marks"]}
    assert read["Answer"] == message.answer
    assert float(read["Confidence"]) == pytest.approx(message.confidence, abs=0.01)


def test_a_turn_is_shown_without_the_data_and_the_cache_that_it_was_made_of(run: RunFolder, tmp_path: Path) -> None:
    moved = RunFolder(Path(shutil.copytree(run.path, tmp_path / run.name)))
    [before], [after] = (inspect(folder, "full", 2, "2/text_critic")["calls"] for folder in (run, moved))
    # Pictures are shown where their folder is trusted.
    assert {**after, "images": []} == {**before, "images": []}
    # Nothing is written next to the folder, whoever it is from.
    assert [path.name for path in tmp_path.iterdir()] == [run.name]


def test_a_picture_is_opened_only_in_a_folder_that_the_user_trusts(run: RunFolder, tmp_path: Path) -> None:
    theirs = RunFolder(Path(shutil.copytree(run.path, tmp_path / run.name)))
    # Its pictures lie in the cache next to the first folder, which this one does not name.
    [call] = inspect(theirs, "full", 1, "1/visual_critic")["calls"]
    assert call["images"]
    assert all("src" not in image for image in call["images"])
    cache = run.path.parent / "cache"
    text = theirs.config.read_text()
    assert str(cache) in text
    theirs.config.write_text(text.replace(f"output: {run.path.parent}", f"output: {tmp_path / 'elsewhere'}"))
    [call] = inspect(theirs, "full", 1, "1/visual_critic")["calls"]
    assert all("src" not in image for image in call["images"])
    [call] = inspect(theirs, "full", 1, "1/visual_critic", [f"cache={cache}"])["calls"]
    assert all("src" in image for image in call["images"])


@pytest.mark.parametrize("at", [("none", 1, "1/text_critic"), ("full", 9, "1/text_critic"), ("full", 1, "7/nobody")])
def test_a_turn_that_is_not_recorded_is_an_error(run: RunFolder, at: tuple[str, int, str]) -> None:
    with pytest.raises(UserError):
        inspect(run, *at)


def test_a_damaged_trace_is_an_error_of_one_line(run: RunFolder, tmp_path: Path) -> None:
    damaged = RunFolder(Path(shutil.copytree(run.path, tmp_path / run.name)))
    path = damaged.path / "traces" / "evaluate-full.jsonl"
    path.write_text(path.read_text().replace('"round":1', '"round":"\\n"', 1))
    with pytest.raises(UserError, match=r"evaluate-full\.jsonl, line 1") as error:
        inspect(damaged, "full", 1, "1/text_critic")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("old", "new"), [('"system":[', '"system":[9999,'), ('"lines":[', '"lines":[7,')])
def test_damaged_turns_are_an_error_of_one_line(run: RunFolder, tmp_path: Path, old: str, new: str) -> None:
    damaged = RunFolder(Path(shutil.copytree(run.path, tmp_path / run.name)))
    path = damaged.path / "turns" / "evaluate-full.jsonl"
    jsonl.make_plain(path)
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(UserError, match=r"^\S*evaluate-full\.jsonl\b.*$"):
        inspect(damaged, "full", 1, "1/text_critic")


def test_a_turn_without_a_record_of_its_prompt_is_shown_with_a_note(run: RunFolder, tmp_path: Path) -> None:
    older = RunFolder(Path(shutil.copytree(run.path, tmp_path / run.name)))
    shutil.rmtree(older.path / "turns")
    details = inspect(older, "full", 1, "1/text_critic")
    assert details["calls"] == []
    assert details["note"]
