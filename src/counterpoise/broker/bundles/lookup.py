"""Answers lookups: finds a bundle's owner, or assigns the bundle to a broker."""

import asyncio
from dataclasses import replace
from typing import Final

from counterpoise.broker.base.errors import BrokerError, store_errors_as_not_ready
from counterpoise.broker.base.single_flight import SingleFlight
from counterpoise.broker.bundles.bundle_assigner import BundleAssigner
from counterpoise.broker.bundles.election import LeaderElection
from counterpoise.broker.bundles.lookup_result import LookupConnect, LookupRedirect, LookupResult
from counterpoise.broker.bundles.ownership import PATIENCE_S, BundleOwnership
from counterpoise.broker.bundles.placement import Placer
from counterpoise.broker.bundles.tally import FAILURE, SKIP, SUCCESS, BundleTally
from counterpoise.broker.load.registry import BrokerRegistry
from counterpoise.load.report import LocalBrokerData
from counterpoise.names.bundle import BundleName
from counterpoise.ownership.lock.nodes import lock_of
from counterpoise.ownership.records import NamespaceEphemeralData
from counterpoise.wire.errors import ServerError

LOOKUP_S: Final = 20.0
"""The most seconds that a lookup takes, however slow the metadata store is."""


class LookupService:
    """Answers lookups that arrive at this broker (``NamespaceService.findBrokerServiceUrl``)."""

    def __init__(
        self,
        registry: BrokerRegistry,
        election: LeaderElection,
        ownership: BundleOwnership,
        placer: Placer,
        *,
        balanced: bool = True,
        tally: BundleTally | None = None,
    ) -> None:
        """``balanced``: the leader places unowned bundles; otherwise the broker that is asked."""
        self._registry = registry
        self._election = election
        self._ownership = ownership
        self._assigner = BundleAssigner(ownership)
        self._placer = placer
        self._balanced = balanced
        self._tally = tally or BundleTally()
        self._affinity: Final[dict[str, str]] = {}
        self._me: LookupConnect | None = None
        """This broker's addresses, once a lookup has found them."""
        self._assignments: Final = SingleFlight(self._assign_by_record)

    def set_affinity(self, bundle: BundleName, broker_id: str) -> None:
        """On the leader: make a bundle's next lookup assign it to this broker; applies once.

        Keyed by the whole bundle, as Pulsar 4.2 does: 4.0.7 keys by the range alone, so that two
        namespaces with the same range collide.
        """
        self._affinity[str(bundle)] = broker_id

    async def place_unowned(self, bundle: BundleName, broker_id: str) -> None:
        """Assign a bundle without an owner to a broker.

        Under the state channel at once, by the bundle's record; otherwise at the bundle's next
        lookup (`set_affinity`). Raises `StoreUnavailable`.
        """
        if self._ownership.changes_by_record:
            await self._assigner.assign(bundle, broker_id)
        else:
            self.set_affinity(bundle, broker_id)

    async def lookup_bundle(
        self, bundle: BundleName, *, authoritative: bool = False
    ) -> LookupResult:
        """The broker that serves a bundle; assigns it to one if none does
        (``findBrokerServiceUrl``).

        ``authoritative``: another broker redirected the client here because it chose this broker.
        Raises `BrokerError` (ServiceNotReady) when the client should try again.
        """
        try:
            async with asyncio.timeout(LOOKUP_S):
                return await self._find_or_assign(bundle, authoritative)
        except TimeoutError:
            raise BrokerError(
                ServerError.ServiceNotReady, f"{bundle} could not be looked up; try again"
            ) from None

    def served_here(self, bundle: BundleName) -> LookupConnect | None:
        """Return this broker's addresses if it serves a bundle whose ownership is not changing.

        Otherwise None, and `lookup_bundle` has the answer. This is no coroutine, since without a
        task for each lookup 100,000 clients that reconnect at once are answered in half the time.
        """
        if self._me is None or not self._ownership.serves_at_rest(bundle):
            return None
        self._tally.found_owner()
        return self._me

    async def at_leader(self) -> LookupResult:
        """The leader's address, for topics that the leader always serves.

        Raises `BrokerError` (ServiceNotReady) while there is no leader.
        """
        with store_errors_as_not_ready():
            leader = self._election.leader
            report = None if leader is None else await self._registry.report(leader.broker_id)
            if leader is None or report is None:
                raise BrokerError(ServerError.ServiceNotReady, "no broker leads at the moment")
            return LookupConnect.of_report(leader.broker_id, report)

    async def _find_or_assign(self, bundle: BundleName, authoritative: bool) -> LookupResult:
        with store_errors_as_not_ready():
            where = await self._ownership.locate(bundle)
            if where.successor is not None:
                return await self._redirect_to_successor(bundle, where.successor, authoritative)
            owner = await self._after_unload(bundle) if where.changing else where.owner
            if owner is None:
                return await self._assign(bundle, authoritative=authoritative)
            if owner.broker_id != self._registry.my_id:
                return await self._connect_to(bundle, owner)
            if self._ownership.serves_at_rest(bundle):
                self._me = await self._connect_to(bundle, owner)
                return self._me
            await self._ownership.wait_until_served(bundle)
            return await self._connect_to(bundle, owner)

    async def _redirect_to_successor(
        self, bundle: BundleName, destination: str, authoritative: bool
    ) -> LookupResult:
        """Redirect a client to the broker that a bundle is moving to; the client waits there."""
        if destination not in await self._registry.active():
            # An authoritative lookup is not redirected: two brokers that chose each other would
            # send the client to and fro for ever.
            return await self._assign(bundle, authoritative=authoritative)
        return await self._connect_to(bundle, NamespaceEphemeralData("", f"http://{destination}"))

    async def _after_unload(self, bundle: BundleName) -> NamespaceEphemeralData | None:
        """Return the bundle's owner after the release that is under way; None if it has none.

        Raises `BrokerError` if the release has not ended after `PATIENCE_S`.
        """

        async def is_decided() -> bool:
            return not (await self._ownership.locate(bundle)).changing

        if not await self._ownership.until(bundle, is_decided, PATIENCE_S):
            raise BrokerError(
                ServerError.ServiceNotReady, f"Namespace bundle {bundle} is being unloaded"
            )
        return (await self._ownership.locate(bundle)).owner

    async def _assign(self, bundle: BundleName, *, authoritative: bool) -> LookupResult:
        if self._ownership.changes_by_record:
            return await self._connect_to(bundle, await self._assigned(bundle))
        leader = self._election.leader
        if authoritative:
            return await self._take(bundle)
        me, active = self._registry.my_id, await self._registry.active()
        bound = bundle.namespace.bound_broker
        asks_leader = self._balanced and bound is None and not self._election.is_leader
        if asks_leader and leader is not None and leader.broker_id in active:
            return await self._redirect(bundle, leader.broker_id, authoritative=False)
        chosen = await self._chosen(bundle)
        if chosen == me:
            return await self._take(bundle)
        return await self._redirect(bundle, chosen, authoritative=True)

    async def _chosen(self, bundle: BundleName) -> str:
        bound = bundle.namespace.bound_broker
        is_there = bound is not None and bound in await self._registry.active()
        chosen = bound if is_there else await self.choose(bundle)
        if chosen is None:
            self._tally.assigned[FAILURE] += 1
            raise BrokerError(
                ServerError.ServiceNotReady, f"No broker was available to own {bundle}"
            )
        return chosen

    async def _assigned(self, bundle: BundleName) -> NamespaceEphemeralData:
        """The owner of a bundle that had none: assigned here, unless another broker was faster.

        Source: ``ExtensibleLoadManagerImpl.assign``. Concurrent lookups share one assignment.
        """
        owner = await self._assignments(bundle)
        if owner is None:
            raise BrokerError(
                ServerError.ServiceNotReady, f"{bundle} has no owner yet; look it up again"
            )
        return owner

    async def _assign_by_record(self, bundle: BundleName) -> NamespaceEphemeralData | None:
        where = await self._ownership.locate(bundle)
        if where.owner is None and not where.changing:
            chosen = await self._chosen(bundle)
            where = await self._assigner.assign(bundle, chosen)
            found = where.successor or (where.owner.broker_id if where.owner else None)
            result = SUCCESS if found == chosen else SKIP if found else FAILURE
            self._tally.assigned[result] += 1
        elif where.changing:
            # Its successor is gone: the leader repairs the record.
            where = await self._assigner.owner_after_change(bundle)
        if where.successor is not None and where.successor in await self._registry.active():
            return NamespaceEphemeralData("", f"http://{where.successor}")
        return where.owner

    async def choose(self, bundle: BundleName) -> str | None:
        """Return the broker to assign a bundle to: that of `set_affinity`, or else by placement.

        None if there is none, and for a namespace that is bound to one broker (heartbeats).
        """
        if bundle.namespace.bound_broker is not None:
            return None
        if not self._balanced:
            return self._registry.my_id
        preferred = self._affinity.pop(str(bundle), None)
        if preferred is not None and preferred in await self._registry.active():
            return preferred
        return await self._placer.choose(bundle)

    async def _take(self, bundle: BundleName) -> LookupResult:
        await self._ownership.acquire(bundle)
        if self._ownership.serves_at_rest(bundle):
            self._me = await self._connect_to(bundle, self._ownership.me)
            return self._me
        where = await self._ownership.locate(bundle)
        owner = where.owner
        if where.successor is not None and where.successor in await self._registry.active():
            # Another broker was chosen at the same time, and was faster.
            self._tally.assigned[SKIP] += 1
            owner = NamespaceEphemeralData("", f"http://{where.successor}")
        if owner is None:
            raise BrokerError(
                ServerError.ServiceNotReady, f"{bundle} could not be acquired; look it up again"
            )
        return await self._connect_to(bundle, owner)

    async def _connect_to(self, bundle: BundleName, owner: NamespaceEphemeralData) -> LookupConnect:
        """The owner's addresses: from its record, or its registration if only its id is known."""
        if owner.native_url or owner.native_url_tls:
            return LookupConnect(
                owner.broker_id,
                owner.native_url or None,
                owner.native_url_tls,
                owner.http_url or None,
                owner.http_url_tls,
                owner.advertised_listeners,
            )
        if not owner.broker_id:
            raise BrokerError(
                ServerError.ServiceNotReady,
                f"the metadata node {lock_of(str(bundle))} names no broker: delete it unless a "
                "broker serves the bundle",
            )
        alive = await self._alive(bundle, owner.broker_id)
        return LookupConnect.of_report(alive, await self._report(bundle, alive))

    async def _alive(self, bundle: BundleName, broker_id: str) -> str:
        """Return the owner's id; if that broker is gone, wait for the one that gets the bundle.

        After `PATIENCE_S` it may still name a broker that is gone.
        """
        found = broker_id

        async def is_there() -> bool:
            nonlocal found
            where = await self._ownership.locate(bundle)
            found = where.successor or (where.owner.broker_id if where.owner else broker_id)
            return found in await self._registry.active()

        if found not in await self._registry.active():
            await self._ownership.until(bundle, is_there, PATIENCE_S)
        return found

    async def _redirect(
        self, bundle: BundleName, broker_id: str, *, authoritative: bool
    ) -> LookupRedirect:
        to = LookupRedirect.of_report(broker_id, await self._report(bundle, broker_id))
        return replace(to, authoritative=authoritative)

    async def _report(self, bundle: BundleName, broker_id: str) -> LocalBrokerData:
        report = await self._registry.report(broker_id)
        if report is None:
            raise BrokerError(
                ServerError.ServiceNotReady,
                f"{broker_id}, which owns {bundle} or is to, has left; look it up again",
            )
        return report
