"""A broker that others can reach says what they could do."""

import logging

import pytest

from counterpoise import Cluster
from counterpoise.app.wiring import config_of
from counterpoise.broker.exposure import exposures
from tests.security.tokens import SETTINGS

OPEN = {"bindAddress": "0.0.0.0"}
TLS_ONLY = {
    "brokerServicePort": "",
    "webServicePort": "",
    "brokerServicePortTls": 6651,
    "webServicePortTls": 8443,
}


@pytest.mark.parametrize(
    ("settings", "told"),
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
            ["whoever proves who they are may do everything"],
        ),
        (
            {**OPEN, **SETTINGS, **TLS_ONLY, "tlsAllowInsecureConnection": True},
            ["certificates that nobody vouches for"],
        ),
    ],
)
def test_what_others_could_do(settings: dict[str, object], told: list[str]) -> None:
    said = list(exposures(config_of(settings)))
    assert [part in each for part, each in zip(told, said, strict=True)] == [True] * len(told)


def test_it_is_said_at_the_start(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "counterpoise")
    with Cluster(brokers=1):
        assert "ANYBODY" not in caplog.text
    with Cluster(brokers=1, config=OPEN):
        assert "ANYBODY" in caplog.text


def test_no_secret_is_in_any_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with Cluster(brokers=2, tls=True, tokens=True):
        pass
    for record in caplog.records:
        assert "eyJ" not in record.getMessage()
