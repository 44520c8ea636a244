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

    def repeats(self, earlier: "PlanNode") -> bool:
        """True where it asks for the same as an earlier node, with no other parents."""
        same_wording = wording(self.instruction) == wording(earlier.instruction)
        return self.type == earlier.type and same_wording and set(self.parents) <= set(earlier.parents)

    def input_line(self) -> InputLine:
        """Returns the node as the planner reads it (the Graph State Description)."""
        basis = ""
        if self.parents:
            basis = f" (from {', '.join(map(str, self.parents))})"
        faults = ""
        if self.faults:
            faults = f" [{'; '.join(self.faults)}]"
        text = f"{self.type}{basis}: {self.instruction}"
        if not self.content or self.content == self.instruction:
            return InputLine(FieldKind.NODE, f"{text}{faults}", self.number)
        return InputLine(FieldKind.NODE, text, self.number, outcome=f"{self.content}{faults}")


def placed(graph: Sequence[PlanNode], plan_turn: Message) -> PlanNode:
    """Returns the node that a planner's message adds to a graph, with its faults.

    Parents that are not there are left out; without any, a node builds on the question.
    """
    # The type is a line that no readable plan lacks.
    [kind] = plan_turn.values(FieldKind.TYPE)
    number = len(graph) + 1
    named_parents = [int(parent) for parent in re.findall(r"\d+", " ".join(plan_turn.values(FieldKind.PARENTS)))]
    parents = tuple(dict.fromkeys(parent for parent in named_parents if 1 <= parent < number))
    instruction = " ".join(plan_turn.values(FieldKind.INSTRUCTION))
    node = PlanNode(number, kind, parents or (1,), instruction)

    faults = []
    if not set(named_parents) <= set(parents):
        faults.append(NodeFault.NO_SUCH_PARENT)
    if kind == NodeType.STOP:
        # A fault that is only recorded: a Stop without an answer still stops.
        if not any(earlier.type == NodeType.ANSWER and earlier.runs for earlier in graph):
            faults.append(NodeFault.STOPS_UNANSWERED)
    elif not instruction:
        faults.append(NodeFault.NO_INSTRUCTION)
    elif any(node.repeats(earlier) for earlier in graph):
        faults.append(NodeFault.REPEATED)
    return replace(node, faults=tuple(faults))


def content_of(node: PlanNode, outcome: Message | None) -> str:
    """Returns a node's content: the question, the retrieved facts, or the answer; empty for one that does nothing."""
    if not node.runs or node.type == NodeType.STOP:
        return ""
    if node.type == NodeType.QUESTION:
        return node.instruction
    if node.type == NodeType.ANSWER:
        if outcome is None or outcome.answer is None:
            return UNKNOWN
        return outcome.answer
    if outcome is None:
        return NOTHING
    return " ".join(outcome.values(FieldKind.SUMMARY)) or NOTHING
