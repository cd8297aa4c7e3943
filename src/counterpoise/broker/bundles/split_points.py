"""Finds where to split a bundle, by one of the algorithms of `counterpoise.decide.splitting`."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from counterpoise.broker.namespaces.catalog import TopicCatalog
from counterpoise.decide.splitting.algorithms import algorithm
from counterpoise.decide.splitting.options import SplitOptions
from counterpoise.decide.splitting.request import SplitPoints, SplitRequest, points_of
from counterpoise.load.topic_loads import TopicLoad
from counterpoise.names.bundle import BundleName


class SplitPointFinder:
    """Runs a split algorithm on a bundle's current topics."""

    def __init__(
        self,
        catalog: TopicCatalog,
        loads: Callable[[], Iterable[tuple[str, TopicLoad]]],
        options: Callable[[], SplitOptions],
    ) -> None:
        self._catalog: Final = catalog
        self._loads: Final = loads
        self._options: Final = options

    async def points(
        self, bundle: BundleName, name: str | None, positions: Sequence[int]
    ) -> Sequence[int]:
        """The boundaries at which to split; none if the algorithm sees no need.

        No ``name`` or an unknown one means the default algorithm; ``positions`` are boundaries
        given to it.
        """
        return (await self.found(bundle, name, positions)).boundaries

    async def found(
        self, bundle: BundleName, name: str | None = None, positions: Sequence[int] = ()
    ) -> SplitPoints:
        """The boundaries, as `points` returns them, together with the algorithm's reason."""
        topics: dict[str, TopicLoad | None] = {
            str(topic): None
            for topic in await self._catalog.topics_of(bundle.namespace, "ALL")
            if topic in bundle
        }
        for topic, load in self._loads():
            if topic in topics:
                topics[topic] = load
        options = self._options()
        chosen = algorithm(name or options.default_algorithm, options)
        request = SplitRequest(bundle.range, points_of(topics), positions)
        return chosen(request, options)
