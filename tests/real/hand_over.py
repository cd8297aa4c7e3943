"""A cold hand-over: Pulsar's brokers stop, ours open the same ZooKeeper and bookies, and back.

Message ids, order, subscriptions and backlog have to be the same on each side, what either
publishes has to be there for the other, and no ledger may be left that nothing refers to.
"""

import json
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pulsar
from bench._real_pulsar import ONE_COPY, RealPulsar, cluster

from tests.real.observer import call
from tests.real.parts import ROOT, counterpoise, environment

TOPIC = "persistent://public/default/handed-over"
STATS = "/admin/v2/persistent/public/default/handed-over/stats"
PLAIN, BATCHED = 120, 180
CONF = {
    "managedLedgerMaxEntriesPerLedger": 20,
    "managedLedgerMinLedgerRolloverTimeMinutes": 0,
    "defaultRetentionTimeInMinutes": -1,
    "defaultRetentionSizeInMB": -1,
    "loadBalancerEnabled": "false",
}
Id = tuple[int, int, int]


class HandOverJudge:
    """Plays clients before, between and after, and compares."""

    def __init__(self) -> None:
        self.failed = 0
        self.published: list[tuple[Id, bytes]] = []
        self.acknowledged: set[bytes] = set()

    def check(self, what: str, holds: object, seen: object = "") -> None:
        self.failed += not holds
        shown = f": {seen}" if seen != "" else ""
        print(f"{'ok    ' if holds else 'FAILED'} {what}{shown}"[:600], flush=True)

    def publish(self, client: pulsar.Client, count: int, *, batched: bool) -> None:
        producer = client.create_producer(TOPIC, batching_enabled=batched, batching_max_messages=10)
        bodies = [b"%05d" % (len(self.published) + each) for each in range(count)]
        ids: dict[bytes, Id] = {}

        def stored(body: bytes) -> object:
            return lambda _, at: ids.__setitem__(body, _id(at))

        for body in bodies:
            producer.send_async(body, stored(body))
        producer.flush()
        producer.close()
        self.published += [(ids[body], body) for body in bodies]

    def read_all(self, client: pulsar.Client, who: str) -> None:
        """Every message from the beginning, with its id, in order."""
        reader = client.create_reader(TOPIC, pulsar.MessageId.earliest)
        found = []
        while reader.has_message_available():
            message = reader.read_next(30_000)
            found.append((_id(message.message_id()), message.data()))
        reader.close()
        self.check(f"{who}: every message, its id, the order", found == self.published, len(found))

    def acknowledge_some(self, client: pulsar.Client) -> None:
        """Two of three entries that come, so not in a row; each with all of its messages."""
        consumer = client.subscribe(TOPIC, "some", pulsar.ConsumerType.Shared)
        left = [body for _, body in self.published if body not in self.acknowledged]
        for _ in left:
            message = consumer.receive(30_000)
            if message.message_id().entry_id() % 3:
                self.acknowledged.add(message.data())
                consumer.acknowledge(message)
        time.sleep(3)  # an acknowledgement is written down within two seconds
        consumer.close()

    def rest_of(self, client: pulsar.Client, who: str) -> None:
        """What the subscription still gets is what was not acknowledged."""
        consumer = client.subscribe(TOPIC, "some", pulsar.ConsumerType.Shared)
        left = {body for _, body in self.published} - self.acknowledged
        found: list[bytes] = []
        while len(set(found)) < len(left):
            found.append(consumer.receive(30_000).data())
        consumer.close()
        self.check(
            f"{who}: a subscription goes on where it was",
            {*found} == left and len(found) == len(left),
            f"{len(found)} messages, {len(left)} owed",
        )

    def check_backlog(self, admin_url: str, who: str) -> None:
        """Entries that each durable subscription has still to get acknowledged."""
        entries = {at[:2]: body for at, body in self.published}
        left = sum(body not in self.acknowledged for body in entries.values())
        found = call(f"{admin_url}{STATS}")["subscriptions"]
        backlog = {name: found[name]["msgBacklog"] for name in ("some", "none")}
        self.check(f"{who}: backlogs", backlog == {"some": left, "none": len(entries)}, backlog)


def _id(message_id: pulsar.MessageId) -> Id:
    return (message_id.ledger_id(), message_id.entry_id(), message_id.batch_index())


