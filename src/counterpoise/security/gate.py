"""Authentication and authorization together, as a broker uses them."""

from dataclasses import dataclass

from counterpoise.security.authentication import Authentication
from counterpoise.security.authorization import Authorization


@dataclass(frozen=True, slots=True)
class Security:
    """One broker's authentication and authorization, which all of its ports use."""

    authentication: Authentication
    authorization: Authorization
