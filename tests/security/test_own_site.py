"""Which hosts are names of this machine, and which origins are the site itself."""

import pytest

from counterpoise.security.own_site import host_of, is_local_name, same_origin


@pytest.mark.parametrize(
    ("header", "host", "local"),
    [
        ("broker.example:8080", "broker.example", False),
        ("Broker.Example.", "broker.example", False),
        ("a.localhost:8080", "a.localhost", True),
        # Anybody can register these.
        ("evil-localhost", "evil-localhost", False),
        ("evillocalhost:8080", "evillocalhost", False),
        ("localhost.example", "localhost.example", False),
        ("127.0.0.1:8080", "127.0.0.1", True),
        ("127.0.0.1.example", "127.0.0.1.example", False),
        ("[::1]:8080", "::1", True),
        ("::1", "::1", True),
        ("", "", False),
    ],
)
def test_the_host_of_a_header(header: str, host: str, local: bool) -> None:
    assert host_of(header) == host
    assert is_local_name(host) is local


@pytest.mark.parametrize(
    ("origin", "host", "same"),
    [
        ("http://a.example:8080", "a.example:8080", True),
        ("http://A.Example:8080", "a.example:8080 ", True),
        ("http://a.example", "a.example:8080", False),
        ("http://a.example:8080", "b.example:8080", False),
        ("null", "a.example", False),
        ("null", "", False),
        ("http://[", "[", False),
    ],
)
def test_an_origin_beside_the_host(origin: str, host: str, same: bool) -> None:
    assert same_origin(origin, host) is same
