"""Configuration: what wins over what, and what a typo is told."""

import re
import shlex
from pathlib import Path

import pytest
import yaml

from actors.backends.model_settings import ModelSettings
from actors.errors import UserError
from experiments.config.config import Config
from experiments.config.loading import load, varied
from experiments.config.saved import REMOVED, read, save
from experiments.jobs import plan_of
from experiments.reference import FIRST, reference, usage


def test_the_command_line_wins_over_the_experiment_and_that_over_the_defaults() -> None:
    assert Config().data.kind == "sample"
    assert load(["experiment=scienceqa_prune"]).data.kind == "scienceqa"
    assert load(["experiment=scienceqa_prune", "data.kind=mmqa"]).data.kind == "mmqa"


def test_a_group_alone_names_its_kind() -> None:
    config = load(["experiment=mmqa_prune", "data=scienceqa", "data.root=/x", "model=vllm", "model.name=m"])
    assert (config.data.kind, config.data.root) == ("scienceqa", "/x")
    assert (config.model.kind, config.model.name) == ("vllm", "m")


def test_values_are_typed() -> None:
    config = load(["experiment=mmqa_prune", "topology.rounds=4", "pruning.rate=0.3", "learner.noise=squared"])
    assert (config.topology.rounds, config.pruning.rate, config.learner.noise) == (4, 0.3, "squared")
    assert load(["experiment=mmqa_prune", "data.limit=null", "methods=[full,m3prune]"]).methods == ["full", "m3prune"]


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("topology.round=4", "'topology.rounds'"),
        ("rounds=4", "'topology.rounds'"),
        ("sede=1", "'seed'"),
        ("topology.rounds=many", "topology.rounds=many:"),
        ("learner.noise=magic", "rms, squared"),
        ("retrieval.mode=fuzzy", "hybrid"),
        ("seed", "key=value"),
        ("data.limit=[", "data.limit=[:"),
        ("concurrency=0", "concurrency=0:"),
        ("reader.error_rate=1.5", "reader.error_rate=1.5:"),
        ("agents.temperature=nan", "agents.temperature=nan:"),
        ("methods[0]=x", "methods[0]=x"),
        ("methods=[[full]]", "methods[0]=['full']:"),
        ("methods=full", "methods=full: expected a list, such as [a,b]"),
        ("methods={a: b}", "'methods.a'"),
        ("topology=[]", "topology=[]:"),
        ("data=null", "data=null:"),
        ("sweep.points=[1]", "sweep.points[0]=1:"),
        ("planted.strengths=[[1,.nan]]", "planted.strengths[0][1]=.nan"),
        (f"methods={'[' * 2000}", "methods "),
        (f"methods={'[' * 2000}{']' * 2000}", "methods "),
        (f"sweep.axes.{'x.' * 3000}y=[1]", "sweep.axes.x.x."),
        (f"model.extra.x={'[' * 60}{']' * 60}", "model.extra.x"),
        ("data.limit=", "data.limit="),
        ("model.api_key=sk-1", "'model.key_env'"),
        ("model.temperature=1", "'agents.temperature'"),
        ("experiment", "experiment=<value>"),
        ("--seed", "seed=<value>"),
        ("completions.disk_gb=1e308", "at most 1e+06"),
        ("training.samples=1000000000", "10,000"),
        ("reader.obedience=inf", "reader.obedience=inf:"),
        ("wandb.project=\udc80", "wandb.project: "),
        ('output="a\\u0000b"', "output: "),
        ("wandb.project=a/b", "wandb.project: "),
        (f"pruning.intra_rate={'x' * 9999}", "xxx..."),
        ("seed=9223372036854775808", "9,223,372,036,854,775,807"),
    ],
)
def test_a_wrong_word_gets_one_line_that_names_the_right_one(word: str, says: str) -> None:
    with pytest.raises(UserError) as raised:
        load(["experiment=mmqa_prune", word])
    assert says in str(raised.value)
    assert len(str(raised.value)) < 1000
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "word", ["model=raeder", "judge.kind=opnai", "roles.single.model=opnai", "model=nowhere.at_all:M"]
)
def test_a_kind_that_does_not_exist_is_refused_by_the_plan(word: str) -> None:
    with pytest.raises(UserError, match=rf"^{word.partition('=')[0].removesuffix('.kind')}"):
        plan_of(load(["experiment=mmqa_prune", word]))


