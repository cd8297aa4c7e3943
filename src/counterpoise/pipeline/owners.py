"""Who owns a bundle, asked so that no broker is harmed by the question.

A lookup of one of its topics is what clients do all the time. `ownedNamespaces` is not, and can
stop a broker of Apache's for ever (`pipeline/collect/owned.py`). So a bundle without topics is
looked up by a name that a topic of it could have, which creates none; where a cluster refuses that,
since it lets no client create topics, each broker is asked for the bundle's list of topics.
"""

from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import quote, urlsplit

import aiohttp

from counterpoise.names.bundle import BundleName
from counterpoise.names.hashing import topic_hash
from counterpoise.pipeline.collect.owned import question

ASKS = "counterpoise-asks-"
NAMES_MOST = 50_000
"""How many names are tried for one that falls into a bundle: enough for a ten-thousandth of the
ring."""
LOOK_EVERY_S = 0.1
LOOK_MOST_S = 2.0
"""Between two questions, once the answer takes long."""
NOT_FOUND = 404


class RefusedError(Exception):
    """The cluster answered, and the answer was no; `status` is HTTP's, 0 without one."""

    def __init__(self, text: str, status: int = 0) -> None:
        super().__init__(text)
        self.status = status


NO_ANSWER = (TimeoutError, aiohttp.ClientError, RefusedError, ValueError)
"""What a broker that does not tell may end in."""


class Owners:
    """Asks brokers, over one `aiohttp` session; knows the topics it has asked for."""

    def __init__(self, session: aiohttp.ClientSession, where: Callable[[str], str]) -> None:
        """`where` gives the address of a broker's admin API by its id."""
        self._session = session
        self._where = where
        self._topics: dict[str, str] = {}
        """By bundle, what is looked up; empty where a name that no topic has is refused."""

    async def owner(
        self,
        bundle: str,
        asked: str,
        others: Sequence[str] = (),
        *,
        takes: bool = False,
        believed: Sequence[str] = (),
    ) -> str:
        """The broker that has a bundle, by its own word; empty when nobody does.

        `asked` is the broker to ask first, which `takes` what nobody has (`looked_up`); `others`
        may be asked besides, and whom it names of the `believed` is not. Raises one of `NO_ANSWER`.
        """
        if topic := await self._to_look_up(bundle, asked):
            try:
                owner = await self.looked_up(bundle, topic, asked, takes=takes)
            except RefusedError as error:
                if error.status != NOT_FOUND or f"/{ASKS}" not in topic:
                    raise
                self._topics[bundle] = ""
            else:
                if owner == asked or owner in believed:
                    return owner
                # Another one than expected: it has to say so itself.
                return await self.looked_up(bundle, topic, owner)
        for broker in dict.fromkeys((asked, *others)):
            try:
                if broker and await self._claims(broker, bundle):
                    return broker
            except NO_ANSWER:
                continue  # a silent broker owns nothing
        return ""

    async def says_itself(self, bundle: str, broker: str) -> str:
        """Whom a broker names as the owner; empty when the bundle cannot be looked up."""
        topic = await self._to_look_up(bundle, broker)
        return await self.looked_up(bundle, topic, broker) if topic else ""

    def pause(self, bundle: str, before: float = 0.0) -> float:
        """Seconds until the owner may be asked for again, by those before: longer each time."""
        slower = 1.2 if self._topics.get(bundle) else 2
        return min(LOOK_MOST_S, before * slower) or LOOK_EVERY_S

    async def _to_look_up(self, bundle: str, broker: str) -> str:
        """A topic of the bundle, as a broker lists it, or the name of one that could be."""
        if bundle not in self._topics:
            name = BundleName.parse(bundle)
            base = f"{self._where(broker)}/admin/v2"
            for domain in ("persistent", "non-persistent"):
                listing = f"{base}/{domain}/{name.namespace}?bundle={name.range}"
                if topics := await self._listed(listing):
                    self._topics[bundle] = str(topics[0])
                    break
            else:
                self._topics[bundle] = name_in(bundle)
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

    async def _claims(self, broker: str, bundle: str) -> bool:
        """Whether a broker has a bundle, as it says itself."""
        url = question(self._where(broker), bundle)
        async with self._session.get(url, allow_redirects=False) as response:
            return response.status == 200

    async def _json(self, url: str) -> Any:
        async with self._session.get(url) as response:
            if response.status != 200:
                said = (await response.text()).strip()[:300]
                raise RefusedError(f"{url}: HTTP {response.status} {said}".strip(), response.status)
            return await response.json(content_type=None)


def name_in(bundle: str) -> str:
    """The name of a topic that would be in a bundle; empty for one too narrow to find any."""
    wanted = BundleName.parse(bundle)
    for number in range(NAMES_MOST):
        name = f"persistent://{wanted.namespace}/{ASKS}{number}"
        if topic_hash(name) in wanted.range:
            return name
    return ""
