"""Checks of a method: rules that its discussions keep for any replies and failures of its agents."""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from actors.agents.roles import DECISION, ROLES, SINGLE
from actors.messages import Kind, Question, Status, Trace
from actors.runtime.inline import Local
from experiments.config.config import Config
from experiments.config.loading import load
from experiments.conformance.parts import check_reads, noting, require
from experiments.conformance.scripted import (
    ObservedDiscussion,
    ObservedLibrary,
    Reply,
    SampleWorld,
    ScriptedSpeaker,
    improvised,
    run_discussion,
    sample_world,
    stubborn,
)
from experiments.datasets.item import Item
from experiments.evidence.evidence import Evidence
from experiments.evidence.library import LabelledLibrary
from experiments.planning import topologies
from topologies.catalogue import find_methods
from topologies.learning import learned_topology, learner
from topologies.method import Method

TEAM = ("text_critic", "visual_scientist", "text_logic_expert")
# A discussion of more turns on one question is assumed not to end.
TURNS_AT_MOST = 120
# Agents that take part in a team's discussions without being an end of its edges.
OUTSIDE_TEAM = frozenset((DECISION.name, "inspector", "manager"))


@dataclass(frozen=True)
class MethodInWorld:
    """One method on the questions of a small world. The same observation is made once."""

    method: Method
    config: Config
    world: SampleWorld
    seen: dict[Any, ObservedDiscussion] = field(default_factory=dict)

    async def observe(
        self,
        reply: Reply | None = None,
        *,
        item: Item | None = None,
        delays: int | None = None,
        failing: Collection[str] = (),
        babbling: Collection[str] = (),
    ) -> ObservedDiscussion:
        """Observes the discussion of one question, by embedded readers or by agents with the replies of `reply`."""
        item = item or self.world.items[0]
        key = (reply, repr(item), delays, *sorted(failing), "/", *sorted(babbling))
        if key in self.seen:
            return self.seen[key]
        evidence = Evidence(self.world.store, self.config.retrieval)
        # By repr: items hold mappings and cannot be hashed. A relabelled item shares nothing with the original.
        known = self.world.known.setdefault(repr((self.config.retrieval, item)), {})
        if "question" not in known:
            known["question"] = await evidence.question(item)
        random = None if delays is None else Random(delays)
        library = ObservedLibrary(LabelledLibrary(evidence, [item]), known, random)
        roles = (DECISION, SINGLE, *self.method.roles, *(ROLES[name] for name in TEAM if self.method.asks_team))
        team = ScriptedSpeaker(roles, reply, failing=failing, babbling=babbling, delays=random)
        self.seen[key] = await run_discussion(await self.topology(library), known["question"], team, library)
        return self.seen[key]

    async def topology(self, library: Any) -> Any:
        """Makes the method's topology, with an untrained graph and a watched discussion if it needs them."""
        untrained = Local(learner.Learner([ROLES[agent].modality for agent in TEAM]))
        inference = self.config.topology.inference
        learned = learned_topology.LearnedTopology(self.method.name, TEAM, untrained, inference)
        await learned.freeze()
        watched: list[tuple[Question, Trace]] = []
        if self.method.needs_calibration:
            full = topologies.make_topology(find_methods(["full"])[0], self.config, TEAM, {}, library)
            agents = ScriptedSpeaker([*(ROLES[name] for name in TEAM), DECISION], improvised(20))
            first = await Evidence(self.world.store, self.config.retrieval).question(self.world.items[0])
            watched.append((first, await full.answer(first, agents.ask, 7)))
        return topologies.make_topology(self.method, self.config, TEAM, {self.method.name: learned}, library, watched)


def check_method(name: str) -> None:
    """Makes every check on a method, by name or reference. Raises UserError, and NotConforming with the first fault."""
    config = load(["experiment=sp", f"methods=[{name}]"])
    [method] = find_methods(config.methods)
    with TemporaryDirectory() as folder:
        asyncio.run(check_all(MethodInWorld(method, config, sample_world(Path(folder)))))


