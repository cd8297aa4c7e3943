"""Connections to bookies by TLS: after START_TLS on the same connection, and never in the clear."""

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from counterpoise.app.clusters.throwaway import KeyPair, ThrowAwayAuthority
from counterpoise.bookkeeper.bookie_frames import AnswerDecoder, BadFrame
from counterpoise.bookkeeper.bookies import Bookies
from counterpoise.bookkeeper.client import BookieLedgerClient
from counterpoise.bookkeeper.entry_rows import AHEAD, EntryChoice, entry_rows
from counterpoise.bookkeeper.errors import BookieError
from counterpoise.names.options import ConfigError
from counterpoise.storage.bookie_client_options import BookieClientOptions
from counterpoise.storage.managed.bookie_tls import bookie_tls
from counterpoise.storage.managed.connect import client_options
from counterpoise.storage.managed_options import ManagedLedgerOptions
from tests.bookkeeper.fake_bookie import Misbehaviour, TlsHang
from tests.bookkeeper.fake_cluster import PATIENT, SOON, FakeCluster, though_silent
from tests.bookkeeper.test_ledger_client import written
from tests.waiting import WITHIN_S


class Certificates:
    """An authority, a bookie's certificate and a client's."""

    def __init__(self, folder: Path) -> None:
        self.authority = ThrowAwayAuthority(folder)
        # No host of this machine: Java's client does not compare them either.
        self.bookie = self.authority.server("bookie", ("elsewhere",))
        self.client = self.authority.client("broker")
        self.options = self.options_with(self.client)

    def options_with(self, client: KeyPair) -> BookieClientOptions:
        trust = str(self.authority.certificate)
        return BookieClientOptions(
            tls=True, certificate=str(client.certificate), key=str(client.key), trust=trust
        )

    def server(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.bookie.certificate, self.bookie.key)
        context.load_verify_locations(self.authority.certificate)
        context.verify_mode = ssl.CERT_REQUIRED
        return context


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path)


async def test_a_ledger_is_written_and_read_by_tls_alone(certificates: Certificates) -> None:
    async with FakeCluster().serve() as cluster:
        for bookie in cluster.bookies.values():
            bookie.tls = certificates.server()
        options = client_options(ManagedLedgerOptions(timeout_s=90), certificates.options)
        client = await BookieLedgerClient.open(cluster.tree.open(), options, Random(1))
        writer, _ = await written(client, b"one", b"x" * 100_000, b"three")
        reader = await client.read_open(writer)
        assert await reader.read(0, 2) == [b"one", b"x" * 100_000, b"three"]
        await writer.close()
        await client.close()
        assert sum(each.encrypted for each in cluster.bookies.values()) == 2


def certificate_of_another(certificates: Certificates, folder: Path) -> BookieClientOptions:
    return certificates.options_with(ThrowAwayAuthority(folder).client("broker"))


def trust_in_another(certificates: Certificates, folder: Path) -> BookieClientOptions:
    other = str(ThrowAwayAuthority(folder).certificate)
    return replace(certificates.options, trust=other)


def no_certificate(certificates: Certificates, _: Path) -> BookieClientOptions:
    return replace(certificates.options, certificate="", key="")


@pytest.mark.parametrize("chosen", [certificate_of_another, trust_in_another, no_certificate])
async def test_without_trust_on_both_sides_nothing_is_read(
    certificates: Certificates,
    tmp_path: Path,
    chosen: Callable[[Certificates, Path], BookieClientOptions],
) -> None:
    (tmp_path / "other").mkdir()
    tls = bookie_tls(chosen(certificates, tmp_path / "other"))
    async with FakeCluster().serve("b1") as cluster:
        cluster.bookies["b1"].tls = certificates.server()
        await cluster.ledger(7, [b"secret"], segments=((0, ("b1",)),), quorums=(1, 1))
        async with cluster.reading(replace(PATIENT, tls=tls)) as reading:
            with pytest.raises(BookieError):
                await reading.bookies.read("b1", 7, 0)
        assert cluster.bookies["b1"].requests == []


def both_certificates(certificates: Certificates, _: Path) -> BookieClientOptions:
    return certificates.options


