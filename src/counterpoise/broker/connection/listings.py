"""What is told of a namespace's topics: to one client after the other, however many ask."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from counterpoise.broker.base.by_turns import in_pieces
from counterpoise.broker.base.single_flight import SingleFlight
from counterpoise.broker.connection.ports import Catalog
from counterpoise.broker.namespaces.catalog import matching
from counterpoise.names.namespace import NamespaceName
from counterpoise.names.topic import TopicName

T = TypeVar("T")
TopicNames = Sequence[TopicName]


class Listings:
    """One for each broker. A list of topics that is matched, hashed and written takes a while.

    In one turn of the loop nobody but one does so, and only some of it; and a list that was begun
    after several have asked is told to all of them.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._lists: SingleFlight[tuple[NamespaceName, str], TopicNames] = SingleFlight(
            lambda key: catalog.topics_of(*key)
        )
        self._one = asyncio.Lock()
        self._compared: tuple[TopicNames, TopicNames] = ((), ())
        self._difference: tuple[list[TopicName], list[TopicName]] = ([], [])

    async def tell(
        self, namespace: NamespaceName, mode: str, tell: Callable[[TopicNames], Awaitable[T]]
    ) -> T:
        """Do this with a namespace's topics as they are now, when nobody else is at it."""
        with self._lists.asking((namespace, mode)) as asking:
            while True:
                async with self._one:
                    if asking.found:
                        told = await tell(asking.answer)
                        # That is all that is done in this turn of the loop.
                        await asyncio.sleep(0)
                        return told
                await asking.find()

    async def matching(self, topics: TopicNames, pattern: str | None) -> list[TopicName]:
        """The topics that a pattern selects, found a few at a time."""
        found: list[TopicName] = []
        async for some in in_pieces(topics):
            found += matching(some, pattern)
        return found

    def difference(
        self, before: TopicNames, now: TopicNames
    ) -> tuple[list[TopicName], list[TopicName]]:
        """Which topics are new and which are gone; worked out once for all that watch them."""
        if self._compared[0] is not before or self._compared[1] is not now:
            old, new = set(before), set(now)
            self._difference = (sorted(new - old, key=str), sorted(old - new, key=str))
            self._compared = (before, now)
        return self._difference
