"""Wrappers of speakers: what each phase has used."""

from actors.messages import Message, Question, Turn, TurnResult, Usage
from experiments.running.speakers import Metered


class Charging:
    """Answers every turn at the price of its seed."""

    async def take(self, turn: Turn) -> TurnResult:
        return TurnResult(Message(turn.id, turn.agent, turn.round), Usage(calls=1, prompt_tokens=turn.seed))

    def close(self, discussion: str) -> None:
        raise AssertionError


def turn(agent: str, seed: int) -> Turn:
    return Turn("d", Question("q", "?"), agent, 1, seed)


async def test_phases_side_by_side_count_what_is_theirs_and_the_run_counts_all() -> None:
    run = Metered(Charging())
    phases = Metered(run), Metered(run)
    for phase, agent, seed in ((phases[0], "ann", 5), (phases[1], "ann", 7), (phases[0], "bob", 6)):
        assert (await phase.take(turn(agent, seed))).message.agent == agent
    assert phases[0].usage == {"ann": Usage(calls=1, prompt_tokens=5), "bob": Usage(calls=1, prompt_tokens=6)}
    assert phases[1].usage == {"ann": Usage(calls=1, prompt_tokens=7)}
    assert run.usage["ann"] == Usage(calls=2, prompt_tokens=12)
