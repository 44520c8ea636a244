"""Counts the gains that are claimed in simulated studies, in worlds with and without a gain:

    python -m tests.instruments.planted_gains [studies]

Each row is of so many studies (1,000).
"""

import sys

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


def main(studies: int) -> None:
    """Prints the shares of studies that claim a coordination gain, a hearing gain, either, or a loss in either."""
    print(f"{'world':34}{'questions':>10}{'coordination':>14}{'hearing':>9}{'either':>8}{'loss':>7}")
    for name, world in WORLDS.items():
        for questions in (100, 300):
            found = [
                [test["verdict"] for test in gains(drawn_scores(world, questions, seed), seed)]
                for seed in range(studies)
            ]
            coordination, hearing = (sum(one[place] == "better" for one in found) for place in (0, 1))
            counts = (coordination, hearing, *(sum(word in one for one in found) for word in ("better", "worse")))
            one, two, three, four = (count / studies for count in counts)
            print(f"{name:34}{questions:>10}{one:>14.3f}{two:>9.3f}{three:>8.3f}{four:>7.3f}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000)
