"""Finds bundles that are worth a split. A split cannot be undone: Pulsar merges no bundles.

So a split is advised only for a bundle that exceeds a limit, or is too large for any broker to be
even with the others, if that has lasted a while and a boundary divides its topics.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from counterpoise.decide.advice.plan import SplitAdvice, TopicShare
from counterpoise.decide.splitting.algorithms import ALGORITHMS
from counterpoise.decide.splitting.limits import MIN_TOPICS, first_reasons, limits_of
from counterpoise.decide.splitting.loads import BundleLoads
from counterpoise.decide.splitting.options import SplitOptions
from counterpoise.decide.splitting.request import SplitRequest, points_of
from counterpoise.load.topic_loads import TopicLoad
from counterpoise.load.view import ClusterView
from counterpoise.names.bundle import (
    BundleName,
    BundleRange,
    format_boundary,
    namespace_of,
    range_of,
)
from counterpoise.names.units import bytes_text

WORTH_IT = 0.8
"""A split that leaves more than this fraction of the load in one part is not worth it."""
CLOSE_ENOUGH = 0.05
"""How much larger the larger part may be, as a fraction of the load, by one of Pulsar's algorithms
than by the best boundary. If it is larger, the boundary itself is recommended."""
REPORTS_LEAST = 5
"""How many reports of a bundle are needed to know that it stays hot."""
SHOWN = 5


@dataclass(frozen=True, slots=True)
class SplitEvidence:
    """The loads, topics and bundle counts on which advice about splits is based."""

    view: ClusterView
    connections: Mapping[str, int] = field(default_factory=dict)
    topics: Mapping[str, Mapping[str, TopicLoad]] = field(default_factory=dict)
    """By bundle and topic, the topic's load; a bundle is missing if its topics were not read."""
    bundle_counts: Mapping[str, int] = field(default_factory=dict)
    """The number of bundles by namespace; for a missing one, the reported bundles are counted."""


def hot_bundles(evidence: SplitEvidence, options: SplitOptions) -> dict[str, str]:
    """The bundles to consider for a split, the hottest first, each with a sentence why."""
    view = evidence.view
    hot: dict[str, str] = {}
    loads = _loads(evidence)
    for row, limit in first_reasons(limits_of(loads, options), loads.topics >= 0).items():
        shown = limit.shown.format(value=float(limit.values[row]), limit=float(limit.limit))
        hot[loads.bundles[row]] = f"it has {shown} ({limit.setting})"
    carried = view.bundle.short.throughput()
    mean = float(np.mean(view.broker.traffic.throughput())) if len(view.brokers) else 0.0
    if len(view.brokers) > 1 and mean > 0:
        for row in np.flatnonzero((carried > mean) & view.bundle.movable).tolist():
            alone = (
                f"alone it carries {bytes_text(float(carried[row]))}, more than the "
                f"{bytes_text(mean)} that each broker would have if all were even"
            )
            hot.setdefault(view.bundles[row], alone)
    weight = {name: float(carried[row]) for row, name in enumerate(view.bundles)}
    return {b: hot[b] for b in sorted(hot, key=lambda b: (-weight.get(b, 0.0), b))}


def advise_splits(evidence: SplitEvidence, options: SplitOptions) -> tuple[SplitAdvice, ...]:
    """A recommendation for each hot bundle: split it or not, and why."""
    return tuple(
        _advice(bundle, why, evidence, options)
        for bundle, why in hot_bundles(evidence, options).items()
    )


def _advice(bundle: str, hot: str, evidence: SplitEvidence, options: SplitOptions) -> SplitAdvice:
    view = evidence.view
    row = view.bundle_index(bundle)
    if row is None:
        raise ValueError(f"{bundle} is not in the view")
    namespace = namespace_of(bundle)
    first = view.first_reporter(row)
    broker = "" if first is None else view.brokers[first]
    carried = view.bundle.short.throughput_of(row)
    shares = _shares(evidence.topics.get(bundle, {}))
    verdict, why, algorithm, command = _verdict(bundle, row, shares, evidence, options, namespace)
    shown = tuple(TopicShare(name, round(share, 4)) for name, share in shares[:SHOWN])
    return SplitAdvice(bundle, broker, verdict, f"{hot}; {why}", carried, shown, algorithm, command)


