"""TLS on both ports, by the official client and by hand."""

import contextlib
import os
import socket
import ssl
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pulsar
import pytest

from counterpoise import Cluster
from counterpoise.app.clusters.throwaway import KeyPair, ThrowAwayAuthority
from counterpoise.names.options import ConfigError
from counterpoise.security.options import TlsOptions
from counterpoise.security.tls import TlsPort, openssl_name, server_context

SILENT = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
PORTS = {"brokerServicePortTls": 0, "webServicePortTls": 0}


@pytest.fixture
def authority(tmp_path: Path) -> ThrowAwayAuthority:
    return ThrowAwayAuthority(tmp_path)


def test_a_key_is_read_by_its_owner_alone(authority: ThrowAwayAuthority) -> None:
    assert authority.server().key.stat().st_mode & 0o777 == 0o600


def files_of(authority: ThrowAwayAuthority, pair: KeyPair) -> dict[str, str]:
    return {
        "tlsCertificateFilePath": str(pair.certificate),
        "tlsKeyFilePath": str(pair.key),
        "tlsTrustCertsFilePath": str(authority.certificate),
    }


@contextlib.contextmanager
def client_of(url: str, trusted: Path, within_s: int = 60) -> Iterator[pulsar.Client]:
    client = pulsar.Client(
        url,
        tls_trust_certs_file_path=str(trusted),
        tls_validate_hostname=True,
        operation_timeout_seconds=within_s,
        logger=SILENT,
    )
    yield client
    client.close()


def through(client: pulsar.Client, topic: str) -> bytes:
    """Send a message through a topic and give what arrives."""
    consumer = client.subscribe(topic, "s", initial_position=pulsar.InitialPosition.Earliest)
    client.create_producer(topic).send(b"sealed")
    message = consumer.receive(60_000)
    consumer.acknowledge(message)
    return bytes(message.data())


@pytest.mark.client
@pytest.mark.parametrize("plain", [True, False])
def test_the_official_client_by_tls(authority: ThrowAwayAuthority, plain: bool) -> None:
    none = {} if plain else {"brokerServicePort": "", "webServicePort": ""}
    config = {**PORTS, **none, **files_of(authority, authority.server())}
    with Cluster(brokers=3, config=config) as cluster:
        assert cluster.service_url_tls.startswith("pulsar+ssl://")
        assert cluster.service_url.startswith("pulsar://" if plain else "pulsar+ssl://")
        with client_of(cluster.service_url_tls, authority.certificate) as client:
            for number in range(6):
                topic = f"public/default/sealed-{number}"
                assert through(client, topic) == b"sealed"
                assert cluster.owner(topic) is not None
        # By HTTPS, and through every broker: the redirects are by HTTPS too.
        context = ssl.create_default_context(cafile=authority.certificate)
        for broker in cluster.brokers:
            assert broker.admin_url_tls is not None
            url = f"{broker.admin_url_tls}/lookup/v2/topic/persistent/public/default/sealed-1"
            with urllib.request.urlopen(url, context=context, timeout=60) as response:
                assert b'"brokerUrlTls": "pulsar+ssl://' in response.read()


@pytest.mark.client
def test_clients_by_tls_are_sent_on_by_tls(authority: ThrowAwayAuthority) -> None:
    config = {**PORTS, **files_of(authority, authority.server())}
    topic = "public/default/moves"
    with (
        Cluster(brokers=2, config=config) as cluster,
        client_of(cluster.service_url_tls, authority.certificate) as client,
    ):
        producer = client.create_producer(topic)
        producer.send(b"before")
        before = cluster.owner(topic)
        assert before is not None
        after = cluster.unload(topic, next(b for b in cluster.brokers if b.id != before.id))
        producer.send(b"after")
        assert cluster.owner(topic) is after


