"""``counterpoise storage``: what it shows of fake bookies, its statuses, its sentences."""

import asyncio
import json
import time
import zlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from counterpoise.app.main import main
from counterpoise.metadata.port import MetadataReader
from counterpoise.wire.entry import build
from counterpoise.wire.proto.metadata_pb2 import (
    CompressionType,
    MessageMetadata,
    SingleMessageMetadata,
)
from tests.bookkeeper.fake_bookie import Misbehaviour
from tests.bookkeeper.fake_cluster import LONG_AGO, FakeCluster, of_topic
from tests.bookkeeper.test_start_tls import Certificates

TOPIC = "public/default/persistent/orders"
OPEN_READER = "counterpoise.app.verbs.storage.open_reader"
PACK: dict[str, Callable[[bytes], bytes]] = {
    "NONE": bytes,
    "ZLIB": zlib.compress,
    "LZ4": lambda data: pa.Codec("lz4_raw").compress(data, asbytes=True),
    "ZSTD": lambda data: pa.Codec("zstd").compress(data, asbytes=True),
    "SNAPPY": lambda data: pa.Codec("snappy").compress(data, asbytes=True),
}


def single(number: int) -> bytes:
    metadata = MessageMetadata(
        producer_name="p-1",
        sequence_id=number,
        publish_time=LONG_AGO + number,
        partition_key=f"key {number}",
    )
    metadata.properties.add(key="n", value=str(number))
    return build(metadata, b"x" * number)


def batch(kind: str) -> bytes:
    """Three messages, behind the metadata that a broker puts there."""
    body = b""
    for number in range(3):
        payload = b"%d" % number * 10
        each = SingleMessageMetadata(payload_size=10, sequence_id=40 + number)
        raw = each.SerializeToString()
        body += len(raw).to_bytes(4, "big") + raw + payload
    metadata = MessageMetadata(
        producer_name="p-2",
        sequence_id=40,
        publish_time=LONG_AGO,
        num_messages_in_batch=3,
        compression=CompressionType.Value(kind),
        uncompressed_size=len(body),
    )
    return b"\x0e\x02\x00\x00\x00\x02\x08\x07" + build(metadata, PACK[kind](body))


@pytest.fixture
async def cluster(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FakeCluster]:
    made = FakeCluster()

    async def open_reader(url: str, *, operation_timeout_s: float) -> MetadataReader:
        return made.tree.open()

    monkeypatch.setattr(OPEN_READER, open_reader)
    async with made.serve():
        await made.ledger(10, [single(n) for n in range(20)], custom=of_topic(TOPIC))
        batches = [batch(kind) for kind in PACK]
        await made.ledger(11, batches, custom=of_topic(TOPIC), open_=True)
        await made.topic(TOPIC, (10, 20, 1000), (11, 0, 0))
        await made.cursor(TOPIC, "billing", (10, 4))
        yield made


async def storage(*words: str) -> int:
    """The verb as it runs in a process of its own, with an event loop of its own."""
    return await asyncio.to_thread(main, ["storage", words[0], "--metadata", "zk:any", *words[1:]])


