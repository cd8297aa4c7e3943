"""Metrics of load balancing: the host's usage, bundles, unloads and splits.

Source: ``ModularLoadManagerImpl``, ``ExtensibleLoadManagerImpl``, ``ServiceUnitStateChannelImpl``
of 4.0.7. The state channel's series exist only under the extensible load manager.
"""

import math
from collections import Counter
from collections.abc import Iterator

from counterpoise.admin.metrics.sample import (
    MetricSample,
    broker_labels,
    by_label,
    cluster_of,
    samples_of,
)
from counterpoise.broker.face import Broker
from counterpoise.names.load_managers import EXTENSIBLE

_RESULTS = ("Success", "Failure", "Skip")
_EVENTS = ("Assign", "Split", "Unload", "Override")
_REASONS = {"Success": "Admin", "Failure": "Unknown", "Skip": "Unknown"}
"""The ``reason`` label of operations that an administrator asked for, by their result."""


def figures(broker: Broker) -> Iterator[MetricSample]:
    """The samples of load balancing on this broker."""
    report, load = broker.load_report(), broker_labels(broker, "loadBalancing")
    for name, usage in (
        ("cpu", report.cpu),
        ("memory", report.memory),
        ("directMemory", report.direct_memory),
        ("bandwidth_in", report.bandwidth_in),
        ("bandwidth_out", report.bandwidth_out),
    ):
        yield MetricSample(f"pulsar_lb_{name}_usage", load, float(usage.percent))
    if broker.config.metrics.bundles:
        yield from _bundles(broker)
    yield from _changes(broker)
    if broker.config.filters.load_manager_class == EXTENSIBLE:
        yield from _usage(broker)
        yield from _state_channel(broker)


def _bundles(broker: Broker) -> Iterator[MetricSample]:
    cluster, host, _ = broker_labels(broker, "")
    for bundle, stats in sorted(broker.load_report().last_stats.items()):
        yield from samples_of(
            "pulsar_bundle_",
            (cluster, host, ("bundle", bundle), ("metric", "bundle")),
            (
                ("msg_rate_in", stats.msg_rate_in),
                ("msg_rate_out", stats.msg_rate_out),
                ("topics_count", stats.topics),
                ("consumer_count", stats.consumer_count),
                ("producer_count", stats.producer_count),
                ("msg_throughput_in", stats.msg_throughput_in),
                ("msg_throughput_out", stats.msg_throughput_out),
            ),
        )


def _changes(broker: Broker) -> Iterator[MetricSample]:
    """The unloads, splits, placements and ownership repairs that this broker made."""
    tally = broker.tally
    unloading, splitting = (
        broker_labels(broker, each) for each in ("bundleUnloading", "bundlesSplit")
    )
    yield MetricSample("pulsar_lb_unload_broker_total", unloading, float(tally.shed_brokers))
    yield MetricSample("pulsar_lb_unload_bundle_total", unloading, float(tally.unloaded["Success"]))
    yield MetricSample("pulsar_lb_bundles_split_total", splitting, float(tally.split["Success"]))
    unloads = Counter({(result, why): tally.unloaded[result] for result, why in _REASONS.items()})
    unloads["Success", "Admin"] -= tally.ordered
    unloads.update(tally.shed)
    splits = Counter({(result, why): tally.split[result] for result, why in _REASONS.items()})
    splits["Success", "Admin"] -= tally.split_for.total()
    splits.update({("Success", why): times for why, times in tally.split_for.items()})
    for name, labels, counts in (
        ("unload_broker", unloading, unloads),
        ("bundles_split", splitting, splits),
    ):
        for (result, reason), times in sorted(counts.items()):
            yield MetricSample(
                f"pulsar_lb_{name}_breakdown_total",
                (*labels, ("result", result), ("reason", reason)),
                float(times),
            )
    yield from by_label(
        "pulsar_lb_assign_broker_breakdown_total",
        broker_labels(broker, "assign"),
        "result",
        _every(tally.assigned, _RESULTS),
    )
    owned = broker_labels(broker, "ownership")
    bundles = float(len(broker.namespaces.owned()))
    yield MetricSample("counterpoise_owned_bundles", owned, bundles)
    # Pulsar's dashboard counts a broker's bundles by the size of a cache that holds them.
    cache = (*cluster_of(broker), ("cache", "owned-bundles"))
    yield MetricSample("caffeine_cache_estimated_size", cache, bundles)
    yield MetricSample("counterpoise_ownership_repairs_total", owned, float(tally.orphans))
    yield MetricSample("counterpoise_leader", owned, float(broker.is_leader))


def _usage(broker: Broker) -> Iterator[MetricSample]:
    """The usage of this broker and, on the leader, of all brokers, as fractions of capacity."""
    load = broker_labels(broker, "loadBalancing")
    averages = broker.load_data.usage_ema() if broker.load_data is not None else {}
    yield from by_label(
        "pulsar_lb_resource_usage",
        load,
        "feature",
        (
            ("max_ema", averages.get(broker.id, 0.0)),
            ("max", broker.load_report().max_resource_usage),
        ),
    )
    if broker.is_leader and averages:
        mean = math.fsum(averages.values()) / len(averages)
        spread = math.fsum((each - mean) ** 2 for each in averages.values()) / len(averages)
        yield from by_label(
            "pulsar_lb_resource_usage_stats",
            (*broker_labels(broker, "bundleUnloading"), ("feature", "max_ema")),
            "stat",
            (("avg", mean), ("std", math.sqrt(spread))),
        )


def _state_channel(broker: Broker) -> Iterator[MetricSample]:
    tally, labels = broker.tally, broker_labels(broker, "sunitStateChn")
    prefix = "pulsar_sunit_state_chn_"
    for state in sorted({state for state, _ in tally.lookups}):
        for result in ("Total", "Failure"):
            found = (*labels, ("state", state), ("result", result))
            times = tally.lookups[state, result]
            yield MetricSample(f"{prefix}owner_lookup_total", found, float(times))
    for event in _EVENTS:
        for result in ("Total", "Failure"):
            written = (*labels, ("event", event), ("result", result))
            times = tally.published[event, result]
            yield MetricSample(f"{prefix}event_publish_ops_total", written, float(times))
    for state, times in sorted(tally.records_read.items()):
        heard = (*labels, ("event", state))
        yield MetricSample(
            f"{prefix}subscribe_ops_total", (*heard, ("result", "Total")), float(times)
        )
        # Handling a record that was read cannot fail here: it is a step of a state table.
        yield MetricSample(f"{prefix}subscribe_ops_total", (*heard, ("result", "Failure")), 0.0)
    yield from by_label(
        f"{prefix}cleanup_ops_total", labels, "result", _every(tally.cleanups, ("Failure",))
    )
    yield from by_label(
        f"{prefix}inactive_broker_cleanup_ops_total",
        labels,
        "result",
        _every(tally.cleanups, ("Success", "Skip")),
    )
    yield from samples_of(
        prefix,
        labels,
        (
            ("orphan_su_cleanup_ops_total", tally.orphans),
            ("su_tombstone_cleanup_ops_total", tally.tombstones),
            ("owned_su_total", len(broker.namespaces.owned())),
        ),
    )


def _every(counts: Counter[str], results: tuple[str, ...]) -> list[tuple[str, float]]:
    return [(result, counts[result]) for result in results]
