"""Reads a data set as a run does, in bounded time and memory, and names the outcome."""

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from actors.errors import UserError, visible
from experiments.datasets.catalogue import dataset_kind
from experiments.datasets.kind import DataRequest, DataSettings

SECONDS = 60  # of a processor
WAITED = 10 * SECONDS  # of the clock: of what waits for ever, and not for a busy or halted machine
MEMORY = 1 << 29  # bytes beyond what the process has already


class TooLong(BaseException):
    """Not an Exception, so that no loader takes it for one of its own."""


@contextmanager
def bounded(memory: int = MEMORY) -> Iterator[None]:
    def stop(number: int, frame: FrameType | None) -> None:
        raise TooLong

    before = {number: signal.signal(number, stop) for number in (signal.SIGALRM, signal.SIGPROF)}
    limits = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + memory, limits[1]))
    signal.setitimer(signal.ITIMER_REAL, WAITED)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        yield
    finally:
        for timer in (signal.ITIMER_REAL, signal.ITIMER_PROF):
            signal.setitimer(timer, 0)
        for number, handler in before.items():
            signal.signal(number, handler)
        resource.setrlimit(resource.RLIMIT_AS, limits)


def outcome(kind: str, root: Path, cache: Path) -> str:
    """`loaded`, `refused`, or what went wrong."""
    settings = DataSettings(kind, str(root), 2)
    request = DataRequest(settings, cache, train=2, held_out=2, seed=0, whole_corpus=True)
    try:
        with bounded():
            dataset = dataset_kind(kind).open(request)
            items = [*dataset.train(), *dataset.evaluate()]
            sources = list(dataset.corpus())
            if triples := getattr(dataset, "triples", None):
                sources += list(triples())
            for item in items:
                dataset.score(item, "12")
            # What follows writes these down, and takes two of one id for one.
            repr((items, sources)).encode()
            for source in sources:
                "\0".join(str(getattr(source, name, "")) for name in ("id", "doc", "text", "title")).encode()
            ids = [item.question.id for item in items]
            images = [image for source in sources if (image := getattr(source, "image", None))]
            outside = [image for image in images if _is_outside(image, root, cache)]
    except UserError as error:
        text = str(error)
        if visible(text) != text:
            return f"not one printable line: {text!r}"
        return "refused" if str(root) in text or "data." in text else f"the file is not named: {text}"
    except TooLong:
        return f"longer than {SECONDS} s"
    except BaseException as error:
        return f"{type(error).__name__}: {str(error)[:200]}"
    if outside:
        return f"a picture outside: {outside[0]}"
    if len(set(ids)) < len(ids) or not all(gold.strip() for item in items for gold in item.gold):
        return "taken: an id twice, or an empty gold answer"
    return "loaded" if items else "taken: no questions"


def _is_outside(image: str, root: Path, cache: Path) -> bool:
    real = Path(image).resolve()
    return not (real.is_relative_to(root.resolve()) or real.is_relative_to(cache.resolve()))
