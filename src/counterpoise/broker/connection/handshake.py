"""Authentication of a client: when it connects, and again when its credentials expire."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from counterpoise.broker.connection.client_link import ClientLink, log
from counterpoise.broker.connection.pause import PauseReason
from counterpoise.names.callbacks import Clock, Notify
from counterpoise.security.authorization import Caller
from counterpoise.security.gate import Security
from counterpoise.security.identity import AuthenticationError, Credentials, Principal
from counterpoise.wire import encode, events
from counterpoise.wire.errors import ServerError

REFRESH: Final = b"PulsarAuthRefresh"
"""What an AUTH_CHALLENGE for newer credentials contains (Java's ``AuthData.REFRESH_AUTH_DATA``)."""
NO_REQUEST: Final = (1 << 64) - 1
"""The request id of an ERROR that answers no request: -1 as an unsigned 64-bit number."""


class HandshakeRefused(Exception):
    """The client may not connect; it is sent this error code and message."""

    def __init__(self, code: ServerError, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


@dataclass(frozen=True, slots=True)
class Admission:
    """What a connection gives its handshake to call."""

    accept: Callable[[events.Connect], None]
    """Sends CONNECTED, the response to a client that may connect."""
    close: Notify
    """Ends the connection once everything is written."""
    clock: Clock
    """Seconds since the epoch."""
    challenge: Callable[[str], bytes]
    """Makes the AUTH_CHALLENGE that asks for newer credentials of an authentication method."""


class Handshake:
    """Authenticates a client by CONNECT and AUTH_RESPONSE, if ``authenticationEnabled`` is set."""

    def __init__(
        self,
        link: ClientLink,
        security: Security,
        certificate: dict[str, Any] | None,
        admission: Admission,
        *,
        refresh_check_s: float,
        authenticate_original: bool,
    ) -> None:
        """``certificate``: the client's, if it presented one that is trusted. ``admission``: what
        the handshake calls on its connection.
        """
        self._link = link
        self._security = security
        self._certificate = certificate
        self._admission = admission
        self._refresh_check_s = refresh_check_s
        self._authenticate_original = authenticate_original
        self._connect: events.Connect | None = None
        self._principal = Principal("")
        """Whose credentials are watched: the client's, or those of a proxy's client that the proxy
        forwards."""
        self._challenged = False
        self._timer: asyncio.TimerHandle | None = None

    def connect(self, event: events.Connect) -> None:
        """CONNECT: authenticate the client. Nothing else is read from it until that is done."""
        self._connect = event
        self._link.pause.hold(PauseReason.HANDSHAKE)
        self._link.background.start("a client's handshake", self._admit(event))

    def respond(self, event: events.AuthResponse) -> None:
        """AUTH_RESPONSE: replace the client's credentials by newer ones of the same role."""
        if self._security.authentication.enabled:
            self._link.answer(
                self._refresh(event), lambda code, message: encode.error(0, code, message)
            )

    def stop(self) -> None:
        """Stop checking whether the client's credentials have expired."""
        if self._timer is not None:
            self._timer.cancel()

    async def _admit(self, event: events.Connect) -> None:
        try:
            caller = await self._identify(event)
        except HandshakeRefused as refused:
            self._end(refused.code, refused.message, str(refused.__cause__ or refused.message))
            return
        except Exception:
            log.exception("The handshake of %s failed in a way it must not", self._link.address)
            self._end(ServerError.AuthenticationError, "Failed to authenticate", "see above")
            return
        if self._link.closed:
            return
        self._link.permits.caller = caller
        self._link.protocol.admit()
        self._admission.accept(event)
        self._link.pause.release(PauseReason.HANDSHAKE)
        self._watch()

    async def _identify(self, event: events.Connect) -> Caller:
        shown = Credentials(event.auth_method, event.auth_data, self._certificate)
        self._principal = await self._believed(shown)
        caller = Caller(self._principal.role, event.original_principal or None)
        if self._authenticate_original and event.original_auth_data is not None:
            original = Credentials(
                event.original_auth_method or event.auth_method, event.original_auth_data.encode()
            )
            self._principal = await self._believed(original)
            caller = Caller(caller.role, self._principal.role)
        rules = self._security.authorization
        if rules.enabled:
            if rules.why_invalid(caller) is not None:
                raise HandshakeRefused(ServerError.AuthorizationError, "Invalid roles.")
            if event.proxy_version is not None and not rules.is_proxy(caller.role):
                raise HandshakeRefused(
                    ServerError.AuthorizationError,
                    "Must not set proxyVersion without connecting as a ProxyRole.",
                )
        return caller

    async def _believed(self, shown: Credentials) -> Principal:
        try:
            return await self._security.authentication.of_command(shown)
        except AuthenticationError as error:
            raise HandshakeRefused(
                ServerError.AuthenticationError, "Failed to authenticate"
            ) from error

    async def _refresh(self, event: events.AuthResponse) -> None:
        self._challenged = False
        shown = Credentials(event.auth_method, event.auth_data, self._certificate)
        try:
            principal = await self._believed(shown)
        except HandshakeRefused as refused:
            self._end(refused.code, refused.message, str(refused.__cause__))
            return
        if principal.role != self._principal.role:
            log.warning(
                "Closing the connection of %s: its role cannot change from %s to %s",
                self._link.address,
                self._principal.role,
                principal.role,
            )
            self._admission.close()
            return
        self._principal = principal
        self._watch()

    def _watch(self) -> None:
        """Check regularly whether the credentials have expired, if they can."""
        self.stop()
        if self._principal.expires_at_s is not None and not self._link.closed:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._refresh_check_s, self._look)

    def _look(self) -> None:
        expires = self._principal.expires_at_s
        if expires is None or self._admission.clock() <= expires:
            self._watch()
            return
        why_not = self._why_not_refreshed()
        if why_not is not None:
            log.warning("Closing the connection of %s: %s", self._link.address, why_not)
            self._admission.close()
            return
        self._challenged = True
        method = self._connect.auth_method if self._connect is not None else ""
        self._link.outbox.write(self._admission.challenge(method))
        self._watch()

    def _why_not_refreshed(self) -> str | None:
        connect = self._connect
        if connect is None or not connect.supports_auth_refresh:
            return "its credentials have expired, and it can show no newer ones"
        handed_on = self._authenticate_original and connect.original_auth_data is not None
        if connect.original_principal and not handed_on:
            return "the credentials have expired of a proxy that does not hand on its clients'"
        if self._challenged:
            return "its credentials have expired, and it showed no newer ones when asked"
        return None

    def _end(self, code: ServerError, message: str, why: str) -> None:
        if self._link.closed:
            return
        log.warning("%s is refused: %s", self._link.address, why)
        self._link.outbox.write(encode.error(NO_REQUEST, code, message))
        self._admission.close()
