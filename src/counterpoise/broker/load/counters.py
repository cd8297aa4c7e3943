"""Rates by bundle from counters that only grow."""

from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from counterpoise.load.report import NamespaceBundleStats
from counterpoise.load.topic_loads import TopicLoad


class TopicCount(NamedTuple):
    """A loaded topic's counters of messages and bytes since it was loaded, and its clients."""

    topic: str
    bundle: str
    opened: float
    """When the topic was loaded here: the counters of a topic that is loaded again begin at 0."""
    msg_in: int
    bytes_in: int
    msg_out: int
    bytes_out: int
    producers: int
    consumers: int
    cache_size: int = 0


STEP: Final = 500
"""How many topics are counted before other tasks of the event loop run: some milliseconds."""

_NOTHING: Final = TopicCount("", "", 0.0, 0, 0, 0, 0, 0, 0)
_IDLE: Final = TopicLoad()


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
    """Computes rates per second of bundles and topics from two readings of topics' counters."""

    def __init__(self) -> None:
        self._last: Mapping[str, TopicCount] = {}
        self._last_s: float | None = None
        self.topics: Mapping[str, TopicLoad] = {}
        """The rates of each loaded topic, as of the last `taking`."""

    def topic_loads(self) -> Iterable[tuple[str, TopicLoad]]:
        """The rates of each topic at the last measurement."""
        return self.topics.items()

    def taking(
        self, counts: Iterable[TopicCount], owned: Iterable[str], now_s: float
    ) -> Generator[None, None, dict[str, NamespaceBundleStats]]:
        """The rates since the last call, of each owned bundle and each with topics, sorted by name.

        A generator that yields after each `STEP` topics, so that other tasks run. ``now_s`` is a
        clock's time in seconds. A topic loaded since then counts from zero. The first call returns
        rates of 0.
        """
        elapsed = 0.0 if self._last_s is None else now_s - self._last_s
        sums: dict[str, _Sums] = {bundle: _Sums() for bundle in owned}
        now: dict[str, TopicCount] = {}
        loads: dict[str, TopicLoad] = {}
        per_second = 1.0 / elapsed if elapsed > 0 else 0.0
        for number, count in enumerate(counts, 1):
            now[count.topic] = count
            into = sums.get(count.bundle)
            if into is None:
                into = sums[count.bundle] = _Sums()
            into.producers += count.producers
            into.consumers += count.consumers
            into.cache_size += count.cache_size
            into.topics += 1
            last = self._last.get(count.topic)
            if last is None or last.opened != count.opened:
                last = _NOTHING
            elif last.msg_in == count.msg_in and last.msg_out == count.msg_out:
                # Most topics are idle, most of the time.
                loads[count.topic] = _IDLE
                last = None
            elif count.msg_in < last.msg_in or count.msg_out < last.msg_out:
                # It was loaded again within one tick of the clock, and counts from zero again.
                last = _NOTHING
            if last is not None:
                loads[count.topic] = _add(into, count, last, per_second)
            if number % STEP == 0:
                yield
        self._last, self._last_s, self.topics = now, now_s, loads
        return {bundle: _stats(sums[bundle], per_second) for bundle in sorted(sums)}


def _add(into: _Sums, count: TopicCount, last: TopicCount, per_second: float) -> TopicLoad:
    """Add a topic's counts since the last call to its bundle; returns the topic's rates."""
    msg_in, bytes_in = count.msg_in - last.msg_in, count.bytes_in - last.bytes_in
    msg_out, bytes_out = count.msg_out - last.msg_out, count.bytes_out - last.bytes_out
    into.msg_in += msg_in
    into.bytes_in += bytes_in
    into.msg_out += msg_out
    into.bytes_out += bytes_out
    return TopicLoad(
        msg_rate_in=msg_in * per_second,
        msg_rate_out=msg_out * per_second,
        msg_throughput_in=bytes_in * per_second,
        msg_throughput_out=bytes_out * per_second,
    )


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
