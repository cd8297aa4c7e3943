"""JSON Web Tokens, as Pulsar's ``AuthenticationProviderToken`` checks them."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import jwt
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import load_der_public_key, load_pem_public_key
from jwt.types import Options

from counterpoise.names.callbacks import Clock
from counterpoise.names.options import ConfigError
from counterpoise.security.identity import AuthenticationError, Credentials, Principal
from counterpoise.security.keys import read_named
from counterpoise.security.options import AuthenticationOptions

_HMAC_BITS: Final = {"HS256": 256, "HS384": 384, "HS512": 512}
_OF_RSA: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_OF_CURVE: Final = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}
_RSA_BITS_LEAST: Final = 2048
_CHECKS: Final[Options] = {
    "verify_exp": False,
    "verify_nbf": False,
    "verify_aud": False,
    "verify_iat": False,
    "verify_sub": False,
    "verify_jti": False,
    "verify_iss": False,
}
"""PyJWT checks the signature alone. Role and audience are Pulsar's own claims, and times are
checked here, by a clock that is an argument."""


@dataclass(frozen=True, slots=True)
class _Key:
    key: Any
    algorithms: tuple[str, ...]
    """The algorithms that are accepted with this key: a public key never serves as a secret."""


class TokenProvider:
    """Authenticates by JSON Web Tokens that were signed with the cluster's key."""

    method = "token"

    def __init__(self, options: AuthenticationOptions, clock: Clock = time.time) -> None:
        """Reads the key; raises `ConfigError`. ``clock`` gives seconds since the epoch."""
        self._options = options
        self._clock = clock
        self._key = _key_of(options)
        if options.audience_claim and not options.audience:
            raise ConfigError(
                "tokenAudience", "is needed with tokenAudienceClaim: how tokens name this cluster"
            )

    async def authenticate(self, shown: Credentials) -> Principal:
        """Check a token and return the role it names; raises `AuthenticationError`."""
        # As in Pulsar, the last newline of a token file is no part of the token.
        token = shown.data.strip()
        if not token:
            raise AuthenticationError("Blank token found")
        claims = self._claims(token)
        self._check_audience(claims)
        role = claims.get(self._options.role_claim)
        if isinstance(role, list):
            role = role[0] if role else None
        if not isinstance(role, str) or not role:
            raise AuthenticationError(f"the token has no role in {self._options.role_claim!r}")
        expires = claims.get("exp")
        return Principal(role, None if expires is None else float(expires))

    def _claims(self, token: bytes) -> Mapping[str, Any]:
        try:
            claims: dict[str, Any] = jwt.decode(
                token, self._key.key, algorithms=self._key.algorithms, options=_CHECKS
            )
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError) as error:
            raise AuthenticationError(
                f"Failed to authentication token: {type(error).__name__}"
            ) from None
        now, skew = self._clock(), self._options.clock_skew_s
        expires, begins = _seconds(claims, "exp"), _seconds(claims, "nbf")
        if expires is not None and now - skew > expires:
            raise AuthenticationError("Failed to authentication token: it has expired")
        if begins is not None and now + skew < begins:
            raise AuthenticationError("Failed to authentication token: it is not valid yet")
        return claims

    def _check_audience(self, claims: Mapping[str, Any]) -> None:
        claim = self._options.audience_claim
        if not claim:
            return
        found = claims.get(claim)
        if found is None:
            raise AuthenticationError(f"Found null Audience in token, for claimed field: {claim}")
        named = found if isinstance(found, list) else [found]
        if self._options.audience not in named:
            raise AuthenticationError("Audiences in token: not for this cluster")


def _seconds(claims: Mapping[str, Any], claim: str) -> float | None:
    found = claims.get(claim)
    if found is None:
        return None
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise AuthenticationError(f"Failed to authentication token: its {claim} is no number")
    return float(found)


def _key_of(options: AuthenticationOptions) -> _Key:
    if options.secret_key:
        secret = read_named("tokenSecretKey", options.secret_key)
        algorithms = tuple(name for name, bits in _HMAC_BITS.items() if len(secret) * 8 >= bits)
        if not algorithms:
            raise ConfigError(
                "tokenSecretKey", f"has {len(secret) * 8} bits; 256 are the least that is safe"
            )
        return _Key(secret, algorithms)
    if options.public_key:
        return _public(options)
    raise ConfigError("tokenSecretKey", "No secret key was provided for token authentication")


def _public(options: AuthenticationOptions) -> _Key:
    read = read_named("tokenPublicKey", options.public_key)
    try:
        load = load_pem_public_key if read.lstrip().startswith(b"-----") else load_der_public_key
        key = load(read)
    except (ValueError, UnsupportedAlgorithm):
        raise ConfigError("tokenPublicKey", "is no public key that can be read") from None
    algorithms: tuple[str, ...] = ()
    if isinstance(key, rsa.RSAPublicKey) and key.key_size >= _RSA_BITS_LEAST:
        algorithms = _OF_RSA
    elif isinstance(key, ec.EllipticCurvePublicKey) and key.curve.name in _OF_CURVE:
        algorithms = (_OF_CURVE[key.curve.name],)
    if options.public_algorithm not in algorithms:
        raise ConfigError(
            "tokenPublicKey", f"is no key for tokenPublicAlg={options.public_algorithm}"
        )
    return _Key(key, algorithms)
