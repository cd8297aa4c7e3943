"""Finds the publish rate limits that throttle producers.

Counterpoise's brokers list them; for Apache's they are found by counters in their metrics.
"""

import asyncio
import re
from collections.abc import Callable, Iterable

import orjson

from counterpoise.picture.reached_limits import ReachedLimit, of_limits, of_metrics
from counterpoise.pipeline.collect.admin import UNREADABLE, Admin, RefusedError

_COUNTER = re.compile(
    rb'^pulsar_publish_rate_limit_times\{[^}\n]*?topic="([^"\n]*)"[^}\n]*\}\s+(\S+)', re.MULTILINE
)


class Throttling:
    """Finds the publish rate limits that throttle producers now.

    Keeps the counters of Apache's brokers from one poll to the next, to see which have risen.
    """

    def __init__(self, admin: Admin) -> None:
        self._admin = admin
        self._counting: dict[str, dict[str, float]] = {}
        """By id, brokers without the endpoint that lists limits: their counters when last read."""

    async def read(
        self, address: Callable[[str], str], brokers: Iterable[str]
    ) -> tuple[ReachedLimit, ...]:
        """Return the limits that throttle producers now, at those of the `brokers` that respond.

        `address` returns the admin URL of a broker id.
        """
        found = await asyncio.gather(*(self._ask(address(each), each) for each in brokers))
        return tuple(limit for each in found for limit in each)

    async def _ask(self, address: str, broker: str) -> tuple[ReachedLimit, ...]:
        try:
            if broker not in self._counting:
                body = await self._admin.get(f"{address}/admin/v2/broker-stats/throttling")
                return of_limits(broker, orjson.loads(body))
            counts = counters(await self._admin.get(f"{address}/metrics/"))
        except RefusedError as error:
            if error.status == 404:
                self._counting.setdefault(broker, {})
            return ()
        except (*UNREADABLE, orjson.JSONDecodeError, KeyError, TypeError, ValueError):
            return ()
        before, self._counting[broker] = self._counting[broker], counts
        return of_metrics(broker, counts, before)


def counters(body: bytes) -> dict[str, float]:
    """Read how often each topic's producers were throttled, from a broker's `/metrics`."""
    found: dict[str, float] = {}
    for topic, value in _COUNTER.findall(body):
        name = topic.decode(errors="replace")
        found[name] = max(found.get(name, 0.0), float(value))
    return found
