"""Finds the limits that throttle producers: our brokers list them, Apache's have counters."""

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
    """Finds the publish limits at which producers wait; remembers brokers' counters for that."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin
        self._counting: dict[str, dict[str, float]] = {}
        """Brokers without the endpoint for limits, and their counters when last read."""

    async def read(
        self, address: Callable[[str], str], brokers: Iterable[str]
    ) -> tuple[ReachedLimit, ...]:
        """The limits at which producers wait now, at the brokers that respond."""
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
    """How often each topic's publishing was limited, from the text of a broker's `/metrics`."""
    found: dict[str, float] = {}
    for topic, value in _COUNTER.findall(body):
        name = topic.decode(errors="replace")
        found[name] = max(found.get(name, 0.0), float(value))
    return found
