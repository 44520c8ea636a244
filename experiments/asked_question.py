"""`ask="..."`: one question to a team. Prints the discussion as it comes, the answer, and what it cost.

Nothing is recorded. The evidence is what the command line names: a corpus (`data=`), and passages and pictures of the
question itself.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path

from actors.errors import UserError
from actors.messages import UNTITLED_PASSAGE, UNTITLED_PICTURE, Question, Source
from experiments.config.loading import load_overrides
from experiments.config.references import check_machine
from experiments.config.yaml_tree import yaml_tree
from experiments.datasets.benchmark import check_image, image_source, text_source
from experiments.datasets.reading import read_bytes
from experiments.planning.plan import Plan
from experiments.runner import reason_reported
from experiments.running.asked_discussion import discuss
from experiments.unused import plan_run

OPTIONS = ("choices", "passages", "pictures")
DEFAULT = "full"  # the method that answers where none is named


def ask(text: str, words: Sequence[str]) -> int:
    """Asks a team a question. Returns 1 where it has no answer. Raises UserError as a run does."""
    options = {}
    settings = []
    for word in words:
        key, _, value = word.partition("=")
        if key.startswith("ask."):
            options[key.removeprefix("ask.")] = listed(value)
        else:
            settings.append(word)
    unknown = sorted(options.keys() - set(OPTIONS))
    if unknown:
        raise UserError(f"ask.{unknown[0]}: expected one of ask.{', ask.'.join(OPTIONS)}")
    if not text.strip():
        raise UserError('ask= has no question; write one in quotation marks, such as ask="Which is the largest?"')

    plan, has_data = planned(settings)
    question = Question("ask", text, tuple(options.get("choices", ())))
    with reason_reported():
        exit_code = discuss(plan, question, sources_of(options), has_data)
    return exit_code


def listed(value: str) -> list[str]:
    """Reads the value of an option: a list in brackets, or one text as it is written."""
    if not value.strip().startswith("["):
        return [value]
    items = yaml_tree(value)
    if not isinstance(items, list):
        raise UserError(f"{value}: expected a list, such as [a,b]")
    return list(map(str, items))


def planned(settings: Sequence[str]) -> tuple[Plan, bool]:
    """Plans a run of the one method that answers. Returns also whether the settings name a data set.

    Raises UserError for settings of a run that one question cannot have.
    """
    words = list(settings)
    keys = [word.partition("=")[0] for word in words]
    if "experiment" not in keys:
        words.append(f"experiment={DEFAULT}")
    if "resume" in keys or "dry_run" in keys:
        raise UserError("ask= starts no run: leave out resume= and dry_run=")
    config, overrides = load_overrides(words)
    assert overrides is not None, "only a resumed run has none"
    if "methods" in overrides.keys and len(config.methods) > 1:
        raise UserError("ask= takes one method: methods=[<name>]")

    # An experiment evaluates its own method after its rivals.
    config.methods = config.methods[-1:]
    has_data = "data.kind" in (*overrides.keys, *overrides.preset_keys)
    if "runtime" not in overrides.keys:
        config.runtime = "inline"
    # Of the data set, the corpus alone is searched.
    config.data.limit = 1
    check_machine(config)
    plan = plan_run(config, replace(overrides, preset_keys=()))
    method = plan.methods[0]
    if method.needs_graph or method.learner or method.needs_calibration or method.spends or method.graded:
        raise UserError(
            f"ask=: {method.name} learns from other questions first; name another method, such as methods=[{DEFAULT}], "
            "or a learned graph, methods=[graph:<run folder>/learned/<method>/topology.graphml]"
        )
    if config.is_sweep or config.replays or plan.attackers or plan.extraction:
        raise UserError("ask=: one question has no sweep, replay, attack or extraction by a model; leave them out")
    return plan, has_data


def sources_of(options: Mapping[str, Sequence[str]]) -> list[Source]:
    """Makes the sources of the question itself. A passage is a text, or the path of a `.txt` file.

    Raises UserError for a picture that cannot be decoded.
    """
    sources = []
    for passage in options.get("passages", ()):
        title = UNTITLED_PASSAGE
        if passage.endswith(".txt"):
            path = Path(passage).expanduser()
            title = path.stem
            passage = read_bytes(path).decode(errors="replace")
        sources.append(text_source(f"passage:{blake2b(passage.encode(), digest_size=8).hexdigest()}", title, passage))
    for name in options.get("pictures", ()):
        file = Path(name).expanduser().absolute()
        check_image(file)
        sources.append(image_source(f"picture:{file}", UNTITLED_PICTURE, "", file))
    return list({source.id: source for source in sources}.values())
