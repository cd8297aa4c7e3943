"""Detects that publish latency has risen too far during moves, so that no further move may begin.

Brokers count their publishes and add up the latencies from their start. So the difference of two
measurements gives the exact mean of what was published between them, however rarely a broker
updates its own averages. No percentile is available that fast: Pulsar updates them once in
`statsUpdateFrequencyInSecs`.

Apache's brokers (4.0.7, `DataSketchesSummaryLogger`) truncate each latency to whole milliseconds
before they add it up, so a mean of 0 means less than one.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple


class PublishCounts(NamedTuple):
    """How many messages a broker has published since it started, and their total latency."""

    messages: float
    latency_ms: float
    """The publish latencies of all these messages, added up."""


_NOTHING: Final = PublishCounts(0.0, 0.0)
LatencyLook = Mapping[str, PublishCounts]
"""One measurement: the publish counts of each broker that reports them, by broker."""


@dataclass(frozen=True, slots=True)
class LatencyLimit:
    """How far publish latency may rise before no further move begins."""

    times: float = 2.0
    """The mean latency has to be at least this many times the mean before the moves."""
    rise_ms: float = 20.0
    """Latency must also rise by at least this many milliseconds: in a small cluster it varies by a
    few."""
    looks: int = 4
    """The mean is that of this many measurements, each of which has to show at least half of the
    rise: a garbage collection shows in one or two of them only."""
    messages: float = 100.0
    """At least this many messages must have been published in these measurements, and as many
    before the moves: latencies vary by a factor of two from message to message, and the mean of 100
    is accurate to a tenth."""


@dataclass(frozen=True, slots=True)
class LatencyRise:
    """The broker whose mean publish latency rose most during moves, with both latencies."""

    broker: str
    before_ms: float
    now_ms: float
    limit: LatencyLimit

    @property
    def figures(self) -> str:
        """The latency before and now, as text."""
        return (
            f"publish latency of {self.broker} rose from {self.before_ms:.1f} ms to "
            f"{self.now_ms:.1f} ms"
        )

    @property
    def sentence(self) -> str:
        """A sentence that says why no further move begins."""
        return (
            f"{self.figures} while bundles moved: no further move is begun "
            f"(--stop-at-latency x{self.limit.times:g})"
        )


def latency_rise(
    before: Sequence[LatencyLook], since: Sequence[LatencyLook], limit: LatencyLimit
) -> LatencyRise | None:
    """The worst rise of publish latency beyond the limit; None if moves may continue.

    `before` are the measurements before the moves, `since` those after they began, each oldest
    first. A broker that published nothing before is compared with the slowest of the others; one
    that published only a few messages is ignored.
    """
    if len(since) <= limit.looks:
        return None
    published = {broker: _total(_spans(before, broker)) for broker in _brokers(before)}
    known = [each for each in published.values() if each.messages >= limit.messages]
    slowest = max(known, key=_mean_ms, default=_NOTHING)
    rises = []
    for broker in _brokers(since[-1:]):
        before_it = published.get(broker, _NOTHING)
        usual = before_it if before_it.messages else slowest
        spans = list(_spans(since[-limit.looks - 1 :], broker))
        if usual.messages < limit.messages or len(spans) < limit.looks:
            continue
        now = _total(spans)
        usual_ms, now_ms = _mean_ms(usual), _mean_ms(now)
        rise_ms = max((limit.times - 1) * usual_ms, limit.rise_ms)
        at_each = all(span.latency_ms >= (usual_ms + rise_ms / 2) * span.messages for span in spans)
        if at_each and now.messages >= limit.messages and now_ms >= usual_ms + rise_ms:
            rises.append(LatencyRise(broker, usual_ms, now_ms, limit))
    return max(rises, key=lambda rise: rise.now_ms - rise.before_ms, default=None)


def _brokers(looks: Sequence[LatencyLook]) -> list[str]:
    return sorted({broker for look in looks for broker in look})


def _spans(looks: Sequence[LatencyLook], broker: str) -> Iterator[PublishCounts]:
    """The counts between each two measurements, if the broker published anything in between."""
    counts = [look[broker] for look in looks if broker in look]
    for first, last in pairwise(counts):
        span = PublishCounts(last.messages - first.messages, last.latency_ms - first.latency_ms)
        if span.messages > 0 and span.latency_ms >= 0:  # negative after a restart
            yield span


def _mean_ms(counts: PublishCounts) -> float:
    return counts.latency_ms / counts.messages


def _total(spans: Iterable[PublishCounts]) -> PublishCounts:
    messages = latency_ms = 0.0
    for span in spans:
        messages += span.messages
        latency_ms += span.latency_ms
    return PublishCounts(messages, latency_ms)
