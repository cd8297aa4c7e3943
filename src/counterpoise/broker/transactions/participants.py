"""Ends transactions on topics and subscriptions, on this broker or on those that own them."""

import asyncio
from collections.abc import Callable
from typing import Final

from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.transactions.options import TransactionOptions
from counterpoise.broker.transactions.ports import ParticipantOwner
from counterpoise.security.client import ClientSecurity
from counterpoise.wire.encode_transactions import end_on_participant
from counterpoise.wire.errors import ServerError
from counterpoise.wire.events import EndOnParticipant

_ELSEWHERE: Final = frozenset({ServerError.ServiceNotReady})


class ClusterParticipants:
    """Ends transactions on topics and subscriptions of any broker of the cluster."""

    def __init__(
        self,
        local: ParticipantOwner,
        broker_url: str,
        security: ClientSecurity,
        options: Callable[[], TransactionOptions],
    ) -> None:
        """``local`` ends transactions on topics that this broker owns; for others the owner is
        looked up, beginning at ``broker_url``, this broker's address.
        """
        self._local = local
        self._broker_url = broker_url
        self._security = security
        self._options = options
        self._turns = asyncio.Semaphore(options().requests_max)

    async def end(self, request: EndOnParticipant) -> None:
        """End a transaction on a topic or a subscription; raises `BrokerError`."""
        try:
            await self._local.end(request)
        except BrokerError as error:
            if error.code not in _ELSEWHERE:
                raise
        else:
            return
        async with self._turns:
            try:
                async with asyncio.timeout(self._options().request_timeout_ms / 1000):
                    await self._end_at_owner(request)
            except TimeoutError:
                why = f"the owner of {request.topic} did not answer in time"
                raise BrokerError(ServerError.ServiceNotReady, why) from None

    async def _end_at_owner(self, request: EndOnParticipant) -> None:
        # Imported here: a cluster in a test may never end a transaction at another broker.
        from counterpoise.broker.peers.connection import PeerError
        from counterpoise.broker.peers.topic_owner import connect_to_owner

        within_s = self._options().request_timeout_ms / 1000
        try:
            peer = await connect_to_owner(request.topic, self._broker_url, within_s, self._security)
            try:
                await peer.request(end_on_participant(request))
            finally:
                peer.close()
        except PeerError as error:
            raise BrokerError(ServerError.ServiceNotReady, str(error)) from error
