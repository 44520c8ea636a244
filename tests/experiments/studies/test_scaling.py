"""The law of learning graphs: each assumption and bound by exact sums or simulation, and the job that measures it."""

import json
from collections import Counter
from dataclasses import replace
from itertools import combinations_with_replacement, product
from math import factorial, log, prod
from pathlib import Path

import numpy as np
import pytest
import torch

from actors.errors import UserError
from experiments.config.config import Config
from experiments.config.study_settings import Influence, ScalingSettings
from experiments.jobs import plan_of
from experiments.studies.planted import opinions
from experiments.studies.planted.opinion_model import OpinionModel, OpinionQuestions
from experiments.studies.planted.opinions import OpinionTeam
from experiments.studies.planted.scenarios import Scenario
from experiments.studies.planted.truth import Truth, random_wirings
from experiments.studies.scaling.law import at_least, information_on, needed
from experiments.studies.scaling.scaled_team import Reached, ScaledTeam
from experiments.studies.scaling.scaling_summary import scaling_table, summarise
from run import main
from topologies.wiring import Edges

WORDS = (
    "experiment=scaling",
    "scaling.seeds=2",
    "scaling.agents=[3,4]",
    "scaling.learners=[effects,m3prune]",
    "scaling.discussions=60",
    "scaling.truth=4000",
    "wandb.mode=disabled",
)


def test_after_as_many_discussions_as_the_law_names_a_liar_ranks_last_with_the_auc_asked_for() -> None:
    # Ten edges of a liar with different effects, and ten of an honest agent without any; noise of variance 1/4.
    generator = np.random.default_rng(0)
    effects = np.linspace(-0.12, -0.02, 10)
    information = float((0.25 * effects**2 / 0.25).sum())
    discussions = round(needed(information, 0.9) or 0)
    right = 0
    for _ in range(1_000):
        sums = []
        for planted in (effects, np.zeros(10)):
            coins = generator.integers(0, 2, (discussions, 10)) - 0.5
            grades = coins * planted + generator.normal(0, 0.5, (discussions, 10))
            # The weights that leave the least variance: pi (1 - pi) d, here for both senders.
            sums.append(float((coins * grades * effects).sum()))
        right += sums[0] > sums[1]
    assert right / 1_000 == pytest.approx(0.9, abs=0.03)


def truth_of(on_receiver: np.ndarray, discussions: int) -> Truth:
    tosses = np.full(on_receiver.shape, 0.25 * discussions)
    return Truth(
        on_receiver=Edges(on_receiver, on_receiver),
        on_answer=Edges(on_receiver, on_receiver),
        readers=np.zeros(len(on_receiver)),
        tosses=Edges(tosses, tosses),
        discussions=discussions,
        receiver_variance=0.25,
        answer_variance=0.25,
    )


def test_information_is_the_sum_over_a_sender_s_edges_of_both_kinds() -> None:
    effects = np.zeros((4, 4))
    effects[0] = -0.2
    truth = truth_of(effects, discussions=10**9)
    information = information_on(truth, truth.on_receiver, truth.receiver_variance, sender=0, rivals=[1, 2, 3])
    assert information == pytest.approx(2 * 3 * 0.25 * 0.2**2 / 0.25, rel=1e-6)

    one_round = replace(truth, tosses=Edges(truth.tosses.spatial, np.zeros((4, 4))))
    in_one_round = information_on(one_round, truth.on_receiver, truth.receiver_variance, sender=0, rivals=[1, 2, 3])
    assert in_one_round == pytest.approx(information / 2)


def test_estimates_of_effects_that_are_not_there_give_no_information_on_average() -> None:
    generator = np.random.default_rng(1)
    discussions = 1_000
    error = np.sqrt(0.25 / (0.25 * discussions))
    informations = []
    for _ in range(2_000):
        truth = truth_of(generator.normal(0, error, (4, 4)), discussions)
        informations.append(information_on(truth, truth.on_receiver, truth.receiver_variance, 0, [1, 2, 3]))
    standard_error = np.std(informations) / np.sqrt(len(informations))
    assert abs(np.mean(informations)) < 3 * standard_error
    # By the squares alone it would be this much.
    assert 2 * 3 * 0.25 * error**2 * (1 + 1 / 2) / 0.25 > 10 * standard_error
    assert needed(-0.1, 0.95) is None


def chances(effect: float, edges: int, base: float) -> dict[tuple[int, ...], float]:
    """Chances of a discussion's outcome: the coins of a sender's edges, and the score of the final answer."""
    outcomes = {}
    for coins in product((0, 1), repeat=edges):
        right = base + sum((coin - 0.5) * effect for coin in coins)
        outcomes[(*coins, 1)] = right / 2**edges
        outcomes[(*coins, 0)] = (1 - right) / 2**edges
    return outcomes


