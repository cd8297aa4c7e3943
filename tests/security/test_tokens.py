"""Which tokens are believed: right key, right kind of signature, in time, for this cluster."""

import base64
import hashlib
import hmac
import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from counterpoise.names.options import ConfigError
from counterpoise.security.identity import AuthenticationError, Credentials, Principal
from counterpoise.security.options import AuthenticationOptions
from counterpoise.security.tokens import TokenProvider
from tests.security.tokens import SECRET, SECRET_SETTING, token

NOW = 1_800_000_000.0
RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
CURVE = ec.generate_private_key(ec.SECP256R1())


def public(key: Any) -> bytes:
    """A public key as ``pulsar tokens create-key-pair`` writes it."""
    return bytes(
        key.public_key().public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )


def data_url(content: bytes) -> str:
    return "data:;base64," + base64.b64encode(content).decode()


def provider(**settings: Any) -> TokenProvider:
    options = AuthenticationOptions(**({"secret_key": SECRET_SETTING} | settings))
    return TokenProvider(options, lambda: NOW)


def provider_of(key: Any, algorithm: str = "RS256") -> TokenProvider:
    return provider(secret_key="", public_key=data_url(public(key)), public_algorithm=algorithm)


async def role_of(believing: TokenProvider, shown: str | bytes) -> str:
    data = shown.encode() if isinstance(shown, str) else shown
    return (await believing.authenticate(Credentials("token", data))).role


@pytest.mark.parametrize("alg", ["HS256", "HS384", "HS512"])
async def test_a_token_signed_with_the_secret(alg: str) -> None:
    assert await role_of(provider(), token("alice", alg=alg)) == "alice"


@pytest.mark.parametrize("around", ["{}\n", " {}", "\t{} \r\n"])
async def test_white_space_around_a_token_is_no_part_of_it(around: str) -> None:
    assert await role_of(provider(), around.format(token("alice"))) == "alice"


@pytest.mark.parametrize("alg", ["RS256", "RS384", "RS512", "PS256", "PS512"])
async def test_a_token_signed_with_an_rsa_key(alg: str) -> None:
    assert await role_of(provider_of(RSA), token("alice", key=RSA, alg=alg)) == "alice"


@pytest.mark.filterwarnings("ignore::jwt.warnings.InsecureKeyLengthWarning")
@pytest.mark.parametrize("size", [32, 48, 64])
async def test_a_secret_is_as_long_as_its_signature_at_least(size: int) -> None:
    secret = bytes(range(size))
    believing = provider(secret_key=base64.b64encode(secret).decode())
    for algorithm, least in (("HS256", 32), ("HS384", 48), ("HS512", 64)):
        shown = jwt.encode({"sub": "alice"}, secret, algorithm)
        with nullcontext() if size >= least else pytest.raises(AuthenticationError):
            assert await role_of(believing, shown) == "alice"
    with pytest.raises(ConfigError, match="has 248 bits; 256 are the least"):
        provider(secret_key=base64.b64encode(bytes(31)).decode())


@pytest.mark.parametrize("bits", [1024, 3072])
async def test_an_rsa_key_has_2048_bits_at_least(bits: int) -> None:
    key = rsa.generate_private_key(65537, bits)
    with pytest.raises(ConfigError, match="no key for") if bits < 2048 else nullcontext():
        assert await role_of(provider_of(key), token("alice", key=key, alg="RS256")) == "alice"


async def test_a_token_signed_on_a_curve() -> None:
    believing = provider_of(CURVE, "ES256")
    assert await role_of(believing, token("alice", key=CURVE, alg="ES256")) == "alice"


def unsigned(alg: str) -> str:
    parts = ({"alg": alg, "typ": "JWT"}, {"sub": "admin"})
    coded = [base64.urlsafe_b64encode(json.dumps(each).encode()).rstrip(b"=") for each in parts]
    return (b".".join(coded) + b".").decode()


def forged_with_public_key() -> str:
    """HS256 with the public key as the secret: PyJWT refuses to make it, so it is made by hand."""

    parts = ({"alg": "HS256", "typ": "JWT"}, {"sub": "admin"})
    coded = [base64.urlsafe_b64encode(json.dumps(each).encode()).rstrip(b"=") for each in parts]
    body = b".".join(coded)
    signature = hmac.new(public(RSA), body, hashlib.sha256).digest()
    return (body + b"." + base64.urlsafe_b64encode(signature).rstrip(b"=")).decode()


FORGED = {
    "no algorithm": unsigned("none"),
    "NONE in capitals": unsigned("NONE"),
    "HS256 without a signature": unsigned("HS256"),
    "the public key as a secret": forged_with_public_key(),
    "another secret": token(key=b"x" * 64),
    "another RSA key": token(
        key=rsa.generate_private_key(public_exponent=65537, key_size=2048), alg="RS256"
    ),
    "a curve instead of RSA": token(key=CURVE, alg="ES256"),
    "nothing": "",
    "blank": "   ",
    "no token": "admin",
    "two parts": "e30.e30",
    "no UTF-8": b"\xff\xfe.\xff.\xff",
    "deep": base64.urlsafe_b64encode(b"[" * 100_000).decode() + ".e30.e30",
    "deep claims, signed": jwt.PyJWS().encode(b"[" * 100_000, SECRET, algorithm="HS256"),
}


