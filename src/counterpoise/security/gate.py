"""What a broker asks of everybody: who are you, and may you do this?"""

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
    """Both questions, as one broker asks them on each of its ports."""

    authentication: Authentication
    authorization: Authorization


class _Nothing:
    async def tenant(self, _name: str) -> Mapping[str, Any] | None:
        return None

    async def namespace(self, _namespace: NamespaceName) -> Mapping[str, Any] | None:
        return None


OPEN_TO_ALL: Final = Security(
    Authentication(AuthenticationOptions()), Authorization(AuthorizationOptions, _Nothing())
)
"""Nobody is asked who they are, and everybody may do everything."""