async def check_all(subject: MethodInWorld) -> None:
    """Makes every check of this file. Raises NotConforming with the first rule that the method breaks."""
    for reply in (*map(improvised, range(1, 5)), stubborn(0), stubborn(-1)):
        check_discussion(subject.method, await subject.observe(reply))
    for check in (check_order, check_failures, check_labels, check_withheld, check_own, check_settings):
        await check(subject)


async def check_order(subject: MethodInWorld) -> None:
    """Requires the same trace in whatever order turns and searches end."""
    first, *others = [(await subject.observe(improvised(1), delays=delays)).trace for delays in (None, 1, 2)]
    same = all(trace == first for trace in others)
    require(same, f"{subject.method.name}: its trace depends on which of its turns end first")


async def check_settings(subject: MethodInWorld) -> None:
    """Requires that the method names in its `reads` the settings of systems and defences that it reads."""
    systems, defence = set[str](), set[str]()
    config = subject.config
    noted = replace(config, systems=noting(config.systems, systems), defence=noting(config.defence, defence))
    await replace(subject, config=noted, seen={}).observe(improvised(3))
    check_reads(subject.method, "methods", "systems", systems)
    check_reads(subject.method, "methods", "defence", defence)


async def check_failures(subject: MethodInWorld) -> None:
    """Requires that an agent that fails, or keeps to no form, is recorded as such and survived."""
    name = subject.method.name
    for reply in (improvised(1), stubborn(0)):
        agents = {turn.agent for turn in (await subject.observe(reply)).team.turns}
        # Each agent alone, then all at once.
        for broken in (*({agent} for agent in sorted(agents)), agents):
            for status, how in ((Status.FAILED, "failing"), (Status.UNPARSED, "babbling")):
                observed = await subject.observe(reply, **{how: broken})  # type: ignore[arg-type]
                check_discussion(subject.method, observed)
                affected = [message for message in observed.trace.turns if message.agent in broken]
                # Where all lines of a task are optional, a reply without any of them is an empty one.
                empty = all(message.status is status or not (message.fields or message.answer) for message in affected)
                require(empty, f"{name}: a turn of {', '.join(sorted(broken))} that {status} has content in the trace")
                if agents == broken:
                    require(observed.trace.answer is None, f"{name}: there is an answer though every agent failed")


async def check_labels(subject: MethodInWorld) -> None:
    """Requires the same discussion with another gold answer, other supporting sources and other tags."""
    item = subject.world.items[0]
    relabelled = replace(item, gold=("something else",), supporting=(), tags={})
    for reply in (None, improvised(1)):
        first, second = [await subject.observe(reply, item=each) for each in (item, relabelled)]
        same = {turn.id: turn for turn in first.team.turns} == {turn.id: turn for turn in second.team.turns}
        same = same and first.trace == second.trace
        require(same, f"{subject.method.name}: another gold answer changes the discussion")


async def check_withheld(subject: MethodInWorld) -> None:
    """Requires that sources withheld from a question are neither found nor read."""
    before = await subject.observe(improvised(1))
    # Half of the evidence is withheld by document, half by source id: an item may name either.
    docs = {source.doc for source in before.question.evidence[::2]}
    ids = {source.id for source in before.question.evidence[1::2]}
    item = replace(subject.world.items[0], withheld=(*sorted(docs), *sorted(ids)))
    observed = await subject.observe(improvised(1), item=item)
    read = [source for turn in observed.team.turns for source in turn.question.evidence]
    seen = observed.library.found & ids or [source.id for source in read if source.id in ids or source.doc in docs]
    require(not seen, f"{subject.method.name}: sources that are withheld from the question were read")


