"""How much of the prompts of a run a prefix cache would serve, counted without an engine.

    python -m tests.instruments.benchmarks.prefix_share [--tokenizer FOLDER] [--block 16]
        [--bounded 100000] [key=value ...]

A run of `experiment=mmqa_prune` in one process, with few questions unless `key=value` say otherwise (settings of the
run, such as `methods=[effects]`), in which the embedded reader answers. Every prompt that reaches the model is laid out
as the chat that an engine gets, cut into blocks of tokens, and looked up as vLLM does: as many whole blocks from its
start as a prompt before it had, the last token never. Completions that are joined (answered from the completion cache)
reach no engine and are counted apart.

By phase, "learning <method>" or "evaluating <method>":

- cached_share: of all prompt tokens, those that a cache without a bound serves; bounded_share: those that one serves
  which holds `--bounded` tokens and forgets what was used longest ago. One cache serves the whole run, as an engine's.
- prompt_tokens, computed_tokens: of prompts, and of what is left of them to compute, per question.
- joined_share: of all turns, those that a completion of another turn answers.

Without a tokenizer, four characters are a token; pictures count as Qwen2.5-VL's. The last line is one JSON object.
"""

import argparse
import json
import tempfile
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any

from actors.backends.backend import CHAT_TOKENS
from actors.backends.chat import chat
from actors.backends.model_settings import ModelSettings
from actors.messages import Abilities, Completion, Request
from actors.reader.reader import Reader, ReaderSettings
from experiments.config.loading import load
from experiments.dry_run.token_count import TokenCounter
from experiments.jobs import plan_of
from experiments.records import jsonl
from experiments.records.recorder import RunFolder
from experiments.runner import open_folder, run
from tests.support.words import joined
from topologies.learning.learned_topology import TRAINING

QUICK = ("data.limit=8", "pruning.steps=4", "wandb.mode=disabled")
PICTURE = "\x1e"  # stands for a picture in the text of a chat
Pieces = Callable[[str], Sequence[Hashable]]


