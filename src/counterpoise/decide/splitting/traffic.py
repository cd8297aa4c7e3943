"""``flow_or_qps_equally_divide``: splits into parts below limits of rate and bandwidth."""

from typing import NamedTuple

from counterpoise.decide.splitting.options import MEBIBYTE, SplitOptions
from counterpoise.decide.splitting.request import SplitPoints, SplitRequest, too_few_topics


class _Flow(NamedTuple):
    """Messages/s and bytes/s, each the sum of in and out."""

    rate: float
    throughput: float


def flow_or_qps_equally_divide(request: SplitRequest, options: SplitOptions) -> SplitPoints:
    """Fill each part with topics, in ring order, until the next would exceed a limit.

    Limits are ``loadBalancerNamespaceBundleMaxMsgRate`` and ``…MaxBandwidthMbytes``; nothing is cut
    while both totals are below limit * (1 + ``flowOrQpsDifferenceThresholdPercentage``). A topic
    above a limit alone gets a part of its own.

    Parity: ``FlowOrQpsEquallyDivideBundleSplitAlgorithm``. A boundary is the mean of two
    neighbouring points plus 1, so neighbours are separated. Quirk kept: of topics at the very same
    point the last one's load counts for each of them, and the boundary "between" them is one point
    past both.
    """
    if len(request.topics) <= 1:
        return too_few_topics(len(request.topics))
    points, flows, total = _busy_topics(request)
    if len(flows) < 2:
        return SplitPoints(
            (), "too_few_busy_topics", "fewer than two topics carry messages; nothing to divide"
        )
    rate_limit = options.max_msg_rate
    byte_limit = options.max_bandwidth_mbytes * MEBIBYTE
    slack = 1 + options.flow_difference_percentage / 100.0
    if total.rate < rate_limit * slack and total.throughput < byte_limit * slack:
        return SplitPoints(
            (),
            "below_limits",
            f"{total.rate:g} msg/s and {total.throughput / MEBIBYTE:g} MiB/s are below the limits "
            f"of {rate_limit} msg/s and {options.max_bandwidth_mbytes} MiB/s plus "
            f"{options.flow_difference_percentage} % (loadBalancerNamespaceBundleMaxMsgRate, "
            "loadBalancerNamespaceBundleMaxBandwidthMbytes, "
            "flowOrQpsDifferenceThresholdPercentage)",
        )
    boundaries = _fill(sorted(points), flows, rate_limit, byte_limit)
    if not boundaries:
        return SplitPoints(
            (),
            "one_part_holds_all",
            f"added up one after another, the topics never exceed {rate_limit} msg/s or "
            f"{options.max_bandwidth_mbytes} MiB/s (loadBalancerNamespaceBundleMaxMsgRate, "
            "loadBalancerNamespaceBundleMaxBandwidthMbytes); one part holds all",
        )
    return SplitPoints(
        boundaries,
        "filled_to_limits",
        f"{len(boundaries) + 1} parts, each filled up to {rate_limit} msg/s or "
        f"{options.max_bandwidth_mbytes} MiB/s (loadBalancerNamespaceBundleMaxMsgRate, "
        "loadBalancerNamespaceBundleMaxBandwidthMbytes)",
    )


def _busy_topics(request: SplitRequest) -> tuple[list[int], dict[int, _Flow], _Flow]:
    """The positions of topics with load, the load at each, and its sum."""
    points: list[int] = []
    flows: dict[int, _Flow] = {}
    rate_sum = throughput_sum = 0.0
    for point, load in request.topics:
        if load is None:
            continue
        rate = load.msg_rate_in + load.msg_rate_out
        throughput = load.msg_throughput_in + load.msg_throughput_out
        if rate <= 0 and throughput <= 0:
            continue
        points.append(point)
        flows[point] = _Flow(rate, throughput)
        rate_sum += rate
        throughput_sum += throughput
    return points, flows, _Flow(rate_sum, throughput_sum)


def _fill(
    points: list[int], flows: dict[int, _Flow], rate_limit: float, byte_limit: float
) -> tuple[int, ...]:
    """Go through the positions in order; split before each whose load no longer fits."""
    boundaries: list[int] = []
    previous = points[0]
    rate, throughput = flows[previous]
    for point in points[1:]:
        flow = flows[point]
        if rate + flow.rate > rate_limit or throughput + flow.throughput > byte_limit:
            boundaries.append(previous + (point - previous) // 2 + 1)
            rate, throughput = flow
        else:
            rate += flow.rate
            throughput += flow.throughput
        previous = point
    return tuple(boundaries)