async def check_own(subject: MethodInWorld) -> None:
    """Requires the question's own sources to be marked so in every turn that reads them."""
    evidence = (await subject.observe(improvised(1))).question.evidence
    # Of each kind the first, as a question's own hint and picture would be.
    own = {source.kind is Kind.IMAGE: source.doc for source in reversed(evidence)}.values()
    item = replace(subject.world.items[0], own=tuple(own))
    for turn in (await subject.observe(improvised(1), item=item)).team.turns:
        read = {source.doc for source in turn.question.evidence}
        marked = read & set(own) <= set(turn.question.own) and set(turn.question.own) <= set(own)
        require(marked, f"{subject.method.name}: a source that is part of the question is read as one that was found")


def check_discussion(method: Method, observed: ObservedDiscussion) -> None:
    """Requires a whole transcript, an answer that an agent gave, and an end."""
    check_transcript(method, observed)
    name, trace, turns = method.name, observed.trace, len(observed.trace.turns)
    if trace.answer is not None:
        stated = {
            said for one in trace.turns if one.status is Status.OK for said in (one.answer, *one.values("Answer"))
        }
        require(trace.answer in stated, f"{name}: no agent stated the answer {trace.answer!r}")
        require(trace.status is Status.OK, f"{name}: there is an answer and the status is {trace.status}")
    if all(message.status is not Status.OK for message in trace.turns):
        require(trace.answer is None, f"{name}: there is an answer though no turn has one")
        require(trace.status is not Status.OK, f"{name}: no turn has an answer and the status is ok")
    require(turns <= TURNS_AT_MOST, f"{name}: {turns} turns for one question, {TURNS_AT_MOST} at most")


def check_transcript(method: Method, observed: ObservedDiscussion) -> None:
    """Requires every turn, message, source and search to be in the trace, in the order of the calls."""
    name, trace, turns = method.name, observed.trace, observed.team.turns
    messages = {message.id: message for message in trace.turns}
    require((trace.method, trace.question) == (name, observed.question.id), f"{name}: its trace is of something else")
    require(len(messages) == len(trace.turns), f"{name}: two messages of a trace have one id")
    agents = {message.agent for message in trace.turns} - OUTSIDE_TEAM
    require(agents <= set(trace.agents), f"{name}: an agent that spoke is missing from the trace's agents")
    spoken = sorted(message.id for message in observed.team.messages)
    require(spoken == sorted(messages), f"{name}: the trace does not have just the messages that agents gave")
    for message in observed.team.messages:
        # A topology may number its turns anew; all else stays as the agent gave it.
        kept = replace(messages[message.id], round=message.round) == message
        require(kept, f"{name}: message {message.id} was changed before it was recorded")
        require(set(message.heard) <= messages.keys(), f"{name}: {message.id} heard what is not in the trace")
    by_round = sorted(turns, key=lambda turn: turn.round)
    # In the order of rounds, because turns of one round may be asked in any order.
    read = [source.id for turn in by_round for source in turn.question.evidence]
    own = [source.id for source in observed.question.evidence]
    if not method.needs_library:
        require(trace.evidence == (tuple(own) if read else ()), f"{name}: the trace's evidence is not the question's")
        require(set(read) <= set(own), f"{name}: an agent read a source that the question does not have")
        return
    rounds = [message.round for message in trace.turns]
    require(rounds == list(range(1, len(turns) + 1)), f"{name}: its turns are not numbered in the order of the calls")
    places = {message.id: place for place, message in enumerate(trace.turns)}
    earlier = all(places[id] < places[message.id] for message in trace.turns for id in message.heard)
    require(earlier, f"{name}: a turn heard a later one")
    require(trace.evidence == tuple(dict.fromkeys(read)), f"{name}: the trace's evidence is not what its turns read")
    require(set(read) <= {*own, *observed.library.found}, f"{name}: an agent read a source that no search found")
    lookups = [list(lookup.found) for lookup in trace.lookups]
    require(lookups == observed.library.results, f"{name}: the trace's lookups are not its searches")
    # "": a search before the first turn belongs to none.
    require({lookup.of for lookup in trace.lookups} <= {"", *messages}, f"{name}: a lookup is of no turn of the trace")