@pytest.mark.parametrize(("effect", "edges", "base"), [(0.1, 2, 0.5), (0.2, 2, 0.4), (0.15, 3, 0.6)])
def test_no_test_of_final_scores_tells_two_worlds_apart_with_fewer_discussions_than_the_bound(
    effect: float, edges: int, base: float
) -> None:
    harms, helps = chances(-effect, edges, base), chances(effect, edges, base)
    divergence = sum(chance * log(chance / helps[outcome]) for outcome, chance in harms.items())
    extreme = base - edges * effect / 2, base + edges * effect / 2
    variance = min(right * (1 - right) for right in extreme)
    # Equation (3).
    assert divergence <= 4 * edges * 0.25 * effect**2 / variance

    # The likelihood ratio is the best test: its error after n discussions, over all counts of outcomes.
    outcomes = list(harms)
    for discussions in (1, 2, 4):
        errors = np.zeros(2)
        for drawn in combinations_with_replacement(outcomes, discussions):
            counts = Counter(drawn)
            orders = factorial(discussions) / prod(map(factorial, counts.values()))
            in_harms = orders * prod(harms[outcome] for outcome in drawn)
            in_helps = orders * prod(helps[outcome] for outcome in drawn)
            if in_harms > in_helps:
                errors[1] += in_helps
            elif in_harms < in_helps:
                errors[0] += in_harms
            else:
                errors += (in_harms / 2, in_helps / 2)
        # Equation (4): whoever errs at most `error` in both worlds has had at least so many discussions.
        error = float(errors.max())
        assert discussions >= at_least(divergence, error)


class TwoMessages(Scenario):
    """Agents ignore messages. One agent's own answer is right, and its message to the decision agent is `said`."""

    said = "right"

    def answers(
        self, questions: OpinionQuestions, training: bool, generator: torch.Generator
    ) -> tuple[torch.Tensor, torch.Tensor]:
        right = torch.zeros_like(questions.target)
        return right, right if self.said == "right" else questions.target


def test_two_worlds_with_the_same_own_answers_differ_in_what_the_team_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    model = OpinionModel(text=5, visual=0)
    scores, utilities = {}, {}
    for said in ("right", "wrong"):
        scenario = TwoMessages(1, conformity=0.0, weight=3.0)
        monkeypatch.setattr(TwoMessages, "said", said)
        monkeypatch.setitem(opinions.SCENARIOS, model.influence, scenario)
        team = OpinionTeam(model, seed=3)
        questions = team.questions(400, "learning")
        scores[said], utilities[said] = team.discuss(questions, torch.arange(400), random_wirings(team, 400, 0))
    # No learner of own answers can tell which world it is in, after any number of discussions.
    assert torch.equal(scores["right"], scores["wrong"])
    assert utilities["right"].mean() > utilities["wrong"].mean() + 0.02


def test_exponents_are_fitted_where_all_teams_got_there() -> None:
    settings = ScalingSettings(learners=["effects", "m3prune"], agents=[4, 8, 16], seeds=2, discussions=900)
    outcomes = []
    for size, number in product(settings.agents, range(2)):
        team = ScaledTeam(size, number)
        outcomes.append(Reached(team, "law, own answers", 2 * size))
        outcomes.append(Reached(team, "law, final answer", None if size == 16 else size**3))
        outcomes.append(Reached(team, "effects", (10 + number) * size))
        outcomes.append(Reached(team, "m3prune", 800 if size == 4 and number else None))
    own, final, effects, m3prune = summarise(outcomes, settings, seed=0)
    assert (own.exponent, final.exponent) == (pytest.approx(1), pytest.approx(3))
    assert effects.exponent == pytest.approx(1)
    assert effects.of_own_law == pytest.approx(np.median([2 / 10, 2 / 11]))
    assert m3prune.exponent is None
    assert m3prune.reached == {4: 1, 8: 0, 16: 0}
    rows = {row[0]: row[1:4] for row in scaling_table([own, final, effects, m3prune], settings).rows}
    assert rows["law, final answer"] == ("64", "512", "unknown")
    assert rows["effects"] == ("42", "84", "168")
    assert rows["m3prune"] == ("> 900", "> 900", "> 900")


@pytest.mark.slow
def test_an_interrupted_run_goes_on_to_the_same_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*WORDS, f"output={tmp_path}"]) == 0
    printed = capsys.readouterr().out
    assert "law, own answers" in printed
    (folder,) = tmp_path.glob("*-scaling")
    whole = (folder / "scaling.json").read_bytes()
    summaries = {summary["learner"]: summary for summary in json.loads(whole)["summaries"]}
    assert set(summaries) == {"law, own answers", "law, final answer", "effects", "m3prune"}
    assert (folder / "figures" / "scaling.png").stat().st_size
    lines = (folder / "worlds.jsonl").read_text().splitlines(keepends=True)
    (folder / "worlds.jsonl").write_text("".join(sorted(lines)[:2]))
    (folder / "worlds.jsonl.digest").unlink(missing_ok=True)
    (folder / "scaling.json").unlink()
    assert main([f"resume={folder}"]) == 0
    assert (folder / "scaling.json").read_bytes() == whole


def test_worlds_without_harm_and_teams_of_liars_are_refused() -> None:
    with pytest.raises(UserError, match=r"scaling\.influence=saint"):
        plan_of(Config(job="scaling", scaling=ScalingSettings(influence=Influence.SAINT)))
    with pytest.raises(ValueError, match="two honest agents"):
        ScalingSettings(agents=[3], liars=2)
