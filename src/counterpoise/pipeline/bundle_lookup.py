"""Finds the owner of a bundle by lookups that harm no broker.

A lookup is what clients do all the time. The name in it is one that a topic of the bundle could
have: that creates nothing, and costs a broker two reads of its metadata store. Where clients may
create no topics, such a name is not found. There the namespace's topics are listed once for all of
its bundles, and an existing topic of the bundle is looked up. `docs/BALANCER.md` says which other
requests were tried, and which of them make a broker of Apache Pulsar hang.
"""

import asyncio
from bisect import bisect_left
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

import orjson

from counterpoise.names.bundle import BundleName
from counterpoise.names.hashing import topic_at, topic_hash
from counterpoise.names.namespace import is_left_in_place
from counterpoise.pipeline.collect.admin import NOT_FOUND, Admin, RefusedError
from counterpoise.pipeline.collect.owned import BEING_UNLOADED, Ownership
from counterpoise.pipeline.collect.serving import PROBE
from counterpoise.pipeline.collect.where import lookup_url

GOOD_FOR_S: Final = 60.0
"""How long the list of a namespace's topics is cached, in seconds."""
NAMESPACES_MOST: Final = 16
"""The most namespaces whose topics are cached: a hundred thousand topics take about 20 MB."""


@dataclass(frozen=True, slots=True)
class TopicRing:
    """A namespace's topics, sorted by the hash that decides their bundle."""

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


LOOK_EVERY_S: Final = 0.1
LOOK_MOST_S: Final = 2.0
"""The longest pause between two lookups of a bundle, in seconds."""


class BundleLookup:
    """Asks a cluster's brokers for a bundle's owner. A lookup may assign an unowned bundle."""

    def __init__(self, admin: Admin, where: Callable[[str], str]) -> None:
        """`where` returns the admin address of a broker by its id."""
        self._admin = admin
        self._where = where
        self._ownership = Ownership(admin, where)
        self._topics = TopicLists(admin)

    async def owner(
        self,
        bundle: str,
        first: str,
        brokers: Collection[str] = (),
        *,
        takes: bool = False,
        believed: Collection[str] = (),
    ) -> str:
        """The broker that confirms that it owns the bundle; empty if none does.

        `first` is asked first; with `takes` it acquires the bundle if it is unowned. If it names
        another broker as owner, that broker is asked as well, unless it is among `believed`.
        `brokers` are possible owners. Raises one of `UNREADABLE`.
        """
        owner = await self.named_by(first, bundle, brokers, takes=takes)
        if owner in ("", first) or owner in believed:
            return owner
        # `first` named another broker as the owner: ask that one, too.
        return await self.named_by(owner, bundle, brokers)

    async def named_by(
        self, broker: str, bundle: str, brokers: Collection[str] = (), *, takes: bool = False
    ) -> str:
        """The owner of the bundle according to `broker`, empty for none; raises one of
        `UNREADABLE`.

        `brokers` are possible owners; with `takes`, `broker` acquires the bundle if it is unowned.
        """
        name = BundleName.parse(bundle)
        namespace = str(name.namespace)
        if is_left_in_place(namespace):
            return await self._asked_by_range(bundle, broker, brokers)
        if not self._topics.is_listed(namespace):
            found = await self._looked_up(name, name_in(bundle), broker, takes=takes)
            if found is not None:
                return found
        if topic := await self._topics.topic_in(name, self._where(broker)):
            found = await self._looked_up(name, topic, broker, takes=takes)
            if found is not None:
                return found
        # The bundle has no topic that could be looked up.
        return await self._asked_by_range(bundle, broker, brokers)

    async def _asked_by_range(self, bundle: str, broker: str, brokers: Collection[str]) -> str:
        """Ask for the owner of a bundle by its range, which does not assign an unowned bundle."""
        whose = await self._ownership.whose(bundle, broker, brokers)
        if not whose.active:
            raise RefusedError(f"{bundle} {BEING_UNLOADED}")
        return whose.owner

    async def _looked_up(
        self, bundle: BundleName, topic: str, broker: str, *, takes: bool = False
    ) -> str | None:
        """The owner, by a broker's response to a lookup; None if there is no such topic.

        A lookup assigns an unowned bundle: to the broker itself with `takes`, as if the leader had
        redirected there, otherwise to the broker that the leader chooses. Raises one of
        `UNREADABLE`, also while the bundle changes hands.
        """
        asks = "?authoritative=true" if takes else ""
        url = f"{lookup_url(self._where(broker), topic)}{asks}"
        reply = await self._admin.ask(url, redirects=True)
        if reply.status == NOT_FOUND:
            return None
        if reply.status != 200:
            raise RefusedError(f"{url}: {reply.refused()}", reply.status)
        try:
            found = orjson.loads(reply.body)
            there = found.get("httpUrl") or found.get("httpUrlTls")
        except (ValueError, AttributeError) as error:
            raise RefusedError(f"{url}: the answer cannot be read: {error}") from None
        if not there:
            raise RefusedError(
                f"{broker} does not say where the web service of {bundle}'s owner is"
            )
        return urlsplit(str(there)).netloc


def pause_after(before: float = 0.0) -> float:
    """Seconds until the next attempt: a fifth more than the previous pause, up to a limit."""
    return min(LOOK_MOST_S, before * 1.2) or LOOK_EVERY_S


def name_in(bundle: str) -> str:
    """A name of a topic that does not exist and would be in the bundle."""
    name = BundleName.parse(bundle)
    return topic_at(f"persistent://{name.namespace}/{PROBE}", name.range.lower)
