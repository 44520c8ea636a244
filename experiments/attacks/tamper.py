"""Man in the middle: messages that are rewritten between sender and receiver."""

from __future__ import annotations

from dataclasses import replace

from actors.messages import Heard, Turn, derive_seed
from experiments.attacks.kind import AttackContext, AttackKind
from experiments.attacks.persuasion import rewritten


class Tamper(AttackKind):
    """Man in the middle: rewrites messages between sender and receiver.

    It sees messages, receivers and the target, neither evidence nor gold. It rewrites a share `attack.share` of the
    messages, those to the decision agent included, and only those from `attack.agents` where that names some. Content,
    answer and confidence change as one receiver reads them; the memory of the sender and of other receivers stays.
    """

    name = "tamper"
    acts_on = "messages"

    def change(self, turn: Turn, context: AttackContext) -> Turn:
        def arrived(heard: Heard) -> Heard:
            message = heard.message
            # An agent's own earlier message is its memory and is not sent.
            if message.agent == turn.agent or (context.attackers and message.agent not in context.attackers):
                return heard
            # From question, message, receiver and round alone, so that methods and samples meet the same tampering
            # where they send the same.
            key = derive_seed(context.seed, "tamper", turn.question.id, message.id, turn.agent, turn.round)
            rewrite = key < self.settings.share * 2.0**63  # seeds are uniform in 63 bits
            return replace(heard, message=rewritten(message, context.target)) if rewrite else heard

        return replace(turn, heard=tuple(map(arrived, turn.heard)))