def test_a_client_that_trusts_another_authority_is_not_connected(
    authority: ThrowAwayAuthority, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    other = ThrowAwayAuthority(tmp_path / "other", "another")
    config = {**PORTS, **files_of(authority, authority.server())}
    with (
        Cluster(brokers=1, config=config) as cluster,
        client_of(cluster.service_url_tls, other.certificate, within_s=2) as client,
        pytest.raises(pulsar.PulsarException),
    ):
        client.create_producer("public/default/refused")


def hand_shake(
    port: TlsPort, client: ssl.SSLContext, sessions: list[ssl.SSLSession] | None = None
) -> ssl.SSLObject:
    """Let the two ends talk in memory until both are satisfied; gives the server's end.

    ``sessions``: the client resumes the last of them, and adds its new one.
    """
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    resumed = sessions[-1] if sessions else None
    ends = [
        port.context.wrap_bio(there, back, server_side=True),
        client.wrap_bio(back, there, server_hostname="localhost", session=resumed),
    ]
    for _ in range(8):
        for end in ends:
            with contextlib.suppress(ssl.SSLWantReadError):
                end.do_handshake()
    # TLS 1.3 refuses a client's certificate after the client thinks that it is done.
    with contextlib.suppress(ssl.SSLWantReadError):
        ends[0].read()
    # A ticket comes after the handshake.
    with contextlib.suppress(ssl.SSLWantReadError):
        ends[1].read()
    if sessions is not None and ends[1].session is not None:
        sessions.append(ends[1].session)
    return ends[0]


def client_context(authority: ThrowAwayAuthority, pair: KeyPair | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=authority.certificate)
    if pair is not None:
        context.load_cert_chain(pair.certificate, pair.key)
    return context


def options_of(authority: ThrowAwayAuthority, pair: KeyPair, **more: object) -> TlsOptions:
    return TlsOptions(
        certificate=str(pair.certificate),
        key=str(pair.key),
        trust=str(authority.certificate),
        **more,  # type: ignore[arg-type]
    )


def port_of(options: TlsOptions) -> TlsPort:
    return TlsPort(options, protocols=(), ciphers=(), clock=lambda: 0.0)


def test_new_files_hold_for_the_next_connection(tmp_path: Path) -> None:
    old = ThrowAwayAuthority(tmp_path)
    pair = old.server()
    port = port_of(options_of(old, pair, require_client_certificate=True, refresh_s=0))
    with pytest.raises(ssl.SSLError):
        hand_shake(port, client_context(old))
    alice = client_context(old, old.client("alice"))
    assert hand_shake(port, alice).getpeercert() is not None
    # Everything is replaced: who was trusted before is a stranger now.
    new = ThrowAwayAuthority(tmp_path, "the next authority")
    assert new.server() == pair
    bob = client_context(new, new.client("bob"))
    assert hand_shake(port, bob).getpeercert() is not None
    alice.load_verify_locations(new.certificate)
    with pytest.raises(ssl.SSLError):
        hand_shake(port, alice)


def test_a_file_of_the_same_size_is_new(authority: ThrowAwayAuthority, tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    new = ThrowAwayAuthority(tmp_path / "new", "new")
    old, other = (each.certificate.read_text() for each in (authority, new))
    longest = max(len(old), len(other))
    authority.certificate.write_text(old.ljust(longest, "\n"))
    options = options_of(
        authority, authority.server(), require_client_certificate=True, refresh_s=0
    )
    port = port_of(options)
    alice = client_context(authority, authority.client("alice"))
    assert hand_shake(port, alice).getpeercert()
    authority.certificate.write_text(other.ljust(longest, "\n"))
    with pytest.raises(ssl.SSLError):
        hand_shake(port, alice)
    assert not port.refresh(), "what was read is not read again"


def test_no_client_has_the_server_negotiate_again(authority: ThrowAwayAuthority) -> None:
    """Each costs the server a signature; Python's client cannot ask for it, other clients can."""
    context = server_context(options_of(authority, authority.server()), (), ())
    assert context.options & ssl.OP_NO_RENEGOTIATION


def test_files_that_do_not_fit_change_nothing(
    authority: ThrowAwayAuthority, tmp_path: Path
) -> None:
    pair = authority.server()
    port = port_of(options_of(authority, pair, refresh_s=0))
    pair.certificate.write_text("half of a certificate")
    assert not port.refresh()
    assert hand_shake(port, client_context(authority)).version() == "TLSv1.3"


def test_a_key_that_comes_after_its_certificate_is_taken_over(
    authority: ThrowAwayAuthority, tmp_path: Path
) -> None:
    pair = authority.server()
    port = port_of(options_of(authority, pair, refresh_s=0))
    former_key = pair.key.read_bytes()
    new = ThrowAwayAuthority(tmp_path, "the next authority")
    client, new_key = client_context(new), new.server().key.read_bytes()
    # Copied by a program that keeps the files' times.
    for key, fits in ((former_key, False), (new_key, True)):
        pair.key.write_bytes(key)
        os.utime(pair.key, ns=(0, 0))
        with contextlib.nullcontext() if fits else pytest.raises(ssl.SSLError):
            hand_shake(port, client)


def test_a_certificate_that_is_not_trusted_is_taken_unseen_where_insecure_ones_may_connect(
    authority: ThrowAwayAuthority, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    other = ThrowAwayAuthority(tmp_path / "other", "another")
    port = port_of(options_of(authority, authority.server(), allow_insecure=True))
    stranger = client_context(authority, other.client("admin"))
    assert not hand_shake(port, stranger).getpeercert()


def test_files_are_looked_at_when_it_is_due(authority: ThrowAwayAuthority) -> None:
    now = [0.0]
    pair = authority.server()
    options = options_of(authority, pair, refresh_s=300)
    port = TlsPort(options, protocols=(), ciphers=(), clock=lambda: now[0])
    former = client_context(authority)
    ThrowAwayAuthority(authority.certificate.parent, "the next").server()
    now[0] = 299.0
    hand_shake(port, former)
    now[0] = 300.0
    with pytest.raises(ssl.SSLError):
        hand_shake(port, former)
    last = ThrowAwayAuthority(authority.certificate.parent, "the last")
    last.server()
    now[0] = 599.0
    with pytest.raises(ssl.SSLError):
        hand_shake(port, client_context(last))


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_former_session_does_not_admit_a_client_that_is_trusted_no_more(
    authority: ThrowAwayAuthority, tmp_path: Path, version: ssl.TLSVersion
) -> None:
    (tmp_path / "new").mkdir()
    new = ThrowAwayAuthority(tmp_path / "new", "new")
    old, pair = authority.certificate.read_text(), authority.server()
    port = port_of(options_of(authority, pair, require_client_certificate=True, refresh_s=0))
    alice = client_context(authority, authority.client("alice"))
    alice.minimum_version = alice.maximum_version = version
    sessions: list[ssl.SSLSession] = []
    # Connections that are open: their sessions are not forgotten.
    connections = [hand_shake(port, alice, sessions) for _ in range(2)]
    assert all(each.getpeercert() for each in connections)
    assert not any(each.has_ticket for each in sessions)
    authority.certificate.write_bytes(new.certificate.read_bytes())
    for _ in range(2):
        with pytest.raises(ssl.SSLError):
            hand_shake(port, alice, sessions)
    bob = client_context(authority, new.client("bob"))
    bob.load_verify_locations(cadata=old)
    assert hand_shake(port, bob).getpeercert() is not None


def test_protocols_and_ciphers(authority: ThrowAwayAuthority) -> None:
    options = options_of(authority, authority.server())
    cipher = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"
    context = server_context(options, ["TLSv1.2"], [cipher])
    assert {each["name"] for each in context.get_ciphers() if each["protocol"] == "TLSv1.2"} == {
        "ECDHE-ECDSA-AES128-GCM-SHA256"
    }
    assert context.maximum_version is ssl.TLSVersion.TLSv1_2
    with pytest.raises(ConfigError, match="SSLv3"):
        server_context(options, ["SSLv3"], [])
    with pytest.raises(ConfigError, match="knows none"):
        server_context(options, [], ["ROT13"])


@pytest.mark.parametrize(
    ("java", "openssl"),
    [
        ("TLS_RSA_WITH_AES_128_CBC_SHA", "AES128-SHA"),
        ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "ECDHE-RSA-AES256-GCM-SHA384"),
        ("TLS_DHE_RSA_WITH_AES_256_CBC_SHA256", "DHE-RSA-AES256-SHA256"),
        ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"),
        ("ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
    ],
)
def test_ciphers_have_two_names(java: str, openssl: str) -> None:
    assert openssl_name(java) == openssl


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tlsCertificateFilePath": ""}, "tlsCertificateFilePath: is needed for TLS"),
        ({"tlsKeyFilePath": "/nowhere/key.pem"}, "tlsKeyFilePath: cannot read /nowhere/key.pem"),
        ({"tlsKeyFilePath": "CERTIFICATE"}, "cannot be used"),
        ({"tlsTrustCertsFilePath": "KEY"}, "holds no certificates"),
        (
            {"tlsAllowInsecureConnection": True, "tlsRequireTrustedClientCertOnConnect": True},
            "contradicts",
        ),
        ({**dict.fromkeys(PORTS, ""), "brokerServicePort": ""}, "set one"),
    ],
)
def test_unusable_files_are_reported_at_the_start(
    authority: ThrowAwayAuthority, changes: dict[str, object], message: str
) -> None:
    pair = authority.server()
    known = {"CERTIFICATE": str(pair.certificate), "KEY": str(pair.key)}
    files = {**files_of(authority, pair)}
    changed = {name: known.get(str(value), value) for name, value in changes.items()}
    with pytest.raises(ConfigError, match=message):
        Cluster(brokers=1, config={**PORTS, **files, **changed}).start()


def test_a_client_that_never_shakes_hands_is_cut_off(
    authority: ThrowAwayAuthority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("counterpoise.broker.connection.client_listener.HANDSHAKE_S", 0.2)
    config = {**PORTS, **files_of(authority, authority.server())}
    with Cluster(brokers=1, config=config) as cluster:
        host, _, port = cluster.service_url_tls.rpartition("/")[2].rpartition(":")
        with socket.create_connection((host, int(port)), timeout=60) as silent:
            assert silent.recv(1) == b""


@pytest.mark.client
def test_an_embedded_cluster_makes_its_own_certificates() -> None:
    with (
        Cluster(brokers=2, tls=True) as cluster,
        client_of(cluster.service_url_tls, Path(cluster.security.trust_certs)) as client,
    ):
        assert through(client, "public/default/secure") == b"sealed"
        assert cluster.admin_url_tls.startswith("https://")
        folder = Path(cluster.security.trust_certs).parent
    with pytest.raises(RuntimeError, match="tls=True"):
        Cluster(brokers=1).security  # noqa: B018
    del cluster, client
    assert not folder.exists()
