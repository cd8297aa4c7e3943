"""The namespace service: who owns a bundle, who shall, and how it changes hands."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from counterpoise.broker.bundles import NamespaceBundleCache
from counterpoise.broker.election import LeaderElection
from counterpoise.broker.errors import BrokerError
from counterpoise.broker.lookup import Connect, LookupAnswer, Redirect
from counterpoise.broker.ownership import BundleOwnership
from counterpoise.broker.placement import Placer
from counterpoise.broker.registry import BrokerRegistry
from counterpoise.broker.unavailable import store_errors_as_not_ready
from counterpoise.metadata import MetadataError
from counterpoise.names.bundle import BundleName, NamespaceBundles
from counterpoise.names.errors import InvalidName
from counterpoise.names.namespace import NamespaceName
from counterpoise.names.topic import TopicName
from counterpoise.ownership.records import NamespaceEphemeralData
from counterpoise.wire.errors import ServerError

log = logging.getLogger(__name__)

HAND_OVER_S: Final = 5.0
"""How long a client waits at most for a bundle that is just changing hands."""

SplitPoints = Callable[[BundleName, str | None, Sequence[int]], Awaitable[Sequence[int]]]
"""Where to cut a bundle, by the name of an algorithm and the boundaries asked for."""


class NamespaceService:
    """Bundles and their owners, as this broker sees and changes them."""

    def __init__(
        self,
        registry: BrokerRegistry,
        election: LeaderElection,
        bundles: NamespaceBundleCache,
        ownership: BundleOwnership,
        placer: Placer,
        *,
        split_points: SplitPoints,
    ) -> None:
        self._registry = registry
        self._election = election
        self._bundles = bundles
        self._ownership = ownership
        self._placer = placer
        self._split_points = split_points
        self._affinity: Final[dict[str, str]] = {}

    # What a topic registry asks.

    def bundle_of(self, topic: TopicName) -> BundleName:
        """The bundle of a topic whose namespace was looked up before."""
        bundles = self._bundles.peek(topic.namespace_name)
        if bundles is not None:
            return bundles.bundle_of(topic)
        for bundle in self._ownership.owned():
            if topic in bundle:
                return bundle
        raise _not_served(topic)

    def owns(self, topic: TopicName) -> bool:
        """Whether this broker may serve the topic now."""
        bundles = self._bundles.peek(topic.namespace_name)
        if bundles is not None and self._ownership.serves(bundles.bundle_of(topic)):
            return True
        # During a split the parent's lock still counts for what its parts do not cover yet.
        return any(topic in bundle for bundle in self._ownership.owned())

    async def settle(self, topic: TopicName) -> None:
        """Return when this broker owns the topic, waiting for a hand-over that is under way.

        Raises `BrokerError` (ServiceNotReady) when it does not: the client looks up again.
        """
        bundle = (await self.bundles(topic.namespace_name)).bundle_of(topic)
        if self._ownership.serves(bundle):
            return
        with store_errors_as_not_ready():
            if not self._ownership.settling(bundle):
                await self._ownership.catch_up(bundle)
            await self._until_settled(bundle)
        if not self.owns(topic):
            raise _not_served(topic)

    async def _until_settled(self, bundle: BundleName) -> None:
        async def settled() -> bool:
            return not self._ownership.settling(bundle)

        await self._ownership.until(bundle, settled, HAND_OVER_S)

    # What a client asks.

    async def bundles(self, namespace: NamespaceName) -> NamespaceBundles:
        """The bundles of a namespace; raises `BrokerError` (TopicNotFound) if there is none."""
        with store_errors_as_not_ready():
            return await self._bundles.get(namespace)

    async def owner(self, bundle: BundleName) -> NamespaceEphemeralData | None:
        """Who owns a bundle."""
        with store_errors_as_not_ready():
            return await self._ownership.owner(bundle)

    def owned(self) -> list[BundleName]:
        """The bundles that this broker owns, sorted."""
        return self._ownership.owned()

    async def lookup(self, topic: TopicName, *, authoritative: bool = False) -> LookupAnswer:
        """Who serves a topic; decides it if nobody does (Pulsar's ``findBrokerServiceUrl``).

        ``authoritative``: the broker that redirected here has decided that it shall be us. Raises
        `BrokerError`: TopicNotFound without the namespace, ServiceNotReady when the client should
        try again.
        """
        bundle = (await self.bundles(topic.namespace_name)).bundle_of(topic)
        return await self.lookup_bundle(bundle, authoritative=authoritative)

    async def lookup_bundle(
        self, bundle: BundleName, *, authoritative: bool = False
    ) -> LookupAnswer:
        """Who serves a bundle; see `lookup`."""
        with store_errors_as_not_ready():
            hand_over = await self._ownership.hand_over(bundle)
            if hand_over is not None and hand_over.destination is not None:
                return await self._hand_on(bundle, hand_over.destination)
            owner = await self._ownership.owner(bundle)
            if owner is not None and (hand_over is not None or owner.disabled):
                owner = await self._after_unload(bundle)
            if owner is None:
                return await self._assign(bundle, authoritative=authoritative)
            if owner.broker_id == self._registry.my_id and not self._ownership.serves(bundle):
                await self._ownership.acquire(bundle)
            return _connect_to(owner)

    async def _hand_on(self, bundle: BundleName, destination: str) -> LookupAnswer:
        """Send a client on to where a bundle is going; there it waits until it is."""
        if destination not in await self._registry.active():
            return await self._assign(bundle, authoritative=False)
        to = await self._redirect(bundle, destination, authoritative=True)
        return Connect(to.broker_id, to.service_url, to.web_url, to.service_url_tls, to.web_url_tls)

    async def _after_unload(self, bundle: BundleName) -> NamespaceEphemeralData | None:
        """Who owns a bundle after it was let go; raises `BrokerError` when that takes long."""

        async def let_go() -> bool:
            owner = await self._ownership.owner(bundle)
            hand_over = await self._ownership.hand_over(bundle)
            return owner is None or not (owner.disabled or hand_over)

        if not await self._ownership.until(bundle, let_go, HAND_OVER_S):
            raise BrokerError(
                ServerError.ServiceNotReady, f"Namespace bundle {bundle} is being unloaded"
            )
        return await self._ownership.owner(bundle)

    async def _assign(self, bundle: BundleName, *, authoritative: bool) -> LookupAnswer:
        me = self._registry.my_id
        leader = self._election.leader
        if authoritative:
            return await self._take(bundle)
        active = await self._registry.active()
        bound = bundle.namespace.bound_broker
        asks_leader = bound is None and not self._election.is_leader
        if asks_leader and leader is not None and leader.broker_id in active:
            return await self._redirect(bundle, leader.broker_id, authoritative=False)
        chosen = bound if bound in active else await self._choose(bundle)
        if chosen is None:
            raise BrokerError(
                ServerError.ServiceNotReady, f"No broker was available to own {bundle}"
            )
        if chosen == me:
            return await self._take(bundle)
        return await self._redirect(bundle, chosen, authoritative=True)

    async def _choose(self, bundle: BundleName) -> str | None:
        if bundle.namespace.bound_broker is not None:
            return None
        wanted = self._affinity.pop(str(bundle), None)
        if wanted is not None and wanted in await self._registry.active():
            return wanted
        return await self._placer.choose(bundle)

    async def _take(self, bundle: BundleName) -> LookupAnswer:
        await self._ownership.acquire(bundle)
        owner = await self._ownership.owner(bundle)
        if owner is None:
            raise BrokerError(
                ServerError.ServiceNotReady, f"{bundle} could not be acquired; look it up again"
            )
        return _connect_to(owner)

    async def _redirect(
        self, bundle: BundleName, broker_id: str, *, authoritative: bool
    ) -> Redirect:
        report = await self._registry.report(broker_id)
        if report is None:
            raise BrokerError(
                ServerError.ServiceNotReady,
                f"{broker_id}, which is to own {bundle}, has left the cluster; look it up again",
            )
        return Redirect(
            broker_id,
            report.pulsar_service_url or "",
            report.web_service_url or "",
            authoritative,
            report.pulsar_service_url_tls,
            report.web_service_url_tls,
        )

    # What an administrator asks.

    def set_affinity(self, bundle: BundleName, broker_id: str) -> None:
        """Say on the leader where a bundle goes at its next lookup; holds once.

        Keyed by the whole bundle, as Pulsar 4.2 does: 4.0.7 keys by the range alone, so that two
        namespaces with the same range collide.
        """
        self._affinity[str(bundle)] = broker_id

    async def unload(self, bundle: BundleName, destination: str | None = None) -> str | None:
        """Close a bundle's topics here and hand it to a broker; returns which one.

        Without a destination placement chooses one now, so that clients can be sent straight on.
        Raises `BrokerError` if this broker does not own the bundle, or the destination is not
        there.
        """
        with store_errors_as_not_ready():
            if not self._ownership.serves(bundle):
                raise BrokerError(
                    ServerError.ServiceNotReady, f"{bundle} is not owned by this broker"
                )
            if destination is not None and destination not in await self._registry.active():
                raise BrokerError(
                    ServerError.NotAllowedError,
                    f"{destination} is not an active broker; unload {bundle} to one that is",
                )
            heir = destination or await self._choose_other(bundle)
            await self._ownership.release(bundle, heir)
            return heir

    async def leave(self) -> None:
        """Hand every bundle to another broker, if there is one; all of them at once."""
        others = set(await self._registry.active()) - {self._registry.my_id}

        async def hand_over(bundle: BundleName) -> None:
            heir = await self._placer.choose(bundle, without={self._registry.my_id})
            await self._ownership.release(bundle, heir if heir in others else None)

        await asyncio.gather(*map(hand_over, self._ownership.owned()))

    async def _choose_other(self, bundle: BundleName) -> str | None:
        """Another broker if the policies allow one, else this one again.

        In Pulsar the broker that unloaded a bundle competes for it as well and often gets it back.
        """
        me = self._registry.my_id
        if set(await self._registry.active()) - {me}:
            other = await self._placer.choose(bundle, without={me})
            if other is not None:
                return other
        return await self._choose(bundle)

    async def split(
        self,
        bundle: BundleName,
        *,
        algorithm: str | None = None,
        boundaries: Sequence[int] = (),
        unload: bool = False,
    ) -> tuple[BundleName, ...]:
        """Cut a bundle owned here; returns its parts, none when the algorithm sees no need.

        The parts are owned before the parent is let go, so topics stay open. ``unload`` then
        sends each part to wherever placement wants it, in the background of nobody: it is done
        when this returns. Raises `BrokerError` or `InvalidName`.
        """
        with store_errors_as_not_ready():
            if not self._ownership.serves(bundle):
                raise BrokerError(
                    ServerError.ServiceNotReady, f"{bundle} is not owned by this broker"
                )
            points = await self._split_points(bundle, algorithm, boundaries)
            if not points:
                return ()
            return await self._split_at(bundle, points, unload=unload)

    async def _split_at(
        self, bundle: BundleName, points: Sequence[int], *, unload: bool
    ) -> tuple[BundleName, ...]:
        now = await self._bundles.get(bundle.namespace)
        children = now.split(bundle.range, points).children(bundle.range)
        for child in children:
            if not await self._ownership.acquire(child):
                raise BrokerError(
                    ServerError.ServiceNotReady, f"{child}, a part of {bundle}, is owned elsewhere"
                )
        try:
            await self._bundles.update(
                bundle.namespace, lambda bundles: bundles.split(bundle.range, points)
            )
        except (MetadataError, InvalidName):
            for child in children:
                await self._ownership.replaced(child)
            raise
        await self._ownership.replaced(bundle)
        if unload:
            for child in children:
                await self.unload(child)
        return children


def _connect_to(owner: NamespaceEphemeralData) -> Connect:
    return Connect(
        owner.broker_id, owner.native_url, owner.http_url, owner.native_url_tls, owner.http_url_tls
    )


def _not_served(topic: TopicName) -> BrokerError:
    return BrokerError(
        ServerError.ServiceNotReady,
        f"Namespace bundle for topic ({topic}) not served by this instance. "
        f"Please redo the lookup. Request is denied: namespace={topic.namespace_name}",
    )