@pytest.mark.parametrize(
    ("words", "key"),
    [
        (["experiment=recall", "experiment=mmqa_prune"], "experiment"),
        (["experiment=mmqa_prune", "seed=1", "seed=2"], "seed"),
        (["experiment=mmqa_prune", "model=openai", "model.name=a", "model.kind=reader"], "model.kind"),
        (["experiment=mmqa_prune", "model.extra={a: 1}", "model.extra.a=2"], "model.extra.a"),
    ],
)
def test_one_key_with_two_values_is_refused(words: list[str], key: str) -> None:
    with pytest.raises(UserError, match=rf"^{re.escape(key)} is there twice"):
        load(words)
    assert load([*words[:1], "seed=1", "seed=1"]).seed == 1


def test_a_preset_may_take_values_of_other_keys_and_leave_some_open(tmp_path: Path) -> None:
    preset = tmp_path / "mine.yaml"
    preset.write_text(
        "data: {limit: 12}\ntopology: {rounds: '${pruning.cuts}'}\nwandb: {group: 'seed ${seed}, ${data.limit}'}\n"
        "pruning:\n  cuts: ???\n"
    )
    with pytest.raises(UserError, match=r"^pruning\.cuts has no value.*pruning\.cuts=<value>"):
        load([f"experiment={preset}"])
    config = load([f"experiment={preset}", "pruning.cuts=5", "seed=7"])
    assert (config.topology.rounds, config.wandb.group) == (5, "seed 7, 12")
    save(config, tmp_path / "config.yaml")
    assert "${" not in (tmp_path / "config.yaml").read_text()
    assert load([f"experiment={preset}", "pruning.cuts=5", "data.limit=${topology.rounds}"]).data.limit == 5


@pytest.mark.parametrize(
    ("word", "key"),
    [
        ("topology.rounds=${seeds}", "topology.rounds"),
        ("seed=${seed}", "seed"),
        ("topology.rounds=${wandb.project}", "topology.rounds"),
        ("seed=${oc.env:HOME}", "seed"),
        ("wandb.group=${oc.decode:${seed}}", "wandb.group"),
        ("sweep.axes.topology.rounds=['${seed}']", "sweep.axes.topology.rounds"),
    ],
)
def test_a_reference_that_cannot_be_filled_in_is_one_line(word: str, key: str) -> None:
    with pytest.raises(UserError, match=re.escape(key)) as raised:
        load(["experiment=mmqa_prune", word])
    assert "\n" not in str(raised.value)


