"""Majority of independent answers: no agent hears another, and there is no decision agent."""

from collections.abc import Sequence
from math import fsum

from actors.messages import Message, Question, Status, Trace
from topologies.defences.online import answer_of
from topologies.method import Method
from topologies.topology import Ask, Discussion, ask_together

Vote = tuple[str | None, float]
"""An answer in its form for comparisons (None: no vote), and the voter's confidence in [0, 1]."""


class Majority:
    """Self-consistency (Wang et al. 2022) over agents instead of samples: each answers once and alone.

    The most frequent answer wins. Each agent takes one turn, no agent decides. It sees answers and confidences. Its
    traces are certified: one agent changes one vote.
    """

    def __init__(self, method: str, agents: Sequence[str]) -> None:
        self.method = method
        self.agents = tuple(agents)

    async def answer(self, question: Question, ask: Ask, seed: int, sample: int = 0) -> Trace:
        discussion = Discussion(self.method, question, seed, sample)
        turns = await ask_together(ask, (discussion.turn(agent, 1) for agent in self.agents))
        # One usable answer makes a discussion; where all failed, it has the first failure's status.
        usable = any(turn.status is Status.OK for turn in turns)
        status = Status.OK if usable else turns[0].status
        return discussion.trace(
            self.agents,
            turns,
            answer=vote(question, turns),
            status=status,
            decision=self.agents,
            certified=certified(votes_of(question, turns)),
        )


def vote(question: Question, messages: Sequence[Message]) -> str | None:
    """Most frequent answer to a question, in its first speaker's wording; None without any answer.

    Ties go as `plurality` breaks them; a missing confidence counts 0.
    """
    winner = plurality(votes_of(question, messages))
    if winner is None:
        return None
    return next(message.answer for message in messages if answer_of(question, message) == winner)


def votes_of(question: Question, messages: Sequence[Message]) -> list[Vote]:
    """Votes that messages stand for; a failed turn has none."""
    return [(answer_of(question, message), message.confidence or 0.0) for message in messages]


def plurality(votes: Sequence[Vote]) -> str | None:
    """Most frequent answer, None without any.

    Ties go to the larger sum of confidences, then to the earliest voter.
    """
    confidences: dict[str, list[float]] = {}
    for answer, confidence in votes:
        if answer is not None:
            confidences.setdefault(answer, []).append(confidence)
    # `max` keeps the first of equals, and answers are in the order of their first voters. `fsum` rounds once, so the
    # sum does not depend on the order of voters.
    return max(confidences, key=lambda answer: (len(confidences[answer]), fsum(confidences[answer])), default=None)


def certified(votes: Sequence[Vote]) -> int:
    """Largest f such that no f voters can change the winner of `plurality` by their votes.

    It is exact: the worst f voters are the most confident ones for the winner (of equal ones the earliest), who all
    vote for one other answer with confidence 1. It holds where one voter changes one vote, as of voters that do not
    hear each other (Levine and Feizi 2021; of isolated passages RobustRAG, Xiang et al. 2024).
    """
    winner = plurality(votes)
    if winner is None:
        return 0

    voters = [voter for voter, (answer, _) in enumerate(votes) if answer == winner]
    voters.sort(key=lambda voter: -votes[voter][1])
    # The winner with a letter more is an answer that has no vote, or some other one that is tried anyway.
    rival_answers = {answer for answer, _ in votes if answer not in (winner, None)} | {f"{winner}+"}
    changed = list(votes)

    # All voters for the winner together always change it.
    for f in range(len(voters) - 1):
        for rival in rival_answers:
            for attacker in voters[: f + 1]:
                changed[attacker] = (rival, 1.0)
            if plurality(changed) != winner:
                return f
    return len(voters) - 1


METHODS = (
    Method(
        "majority",
        "all answer once, alone; the most frequent answer wins",
        lambda context: Majority(context.method, context.agents),
    ),
)
