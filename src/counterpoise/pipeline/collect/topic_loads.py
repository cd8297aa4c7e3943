"""The loads of topics, from `broker-stats/topics` of their brokers: on demand, and for a history.

For a history they are read seldom: how a bundle's load is divided among its topics changes slowly,
and under the modular load manager it takes one more request.
"""

import asyncio
from collections.abc import Collection
from concurrent.futures import Executor
from typing import Final

import orjson

from counterpoise.load.fields import LoadDataError, read_number
from counterpoise.load.measured import Measured
from counterpoise.load.topic_loads import BundleTopicLoads, TopicLoad
from counterpoise.pipeline.collect.admin import UNREADABLE, Admin
from counterpoise.pipeline.collect.extensible import TOPIC_RATES, fetch_topics, topics_by_bundle

EVERY_MS: Final = 30 * 60_000
"""Milliseconds between two reports of a broker that contain the loads of its topics."""
AT_ONCE: Final = 4
"""The most brokers whose topics are read at the same time, since no answers are larger."""


def topic_loads(
    body: bytes, bundles: Collection[str] | None = None
) -> dict[str, dict[str, TopicLoad]]:
    """Parse the load of each topic, by bundle and topic, from a `broker-stats/topics` response.

    With `bundles` only topics of these bundles. Raises `LoadDataError` or `orjson.JSONDecodeError`.
    """
    what = "broker-stats/topics"
    return {
        bundle: {
            topic: TopicLoad(
                *(
                    read_number(row.get(name, 0.0), f"{what}: {topic}: {name}")
                    for name in TOPIC_RATES.values()
                )
            )
            for topic, row in topics.items()
        }
        for bundle, topics in topics_by_bundle(orjson.loads(body), what)
        if bundles is None or bundle in bundles
    }


class TopicLoadReader:
    """Adds the loads of topics to load reports: to one report of each broker in half an hour."""

    def __init__(self, admin: Admin, parsers: Executor) -> None:
        self._admin = admin
        self._parsers = parsers
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._read_ms: dict[str, int] = {}
        self._tasks: dict[str, asyncio.Task[dict[str, str]]] = {}

    async def add_to_report(
        self, broker: str, address: str, report: Measured, at_ms: int, body: bytes = b""
    ) -> Measured:
        """Return a new load report, with the loads of its bundles' topics if they are due.

        `body` is the response of `broker-stats/topics` from which the report was made. Without it
        the broker is asked beside the polls, which do not wait, and a later report gets the loads.
        """
        if broker not in self._tasks:
            due = at_ms - self._read_ms.get(broker, at_ms - EVERY_MS) >= EVERY_MS
            if not due or report.idle:
                return report
            self._read_ms[broker] = at_ms
            self._tasks[broker] = asyncio.create_task(self._read(address, body))
        task = self._tasks[broker]
        if not body and not task.done():
            return report
        # Removed before the wait: if the wait is cancelled, the task is cancelled, too.
        del self._tasks[broker]
        found = await task
        if not found:
            del self._read_ms[broker]
        return report.with_topic_loads(found)

    def keep(self, brokers: Collection[str]) -> None:
        """Forget all brokers that are not among these, and cancel the requests to them."""
        for broker in self._read_ms.keys() - set(brokers):
            del self._read_ms[broker]
            if task := self._tasks.pop(broker, None):
                task.cancel()

    async def _read(self, address: str, body: bytes) -> dict[str, str]:
        """The loads of topics by bundle, as JSON; empty if they cannot be read."""
        try:
            async with self._turns:
                body = body or await fetch_topics(self._admin, address)
                loop = asyncio.get_running_loop()
                return await loop.run_in_executor(self._parsers, _by_bundle, body)
        except (*UNREADABLE, LoadDataError, orjson.JSONDecodeError):
            return {}


def _by_bundle(body: bytes) -> dict[str, str]:
    loads = topic_loads(body).items()
    return {bundle: BundleTopicLoads.of(topics).to_json() for bundle, topics in loads}