@contextmanager
def our_broker(home: Path, zookeeper: str) -> Iterator[tuple[str, str]]:
    """A broker of ours on the same ZooKeeper and bookies: its service and admin URL."""
    settings = {
        "clusterName": "real",
        "advertisedAddress": "127.0.0.1",
        "metadataStoreUrl": f"zk:{zookeeper}",
        "ledgerStoreUrl": f"metadata-store:zk:{zookeeper}",
        "brokerServicePort": 0,
        "webServicePort": 0,
        **ONE_COPY,
        **CONF,
    }
    words = [f"--set={name}={value}" for name, value in settings.items()]
    with (home / "ours.log").open("ab") as log:
        process = _start([*counterpoise("broker"), *words], log)
        try:
            assert process.stdout is not None
            mark, _, addresses = process.stdout.readline().partition(" ")
            if mark != "ready":
                raise SystemExit(f"our broker did not start; see {home / 'ours.log'}")
            said = json.loads(addresses)
            yield said["service_url"], said["admin_url"]
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(120)


def _start(words: Sequence[str], log: IO[bytes]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=log, text=True, env=environment(), cwd=ROOT
    )


def judge_hand_over(lib: Path, home: Path) -> int:
    """Gives the number of checks that failed."""
    judge = HandOverJudge()
    with cluster(lib, home / "cluster", 1, **CONF) as real:
        conf = (home / "cluster" / "broker0.conf").read_text(encoding="utf-8")
        zookeeper = conf.partition("metadataStoreUrl=zk:")[2].split()[0]
        with _client(real.service_url) as client:
            for name in ("some", "none"):
                client.subscribe(TOPIC, name, pulsar.ConsumerType.Shared).close()
            judge.publish(client, PLAIN, batched=False)
            judge.publish(client, BATCHED, batched=True)
            judge.acknowledge_some(client)
            judge.check_backlog(real.admin_url, "Pulsar")
        refuse_beside(judge, home, zookeeper)
        _stop(real)
        with (
            our_broker(home, zookeeper) as (service_url, admin_url),
            _client(service_url) as client,
        ):
            judge.read_all(client, "ours")
            judge.check_backlog(admin_url, "ours")
            judge.rest_of(client, "ours")
            judge.publish(client, PLAIN, batched=False)
            judge.publish(client, BATCHED, batched=True)
            judge.acknowledge_some(client)
            judge.check_backlog(admin_url, "ours, afterwards")
        judge_orphans(judge, zookeeper, "after ours")
        assert real.children is not None
        real.children.start_broker(0)
        real.children.wait_for(f"{real.admin_url}/admin/v2/brokers/ready", 240)
        with _client(real.service_url) as client:
            judge.read_all(client, "Pulsar again")
            judge.check_backlog(real.admin_url, "Pulsar again")
            judge.rest_of(client, "Pulsar again")
            judge.publish(client, PLAIN, batched=False)
        judge_internal_stats(judge, real)
        _stop(real)
        judge_orphans(judge, zookeeper, "at the end")
    return judge.failed


@contextmanager
def _client(url: str) -> Iterator[pulsar.Client]:
    client = pulsar.Client(url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    try:
        yield client
    finally:
        client.close()


def _stop(real: RealPulsar) -> None:
    assert real.children is not None
    real.children.stop("broker0", signal.SIGTERM)


def refuse_beside(judge: HandOverJudge, home: Path, zookeeper: str) -> None:
    """None of ours starts while a broker of Pulsar's is registered."""
    url = f"zk:{zookeeper}"
    words = [f"metadataStoreUrl={url}", f"ledgerStoreUrl=metadata-store:{url}"]
    words += ["brokerServicePort=0", "webServicePort=0"]
    done = subprocess.run(
        counterpoise("broker", *(f"--set={each}" for each in words)),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env=environment(),
    )
    said = "brokers of Apache Pulsar are registered" in done.stderr
    judge.check("beside Pulsar none of ours starts", said and done.returncode, done.stderr[-300:])


def judge_orphans(judge: HandOverJudge, zookeeper: str, when: str) -> None:
    """No ledger of this topic is there that nothing refers to."""
    done = subprocess.run(
        counterpoise("storage", "orphans", "--metadata", f"zk:{zookeeper}", "--json"),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env=environment(),
    )
    judge.check(f"{when}: no orphan ledgers", json.loads(done.stdout or "0") == [], done.stderr)


def judge_internal_stats(judge: HandOverJudge, real: RealPulsar) -> None:
    """What Pulsar says of ledgers has every entry."""
    url = STATS.replace("/stats", "/internalStats")
    found = call(f"{real.admin_url}{url}")
    entries = len({at[:2] for at, _ in judge.published})
    judge.check("stats-internal: entries", found["numberOfEntries"] == entries, entries)
