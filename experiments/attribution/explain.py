"""Explains one answer by interventions on its turns, agents and edges: one by one, by groups, or as Shapley values."""

from collections.abc import Mapping, Sequence

import numpy as np
from scipy import stats

from actors.messages import Message, Status, derive_seed
from experiments.attribution.intervention import Replay
from experiments.attribution.suspects import suspicion
from experiments.config.setting_groups import ExplainSettings
from experiments.datasets.item import Dataset
from experiments.records.attribution import By, Effect, Explained, Replaced
from topologies.answers import ballot
from topologies.topology import DECISION_AGENT
from topologies.wiring import Floats

MOST_TURNS = 19  # of a discussion whose turns are tried one by one: nine agents in two rounds, and the decision


class Explanation:
    """The interventions on one recorded discussion; `dataset` scores answers."""

    def __init__(self, replay: Replay, dataset: Dataset, by: By) -> None:
        self._replay, self._dataset, self._by = replay, dataset, by
        trace = self._trace = replay.discussion.trace
        attacked = trace.attacked if by == "counterpart" else ()
        # The honest counterpart of a turn that no attack has changed is the turn itself.
        self._turns = [t for t in trace.turns if t.agent != DECISION_AGENT and (t.agent in attacked or not attacked)]

    async def explain(self, settings: ExplainSettings, seed: int) -> Explained:
        """Carries out the interventions of `settings.search`. Names the agent and the turn that they show."""
        trace, asked, search = self._trace, self._replay.asked, settings.search
        suspected = suspicion(trace, self._replay.discussion.question, seed)
        if search == "shapley" or (search == "auto" and len(trace.turns) > MOST_TURNS):
            orders = draw_orders(len(self._turns), settings.orders, derive_seed(seed, "explain", trace.question))
            sets = coalitions(orders)
            left_out = [[turn for i, turn in enumerate(self._turns) if i not in kept] for kept in sets]
            held = [await self._try("attack", "", turns) for turns in left_out]
            # A coalition has value 1 if its turns as recorded, others replaced, give the same answer.
            values = {kept: float(not each.changed) for kept, each in zip(sets, held, strict=True)}
            failed = any(each.failed for each in held)
            effects = [
                Effect("turn", turn.id, changed=phi[1] > 0 and not failed, failed=failed, phi=tuple(phi))
                for turn, phi in zip(self._turns, shapley(values, orders).tolist(), strict=True)
            ]
        else:
            agents = sorted({turn.agent for turn in self._turns}, key=lambda agent: (-suspected.get(agent, 0.0), agent))
            effects = await self._tried(agents, search == "groups")
        changed, order = [each for each in effects if each.changed], [turn.id for turn in trace.turns]
        turns, others = ([each for each in changed if each.kind == kind] for kind in ("turn", "agent"))
        # Of Shapley values the largest, of others the earliest: later turns may only pass it on.
        turns.sort(key=lambda each: (-each.phi[0] if each.phi else 0.0, order.index(each.of)))
        named = next((each.of for each in (*turns, *others)), "")
        utility, agent = (
            self._dataset.score(self._replay.discussion.item, trace.answer).utility,
            named.rpartition("/")[2],
        )
        about = trace.method, trace.question, trace.answer, utility, self._by, agent, named if "/" in named else ""
        tokens, recorded = (sum(t.tokens for t in of) for of in (asked, trace.turns))
        return Explained(*about, tuple(effects), suspected, len(asked), tokens, recorded)

    async def _try(
        self, kind: Replaced, of: str, turns: Sequence[Message] = (), unheard: tuple[str, str] = ("", "")
    ) -> Effect:
        replaced, held = [turn.id for turn in turns], self._replay.discussion
        trace = await self._replay.hold(replaced, self._by, unheard)
        silent = replaced if self._by == "silence" else ()
        failed = any(turn.status is Status.FAILED and turn.id not in silent for turn in trace.turns)
        changed = ballot(held.question, trace.answer) != ballot(held.question, self._trace.answer)
        utility = self._dataset.score(held.item, trace.answer).utility
        return Effect(kind, of, trace.answer, utility, changed and not failed, failed)

    async def _tried(self, agents: Sequence[str], groups: bool) -> list[Effect]:
        """Tries all single agents and turns, and edges from turns that matter.

        In `groups` it tries the whole attack, agents in order and the turns of one, each until one matters, as if no
        part could undo what another does.
        """
        effects = [await self._try("attack", "", self._turns)] if groups and self._by == "counterpart" else []
        for agent in agents if not effects or effects[0].changed else ():
            own = [turn for turn in self._turns if turn.agent == agent]
            effects.append(await self._try("agent", agent, own))
            for turn in own if effects[-1].changed or not groups else ():
                effects.append(await self._try("turn", turn.id, [turn]))
                if groups and effects[-1].changed:
                    break
            if groups and any(each.changed and each.kind == "agent" for each in effects):
                return effects
        matter = [each.of for each in effects if each.kind == "turn" and each.changed]
        edges = [(of, turn.id) for of in matter for turn in self._trace.turns if of in turn.heard]
        return effects + [await self._try("edge", f"{of} -> {to}", unheard=(to, of)) for of, to in edges]


def draw_orders(turns: int, number: int, seed: int) -> list[list[int]]:
    """Draws `number` (even) orders of the turns. Each second one reverses the one before (antithetic pairs)."""
    rng = np.random.default_rng(seed)
    drawn = [rng.permutation(turns).tolist() for _ in range(number // 2)]
    return [order for one in drawn for order in (one, one[::-1])]


def coalitions(orders: Sequence[Sequence[int]]) -> list[frozenset[int]]:
    """Lists the coalitions whose values `shapley` needs, each once."""
    return list(dict.fromkeys(frozenset(order[:size]) for order in orders for size in range(len(order) + 1)))


def shapley(value: Mapping[frozenset[int], float], orders: Sequence[Sequence[int]]) -> Floats:
    """Shapley values of turns, float [players, 3]: means of v(those before i, and i) - v(those before i) over orders.

    The estimate is that of Castro et al. (2009). Columns are the value and the ends of Student's 95% interval over the
    means of pairs of orders; NaN for a single pair.
    """
    values = np.array([[value[frozenset(order[:size])] for size in range(len(order) + 1)] for order in orders])
    gains = np.take_along_axis(np.diff(values), np.argsort(orders), axis=1)
    pairs = gains.reshape(len(orders) // 2, 2, -1).mean(axis=1)
    half = stats.t.ppf(0.975, len(pairs) - 1) * stats.sem(pairs)
    phi: Floats = pairs.mean(axis=0)[:, None] + np.stack([0 * half, -half, half], axis=1)
    return phi