def test_in_a_saved_configuration_nothing_is_filled_in(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    save(load(["experiment=mmqa_prune", "wandb.group=here"]), path)
    text = path.read_text()
    for value in ("${seed}", "${oc.env:HOME}", "???"):
        path.write_text(text.replace("group: here", f"group: '{value}'"))
        with pytest.raises(UserError, match=r"wandb\.group"):
            read(path)


def test_an_unknown_experiment_is_told_the_nearest_and_all() -> None:
    with pytest.raises(UserError, match=r"Did you mean 'mmqa_prune'\? Known: .*scienceqa_prune"):
        load(["experiment=mmqa_prun"])


def test_a_saved_configuration_reads_back_equal(tmp_path: Path) -> None:
    words = ["experiment=mmqa_prune", "seed=3", "learner.noise=squared", "data.limit=null", "model.engine.a=1"]
    config = load(words)
    save(config, tmp_path / "config.yaml")
    resumed = load([f"resume={tmp_path}", "model.engine.a=1"])
    assert resumed.resume == str(tmp_path)
    resumed.resume, resumed.output, resumed.cache = None, config.output, config.cache
    assert resumed == config


def test_a_resumed_run_may_change_how_it_runs_but_not_what(tmp_path: Path) -> None:
    save(load(["experiment=mmqa_prune"]), tmp_path / "config.yaml")
    assert load([f"resume={tmp_path}", "concurrency=3", "ray.address=auto"]).concurrency == 3
    # From wherever the run is resumed again, its command names the same cache.
    assert load([f"resume={tmp_path}", "cache=other"]).cache == str(Path("other").absolute())
    with pytest.raises(UserError, match=r"^seed "):
        load([f"resume={tmp_path}", "seed=3"])


def test_a_folder_that_is_no_run_cannot_be_resumed(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is not a run folder"):
        load([f"resume={tmp_path}"])
    (tmp_path / "config.yaml").write_text("just words")
    with pytest.raises(UserError, match="saved configuration"):
        load([f"resume={tmp_path}"])


def role_model(config: Config, role: str) -> ModelSettings:
    own = config.model_of_role(role)
    assert own is not None
    return own[0]


OPENAI = ["experiment=mmqa_prune", "model=openai", "model.name=A", "model.base_url=http://a/v1", "model.key_env=KEY"]


def test_a_role_s_model_is_the_run_s_but_for_what_it_says_itself() -> None:
    config = load([*OPENAI, "roles.visual_critic.model.name=B", "roles.visual_critic.model.abilities.pictures=true"])
    own = role_model(config, "visual_critic")
    assert (own.kind, own.name, own.base_url, own.key_env) == ("openai", "B", "http://a/v1", "KEY")
    assert own.abilities.pictures is True
    assert config.model_of_role("text_critic") is None
    assert config.model.name == "A"


def test_a_role_s_model_of_another_kind_takes_nothing_over_and_another_address_no_key() -> None:
    config = load([*OPENAI, "roles.single.model=reader", "roles.decision.model.base_url=http://b/v1"])
    reader, other = role_model(config, "single"), role_model(config, "decision")
    assert (reader.kind, reader.name, reader.base_url) == ("reader", "", "")
    assert (other.name, other.base_url, other.key_env) == ("A", "http://b/v1", "")


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("roles.single.model.nmae=x", "'roles.single.model.name'"),
        ("roles.single.modle.name=x", "'roles.single.model'"),
        ("roles.single.model.capacity=0", "roles.single.model.capacity=0"),
        ("roles.single.model.base_url=http://me:secret@b/v1", "roles.single.model.base_url "),
        ("roles.single.reader.error_rate=2", "roles.single.reader.error_rate=2:"),
        ("roles.single.model=[1]", "roles.single.model=['1']:"),
    ],
)
def test_a_role_s_model_that_cannot_be_is_refused_in_one_line(word: str, says: str) -> None:
    with pytest.raises(UserError) as raised:
        load(["experiment=mmqa_prune", word])
    assert says in str(raised.value)
    assert "\n" not in str(raised.value)
    assert "secret" not in str(raised.value)


def test_of_a_role_s_model_only_what_changes_no_answer_may_differ_in_a_resumed_run(tmp_path: Path) -> None:
    save(load([*OPENAI, "roles.single.model.name=llama:latest"]), tmp_path / "config.yaml")
    again = [f"resume={tmp_path}", *OPENAI[1:], "roles.single.model.name=llama:latest"]
    config = load([*again, "roles.single.model.timeout_s=9"])
    assert (role_model(config, "single").name, role_model(config, "single").timeout_s) == ("llama:latest", 9)
    with pytest.raises(UserError, match=r"^roles\.single\.model\.name "):
        load([*again[:-1], "roles.single.model.name=other"])


def preset(folder: Path, name: str = "mine.yaml") -> Path:
    path = folder / name
    path.write_text("# Of the user's own\nseed: 4\ntopology:\n  rounds: 3\n")
    return path


def test_a_preset_may_be_a_file_of_one_s_own(tmp_path: Path) -> None:
    config = load([f"experiment={preset(tmp_path)}", "seed=5"])
    assert (config.experiment, config.seed, config.topology.rounds) == ("mine", 5, 3)


