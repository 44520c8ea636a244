"""Agents and models as Ray actors. The way of one turn, from the driver to the model; results return the same way.

In the driver
    team.py              RemoteTeam     one batcher per agent; adds up what each agent spends
    batching.py          Batcher        sends turns that are ready together as one call
    agent_actor.py       RayAgent       the call itself, through Ray
In the agent's process
    agent_actor.py       AgentActor     unpacks the call; forgets discussions that have ended
    work_queue.py        WorkQueue      works on all turns at once, streams results back as they finish
    agents/agent.py      RoleAgent      memory, prompt, retries, parsing
    completions/cache.py CachedModel    answers what was answered before
    pool.py              Pool           chooses the replica; keeps what none has room for; resends what was lost
    replica_client.py    ReplicaClient  knows how full one replica is; sends in batches (another Batcher)
    replica_actor.py     RayReplica     the call itself, through Ray
In the replica's process
    replica_actor.py     ReplicaActor   unpacks the call; has a thread of its own for signs of life
    replica.py           Replica        loads the model, takes what it has room for, ends the process of a lost model
    work_queue.py        WorkQueue      works on `capacity` requests at once, streams completions back as they finish

In the topology actor's process
    stateful_actor.py    StatefulActor  the learners, whose states outlive the process

Beside the driver, where Ray is the run's own
    head.py              Head           starts the head process, and ends it
    head_process.py                     starts Ray's head node
    fork_server.py                      forks Ray's workers, which `forked_worker.py` asks it for

In the process of a sweep's trial
    guard.py             Guard          has another process end this one where it stands still

Both hops are the same pair, `Batcher` and `WorkQueue`, around a transport: an object with a streaming call and `drop`,
which tests replace by one without Ray. Only `*_actor.py`, `remote.py`, `connection.py`, `supervision.py`, `cluster.py`
and the processes beside the driver import Ray.
"""

import os

# Read when Ray is imported, so before any module here does so. The supervisor reports a replica that is started again
# in one line; Ray's own line of a thousand characters would go between the progress bars.
os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", "A worker died or was killed while executing a task")
