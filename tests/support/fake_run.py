"""A small run with hand-made discussions, written by the real recorder, on which reports are tested."""

import random
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from actors.messages import Message, Question, Status, Trace
from experiments.analysis.run_facts import RunFacts
from experiments.datasets.item import Item, Score
from experiments.records.recorder import LearningRecorder, Recorder, RunFolder
from experiments.records.records import LearningStep, Scored, matrix

AGENTS = ("reader", "tables", "linker", "critic", "planner", "scene", "ocr", "counter", "layout")
MODALITIES = ("text",) * 5 + ("visual",) * 4
METHODS = {"closed-book": 0.1, "single-agent": 0.35, "full-graph": 0.5, "random-graph": 0.45, "m3prune": 0.6}
FACTS = RunFacts(
    experiment="fake",
    model="reader",
    dataset="sample",
    metric="EM",
    methods=tuple(METHODS),
    pairs=(("m3prune", "full-graph"), ("m3prune", "random-graph")),
    seed=3,
)


def item(number: int) -> Item:
    return Item(Question(f"q{number:03}", f"Which tower <b>is</b> in city {number}?"), gold=(f"tower {number}",))


def trace(number: int, method: str = "m3prune", sample: int = 0, right: bool = True) -> Trace:
    """Two rounds in which each agent hears the one before it, and itself from the first round; one is not read."""
    agents = () if method in ("closed-book", "single-agent") else AGENTS
    turns: list[Message] = []
    for round_ in (1, 2):
        for i, agent in enumerate(agents):
            heard = ((f"{round_}/{agents[i - 1]}",) if i else ()) + ((f"1/{agent}",) if round_ == 2 else ())
            failed = agent == "scene" and round_ == 1 and number % 5 == 0
            turns.append(
                Message(
                    id=f"{number}/{sample}/{round_}/{agent}",
                    agent=agent,
                    round=round_,
                    # Markup and an ampersand, which reports must escape.
                    content="" if failed else f"The passage names <i>tower {number}</i> & no other.",
                    answer=None if failed else f"tower {number}",
                    confidence=None if failed else 0.75,
                    status=Status.UNPARSED if failed else Status.OK,
                    error="Answer: it is missing" if failed else "",
                    heard=tuple(f"{number}/{sample}/{h}" for h in heard),
                    calls=1,
                    prompt_tokens=400 + 10 * i + number,
                    completion_tokens=30,
                )
            )
    answer = f"tower {number}" if right else f"tower {number + 1}"
    decision = Message(f"{number}/{sample}/3/decision", "decision", 3, "Most say so.", answer, 0.9, calls=1)
    n = len(agents)
    return Trace(
        question=f"q{number:03}",
        method=method,
        sample=sample,
        agents=agents,
        turns=(*turns, decision),
        answer=answer,
        status=Status.OK,
        seed=number,
        spatial=tuple((t, i, i + 1) for t in (1, 2) for i in range(n - 1)),
        temporal=tuple((2, i, i) for i in range(n)),
        decision=agents,
    )


def cut(whole: Trace) -> Trace:
    """The same discussion, with two turns that were asked without some of their evidence."""
    left_out = {"1/reader": ("p7", "p3"), "2/scene": ("i2",)}
    turns = (replace(turn, cut=left_out.get(f"{turn.round}/{turn.agent}", ())) for turn in whole.turns)
    return replace(whole, turns=tuple(turns))


def learning_step(stage: int, step: int, steps: int) -> LearningStep:
    """Probabilities drift apart from 0.5 and the lowest go, intra blocks in stage 1 and inter blocks in stage 2."""
    # The same drift at every step, so that probabilities move steadily instead of jumping.
    generator = torch.Generator().manual_seed(7)
    drift = torch.randn(2, 9, 9, generator=generator)
    text = torch.tensor([m == "text" for m in MODALITIES])
    intra = text[:, None] == text[None, :]
    share = step / max(steps, 1)
    progress = torch.where(intra, 1.0 if stage == 2 else share, share if stage == 2 else 0.0)
    p = torch.sigmoid(2 * drift * progress)
    present = (p > 0.25) & (intra if stage == 1 else torch.ones_like(intra))
    # No spatial edge leads from an agent to itself; temporal ones are its memory.
    present[0] &= ~torch.eye(9, dtype=torch.bool)
    return LearningStep(
        stage=stage,
        step=step,
        agents=AGENTS,
        modalities=MODALITIES,
        terms={"utility": 0.4 + 0.01 * step, "rank": -0.2 - 0.01 * step, "align": 0.1 * (stage == 2)},
        edges={"spatial": int(present[0].sum()), "temporal": int(present[1].sum())},
        probabilities={
            kind: matrix(p[i].numpy(), present[i].numpy()) for i, kind in enumerate(("spatial", "temporal"))
        },
    )


def learn(recorder: LearningRecorder, steps: int, samples: int = 2) -> None:
    """Goes on from the recorder's checkpoint; the state is a sum over steps, so a step done twice or never shows."""
    done = (recorder.checkpoint.stage, recorder.checkpoint.step) if recorder.checkpoint else (0, 0)
    total = recorder.checkpoint.state["theta"] if recorder.checkpoint else np.zeros((3, 3), dtype=np.float32)
    for stage in (1, 2):
        for step in range(steps + 1):
            if (stage, step) <= done:  # stages come first: tuples compare in that order
                continue
            for sample in range(samples if step else 0):
                recorder.trained(stage, trace(100 * stage + step, sample=sample))
            total = total + stage * step
            recorder.learned(learning_step(stage, step, steps), {"theta": total})


def evaluate(recorder: Recorder, questions: int) -> None:
    for method, ability in METHODS.items():
        done = recorder.done(method)
        for number in range(questions):
            if item(number).question.id not in done:
                # Seeded by name, not drawn in turn: a run that goes on after a kill scores as a whole one.
                right = random.Random(f"{method}/{number}").random() < ability
                discussion = trace(number, method, right=right)
                recorder.evaluated(discussion, item(number), score_of(discussion))


def score_of(discussion: Trace) -> Score:
    right = discussion.answer == f"tower {int(discussion.question[1:])}"
    return Score(utility=float(right), f1=1.0 if right else 0.5)


def rescored(discussion: Trace) -> Scored:
    """Scores a discussion as `evaluate` has."""
    return Scored.of(discussion, item(int(discussion.question[1:])), score_of(discussion))


def make_run(output: Path, steps: int = 6, questions: int = 30) -> RunFolder:
    run = RunFolder.create(output, "fake")
    run.config.write_text("experiment: fake\nmodel:\n  name: reader\n")
    carry_on(run, steps, questions)
    return run


def carry_on(run: RunFolder, steps: int, questions: int) -> None:
    with Recorder(run, rescored) as recorder:
        with LearningRecorder(run.learned("m3prune")) as learning:
            learn(learning, steps)
        evaluate(recorder, questions)


if __name__ == "__main__":  # the process that tests kill
    carry_on(RunFolder.open(Path(sys.argv[1])), steps=int(sys.argv[2]), questions=int(sys.argv[3]))