@pytest.mark.parametrize(
    "chosen", [both_certificates, certificate_of_another, trust_in_another, no_certificate]
)
async def test_many_entries_take_one_handshake_of_each_bookie(
    certificates: Certificates,
    tmp_path: Path,
    chosen: Callable[[Certificates, Path], BookieClientOptions],
) -> None:
    (tmp_path / "other").mkdir()
    tls, count = bookie_tls(chosen(certificates, tmp_path / "other")), 3 * AHEAD
    options = replace(PATIENT, tls=tls, reconnect_s=3600.0)
    async with FakeCluster().serve("b1", "b2") as cluster:
        for bookie in cluster.bookies.values():
            bookie.tls = certificates.server()
        await cluster.ledger(7, [b""] * count, segments=((0, ("b1", "b2")),))
        async with cluster.reading(options) as reading:
            rows = [row async for part in entry_rows(reading, [7], EntryChoice()) for row in part]
        assert [row.unreadable for row in rows] == [chosen is not both_certificates] * count
        assert {each.handshakes for each in cluster.bookies.values()} == {1}


async def test_a_bookie_that_refused_a_connection_is_tried_again(
    certificates: Certificates,
) -> None:
    tls = bookie_tls(certificates.options)
    async with FakeCluster().serve("b1") as cluster:
        bookie = cluster.bookies["b1"]
        await cluster.ledger(7, [b"found"], segments=((0, ("b1",)),), quorums=(1, 1))
        async with cluster.reading(replace(PATIENT, tls=tls, reconnect_s=0.0)) as reading:
            with pytest.raises(BookieError, match="refuses TLS"):
                await reading.bookies.read("b1", 7, 0)
            bookie.tls = certificates.server()
            assert (await reading.bookies.read("b1", 7, 0)).endswith(b"found")


class NoFile:
    """A certificate that has gone since the start."""

    def context(self) -> ssl.SSLContext:
        raise ConfigError("bookkeeperTLSCertificateFilePath", "/gone: no such file")


async def test_a_certificate_that_has_gone_fails_what_is_read_with_the_setting() -> None:
    async with FakeCluster().serve("b1") as cluster:
        await cluster.ledger(7, [b"x"], segments=((0, ("b1",)),), quorums=(1, 1))
        async with cluster.reading(replace(PATIENT, tls=NoFile())) as reading:
            with pytest.raises(BookieError, match="bookkeeperTLSCertificateFilePath"):
                await reading.bookies.read("b1", 7, 0)
            assert reading.bookies.is_avoided("b1")


async def test_a_connection_that_was_in_use_is_made_again_at_once(
    certificates: Certificates,
) -> None:
    """Its end says nothing of trust: the bookie was restarted, say."""
    tls = bookie_tls(certificates.options)
    async with FakeCluster().serve("b1") as cluster:
        bookie = cluster.bookies["b1"]
        bookie.tls = certificates.server()
        await cluster.ledger(7, [b"found"], segments=((0, ("b1",)),), quorums=(1, 1))
        async with cluster.reading(replace(PATIENT, tls=tls, reconnect_s=3600.0)) as reading:
            assert (await reading.bookies.read("b1", 7, 0)).endswith(b"found")
            bookie.always = Misbehaviour.HANGS_UP
            with pytest.raises(BookieError):
                await reading.bookies.read("b1", 7, 0)
            bookie.always = None
            assert (await reading.bookies.read("b1", 7, 0)).endswith(b"found")
        assert bookie.handshakes == 2


def test_a_certificate_without_the_role_that_a_bookie_wants_is_the_reason() -> None:
    # What BookKeeper 4.17.2 sends after the handshake, and then to a read.
    sent = "0000000b 0a06 0803 1009 1801 10f503  00000018 0201 0000 00000066"
    with pytest.raises(BadFrame, match="authorizedRoles"):
        AnswerDecoder().receive(bytes.fromhex(sent))


