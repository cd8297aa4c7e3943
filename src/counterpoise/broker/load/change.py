"""Whether a load report has changed enough, by Pulsar's rules, to be published again."""

import math

import numpy as np

from counterpoise.broker.load.config import LoadReportConfig
from counterpoise.load.report import LocalBrokerData
from counterpoise.load.usage import weighted_max

MINUTE_MS = 60_000


def needs_update(
    written: LocalBrokerData, now: LocalBrokerData, now_ms: int, config: LoadReportConfig
) -> bool:
    """Whether a load report ``now`` differs enough from the last one written to be written.

    It does if the last one is older than the longest interval, or if one of these changed by more
    than the threshold: the sum of message rates, the sum of throughputs, the number of bundles
    (each relative to before), and the weighted maximal usage (in percentage points). All
    comparisons are strict.
    """
    if now_ms - written.last_update > config.max_interval_minutes * MINUTE_MS:
        return True
    changes = (
        percent_change(
            written.msg_rate_in + written.msg_rate_out, now.msg_rate_in + now.msg_rate_out
        ),
        percent_change(
            written.msg_throughput_in + written.msg_throughput_out,
            now.msg_throughput_in + now.msg_throughput_out,
        ),
        percent_change(written.num_bundles, now.num_bundles),
        100.0 * abs(_weighted_usage(written, config) - _weighted_usage(now, config)),
    )
    return any(change > config.threshold_percentage for change in changes)  # NaN never exceeds


def percent_change(before: float, after: float) -> float:
    """By how many percent a value changed; infinite from zero."""
    if before == 0:
        return 0.0 if after == 0 else math.inf
    return 100.0 * abs((before - after) / before)


def _weighted_usage(report: LocalBrokerData, config: LoadReportConfig) -> float:
    return float(weighted_max(report.percents[np.newaxis], config.weights.modular)[0])
