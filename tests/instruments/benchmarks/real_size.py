"""What a release of official size costs: seconds to the first discussion, cold and warm, and after the last one.

    python -m tests.instruments.benchmarks.real_size <folder> [--kinds mmqa webqa ...] [--share 1] [--detail 1]

Makes the releases in `folder` (12 GB at full size) where they are not there. share: of the official numbers of
questions, documents and pictures; detail: of the bytes of a picture. MultimodalQA with `--detail 0.1` needs 3 GB.
Then, for each, in processes of their own:
- a bare read: every byte of the release's files, and JSON parsed by the standard library;
- a cold run, with an empty cache, of 20 questions and two methods in one process; a warm one, with the first's cache;
- LanceDB alone: the rows of the run's index are written to a new table and indexed again, in seconds of LanceDB;
- the lexical encoder alone, on the words of these rows;
- the decoding alone of the pictures that the cold run decoded: all that its questions can find, as a broken one has to
  be named before the first discussion.
The generated sample is run in the same way. Peak memory is that of the run's largest process. The goal of a cold run is
twice the bare read, LanceDB, the encoder and the decoding alone, without what a warm run of the sample takes; on a busy
machine compare the CPU's seconds.

The last line is one JSON object.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

import pyarrow as pa

from tests.instruments.benchmarks.real_releases import RELEASES, make_release
from tests.support.paths import ROOT

MB = 2**20
READ_BYTES = 4 * MB
SAMPLE = "sample"
QUESTIONS = 20
WORDS = ["experiment=mmqa_prune", "runtime=inline", "methods=[single,full]", f"data.limit={QUESTIONS}"]


@dataclass(frozen=True)
class Start:
    """One run. to_first, after_last: seconds before its first discussion and after its last. silent: the longest time
    without a new line from the first line, which names the run folder, to the first discussion. cpu_s: of its
    processes. peak_mb: of its largest process."""

    to_first: float
    after_last: float
    in_all: float
    silent: float
    cpu_s: float
    peak_mb: float


@dataclass(frozen=True)
class Alone:
    """A part measured by itself. cpu_s: of its threads. rows: of the index, or pictures."""

    seconds: float
    cpu_s: float
    rows: int = 0


class Clock:
    """Adds up seconds, and seconds of the CPU, of blocks."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.cpu_s = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        started = time.perf_counter()
        cpu_started = time.process_time()
        yield
        self.seconds += time.perf_counter() - started
        self.cpu_s += time.process_time() - cpu_started


