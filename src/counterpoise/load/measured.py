"""A broker's report as columns, whichever load manager it runs."""

import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from counterpoise.load.fields import LoadDataError
from counterpoise.load.report import LocalBrokerData
from counterpoise.load.rows import RATES, RESOURCES, TEXT, Column, Table

Row = dict[str, Any]

_BUNDLE = re.compile(r"(?:[^/]+/){2,3}0[xX][0-9a-fA-F]+_0[xX][0-9a-fA-F]+")

OF_BUNDLE = ("bundle", "digest", *RATES, "topics", "producers", "consumers", "cache_size")
COUNTS = ("topics", "producers", "consumers", "cache_size")


@dataclass(frozen=True, slots=True)
class Measured:
    """A broker's load report: its own figures by the names of `rows.COLUMNS`, and its bundles' as
    columns.

    `reported_ms` is the report's own time, 0 if it has none. `figures` is a checksum over the
    bundles' figures; host usage is left out, since a broker measures it again on every request.
    """

    broker: Row
    bundles: Table
    reported_ms: int
    figures: int

    @staticmethod
    def of(broker: Row, bundles: Table, reported_ms: int) -> "Measured":
        """Build a report and compute its checksum."""
        return Measured(broker, bundles, reported_ms, checksum(bundles))

    def with_topic_loads(self, loads: Mapping[str, str]) -> "Measured":
        """A copy with topics' loads (JSON by bundle's name) as well; the checksum is the same."""
        column = np.array([loads.get(name, "") for name in self.bundles["bundle"].tolist()], TEXT)
        return replace(self, bundles={**self.bundles, "topic_loads": column})

    @property
    def idle(self) -> bool:
        """Whether no bundle has any traffic, so that a new measurement would look the same."""
        return not any(self.bundles[name].any() for name in RATES)


def expect_bundles(names: Sequence[str], what: str) -> None:
    """Raise `LoadDataError`, which names ``what``, unless every name looks like a bundle's."""
    # First all names in one check, which is fast even for a million of them.
    together = "".join(names)
    if together.isprintable() and together.count("/0x") == together.count("_0x") == len(names):
        return
    for name in names:
        if not (name.isprintable() and _BUNDLE.fullmatch(name)):
            raise LoadDataError(what, "bundles such as tenant/namespace/0x…_0x…", name)


def bundle_columns(
    names: Sequence[str], rates: Mapping[str, Iterable[float]], counts: Mapping[str, Iterable[int]]
) -> Table:
    """The columns `OF_BUNDLE`, from bundle names and a value per bundle of each rate and count."""
    return {
        "bundle": np.array(names, TEXT),
        "digest": np.array([zlib.crc32(name.encode()) for name in names], np.int64),
        **{name: np.array(rates[name], np.float64) for name in RATES},
        **{name: np.array(counts[name], np.int64) for name in COUNTS},
    }


def checksum(bundles: Table) -> int:
    """CRC-32 of the bundles' figures, independent of their order."""
    order: Column = np.argsort(bundles["digest"], kind="stable")
    total = 0
    for name in OF_BUNDLE[1:]:
        total = zlib.crc32(bundles[name][order].tobytes(), total)
    return total


def measured_of(report: LocalBrokerData) -> Measured:
    """Convert a load report into columns."""
    return Measured.of(broker_row(report), _bundles_of(report), report.last_update)


def _bundles_of(report: LocalBrokerData) -> Table:
    rows = report.last_stats.values()
    rates = {name: [getattr(row, name) for row in rows] for name in RATES}
    counts = {
        "topics": [row.topics for row in rows],
        "producers": [row.producer_count for row in rows],
        "consumers": [row.consumer_count for row in rows],
        "cache_size": [row.cache_size for row in rows],
    }
    return bundle_columns(list(report.last_stats), rates, counts)


def broker_row(report: LocalBrokerData) -> Row:
    """The figures of a load report about the broker itself, by the names of `rows.COLUMNS`."""
    usage = {
        f"{name}_{part}": float(getattr(getattr(report, name), part))
        for name in RESOURCES
        for part in ("usage", "limit")
    }
    return {
        **usage,
        "msg_rate_in": report.msg_rate_in,
        "msg_rate_out": report.msg_rate_out,
        "msg_throughput_in": report.msg_throughput_in,
        "msg_throughput_out": report.msg_throughput_out,
        "topics": report.num_topics,
        "bundles": report.num_bundles,
        "producers": report.num_producers,
        "consumers": report.num_consumers,
        "web_service_url": report.web_service_url or "",
        "pulsar_service_url": report.pulsar_service_url or "",
        "broker_version": report.broker_version_string or "",
        "load_manager": report.load_manager_class_name or "",
        "persistent_topics": report.persistent_topics_enabled,
        "non_persistent_topics": report.non_persistent_topics_enabled,
        "started_at_ms": report.start_timestamp,
    }
