"""`counterpoise storage` on a real Pulsar: what it says, beside what clients and brokers say.

The official client writes topics with every compression, batched and not, and reads them back;
`counterpoise storage` has to give the same messages, and what `stats-internal` has of ledgers and
cursors. Ledgers that nothing refers to are made by BookKeeper's own client. At the end all metadata
has to be as it was, and the producer's ledger still the one that it writes.
"""

import base64
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote_plus

import pulsar
import pyarrow.parquet as pq
from bench._real_pulsar import RealPulsar, cluster
from kazoo.client import KazooClient

from tests.real.observer import call
from tests.real.parts import ROOT, counterpoise, environment

NAMESPACE = "public/default"
ENTRIES_A_LEDGER = 20
MESSAGES = 300
CONF = {
    "managedLedgerMaxEntriesPerLedger": ENTRIES_A_LEDGER,
    "managedLedgerMinLedgerRolloverTimeMinutes": 0,
    # Without it a broker deletes full ledgers that no subscription needs.
    "defaultRetentionTimeInMinutes": -1,
    "defaultRetentionSizeInMB": -1,
    "loadBalancerEnabled": "false",
}
KINDS = {
    "plain": {"batching_enabled": False},
    "none": {"batching_enabled": True},
    "lz4": {"batching_enabled": True, "compression_type": pulsar.CompressionType.LZ4},
    "zlib": {"batching_enabled": True, "compression_type": pulsar.CompressionType.ZLib},
    "zstd": {"batching_enabled": True, "compression_type": pulsar.CompressionType.ZSTD},
    "snappy": {"batching_enabled": False, "compression_type": pulsar.CompressionType.SNAPPY},
}


@dataclass(frozen=True, slots=True)
class Message:
    """What a client and `counterpoise storage` both say of a message."""

    at: tuple[int, int, int]
    payload: bytes
    key: str
    properties: dict[str, str]
    published_ms: int
    producer: str


class StorageJudge:
    """One cluster's; each check is a line, and those that fail are counted."""

    def __init__(self, real: RealPulsar, zookeeper: str) -> None:
        self.real = real
        self.zookeeper = zookeeper
        self.client = pulsar.Client(
            real.service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
        )
        self.failed = 0

    def check(self, what: str, holds: object, seen: object = "") -> None:
        self.failed += not holds
        shown = f": {seen}" if seen != "" else ""
        print(f"{'ok    ' if holds else 'FAILED'} {what}{shown}"[:600], flush=True)

    def storage(self, *words: str) -> tuple[int, str, str]:
        command = counterpoise("storage", words[0], "--metadata", f"zk:{self.zookeeper}")
        done = subprocess.run(
            [*command, *words[1:]],
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
            env=environment(),
        )
        return done.returncode, done.stdout, done.stderr

    def rows(self, *words: str) -> list[dict[str, Any]]:
        status, out, complaint = self.storage(*words, "--json")
        if status not in (0, 3):
            raise SystemExit(f"storage {' '.join(words)}: status {status}: {complaint}")
        found: list[dict[str, Any]] = json.loads(out)
        return found

    def admin(self, path: str, method: str = "GET", body: object = None) -> Any:
        return call(f"{self.real.admin_url}/admin/v2/{path}", body, method)

    def stats_internal(self, topic: str) -> Any:
        return self.admin(f"persistent/{NAMESPACE}/{topic}/internalStats")

    def write(self, topic: str, kind: str) -> None:
        producer = self.client.create_producer(
            f"persistent://{NAMESPACE}/{topic}",
            block_if_queue_full=True,
            batching_max_messages=10,
            **KINDS[kind],
        )
        for number in range(MESSAGES):
            words = {
                "content": f"{kind} {number} ".encode() * (number % 50),
                "properties": {"number": str(number), "kind": kind} if number % 2 else None,
                "event_timestamp": 1_700_000_000_000 + number,
                **({"partition_key": f"key {number}"} if number % 3 == 0 else {}),
            }
            if KINDS[kind]["batching_enabled"]:
                producer.send_async(callback=lambda *_: None, **words)
            else:
                producer.send(**words)
        producer.flush()
        producer.close()

    def read(self, topic: str) -> list[Message]:
        name = f"persistent://{NAMESPACE}/{topic}"
        reader = self.client.create_reader(name, pulsar.MessageId.earliest)
        found = []
        while reader.has_message_available():
            each = reader.read_next(20_000)
            where = each.message_id()
            at = (where.ledger_id(), where.entry_id(), where.batch_index())
            found.append(
                Message(
                    at,
                    each.data(),
                    each.partition_key(),
                    dict(each.properties()),
                    each.publish_timestamp(),
                    each.producer_name(),
                )
            )
        reader.close()
        return found


