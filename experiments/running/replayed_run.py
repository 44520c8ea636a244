"""Opens a recorded run for `model=replay`: its turns, data set and learned graphs.

The metric and the judge may differ from the recorded run's, questions and methods may be fewer. Learned graphs are
copied, or learned again from the recorded discussions, which works as long as these get the same scores.
"""

from dataclasses import replace
from operator import attrgetter
from pathlib import Path

from actors.errors import UserError
from experiments.config.config import HOW_IT_RUNS, Config, among, written
from experiments.config.references import check_outside
from experiments.config.saved import read as read_config
from experiments.config.setting_groups import RoleSettings
from experiments.datasets.benchmark import choose
from experiments.datasets.item import Dataset, Subset
from experiments.planning.plan import Plan
from experiments.records import jsonl, run_files
from experiments.records.checkpoint import LEARNING, Checkpoint
from experiments.records.recorder import RunFolder
from experiments.running.inputs import open_dataset
from experiments.running.recorded_speaker import RecordedSpeaker

# Keys that may differ between a run and its replay, with everything below them: none changes an agent's requests.
# `model` and `reader` are among them because the answers exist already. Of `data.limit` and `methods`, less is allowed.
FREE = (
    *HOW_IT_RUNS,
    *("experiment", "output", "resume", "dry_run"),
    *("model", "reader", "judge", "replay", "agents.retries", "data.root", "data.limit", "methods"),
    *("roles.<role>.model", "roles.<role>.reader"),
)


def open_recorded(plan: Plan) -> tuple[RecordedSpeaker, Config]:
    """Opens the run that a plan replays, with its configuration. Raises UserError when it cannot be replayed."""
    if plan.replayed is None:
        raise UserError("model=replay needs replay.run=<folder of the run whose recorded turns are to answer>")
    folder = RunFolder.open(plan.replayed)
    check_outside(folder.path)
    recorded_config = read_config(folder.config)
    check_same(plan.config, recorded_config)
    searching = frozenset(evaluation.name for evaluation in plan.evaluations if evaluation.method.needs_library)
    return RecordedSpeaker(folder, searching), recorded_config


def check_same(config: Config, recorded_config: Config) -> None:
    """Raises UserError that names every setting in which a replay would ask something else than was recorded."""
    # A role that is not named has the default settings.
    roles = dict.fromkeys((*config.roles, *recorded_config.roles), RoleSettings())
    present = replace(config, roles=roles | config.roles).by_key
    past = replace(recorded_config, roles=roles | recorded_config.roles).by_key
    differing = []
    for key in sorted({*present, *past}):
        if present.get(key) != past.get(key) and not among(key, FREE):
            differing.append(f"{key}={written(past.get(key))} (not {written(present.get(key))})")
    if differing:
        raise UserError(
            f"the run to be replayed was recorded with {', '.join(differing)}: set the same, or ask a model"
        )

    unrecorded = [method for method in config.methods if method not in recorded_config.methods]
    if unrecorded:
        raise UserError(
            f"methods: {', '.join(unrecorded)} was not part of the run to be replayed: "
            f"choose from {', '.join(recorded_config.methods)}, or ask a model"
        )
    limit = config.data.limit
    recorded_limit = recorded_config.data.limit
    if recorded_limit is not None and (limit is None or limit > recorded_limit):
        raise UserError(
            f"data.limit={written(limit)}: only {recorded_limit} questions were recorded; ask for at most as many, "
            "or ask a model"
        )


def copy_learning(source: RunFolder, folder: RunFolder) -> None:
    """Copies learned graphs to a replay, before a recorder is opened, which then finds learning done.

    Scores of another metric would teach another wiring, and its discussions were never recorded. Raises UserError where
    a checkpoint is damaged, or there is no room.
    """
    for graph in source.all_learned():
        copy = folder.learned(graph.name)
        # Already copied (a resumed replay), or it had not begun to learn.
        if copy.topology.exists() or not graph.topology.exists():
            continue
        (copy.path / "traces").mkdir(parents=True, exist_ok=True)
        sizes = Checkpoint.read(graph.topology).sizes
        try:
            for name in (LEARNING, *(f"traces/{path.name}" for path in graph.training_traces())):
                # The rest would be cut off, and may be gigabytes of nothing.
                run_files.write_atomically(copy.path / name, jsonl.pieces(graph.path / name, sizes.get(name, 0)))
            # The checkpoint comes last, and whole: it vouches for the rest, so an interrupted copy starts again.
            run_files.write_atomically(copy.topology, run_files.read_whole(graph.topology))
        except OSError as error:
            raise UserError(f"cannot copy what {graph.path} learned to {copy.path}: {error}; make room") from error


def replayed_dataset(plan: Plan, recorded_config: Config, cache: Path) -> Dataset:
    """Opens the recorded data set with its recorded limit, which the sample draws by, and takes `data.limit` of it."""
    config = plan.config
    whole_config = replace(config, data=replace(config.data, limit=recorded_config.data.limit))
    dataset = open_dataset(replace(plan, config=whole_config), cache)
    if config.data.limit == recorded_config.data.limit:
        return dataset
    # Chosen as every data set chooses them.
    items = choose(dataset.evaluate(), attrgetter("question.id"), config.data.limit, config.seed)
    return Subset(dataset, list(items))
