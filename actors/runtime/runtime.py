"""Names what either runtime gives: processes on Ray (cluster.py), or objects of this process (inline.py).

Both have the methods that `Cluster` describes. Agents and pools can be sent to other processes.
"""

from actors.runtime.cluster import Cluster
from actors.runtime.inline import Inline, InlineAgents, InlinePool
from actors.runtime.pool import RemotePool
from actors.runtime.team import RemoteAgents

Runtime = Cluster | Inline
Agents = RemoteAgents | InlineAgents
ModelPool = RemotePool | InlinePool
