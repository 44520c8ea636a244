"""Checks of a method: rules that its discussions keep for any replies and failures of its agents."""

import asyncio
from dataclasses import replace
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory

from actors.agents.roles import DECISION
from actors.messages import Kind, Status
from experiments.config.loading import load
from experiments.conformance.learning import check_learning
from experiments.conformance.observed import ObservedDiscussion
from experiments.conformance.observed_method import ObservedMethod
from experiments.conformance.requirements import check_reads, checking, noting, require
from experiments.conformance.sample_world import SampleWorld, sample_world
from experiments.jobs import JOBS
from experiments.planning.plan import Plan, make_plan
from experiments.scripted.replies import improvised, stubborn
from topologies.catalogue import find_method
from topologies.method import Method

# A team of both modalities. A learner has a step of each stage before the last one, which may confirm its graph.
SMALL = (
    "topology.text=[critic,logic_expert]",
    "topology.visual=[scientist]",
    "pruning.steps=2",
    "training.samples=4",
)
TURNS_AT_MOST = 120
"""Turns of a discussion of one question. One of more turns is assumed not to end."""
OUTSIDE_TEAM = frozenset((DECISION.name, "inspector", "manager"))
"""Agents that take part in a team's discussions without being an end of its edges."""


def check_method(name: str) -> None:
    """Makes every check on a method, by name or reference. Raises UserError, and NotConforming with the first fault."""
    plan = plan_small(name)
    with checking(plan.methods[-1].name), TemporaryDirectory() as folder:
        asyncio.run(check_all(plan, sample_world(Path(folder))))


def plan_small(name: str, *words: str, experiment: str = "sp") -> Plan:
    """Plans a small run of a method, with further words of a command line. Raises UserError as for any run."""
    variant = find_method(name).learner
    confirmation = ["learner.confirm=0.5"] if variant and variant.confirm else []
    config = load([f"experiment={experiment}", *SMALL, *confirmation, *words, f"methods=[{name}]"])
    plan = make_plan(config, JOBS[config.job])
    plan.methods[-1].check(plan.roles.agents, config.topology.rounds)
    return plan


async def check_all(plan: Plan, world: SampleWorld) -> ObservedMethod:
    """Makes every check on the last method of a plan. Raises NotConforming with the first rule that it breaks."""
    graphs = await check_learning(plan, world)
    method = ObservedMethod(plan, world, graphs)
    for seed in range(1, 5):
        check_discussion(method.method, await method.observe(improvised(seed)))
    for place in (0, -1):
        check_discussion(method.method, await method.observe(stubborn(place)))
    for check in (check_order, check_failures, check_labels, check_withheld, check_own, check_settings):
        await check(method)
    return method


async def check_order(method: ObservedMethod) -> None:
    """Requires the same trace in whatever order turns and searches end."""
    reference = await method.observe(improvised(1))
    for delays in (1, 2):
        delayed = await method.observe(improvised(1), delays=delays)
        require(delayed.trace == reference.trace, "its trace depends on which of its turns end first")


async def check_settings(method: ObservedMethod) -> None:
    """Requires that the method names in its `reads` the settings of systems and defences that it reads."""
    for group in ("systems", "defence"):
        names_read: set[str] = set()
        config = method.plan.config
        noting_config = replace(config, **{group: noting(getattr(config, group), names_read)})
        noting_plan = replace(method.plan, config=noting_config)
        await ObservedMethod(noting_plan, method.world, method.graphs).observe(improvised(3))
        check_reads(method.method, "methods", group, names_read)


async def check_failures(method: ObservedMethod) -> None:
    """Requires that an agent that fails, or keeps to no form, is recorded as such and survived."""
    for reply in (improvised(1), stubborn(0)):
        observed = await method.observe(reply)
        agents = {turn.agent for turn in observed.team.turns}
        # Each agent alone, then all at once.
        for broken in (*({agent} for agent in sorted(agents)), agents):
            failed = await method.observe(reply, failing=broken)
            check_broken(method.method, failed, broken, Status.FAILED)
            unreadable = await method.observe(reply, babbling=broken)
            check_broken(method.method, unreadable, broken, Status.UNPARSED)
            if broken == agents:
                answers = (failed.trace.answer, unreadable.trace.answer)
                require(answers == (None, None), "there is an answer though every agent failed")


def check_broken(method: Method, observed: ObservedDiscussion, broken: set[str], status: Status) -> None:
    """Requires that the turns of broken agents say nothing."""
    check_discussion(method, observed)
    for message in observed.trace.turns:
        # Where all lines of a task are optional, a reply without any of them is an empty one.
        empty = message.agent not in broken or message.status is status or not (message.fields or message.answer)
        require(empty, f"a turn of {', '.join(sorted(broken))} that {status} has content in the trace")


async def check_labels(method: ObservedMethod) -> None:
    """Requires the same discussion with another gold answer, other supporting sources and other tags."""
    item = method.world.items[0]
    relabelled = replace(item, gold=("something else",), supporting=(), tags={})
    for reply in (None, improvised(1)):
        original = await method.observe(reply, item=item)
        changed = await method.observe(reply, item=relabelled)
        original_turns = {turn.id: turn for turn in original.team.turns}
        changed_turns = {turn.id: turn for turn in changed.team.turns}
        is_same = original_turns == changed_turns and original.trace == changed.trace
        require(is_same, "another gold answer changes the discussion")


