"""Credentials, and the principal that a provider makes of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol


class AuthenticationError(Exception):
    """Credentials were refused; the text says why, and never quotes them."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a client shows. Never logged: not even this object's text has it."""

    method: str
    """``token``, ``tls``, ``basic``; anything else if nothing."""
    data: bytes = field(default=b"", repr=False)
    """A token, or ``user:password``."""
    certificate: Mapping[str, Any] | None = field(default=None, repr=False)
    """The TLS certificate that was verified when it connected (``getpeercert``)."""


@dataclass(frozen=True, slots=True)
class Principal:
    """An authenticated client: its role."""

    role: str
    expires_at_s: float | None = None
    """When it has to show newer credentials, in seconds since the epoch."""


class Provider(Protocol):
    """Checks the credentials of one method (``AuthenticationProvider``)."""

    method: str
    """How clients and HTTP headers call it."""

    async def authenticate(self, shown: Credentials) -> Principal:
        """The principal of these credentials; raises `AuthenticationError`."""


class FirstOf:
    """Several providers of one method: the first that accepts the credentials decides."""

    def __init__(self, providers: Sequence[Provider]) -> None:
        self._providers = providers
        self.method = providers[0].method

    async def authenticate(self, shown: Credentials) -> Principal:
        """The principal of these credentials; raises the last provider's error."""
        refused = AuthenticationError("Authentication failed")
        for each in self._providers:
            try:
                return await each.authenticate(shown)
            except AuthenticationError as error:
                refused = error
        raise refused


class CertificateProvider:
    """TLS client certificates: the role is the common name (``AuthenticationProviderTls``)."""

    method = "tls"

    async def authenticate(self, shown: Credentials) -> Principal:
        """The principal that the certificate names."""
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