async def test_ledgers_of_a_topic(cluster: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert await storage("ledgers", "--topic", "orders") == 0
    head, closed, written = capsys.readouterr().out.splitlines()
    assert head.split()[:5] == ["LEDGER", "KIND", "TOPIC", "STATE", "ENTRIES"]
    assert closed.split()[0:5] == [
        "10",
        "messages",
        "persistent://public/default/orders",
        "closed",
        "20",
    ]
    assert written.split()[3:6] == ["open", "5", "1"], "one entry is not confirmed yet"


async def test_entries_with_batches_of_every_compression(
    cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await storage("entries", "--topic", "orders", "--json", "--payload") == 0
    rows = json.loads(capsys.readouterr().out)
    assert len(rows) == 20 + 3 * len(PACK)
    assert [row["compression"] for row in rows[20::3]] == list(PACK)
    assert {(r["batch_index"], r["sequence_id"], r["payload"]) for r in rows[20:]} == {
        (0, 40, "MDAwMDAwMDAwMA=="),
        (1, 41, "MTExMTExMTExMQ=="),
        (2, 42, "MjIyMjIyMjIyMg=="),
    }
    assert rows[3] == {
        "ledger": 10, "entry": 3, "batch_index": -1, "batch_size": 1,
        "published": "2020-09-13T12:26:40.003Z", "event_time": "", "producer": "p-1",
        "sequence_id": 3, "key": "key 3", "properties": '{"n": "3"}', "bytes": 3,
        "compression": "NONE", "unconfirmed": False, "unreadable": False, "note": "",
        "payload": "eHh4",
    }  # fmt: skip
    assert [row["entry"] for row in rows if row["unconfirmed"]] == [4, 4, 4]


async def test_from_a_position_and_so_many(
    cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (["--topic", "orders", "--from", "10:18"], ["--ledger", "10", "--from", "18"]):
        assert await storage("entries", *words, "--count", "2", "--json") == 0
        rows = json.loads(capsys.readouterr().out)
        assert [(row["ledger"], row["entry"]) for row in rows] == [(10, 18), (10, 19)]
    assert (
        await storage("entries", "--topic", "orders", "--from", "10:18", "--count", "1", "--json")
        == 0
    )
    assert [row["entry"] for row in json.loads(capsys.readouterr().out)] == [18]
    # The ledgers behind it from their first entry on.
    assert await storage("entries", "--topic", "orders", "--from", "10:18", "--json") == 0
    rows = json.loads(capsys.readouterr().out)
    entries = dict.fromkeys((row["ledger"], row["entry"]) for row in rows)
    assert [*entries] == [(10, 18), (10, 19), *((11, entry) for entry in range(len(PACK)))]


async def test_what_cannot_be_read_has_a_row_and_a_status(
    cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    for each in cluster.bookies.values():
        each.misbehaves[10, 1] = Misbehaviour.WRONG_DIGEST
    assert await storage("entries", "--ledger", "10", "--json", "--count", "3") == 3
    rows = json.loads(capsys.readouterr().out)
    assert [row["unreadable"] for row in rows] == [False, True, False]
    assert "CRC32C digest does not match" in rows[1]["note"]
    assert await storage("entries", "--ledger", "999") == 3
    assert "BookKeeper has no such ledger" in capsys.readouterr().out


async def test_a_batch_that_lies_is_one_message_with_a_note(
    cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    metadata = MessageMetadata(
        producer_name="\x1b[2J", sequence_id=1, publish_time=2**63, num_messages_in_batch=2**31 - 1
    )
    packed = MessageMetadata(
        producer_name="p", sequence_id=2, publish_time=1, compression=CompressionType.LZ4,
        uncompressed_size=2**31,
    )  # fmt: skip
    lies = [build(metadata, b"short"), build(packed, b"junk"), b"\x0e\x02\xff\xff\xff\xff", b""]
    await cluster.ledger(12, lies, custom=of_topic(TOPIC))
    assert await storage("entries", "--ledger", "12") == 0
    printed = capsys.readouterr().out
    assert "\x1b" not in printed
    assert "2147483647 messages" in printed
    assert "at most 67108864" in printed
    assert printed.count("no message: ") == 2


async def test_cursors(cluster: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert await storage("cursors", "--topic", "orders", "--json") == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["cursor"], row["mark_delete"], row["backlog"]) == ("billing", "10:4", 20)


async def test_space_bookies_and_replication(
    cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    segments = ((0, ("b1", "gone")), (1, ("gone", "lost")))
    await cluster.ledger(12, [b"12345"] * 2, custom=of_topic("a/b/persistent/c"), segments=segments)
    mark = "/ledgers/underreplication/ledgers/0000/0000/0000/000a/urL0000000010"
    await cluster.put(mark, b'replica: "b2"\nctime: 1600000000000\n')
    for by, names in (
        ("tenant", {"public", "a"}),
        ("namespace", {"public/default", "a/b"}),
        ("topic", {"persistent://public/default/orders", "persistent://a/b/c"}),
        ("kind", {"pulsar messages"}),
    ):
        assert await storage("space", "--by", by, "--json") == 0
        rows = json.loads(capsys.readouterr().out)
        assert {row["name"] for row in rows} == names
        assert sum(row["ledgers"] for row in rows) == 3
    assert await storage("bookies", "--json") == 0
    rows = {row["bookie"]: row for row in json.loads(capsys.readouterr().out)}
    assert {name: row["state"] for name, row in rows.items()} == {
        "b1": "read-write", "b2": "read-write", "b3": "read-write", "gone": "gone", "lost": "gone",
    }  # fmt: skip
    assert {name: row["ledgers"] for name, row in rows.items()} == {
        "b1": 3, "b2": 2, "b3": 2, "gone": 1, "lost": 1,
    }  # fmt: skip
    assert (rows["gone"]["stored_bytes"], rows["lost"]["stored_bytes"]) == (10, 5)
    assert rows["b2"]["marked"] == 1
    assert await storage("replication", "--json") == 3
    marked, at_risk = json.loads(capsys.readouterr().out)
    assert (marked["ledger"], marked["copies"], marked["missing_on"]) == (10, 2, "b2")
    assert marked["marked_since"].startswith("2020-09-13")
    assert (at_risk["ledger"], at_risk["copies"], at_risk["gone"]) == (12, 0, "gone,lost")


async def test_bookies_are_read_by_tls_with_the_settings_of_brokers(
    cluster: FakeCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    certificates = Certificates(tmp_path)
    for bookie in cluster.bookies.values():
        bookie.tls = certificates.server()
    conf = tmp_path / "broker.conf"
    conf.write_text(
        "bookkeeperTLSClientAuthentication=true\nbrokerServicePort=6650\n"
        f"bookkeeperTLSTrustCertsFilePath={certificates.authority.certificate}\n"
        f"bookkeeperTLSCertificateFilePath={certificates.client.certificate}\n"
        "bookkeeperTLSKeyFilePath=/on/the/broker/alone\n"
    )
    words = ["entries", "--ledger", "10", "--json", "--conf", str(conf)]
    assert "bookkeeperTLSKeyFilePath" in await refused(capsys, *words)
    key = f"bookkeeperTLSKeyFilePath={certificates.client.key}"
    assert await storage(*words, "--set", key) == 0
    assert len(json.loads(capsys.readouterr().out)) == 20
    asked = [bookie for bookie in cluster.bookies.values() if bookie.requests]
    assert asked
    assert all(bookie.encrypted for bookie in asked)


async def test_no_bookie_is_asked_without_trust_and_the_row_says_so(
    cluster: FakeCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for bookie in cluster.bookies.values():
        bookie.tls = Certificates(tmp_path).server()
    tls = "bookkeeperTLSClientAuthentication=true"
    assert await storage("entries", "--ledger", "10", "--json", "--set", tls) == 3
    rows = json.loads(capsys.readouterr().out)
    assert {row["unreadable"] for row in rows} == {True}
    assert "certificate verify failed" in rows[0]["note"]
    assert not any(bookie.requests for bookie in cluster.bookies.values())


async def test_a_setting_that_is_not_read_is_refused(
    cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    said = await refused(capsys, "ledgers", "--set", "bookkeeperClientTimeoutInSeconds=3")
    assert "bookkeeperTLSTrustCertsFilePath" in said
    trust = "bookkeeperTLSTrustCertsFilePath=/no/such/file"
    tls = ("--set", "bookkeeperTLSClientAuthentication=true", "--set", trust)
    assert "/no/such/file" in await refused(capsys, "ledgers", *tls)
    assert await storage("ledgers", "--no-bookies", *tls) == 0


def files(folder: Path) -> list[Path]:
    return list(folder.iterdir())


async def test_orphans_to_parquet(
    cluster: FakeCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "orphans.parquet"
    assert await storage("orphans", "--parquet", str(path)) == 0
    assert pq.read_table(path).num_rows == 0
    await cluster.ledger(12, [b"12345"] * 2, custom=of_topic(TOPIC))
    assert await storage("orphans", "--parquet", str(path)) == 3
    table = pq.read_table(path).to_pylist()
    assert [(row["ledger"], row["verdict"], row["bytes"]) for row in table] == [(12, "orphan", 10)]
    said = capsys.readouterr()
    assert said.out == ""
    assert "1 orphans hold 20 bytes of disks" in said.err
    assert files(tmp_path) == [path]


async def test_a_ledger_younger_than_the_grace_is_no_orphan_yet(
    cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    minutes_ago = time.time_ns() // 1_000_000 - 600_000
    await cluster.ledger(12, [b"x"], custom=of_topic(TOPIC), created_ms=minutes_ago)
    assert await storage("orphans", "--grace", "1h") == 0
    assert "0 orphans hold 0 bytes" in capsys.readouterr().err
    await cluster.ledger(13, [b"12345"] * 2, custom=of_topic(TOPIC))
    assert await storage("orphans", "--grace", "1h") == 3
    assert "1 orphans hold 20 bytes" in capsys.readouterr().err
    assert await storage("orphans", "--grace", "1m") == 3
    assert "2 orphans hold 22 bytes" in capsys.readouterr().err


async def test_what_cannot_be_read_in_an_early_ledger_decides_the_status(
    cluster: FakeCluster,
) -> None:
    assert await storage("entries", "--topic", "orders", "--ledgers-root", "/ledgers/") == 0
    for each in cluster.bookies.values():
        each.misbehaves[10, 1] = Misbehaviour.WRONG_DIGEST
    assert await storage("entries", "--topic", "orders") == 3


async def test_a_cluster_of_which_most_is_unreferenced_may_be_two(
    cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(20, 23):
        await cluster.ledger(number, [], custom=of_topic("other/ns/persistent/x"))
    assert await storage("orphans", "--json") == 3
    assert "another Pulsar cluster" in capsys.readouterr().err


async def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert await storage(*words) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("counterpoise: ")
    assert "Traceback" not in said.err
    return said.err


async def test_what_a_person_can_put_right_is_a_sentence(
    cluster: FakeCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "partition-0" in await refused(capsys, "ledgers", "--topic", "absent")
    assert "17:40" in await refused(capsys, "entries", "--topic", "orders", "--from", "x")
    assert "17:40" in await refused(capsys, "entries", "--topic", "orders", "--from", "\u0663:4")
    assert "not in --ledger" in await refused(capsys, "entries", "--ledger", "1", "--from", "2:3")
    path = str(tmp_path / "absent" / "x.parquet")
    assert "--parquet" in await refused(capsys, "ledgers", "--parquet", path)
    assert "--ledgers-root" in await refused(capsys, "ledgers", "--ledgers-root", "/elsewhere")
    await cluster.put(
        "/ledgers/LAYOUT", b"2\norg.apache.bookkeeper.meta.FlatLedgerManagerFactory:1"
    )
    assert "FlatLedgerManagerFactory" in await refused(capsys, "ledgers")
    await cluster.put("/ledgers/LAYOUT", b"\xff\xfe")
    assert "LAYOUT" in await refused(capsys, "ledgers")


@pytest.mark.parametrize(
    "url", ["zk:127.0.0.1:1", "http://x", "zk:", "zk:127.0.0.1:1/../x", "zk:h:port"]
)
def test_a_store_that_cannot_be_reached(
    url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("counterpoise.app.verbs.storage.TIMEOUT_S", 0.5)
    assert main(["storage", "ledgers", "--metadata", url]) == 2
    assert "Traceback" not in capsys.readouterr().err


async def test_a_damaged_ledger_among_many_has_its_number_and_its_note(
    cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    """Behind so many rows that the table has begun: a note that comes late is shown as well."""
    for number in range(20, 1030):
        await cluster.ledger(number, [], custom=of_topic(TOPIC))
    await cluster.put("/ledgers/00/0000/L9000", b"BookieMetadataFormatVersion\t3\n\x05abc")
    assert await storage("ledgers") == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1 + 2 + 1010 + 1
    assert lines[-1].split()[:2] == ["9000", "unreadable"]
    assert "it is cut off" in lines[-1]
    assert await storage("replication", "--json") == 3
    assert [row["ledger"] for row in json.loads(capsys.readouterr().out)] == [9000]