class PrefixCache:
    """Blocks of tokens by all that stands before them, the least recently used going first."""

    def __init__(self, block: int, most_tokens: int | None = None) -> None:
        self._block = block
        self._most = None if most_tokens is None else most_tokens // block
        self._kept: OrderedDict[int, None] = OrderedDict()

    def serve(self, tokens: Sequence[Hashable]) -> int:
        """The tokens of a prompt that are served, a whole number of blocks; all its whole blocks are kept then."""
        # The last token is always computed: what follows it is the reply.
        blocks = list(self._chained(tokens))
        servable = blocks[: (len(tokens) - 1) // self._block]
        hits = next((place for place, key in enumerate(servable) if key not in self._kept), len(servable))
        # The last block first, so that it goes before those that it needs.
        for key in reversed(blocks):
            self._kept[key] = None
            self._kept.move_to_end(key)
        while self._most is not None and len(self._kept) > self._most:
            self._kept.popitem(last=False)
        return hits * self._block

    def _chained(self, tokens: Sequence[Hashable]) -> Iterator[int]:
        before = 0
        for start in range(0, len(tokens) - self._block + 1, self._block):
            before = hash((before, *tokens[start : start + self._block]))
            yield before


@dataclass
class Phase:
    """What a phase's prompts came to, in tokens and turns."""

    prompts: int = 0
    tokens: int = 0
    served: int = 0
    bounded: int = 0

    def report(self, turns: int, questions: int) -> dict[str, float]:
        return {
            "cached_share": round(self.served / max(self.tokens, 1), 4),
            "bounded_share": round(self.bounded / max(self.tokens, 1), 4),
            "prompt_tokens": round(self.tokens / max(questions, 1)),
            "computed_tokens": round((self.tokens - self.served) / max(questions, 1)),
            "joined_share": round(1 - self.prompts / max(turns, 1), 4),
        }


@dataclass
class Prompts:
    """Counts the prompts of a run, in the order in which they reach the model."""

    pieces: Pieces
    picture: Callable[[Any], int]
    whole: PrefixCache
    bounded: PrefixCache
    phases: dict[str, Phase] = field(default_factory=dict)

    def add(self, request: Request) -> None:
        tokens = self.tokens(request)
        phase = self.phases.setdefault(request.id.partition("/")[0], Phase())
        phase.prompts += 1
        phase.tokens += len(tokens)
        phase.served += self.whole.serve(tokens)
        phase.bounded += self.bounded.serve(tokens)

    def tokens(self, request: Request) -> list[Hashable]:
        """The prompt's tokens: those of its texts, and for each picture as many as it takes, which are its own."""
        shown = [source for source in request.images if source.image is not None]
        messages = chat(request, [{"type": "text", "text": PICTURE}] * len(shown))
        texts = "".join(f"\x1f{said['role']}\n{content(said['content'])}" for said in messages)
        tokens: list[Hashable] = [f"frame {n}" for n in range(CHAT_TOKENS)]
        for place, text in enumerate(texts.split(PICTURE)):
            if place:
                source = shown[place - 1]
                tokens += [f"{source.image} {n}" for n in range(self.picture(source))]
            tokens += self.pieces(text)
        return tokens


def content(parts: Any) -> str:
    """A chat message's content as one text."""
    return parts if isinstance(parts, str) else "".join(part["text"] for part in parts)


def in_fours(text: str) -> Sequence[Hashable]:
    """Four characters each, as the project counts where there is no tokenizer."""
    return [text[start : start + 4] for start in range(0, len(text), 4)]


def by_tokenizer(folder: str) -> Pieces:
    """The tokens of a Hugging Face tokenizer in a folder (package `tokenizers`)."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(Path(folder) / "tokenizer.json"))

    def pieces(text: str) -> Sequence[Hashable]:
        ids: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    return pieces


counted: list[Prompts] = []
"""What the model of this process counts with; a model is made by its name, so that nothing can be handed to it."""


class CountingReader:
    """The embedded reader, whose prompts are counted."""

    def __init__(self, settings: ModelSettings) -> None:
        self._reader = Reader(ReaderSettings())

    async def abilities(self) -> Abilities:
        return Abilities()

    async def complete(self, request: Request) -> Completion:
        counted[-1].add(request)
        return await self._reader.complete(request)


def measure(words: Sequence[str], pieces: Pieces, block: int = 16, bounded: int = 100_000) -> dict[str, Any]:
    """The report of one run, by phase."""
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(StringIO()):
        own = ("model=tests.instruments.benchmarks.prefix_share:CountingReader", "runtime=inline", f"output={folder}")
        config = load(joined("experiment=mmqa_prune", *QUICK, *words, *own))
        # The module that the model is found in, which is not this one where it is run as a program.
        from tests.instruments.benchmarks import prefix_share as here

        here.counted.append(Prompts(pieces, TokenCounter(plan_of(config).models.main).picture, *caches(block, bounded)))
        run(plan_of(config), run_folder := open_folder(config))
        prompts = here.counted.pop()
        return {name: prompts.phases[key].report(*held) for key, (name, held) in _phases(run_folder, prompts).items()}


def caches(block: int, bounded: int) -> tuple[PrefixCache, PrefixCache]:
    """One without a bound, and one of so many tokens."""
    return PrefixCache(block), PrefixCache(block, bounded)


def _phases(folder: RunFolder, prompts: Prompts) -> dict[str, tuple[str, tuple[int, int]]]:
    """By the method that discussions go by: the phase's name, and the turns and questions that were recorded of it."""
    found = {}
    # Learning first, whichever began first: what needs no graph is evaluated meanwhile.
    for key in sorted(prompts.phases, key=lambda key: not key.startswith(TRAINING)):
        method = key.removeprefix(TRAINING)
        learning = method != key
        files = (
            folder.learned(method).training_traces()
            if learning
            else [folder.path / "traces" / f"evaluate-{method}.jsonl"]
        )
        traces = [json.loads(line) for file in files for line in jsonl.lines(file)]
        held = sum(len(trace["turns"]) for trace in traces), len({trace["question"] for trace in traces})
        found[key] = f"{'learning' if learning else 'evaluating'} {method}", held
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokenizer", metavar="FOLDER")
    parser.add_argument("--block", type=int, default=16)
    parser.add_argument("--bounded", type=int, default=100_000, metavar="TOKENS")
    parser.add_argument("words", nargs="*", metavar="key=value")
    given = parser.parse_args()
    pieces = by_tokenizer(given.tokenizer) if given.tokenizer else in_fours
    report = measure(given.words, pieces, given.block, given.bounded)
    for name, row in report.items():
        print(f"{name:24}" + "  ".join(f"{key} {value:,}" for key, value in row.items()))
    print(json.dumps(report))
