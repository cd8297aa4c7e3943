"""Who owns a bundle, asked so that no broker is harmed by the question.

A lookup of one of its topics is what clients do all the time. `ownedNamespaces` is not: a broker of
Apache Pulsar 4.0.7 under the modular load manager that is asked for it while it takes over two
bundles waits, in the one thread that answers for its metadata store, for what only that thread can
bring about; it serves no lookup any more until it is restarted
(`NamespaceService.getOwnedNameSpacesStatusAsync`). So it is asked for that only of bundles without
topics, which nobody can look up, and seldom.
"""

from collections.abc import Callable
from typing import Any
from urllib.parse import quote, urlsplit

import aiohttp

from counterpoise.names.bundle import BundleName


class RefusedError(Exception):
    """The cluster answered, and the answer was no."""


NO_ANSWER = (TimeoutError, aiohttp.ClientError, RefusedError, ValueError)
"""What a broker that does not tell may end in."""


class Owners:
    """Asks brokers, over one `aiohttp` session; knows the topics it has asked for."""

    def __init__(self, session: aiohttp.ClientSession, where: Callable[[str], str]) -> None:
        """`where` gives the address of a broker's admin API by its id."""
        self._session = session
        self._where = where
        self._topics: dict[str, str] = {}
        self._cluster = ""

    async def topic_of(self, bundle: str, broker: str) -> str:
        """A topic of the bundle, as a broker lists it; empty when there is none."""
        if bundle not in self._topics:
            name = BundleName.parse(bundle)
            base = f"{self._where(broker)}/admin/v2"
            for domain in ("persistent", "non-persistent"):
                listing = f"{base}/{domain}/{name.namespace}?bundle={name.range}"
                if topics := await self._listed(listing):
                    self._topics[bundle] = str(topics[0])
                    break
            else:
                return ""
        return self._topics[bundle]

    async def _listed(self, url: str) -> Any:
        try:
            return await self._json(url)
        except RefusedError:
            return ()

    async def looked_up(self, bundle: str, topic: str, broker: str, *, takes: bool = False) -> str:
        """The owner, by a broker's answer to a lookup of a topic of the bundle.

        Nobody's bundle gets an owner by being looked up: the broker itself with `takes`, as if the
        leader had sent us there, else whomever the leader chooses. Raises one of `NO_ANSWER`, as
        while the bundle changes hands.
        """
        path = quote(topic.replace("://", "/", 1))
        asks = "?authoritative=true" if takes else ""
        found = await self._json(f"{self._where(broker)}/lookup/v2/topic/{path}{asks}")
        for name in ("httpUrl", "httpUrlTls"):
            if url := found.get(name):
                return urlsplit(str(url)).netloc
        raise RefusedError(f"{broker} does not say where the web service of {bundle}'s owner is")

    async def claims(self, broker: str, bundle: str) -> bool:
        """Whether a broker lists a bundle among those it owns; see above before you call this."""
        cluster = await self._cluster_of(broker)
        where = f"{self._where(broker)}/admin/v2/brokers/{quote(cluster)}/{broker}/ownedNamespaces"
        return bundle in await self._json(where)

    async def _cluster_of(self, broker: str) -> str:
        if not self._cluster:
            clusters = await self._json(f"{self._where(broker)}/admin/v2/clusters")
            local = [name for name in clusters if name != "global"]
            for name in local[1:] and local:
                listed = await self._listed(f"{self._where(broker)}/admin/v2/brokers/{quote(name)}")
                if broker in listed:
                    local = [name]
                    break
            if not local:
                raise RefusedError(f"broker {broker} names no cluster")
            self._cluster = str(local[0])
        return self._cluster

    async def _json(self, url: str) -> Any:
        async with self._session.get(url) as response:
            if response.status != 200:
                said = (await response.text()).strip()[:300]
                raise RefusedError(f"{url}: HTTP {response.status} {said}".strip())
            return await response.json(content_type=None)
