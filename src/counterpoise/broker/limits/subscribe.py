"""Limits how often one consumer may subscribe: each has its own bucket on each topic.

It stops clients that subscribe, fail and subscribe again in a loop. Another consumer of the same
client has another id, and so another bucket.

Source: ``SubscribeRateLimiter`` of Pulsar 4.0.7. As in Pulsar, for persistent topics only.
"""

from typing import Final, NamedTuple

from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.limits.rates import Rate
from counterpoise.names.callbacks import NanosecondClock
from counterpoise.names.topic import TopicName
from counterpoise.quota import SECOND_NS, Bucket
from counterpoise.wire.errors import ServerError

SWEEP: Final = 256
"""With this many buckets of a topic, full ones are deleted: clients may use any number of names."""


class ConsumerIdentifier(NamedTuple):
    """A consumer for the subscribe rate limit; the same after a reconnect (Pulsar's class name)."""

    host: str
    name: str
    consumer_id: int


class _SubscribedTopic:
    """The subscribe rate of one topic, and a bucket for each consumer that subscribed lately."""

    __slots__ = ("_buckets", "_sweep_at", "rate")

    def __init__(self, rate: Rate) -> None:
        self.rate = rate
        self._buckets: dict[ConsumerIdentifier, Bucket] = {}
        self._sweep_at = SWEEP

    def take(self, who: ConsumerIdentifier, now: int) -> bool:
        bucket = self._buckets.get(who)
        if bucket is None:
            if len(self._buckets) >= self._sweep_at:
                self._sweep(now)
            rate = self.rate
            bucket = Bucket(rate.messages, now, period_ns=rate.period_s * SECOND_NS)
            self._buckets[who] = bucket
        return bucket.try_take(1, now)

    def _sweep(self, now: int) -> None:
        # A full bucket is as good as a new one.
        self._buckets = {who: it for who, it in self._buckets.items() if not it.is_full(now)}
        self._sweep_at = max(SWEEP, 2 * len(self._buckets))


class SubscribeLimits:
    """Limits how often each consumer of a broker's topics may subscribe (``subscribeRate``).

    A topic without a limit costs nothing.
    """

    def __init__(self, clock_ns: NanosecondClock) -> None:
        self._now = clock_ns
        self._topics: dict[TopicName, _SubscribedTopic] = {}

    def set_rate(self, name: TopicName, rate: Rate) -> None:
        """Allow each consumer this many subscribes per period; its bucket starts full."""
        known = self._topics.get(name)
        if not rate:
            self._topics.pop(name, None)
        elif known is None or known.rate != rate:
            self._topics[name] = _SubscribedTopic(rate)

    def admit(self, name: TopicName, address: str, consumer_name: str, consumer_id: int) -> None:
        """Count a subscribe; raises `BrokerError` if the consumer exceeds its rate.

        ``address``: the client's host and port, of which the host counts, since a reconnect changes
        the port.
        """
        topic = self._topics.get(name)
        if topic is None:
            return
        who = ConsumerIdentifier(address.rpartition(":")[0], consumer_name, consumer_id)
        if not topic.take(who, self._now()):
            raise BrokerError(
                ServerError.NotAllowedError,
                "Subscribe limited by subscribe rate limit per consumer.",
            )

    def end(self, name: TopicName) -> None:
        """Remove the limit of a topic that was unloaded."""
        self._topics.pop(name, None)
