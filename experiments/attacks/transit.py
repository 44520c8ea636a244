"""Faults in transit: messages lost, late, doubled, sent astray, forged or rewritten on their way."""

from collections.abc import Iterable
from typing import ClassVar

from actors.messages import Heard, Message, Turn
from actors.wire import replace
from experiments.attacks.kind import AttackContext, AttackKind
from experiments.attacks.persuasion import rewritten

COPY = "~"  # ends the id of a message that arrives besides the original


class Drop(AttackKind):
    """Messages that are lost, and the base of all attacks in transit.

    The attacker sees messages and receivers, neither evidence nor gold, and compromises no agent. It touches a share
    `attack.share` of the messages, those to the decision agent included, and only those from `attack.agents` where that
    names some. The memory of the sender and of other receivers stays. Follows the routing faults of MAS-FIRE (arXiv
    2602.19843), which are put at points chosen by hand; here every message is as likely to be hit.
    """

    name = "drop"
    reads: ClassVar[tuple[str, ...]] = ("attack.agents", "attack.when", "attack.clean", "attack.share")
    acts_on = "messages"
    aimed = False
    in_games = True

    def change(self, turn: Turn, context: AttackContext) -> Turn:
        sent = {hearing.message.id for hearing in turn.heard}
        arriving = {late.message.id: late for late in self.late(turn, context) if late.message.id not in sent}
        for hearing in turn.heard:
            received = self.arrived(hearing, turn, context) if self.hits(hearing.message, turn, context) else (hearing,)
            arriving |= {arrived.message.id: arrived for arrived in received}
        return replace(turn, heard=tuple(arriving.values()))

    def hits(self, message: Message, turn: Turn, context: AttackContext) -> bool:
        """True for a message to the agent of a turn that the attack touches."""
        # An agent's own earlier message is its memory and is not sent.
        edge = f"{message.id} -> {turn.round}/{turn.agent}"
        if message.agent == turn.agent or not context.spared.isdisjoint((message.id, edge)):
            return False
        if context.attackers and message.agent not in context.attackers:
            return False
        # From question, message, receiver and round alone, so that methods and samples meet the same faults where they
        # send the same.
        return context.falls(self.settings.share, self.name, turn.question.id, message.id, turn.agent, turn.round)

    def arrived(self, hearing: Heard, turn: Turn, context: AttackContext) -> tuple[Heard, ...]:
        """Returns what a receiver gets in place of a message that is hit."""
        return ()

    def late(self, turn: Turn, context: AttackContext) -> Iterable[Heard]:
        """Returns messages that were delayed before and arrive now."""
        return ()


class Delay(Drop):
    """Messages that arrive a round late, as `drop` otherwise. One to an agent that does not speak again is lost."""

    name = "delay"
    in_games = False

    def arrived(self, hearing: Heard, turn: Turn, context: AttackContext) -> tuple[Heard, ...]:
        context.undelivered.setdefault((turn.agent, turn.round), {})[hearing.message.id] = hearing
        return ()

    def late(self, turn: Turn, context: AttackContext) -> Iterable[Heard]:
        return context.undelivered.get((turn.agent, turn.round - 1), {}).values()


class Misroute(Delay):
    """Messages that miss their receiver and reach all who hear it next. Otherwise it is as `drop`."""

    name = "misroute"
    in_games = True

    def late(self, turn: Turn, context: AttackContext) -> Iterable[Heard]:
        # Their receiver has spoken before, so the same ones have gone astray whatever ends first.
        for hearing in turn.heard:
            for stray in context.undelivered.get((hearing.message.agent, hearing.message.round), {}).values():
                if stray.message.agent != turn.agent:
                    yield stray


class Duplicate(Drop):
    """Messages that arrive twice, as `drop` otherwise: their answers count double."""

    name = "duplicate"
    in_games = False

    def arrived(self, hearing: Heard, turn: Turn, context: AttackContext) -> tuple[Heard, ...]:
        return hearing, replace(hearing, message=replace(hearing.message, id=f"{hearing.message.id}{COPY}"))


class Tamper(Drop):
    """Man in the middle: rewrites messages, and is as `drop` otherwise.

    The attacker receives the target, not the gold answer. The target takes the place of the answer, in the reasoning
    too. MAS-FIRE has a model rewrite messages.
    """

    name = "tamper"
    reads = (*Drop.reads, "attack.target")
    aimed = True

    def arrived(self, hearing: Heard, turn: Turn, context: AttackContext) -> tuple[Heard, ...]:
        return (replace(hearing, message=rewritten(hearing.message, context.target)),)


class Impersonate(Tamper):
    """Forged messages: as `tamper`, with the rewritten message besides the original one."""

    name = "impersonate"

    def arrived(self, hearing: Heard, turn: Turn, context: AttackContext) -> tuple[Heard, ...]:
        forged = replace(rewritten(hearing.message, context.target), id=f"{hearing.message.id}{COPY}")
        return hearing, replace(hearing, message=forged)
