"""What a balancer on Spark costs while nothing happens: its share of a core, and its memory.

Three real brokers without clients report as they do; `counterpoise balance` looks every 5 s. What
its processes take (the command, its Java process and Spark's Python workers) is counted once it has
warmed up.
"""

import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import psutil

from bench._processes import memory_mb
from bench.figures import Figure
from counterpoise import Cluster
from counterpoise.app.clusters.processes import Child, ChildSpec

SHARE, BAR = 100.0, 3.0
MEMORY_BAR_MB = 500
BROKERS = 3


def run(*, quick: bool, out: Path) -> list[Figure]:
    """Warm up, then count."""
    del out
    warm_s, counted_s = (1.0, 1.0) if quick else (90.0, 180.0)
    with Cluster(brokers=BROKERS) as cluster, tempfile.TemporaryDirectory() as home:
        argv = [sys.executable, "-m", "counterpoise.app.main", "balance"]
        argv += ["--admin-url", cluster.admin_url, "--history", f"{home}/history"]
        child = Child.start(
            ChildSpec(
                name="balance",
                argv=argv,
                is_ready=lambda line: "nothing to move" in line,
                log=Path(home) / "balance.log",
            )
        )
        try:
            balancer = psutil.Process(child.pid)
            time.sleep(warm_s)
            before, began = _cpu_s(balancer), time.monotonic()
            time.sleep(counted_s)
            share = SHARE * (_cpu_s(balancer) - before) / (time.monotonic() - began)
            memory = memory_mb(child.pid)
        finally:
            child.stop()
    note = f"{BROKERS} brokers, a look every 5 s, counted for {counted_s:g} s"
    figures = [
        Figure(
            "an idle balancer",
            share,
            "% of a core",
            bar=f"<= {BAR:g} %",
            holds=share <= BAR,
            note=note,
        ),
        Figure(
            "an idle balancer's memory",
            memory,
            "MB",
            bar=f"<= {MEMORY_BAR_MB} MB",
            holds=memory <= MEMORY_BAR_MB,
            note="what processes share, once",
        ),
    ]
    # Seconds after its start a balancer is not idle yet.
    return [replace(each, bar="", holds=None) for each in figures] if quick else figures


def _cpu_s(process: psutil.Process) -> float:
    """Processor time of a process and its children, those that ended among them."""
    return sum(sum(each.cpu_times()[:4]) for each in (process, *process.children(recursive=True)))
