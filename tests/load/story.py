"""Stories of load reports: what polls of a small cluster would have seen."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from counterpoise.load.measured import measured_of
from counterpoise.load.poll_rows import Fetched, Gap, poll_rows
from counterpoise.load.report import LocalBrokerData, NamespaceBundleStats, SystemResourceUsage
from counterpoise.load.rows import COLUMNS, ReportRows
from counterpoise.load.usage import ResourceUsage

Loads = Mapping[str, float]
START = 1_700_000_000_000


def stats(bytes_per_s: float, rate: float | None = None) -> NamespaceBundleStats:
    return NamespaceBundleStats(
        msg_rate_in=bytes_per_s / 100 if rate is None else rate,
        msg_throughput_in=bytes_per_s,
        msg_rate_out=bytes_per_s / 50,
        msg_throughput_out=bytes_per_s * 2,
        topics=3,
        producer_count=2,
        consumer_count=1,
    )


def report(loads: Loads, at_ms: int, nic_kbit: float = 1000.0) -> LocalBrokerData:
    bundles = {name: stats(load) for name, load in loads.items()}
    kbit = sum(loads.values()) * 8 / 1000
    usage = SystemResourceUsage(
        cpu=ResourceUsage(7.0, 200.0), bandwidth_in=ResourceUsage(kbit, nic_kbit)
    )
    return LocalBrokerData(web_service_url="http://x").updated(usage, bundles, at_ms)


def poll(
    number: float,
    brokers: Mapping[str, Loads | None],
    *,
    every_ms: int = 5000,
    repeated: Iterable[str] = (),
    trouble: str = "",
) -> ReportRows:
    """One poll's rows; a broker with None is a gap, one of `repeated` has nothing new to say.

    ``trouble`` is why no broker could be read.
    """
    poll_id = START + round(number * every_ms)
    return poll_rows(poll_id, trouble, fetched(poll_id, brokers, repeated))


def fetched(
    poll_id: int, brokers: Mapping[str, Loads | None], repeated: Iterable[str] = ()
) -> list[Fetched]:
    """The answers of one poll, as `poll` has them."""
    found = []
    for name, loads in brokers.items():
        if loads is None:
            found.append(Fetched(name, poll_id + 1, Gap("no answer")))
            continue
        said = measured_of(report(loads, poll_id - 7))
        found.append(Fetched(name, poll_id + 1, said, name not in repeated, said.reported_ms))
    return found


def joined(polls: Sequence[ReportRows]) -> ReportRows:
    """Several polls as the rows of one batch."""
    return ReportRows({name: np.concatenate([p[name] for p in polls]) for name in COLUMNS})
