"""Reads the load of a broker under the extensible load manager (PIP-192), without a load report.

`ExtensibleLoadManagerWrapper.generateLoadReport` throws `UnsupportedOperationException` (4.0.7).
Other endpoints have the same figures, and of all bundles, while the load-data topics have only the
busiest ones. `broker-stats/topics` has every loaded topic by bundle. `broker-stats/metrics`, or
`/metrics/` where that is unavailable, has the host's usage (`pulsar_lb_*`, per cent). A request for
metrics makes the broker take one more sample for its averages
(`ExtensibleLoadManagerImpl.getMetrics`), so they are requested once for each measurement.
"""

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from counterpoise.load.fields import LoadDataError, read_integer, read_number, read_object
from counterpoise.load.measured import COUNTS, Measured, Row, bundle_columns, expect_bundles
from counterpoise.load.rows import RATES
from counterpoise.pipeline.collect.admin import UNREADABLE, Admin, RefusedError

TOPIC_RATES = {
    "msg_rate_in": "msgRateIn",
    "msg_rate_out": "msgRateOut",
    "msg_throughput_in": "msgThroughputIn",
    "msg_throughput_out": "msgThroughputOut",
}
_RESOURCES = {
    "cpu": "cpu",
    "memory": "memory",
    "directMemory": "direct_memory",
    "bandwidth_in": "bandwidth_in",
    "bandwidth_out": "bandwidth_out",
}
_USAGE = re.compile(
    rb"^pulsar_lb_(" + b"|".join(name.encode() for name in _RESOURCES) + rb")_usage"
    rb"(?:\{[^}\n]*\})?\s+(\S+)",
    re.MULTILINE,
)
_AVERAGE = re.compile(
    rb'^pulsar_lb_resource_usage\{[^}\n]*feature="max_ema"[^}\n]*\}\s+(\S+)', re.MULTILINE
)


async def fetch_topics(admin: Admin, address: str) -> bytes:
    """The body of `broker-stats/topics`: the statistics of every loaded topic of a broker."""
    return await admin.get(f"{address}/admin/v2/broker-stats/topics", of_itself=True)


async def fetch_usage(admin: Admin, address: str) -> Row:
    """Read a broker's usage of its host, the limits, and the broker's own average of that usage.

    The keys are names of `rows.COLUMNS`. The leader decides by that average: a fraction, 0 if the
    broker reports none.
    """
    try:
        body = await admin.get(f"{address}/admin/v2/broker-stats/metrics", of_itself=True)
        return usage_of_json(body)
    except UNREADABLE:
        return usage_of_text(await admin.get(f"{address}/metrics/", of_itself=True))


def _fraction(figure: Any) -> float:
    """Return a figure as a number; 0 if it is not a finite, non-negative one."""
    try:
        found = float(figure)
    except (TypeError, ValueError):
        return 0.0
    return found if math.isfinite(found) and found >= 0 else 0.0


def usage_of_text(body: bytes) -> Row:
    """Host usage, and the broker's own average of it, from the Prometheus text of `/metrics/`."""
    found = {name.decode(): value.decode() for name, value in _USAGE.findall(body)}
    average = _AVERAGE.search(body)
    return _usage(found, _fraction(average and average[1].decode()))


def usage_of_json(body: bytes) -> Row:
    """Host usage, and the broker's own average of it, from the body of `broker-stats/metrics`."""
    try:
        groups = orjson.loads(body)
        found: dict[str, Any] = {}
        average = 0.0
        for group in groups:
            if group.get("dimensions", {}).get("feature") == "max_ema":
                average = _fraction(group["metrics"].get("brk_lb_resource_usage"))
            for name, value in group["metrics"].items():
                if name.startswith("brk_lb_") and name.endswith("_usage"):
                    found[name[7:-6]] = value
    except (orjson.JSONDecodeError, TypeError, KeyError, AttributeError):
        raise RefusedError("the metrics are not those of a broker") from None
    return _usage(found, average)


def _usage(found: Mapping[str, Any], average: float) -> Row:
    missing = [name for name in _RESOURCES if name not in found]
    if missing:
        raise RefusedError(f"the metrics have no pulsar_lb_{missing[0]}_usage")
    row: Row = {"load_average": average}
    for name, ours in _RESOURCES.items():
        try:
            row[f"{ours}_usage"] = float(found[name])
        except (TypeError, ValueError):
            raise LoadDataError(f"pulsar_lb_{name}_usage", "a number", found[name]) from None
        row[f"{ours}_limit"] = 100.0
    return row


def parse(body: bytes, broker: str, known: Row) -> Measured:
    """A broker's load from the body of `broker-stats/topics`; `known` has the columns that are not
    in the body (usage, version, …).

    Raises `RefusedError` or `LoadDataError`.
    """
    what = f"broker-stats/topics of {broker}"
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise RefusedError(f"{what} is not JSON: {error}") from None
    names: list[str] = []
    rates: dict[str, list[float]] = {name: [] for name in RATES}
    counts: dict[str, list[int]] = {name: [] for name in COUNTS}
    for name, loaded in topics_by_bundle(document, what):
        names.append(name)
        topics = loaded.values()
        for ours, theirs in TOPIC_RATES.items():
            values = (read_number(each.get(theirs, 0.0), f"{what}: {theirs}") for each in topics)
            rates[ours].append(sum(values))
        counts["topics"].append(len(topics))
        producers = (each.get("producerCount", 0) for each in topics)
        counts["producers"].append(
            sum(read_integer(n, f"{what}: producerCount") for n in producers)
        )
        counts["consumers"].append(sum(_consumers(each, what) for each in topics))
        counts["cache_size"].append(0)
    expect_bundles(names, what)
    totals: Row = {name: float(sum(each)) for name, each in rates.items()}
    totals |= {name: sum(counts[name]) for name in ("topics", "producers", "consumers")}
    row = {
        "persistent_topics": True,
        "non_persistent_topics": True,
        **known,
        **totals,
        "bundles": len(names),
    }
    return Measured.of(row, bundle_columns(names, rates, counts), 0)


def topics_by_bundle(
    document: object, what: str
) -> Iterator[tuple[str, Mapping[str, Mapping[str, Any]]]]:
    """Each bundle of a `broker-stats/topics` document, with the figures of its topics by name.

    `what` names the document in errors; raises `LoadDataError`.
    """
    for namespace, ranges in read_object(document, what).items():
        for bundle, domains in read_object(ranges, f"{what}: {namespace}").items():
            name = f"{namespace}/{bundle}"
            found: dict[str, Mapping[str, Any]] = {}
            for topics in read_object(domains, f"{what}: {name}").values():
                for topic, figures in read_object(topics, f"{what}: {name}").items():
                    found[topic] = read_object(figures, f"{what}: {topic}")
            yield name, found


def _consumers(topic: Mapping[str, Any], what: str) -> int:
    subscriptions = read_object(topic.get("subscriptions", {}), f"{what}: subscriptions")
    return sum(
        len(read_object(each, f"{what}: {name}").get("consumers") or ())
        for name, each in subscriptions.items()
    )
