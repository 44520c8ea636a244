"""Milliseconds per request of the embedded reader, as nine agents times samples times rounds call it.

    python -m tests.instruments.benchmarks.reader [--questions 50] [--requests 60]

Each question has eight passages of some sixty words, a table of eight rows and eight described pictures; every request
hears six colleagues. The last line is one JSON object.
"""

import argparse
import json
import time
from random import Random

from actors.agents.roles import DECISION, TEXTUAL, VISUAL
from actors.messages import Heard, Kind, Message, Modality, Question, Request, Source, Turn
from actors.prompting.prompt import build_request
from actors.reader.reader import Reader, ReaderSettings

SYLLABLES = ("ka", "lo", "mi", "ren", "tas", "vel", "dor", "nim", "pol", "gra")


def evidence(rng: Random) -> tuple[Source, ...]:
    def name() -> str:
        return " ".join("".join(rng.choices(SYLLABLES, k=2)).title() for _ in range(2))

    names = [name() for _ in range(8)]
    passages = [
        Source(
            f"p{i}",
            f"p{i}",
            Kind.TEXT,
            one,
            " ".join(f"{one} met {name()} in {name()} in {1900 + k}." for k in range(7)),
        )
        for i, one in enumerate(names)
    ]
    rows = [
        Source(f"t:{i}", "t", Kind.TABLE, "Films of the year", f"Film = {one}; Year = {1950 + i}; Director = {name()}")
        for i, one in enumerate(names)
    ]
    colours = ("red", "green", "blue")
    pictures = [
        Source(
            f"i{i}", f"i{i}", Kind.IMAGE, one, f"The poster shows two {rng.choice(colours)} boats and a dog.", "x.png"
        )
        for i, one in enumerate(names)
    ]
    return (*passages, *rows, *pictures)


def requests(number: int, each: int) -> list[Request]:
    rng = Random(0)
    made = []
    for q in range(number):
        sources = evidence(rng)
        asked = f"Who directed the film of {1950 + q % 8} whose poster shows blue boats?"
        question = Question(f"q{q}", asked, (), sources)
        heard = tuple(
            Heard(Message(f"m{k}", f"x{k}", 1, f'[{s.id}] "{s.title}: {s.text[:60]}"', s.title, 0.5), 1 / 6)
            for k, s in enumerate(rng.sample(sources, 6))
        )
        for k in range(each):
            role = (*TEXTUAL, *VISUAL, DECISION)[k % (len(TEXTUAL) + len(VISUAL) + 1)]
            turn = Turn(f"d{q}", question, role.name, 2, q * each + k, heard)
            made.append(build_request(turn, Modality(role.modality), role.instruction))
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--questions", type=int, default=50)
    parser.add_argument("--requests", type=int, default=60, help="per question")
    arguments = parser.parse_args()
    asked = requests(arguments.questions, arguments.requests)
    reader = Reader(ReaderSettings())
    start, cpu = time.perf_counter(), time.process_time()
    tokens = sum(reader.read(request).prompt_tokens for request in asked)
    report = {
        "requests": len(asked),
        "prompt_tokens_each": tokens / len(asked),
        "wall_ms_each": 1000 * (time.perf_counter() - start) / len(asked),
        "cpu_ms_each": 1000 * (time.process_time() - cpu) / len(asked),
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
