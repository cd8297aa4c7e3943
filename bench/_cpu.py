"""The processor time that a server takes."""

import psutil


def cpu_seconds(pid: int) -> float:
    """Processor time of a process and all below it."""
    top = psutil.Process(pid)
    times = [each.cpu_times() for each in (top, *top.children(recursive=True))]
    return sum(t.user + t.system for t in times)
