"""A bundle's initial data: what a leader stored, else its resource quota, else the default."""

import json
from typing import Any

import pytest

from counterpoise.broker.base import paths
from counterpoise.broker.load.cluster_load import ClusterLoad
from counterpoise.broker.load.registry import BrokerRegistry, write_report
from counterpoise.load.average import BundleData
from counterpoise.load.fold import FoldOptions
from counterpoise.load.report import LocalBrokerData, NamespaceBundleStats
from counterpoise.metadata import MemoryTree

BROKER = "b1:8080"
BUNDLE = "t/n/0x00000000_0xffffffff"
QUOTA = {
    "msgRateIn": 7000.0,
    "msgRateOut": 500.0,
    "bandwidthIn": 9e6,
    "bandwidthOut": 2e6,
    "memory": 80.0,
    "dynamic": True,
}
REPORTED = NamespaceBundleStats(
    msg_rate_in=10.0, msg_throughput_in=1000.0, msg_rate_out=20.0, msg_throughput_out=2000.0
)


async def first_seen(nodes: dict[str, bytes]) -> BundleData:
    """What is known of a bundle after its first report."""
    store = MemoryTree().open()
    for path, value in nodes.items():
        await store.put(path, value)
    report = LocalBrokerData(bundles=(BUNDLE,), last_stats={BUNDLE: REPORTED})
    await store.put(paths.broker(BROKER), write_report(report))
    load = ClusterLoad(
        BrokerRegistry(store, BROKER),
        store,
        clock_ms=lambda: 1_000_000,
        options=lambda: FoldOptions(forget_after_ms=60_000),
    )
    await load.refresh()
    return load.bundles()[BUNDLE]


def rates(data: Any) -> list[float]:
    return [data.msg_rate_in, data.msg_rate_out, data.msg_throughput_in, data.msg_throughput_out]


GIVEN = [QUOTA[name] for name in ("msgRateIn", "msgRateOut", "bandwidthIn", "bandwidthOut")]
SEEN = [10.0, 20.0, 1000.0, 2000.0]


async def test_001_l152_a_quota_counts_as_all_samples_there_can_be() -> None:
    found = await first_seen({paths.resource_quota(BUNDLE): json.dumps(QUOTA).encode()})
    for data, most in ((found.short_term_data, 10), (found.long_term_data, 1000)):
        assert data.num_samples == data.max_samples == most
        expected = [((most - 1) * quota + each) / most for quota, each in zip(GIVEN, SEEN)]  # noqa: B905
        assert rates(data) == pytest.approx(expected)


async def test_001_l266_stored_averages_come_before_the_quota_and_defaults_after() -> None:
    stored = {**BundleData.unseen().to_json()}
    stored["longTermData"] = {**stored["longTermData"], "numSamples": 1, "msgRateIn": 30.0}
    quota = {paths.resource_quota(BUNDLE): json.dumps(QUOTA).encode()}
    both = await first_seen({paths.bundle_data(BUNDLE): json.dumps(stored).encode(), **quota})
    assert both.long_term_data.num_samples == 2
    assert both.long_term_data.msg_rate_in == pytest.approx(20.0)
    # Of another bundle, or the default one, a quota says nothing of this.
    for other in ("t/n/0x00000000_0x80000000", "default"):
        none = await first_seen({paths.resource_quota(other): json.dumps(QUOTA).encode()})
        assert none.long_term_data.num_samples == 1
        assert rates(none.long_term_data) == SEEN


@pytest.mark.parametrize(
    "value", [b"", b"[]", b'{"msgRateIn": "x"}', b'{"msgRateIn": []}', b'{"msgRateIn": NaN}']
)
async def test_a_quota_that_cannot_be_read_is_ignored(
    value: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    found = await first_seen({paths.resource_quota(BUNDLE): value})
    assert rates(found.long_term_data) == SEEN
    assert f"ignoring the resource quota of {BUNDLE}" in caplog.text
