"""Search for paths through a knowledge graph, without the agents that judge them (MH-MMKG, section 4.1)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from actors.messages import Triple
from topologies.answers import wording

Order = Literal["breadth", "depth"]


@dataclass(frozen=True, slots=True)
class GraphPath:
    """A path: entities, each met once, and the edges between them (as many less one)."""

    entities: tuple[str, ...]
    edges: tuple[Triple, ...] = ()

    @property
    def end(self) -> str:
        """Last entity."""
        return self.entities[-1]

    def along(self, edge: Triple) -> GraphPath:
        """Extends the path by an edge. An edge followed against its direction leads to its head."""
        end = edge.tail if same(edge.head, self.end) else edge.head
        return GraphPath((*self.entities, end), (*self.edges, edge))


def same(name: str, other: str) -> bool:
    """True for names that differ in case or spaces only: they are one entity, as in the graph itself."""
    return wording(name) == wording(other)


@dataclass
class PathSearch:
    """Grows paths from a topic entity.

    `batch` gives the paths to extend, `ahead` the edges that lead on, `grow` takes the useful edges, and `judge` the
    verdicts on the new paths. An entity is met once, so that no path has a loop (Eqs. 6 and 9); of several paths to it,
    the first counts. A path that is enough is closed (Eq. 8); one without a useful edge onwards is dropped.

    Breadth first, a batch is all open paths; depth first, the path that was opened last. The search is over when no
    path is open or `paths` of them are closed. The paper sets no other limit: here no path has more than `longest`
    entities, and no more than `most` are met, without the topic.
    """

    topic: str
    order: Order = "breadth"
    paths: int = 5
    longest: int = 5
    most: int = 35

    def __post_init__(self) -> None:
        self._met = {wording(self.topic)}
        self._open: list[GraphPath] = []
        self.closed: list[GraphPath] = []

    def batch(self) -> tuple[GraphPath, ...]:
        """Takes the paths to extend off the open ones; none when the search is over."""
        if len(self.closed) >= self.paths:
            return ()
        # Depth first, `_open` is a stack, and the path opened last is on top.
        taken = self._open if self.order == "breadth" else self._open[-1:]
        self._open = self._open[: len(self._open) - len(taken)]
        return tuple(taken)

    def ahead(self, path: GraphPath, edges: Iterable[Triple], directed: bool = True) -> tuple[Triple, ...]:
        """Returns an edge to each entity not met yet. `directed` edges lead from head to tail only."""
        if len(path.entities) >= self.longest:
            return ()
        leading: dict[str, Triple] = {}
        for edge in edges:
            if same(edge.head, path.end) or (same(edge.tail, path.end) and not directed):
                end = wording(path.along(edge).end)
                if end not in self._met:
                    # Of several edges to one entity the first counts.
                    leading.setdefault(end, edge)
        return tuple(leading.values())

    def grow(self, path: GraphPath, useful: Iterable[Triple]) -> tuple[GraphPath, ...]:
        """Returns the path made longer by each useful edge to an entity not met yet (Eqs. 6 and 7)."""
        grown: list[GraphPath] = []
        for edge in useful:
            longer = path.along(edge)
            # `<=`, because `_met` holds the topic too, which the limit does not count.
            if wording(longer.end) not in self._met and len(self._met) <= self.most:
                self._met.add(wording(longer.end))
                grown.append(longer)
        return tuple(grown)

    def judge(self, verdicts: Sequence[tuple[GraphPath, bool]]) -> None:
        """Closes the paths that are enough and opens the others (Eqs. 8 and 9), the first of them to be taken first."""
        self.closed += [path for path, enough in verdicts if enough]
        going_on = [path for path, enough in verdicts if not enough]
        # Reversed for the stack, so that the first is taken first in either order.
        self._open += going_on if self.order == "breadth" else reversed(going_on)

    def result(self) -> tuple[GraphPath, ...]:
        """Returns the first `paths` closed paths, in the order in which they were closed."""
        return tuple(self.closed[: self.paths])
