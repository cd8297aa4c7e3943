"""How a verb connects: by its options, else by the settings of a broker.conf, and once more."""

import argparse
from pathlib import Path

import pytest

from counterpoise.app.client import client_argv, client_security, client_session
from counterpoise.names.options import ConfigError
from counterpoise.security.client import ANSWER_WITHIN_S

NOTHING: dict[str, object] = {
    "auth_plugin": None,
    "auth_params": None,
    "tls_trust_cert_path": None,
    "tls_allow_insecure": False,
    "tls_enable_hostname_verification": False,
    "timeout": None,
}


def given(**more: object) -> argparse.Namespace:
    return argparse.Namespace(**NOTHING | more)


@pytest.mark.parametrize(("within", "total"), [(None, ANSWER_WITHIN_S), (4.0, 4.0)])
async def test_an_answer_may_take_as_long_as_was_said(within: float | None, total: float) -> None:
    async with client_session(given(timeout=within)) as session:
        assert session.timeout.total == total


@pytest.mark.parametrize(
    ("more", "argv"),
    [
        ({}, []),
        ({"auth_plugin": "token"}, ["--auth-plugin", "token"]),
        ({"auth_params": ""}, ["--auth-params", ""]),
        ({"tls_trust_cert_path": "ca.pem"}, ["--tls-trust-cert-path", "ca.pem"]),
        ({"tls_allow_insecure": True}, ["--tls-allow-insecure"]),
        ({"tls_enable_hostname_verification": True}, ["--tls-enable-hostname-verification"]),
    ],
)
def test_a_child_process_connects_in_the_same_way(more: dict[str, object], argv: list[str]) -> None:
    assert client_argv(given(**more)) == argv


def test_options_come_before_the_settings_of_a_broker_conf(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text(
        "brokerClientAuthenticationPlugin=token\n"
        "brokerClientAuthenticationParameters=token:of-the-conf\n"
        "tlsHostnameVerificationEnabled=true\n"
    )
    by_conf: dict[str, object] = {"conf": str(conf), "settings": []}
    assert client_security(given(**by_conf)).shown() == ("token", b"of-the-conf")
    named = client_security(given(**by_conf, auth_params="token:named"))
    assert named.shown() == ("token", b"named"), "the plugin is that of the conf"
    basic = '{"userId":"u","password":"p"}'
    other = client_security(given(**by_conf, auth_plugin="basic", auth_params=basic))
    assert other.shown() == ("basic", b"u:p")
    alone = given(auth_plugin="token", auth_params="token:alone")
    assert client_security(alone).shown() == ("token", b"alone")
    assert client_security(given()).shown() == ("none", b"")
    assert client_security(given(**by_conf)).context().check_hostname
    assert not client_security(given()).context().check_hostname
    insecure = client_security(given(**by_conf, tls_allow_insecure=True)).context()
    assert (insecure.check_hostname, insecure.verify_mode) == (False, 0)
    assert client_security(given(tls_enable_hostname_verification=True)).context().check_hostname


@pytest.mark.parametrize(
    ("conf", "more", "named"),
    [
        ("", {"auth_plugin": "token"}, "--auth-params"),
        ("brokerClientAuthenticationPlugin=token\n", {}, "brokerClientAuthenticationParameters"),
        ("", {"auth_plugin": "none-such"}, "--auth-plugin"),
    ],
)
def test_what_cannot_be_is_named_as_it_was_given(
    tmp_path: Path, conf: str, more: dict[str, object], named: str
) -> None:
    path = tmp_path / "broker.conf"
    path.write_text(conf)
    with pytest.raises(ConfigError, match=named):
        client_security(given(conf=str(path), settings=[], **more))
