"""The usage of host resources by a broker, as it measures it itself.

Pulsar measures the whole host (or the container). Brokers that share a laptop would then all report
the same, and nothing could be balanced; so this measures the broker's own process and its own
sockets. If several brokers run in one process, each gets the share of the process's CPU and memory
that corresponds to the bytes it handled.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import psutil

from counterpoise.broker.base.traffic import Traffic
from counterpoise.load.report import SystemResourceUsage
from counterpoise.load.usage import ResourceUsage

MIB: Final = 1048576
KBIT_PER_GBIT: Final = 1_000_000.0
KBIT_PER_MBIT: Final = 1_000.0
CORES_A_BROKER_CAN_USE: Final = 1.0
"""One event loop runs on one core, however many the host has."""
UNKNOWN_NIC_GBPS: Final = 10.0
"""Gbit/s that are assumed if no network interface reports its speed, as most virtual ones don't."""


class SharedProcess:
    """The brokers that run in this process, and so share its CPU and memory."""

    def __init__(self) -> None:
        self._members: Final[list[Callable[[], Traffic]]] = []

    def join(self, traffic: Callable[[], Traffic]) -> None:
        """Add a broker; its share of the usage is its part of all brokers' traffic in bytes."""
        self._members.append(traffic)

    def leave(self, traffic: Callable[[], Traffic]) -> None:
        """Remove a broker that stops; ``traffic`` is what `join` was called with."""
        if traffic in self._members:
            self._members.remove(traffic)

    def totals(self) -> tuple[int, int]:
        """The number of brokers, and the bytes that they have sent and received in all."""
        return len(self._members), sum(each().total for each in self._members)


class HostUsage(Protocol):
    """Measures the resources that a broker uses."""

    def measure(self, now_s: float) -> SystemResourceUsage:
        """Usage since the last call (CPU, network) and at this moment (memory)."""


class SampledUsage:
    """Repeats another `HostUsage`'s measurement until its interval is over.

    A broker that has just started measures for its second report, and at its intervals from then
    on: its first measurement has no rates.
    """

    def __init__(self, host: HostUsage, every_s: Callable[[], float]) -> None:
        self._host: Final = host
        self._every_s: Final = every_s
        self._last = SystemResourceUsage()
        self._due_s: float | None = None

    def measure(self, now_s: float) -> SystemResourceUsage:
        """Return the last measurement, after measuring if that is due."""
        if self._due_s is None or now_s >= self._due_s:
            self._due_s = now_s if self._due_s is None else now_s + self._every_s()
            self._last = self._host.measure(now_s)
        else:
            # An interval that was shortened meanwhile holds at once.
            self._due_s = min(self._due_s, now_s + self._every_s())
        return self._last


@dataclass(frozen=True, slots=True)
class _Sample:
    at_s: float
    cpu_s: float
    traffic: Traffic
    everybody: int


class ProcessUsage:
    """Measures the CPU and memory of a broker's process, its part if shared, and its traffic."""

    def __init__(
        self,
        traffic: Callable[[], Traffic],
        process: SharedProcess,
        *,
        nic_gbps: float | None = None,
    ) -> None:
        self._traffic = traffic
        self._neighbours = process
        self._process = psutil.Process()
        self._cpu_limit = 100.0 * min(CORES_A_BROKER_CAN_USE, available_cores())
        self._memory_limit = memory_limit_bytes() / MIB
        self._network_limit = (nic_gbps or nic_speed_gbps()) * KBIT_PER_GBIT
        self._last: _Sample | None = None

    def measure(self, now_s: float) -> SystemResourceUsage:
        """Usage since the last call (CPU, network; at first none) and at this moment (memory)."""
        times = self._process.cpu_times()
        count, everybody = self._neighbours.totals()
        now = _Sample(now_s, times.user + times.system, self._traffic(), everybody)
        last, self._last = self._last or now, now
        per_second = 1.0 / (now_s - last.at_s) if now_s > last.at_s else 0.0
        share = _share(now, last, count)
        kbit = 8 / 1000 * per_second
        return SystemResourceUsage(
            cpu=ResourceUsage(
                100.0 * share * (now.cpu_s - last.cpu_s) * per_second, self._cpu_limit
            ),
            memory=ResourceUsage(share * self._process.memory_info().rss / MIB, self._memory_limit),
            # There is no memory outside the heap here; Pulsar's default weight of it is 0.
            direct_memory=ResourceUsage(0.0, self._memory_limit),
            bandwidth_in=ResourceUsage(
                (now.traffic.bytes_in - last.traffic.bytes_in) * kbit, self._network_limit
            ),
            bandwidth_out=ResourceUsage(
                (now.traffic.bytes_out - last.traffic.bytes_out) * kbit, self._network_limit
            ),
        )


def _share(now: _Sample, last: _Sample, count: int) -> float:
    """A broker's share of the process: its part of the bytes handled by its ``count`` brokers.

    Without traffic, all have equal shares.
    """
    everybody = now.everybody - last.everybody
    if everybody <= 0:
        return 1.0 / max(1, count)
    return min(1.0, (now.traffic.total - last.traffic.total) / everybody)


def available_cores(cgroup: Path = Path("/sys/fs/cgroup")) -> float:
    """The cores this process may use: its CPU quota, or else its affinity."""
    cores = float(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1)
    try:
        quota, period = (cgroup / "cpu.max").read_text().split()
        return min(cores, int(quota) / int(period))
    except (OSError, ValueError, ZeroDivisionError):
        return cores  # No cgroup of version 2, or "max".


def memory_limit_bytes(cgroup: Path = Path("/sys/fs/cgroup")) -> int:
    """The memory this process may use: its cgroup's limit, or else the host's."""
    total = int(psutil.virtual_memory().total)
    try:
        return min(total, int((cgroup / "memory.max").read_text()))
    except (OSError, ValueError):
        return total


def nic_speed_gbps() -> float:
    """The total speed of the host's physical interfaces; a default if they do not report it."""
    speeds = [
        each.speed
        for name, each in psutil.net_if_stats().items()
        if each.isup and each.speed > 0 and not name.startswith(("lo", "docker", "veth", "br-"))
    ]
    return sum(speeds) / KBIT_PER_MBIT if speeds else UNKNOWN_NIC_GBPS
