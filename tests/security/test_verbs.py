"""Every verb that talks to a cluster says who it is, by TLS, under pulsar-admin's names."""

import json
from collections.abc import Iterator
from pathlib import Path

import pulsar
import pytest

from counterpoise import Cluster
from counterpoise.app.main import main
from counterpoise.names.options import ConfigError
from counterpoise.security.client import PACKAGE, ClientSecurity
from counterpoise.security.options import ClientOptions

TOPIC = "public/default/loaded"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """No plain port at all, and no client is admitted without a token or a certificate."""
    config = {"brokerServicePort": "", "webServicePort": ""}
    with Cluster(brokers=2, tls=True, tokens=True, config=config) as cluster:
        client = pulsar.Client(
            cluster.service_url,
            authentication=pulsar.AuthenticationToken(cluster.security.token("admin")),
            tls_trust_certs_file_path=cluster.security.trust_certs,
            logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
        )
        client.create_producer(TOPIC).send(b"x")
        client.close()
        yield cluster


def words(cluster: Cluster, *shown: str) -> list[str]:
    urls = ",".join(each.admin_url for each in cluster.brokers)
    return ["--admin-url", urls, "--tls-trust-cert-path", cluster.security.trust_certs, *shown]


def by_token(cluster: Cluster, folder: Path, role: str = "admin") -> list[str]:
    file = folder / "token"
    file.write_text(cluster.security.token(role) + "\n")
    plugin = f"{PACKAGE}AuthenticationToken"
    return words(cluster, "--auth-plugin", plugin, "--auth-params", file.as_uri())


def by_certificate(cluster: Cluster, role: str = "admin") -> list[str]:
    certificate, key = cluster.security.client_certificate(role)
    shown = f"tlsCertFile:{certificate},tlsKeyFile:{key}"
    return words(cluster, "--auth-plugin", f"{PACKAGE}AuthenticationTls", "--auth-params", shown)


def owner(cluster: Cluster) -> str:
    found = cluster.owner(TOPIC)
    assert found is not None
    return found.id


def test_a_drain_by_token(
    cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = owner(cluster)
    status = main(["drain", before, "--execute", "--json", *by_token(cluster, tmp_path)])
    assert status == 0, capsys.readouterr()
    assert owner(cluster) != before
    answer = json.loads(capsys.readouterr().out)
    assert answer["outcomes"][0]["status"] == "moved"


def test_advice_and_limits_by_certificate(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["advise", *by_certificate(cluster)]) == 0, capsys.readouterr()
    assert main(["top", "--once", *by_certificate(cluster)]) == 0, capsys.readouterr()
    assert "no client waits" in capsys.readouterr().out


def test_a_history_is_kept_by_token(
    cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    history = str(tmp_path / "history")
    shown = by_token(cluster, tmp_path)
    assert main(["watch", "--once", "--history", history, *shown]) == 0, capsys.readouterr()
    kept = b"".join(file.read_bytes() for file in (tmp_path / "history").rglob("*.*"))
    assert b"eyJ" not in kept


@pytest.mark.parametrize("verb", ["drain broker:1", "refill broker:1", "advise", "top --once"])
def test_a_refused_user_reads_the_reason(
    cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    for shown, expected in (
        (words(cluster), "401 "),
        (by_token(cluster, tmp_path, "stranger"), "clientAppId [stranger]"),
        (words(cluster)[:2], "certificate verify failed"),
    ):
        assert main([*verb.split(), *shown]) == 2
        said = capsys.readouterr().err
        assert expected in said
        assert "eyJ" not in said


def test_a_token_in_a_file_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("one\n")
    options = ClientOptions(plugin="token", parameters=file.as_uri())
    security = ClientSecurity(options)
    assert security.shown() == ("token", b"one")
    file.write_text("two\n")
    assert security.headers() == {"Authorization": "Bearer two"}


def test_the_ways_to_say_who_one_is() -> None:
    def shown(plugin: str, parameters: str) -> tuple[str, bytes]:
        return ClientSecurity(ClientOptions(plugin=plugin, parameters=parameters)).shown()

    assert shown("", "") == ("none", b"")
    assert shown(f"{PACKAGE}AuthenticationDisabled", "") == ("none", b"")
    for parameters in ("token:abc", "abc", '{"token": "abc"}'):
        assert shown(f"{PACKAGE}AuthenticationToken", parameters) == ("token", b"abc")
    for parameters in ('{"userId": "a", "password": "b"}', "username:a,password:b"):
        assert shown("basic", parameters) == ("basic", b"a:b")
    with pytest.raises(ConfigError):
        shown("basic", '["a"]')
