"""Several providers of one or more methods, and the roles of certificates."""

import base64
from collections.abc import Mapping
from typing import Any

import pytest

from counterpoise.names.options import ConfigError
from counterpoise.security.authentication import Authentication
from counterpoise.security.identity import (
    AuthenticationError,
    CertificateProvider,
    Credentials,
    Principal,
)
from counterpoise.security.options import AuthenticationOptions


class Believing:
    """Accepts one word."""

    def __init__(self, word: str, method: str = "token") -> None:
        self.word = word.encode()
        self.method = method

    async def authenticate(self, shown: Credentials) -> Principal:
        if shown.data == self.word:
            return Principal(f"{self.method}-{self.word.decode()}")
        raise AuthenticationError(f"not {self.word.decode()}")


def of(*providers: Believing, anonymous: str = "") -> Authentication:
    return Authentication(AuthenticationOptions(enabled=True, anonymous_role=anonymous), providers)


async def role(found: Authentication, headers: Mapping[str, str]) -> str:
    return (await found.of_request(headers, None)).role


BASIC = "Basic " + base64.b64encode(b"x:y").decode()


async def test_each_provider_of_a_method_is_asked_until_one_accepts() -> None:
    found = of(Believing("a"), Believing("b"))
    for word in ("a", "b"):
        assert (await found.of_command(Credentials("token", word.encode()))).role == f"token-{word}"
    with pytest.raises(AuthenticationError, match="not b"):
        await found.of_command(Credentials("token", b"c"))


async def test_a_request_is_authenticated_by_whichever_method_it_has_credentials_for() -> None:
    found = of(Believing("a"), Believing("x:y", "basic"), anonymous="anon")
    assert await role(found, {"Authorization": "Bearer a"}) == "token-a"
    assert await role(found, {"Authorization": BASIC}) == "basic-x:y"
    assert await role(found, {}) == "anon"
    assert await role(of(Believing("a")), {"Authorization": "Bearer a"}) == "token-a"
    for headers in ({}, {"Authorization": "Bearer b"}, {"Authorization": "Basic !"}):
        with pytest.raises(AuthenticationError, match="Authentication required"):
            await role(of(Believing("a"), Believing("x:y", "basic")), headers)


async def test_a_request_that_names_its_method_is_authenticated_by_that_alone() -> None:
    found = of(Believing("a"), Believing("x:y", "basic"), anonymous="anon")
    named = {"X-Pulsar-Auth-Method-Name": "basic", "Authorization": BASIC}
    assert await role(found, named) == "basic-x:y"
    with pytest.raises(AuthenticationError, match="Invalid HTTP Authorization"):
        await role(found, {**named, "Authorization": "Bearer a"})
    with pytest.raises(AuthenticationError, match="Base64 decoded"):
        await role(found, {**named, "Authorization": f"{BASIC}!"})
    with pytest.raises(AuthenticationError, match=r"Unsupported authentication method: \[sasl\]"):
        await role(found, {**named, "X-Pulsar-Auth-Method-Name": "sasl"})
    with pytest.raises(AuthenticationError, match=r"\[s{40}\]"):
        await role(found, {**named, "X-Pulsar-Auth-Method-Name": "s" * 100_000})


async def test_a_connection_without_a_known_method_is_anonymous_or_refused() -> None:
    shown = Credentials("none", b"")
    assert (await of(Believing("a"), anonymous="anon").of_command(shown)).role == "anon"
    with pytest.raises(AuthenticationError, match="not a"):
        # Wrong credentials are no missing ones.
        await of(Believing("a"), anonymous="anon").of_command(Credentials("token", b"b"))
    with pytest.raises(AuthenticationError, match="No anonymous role"):
        await of(Believing("a")).of_command(shown)
    with pytest.raises(ConfigError, match="authenticationProviders"):
        of()


@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        ([(("commonName", "alice"),)], "alice"),
        ([(("organizationName", "acme"),), (("commonName", "alice"),)], "alice"),
        # The last common name is the most specific one.
        ([(("commonName", "group"),), (("commonName", "alice"),)], "alice"),
        ([(("organizationName", "acme"),)], None),
        ([(("commonName", ""),)], None),
        ([], None),
    ],
)
async def test_a_certificates_role_is_its_common_name(subject: Any, expected: str | None) -> None:
    shown = Credentials("tls", certificate={"subject": tuple(subject)})
    if expected is not None:
        assert (await CertificateProvider().authenticate(shown)).role == expected
        return
    with pytest.raises(AuthenticationError, match="TLS certificate"):
        await CertificateProvider().authenticate(shown)


def test_credentials_are_in_no_text_of_themselves() -> None:
    shown = Credentials("token", b"t0ken", {"subject": ((("commonName", "alice"),),)})
    assert repr(shown) == str(shown) == "Credentials(method='token')"


async def test_without_a_certificate_there_is_no_role() -> None:
    with pytest.raises(AuthenticationError, match="Failed to get TLS certificates"):
        await CertificateProvider().authenticate(Credentials("tls"))
