"""Explains one answer by interventions on its turns, agents and edges, within a budget."""

from collections import Counter
from collections.abc import Collection, Sequence
from itertools import combinations

from actors.messages import Status
from experiments.attacks.catalogue import attack_kind
from experiments.attribution.intervention import Replay
from experiments.attribution.suspects import suspicion
from experiments.config.setting_groups import ExplainSettings
from experiments.datasets.item import Dataset
from experiments.records.attribution import JOINED, By, Effect, Explained, Replaced
from topologies.answers import ballot
from topologies.topology import DECISION_AGENT

MARGIN = 1.1  # of predicted tokens: turns that are asked again may be longer than the recorded ones


class BudgetSpent(Exception):
    """The next intervention may take more tokens than are left."""


class Explanation:
    """The interventions on one recorded discussion; `dataset` scores answers.

    acts_on: what the attack changes, by `AttackKind.acts_on`; of `messages`, a counterpart is the message as sent.
    """

    def __init__(self, replay: Replay, dataset: Dataset, by: By) -> None:
        self._replay = replay
        self._dataset = dataset
        self._by = by
        self._trace = replay.discussion.trace
        self._acts_on = attack_kind(self._trace.attack).acts_on if self._trace.attack else "turns"
        self._budget = 0.0
        self._effects: list[Effect] = []
        # In the order in which they are tried.
        self._agents: tuple[str, ...] = ()
        # Whether agents who were replaced together changed the answer, and the smallest set of them that did.
        self._tried: dict[frozenset[str], bool] = {}
        self._smallest: tuple[str, ...] = ()

        self._turns = []
        for turn in self._trace.turns:
            # The decision agent sends no message that could be silent or lost.
            is_sender = turn.agent != DECISION_AGENT or by == "sample"
            if by == "counterpart" and self._trace.attacked:
                # The honest counterpart of a turn that no attack has changed is the turn itself.
                is_sender = turn.agent in self._trace.attacked
            if is_sender:
                self._turns.append(turn)

    async def explain(self, settings: ExplainSettings, seed: int, budget: float) -> Explained:
        """Carries out the interventions of `settings.search`. Names the smallest set of agents that they show.

        budget: tokens that they may take, with those of earlier calls, whose turns are not asked again.
        """
        trace = self._trace
        suspicions = suspicion(trace, self._replay.discussion.question, seed)
        # The most suspected agent first; agents under equal suspicion by name.
        agents = sorted({turn.agent for turn in self._turns}, key=lambda agent: (-suspicions.get(agent, 0.0), agent))
        self._agents = tuple(agents)
        self._budget = budget
        self._effects.clear()
        self._tried.clear()
        self._smallest = ()

        finished = True
        try:
            if settings.search == "single":
                await self._try_all()
            else:
                await self._try_groups()
        except BudgetSpent:
            finished = False

        decisive = self._decisive()
        group: tuple[str, ...] = ()
        if not decisive:
            # All agents of the attack are a group only where no smaller one was left to try.
            if finished or len(self._smallest) < len(self._agents):
                group = self._smallest
            self._effects += self._decision_effect()
        messages_asked = self._replay.asked
        return Explained(
            method=trace.method,
            question=trace.question,
            answer=trace.answer,
            utility=self._utility(trace.answer),
            by=self._by,
            # A turn's id ends with its agent.
            agent=decisive.rpartition("/")[2],
            turn=decisive if "/" in decisive else "",
            effects=tuple(self._effects),
            suspicion=suspicions,
            group=group,
            asked=len(messages_asked),
            tokens=sum(turn.tokens for turn in messages_asked),
            recorded=sum(turn.tokens for turn in trace.turns),
            finished=finished,
        )

    def _utility(self, answer: str | None) -> float:
        return self._dataset.score(self._replay.discussion.item, answer).utility

    def _decisive(self) -> str:
        """Names the turn that changes the answer, or else the agent; empty where none does."""
        turns = [effect for effect in self._effects if effect.changed and effect.kind == "turn"]
        agents = [effect for effect in self._effects if effect.changed and effect.kind == "agent"]
        if turns:
            # The earliest: later turns may only pass it on.
            order = [turn.id for turn in self._trace.turns]
            return min(turns, key=lambda effect: order.index(effect.of)).of
        return agents[0].of if agents else ""

    async def _try(
        self, kind: Replaced, of: str, replaced: Sequence[str] = (), unheard: tuple[str, str] = ("", "")
    ) -> bool:
        """Adds the effect of an intervention. Returns whether it changes the answer. Raises BudgetSpent."""
        effect = await self._effect(kind, of, replaced, unheard)
        self._effects.append(effect)
        return effect.changed

    async def _effect(
        self, kind: Replaced, of: str, replaced: Sequence[str] = (), unheard: tuple[str, str] = ("", "")
    ) -> Effect:
        """Holds the discussion with turns replaced, or a message unheard. Raises BudgetSpent before."""
        tokens_left = self._budget - sum(turn.tokens for turn in self._replay.asked)
        if MARGIN * await self._replay.most_tokens(replaced, self._by, unheard) > tokens_left:
            raise BudgetSpent
        trace = await self._replay.hold(replaced, self._by, unheard)

        silenced = replaced if self._by == "silence" else ()
        failed = any(turn.status is Status.FAILED and turn.id not in silenced for turn in trace.turns)
        if self._by == "counterpart" and self._acts_on == "evidence" and trace.lookups:
            # A system's own searches find the attacker's sources still, where these are in the corpus.
            failed = failed or self._replay.discussion.attack.evidence is not None
        question = self._replay.discussion.question
        differs = ballot(question, trace.answer) != ballot(question, self._trace.answer)
        return Effect(kind, of, trace.answer, self._utility(trace.answer), differs and not failed, failed)

    async def _changes(self, members: Collection[str]) -> bool:
        """True if these agents, replaced together, change the answer. Each set is tried once."""
        key = frozenset(members)
        if key not in self._tried:
            ordered = [agent for agent in self._agents if agent in key]
            turns = [turn.id for turn in self._turns if turn.agent in key]
            kind: Replaced = "agent" if len(ordered) == 1 else "agents"
            self._tried[key] = await self._try(kind, JOINED.join(ordered), turns)
            if self._tried[key] and (not self._smallest or len(ordered) < len(self._smallest)):
                self._smallest = tuple(ordered)
        return self._tried[key]

    async def _attack_matters(self) -> bool:
        """True if the honest team answers otherwise. Its turns are the record's where the run has them."""
        if not await self._try("attack", "", [turn.id for turn in self._turns]):
            return False
        # All agents read the same evidence: no part of them is to blame.
        return self._acts_on != "evidence" and await self._changes(self._agents)

    async def _try_groups(self) -> None:
        """Tries the whole attack, and if it matters its parts; then the turns of a single agent until one matters.

        Without an attack, it tries agents until one changes the answer.
        """
        if self._by == "counterpart":
            if not await self._attack_matters():
                return
            await self._find_smallest()
        else:
            for agent in self._agents:
                if await self._changes([agent]):
                    break
        for turn in self._turns:
            if self._smallest == (turn.agent,) and await self._try("turn", turn.id, [turn.id]):
                break

    async def _try_all(self) -> None:
        """Tries the whole attack, every agent, the smallest set, every turn, and the edges of turns that matter."""
        attack_matters = self._by == "counterpart" and await self._attack_matters()
        if self._acts_on == "evidence":
            return
        for agent in self._agents:
            await self._changes([agent])
        if attack_matters:
            await self._find_smallest()
        senders = []
        for turn in self._turns:
            if await self._try("turn", turn.id, [turn.id]):
                senders.append(turn.id)
        for sender in senders:
            await self._try_edges(sender)

    async def _try_edges(self, sender: str) -> None:
        """Leaves the message of a turn out for one hearer at a time; one that was hit in transit arrives as sent."""
        for turn in self._trace.turns:
            edge = f"{sender} -> {turn.id}"
            if sender not in turn.heard:
                continue
            if self._acts_on != "messages":
                await self._try("edge", edge, unheard=(turn.id, sender))
            elif sender in turn.tampered:
                await self._try("edge", edge, [edge])

    async def _find_smallest(self) -> None:
        """Finds the smallest set of agents that change the answer together, where all together do.

        QuickXplain (Junker 2004) finds a set of which none can be left out, in some k log(n / k) interventions for k of
        n agents. Then all smaller sets are tried, as parts of an attack may undo each other.
        """
        members = await self._irreducible([], False, self._agents)
        await self._changes(members)
        for size in range(1, len(members)):
            for smaller_set in combinations(self._agents, size):
                if await self._changes(smaller_set):
                    return

    async def _irreducible(self, background: Sequence[str], is_new: bool, agents: Sequence[str]) -> list[str]:
        """Returns those of `agents` that change the answer together with a background, as all of them do.

        is_new: the background has grown since it was tried.
        """
        if is_new and await self._changes(background):
            return []
        if len(agents) == 1:
            return list(agents)
        half = len(agents) // 2
        suspected = agents[:half]
        unsuspected = agents[half:]
        second_members = await self._irreducible([*background, *suspected], True, unsuspected)
        first_members = await self._irreducible([*background, *second_members], len(second_members) > 0, suspected)
        return [*first_members, *second_members]

    def _decision_effect(self) -> list[Effect]:
        """Answers by the plurality of the messages that the decision agent read; none without one, or of one answer."""
        question = self._replay.discussion.question
        decision = self._trace.turns[-1]
        if decision.agent != DECISION_AGENT:
            return []
        messages = {turn.id: turn for turn in self._trace.turns}
        heard_answers = [messages[id].answer for id in decision.heard if id in messages]
        forms = [ballot(question, answer) for answer in heard_answers]
        counts = Counter(form for form in forms if form is not None).most_common(2)
        if not counts or (len(counts) > 1 and counts[0][1] == counts[1][1]):
            return []
        commonest = counts[0][0]
        answer = heard_answers[forms.index(commonest)]
        differs = commonest != ballot(question, self._trace.answer)
        return [Effect("decision", decision.id, answer, self._utility(answer), differs)]
