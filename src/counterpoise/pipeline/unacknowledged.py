"""How many delivered messages are unacknowledged: they are delivered again if the bundle moves."""

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any, Final

import orjson

from counterpoise.load.fields import LoadDataError, read_object
from counterpoise.pipeline.collect.admin import UNREADABLE, Admin
from counterpoise.pipeline.collect.extensible import fetch_topics, topics_by_bundle

WITHIN_S: Final = 2.0
"""How long a broker may take to answer, in seconds: the move waits for the answer."""
GOOD_FOR_S: Final = 30.0
"""For how many seconds an answer is also used for the moves of the broker's other bundles."""


class Unacknowledged:
    """Reads unacknowledged messages of bundles about to be moved, from `broker-stats/topics`."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin
        self._read: dict[str, tuple[float, asyncio.Task[Mapping[str, float]]]] = {}

    async def seconds(self, bundle: str, address: str) -> float | None:
        """A bundle's unacknowledged messages ÷ the rate at which they are sent to consumers, in
        seconds.

        ``address`` is the owner's web address. None where nothing is sent, or where the owner does
        not answer in time.
        """
        now = asyncio.get_running_loop().time()
        if address not in self._read or now - self._read[address][0] > GOOD_FOR_S:
            self._read[address] = now, asyncio.create_task(self._of_broker(address))
        read = self._read[address]
        found = await asyncio.shield(read[1])
        if not found and self._read.get(address) is read:
            del self._read[address]  # the next bundle's move asks again
        return found.get(bundle)

    async def _of_broker(self, address: str) -> Mapping[str, float]:
        """Read a broker's topics and compute `seconds` for each bundle; empty if that fails."""
        try:
            async with asyncio.timeout(WITHIN_S):
                body = await fetch_topics(self._admin, address)
            return await asyncio.to_thread(seconds_by_bundle, body)
        except (*UNREADABLE, LoadDataError, ValueError, TypeError):
            return {}


def seconds_by_bundle(body: bytes) -> dict[str, float]:
    """Unacknowledged messages ÷ messages sent per second, by bundle, from a `broker-stats/topics`
    body.

    Bundles to which nothing is sent are omitted. Raises `LoadDataError`, or `ValueError` or
    `TypeError` for other content.
    """
    found = {}
    for bundle, topics in topics_by_bundle(orjson.loads(body), "broker-stats/topics"):
        attached = [each for topic in topics.values() for each in _attached(topic)]
        sent_per_s = sum(float(each.get("msgRateOut", 0.0)) for each in attached)
        if sent_per_s > 0:
            found[bundle] = sum(map(_waiting, attached)) / sent_per_s
    return found


def _attached(topic: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The subscriptions of a topic that have consumers."""
    for name, each in read_object(topic.get("subscriptions", {}), "subscriptions").items():
        if (subscription := read_object(each, name)).get("consumers"):
            yield subscription


def _waiting(subscription: Mapping[str, Any]) -> float:
    """The number of messages that were sent to a subscription's consumers and not acknowledged."""
    if "unackedMessages" in subscription and subscription.get("type") in ("Shared", "Key_Shared"):
        return float(subscription["unackedMessages"])
    # For other types of subscriptions a broker counts entries, not messages, and one too many.
    entries = subscription.get("numberOfEntriesSinceFirstNotAckedMessage", 1) - 1
    size = max(each.get("avgMessagesPerEntry", 1) for each in subscription["consumers"])
    return float(max(0, entries) * max(1, size))
