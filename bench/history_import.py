"""A month of 100 brokers and 10,000 topics, imported from a Prometheus by the minute.

A day is imported and counted thirty times; with `--quick` an hour, of which starting is the larger
part. The server that plays it runs on the same cores. The anchor is what a parser of JSON takes for
the same answers, without anything else.
"""

import resource
import subprocess
import sys
import time
import urllib.error
import urllib.request
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import orjson
from tests.ports import free_ports

from bench._played_prometheus import BUNDLES, PlayedCluster
from bench.figures import Figure

BROKERS, TOPICS = 100, 10_000
BEGIN_S = 1_699_920_000
DAYS, MINUTES = 30, 1440
BAR_MINUTES = 10.0
RATE_SERIES = 4
"""Of each topic at each moment; two more at each tenth."""
SAMPLE_MINUTES = 60


def run(*, quick: bool, out: Path) -> list[Figure]:
    del out
    minutes = 60 if quick else MINUTES
    port = free_ports()
    server = subprocess.Popen(
        [sys.executable, "-m", "bench._played_prometheus", str(BROKERS), str(TOPICS), str(port)]
    )
    try:
        url = f"http://127.0.0.1:{port}"
        _ready(url)
        with TemporaryDirectory(prefix="counterpoise-bench-") as home:
            # Templates of the server are made once, and are no part of a month.
            _imported(url, Path(home) / "first", minutes=minutes)
            took_s = _imported(url, Path(home) / "history", minutes=minutes)
            size = sum(each.stat().st_size for each in (Path(home) / "history").rglob("*"))
    finally:
        server.terminate()
        server.wait()
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024 / 1e6
    times = DAYS * MINUTES / minutes
    month = took_s * times / 60
    anchor = _parsing_s() * (RATE_SERIES + 0.2) * times * minutes / SAMPLE_MINUTES / 60
    span = f"{minutes / 60:g} h"
    return [
        Figure(
            f"{DAYS} days x {BROKERS} brokers x {TOPICS:,} topics imported ({span} x {times:g})",
            month,
            "min",
            "the same answers read by orjson, one core",
            anchor,
            f"≤ {BAR_MINUTES:g} min on two cores",
            month <= BAR_MINUTES,
        ),
        Figure("the largest process of it", peak, "MB"),
        Figure("a month of the history", size * times / 1e9, "GB"),
    ]


def _imported(url: str, history: Path, *, minutes: int) -> float:
    """Seconds that an import took."""
    first, last = (
        datetime.fromtimestamp(at, UTC).isoformat()
        for at in (BEGIN_S, BEGIN_S + 60 * (minutes - 1))
    )
    words = ["history", "import", str(history), "--prometheus", url, "--from", first, "--to", last]
    began = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "counterpoise.app.main", *words, "--default-bundles", str(BUNDLES)],
        check=True,
    )
    return time.perf_counter() - began


def _parsing_s() -> float:
    """Seconds that orjson takes for an answer of an hour."""
    body = PlayedCluster(BROKERS, TOPICS).body("topic", BEGIN_S, 60, SAMPLE_MINUTES)
    began = time.process_time()
    orjson.loads(body)
    return time.process_time() - began


def _ready(url: str) -> None:
    for _ in range(100):
        try:
            urllib.request.urlopen(url, timeout=1)
        except urllib.error.HTTPError:
            return  # it answers
        except OSError:
            time.sleep(0.1)
    raise RuntimeError("the played Prometheus does not answer")
