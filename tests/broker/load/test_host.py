"""A broker's own share of its host."""

import itertools
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from counterpoise.broker.base.traffic import Traffic
from counterpoise.broker.load.host import (
    ProcessUsage,
    SharedProcess,
    available_cores,
    memory_limit_bytes,
    nic_speed_gbps,
)


class Wire:
    """Counts bytes, as a listener does."""

    def __init__(self, process: SharedProcess) -> None:
        self.bytes_in = self.bytes_out = 0
        process.join(self.traffic)

    def traffic(self) -> Traffic:
        return Traffic(self.bytes_in, self.bytes_out)


def burn(count: int = 300_000) -> int:
    return sum(itertools.islice(itertools.cycle((1, 2, 3)), count))


def test_network_is_kilobits_a_second_against_the_nic() -> None:
    process = SharedProcess()
    wire = Wire(process)
    usage = ProcessUsage(wire.traffic, process, nic_gbps=3.0)
    first = usage.measure(10.0)
    assert (first.bandwidth_in.usage, first.cpu.usage) == (0.0, 0.0)
    wire.bytes_in, wire.bytes_out = 1_000_000, 500_000
    after = usage.measure(12.0)
    assert (after.bandwidth_in.usage, after.bandwidth_out.usage) == (4000.0, 2000.0)
    assert after.bandwidth_in.limit == 3_000_000.0


def test_cpu_is_the_process_time_against_one_core() -> None:
    process = SharedProcess()
    wire = Wire(process)
    usage = ProcessUsage(wire.traffic, process, nic_gbps=1.0)
    usage.measure(0.0)
    me = psutil.Process()
    before = sum(me.cpu_times()[:2])
    while sum(me.cpu_times()[:2]) <= before:
        burn()
    cpu = usage.measure(1.0).cpu
    assert cpu.usage > 0
    assert cpu.limit <= 100.0
    assert usage.measure(2.0).memory.usage > 1.0


def test_brokers_of_one_process_share_it_by_the_bytes_they_handled() -> None:
    process = SharedProcess()
    busy, idle = Wire(process), Wire(process)
    usages = [ProcessUsage(wire.traffic, process, nic_gbps=1.0) for wire in (busy, idle)]
    even = [usage.measure(0.0).memory.usage for usage in usages]
    assert even[0] == pytest.approx(even[1], rel=0.1)
    busy.bytes_in, idle.bytes_out = 900, 100
    uneven = [usage.measure(1.0).memory.usage for usage in usages]
    assert uneven[0] == pytest.approx(9 * uneven[1], rel=0.1)
    process.leave(idle.traffic)
    process.leave(idle.traffic)
    busy.bytes_in += 100
    assert usages[0].measure(2.0).memory.usage == pytest.approx(sum(even), rel=0.1)


@pytest.mark.parametrize(
    ("text", "cores"),
    [("150000 100000\n", 1.5), ("max 100000\n", None), ("nonsense", None), (None, None)],
)
def test_a_cpu_quota_is_the_limit_where_there_is_one(
    tmp_path: Path, text: str | None, cores: float | None
) -> None:
    unlimited = available_cores(tmp_path)
    if text is not None:
        (tmp_path / "cpu.max").write_text(text)
    assert available_cores(tmp_path) == min(unlimited, cores or unlimited)


def test_a_memory_limit_is_the_limit_where_there_is_one(tmp_path: Path) -> None:
    whole = memory_limit_bytes(tmp_path)
    (tmp_path / "memory.max").write_text("max\n")
    assert memory_limit_bytes(tmp_path) == whole
    (tmp_path / "memory.max").write_text("1048576\n")
    assert memory_limit_bytes(tmp_path) == 1048576


@pytest.mark.parametrize(
    ("speeds", "gbps"),
    [
        ({"lo": 65536, "docker0": 10000, "veth1": 10000, "br-1": 10000, "eth0": 25000}, 25.0),
        ({"eth0": 1000, "eth1": 10000, "eth2": 0}, 11.0),
        ({"lo": 65536}, 10.0),
    ],
)
def test_the_speed_of_the_host_is_that_of_its_physical_interfaces(
    monkeypatch: pytest.MonkeyPatch, speeds: dict[str, int], gbps: float
) -> None:
    found = {name: SimpleNamespace(isup=True, speed=speed) for name, speed in speeds.items()}
    found["eth9"] = SimpleNamespace(isup=False, speed=100_000)
    monkeypatch.setattr(psutil, "net_if_stats", lambda: found)
    assert nic_speed_gbps() == gbps


def test_memory_is_mebibytes() -> None:
    process = SharedProcess()
    memory = ProcessUsage(Wire(process).traffic, process).measure(0.0).memory
    assert memory.limit == memory_limit_bytes() / 1024**2


def test_a_broker_that_counted_more_bytes_than_all_brokers_before_has_the_whole_process() -> None:
    """The bytes of all brokers are read a moment before its own."""
    process = SharedProcess()
    process.join(lambda: Traffic(1000, 0))
    received = itertools.count(2000, 2000)
    usage = ProcessUsage(lambda: Traffic(next(received), 0), process, nic_gbps=1.0)
    alone = SharedProcess()
    whole = ProcessUsage(Wire(alone).traffic, alone, nic_gbps=1.0)
    usage.measure(0.0)
    process.join(lambda: Traffic(500, 0))
    assert usage.measure(1.0).memory.usage == pytest.approx(
        whole.measure(1.0).memory.usage, rel=0.5
    )


def test_a_broker_that_has_left_its_process_is_measured_as_if_it_were_alone() -> None:
    """Its last report may be made when it has left."""
    process = SharedProcess()
    wire = Wire(process)
    usage = ProcessUsage(wire.traffic, process, nic_gbps=1.0)
    alone = usage.measure(0.0).memory.usage
    process.leave(wire.traffic)
    assert usage.measure(1.0).memory.usage == pytest.approx(alone, rel=0.5)
