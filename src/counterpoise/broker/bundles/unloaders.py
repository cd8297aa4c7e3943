"""Two ways to carry out the leader's moves: by requests to owners, or by bundles' records."""

from collections.abc import Callable

from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.bundles.bundle_assigner import BundleAssigner
from counterpoise.broker.bundles.moves import BundleMoves
from counterpoise.broker.bundles.placement import Placer
from counterpoise.broker.bundles.tally import BundleTally
from counterpoise.broker.load.registry import BrokerRegistry
from counterpoise.decide.balancing.moves import Move
from counterpoise.names.bundle import BundleName
from counterpoise.security.client import ClientSecurity
from counterpoise.wire.errors import ServerError


class RecordUnloader:
    """Unloads bundles by writing their records in the state channel, which the owners read.

    Source: ``UnloadScheduler``, ``ServiceUnitStateChannelImpl.publishUnloadEventAsync``.
    """

    def __init__(self, assigner: BundleAssigner, placer: Placer) -> None:
        self._assigner = assigner
        self._placer = placer

    async def __call__(self, move: Move) -> None:
        """Unload the bundle; returns when it is released. Without a destination placement chooses.

        Raises `BrokerError` or `MetadataError`.
        """
        bundle = BundleName.parse(move.bundle)
        destination = move.destination or await self._placer.choose(bundle, without={move.source})
        if not await self._assigner.release(bundle, move.source, destination):
            raise BrokerError(
                ServerError.ServiceNotReady,
                f"{bundle} was not unloaded: its record does not say that {move.source} has "
                f"released it to {destination or 'any broker'}",
            )


class AdminUnloader:
    """Unloads bundles through the admin API of their owners, as an administrator would."""

    def __init__(
        self,
        me: str,
        registry: BrokerRegistry,
        moves: BundleMoves,
        tally: BundleTally,
        *,
        security: ClientSecurity,
        within_s: Callable[[], float],
    ) -> None:
        """``security``: this broker's credentials; ``within_s``: the time-out of one unload."""
        self._security = security
        self._me = me
        self._registry = registry
        self._moves = moves
        self._tally = tally
        self._within_s = within_s

    async def __call__(self, move: Move) -> None:
        """Unload the bundle; returns when it is released. Without a destination the owner chooses.

        Raises `BrokerError` or `MetadataError`.
        """
        bundle, destination = BundleName.parse(move.bundle), move.destination or None
        if move.source == self._me:
            await self._moves.unload(bundle, destination)
            self._tally.ordered += 1
            return
        report = await self._registry.report(move.source)
        plain = None if report is None else report.web_service_url
        secure = None if report is None else report.web_service_url_tls
        web_url = secure or plain if self._security.has_tls_settings else plain or secure
        if web_url is None:
            raise BrokerError(ServerError.ServiceNotReady, f"{move.source} has left")
        # Imported here: it brings an HTTP library.
        from counterpoise.broker.peers.unloads import UnloadRequest, request_unload

        request = UnloadRequest(bundle, destination, by=self._me, within_s=self._within_s())
        await request_unload(web_url, request, self._security)
