"""What tests of imports share: series, the import of them, and what is in a history then."""

import asyncio
import gzip
import json
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from counterpoise.app.main import main
from counterpoise.pipeline.tables.reports import newest_poll, read_reports
from tests.pipeline.histories import reader_of
from tests.pipeline.prometheus.fake_prometheus import FakePrometheus, playing
from tests.pipeline.prometheus.played import Series

LEADERS = Path(__file__).parents[1] / "backtest" / "leaders"
STEP_MS = 60_000
FIRST_MS = 1_700_000_040_000
BUNDLE_OF = "tenant/ns/0x00000000_0x40000000"
OTHER = "tenant/ns/0x40000000_0x80000000"


@cache
def recorded(manager: str) -> pa.Table:
    return pq.read_table(LEADERS / f"{manager}.parquet")


def iso(moment_ms: int) -> str:
    return datetime.fromtimestamp(moment_ms / 1000, UTC).isoformat()


def rates(broker: str, topic: str, values: dict[int, float], **more: str) -> list[Series]:
    """The four series of a topic, and the usage of its broker at the same moments."""
    labels = {"cluster": "c", "instance": broker, "topic": topic, **more}
    names = ("pulsar_rate_in", "pulsar_rate_out", "pulsar_throughput_in", "pulsar_throughput_out")
    host = {"cluster": "c", "instance": broker}
    usage = Series("pulsar_lb_cpu_usage", host, dict.fromkeys(values, 50.0))
    return [*(Series(name, labels, values) for name in names), usage]


def moments(*steps: int) -> list[int]:
    return [FIRST_MS + STEP_MS * step for step in steps]


def steady(broker: str, topic: str, *steps: int) -> list[Series]:
    """A topic whose figures are others at each moment."""
    return rates(broker, topic, {at: 100.0 + at % 977 for at in moments(*steps)})


async def imported(
    prometheus: FakePrometheus, history: Path, *more: str, first: int = 0, last: int = 9
) -> int:
    """The exit status of an import of some steps."""
    span = ["--from", iso(FIRST_MS + first * STEP_MS), "--to", iso(FIRST_MS + last * STEP_MS)]
    words = ["history", "import", str(history), "--prometheus", prometheus.url, *span, *more]
    async with playing(prometheus):
        words[4] = prometheus.url
        return await asyncio.to_thread(main, words)


def rows_of(history: Path, *kinds: str) -> list[dict[str, Any]]:
    reader = reader_of(history)
    parts = read_reports(reader, 0, newest_poll(reader), kinds=kinds)
    found = [row for part in parts for row in part.to_pylist()]
    return sorted(found, key=lambda row: (row["poll_id"], row["seq"]))


def boundaries_of(reports: pa.Table, at: Path) -> Path:
    """The bundles of a recording, as a file for --bundles."""
    found: dict[str, set[str]] = defaultdict(lambda: {"0x00000000", "0xffffffff"})
    for bundle in set(reports.column("bundle").to_pylist()) - {""}:
        namespace, _, bounds = bundle.rpartition("/")
        found[namespace] |= set(bounds.split("_"))
    at.write_text(json.dumps({name: sorted(points) for name, points in found.items()}))
    return at


def export(series: Sequence[Series], at: Path, steps: range) -> Path:
    """What `curl` saves of a Prometheus."""
    span = range(FIRST_MS + steps[0] * STEP_MS, FIRST_MS + steps[-1] * STEP_MS + 1, STEP_MS)
    fake = FakePrometheus(series)
    bodies = [fake.body(name, span) for name in sorted({each.name for each in series})]
    data = b"\n".join(bodies)
    at.write_bytes(gzip.compress(data) if at.suffix == ".gz" else data)
    return at
