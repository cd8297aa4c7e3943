"""A broker that others can reach says what they could do."""

import logging
import urllib.error
import urllib.request

import pytest

from counterpoise import Cluster
from counterpoise.app.wiring import config_of
from counterpoise.broker.exposure import exposures
from tests.broker.connection.raw_client import RawClient
from tests.security.tokens import SETTINGS
from tests.wire.frames import Type

OPEN = {"bindAddress": "0.0.0.0"}
TLS_ONLY = {
    "brokerServicePort": "",
    "webServicePort": "",
    "brokerServicePortTls": 6651,
    "webServicePortTls": 8443,
}


@pytest.mark.parametrize(
    ("settings", "warnings"),
    [
        ({}, []),
        ({"bindAddress": "::1"}, []),
        ({"bindAddress": "localhost"}, []),
        (OPEN, ["ANYBODY who reaches this broker may do EVERYTHING"]),
        ({"bindAddress": "broker-1.example.com"}, ["ANYBODY who reaches"]),
        ({**OPEN, **SETTINGS, **TLS_ONLY}, []),
        ({**OPEN, **SETTINGS}, ["tokens and passwords can be read"]),
        (
            {**OPEN, **SETTINGS, **TLS_ONLY, "authorizationEnabled": False},
            ["every authenticated client may do everything"],
        ),
        (
            {**OPEN, **SETTINGS, **TLS_ONLY, "tlsAllowInsecureConnection": True},
            ["certificates of unknown authorities"],
        ),
    ],
)
def test_what_others_could_do(settings: dict[str, object], warnings: list[str]) -> None:
    said = list(exposures(config_of(settings)))
    assert [part in each for part, each in zip(warnings, said, strict=True)] == [True] * len(
        warnings
    )


def test_it_is_said_at_the_start(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "counterpoise")
    with Cluster(brokers=1):
        assert "ANYBODY" not in caplog.text
    with Cluster(brokers=1, config=OPEN):
        assert "ANYBODY" in caplog.text


UNREAD_SECRETS = (
    "bookkeeperClientAuthenticationParameters",
    "brokerClientSslFactoryPluginParams",
    "brokerClientTlsKeyStorePassword",
    "brokerClientTlsTrustStorePassword",
    "managedLedgerPassword",
    "sslFactoryPluginParams",
    "tlsKeyStorePassword",
    "tlsTrustStorePassword",
)
"""Of Pulsar, and read by nothing here: a broker.conf has them all the same."""
LISTINGS = (
    "configuration/runtime",
    "configuration/values",
    "configuration",
    "internal-configuration",
)


def test_no_secret_is_listed_or_in_any_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    config = dict.fromkeys(UNREAD_SECRETS, "hush-hush")
    with Cluster(brokers=2, tls=True, tokens=True, config=config) as cluster:
        good, expired = (cluster.security.token("admin", expires_in_s=s) for s in (60, -60))

        def ask(path: str, shown: str) -> tuple[int, str]:
            request = urllib.request.Request(f"{cluster.admin_url}/admin/v2/brokers/{path}")
            request.add_unredirected_header("Authorization", f"Bearer {shown}")
            try:
                with urllib.request.urlopen(request, timeout=60) as response:
                    return response.status, response.read().decode()
            except urllib.error.HTTPError as error:
                with error:
                    return error.code, error.read().decode()

        for path in LISTINGS:
            status, text = ask(path, good)
            assert status == 200
            assert "hush-hush" not in text
            assert "eyJ" not in text
        # What anybody sees on its way, and servers write down, is no place for a token.
        for path in (f"version?token={good}", f"version?access_token={good}"):
            assert ask(path, expired)[0] == 401
        for shown in (good, expired):
            with RawClient(cluster.service_url.partition(",")[0]) as raw:
                raw.command(
                    "connect",
                    client_version="raw",
                    protocol_version=21,
                    auth_method_name="token",
                    auth_data=shown.encode(),
                )
                raw.receive(Type.CONNECTED if shown is good else Type.ERROR)
    for record in caplog.records:
        assert "eyJ" not in record.getMessage()
        assert "hush-hush" not in record.getMessage()