def judge_storage(lib: Path, home: Path) -> int:
    """Gives the number of checks that failed."""
    with cluster(lib, home / "cluster", 1, **CONF) as real:
        conf = (home / "cluster" / "broker0.conf").read_text(encoding="utf-8")
        zookeeper = re.search(r"metadataStoreUrl=zk:(\S+)", conf)
        assert zookeeper is not None
        judge = StorageJudge(real, zookeeper[1])
        try:
            for kind in KINDS:
                judge.write(kind, kind)
            before = metadata_nodes(judge.zookeeper)
            judge_messages(judge)
            judge_ledgers(judge)
            judge_unchanged(judge, before)
            judge_cursors(judge)
            judge_unharmed(judge)
            judge_orphans(judge, lib)
            judge_sums(judge, home)
        finally:
            judge.client.close()
    return judge.failed


def judge_messages(judge: StorageJudge) -> None:
    for kind in KINDS:
        theirs = judge.read(kind)
        rows = judge.rows("entries", "--topic", kind, "--count", "1000000", "--payload")
        ours = [
            Message(
                (row["ledger"], row["entry"], row["batch_index"]),
                base64.b64decode(row["payload"]),
                row["key"],
                json.loads(row["properties"] or "{}"),
                milliseconds(row["published"]),
                row["producer"],
            )
            for row in rows
        ]
        differ = next((pair for pair in zip(ours, theirs, strict=False) if pair[0] != pair[1]), "")
        same = len(theirs) == MESSAGES and ours == theirs
        ledgers = len({each.at[0] for each in ours})
        seen = f"{len(ours)} of {len(theirs)} messages in {ledgers} ledgers {differ}"
        judge.check(f"{kind}: every message equals the client's", same, seen)
    middle = judge.rows("entries", "--topic", "plain", "--count", "1000000")[100]
    begin = f"{middle['ledger']}:{middle['entry']}"
    found = judge.rows("entries", "--topic", "plain", "--from", begin, "--count", "7")
    judge.check("--from and --count", found[0] == middle and len(found) == 7)


