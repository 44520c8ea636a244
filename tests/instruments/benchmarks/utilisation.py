"""How much of what a model could do the runtime asks of it, through real agent and replica actors.

    python -m tests.instruments.benchmarks.utilisation [--replicas 1 2 8]

The discussions of `throughput`, 19 turns each.

- `share_20ms`: a model that takes 20 ms for any number of requests, 32 discussions at once; turns per second as a share
  of what a bare asyncio loop reaches that awaits the same turns in the same order and does nothing else.
- `share_engine`, by the number of replicas: emulated engines (`emulated_engine`: continuous batching, a budget of
  tokens a step, replies of varied lengths, a prefix cache). Turns per second as a share of the most that is possible,
  which is bounded by the discussions' critical paths, were every request alone on its engine, and by the work of all
  requests, were every step of every engine full. The window begins when as many discussions have ended as are held at
  once and ends when the last one begins. In it turns are counted, not discussions, of which those that it cuts off at
  one end are further on than those at the other. `cached_share` is that of prompt tokens which the prefix caches had.

The last line is one JSON object.
"""

import argparse
import asyncio
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial, reduce
from operator import add
from statistics import mean

from actors.agents.roles import DECISION
from actors.messages import Completion, Kind, Message, Question, Request, Source, Trace, Turn, Usage
from actors.models import Model
from actors.runtime.cluster import Cluster
from actors.runtime.inline import Inline
from actors.runtime.runtime import Runtime
from actors.settings import AgentSettings, RaySettings
from experiments.running.speakers import Metered
from tests.instruments.benchmarks.emulated_engine import EmulatedEngine, Pace
from tests.instruments.benchmarks.throughput import REPLY, ROLES, TURNS, workload
from topologies.topology import discussion_id

MODEL_S = 0.02
AT_ONCE = 32
SAMPLES = 10  # discussions of one question
TIMES_HELD = 3  # how often as many discussions as are held at once
PACE = Pace()
# So many discussions at once for each replica that there is always a request to work on.
BUSY = 2 * PACE.sequences


class Sleeper:
    async def complete(self, request: Request) -> Completion:
        await asyncio.sleep(MODEL_S)
        return Completion(request.id, REPLY, prompt_tokens=100, completion_tokens=12)


async def held(team: Metered, discussions: int, at_once: int) -> tuple[list[Trace], list[float], list[float]]:
    """The traces of so many discussions, when each of them ended, and when each turn did, in seconds."""
    topology, gate = workload(), asyncio.Semaphore(at_once)
    evidence = tuple(Source(f"t{i}", f"t{i}", Kind.TEXT, f"Place {i}", "A town by the sea. " * 15) for i in range(5))
    ended: list[float] = []
    turned: list[float] = []

    async def ask(turn: Turn) -> Message:
        result = await team.take(turn)
        turned.append(time.perf_counter())
        return result.message

    async def one(number: int) -> Trace:
        person = number // SAMPLES
        question = Question(f"q{person}", f"In which town was person {person} born?", (), evidence)
        async with gate:
            trace = await topology.answer(question, ask, seed=number % SAMPLES, sample=number)
            ended.append(time.perf_counter())
        team.close(discussion_id(topology.method, question, number))
        return trace

    return list(await asyncio.gather(*map(one, range(discussions)))), ended, turned


def waits(trace: Trace) -> dict[str, list[str]]:
    """The turns that each turn of a discussion waits for: all that it hears, and its agent's own last one."""
    ids = {turn.id for turn in trace.turns}
    return {turn.id: list({*turn.heard, f"{turn.round - 1}/{turn.agent}"} & ids) for turn in trace.turns}


