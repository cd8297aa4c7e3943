"""The processor time and the memory of a process and all below it."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import psutil

LOOK_EVERY_S = 0.5


def cpu_seconds(pid: int) -> float:
    """Processor time of a process and all below it."""
    times = [each.cpu_times() for each in _all(pid)]
    return sum(t.user + t.system for t in times)


def memory_mb(pid: int, without: int = 0) -> float:
    """Memory of a process and all below it, in MB, but for one; what several share counts once."""
    found = 0.0
    for each in _all(pid):
        with suppress(psutil.Error):  # it ended meanwhile
            found += each.memory_full_info().pss / 1e6 if each.pid != without else 0.0
    return found


@dataclass
class Peak:
    """The most memory that was seen."""

    mb: float = 0.0


@contextmanager
def peak_memory(pid: int, without: int = 0) -> Iterator[Peak]:
    """See how much memory a process and all below it take at most while the block runs."""
    peak, over = Peak(), threading.Event()

    def look() -> None:
        while not over.wait(LOOK_EVERY_S):
            peak.mb = max(peak.mb, memory_mb(pid, without))

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        over.set()
        thread.join()


def _all(pid: int) -> list[psutil.Process]:
    top = psutil.Process(pid)
    every = [top, *top.children(recursive=True)]
    return [each for each in every if each.status() != psutil.STATUS_ZOMBIE]
