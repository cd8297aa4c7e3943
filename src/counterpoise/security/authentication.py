"""Authentication of clients, on the binary port and on the admin port, by the same providers."""

import base64
import binascii
from collections.abc import Iterable, Mapping
from typing import Any, Final

from counterpoise.names.options import ConfigError
from counterpoise.security.identity import (
    AuthenticationError,
    CertificateProvider,
    Credentials,
    FirstOf,
    Principal,
    Provider,
)
from counterpoise.security.options import PROVIDER_PACKAGE, AuthenticationOptions

_SCHEMES: Final = {"token": "Bearer ", "basic": "Basic "}
"""The prefix of the HTTP header ``Authorization``, by authentication method."""


class Authentication:
    """Authenticates clients with the configured providers; if disabled, no client has a role."""

    def __init__(
        self, options: AuthenticationOptions, providers: Iterable[Provider] | None = None
    ) -> None:
        """``providers``: instead of those that the settings name. Raises `ConfigError`."""
        self.enabled: Final = options.enabled
        self._anonymous = options.anonymous_role or None
        self._providers: dict[str, Provider] = {}
        if not options.enabled:
            return
        given = list(_named(options) if providers is None else providers)
        if not given:
            raise ConfigError("authenticationProviders", "name one: authenticationEnabled is true")
        for method in dict.fromkeys(each.method for each in given):
            same = [each for each in given if each.method == method]
            self._providers[method] = same[0] if len(same) == 1 else FirstOf(same)

    async def of_command(self, shown: Credentials) -> Principal:
        """Authenticate a CONNECT of the binary protocol; raises `AuthenticationError`."""
        provider = self._providers.get(shown.method)
        if provider is not None:
            return await provider.authenticate(shown)
        if self._anonymous is not None:
            return Principal(self._anonymous)
        raise AuthenticationError("No anonymous role, and no authentication provider configured")

    async def of_request(
        self, headers: Mapping[str, str], certificate: Mapping[str, Any] | None
    ) -> Principal:
        """Authenticate an admin request; raises `AuthenticationError`."""
        named = headers.get("X-Pulsar-Auth-Method-Name")
        if named is not None:
            provider = self._providers.get(named)
            if provider is None:
                raise AuthenticationError(f"Unsupported authentication method: [{named[:40]}].")
            return await provider.authenticate(_of_http(named, headers, certificate))
        for method, provider in self._providers.items():
            try:
                return await provider.authenticate(_of_http(method, headers, certificate))
            except AuthenticationError:
                continue
        if self._anonymous is not None:
            return Principal(self._anonymous)
        raise AuthenticationError("Authentication required")


def _of_http(
    method: str, headers: Mapping[str, str], certificate: Mapping[str, Any] | None
) -> Credentials:
    scheme = _SCHEMES.get(method)
    if scheme is None:
        return Credentials(method, certificate=certificate)
    header = headers.get("Authorization", "")
    if not header.startswith(scheme):
        raise AuthenticationError("Invalid HTTP Authorization header")
    data = header.removeprefix(scheme).encode("utf-8", "surrogateescape")
    if method == "basic":
        try:
            data = base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError):
            raise AuthenticationError("Base64 decoded params are invalid") from None
    return Credentials(method, data, certificate)


def _named(options: AuthenticationOptions) -> Iterable[Provider]:
    # Imported where they are needed: most embedded clusters need none.
    for name in options.providers:
        match name.removeprefix(PROVIDER_PACKAGE):
            case "AuthenticationProviderTls":
                yield CertificateProvider()
            case "AuthenticationProviderToken":
                from counterpoise.security.tokens import TokenProvider

                yield TokenProvider(options)
            case "AuthenticationProviderBasic":
                from counterpoise.security.passwords import PasswordProvider

                yield PasswordProvider(options.password_file)
            case _:
                raise ConfigError(
                    "authenticationProviders",
                    f"{name} is not supported; {PROVIDER_PACKAGE}AuthenticationProviderToken, "
                    "…Tls and …Basic are",
                )
