"""Adaptive Planning Graph of MMAPG (section 3.3): nodes that are added one after another, each on earlier ones."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from actors.messages import FieldKind, InputLine, Message, NodeType
from topologies.answers import wording

TYPES = tuple(kind.value for kind in NodeType)
NOTHING = "nothing found"
UNKNOWN = "unknown"


class NodeFault(StrEnum):
    """Flaw of a planned node. The last two kinds keep it from being carried out."""

    NO_SUCH_PARENT = "names a parent that is not there"
    STOPS_UNANSWERED = "stops before anything was answered"
    NO_INSTRUCTION = "does not say what to do"
    REPEATED = "repeats an earlier node"


@dataclass(frozen=True, slots=True)
class PlanNode:
    """Node of a plan. `parents` have smaller numbers, so no plan has a cycle.

    content: its result.
    """

    number: int
    type: str
    parents: tuple[int, ...]
    instruction: str
    content: str = ""
    faults: tuple[NodeFault, ...] = ()

    @property
    def runs(self) -> bool:
        """True where the node can be carried out."""
        return NodeFault.NO_INSTRUCTION not in self.faults and NodeFault.REPEATED not in self.faults

    def input_line(self) -> InputLine:
        """Returns the node as the planner reads it (the Graph State Description)."""
        basis = f" (from {', '.join(map(str, self.parents))})" if self.parents else ""
        faults = f" [{'; '.join(self.faults)}]" if self.faults else ""
        text = f"{self.type}{basis}: {self.instruction}"
        if not self.content or self.content == self.instruction:
            return InputLine(FieldKind.NODE, f"{text}{faults}", self.number)
        return InputLine(FieldKind.NODE, text, self.number, outcome=f"{self.content}{faults}")


def placed(graph: Sequence[PlanNode], planned: Message) -> PlanNode:
    """Returns the node that a planner's message adds to a graph, with its faults.

    Parents that are not there are left out; without any, a node builds on the question. It repeats an earlier one if it
    asks for the same with no other parents.
    """
    # The type is a line that no readable plan lacks.
    [kind] = planned.values(FieldKind.TYPE)
    number = len(graph) + 1
    named = [int(n) for n in re.findall(r"\d+", " ".join(planned.values(FieldKind.PARENTS)))]
    parents = tuple(dict.fromkeys(parent for parent in named if 1 <= parent < number))
    instruction = " ".join(planned.values(FieldKind.INSTRUCTION))
    # Without faults first, to be compared with earlier nodes; faults can only be listed after that.
    node = PlanNode(number, kind, parents or (1,), instruction)
    faults = [NodeFault.NO_SUCH_PARENT] if any(parent not in parents for parent in named) else []
    if kind == "Stop":
        # A fault that is only recorded: a Stop without an answer still stops.
        if not any(earlier.type == "Answer" and earlier.runs for earlier in graph):
            faults.append(NodeFault.STOPS_UNANSWERED)
    elif not instruction:
        faults.append(NodeFault.NO_INSTRUCTION)
    elif any(
        (kind, wording(instruction)) == (earlier.type, wording(earlier.instruction))
        and set(node.parents) <= set(earlier.parents)
        for earlier in graph
    ):
        faults.append(NodeFault.REPEATED)
    return replace(node, faults=tuple(faults))


def content_of(node: PlanNode, outcome: Message | None) -> str:
    """Returns a node's content: the question, the retrieved facts, or the answer; empty for one that does nothing."""
    if not node.runs or node.type == "Stop":
        return ""
    if node.type == "Question":
        return node.instruction
    if node.type == "Answer":
        return UNKNOWN if outcome is None or outcome.answer is None else outcome.answer
    return " ".join(outcome.values(FieldKind.SUMMARY)) or NOTHING if outcome else NOTHING
