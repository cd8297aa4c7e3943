"""From counters that only grow to rates, a bundle at a time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from counterpoise.decide.splitting import TopicLoad
from counterpoise.load.report import NamespaceBundleStats


@dataclass(frozen=True, slots=True)
class TopicCount:
    """What one loaded topic has counted since it was loaded."""

    topic: str
    bundle: str
    opened: float
    """Tells this loading of the topic from an earlier one, whose counters it does not continue."""
    msg_in: int
    bytes_in: int
    msg_out: int
    bytes_out: int
    producers: int
    consumers: int
    cache_size: int = 0


@dataclass(slots=True)
class _Sums:
    msg_in: int = 0
    bytes_in: int = 0
    msg_out: int = 0
    bytes_out: int = 0
    producers: int = 0
    consumers: int = 0
    topics: int = 0
    cache_size: int = 0


class BundleRates:
    """Remembers the last counts, so that the next ones give rates."""

    def __init__(self) -> None:
        self._last: Mapping[str, TopicCount] = {}
        self._last_s: float | None = None
        self.topics: Mapping[str, TopicLoad] = {}
        """The rates of each loaded topic, as of the last call."""

    def take(
        self, counts: Iterable[TopicCount], owned: Iterable[str], now_s: float
    ) -> dict[str, NamespaceBundleStats]:
        """Rates since the last call, of each owned bundle and each with topics, sorted by name.

        A topic that was loaded in between counts from zero. The first call has no time to divide
        by: its rates are 0.
        """
        elapsed = 0.0 if self._last_s is None else now_s - self._last_s
        sums: dict[str, _Sums] = {bundle: _Sums() for bundle in owned}
        now: dict[str, TopicCount] = {}
        loads: dict[str, TopicLoad] = {}
        per_second = 1.0 / elapsed if elapsed > 0 else 0.0
        for count in counts:
            now[count.topic] = count
            passed = _passed(count, self._last.get(count.topic))
            _add(sums.setdefault(count.bundle, _Sums()), count, passed)
            loads[count.topic] = TopicLoad(
                msg_rate_in=passed.msg_in * per_second,
                msg_rate_out=passed.msg_out * per_second,
                msg_throughput_in=passed.bytes_in * per_second,
                msg_throughput_out=passed.bytes_out * per_second,
            )
        self._last, self._last_s, self.topics = now, now_s, loads
        return {bundle: _stats(sums[bundle], per_second) for bundle in sorted(sums)}


def _passed(count: TopicCount, last: TopicCount | None) -> TopicCount:
    """What was counted since the last time; all of it when the topic was loaded since."""
    if last is None or last.opened != count.opened:
        return count
    return replace(
        count,
        msg_in=count.msg_in - last.msg_in,
        bytes_in=count.bytes_in - last.bytes_in,
        msg_out=count.msg_out - last.msg_out,
        bytes_out=count.bytes_out - last.bytes_out,
    )


def _add(into: _Sums, count: TopicCount, passed: TopicCount) -> None:
    into.msg_in += passed.msg_in
    into.bytes_in += passed.bytes_in
    into.msg_out += passed.msg_out
    into.bytes_out += passed.bytes_out
    into.producers += count.producers
    into.consumers += count.consumers
    into.cache_size += count.cache_size
    into.topics += 1


def _stats(sums: _Sums, per_second: float) -> NamespaceBundleStats:
    return NamespaceBundleStats(
        msg_rate_in=sums.msg_in * per_second,
        msg_throughput_in=sums.bytes_in * per_second,
        msg_rate_out=sums.msg_out * per_second,
        msg_throughput_out=sums.bytes_out * per_second,
        consumer_count=sums.consumers,
        producer_count=sums.producers,
        topics=sums.topics,
        cache_size=sums.cache_size,
    )