def milliseconds(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def judge_ledgers(judge: StorageJudge) -> None:
    for kind in KINDS:
        internal = judge.stats_internal(kind)
        theirs = [(each["ledgerId"], each["entries"], each["size"]) for each in internal["ledgers"]]
        theirs[-1] = (
            theirs[-1][0],
            internal["currentLedgerEntries"],
            internal["currentLedgerSize"],
        )
        rows = judge.rows("ledgers", "--topic", kind)
        ours = [(row["ledger"], row["entries"], row["bytes"]) for row in rows]
        judge.check(
            f"{kind}: ledgers as stats-internal has them",
            ours == theirs,
            (ours, theirs)[ours != theirs :],
        )
        total = sum(each for _, each, _ in ours)
        judge.check(f"{kind}: as many entries as were added", total == internal["numberOfEntries"])


def judge_cursors(judge: StorageJudge) -> None:
    topic = f"persistent://{NAMESPACE}/plain"
    consumers = {
        name: judge.client.subscribe(
            topic,
            name,
            consumer_type=pulsar.ConsumerType.Shared,
            initial_position=pulsar.InitialPosition.Earliest,
        )
        for name in ("all", "half", "holes/of it")
    }
    for name, consumer in consumers.items():
        for number in range(MESSAGES):
            message = consumer.receive(20_000)
            if name == "all" or (name == "half" and number < 150) or (number % 3 and number > 60):
                consumer.acknowledge(message)
        consumer.close()
    # A broker writes cursors down as it closes a topic; afterwards it loads it again.
    judge.admin(f"persistent/{NAMESPACE}/plain/unload", "PUT")
    stats = judge.admin(f"persistent/{NAMESPACE}/plain/stats")["subscriptions"]
    theirs = {
        unquote_plus(name): (each["markDeletePosition"], stats[unquote_plus(name)]["msgBacklog"])
        for name, each in judge.stats_internal("plain")["cursors"].items()
    }
    rows = {row["cursor"]: row for row in judge.rows("cursors", "--topic", "plain")}
    ours = {name: (row["mark_delete"], row["backlog"]) for name, row in rows.items()}
    judge.check("cursors and backlog as the broker has them", ours == theirs, f"{ours} {theirs}")
    judge.check("holes are counted", rows["holes/of it"]["acknowledged_beyond"] > 100)


def metadata_nodes(zookeeper: str) -> dict[str, tuple[bytes, int]]:
    """Value and version of every ledger's and managed ledger's node."""
    client = KazooClient(zookeeper)
    client.start()
    try:
        return dict(_below(client, "/ledgers")) | dict(_below(client, "/managed-ledgers"))
    finally:
        client.stop()
        client.close()


def _below(client: KazooClient, path: str) -> Iterator[tuple[str, tuple[bytes, int]]]:
    value, stat = client.get(path)
    yield path, (value, stat.version)
    for name in client.get_children(path):
        yield from _below(client, f"{path}/{name}")


def judge_unchanged(judge: StorageJudge, before: dict[str, tuple[bytes, int]]) -> None:
    """After much reading, and before brokers close a ledger."""
    now = metadata_nodes(judge.zookeeper)
    changed = [path for path, value in before.items() if now.get(path) != value]
    judge.check("every ledger's metadata is as it was", not changed, changed[:5])


def judge_unharmed(judge: StorageJudge) -> None:
    producer = judge.client.create_producer(f"persistent://{NAMESPACE}/open")
    first = producer.send(b"before")
    nodes = metadata_nodes(judge.zookeeper)
    for words in (["ledgers"], ["space"], ["bookies"], ["replication"], ["orphans"]):
        status, _, complaint = judge.storage(*words)
        judge.check(f"storage {words[0]}", status == 0, complaint)
    seen = judge.rows("entries", "--topic", "open", "--payload")
    judge.check(
        "the message that was just sent is there",
        [r["payload"] for r in seen] == [base64.b64encode(b"before").decode()],
        seen,
    )
    judge.rows("cursors", "--topic", "open")
    after = metadata_nodes(judge.zookeeper)
    changed = {path for path in nodes.keys() | after.keys() if nodes.get(path) != after.get(path)}
    judge.check("no node was changed", not changed, sorted(changed)[:5])
    second = producer.send(b"after")
    same = (second.ledger_id(), second.entry_id()) == (first.ledger_id(), first.entry_id() + 1)
    judge.check("the producer goes on in its ledger", same, (str(first), str(second)))
    producer.close()


@contextmanager
def java_ledgers(lib: Path, zookeeper: str) -> Iterator["subprocess.Popen[str]"]:
    words = [sys.executable, "-m", "tests.real.java_ledgers", str(lib), zookeeper]
    child = subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment()
    )
    try:
        yield child
    finally:
        assert child.stdin is not None
        child.stdin.close()
        child.wait(60)


