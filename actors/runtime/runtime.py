"""Names what either runtime gives: processes on Ray (cluster.py), or objects of this process (inline.py).

Both have the methods that `Cluster` describes. Agents and pools can be sent to other processes.
"""

from actors.runtime.cluster import Cluster
from actors.runtime.inline import Inline
from actors.runtime.launcher import ModelPool
from actors.runtime.team import Agents

Runtime = Cluster | Inline

__all__ = ["Agents", "ModelPool", "Runtime"]
