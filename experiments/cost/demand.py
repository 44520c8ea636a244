"""What a run asks of its processes: calls, tokens and steps, whether they are planned or were measured."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace


@dataclass(frozen=True, slots=True)
class Demand:
    """Counts of one run, or of all trials of a sweep.

    `calls` are all that agents need, `made` those that a model computes because the completion cache has no answer.
    `prompt` and `completion` are the tokens of those made; `cached` of the prompt tokens come from the model's prefix
    cache. `steps` are training steps, once for each learner that takes them; `graphs` those that are learned; `answers`
    the evaluated answers of all methods; `figures` those that are drawn. `runs` is 1, or the number of trials.
    """

    calls: float = 0.0
    made: float = 0.0
    prompt: float = 0.0
    cached: float = 0.0
    completion: float = 0.0
    steps: float = 0.0
    graphs: float = 0.0
    answers: float = 0.0
    figures: float = 0.0
    runs: float = 1.0

    def __add__(self, other: Demand) -> Demand:
        return Demand(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(Demand)))

    def times(self, factor: float) -> Demand:
        """So many runs of the same kind."""
        return Demand(*(getattr(self, f.name) * factor for f in fields(Demand)))

    @property
    def drawn(self) -> Demand:
        """The same where figures are drawn: three of each learned graph, and one of all methods of a run."""
        return replace(self, figures=3 * self.graphs + self.runs)

    @property
    def features(self) -> dict[str, float]:
        """What costs are linear functions of, by name; tokens in thousands, and without those of the prefix cache."""
        return {
            "call": self.calls,
            "made": self.made,
            "prompt": (self.prompt - self.cached) / 1000,
            "completion": self.completion / 1000,
            "step": self.steps,
            "graph": self.graphs,
            "answer": self.answers,
            "figure": self.figures,
            "run": self.runs,
        }


NOTHING = Demand(runs=0.0)
