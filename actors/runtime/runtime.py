"""Names what either runtime gives: processes on Ray (cluster.py), or objects of this process (inline.py).

Both have the methods that `Cluster` describes. Agents and pools can be sent to other processes.
"""

from typing import TYPE_CHECKING, TypeAlias

from actors.runtime.inline import Inline
from actors.runtime.launcher import ModelPool
from actors.runtime.team import Agents

if TYPE_CHECKING:
    # A machine that reads results has no Ray.
    from actors.runtime.cluster import Cluster

Runtime: TypeAlias = "Cluster | Inline"

__all__ = ["Agents", "ModelPool", "Runtime"]