def test_a_preset_that_cannot_be_is_refused_in_one_line(tmp_path: Path) -> None:
    words = [tmp_path / "none.yaml"]
    words += [preset(tmp_path, f"{name}.yaml") for name in ("a b", "list", "latin", "twice", "deep")]
    words[2].write_text("- 1\n- 2\n")
    words[3].write_bytes("output: Möwe\n".encode("latin-1"))
    words[4].write_text("seed: 1\nseed: 2\n")
    words[5].write_text(f"methods: {'[' * 5000}\n")
    told = ("no such file", "letters, digits", "not a preset", "cannot be read", "duplicate key", "cannot be read")
    for path, says in zip(words, told, strict=True):
        with pytest.raises(UserError, match=says):
            load([f"experiment={path}"])


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module that leaves a mark when it is imported."""
    mark = tmp_path / "imported"
    (tmp_path / "marking.py").write_text(f"open({str(mark)!r}, 'w').close()\n\n\ndef Thing(*args):\n    return None\n")
    monkeypatch.syspath_prepend(tmp_path)
    return mark


@pytest.mark.parametrize(
    "word",
    """methods=[single,'marking:Thing'] data=marking:Thing attack.kind=marking:Thing model=marking:Thing
judge=marking:Thing retrieval.encoder=marking:Thing retrieval.picture_encoder=marking:Thing
roles.text_critic.agent=marking:Thing roles.text_critic.model.kind=marking:Thing
sweep.axes.model.kind=['marking:Thing']""".split(),
)
def test_a_run_folder_s_code_is_imported_only_where_the_command_line_names_it_again(
    word: str, package: Path, tmp_path: Path
) -> None:
    key, _, value = word.partition("=")
    config = varied(load(["experiment=mmqa_prune"]), {key: yaml.safe_load(value)})
    folder = tmp_path / "run"
    folder.mkdir()
    save(config, folder / "config.yaml")
    with pytest.raises(UserError, match=re.escape(key)) as refused:
        load([f"resume={folder}"])
    assert not package.exists()
    assert load([f"resume={folder}", word]).resume == str(folder)
    # The words that the error gives are all that is needed.
    said = shlex.split(str(refused.value).partition(" add ")[2])
    assert load([f"resume={folder}", *said]).resume == str(folder)
    with pytest.raises(UserError, match=r"^attack\.kind "):
        load([f"resume={folder}", *([] if key == "attack.kind" else [word]), "attack.kind=response"])


def test_every_key_is_documented_where_it_is_defined() -> None:
    shown = reference("keys")
    assert "topology.rounds=2" in shown
    assert "roles.<role>.model={}" in shown
    assert "planted.seeds=5" in reference("planted")
    with pytest.raises(UserError, match="'methods'"):
        reference("method")


OLD = Path(__file__).parent / "config_0_2_0.yaml"


def test_a_configuration_of_the_version_before_is_read_with_the_defaults_of_then() -> None:
    """A key that is new needs `since=`, and one that is gone an entry in `REMOVED`."""
    config = read(OLD)
    assert (config.experiment, config.learner.noise, config.roles["text_critic"].model) == (
        "mmqa_prune",
        "squared",
        {"name": "1.10"},
    )


def test_removed_keys_are_dropped_at_their_default_and_refused_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(REMOVED, "learner.magic", ("9.0.0", 1.5))
    path = tmp_path / "config.yaml"
    path.write_text(OLD.read_text().replace("learner:", "learner:\n  magic: 1.5"))
    assert read(path) == read(OLD)
    path.write_text(OLD.read_text().replace("learner:", "learner:\n  magic: 2"))
    with pytest.raises(UserError, match=r"learner.magic \(until 9.0.0\).* agora-mm 0.2.0"):
        read(path)
    save(load(["experiment=mmqa_prune"]), path)
    path.write_text(re.sub("version: .*", r"version: 9.9.9\nrates: {}", path.read_text()))
    with pytest.raises(UserError, match=r"'rates'.*\b9\.9\.9\b"):
        read(path)


def test_a_withdrawn_search_is_read_as_the_default_one(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    save(load(["experiment=mmqa_prune"]), path)
    saved = path.read_text()
    path.write_text(saved.replace("  search: auto\n", "  search: shapley\n  orders: 16\n", 1))
    assert "shapley" in path.read_text()
    assert read(path).explain.search == "auto"


def test_the_first_page_of_help_fits_a_screen_and_names_experiments_that_need_nothing() -> None:
    lines = usage().splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    for name in FIRST:
        assert any(line.split()[:1] == [name] for line in lines)
        assert not load([f"experiment={name}"]).data.root