@pytest.mark.parametrize("shown", FORGED.values(), ids=FORGED)
@pytest.mark.parametrize("believing", [provider(), provider_of(RSA)], ids=["secret", "RSA"])
async def test_what_was_not_signed_with_the_key_is_refused(
    believing: TokenProvider, shown: str | bytes
) -> None:
    with pytest.raises(AuthenticationError) as refused:
        await role_of(believing, shown)
    assert "admin" not in str(refused.value)


async def test_an_rsa_token_is_none_for_a_curve_and_none_for_a_secret() -> None:
    by_rsa = token(key=RSA, alg="RS256")
    for believing in (provider(), provider_of(CURVE, "ES256")):
        with pytest.raises(AuthenticationError):
            await role_of(believing, by_rsa)


@pytest.mark.parametrize(
    ("claims", "skew", "believed"),
    [
        ({"exp": NOW + 1}, 0, True),
        ({"exp": NOW}, 0, True),
        ({"exp": NOW - 1}, 0, False),
        ({"exp": NOW - 1}, 5, True),
        ({"exp": NOW - 6}, 5, False),
        ({"nbf": NOW}, 0, True),
        ({"nbf": NOW + 1}, 0, False),
        ({"nbf": NOW + 1}, 5, True),
        ({"iat": NOW + 9999}, 0, True),
        ({"exp": "soon"}, 0, False),
        ({"exp": True}, 0, False),
        ({"nbf": True}, 0, False),
    ],
)
async def test_the_times_of_a_token(claims: dict[str, Any], skew: int, believed: bool) -> None:
    believing = provider(clock_skew_s=skew)
    shown = jwt.encode({"sub": "alice", **claims}, SECRET, algorithm="HS256")
    if believed:
        assert await role_of(believing, shown) == "alice"
    else:
        with pytest.raises(AuthenticationError):
            await role_of(believing, shown)


async def test_when_it_ends_is_known() -> None:
    shown = Credentials("token", token("alice", exp=NOW + 60).encode())
    assert await provider().authenticate(shown) == Principal("alice", NOW + 60)


@pytest.mark.parametrize(
    ("claims", "role"),
    [
        ({"who": "alice"}, "alice"),
        ({"who": ["alice", "bob"]}, "alice"),
        ({"who": []}, None),
        ({"who": [7]}, None),
        ({"who": 7}, None),
        ({"who": ""}, None),
        ({"sub": "alice"}, None),
    ],
)
async def test_the_role_is_where_the_setting_says(claims: dict[str, Any], role: str | None) -> None:
    believing = provider(role_claim="who")
    shown = token(None, **claims)
    if role is not None:
        assert await role_of(believing, shown) == role
    else:
        with pytest.raises(AuthenticationError, match="no role"):
            await role_of(believing, shown)


@pytest.mark.parametrize(
    ("claims", "believed"),
    [
        ({"aud": "here"}, True),
        ({"aud": ["there", "here"]}, True),
        ({"aud": "there"}, False),
        ({"aud": "nowhere"}, False),
        ({"aud": []}, False),
        ({}, False),
        ({"aud": {"here": 1}}, False),
    ],
)
async def test_for_which_cluster_a_token_is(claims: dict[str, Any], believed: bool) -> None:
    believing = provider(audience_claim="aud", audience="here")
    if believed:
        assert await role_of(believing, token("alice", **claims)) == "alice"
    else:
        with pytest.raises(AuthenticationError, match="udience"):
            await role_of(believing, token("alice", **claims))


async def test_the_ways_to_name_a_key(tmp_path: Path) -> None:
    file = tmp_path / "secret key"
    file.write_bytes(SECRET)
    for named in (
        SECRET_SETTING,
        "data:," + SECRET.decode(),
        "data:text/base64," + SECRET.decode(),
        "data:text/plain;base64," + base64.b64encode(SECRET).decode(),
        "data:," + "".join(f"%{each:02x}" for each in SECRET),
        f"file://{tmp_path}/secret%20key",
        str(file),
        base64.b64encode(SECRET).decode(),
    ):
        assert await role_of(provider(secret_key=named), token("alice")) == "alice"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"secret_key": ""}, "No secret key"),
        ({"secret_key": data_url(b"short")}, "256 are the least"),
        ({"secret_key": "file:///nowhere/hush"}, "cannot read"),
        ({"secret_key": "data:;base64,%%%"}, "not base64"),
        ({"secret_key": "data:hush"}, "comma"),
        ({"secret_key": "no file, no base64"}, "neither"),
        ({"secret_key": "A" * 5000 + "!"}, "neither"),
        ({"secret_key": "", "public_key": data_url(b"hush")}, "no public key"),
        ({"secret_key": "", "public_key": data_url(public(CURVE))}, "tokenPublicAlg=RS256"),
        ({"audience_claim": "aud"}, "tokenAudience"),
    ],
)
def test_an_impossible_setting_is_reported_without_the_secret(
    settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message) as error:
        provider(**settings)
    assert "AAAA" not in str(error.value)