def run(kind: str, root: Path | None, output: Path) -> Start:
    words = [*WORDS, f"data={kind}", f"output={output / 'runs'}", f"cache={output / 'cache'}"]
    if root:
        words.append(f"data.root={root}")
    started = time.time()
    process = subprocess.Popen(
        [sys.executable, "-u", "run.py", *words], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert process.stdout is not None
    lines: list[str] = []
    spoke: list[float] = []
    for line in process.stdout:
        lines.append(line)
        spoke.append(time.time())
    _, status, used = os.wait4(process.pid, 0)
    ended = time.time()
    if status:
        raise RuntimeError(f"{' '.join(words)}:\n{''.join(lines[-40:])}")

    folder = max((output / "runs").iterdir(), key=os.path.getmtime)
    starts: list[float] = []
    ends: list[float] = []
    for file in (folder / "timings").glob("evaluate-*.jsonl"):
        for line in file.read_text().splitlines():
            discussion = json.loads(line)
            starts.append(discussion["started"])
            last_turn = max(turn[0] + turn[1] for turn in discussion["turns"].values())
            ends.append(discussion["started"] + last_turn)

    first = min(starts)
    silent_s = [end - start for start, end in pairwise([*(moment for moment in spoke if moment < first), first])]
    return Start(
        to_first=first - started,
        after_last=ended - max(ends),
        in_all=ended - started,
        silent=max(silent_s),
        cpu_s=used.ru_utime + used.ru_stime,
        peak_mb=used.ru_maxrss / 1024,
    )


def bare_read(root: Path) -> Alone:
    """Reads every file, and parses JSON."""
    clock = Clock()
    with clock.running():
        for folder, _, names in os.walk(root):
            for name in names:
                read_file(Path(folder, name))
    return Alone(clock.seconds, clock.cpu_s)


def read_file(path: Path) -> None:
    with path.open("rb") as file:
        if path.suffix == ".jsonl":
            for line in file:
                json.loads(line)
        elif path.suffix == ".json":
            json.loads(file.read())
        else:
            while file.read(READ_BYTES):
                pass


def lance_alone(index: Path, place: Path) -> Alone:
    """Writes an index's rows to a new table and indexes it, without what reads or encodes them.

    The index is deleted once its rows are in memory, so that a disk needs room for one.
    """
    from retrieval.built_folder import BATCHES, connect
    from retrieval.embed import VECTOR, LexicalEncoder
    from retrieval.index import BATCH_ROWS, TABLE, add_indexes

    source = connect(index).open_table(TABLE)
    table = connect(place).create_table(TABLE, schema=source.schema)
    batches = list(source.search().limit(None).to_batches(BATCH_ROWS))
    shutil.rmtree(index)
    clock = Clock()
    for start in range(0, len(batches), BATCHES):
        chunk = [batch.select(source.schema.names) for batch in batches[start : start + BATCHES]]
        content = pa.Table.from_batches(chunk, source.schema)
        with clock.running():
            table.add(content)
    with clock.running():
        add_indexes(table, ("doc",), {VECTOR: LexicalEncoder()})
    return Alone(clock.seconds, clock.cpu_s, table.count_rows())


def encoder_alone(index: Path) -> Alone:
    from retrieval.built_folder import connect
    from retrieval.embed import LexicalEncoder
    from retrieval.index import BATCH_ROWS, COLUMNS, TABLE, source_of

    encoder = LexicalEncoder()
    clock = Clock()
    rows = 0
    for batch in connect(index).open_table(TABLE).search().select(list(COLUMNS)).limit(None).to_batches(BATCH_ROWS):
        sources = [source_of(row) for row in batch.to_pylist()]
        with clock.running():
            encoder.encode_sources(sources)
        rows += len(sources)
    return Alone(clock.seconds, clock.cpu_s, rows)


def decoding_alone(indexes: Path) -> Alone:
    """Decodes the pictures of a release that a run has decoded, as its manifest among the indexes names them."""
    from experiments.datasets.benchmark import check_image

    paths: list[str] = []
    for manifest in indexes.glob("release-*.json"):
        paths += json.loads(manifest.read_text())["decoded"]
    clock = Clock()
    with clock.running():
        for path in paths:
            check_image(Path(path))
    return Alone(clock.seconds, clock.cpu_s, len(paths))


def alone(part: str, *places: Path) -> Alone:
    """Measures a part in a process of its own."""
    words = [sys.executable, "-m", "tests.instruments.benchmarks.real_size", "--part", part, *map(str, places)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    return Alone(**json.loads(done.stdout.splitlines()[-1]))


def disk_mb(folder: Path) -> float:
    sizes = [path.lstat().st_size for path in folder.rglob("*") if path.is_file()]
    return sum(sizes) / MB


def measure(kind: str, folder: Path, share: float, detail: float, output: Path) -> dict[str, object]:
    """Runs a kind cold and warm, and its parts alone. Of the sample, the two runs alone."""
    shutil.rmtree(output, ignore_errors=True)
    if kind == SAMPLE:
        return {"cold": asdict(run(kind, None, output)), "warm": asdict(run(kind, None, output))}
    root = make_release(kind, folder, share, detail)
    read = alone("read", root)
    cold = run(kind, root, output)
    warm = run(kind, root, output)
    indexes = output / "cache" / "indexes"
    index = next(path for path in indexes.glob("index-*") if path.is_dir())
    cache_mb = disk_mb(output / "cache")
    encoder = alone("encoder", index)
    decoding = alone("decoding", indexes)
    lance = alone("lance", index, output / "again")
    measured = {
        "bare_read": asdict(read),
        "lance": asdict(lance),
        "encoder": asdict(encoder),
        "decoding": asdict(decoding),
        "rows": lance.rows,
        "release_mb": disk_mb(root),
        "cache_mb": cache_mb,
        "cold": asdict(cold),
        "warm": asdict(warm),
    }
    shutil.rmtree(output)
    return measured


def print_row(kind: str, measured: dict, sample: dict) -> None:
    """Prints a release's row. Its goals stand beside the sample of the same run, which has a row of its own."""
    cold = measured["cold"]
    warm = measured["warm"]
    nothing = asdict(Alone(0.0, 0.0))
    parts = [measured.get(name, nothing) for name in ("bare_read", "lance", "encoder", "decoding")]
    read = parts[0]
    allowed_s = read["seconds"] + sum(part["seconds"] for part in parts)
    allowed_cpu_s = read["cpu_s"] + sum(part["cpu_s"] for part in parts)
    cells = [
        kind,
        f"{measured.get('rows', 0):,}",
        *(f"{part['cpu_s']:.1f}" for part in parts),
        f"{cold['to_first']:.1f}",
        f"{(cold['to_first'] - sample['warm']['to_first']) / (allowed_s or 1):.2f}",
        f"{(cold['cpu_s'] - sample['warm']['cpu_s']) / (allowed_cpu_s or 1):.2f}",
        f"{warm['to_first']:.1f}",
        f"{warm['to_first'] - sample['warm']['to_first']:+.1f}",
        f"{warm['after_last']:.1f}",
        f"{cold['silent']:.1f}",
        f"{cold['cpu_s']:.1f}",
        f"{warm['cpu_s']:.1f}",
        f"{cold['peak_mb']:,.0f}",
        f"{cold['peak_mb'] - sample['warm']['peak_mb']:+,.0f}",
        f"{warm['peak_mb']:,.0f}",
        f"{measured.get('cache_mb', 0):,.0f}",
    ]
    print("".join(f"{cell:>11}" for cell in cells), flush=True)


HEADERS = (
    "release rows readCPU lanceCPU encodeCPU decodeCPU cold cold/goal CPU/goal warm -sample after silent coldCPU "
    "warmCPU coldMB -sample warmMB cacheMB"
).split()


def main(kinds: Sequence[str], folder: Path, share: float, detail: float) -> None:
    results: dict[str, dict] = {SAMPLE: measure(SAMPLE, folder, share, detail, folder / "measured")}
    print("".join(f"{header:>11}" for header in HEADERS), flush=True)
    print_row(SAMPLE, results[SAMPLE], results[SAMPLE])
    for kind in kinds:
        results[kind] = measure(kind, folder, share, detail, folder / "measured")
        print_row(kind, results[kind], results[SAMPLE])
    print(json.dumps({**results, "share": share, "detail": detail, "load": round(os.getloadavg()[0], 1)}))


PARTS = {"read": bare_read, "lance": lance_alone, "encoder": encoder_alone, "decoding": decoding_alone}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="+")
    parser.add_argument("--kinds", nargs="+", default=list(RELEASES), choices=list(RELEASES))
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--detail", type=float, default=1.0)
    parser.add_argument("--part", choices=list(PARTS))
    options = parser.parse_args()
    if options.part:
        print(json.dumps(asdict(PARTS[options.part](*options.folder))))
    else:
        main(options.kinds, options.folder[0].absolute(), options.share, options.detail)
