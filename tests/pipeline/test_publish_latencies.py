"""What publish latency is compared with, and which figures of brokers are believed."""

import asyncio
from typing import cast

import pytest

from counterpoise.decide.balancing.publish_latency import LatencyRise, PublishCounts
from counterpoise.pipeline import publish_latencies
from counterpoise.pipeline.collect.admin import Admin
from tests.waiting import until

QUICK = publish_latencies.LatencyWatchOptions(every_s=0.001, first_s=0.001)


@pytest.mark.parametrize(
    ("count", "total", "found"),
    [
        ("_count 3.0", "_sum 12.5", PublishCounts(3.0, 12.5)),
        ('_count{cluster="a"} 3 1700000000', '_sum{cluster="a"} 12.5', PublishCounts(3.0, 12.5)),
        ("_count 1\npulsar_broker_publish_latency_count 2", "_sum 8", PublishCounts(3.0, 8.0)),
        ("_count 3", "_max 8", None),
        ("_count 3", "_sum +Inf", None),
        ("_count NaN", "_sum 8", None),
        ("_count 3", "_sum soon", None),
    ],
)
def test_only_whole_finite_figures_are_counted(
    count: str, total: str, found: PublishCounts | None
) -> None:
    name = "pulsar_broker_publish_latency"
    text = f"# HELP {name}_count 9\n{name}{count}\n{name}{total}\nother_count 4\n"
    assert publish_latencies.publish_counts(text.encode()) == found


class PublishingBroker:
    """Publishes two hundred messages before it answers `/metrics/`, each as slowly as it says."""

    latency_ms = 5.0

    def __init__(self) -> None:
        self.asked = 0
        self._total_ms = 0.0

    async def get(self, _: str, *, of_itself: bool) -> bytes:
        self.asked += 1
        self._total_ms += 200 * self.latency_ms
        counts = {"count": 200 * self.asked, "sum": self._total_ms}
        return "".join(
            f"pulsar_broker_publish_latency_{name} {figure}\n" for name, figure in counts.items()
        ).encode()


async def test_latency_is_compared_with_ten_minutes_without_those_in_which_it_rose(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop, ahead = asyncio.get_running_loop(), 0.0
    now = loop.time
    monkeypatch.setattr(loop, "time", lambda: now() + ahead)
    broker, rises = PublishingBroker(), list[LatencyRise]()
    watch = publish_latencies.LatencyWatch(cast("Admin", broker), "http://{}".format, QUICK)

    async def looks_before_moves() -> int:
        before = broker.asked
        async with watch.watching(["b"], rises.append):
            return broker.asked - before

    assert await looks_before_moves() == 2
    assert await looks_before_moves() == 1, "something is known"
    ahead += publish_latencies.REMEMBERED_S / 2
    async with watch.watching(["b"], rises.append):
        ahead += publish_latencies.REMEMBERED_S / 3
        broker.latency_ms = 80.0
        await until(lambda: rises)
    assert [(rise.before_ms, rise.now_ms) for rise in rises] == [(5.0, 80.0)]
    ahead += publish_latencies.REMEMBERED_S * 3 / 4
    assert await looks_before_moves() == 2, "of what is younger it had risen"
