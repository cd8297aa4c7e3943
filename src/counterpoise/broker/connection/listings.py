"""Makes lists of a namespace's topics, one at a time, for all clients of a broker."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from counterpoise.broker.base.by_turns import in_pieces
from counterpoise.broker.base.single_flight import SingleFlight
from counterpoise.broker.namespaces.catalog import TopicCatalog, matching
from counterpoise.broker.topic.topics import TopicRegistry
from counterpoise.names.namespace import NamespaceName
from counterpoise.names.system_topics import is_system_topic
from counterpoise.names.topic import TopicName

T = TypeVar("T")
TopicNames = Sequence[TopicName]


class Listings:
    """Lists a namespace's topics for all clients of a broker.

    Matching, hashing and writing a long list takes milliseconds, so one client's list is handled at
    a time, in parts. A list that was read after several clients had asked serves all of them.
    """

    def __init__(self, catalog: TopicCatalog, topics: TopicRegistry) -> None:
        self._catalog = catalog
        self._topics = topics
        self._lists: SingleFlight[tuple[NamespaceName, str], TopicNames] = SingleFlight(self._list)
        self._one = asyncio.Lock()
        self._compared: tuple[TopicNames, TopicNames] = ((), ())
        self._difference: tuple[list[TopicName], list[TopicName]] = ([], [])

    async def _list(self, key: tuple[NamespaceName, str]) -> TopicNames:
        """The persistent topics by the metadata store, and the non-persistent ones served here.

        No broker knows the non-persistent topics of the others, as in Pulsar.
        """
        namespace, mode = key
        found = await self._catalog.topics_of(namespace, mode)
        if mode == "PERSISTENT":
            return found
        names = set(found)
        async for some in in_pieces(list(self._topics.loaded.items())):
            names.update(
                name
                for name, topic in some
                if not name.is_persistent and name.namespace_name == namespace and topic.is_active
            )
        return tuple(sorted(names, key=str))

    async def answer(
        self, namespace: NamespaceName, mode: str, write: Callable[[TopicNames], Awaitable[T]]
    ) -> T:
        """List a namespace's topics and pass them to ``write``, whose result is returned.

        One caller is served at a time. ``mode`` is that of GET_TOPICS_OF_NAMESPACE.
        """
        with self._lists.asking((namespace, mode)) as asking:
            while True:
                async with self._one:
                    if asking.found:
                        answer = await write(asking.answer)
                        # No other list is handled in this turn of the loop.
                        await asyncio.sleep(0)
                        return answer
                await asking.find()

    async def of_users(self, topics: TopicNames) -> TopicNames:
        """The topics that are not system topics, filtered in parts."""
        kept: list[TopicName] = []
        async for some in in_pieces(topics):
            kept += [each for each in some if not is_system_topic(each)]
        return topics if len(kept) == len(topics) else kept

    async def matching(self, topics: TopicNames, pattern: str | None) -> list[TopicName]:
        """The topics that match a pattern, filtered in parts."""
        found: list[TopicName] = []
        async for some in in_pieces(topics):
            found += matching(some, pattern)
        return found

    def difference(
        self, before: TopicNames, now: TopicNames
    ) -> tuple[list[TopicName], list[TopicName]]:
        """The topics that are only in ``now``, and those only in ``before``.

        The last result is kept, since all watches of a namespace ask for the same.
        """
        if self._compared[0] is not before or self._compared[1] is not now:
            old, new = set(before), set(now)
            self._difference = (sorted(new - old, key=str), sorted(old - new, key=str))
            self._compared = (before, now)
        return self._difference
