"""Carries out the leader's moves: here, or by an order to the bundle's owner."""

from __future__ import annotations

from collections.abc import Callable

from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.bundles.service import NamespaceService
from counterpoise.broker.bundles.tally import BundleTally
from counterpoise.broker.load.registry import BrokerRegistry
from counterpoise.decide.balancing.moves import Move
from counterpoise.names.bundle import BundleName
from counterpoise.security.client import ClientSecurity
from counterpoise.wire.errors import ServerError


class UnloadOrders:
    """Has bundles unloaded by their owners, as an administrator would."""

    def __init__(
        self,
        me: str,
        registry: BrokerRegistry,
        namespaces: NamespaceService,
        tally: BundleTally,
        *,
        security: ClientSecurity,
        within_s: Callable[[], float],
    ) -> None:
        """``security``: who this broker is to the others; ``within_s``: for one unload."""
        self._security = security
        self._me = me
        self._registry = registry
        self._namespaces = namespaces
        self._tally = tally
        self._within_s = within_s

    async def __call__(self, move: Move) -> None:
        """Returns when the bundle was released; raises `BrokerError` or `MetadataError`."""
        bundle, destination = BundleName.parse(move.bundle), move.destination or None
        if move.source == self._me:
            await self._namespaces.unload(bundle, destination)
            self._tally.ordered += 1
            return
        report = await self._registry.report(move.source)
        plain = None if report is None else report.web_service_url
        secure = None if report is None else report.web_service_url_tls
        web_url = secure or plain if self._security.has_tls_settings else plain or secure
        if web_url is None:
            raise BrokerError(ServerError.ServiceNotReady, f"{move.source} has left")
        # Imported here: it brings an HTTP library.
        from counterpoise.broker.peers.unloads import UnloadOrder, order_unload

        order = UnloadOrder(bundle, destination, by=self._me, within_s=self._within_s())
        await order_unload(web_url, order, self._security)
