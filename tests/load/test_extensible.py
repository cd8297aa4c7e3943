"""What brokers publish under PIP-192: their load, and their busiest bundles."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoise.load.average import BundleData, TimeAverageMessageData
from counterpoise.load.extensible import BrokerLoadData
from counterpoise.load.ranking import average_key, bundle_key, stats_key
from counterpoise.load.report import LocalBrokerData, NamespaceBundleStats, SystemResourceUsage
from counterpoise.load.topk import top_bundles
from counterpoise.load.usage import ResourceUsage

HALF = np.full(5, 0.5)


def usage(cpu: float, memory: tuple[float, float]) -> SystemResourceUsage:
    return SystemResourceUsage(
        ResourceUsage(cpu, 100.0),
        ResourceUsage(*memory),
        ResourceUsage(2.0, 100.0),
        ResourceUsage(3.0, 100.0),
        ResourceUsage(4.0, 100.0),
    )


def test_first_measurement_counts_whole_and_the_next_by_its_share() -> None:
    """BrokerLoadDataTest: all weights 0.5, history 0.75."""
    bundles = dict.fromkeys("bcde", NamespaceBundleStats())
    bundles["a"] = NamespaceBundleStats(3.0, 1.0, 4.0, 2.0, topics=6)
    report = LocalBrokerData().updated(usage(1.0, (800.0, 200.0)), bundles, 1)
    first = BrokerLoadData().updated(report, weights=HALF, history=0.75, now_ms=1)
    assert first.max_resource_usage == 0.04  # heap is not in it
    assert (first.weighted_max_ema, first.msg_throughput_ema) == (2.0, 3.0)
    assert (first.bundle_count, first.topics, first.updated_at) == (5, 6, 1)
    bundles["a"] = NamespaceBundleStats(3.0, 5.0, 4.0, 6.0, topics=6)
    report = report.updated(usage(300.0, (200.0, 200.0)), bundles, 2)
    second = first.updated(report, weights=HALF, history=0.75, now_ms=2)
    assert second.max_resource_usage == 3.0
    assert (second.weighted_max_ema, second.msg_throughput_ema) == (1.875, 5.0)


def _names(stats: dict[str, NamespaceBundleStats], most: int, **more: object) -> list[str]:
    found = top_bundles(stats, most, **more)  # type: ignore[arg-type]
    return [each.bundle_name for each in found.top_bundles_load_data]


def bundle(number: int) -> str:
    return f"my-tenant/my-namespace{number}/0x00000000_0x0FFFFFFF"


def test_the_least_busy_of_the_busiest_comes_first() -> None:
    """TopKBundlesTest.testTopBundlesLoadData, testZeroMsgThroughputBundleStats."""
    stats = {
        bundle(1): NamespaceBundleStats(100000.0, 10.0),
        bundle(2): NamespaceBundleStats(500.0, 10.0),
        bundle(3): NamespaceBundleStats(10000.0, 10.0),
        bundle(4): NamespaceBundleStats(0.0, 0.0),
    }
    assert _names(stats, 3) == [bundle(2), bundle(3), bundle(1)]
    assert _names(stats, 2) == [bundle(3), bundle(1)]
    assert _names(stats, 9) == [bundle(2), bundle(3), bundle(1)]
    assert _names(stats, 0) == []
    only_out = NamespaceBundleStats(msg_throughput_out=1.0)
    assert _names({bundle(1): only_out, bundle(2): NamespaceBundleStats(9.0)}, 2) == [bundle(1)]


@pytest.mark.parametrize(
    "namespace",
    ["pulsar/system", "pulsar/host:8080", "pulsar/standalone/host:8080", "sla-monitor/c/host:8080"],
)
def test_pulsars_own_namespaces_are_left_out(namespace: str) -> None:
    """TopKBundlesTest.testSystemNamespace."""
    stats = {
        f"{namespace}/0x00000000_0xffffffff": NamespaceBundleStats(500.0, 10.0),
        bundle(1): NamespaceBundleStats(10000.0, 10.0),
    }
    assert _names(stats, 2) == [bundle(1)]


def test_namespaces_with_policies_are_left_out_unless_they_may_be_shed() -> None:
    """TopKBundlesTest: isolation policy, anti-affinity group, and the option that lets them in."""
    stats = {
        bundle(1): NamespaceBundleStats(500.0, 10.0),
        bundle(2): NamespaceBundleStats(10000.0, 10.0),
    }
    assert _names(stats, 2, with_policies={"my-tenant/my-namespace1"}) == [bundle(2)]
    assert _names(stats, 2) == [bundle(1), bundle(2)]


@given(st.lists(st.integers(0, 9), min_size=1, max_size=1000), st.integers(1, 100))
def test_top_is_what_sorting_everything_gives(levels: list[int], most: int) -> None:
    """TopKBundlesTest.testPartitionSort, and 1,000 entries with the 100 busiest."""
    stats = {bundle(i): NamespaceBundleStats(0.0, 1e5 * (v + 1)) for i, v in enumerate(levels)}
    found = [stats[name].msg_throughput_in / 1e5 - 1 for name in _names(stats, most)]
    assert found == sorted(levels, reverse=True)[:most][::-1]


def test_stats_are_compared_in_rounded_steps() -> None:
    base = stats_key(NamespaceBundleStats(0, 149999.0, 0, 0))
    assert base == stats_key(NamespaceBundleStats(0, 50000.0, 0, 0))  # half rounds up
    assert base < stats_key(NamespaceBundleStats(0, 150000.0, 0, 0))
    assert stats_key(NamespaceBundleStats(49.9, 0, 0, 0)) == stats_key(NamespaceBundleStats())
    clients = NamespaceBundleStats(consumer_count=200, producer_count=200, topics=100)
    assert stats_key(clients)[3] == 1
    assert stats_key(NamespaceBundleStats(cache_size=199_999))[4] == 1


def test_averages_are_compared_in_steps_cut_off() -> None:
    low = TimeAverageMessageData(10, 1, 199_999.0, 0.0, 0.0, 0.0)
    assert average_key(low) == (1, 0, 0)
    assert average_key(TimeAverageMessageData(10, 1, 0.0, 0.0, 60.0, 60.0)) == (0, 0, 1)
    assert bundle_key(BundleData(low, TimeAverageMessageData())) == (1, 0, 0, 0, 0, 0)
    assert average_key(TimeAverageMessageData(10, 1, float("nan"), float("inf")))[0] == 0


def test_what_no_long_holds_is_the_nearest_that_it_holds() -> None:
    """Java's ``Math.round`` and its cast to ``long``."""
    endless = NamespaceBundleStats(0.0, float("inf"), 0.0, float("-inf"))
    assert stats_key(endless)[:2] == (2**63 - 1, -(2**63))
    huge = TimeAverageMessageData(10, 1, 1e300, -1e300, 0.0, 0.0)
    assert average_key(huge) == (2**63 - 1, -(2**63), 0)
