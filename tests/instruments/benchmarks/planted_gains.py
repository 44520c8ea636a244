"""Counts the gains over twins and placebos that are claimed in simulated studies, with and without a gain.

    python -m tests.instruments.benchmarks.planted_gains [--studies 1000]

The last line is one JSON object: by world and number of questions, the shares of studies that claim a coordination
gain, a hearing gain, either of them, and a loss in either.
"""

import argparse
import json

from tests.support.planted_gains import World, drawn_scores, gains

WORLDS = {
    "no gain": World(),
    "no gain, questions alike": World(spread=20),
    "no gain, questions easy or hard": World(spread=0.1),
    "gain .10 by hearing anything": World(any=0.1),
    "gain .10 by hearing colleagues": World(own=0.1),
    "gain .15 by hearing colleagues": World(own=0.15),
    "gain .20 by hearing colleagues": World(own=0.2),
}


def measure(studies: int) -> dict[str, dict[str, float]]:
    rows = {}
    for name, world in WORLDS.items():
        for questions in (100, 300):
            counts = dict.fromkeys(("coordination", "hearing", "either", "loss"), 0)
            for seed in range(studies):
                coordination, hearing = (test["verdict"] for test in gains(drawn_scores(world, questions, seed), seed))
                counts["coordination"] += coordination == "better"
                counts["hearing"] += hearing == "better"
                counts["either"] += "better" in (coordination, hearing)
                counts["loss"] += "worse" in (coordination, hearing)
            key = f"{name}, {questions} questions"
            rows[key] = {claim: count / studies for claim, count in counts.items()}
            print(f"{key:50} {rows[key]}", flush=True)
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=1_000)
    print(json.dumps(measure(**vars(parser.parse_args()))))
