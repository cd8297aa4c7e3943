"""Our own placement where brokers share a host: its processor is everybody's, bytes are not."""

import numpy as np
import pytest

from counterpoise.decide.memory import NO_MEMORY, NoMemory
from counterpoise.decide.placement.least_usage import LeastUsage
from counterpoise.decide.placement.options import PlacementOptions
from counterpoise.decide.placement.strategy import Placement
from counterpoise.load.rates import Rates
from counterpoise.load.view import BrokerColumns, BundleColumns, ClusterView

HOT, COOL = "t/n/0x00000000_0x40000000", "t/n/0x40000000_0x80000000"


def view(brokers: list[str], cpu: list[float], through: list[float]) -> ClusterView:
    """The first broker has two bundles, with three quarters and a quarter of its bytes."""
    usage = np.zeros((len(brokers), 5), np.float32)
    usage[:, 0] = cpu
    zero, bytes_in = np.zeros(len(brokers)), np.array(through)
    part = np.array([0.75, 0.25]) * through[0]
    rates = Rates(np.zeros(2), np.zeros(2), part, np.zeros(2))
    return ClusterView.from_columns(
        now_ms=1,
        brokers=brokers,
        broker=BrokerColumns.of(usage, Rates(zero, zero, bytes_in, zero), [2, *zero[1:].tolist()]),
        bundles=[HOT, COOL],
        bundle=BundleColumns.of([HOT, COOL], rates, rates),
        reported=(np.array([0, 0]), np.array([0, 1])),
    )


def placed(bundle: str, seen: ClusterView) -> Placement[NoMemory]:
    return LeastUsage().place(bundle, seen.brokers[1:], seen, NO_MEMORY, PlacementOptions())


@pytest.mark.parametrize("noise", [0.0, 0.4, -0.4])
def test_bytes_distinguish_brokers_of_one_busy_host(noise: float) -> None:
    seen = view(["h:1", "h:2", "h:3"], [99.0, 99.0 + noise, 99.0], [900.0, 100.0, 0.0])
    assert placed(HOT, seen).broker == "h:3"
    assert placed(COOL, seen).broker == "h:3"


def test_on_one_host_too_the_problem_is_not_only_moved() -> None:
    seen = view(["h:1", "h:2"], [99.0, 99.0], [900.0, 300.0])
    refused = placed(HOT, seen)
    assert refused.broker is None
    assert "would then carry 975 B/s, no less than the 900 B/s" in refused.rejections[0].sentence
    assert placed(COOL, seen).broker == "h:2"


def test_usage_distinguishes_brokers_on_hosts_of_their_own() -> None:
    seen = view(["h1:1", "h2:1", "h3:1"], [80.0, 30.0, 60.0], [900.0, 800.0, 0.0])
    assert placed(COOL, seen).broker == "h2:1"
    assert placed(HOT, seen).broker is None, "30 and three quarters of 80 is more than 80"


def test_of_equals_the_first_by_name_is_chosen() -> None:
    seen = view(["h3:1", "h2:1", "h1:1"], [80.0, 30.0, 30.0], [900.0, 100.0, 100.0])
    placed = LeastUsage().place(COOL, ["h2:1", "h1:1"], seen, NO_MEMORY, PlacementOptions())
    assert placed.broker == "h1:1"


def test_a_broker_without_figures_and_traffic_gives_no_gain_that_is_no_number() -> None:
    seen = view(["h1:1", "h2:1"], [0.0, 30.0], [0.0, 100.0])
    seen.broker.usage[0] = np.nan
    assert placed(HOT, seen).rejections[0].value == pytest.approx(0.3)
