"""Credentials that a client presents, and the principal that a provider makes of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol


class AuthenticationError(Exception):
    """The client's credentials were refused. The text says why, and never quotes them."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a client presents to authenticate. Secrets are omitted from this object's ``repr``."""

    method: str
    """``token``, ``tls`` or ``basic``; anything else if there are no credentials."""
    data: bytes = field(default=b"", repr=False)
    """A token, or ``user:password``."""
    certificate: Mapping[str, Any] | None = field(default=None, repr=False)
    """The TLS certificate that was verified when the client connected (``getpeercert``)."""


@dataclass(frozen=True, slots=True)
class Principal:
    """An authenticated client: its role, and when it has to authenticate again."""

    role: str
    expires_at_s: float | None = None
    """When the client has to show newer credentials, in seconds since the epoch."""


class Provider(Protocol):
    """Checks credentials of one authentication method (Pulsar's ``AuthenticationProvider``)."""

    method: str
    """The method's name in the binary protocol and in HTTP headers."""

    async def authenticate(self, shown: Credentials) -> Principal:
        """Check credentials and return their principal; raises `AuthenticationError`."""


class FirstOf:
    """Tries several providers of one authentication method in order, until one accepts."""

    def __init__(self, providers: Sequence[Provider]) -> None:
        self._providers = providers
        self.method = providers[0].method

    async def authenticate(self, shown: Credentials) -> Principal:
        """Check credentials and return their principal; raises the last provider's error."""
        refused = AuthenticationError("Authentication failed")
        for each in self._providers:
            try:
                return await each.authenticate(shown)
            except AuthenticationError as error:
                refused = error
        raise refused


class CertificateProvider:
    """Authenticates by TLS client certificate, whose common name is the role."""

    method = "tls"

    async def authenticate(self, shown: Credentials) -> Principal:
        """The principal of a verified certificate; raises `AuthenticationError`."""
        if not shown.certificate:
            raise AuthenticationError("Failed to get TLS certificates from client")
        names = [
            value
            for part in shown.certificate.get("subject", ())
            for key, value in part
            if key == "commonName"
        ]
        if not names or not names[-1]:
            raise AuthenticationError("Client unable to authenticate with TLS certificate")
        return Principal(names[-1])
