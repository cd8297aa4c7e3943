"""When a report is worth writing: the anchors of Pulsar's own unit test, and its corners."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoise.broker.load.change import MINUTE_MS, needs_update, percent_change
from counterpoise.broker.load.config import LoadReportConfig
from counterpoise.decide.weights import ResourceWeights
from counterpoise.load.report import LocalBrokerData
from counterpoise.load.usage import ResourceUsage

CONFIG = LoadReportConfig(threshold_percentage=5)
BLANK = LocalBrokerData()


def rates(rate: float) -> LocalBrokerData:
    return replace(BLANK, msg_rate_in=rate / 2, msg_rate_out=rate / 2)


def throughput(value: float) -> LocalBrokerData:
    return replace(BLANK, msg_throughput_in=value)


def bundles(count: int) -> LocalBrokerData:
    return replace(BLANK, num_bundles=count)


def cpu(used: float) -> LocalBrokerData:
    return replace(BLANK, cpu=ResourceUsage(used, 1000.0))


@pytest.mark.parametrize(
    ("written", "now", "expected"),
    [
        # ModularLoadManagerImplTest.testNeedBrokerDataUpdate, threshold 5.
        (rates(100), rates(104), False),
        (rates(100), rates(105.1), True),
        (rates(100), rates(94), True),
        (rates(100), rates(95.1), False),
        (cpu(100), cpu(106), False),
        (cpu(100), cpu(206), True),
        # The threshold itself is not exceeded.
        (rates(100), rates(105), False),
        (throughput(1000), throughput(1051), True),
        (throughput(1000), throughput(1049), False),
        (bundles(20), bundles(21), False),
        (bundles(19), bundles(20), True),
        # From nothing to something is infinitely much; from nothing to nothing is none.
        (BLANK, rates(0.001), True),
        (BLANK, bundles(1), True),
        (BLANK, BLANK, False),
        (rates(1), BLANK, True),
    ],
)
def test_anchors(written: LocalBrokerData, now: LocalBrokerData, expected: bool) -> None:
    assert needs_update(written, now, 0, CONFIG) is expected


def test_a_resource_of_weight_zero_does_not_count() -> None:
    ignoring = replace(CONFIG, weights=ResourceWeights(cpu=0.0))
    assert needs_update(cpu(100), cpu(206), 0, CONFIG)
    assert not needs_update(cpu(100), cpu(206), 0, ignoring)


def test_heap_memory_never_counts() -> None:
    used = replace(BLANK, memory=ResourceUsage(90.0, 100.0))
    weighted = replace(CONFIG, weights=ResourceWeights(memory=1.0))
    assert not needs_update(BLANK, used, 0, weighted)


def test_usage_counts_in_percentage_points_not_relative() -> None:
    assert not needs_update(cpu(10), cpu(50), 0, CONFIG), "four times as much, but 4 points"
    assert needs_update(cpu(500), cpu(560), 0, CONFIG), "only 12 % more, but 6 points"


@pytest.mark.parametrize(
    ("age_ms", "expected"), [(15 * MINUTE_MS, False), (15 * MINUTE_MS + 1, True)]
)
def test_an_old_report_is_written_again(age_ms: int, expected: bool) -> None:
    written = replace(BLANK, last_update=1_000)
    assert needs_update(written, BLANK, 1_000 + age_ms, CONFIG) is expected


@given(before=st.floats(0, 1e12), after=st.floats(0, 1e12))
def test_percent_change_is_never_negative_and_zero_only_without_change(
    before: float, after: float
) -> None:
    change = percent_change(before, after)
    assert change >= 0
    if before == after:
        assert change == 0
    if before == 0 < after:
        assert change == math.inf
