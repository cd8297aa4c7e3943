"""User names and passwords, as Pulsar's ``AuthenticationProviderBasic`` checks them."""

import asyncio
from typing import Final

from passlib.context import CryptContext

from counterpoise.names.options import ConfigError
from counterpoise.security.identity import AuthenticationError, Credentials, Principal
from counterpoise.security.keys import read_named

_HASHES: Final = CryptContext(
    ["apr_md5_crypt", "sha512_crypt", "sha256_crypt", "md5_crypt", "des_crypt"]
)
"""The accepted formats of hashes: those of ``htpasswd -m`` and of the C library's ``crypt``."""
_AT_ONCE: Final = 2
"""The most passwords that are hashed at once: each takes a processor for milliseconds, and any
client that connects can cause it."""


class PasswordProvider:
    """Authenticates by user name and password (``AuthenticationProviderBasic``)."""

    method = "basic"

    def __init__(self, password_file: str) -> None:
        """``password_file``: the value of ``basicAuthConf``. May raise `ConfigError`."""
        if not password_file:
            raise ConfigError("basicAuthConf", "No basic authentication config provided")
        self._users = _users(read_named("basicAuthConf", password_file))
        self._decoy = next(iter(self._users.values()), _HASHES.hash(""))
        """The hash that is checked for an unknown user, so that it takes as long as for a known
        one."""
        self._turns = asyncio.Semaphore(_AT_ONCE)

    async def authenticate(self, shown: Credentials) -> Principal:
        """Check ``user:password`` and return the user; raises `AuthenticationError`."""
        user, mark, password = shown.data.decode("utf-8", "replace").partition(":")
        if not mark:
            raise AuthenticationError("Base64 decoded params are invalid")
        # An unknown user takes as long, so that the time does not show which users there are.
        hashed = self._users.get(user)
        async with self._turns:
            right = await asyncio.to_thread(_is_right, password, hashed or self._decoy)
        if hashed is None or not right:
            raise AuthenticationError("Unknown user or invalid password")
        return Principal(user)


def _is_right(password: str, hashed: str) -> bool:
    try:
        return bool(_HASHES.verify(password, hashed))
    except ValueError:
        return False


def _users(text: bytes) -> dict[str, str]:
    users = {}
    for line in text.decode("utf-8", "replace").splitlines():
        if not line.strip():
            continue
        user, mark, hashed = line.strip().partition(":")
        if not mark or not user or ":" in hashed or not _HASHES.identify(hashed):
            raise ConfigError(
                "basicAuthConf", "The format of the password auth conf file is invalid"
            )
        users[user] = hashed
    return users