async def test_a_bookie_without_tls_is_sent_nothing_else(certificates: Certificates) -> None:
    async with FakeCluster().serve("b1") as cluster:
        await cluster.ledger(7, [b"in the clear"], segments=((0, ("b1",)),), quorums=(1, 1))
        tls = bookie_tls(certificates.options)
        async with cluster.reading(replace(PATIENT, tls=tls)) as reading:
            with pytest.raises(BookieError, match="refuses TLS"):
                await reading.bookies.read("b1", 7, 0)
        assert cluster.bookies["b1"].requests == []


@pytest.mark.parametrize("where", TlsHang)
async def test_a_bookie_that_hangs_on_the_way_to_tls_is_given_up_and_left(
    certificates: Certificates, where: TlsHang
) -> None:
    tls = bookie_tls(certificates.options)
    async with FakeCluster().serve("b1") as cluster:
        bookie = cluster.bookies["b1"]
        bookie.hangs = where
        await cluster.ledger(7, [b"secret"], segments=((0, ("b1",)),), quorums=(1, 1))
        async with cluster.reading(replace(SOON, tls=tls, connect_s=5.0)) as reading:
            with pytest.raises(BookieError, match="no connection within"):
                await though_silent(reading.bookies.read("b1", 7, 0))
            assert reading.bookies.is_avoided("b1")
            async with asyncio.timeout(WITHIN_S):
                await bookie.left_hanging.wait()
        assert bookie.requests == []


async def test_a_renewed_certificate_is_shown_by_the_next_connection(
    certificates: Certificates, tmp_path: Path
) -> None:
    (tmp_path / "new").mkdir()
    renewed = Certificates(tmp_path / "new")
    tls = bookie_tls(certificates.options)
    for path, new in (
        (certificates.client.certificate, renewed.client.certificate),
        (certificates.client.key, renewed.client.key),
        (certificates.authority.certificate, renewed.authority.certificate),
    ):
        path.write_bytes(new.read_bytes())
    async with FakeCluster().serve("b1") as cluster:
        cluster.bookies["b1"].tls = renewed.server()
        await cluster.ledger(7, [b"found"], segments=((0, ("b1",)),), quorums=(1, 1))
        async with cluster.reading(replace(PATIENT, tls=tls)) as reading:
            bookies: Bookies = reading.bookies
            assert (await bookies.read("b1", 7, 0)).endswith(b"found")


@pytest.mark.parametrize(
    ("changed", "setting"),
    [
        (
            {"authentication": "org.apache.bookkeeper.sasl.SASLClientProviderFactory"},
            "bookkeeperClientAuthenticationPlugin",
        ),
        ({"key_type": "JKS"}, "bookkeeperTLSKeyFileType"),
        ({"trust_type": "PKCS12"}, "bookkeeperTLSTrustCertTypes"),
        ({"tls_provider": "com.example.Own"}, "bookkeeperTLSProviderFactoryClass"),
        ({"trust": "/no/such/file"}, "bookkeeperTLSTrustCertsFilePath"),
        ({"certificate": "/no/such/file"}, "bookkeeperTLSCertificateFilePath"),
        ({"key": ""}, "bookkeeperTLSKeyFilePath"),
        ({"key_password_file": "/no/such/file"}, "bookkeeperTLSKeyStorePasswordPath"),
    ],
)
def test_what_cannot_be_used_is_said_at_the_start(
    certificates: Certificates, changed: dict[str, str], setting: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        bookie_tls(replace(certificates.options, **changed))  # type: ignore[arg-type]
    assert refused.value.name == setting


def test_a_password_ends_before_the_end_of_its_line(
    certificates: Certificates, tmp_path: Path
) -> None:
    key = load_pem_private_key(certificates.client.key.read_bytes(), None)
    locked, password = tmp_path / "locked.pem", tmp_path / "password"
    locked.write_bytes(
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"let me in"))
    )
    options = replace(certificates.options, key=str(locked), key_password_file=str(password))
    password.write_text("let me in\n")
    assert bookie_tls(options)
    password.write_text("let me out\n")
    with pytest.raises(ConfigError):
        bookie_tls(options)


def test_without_tls_its_files_are_not_read() -> None:
    assert bookie_tls(BookieClientOptions(trust="/no/such/file", key_type="JKS")) is None
