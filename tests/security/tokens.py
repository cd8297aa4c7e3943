"""Tokens and their keys, made by PyJWT and cryptography as an administrator's tools would."""

import base64
import time
from typing import Any

import jwt

SECRET = b"a secret that is long enough for any of the three" + b"!" * 32
SECRET_SETTING = "data:;base64," + base64.b64encode(SECRET).decode()
PACKAGE = "org.apache.pulsar.broker.authentication."
SETTINGS: dict[str, object] = {
    "authenticationEnabled": True,
    "authenticationProviders": f"{PACKAGE}AuthenticationProviderToken",
    "tokenSecretKey": SECRET_SETTING,
    "authorizationEnabled": True,
    "superUserRoles": "admin",
}
"""A cluster where ``admin`` may do everything, and others what they were granted."""


def token(role: str | None = "admin", *, key: Any = SECRET, alg: str = "HS256", **more: Any) -> str:
    """A token for a role; ``expires_in`` seconds, if it ends."""
    claims = dict(more)
    if role is not None:
        claims["sub"] = role
    if "expires_in" in claims:
        claims["exp"] = time.time() + claims.pop("expires_in")
    return jwt.encode(claims, key, algorithm=alg)