def judge_orphans(judge: StorageJudge, lib: Path) -> None:
    """Beside all that Pulsar refers to: schemas, cursors, a compacted topic."""
    make_referenced(judge)
    entries = [f"entry {number}" for number in range(25)]
    lost = {
        "application": "pulsar",
        "component": "managed-ledger",
        "pulsar/managed-ledger": f"{NAMESPACE}/persistent/plain",
    }
    wanted = {
        "orphan": lost,
        "cursor": {**lost, "pulsar/cursor": "left"},
        "open": {**lost, "pulsar/managed-ledger": f"{NAMESPACE}/persistent/deleted"},
        "foreign": {"application": "distributedlog"},
        "unnamed": {},
    }
    made = {}
    with java_ledgers(lib, judge.zookeeper) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        for name, custom in wanted.items():
            request = {"custom": custom, "entries": entries, "close": name != "open"}
            child.stdin.write(json.dumps(request) + "\n")
            child.stdin.flush()
            made[name] = json.loads(child.stdout.readline())["ledger"]
        orphans = judge.rows("orphans", "--grace", "0")
        size = sum(map(len, entries))
        found = {row["ledger"]: (row["verdict"], row["bytes"]) for row in orphans}
        expected = {made[name]: ("orphan", size) for name in ("orphan", "cursor", "open")}
        judge.check(
            "the orphans that were made, and no other", found == expected, f"{found} {expected}"
        )
        young = judge.rows("orphans")
        judge.check(
            "within the grace they are young", {row["verdict"] for row in young} == {"young"}
        )
        status, _, said = judge.storage("orphans", "--grace", "0")
        judge.check("status 3, and what it says", status == 3, said.strip())


def make_referenced(judge: StorageJudge) -> None:
    class Order(pulsar.schema.Record):  # type: ignore[misc]
        number = pulsar.schema.Integer()

    topic = f"persistent://{NAMESPACE}/with-schema"
    schema = pulsar.schema.JsonSchema(Order)
    producer = judge.client.create_producer(topic, schema=schema)
    producer.send(Order(number=1))
    producer.close()
    topic = f"persistent://{NAMESPACE}/compacted"
    producer = judge.client.create_producer(topic)
    for number in range(100):
        producer.send(b"value %d" % number, partition_key=f"key {number % 5}")
    producer.close()
    judge.admin(f"persistent/{NAMESPACE}/compacted/compaction", "PUT")
    for _ in range(100):
        if judge.admin(f"persistent/{NAMESPACE}/compacted/compaction")["status"] == "SUCCESS":
            break
        judge.client.get_topic_partitions(topic)
    kinds = {row["kind"] for row in judge.rows("ledgers")}
    judge.check(
        "every kind of ledger is named",
        {"messages", "cursor", "schema", "compacted-ledger"} <= kinds,
        kinds,
    )


def judge_sums(judge: StorageJudge, home: Path) -> None:
    by_topic = {row["name"]: row["bytes"] for row in judge.rows("space", "--by", "topic")}
    for kind in KINDS:
        internal = judge.stats_internal(kind)
        rows = judge.rows("ledgers", "--topic", kind)
        sizes = sum(row["bytes"] for row in rows)
        judge.check(
            f"{kind}: as many bytes as the broker counts",
            sizes == internal["totalSize"],
            f"{sizes} {internal['totalSize']}",
        )
        judge.check(f"{kind}: its space", by_topic[f"persistent://{NAMESPACE}/{kind}"] >= sizes)
    bookies = judge.rows("bookies")
    total = sum(row["stored_bytes"] for row in judge.rows("space"))
    one = len(bookies) == 1 and bookies[0]["state"] == "read-write"
    judge.check(
        "one bookie holds it all",
        one and abs(bookies[0]["stored_bytes"] - total) < 0.01 * total,
        bookies,
    )
    ledgers = judge.rows("ledgers")
    path = home / "ledgers.parquet"
    judge.storage("ledgers", "--parquet", str(path))
    columns: Sequence[int] = pq.read_table(path)["ledger"].to_pylist()
    judge.check("the same ledgers as Parquet", columns == [row["ledger"] for row in ledgers])
    judge.check("and as a table", judge.storage("ledgers")[1].count("\n") == len(ledgers) + 1)
