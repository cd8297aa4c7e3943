"""Unloads, hands over and splits the bundles of this broker."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from counterpoise.broker.base.background import BackgroundTasks
from counterpoise.broker.base.errors import BrokerError, store_errors_as_not_ready
from counterpoise.broker.bundles.lookup import LookupService
from counterpoise.broker.bundles.namespace_bundles import NamespaceBundleCache
from counterpoise.broker.bundles.ownership import BundleOwnership
from counterpoise.broker.bundles.placement import Placer
from counterpoise.broker.bundles.tally import SKIP, BundleTally, counted
from counterpoise.broker.load.registry import BrokerRegistry
from counterpoise.broker.namespaces.policies import Policies
from counterpoise.metadata import MetadataError
from counterpoise.names.bundle import BundleName
from counterpoise.names.errors import InvalidName
from counterpoise.names.namespace import NamespaceName
from counterpoise.ownership.channel.sense import PARTS_MAX
from counterpoise.wire.errors import ServerError

log = logging.getLogger(__name__)

SplitPoints = Callable[[BundleName, str | None, Sequence[int]], Awaitable[Sequence[int]]]
"""Finds the hashes at which to cut a bundle, by an algorithm's name (None: the default one) and
boundaries that are passed to it."""


class BundleMoves:
    """Unloads, hands over and splits the bundles that this broker owns."""

    def __init__(
        self,
        registry: BrokerRegistry,
        bundles: NamespaceBundleCache,
        ownership: BundleOwnership,
        lookups: LookupService,
        placer: Placer,
        policies: Policies,
        *,
        split_points: SplitPoints,
        tally: BundleTally | None = None,
        background: BackgroundTasks | None = None,
    ) -> None:
        self._registry = registry
        self._bundles = bundles
        self._ownership = ownership
        self._lookups = lookups
        self._placer = placer
        self._policies = policies
        self._split_points = split_points
        self._tally = tally or BundleTally()
        self._background = background or BackgroundTasks()
        self._splitting = asyncio.Lock()
        ownership.on_split = self.split_into

    async def unload(self, bundle: BundleName, destination: str | None = None) -> str | None:
        """Close a bundle's topics here and hand it to ``destination``; returns the id of the owner
        afterwards.

        Returns None when the store names no owner: the successor could not be notified, or has not
        taken the bundle, and the next lookup assigns it. Without a destination one is chosen now,
        so that clients can be redirected at once. Raises `BrokerError` if this broker does not own
        the bundle or the destination is unknown.
        """
        with store_errors_as_not_ready(), counted(self._tally.unloaded):
            if not self._ownership.serves(bundle):
                raise _not_owned(bundle)
            if destination is not None and destination not in await self._registry.active():
                raise BrokerError(
                    ServerError.NotAllowedError,
                    f"{destination} is not an active broker; unload {bundle} to one that is",
                )
            successor = destination or await self._choose_other(bundle)
            if not await self._ownership.release(bundle, successor):
                raise _not_owned(bundle)
        return await self._holder(bundle)

    async def drop(self, bundle: BundleName) -> None:
        """Close a bundle's topics here and release it to no broker: it is being deleted."""
        with store_errors_as_not_ready():
            if not await self._ownership.release(bundle, None):
                raise _not_owned(bundle)

    async def _holder(self, bundle: BundleName) -> str | None:
        try:
            where = await self._ownership.locate(bundle)
        except MetadataError as error:
            log.warning("%s was released; its new owner is not known: %s", bundle, error)
            return None
        return where.successor or (where.owner.broker_id if where.owner is not None else None)

    async def leave(self, unloads_per_s: int = 0) -> None:
        """Transfer every bundle owned here to other brokers, if there are any, before this one
        stops.

        ``unloads_per_s``: how many transfers start per second (``maxConcurrentUnloadPerSec`` of a
        shutdown); 0 or less starts all at once. A bundle that fails keeps none of the others here:
        it is logged.
        """
        others = set(await self._registry.active()) - {self._registry.my_id}

        async def hand_over(turn: int, bundle: BundleName) -> None:
            if unloads_per_s > 0:
                await asyncio.sleep(turn / unloads_per_s)
            successor = None
            try:
                successor = await self._placer.choose(bundle, without={self._registry.my_id})
            except Exception as error:
                log.warning("%s goes to no broker before it is looked up: %r", bundle, error)
            await self._ownership.release(bundle, successor if successor in others else None)

        owned = self._ownership.owned()
        handed = (hand_over(turn, bundle) for turn, bundle in enumerate(owned))
        results = await asyncio.gather(*handed, return_exceptions=True)
        for bundle, result in zip(owned, results, strict=True):
            if result is not None:
                log.warning("%s is not handed over: %r", bundle, result)

    async def _choose_other(self, bundle: BundleName) -> str | None:
        """The broker for a bundle to be unloaded: another one if policies allow it, else as a rule
        this one.

        In Pulsar the broker that unloaded a bundle competes for it as well and often gets it back.
        """
        me = self._registry.my_id
        if set(await self._registry.active()) - {me}:
            other = await self._placer.choose(bundle, without={me})
            if other is not None:
                return other
        return await self._lookups.choose(bundle)

    async def split(
        self,
        bundle: BundleName,
        *,
        algorithm: str | None = None,
        boundaries: Sequence[int] = (),
        at: Sequence[int] = (),
        unload: bool = False,
    ) -> tuple[BundleName, ...]:
        """Split a bundle owned here; returns its parts, or nothing if the algorithm sees no need.

        ``boundaries`` are passed to the algorithm; ``at`` are boundaries that need no algorithm.
        The parts are owned before the parent is released, so topics stay open. With ``unload`` each
        part then moves to the broker that placement chooses. Raises `BrokerError` or `InvalidName`.
        """
        splitting = self._background.start(
            f"splitting {bundle}",
            self._split_in_turn(partial(self._split, bundle, algorithm, boundaries, at)),
            expected=(BrokerError, MetadataError, InvalidName),
        )
        with store_errors_as_not_ready():
            # A split goes on if its caller is cancelled: otherwise this broker would go on owning
            # parts that the next owner of the whole bundle needs.
            children = await asyncio.shield(splitting)
            for child in children if unload else ():
                await self.unload(child)
            return children

    async def _split_in_turn(
        self, split: Callable[[], Awaitable[tuple[BundleName, ...]]]
    ) -> tuple[BundleName, ...]:
        # One at a time: another split may be cutting this very bundle.
        async with self._splitting:
            with counted(self._tally.split) as outcome:
                children = await split()
                if not children:
                    outcome.result = SKIP
                return children

    async def _split(
        self,
        bundle: BundleName,
        algorithm: str | None,
        boundaries: Sequence[int],
        at: Sequence[int],
    ) -> tuple[BundleName, ...]:
        if not self._ownership.serves(bundle):
            raise _not_owned(bundle)
        points = at or await self._split_points(bundle, algorithm, boundaries)
        return await self._split_at(bundle, points) if points else ()

    async def _split_at(self, bundle: BundleName, points: Sequence[int]) -> tuple[BundleName, ...]:
        now = await self._bundles.get(bundle.namespace)
        children = now.split(bundle.range, points).children(bundle.range)
        if len(children) > PARTS_MAX:
            raise BrokerError(
                ServerError.NotAllowedError,
                f"{bundle} cannot be split into {len(children)} parts at once: at most {PARTS_MAX}",
            )
        if not await self._ownership.announce_split(bundle, children):
            raise _not_owned(bundle)
        try:
            await self.split_into(bundle, children)
        except (BrokerError, MetadataError, InvalidName):
            if not self._ownership.changes_by_record:
                for child in children:
                    await self._ownership.replaced(child)
            raise
        finally:
            # A split that was announced in the bundle's record can only be finished.
            self._ownership.finish_split(bundle)
        return children

    async def split_into(self, bundle: BundleName, children: Sequence[BundleName]) -> None:
        """Carry out a split: own the parts and store them as bundles of the namespace. Can be
        repeated after a failure.

        Raises `BrokerError`, `MetadataError` or `InvalidName`.
        """
        points = sorted(child.range.upper for child in children)[:-1]
        if bundle in (await self._bundles.get(bundle.namespace)).bundles:
            for child in children:
                await self._own_part(bundle, child)
            await self._bundles.update(
                bundle.namespace, lambda bundles: bundles.split(bundle.range, points)
            )
        await self._ownership.replaced(bundle)
        await self._share(bundle.namespace)

    async def _own_part(self, bundle: BundleName, child: BundleName) -> None:
        if await self._ownership.acquire(child, as_split_part=True):
            return
        where = await self._ownership.locate(child)
        # On the state channel, a broker that began to finish this split may own the part already.
        if where.owner is None or not self._ownership.changes_by_record:
            raise BrokerError(
                ServerError.ServiceNotReady, f"{child}, a part of {bundle}, is owned elsewhere"
            )

    async def _share(self, namespace: NamespaceName) -> None:
        """Write the bundles into the namespace's policies, in the configuration store."""
        try:
            bundles = await self._bundles.get(namespace)
            await self._policies.share_bundles(bundles)
        except MetadataError as error:
            log.warning("the bundles of %s stand in its local policies only: %s", namespace, error)


def _not_owned(bundle: BundleName) -> BrokerError:
    return BrokerError(ServerError.ServiceNotReady, f"{bundle} is not owned by this broker")
