"""The host is measured at intervals of its own, whatever the interval of reports."""

from counterpoise.broker.load import SampledUsage
from counterpoise.load.report import SystemResourceUsage
from counterpoise.load.usage import ResourceUsage


class Host:
    """Reports the time it was asked at as its CPU usage."""

    def measure(self, now_s: float) -> SystemResourceUsage:
        return SystemResourceUsage(cpu=ResourceUsage(now_s, 100.0))


def test_between_two_measurements_the_last_one_holds() -> None:
    sampled = SampledUsage(Host(), lambda: 60.0)

    def cpu_at(now_s: float) -> float:
        return sampled.measure(now_s).cpu.usage

    # The first has no rates yet, so the second comes with the next report.
    assert [cpu_at(now) for now in (0, 5, 10, 64.9)] == [0, 5, 5, 5]
    assert [cpu_at(now) for now in (65, 70, 124, 126)] == [65, 65, 65, 126]


def test_another_interval_holds_at_once() -> None:
    every = [60.0]
    sampled = SampledUsage(Host(), lambda: every[0])
    for now in (0.0, 5.0, 10.0):
        sampled.measure(now)
    every[0] = 0.0
    assert [sampled.measure(now).cpu.usage for now in (15.0, 15.5, 16.0)] == [5.0, 15.5, 16.0]