def _verdict(
    bundle: str,
    row: int,
    shares: list[tuple[str, float]],
    evidence: SplitEvidence,
    options: SplitOptions,
    namespace: str,
) -> tuple[str, str, str, str]:
    view = evidence.view
    topics = max(int(view.bundle.topics[row]), len(shares))
    if shares and (len(shares) < MIN_TOPICS or shares[0][1] > WORTH_IT):
        name, share = shares[0]
        why = (
            f"{name} is {share:.0%} of it, and a split leaves a topic whole: more partitions "
            "of the topic divide it"
        )
        return "partition", why, "", ""
    if topics < MIN_TOPICS:
        why = f"it has {topics} topic, and a split leaves a topic whole: more partitions divide it"
        return "partition", why, "", ""
    counted = evidence.bundle_counts.get(namespace) or _counted(view, namespace)
    if counted >= options.maximum_bundles:
        why = (
            f"its namespace has {counted} bundles of {options.maximum_bundles} "
            "(loadBalancerNamespaceMaximumBundles)"
        )
        return "leave", why, "", ""
    if brief := _brief(view, row):
        return "wait", f"{brief}: a split cannot be undone, so look again first", "", ""
    if not shares:
        why = "how its load lies on its topics is not known (--admin-url asks the brokers)"
        return "wait", why, "", ""
    algorithm, boundary, larger = _best_split(bundle, evidence.topics[bundle], options)
    if larger > WORTH_IT:
        why = f"the best split leaves {larger:.0%} of it in one part, which a split is not worth"
        return "leave", why, "", ""
    why = (
        f"split at {format_boundary(boundary)} by {algorithm}, the larger part has {larger:.0%} of "
        "it; a split cannot be undone"
    )
    return "split", why, algorithm, _command(bundle, algorithm, boundary)


def _brief(view: ClusterView, row: int) -> str:
    """The reason to wait, if a bundle may be hot only for a moment; empty if it has been hot for a
    while.
    """
    reports = int(view.bundle.samples[row, 1])
    if reports < REPORTS_LEAST:
        return f"it was seen in {reports} of the {REPORTS_LEAST} reports that this takes"
    averages = view.bundle
    short, long = (each.throughput_of(row) for each in (averages.short, averages.long))
    if long < short / 2:
        return f"it carries {bytes_text(short)} now and {bytes_text(long)} in the long run"
    return ""


def _shares(topics: Mapping[str, TopicLoad]) -> list[tuple[str, float]]:
    """Each topic's part of the bundle, the largest first."""
    weights = _weights(topics)
    total = sum(weights.values())
    if total <= 0:
        return []
    ordered = sorted(weights.items(), key=lambda item: (-item[1], item[0]))
    return [(name, weight / total) for name, weight in ordered]


def _weights(topics: Mapping[str, TopicLoad]) -> dict[str, float]:
    by_bytes = {n: t.msg_throughput_in + t.msg_throughput_out for n, t in topics.items()}
    if sum(by_bytes.values()) > 0:
        return by_bytes
    return {n: t.msg_rate_in + t.msg_rate_out for n, t in topics.items()}


def _best_split(
    bundle: str, topics: Mapping[str, TopicLoad], options: SplitOptions
) -> tuple[str, int, float]:
    """The split algorithm, its boundary, and the larger part's share of the load.

    Pulsar's own algorithms are preferred where they are nearly as good as the best split.
    """
    whole = BundleName.parse(bundle).range
    weights = _weights(topics)
    points = sorted(
        (each.point, weights[name])
        for name, each in zip(topics, points_of(dict(topics)), strict=True)
    )
    best = _best_place(points, whole)
    for name in ("range_equally_divide", "topic_count_equally_divide"):
        request = SplitRequest(whole, points_of(dict(topics)))
        found = ALGORITHMS[name](request, options).boundaries
        inside = len(found) == 1 and whole.lower < found[0] < whole.upper
        if inside and _larger(points, found[0]) <= best[1] + CLOSE_ENOUGH:
            return name, found[0], _larger(points, found[0])
    return "specified_positions_divide", *best


def _best_place(points: list[tuple[int, float]], whole: BundleRange) -> tuple[int, float]:
    places = [
        left + (right - left) // 2 + 1 for (left, _), (right, _) in pairwise(points) if left < right
    ]
    inside = [at for at in places if whole.lower < at < whole.upper]
    ranked = sorted((_larger(points, at), at) for at in inside)
    return (ranked[0][1], ranked[0][0]) if ranked else (whole.lower, 1.0)


def _larger(points: list[tuple[int, float]], boundary: int) -> float:
    total = sum(weight for _, weight in points)
    left = sum(weight for point, weight in points if point < boundary)
    return max(left, total - left) / total if total > 0 else 1.0


def _command(bundle: str, algorithm: str, boundary: int) -> str:
    at = f" --split-boundaries {boundary}" if algorithm.startswith("specified") else ""
    return (
        f"pulsar-admin namespaces split-bundle {namespace_of(bundle)} --bundle {range_of(bundle)} "
        f"--unload --split-algorithm-name {algorithm}{at}"
    )


def _loads(evidence: SplitEvidence) -> BundleLoads:
    view = evidence.view
    owner = np.repeat(np.arange(len(view.brokers)), np.diff(view.offsets))
    first = dict(zip(view.members[::-1].tolist(), owner[::-1].tolist(), strict=True))
    rows = [row for row in sorted(first) if view.bundle.movable[row]]
    names = tuple(view.bundles[row] for row in rows)
    return BundleLoads(
        names,
        tuple(view.brokers[first[row]] for row in rows),
        view.bundle.topics[rows],
        np.array([evidence.connections.get(name, 0) for name in names], np.int64),
        view.bundle.long.rate()[rows],
        view.bundle.long.throughput()[rows],
    )


def _counted(view: ClusterView, namespace: str) -> int:
    return sum(namespace_of(name) == namespace for name in view.bundles)
