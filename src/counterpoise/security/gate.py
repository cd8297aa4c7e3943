"""Authentication and authorization together, as a broker uses them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from counterpoise.names.namespace import NamespaceName
from counterpoise.security.authentication import Authentication
from counterpoise.security.authorization import Authorization
from counterpoise.security.options import AuthenticationOptions, AuthorizationOptions


@dataclass(frozen=True, slots=True)
class Security:
    """One broker's authentication and authorization, which all of its ports use."""

    authentication: Authentication
    authorization: Authorization


class _NoPolicies:
    async def tenant(self, _name: str) -> Mapping[str, Any] | None:
        return None

    async def namespace(self, _namespace: NamespaceName) -> Mapping[str, Any] | None:
        return None


OPEN_TO_ALL: Final = Security(
    Authentication(AuthenticationOptions()), Authorization(AuthorizationOptions, _NoPolicies())
)
"""No credentials are asked for, and every client may do everything."""