async def bare(waited: Mapping[str, Sequence[str]], discussions: int) -> float:
    """Turns per second of such discussions by a loop that only waits: for other turns, and for the model."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def one() -> None:
        tasks: dict[str, asyncio.Task[None]] = {}

        async def turn(senders: Sequence[str]) -> None:
            await asyncio.gather(*(tasks[sender] for sender in senders))
            await asyncio.sleep(MODEL_S)

        async with gate:
            # None of them begins before all are there.
            tasks |= {id: asyncio.create_task(turn(senders)) for id, senders in waited.items()}
            await asyncio.gather(*tasks.values())

    start = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(discussions)))
    return discussions * len(waited) / (time.perf_counter() - start)


async def slept(runtime: Runtime) -> tuple[float, float]:
    """Turns per second with a model of 20 ms, and those of the bare loop just before and after."""
    team = await _team(runtime, Sleeper, 1, 4096)
    [trace] = (await held(team, 1, 1))[0]
    await held(team, 2 * AT_ONCE, AT_ONCE)
    discussions = 10 * AT_ONCE
    first = await bare(waits(trace), discussions)
    start = time.perf_counter()
    await held(team, discussions, AT_ONCE)
    rate = discussions * TURNS / (time.perf_counter() - start)
    return rate, mean([first, await bare(waits(trace), discussions)])


async def engines(runtime: Runtime, replicas: int) -> dict[str, float]:
    """The share that emulated engines reach, with what it is a share of."""
    # An engine keeps a queue of its own, as its next step begins before anybody hears what the last one ended.
    team = await _team(runtime, partial(EmulatedEngine, PACE, REPLY), replicas, 2 * PACE.sequences)
    at_once = BUSY * replicas
    traces, ended, turned = await held(team, TIMES_HELD * at_once, at_once)
    begins, ends = ended[at_once - 1], ended[-at_once - 1]
    rate = sum(begins < at <= ends for at in turned) / (ends - begins)
    used, turns = reduce(add, team.usage.values(), Usage()), len(traces) * TURNS
    assert used.calls == turns
    prompt = (used.prompt_tokens - used.cached_tokens) / turns
    by_work = replicas / PACE.full_s(prompt, used.completion_tokens / turns)
    by_paths = at_once * TURNS / mean(critical_path_s(trace, prompt) for trace in traces)
    return {
        "share": round(rate / min(by_work, by_paths), 3),
        "turns_per_s": round(rate, 1),
        "by_work": round(by_work, 1),
        "by_paths": round(by_paths, 1),
        "cached_share": round(used.cached_tokens / used.prompt_tokens, 3),
    }


def critical_path_s(trace: Trace, prompt: float) -> float:
    """Seconds of a discussion each of whose requests is alone on its engine."""
    waited, turns = waits(trace), {turn.id: turn for turn in trace.turns}

    @cache
    def ends(id: str) -> float:
        return max(map(ends, waited[id]), default=0.0) + PACE.alone_s(prompt, turns[id].completion_tokens)

    return max(map(ends, waited))


async def _team(runtime: Runtime, model: Callable[[], Model], replicas: int, capacity: int) -> Metered:
    runtime.launch_replicas(model, replicas=replicas, cpus=0, gpus=0, capacity=capacity)
    team = Metered(runtime.launch_agents((*ROLES, DECISION), AgentSettings()).speaker())
    await runtime.wait_until_ready()
    return team


def measure(replicas: Sequence[int]) -> dict[str, object]:
    load = os.getloadavg()[0]
    with Inline() as inline:
        alone, alone_bare = asyncio.run(slept(inline))
    # The event loop ends before Ray, as in a run: Ray aborts otherwise.
    with Cluster(RaySettings()) as cluster:
        rate, rate_bare = asyncio.run(slept(cluster))
    found = {}
    for number in replicas:
        with Cluster(RaySettings()) as cluster:
            found[str(number)] = asyncio.run(engines(cluster, number))
            print(f"{number} replicas: {found[str(number)]}", flush=True)
    return {
        "share_20ms": round(rate / rate_bare, 3),
        "share_engine": {number: each["share"] for number, each in found.items()},
        "turns_per_s_20ms": {"ours": round(rate), "bare": round(rate_bare)},
        "inline_share_20ms": round(alone / alone_bare, 3),
        "engines": found,
        "load_before": round(load, 1),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replicas", type=int, nargs="+", default=[1, 2, 8])
    print(json.dumps(measure(**vars(parser.parse_args()))))
