"""A broker's load report as rows of what polls saw."""

import json
import zlib
from typing import Any

from counterpoise.load.report import LocalBrokerData, NamespaceBundleStats
from counterpoise.load.rows import BROKER, BUNDLE, GAP, RESOURCES

Row = dict[str, Any]


def report_digest(report: LocalBrokerData) -> int:
    """CRC-32 of all that the report says."""
    return zlib.crc32(json.dumps(report.to_json(), sort_keys=True).encode())


def report_rows(
    broker: str, at_ms: int, report: LocalBrokerData, *, digest: int, fresh: bool
) -> list[Row]:
    """The row of a broker's report and, when it is fresh, those of its bundles."""
    common = {
        "broker": broker,
        "fetched_at_ms": at_ms,
        "report_at_ms": report.last_update,
        "age_ms": at_ms - report.last_update,
        "fresh": fresh,
        "digest": digest,
    }
    usage = {
        f"{name}_{part}": float(getattr(getattr(report, name), part))
        for name in RESOURCES
        for part in ("usage", "limit")
    }
    of_broker: Row = {
        **common,
        "kind": BROKER,
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
    if not fresh:
        return [of_broker]
    stats = report.last_stats.items()
    return [of_broker, *(_bundle_row(common, name, bundle) for name, bundle in stats)]


def _bundle_row(common: Row, name: str, stats: NamespaceBundleStats) -> Row:
    return {
        **common,
        "kind": BUNDLE,
        "bundle": name,
        "digest": zlib.crc32(name.encode()),
        "msg_rate_in": stats.msg_rate_in,
        "msg_rate_out": stats.msg_rate_out,
        "msg_throughput_in": stats.msg_throughput_in,
        "msg_throughput_out": stats.msg_throughput_out,
        "topics": stats.topics,
        "producers": stats.producer_count,
        "consumers": stats.consumer_count,
        "cache_size": stats.cache_size,
    }


def gap_row(broker: str, at_ms: int, reason: str) -> Row:
    """The row of a broker that is listed and could not be read."""
    return {"kind": GAP, "broker": broker, "fetched_at_ms": at_ms, "note": reason}