async def check_withheld(method: ObservedMethod) -> None:
    """Requires that sources withheld from a question are neither found nor read."""
    evidence = (await method.observe(improvised(1))).question.evidence
    # Half of the evidence is withheld by document, half by source id: an item may name either.
    documents = {source.doc for source in evidence[::2]}
    ids = {source.id for source in evidence[1::2]}
    item = replace(method.world.items[0], withheld=(*sorted(documents), *sorted(ids)))
    observed = await method.observe(improvised(1), item=item)
    sources = chain.from_iterable(turn.question.evidence for turn in observed.team.turns)
    is_read = any(source.id in ids or source.doc in documents for source in sources)
    hidden = not is_read and observed.library.found.isdisjoint(ids)
    require(hidden, "sources that are withheld from the question were read")


async def check_own(method: ObservedMethod) -> None:
    """Requires the question's own sources to be marked so in every turn that reads them."""
    evidence = (await method.observe(improvised(1))).question.evidence
    # Of each kind the first, as a question's own hint and picture would be.
    documents = {source.kind is Kind.IMAGE: source.doc for source in reversed(evidence)}
    own_documents = set(documents.values())
    item = replace(method.world.items[0], own=tuple(documents.values()))
    observed = await method.observe(improvised(1), item=item)
    for turn in observed.team.turns:
        documents_read = {source.doc for source in turn.question.evidence}
        marked = documents_read & own_documents <= set(turn.question.own) <= own_documents
        require(marked, "a source that is part of the question is read as one that was found")


def check_discussion(method: Method, observed: ObservedDiscussion) -> None:
    """Requires a whole transcript, an answer that an agent gave, and an end."""
    check_transcript(method, observed)
    trace = observed.trace
    answered = [message for message in trace.turns if message.status is Status.OK]
    if trace.answer is not None:
        stated_answers = chain.from_iterable((message.answer, *message.values("Answer")) for message in answered)
        require(trace.answer in stated_answers, f"no agent stated the answer {trace.answer!r}")
        require(trace.status is Status.OK, f"there is an answer and the status is {trace.status}")
    if not answered:
        require(trace.answer is None, "there is an answer though no turn has one")
        require(trace.status is not Status.OK, "no turn has an answer and the status is ok")
    turns = len(trace.turns)
    require(turns <= TURNS_AT_MOST, f"{turns} turns for one question, {TURNS_AT_MOST} at most")


def check_transcript(method: Method, observed: ObservedDiscussion) -> None:
    """Requires every turn, message, source and search to be in the trace, in the order of the calls."""
    trace = observed.trace
    messages = {message.id: message for message in trace.turns}
    require((trace.method, trace.question) == (method.name, observed.question.id), "its trace is of something else")
    require(len(messages) == len(trace.turns), "two messages of a trace have one id")
    agents = {message.agent for message in trace.turns} - OUTSIDE_TEAM
    require(agents <= set(trace.agents), "an agent that spoke is missing from the trace's agents")
    spoken = sorted(message.id for message in observed.team.messages)
    require(spoken == sorted(messages), "the trace does not have just the messages that agents gave")
    for message in observed.team.messages:
        # A topology may number its turns anew; all else stays as the agent gave it.
        unchanged = replace(messages[message.id], round=message.round) == message
        require(unchanged, f"message {message.id} was changed before it was recorded")
        require(set(message.heard) <= messages.keys(), f"{message.id} heard what is not in the trace")

    # In the order of rounds, because turns of one round may be asked in any order.
    turns_by_round = sorted(observed.team.turns, key=lambda turn: turn.round)
    ids_read = [source.id for turn in turns_by_round for source in turn.question.evidence]
    evidence = tuple(source.id for source in observed.question.evidence)
    if method.needs_library:
        check_searches(observed, ids_read)
    else:
        expected = evidence if ids_read else ()
        require(trace.evidence == expected, "the trace's evidence is not the question's")
        require(set(ids_read) <= set(evidence), "an agent read a source that the question does not have")


def check_searches(observed: ObservedDiscussion, ids_read: list[str]) -> None:
    """Requires that a discussion reads what its searches found, and records both. Its turns are taken in a row."""
    trace = observed.trace
    rounds = [message.round for message in trace.turns]
    in_order = rounds == list(range(1, len(observed.team.turns) + 1))
    require(in_order, "its turns are not numbered in the order of the calls")
    earlier: set[str] = set()
    for message in trace.turns:
        require(earlier.issuperset(message.heard), "a turn heard a later one")
        earlier.add(message.id)

    require(trace.evidence == tuple(dict.fromkeys(ids_read)), "the trace's evidence is not what its turns read")
    searchable = {*(source.id for source in observed.question.evidence), *observed.library.found}
    require(searchable.issuperset(ids_read), "an agent read a source that no search found")
    lookups = [list(lookup.found) for lookup in trace.lookups]
    require(lookups == observed.library.results, "the trace's lookups are not its searches")
    # "": a search before the first turn belongs to none.
    askers = {lookup.of for lookup in trace.lookups}
    require(askers <= {"", *earlier}, "a lookup is of no turn of the trace")
