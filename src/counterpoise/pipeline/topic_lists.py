"""The topics of namespaces, each listed once for all of its bundles."""

import asyncio
from bisect import bisect_left
from dataclasses import dataclass
from typing import Final

import orjson

from counterpoise.names.bundle import BundleName
from counterpoise.names.hashing import topic_hash
from counterpoise.pipeline.collect.admin import Admin, RefusedError

GOOD_FOR_S: Final = 60.0
"""Seconds before a namespace is listed again."""
NAMESPACES_MOST: Final = 16
"""Namespaces whose topics are remembered: a hundred thousand topics take about 20 MB."""


@dataclass(frozen=True, slots=True)
class TopicRing:
    """A namespace's topics sorted by their hash."""

    points: tuple[int, ...]
    topics: tuple[str, ...]

    @classmethod
    def of(cls, topics: list[str]) -> "TopicRing":
        """Sort these topics by their hash."""
        ordered = sorted((topic_hash(each), each) for each in topics)
        return cls(tuple(point for point, _ in ordered), tuple(each for _, each in ordered))

    def topic_in(self, bundle: BundleName) -> str:
        """One topic whose hash is in the bundle's range; empty if there is none."""
        first = bisect_left(self.points, bundle.range.lower)
        if first < len(self.points) and self.points[first] in bundle.range:
            return self.topics[first]
        return ""


class TopicLists:
    """Lists the persistent topics of namespaces, and caches the lists; for one event loop."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin
        self._rings: dict[str, tuple[float, asyncio.Task[TopicRing]]] = {}

    def is_listed(self, namespace: str) -> bool:
        """Whether the namespace was listed within the last `GOOD_FOR_S`."""
        now = asyncio.get_running_loop().time()
        return namespace in self._rings and now - self._rings[namespace][0] < GOOD_FOR_S

    async def topic_in(self, bundle: BundleName, address: str) -> str:
        """A topic of the bundle, empty if it has none; raises one of `UNREADABLE`.

        The broker with this address lists the namespace's topics, unless they are cached.
        """
        namespace = str(bundle.namespace)
        if not self.is_listed(namespace):
            self._rings.pop(namespace, None)
            while len(self._rings) >= NAMESPACES_MOST:
                self._rings.pop(next(iter(self._rings)))
            task = asyncio.create_task(self._list(address, namespace))
            self._rings[namespace] = asyncio.get_running_loop().time(), task
        task = self._rings[namespace][1]
        try:
            ring = await asyncio.shield(task)
        except Exception:
            if self._rings.get(namespace, (0.0, None))[1] is task:
                del self._rings[namespace]
            raise
        return ring.topic_in(bundle)

    async def _list(self, address: str, namespace: str) -> TopicRing:
        # Never with `?bundle=`: a broker of Apache's filters by it in the thread that loads its
        # bundles, and waits for itself when they are not loaded (`docs/BALANCER.md`).
        url = f"{address}/admin/v2/persistent/{namespace}"
        try:
            return TopicRing.of([str(each) for each in orjson.loads(await self._admin.get(url))])
        except (ValueError, TypeError) as error:
            raise RefusedError(f"{url}: the list of topics cannot be read: {error}") from None
