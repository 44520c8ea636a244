"""Explains one answer by interventions on its turns, agents and edges: one by one, by groups, or as Shapley values."""

from collections import Counter
from collections.abc import Sequence

from actors.messages import Message, Status, derive_seed
from experiments.attribution.intervention import Replay
from experiments.attribution.shapley import coalitions, draw_orders, shapley
from experiments.attribution.suspects import suspicion
from experiments.config.setting_groups import ExplainSettings
from experiments.datasets.item import Dataset
from experiments.records.attribution import JOINED, By, Effect, Explained, Replaced
from topologies.answers import ballot
from topologies.topology import DECISION_AGENT

MOST_TURNS = 19  # of a discussion whose turns are tried one by one: nine agents in two rounds, and the decision


class Explanation:
    """The interventions on one recorded discussion; `dataset` scores answers."""

    def __init__(self, replay: Replay, dataset: Dataset, by: By) -> None:
        self._replay = replay
        self._dataset = dataset
        self._by = by
        self._trace = replay.discussion.trace
        self._turns = [turn for turn in self._trace.turns if turn.agent != DECISION_AGENT]
        if by == "counterpart" and self._trace.attacked:
            # The honest counterpart of a turn that no attack has changed is the turn itself.
            self._turns = [turn for turn in self._turns if turn.agent in self._trace.attacked]

    async def explain(self, settings: ExplainSettings, seed: int) -> Explained:
        """Carries out the interventions of `settings.search`. Names the agent and the turn that they show."""
        trace = self._trace
        suspicions = suspicion(trace, self._replay.discussion.question, seed)
        # The most suspected agent first; agents under equal suspicion by name.
        agents = sorted({turn.agent for turn in self._turns}, key=lambda agent: (-suspicions.get(agent, 0.0), agent))

        search = settings.search
        if search == "auto":
            search = "shapley" if len(trace.turns) > MOST_TURNS else "single"
        if search == "shapley":
            effects = await self._shapley_effects(settings.orders, derive_seed(seed, "explain", trace.question))
        elif search == "groups":
            effects = await self._effects_by_groups(agents)
        else:
            effects = await self._single_effects(agents)

        decisive = self._decisive(effects)
        group: tuple[str, ...] = ()
        if not decisive:
            effects += self._decision_effect()
            if self._by == "counterpart" and search != "shapley":
                group, group_effects = await self._smallest_group(agents)
                effects += group_effects
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
            effects=tuple(effects),
            suspicion=suspicions,
            group=group,
            asked=len(messages_asked),
            tokens=sum(turn.tokens for turn in messages_asked),
            recorded=sum(turn.tokens for turn in trace.turns),
        )

    def _utility(self, answer: str | None) -> float:
        return self._dataset.score(self._replay.discussion.item, answer).utility

    def _decisive(self, effects: Sequence[Effect]) -> str:
        """Names the turn that changes the answer, or else the agent; empty where none does."""
        turns = [effect for effect in effects if effect.changed and effect.kind == "turn"]
        agents = [effect for effect in effects if effect.changed and effect.kind == "agent"]
        if turns:
            # Of Shapley values the largest, of others the earliest: later turns may only pass it on.
            order = [turn.id for turn in self._trace.turns]
            return min(turns, key=lambda effect: (-effect.phi[0] if effect.phi else 0.0, order.index(effect.of))).of
        return agents[0].of if agents else ""

    async def _try(
        self, kind: Replaced, of: str, turns: Sequence[Message] = (), unheard: tuple[str, str] = ("", "")
    ) -> Effect:
        replaced = [turn.id for turn in turns]
        trace = await self._replay.hold(replaced, self._by, unheard)

        silenced = replaced if self._by == "silence" else ()
        failed = any(turn.status is Status.FAILED and turn.id not in silenced for turn in trace.turns)
        question = self._replay.discussion.question
        differs = ballot(question, trace.answer) != ballot(question, self._trace.answer)
        return Effect(kind, of, trace.answer, self._utility(trace.answer), differs and not failed, failed)

    async def _single_effects(self, agents: Sequence[str]) -> list[Effect]:
        """Tries every agent and turn alone, and the edges from turns that change the answer."""
        effects = []
        for agent in agents:
            agent_turns = [turn for turn in self._turns if turn.agent == agent]
            effects.append(await self._try("agent", agent, agent_turns))
            for turn in agent_turns:
                effects.append(await self._try("turn", turn.id, [turn]))

        senders = [effect.of for effect in effects if effect.kind == "turn" and effect.changed]
        for sender in senders:
            for turn in self._trace.turns:
                if sender in turn.heard:
                    effects.append(await self._try("edge", f"{sender} -> {turn.id}", unheard=(turn.id, sender)))
        return effects

    async def _effects_by_groups(self, agents: Sequence[str]) -> list[Effect]:
        """Tries the whole attack, then agents in order until one changes the answer, then its turns until one does.

        It searches as if no part could undo the effect of another.
        """
        effects = []
        if self._by == "counterpart":
            attack = await self._try("attack", "", self._turns)
            effects.append(attack)
            if not attack.changed:
                return effects
        for agent in agents:
            agent_turns = [turn for turn in self._turns if turn.agent == agent]
            agent_effect = await self._try("agent", agent, agent_turns)
            effects.append(agent_effect)
            if not agent_effect.changed:
                continue
            for turn in agent_turns:
                turn_effect = await self._try("turn", turn.id, [turn])
                effects.append(turn_effect)
                if turn_effect.changed:
                    break
            break
        return effects

    async def _smallest_group(self, agents: Sequence[str]) -> tuple[tuple[str, ...], list[Effect]]:
        """Finds agents that change the answer together, none of whom can be left out. Empty where all together do not.

        Agents leave the whole one by one, the least suspected first, as long as the others still change the answer.
        That takes as many interventions as there are agents, where no single one changes the answer.
        """
        group = list(agents)
        effects: list[Effect] = []

        async def changes(members: Sequence[str]) -> bool:
            turns = [turn for turn in self._turns if turn.agent in members]
            effect = await self._try("agents", JOINED.join(members), turns)
            effects.append(effect)
            return effect.changed

        if len(group) < 2 or not await changes(group):
            return (), effects
        for agent in reversed(agents):
            remaining = [member for member in group if member != agent]
            if len(remaining) > 1 and await changes(remaining):
                group = remaining
        return tuple(group), effects

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

    async def _shapley_effects(self, number: int, seed: int) -> list[Effect]:
        """Estimates the Shapley value of every turn from a number of random orders."""
        orders = draw_orders(len(self._turns), number, seed)
        values = {}
        failed = False
        for coalition in coalitions(orders):
            replaced = [turn for place, turn in enumerate(self._turns) if place not in coalition]
            effect = await self._try("attack", "", replaced)
            # A coalition has value 1 if its turns as recorded, others replaced, give the same answer.
            values[coalition] = float(not effect.changed)
            failed = failed or effect.failed

        effects = []
        for turn, phi in zip(self._turns, shapley(values, orders).tolist(), strict=True):
            above_zero = phi[1] > 0
            effects.append(Effect("turn", turn.id, changed=above_zero and not failed, failed=failed, phi=tuple(phi)))
        return effects
