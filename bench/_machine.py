"""What a benchmark ran on, in one line."""

import os
import platform
from pathlib import Path


def machine() -> str:
    """Processor, cores that this process may use, memory, Python."""
    cores = len(os.sched_getaffinity(0))
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    return f"{_processor()}, {cores} cores, {memory:.0f} GiB, Python {platform.python_version()}"


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
