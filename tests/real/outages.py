"""Brokers of ours on three real bookies, cut off, stopped, or left without what they need.

One broker reaches ZooKeeper and the bookies through proxies that can be cut; the other takes over.
A client publishes without a pause. Whatever happens, each acknowledged message has to be at the id
that it was acknowledged with: one that was acknowledged after its ledger had been recovered is not.
"""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pulsar

from counterpoise.app.clusters.bookies import LocalBookies
from counterpoise.app.clusters.processes import READY, Child, ChildSpec
from counterpoise.app.clusters.zookeeper import ZooKeeper
from counterpoise.app.errors import UserError
from counterpoise.bookkeeper.client import BookieLedgerClient, LedgerClientOptions
from counterpoise.bookkeeper.managed_ledgers import ROOT, parse_managed_ledger
from counterpoise.metadata import open_store
from tests.real.cut_network import CuttableProxy
from tests.real.observer import call
from tests.real.own_brokers import OwnBrokersJudge, Publisher, bundle_of
from tests.real.parts import counterpoise, environment

SESSION_S = 8
SILENT_S = 3
STOPPED_S = 40
CALM_S = 3.0
GOES_ON_S = 60.0
PAUSE = threading.Event()
"""Never set: an outage lasts, and load flows, for as long as it is waited for."""


@dataclass(frozen=True)
class Broker:
    id: str
    service_url: str
    child: Child


class OutageCluster:
    """A ZooKeeper, three bookies, a steady broker and one that can be cut off."""

    def __init__(self, home: Path, undo: contextlib.ExitStack) -> None:
        self._home = home
        self.zookeeper = undo.enter_context(ZooKeeper.start(home / "zookeeper"))
        self.bookies = undo.enter_context(
            LocalBookies.start(3, home / "bookies", self.zookeeper.address)
        )
        ports = [int(each.read_text()) for each in sorted((home / "bookies").glob("*.port"))]
        self.bookie_ids = [f"127.0.0.1:{port}" for port in ports]
        self.to_zookeeper = CuttableProxy(self.zookeeper.port)
        self.to_bookies = [CuttableProxy(port) for port in ports]
        self.steady = self._start(undo, "steady", counterpoise("broker"), self.zookeeper.port)
        pairs = ",".join(f"{each.target}:{each.port}" for each in self.to_bookies)
        words = [sys.executable, "-m", "tests.real.cut_network", pairs, "broker"]
        self.victim = self._start(undo, "victim", words, self.to_zookeeper.port)

    def _start(self, undo: contextlib.ExitStack, name: str, words: list[str], port: int) -> Broker:
        url = f"zk:127.0.0.1:{port}"
        settings: dict[str, object] = {
            "advertisedAddress": "127.0.0.1",
            "metadataStoreUrl": url,
            "ledgerStoreUrl": f"metadata-store:{url}",
            "brokerServicePort": 0,
            "webServicePort": 0,
            "metadataStoreSessionTimeoutMillis": SESSION_S * 1000,
            "bookkeeperClientTimeoutInSeconds": SILENT_S,
            "managedLedgerMaxEntriesPerLedger": 1500,
            "managedLedgerMinLedgerRolloverTimeMinutes": 0,
            "loadBalancerSheddingEnabled": "false",
            "defaultRetentionTimeInMinutes": -1,
            "defaultRetentionSizeInMB": -1,
        }
        child = Child(
            ChildSpec(
                name=name,
                argv=[*words, *(f"--set={key}={value}" for key, value in settings.items())],
                is_ready=lambda line: line.startswith(READY + " "),
                log=self._home / f"{name}.log",
                environment=environment(),
            )
        )
        undo.callback(child.stop)
        said = json.loads(child.wait_ready().partition(" ")[2])
        return Broker(said["id"], said["service_url"], child)

    def admin_url(self) -> str:
        return f"http://{self.steady.id}"

    def owner(self, topic: str) -> str:
        path = topic.replace("://", "/")
        return str(call(f"{self.admin_url()}/lookup/v2/topic/{path}")["brokerUrl"])

    def move(self, topic: str, to: Broker) -> None:
        if self.owner(topic) == to.service_url:
            return
        bundle = bundle_of(self.admin_url(), topic)
        base = f"{self.admin_url()}/admin/v2/namespaces/public/default/{bundle}"
        call(f"{base}/unload?destinationBroker={to.id}", method="PUT")

    async def recover_last_ledger(self, topic: str) -> tuple[int, int]:
        """What auto-recovery does to an open ledger: its id and its last entry then."""
        store = await open_store(self.zookeeper.metadata_url)
        client = await BookieLedgerClient.open(store, LedgerClientOptions(), Random(1))
        try:
            name = topic.removeprefix("persistent://").replace("default/", "default/persistent/")
            found = await store.get(f"{ROOT}/{name}")
            assert found is not None
            ledger = parse_managed_ledger(name, found.value).ledgers[-1].ledger
            return ledger, (await client.recover(ledger)).last_entry
        finally:
            await client.close()
            await store.close()

    async def forget_cookie(self, index: int) -> None:
        """What an operator does who means a bookie to begin with nothing."""
        store = await open_store(self.zookeeper.metadata_url)
        await store.delete(f"/ledgers/cookies/{self.bookie_ids[index]}")
        await store.close()


@dataclass
class OutageTrial:
    """One topic, one publisher, one outage."""

    judge: OwnBrokersJudge
    cluster: OutageCluster
    name: str
    topic: str
    publisher: Publisher

    def check(self, what: str, holds: object, seen: object = "") -> None:
        self.judge.check(f"{self.name}: {what}", holds, seen)

    def acknowledged(self) -> int:
        return len(self.publisher.at)

    def goes_on(self, since: float) -> None:
        """Wait until something more is acknowledged, and say after how long."""
        before, end = self.acknowledged(), time.monotonic() + GOES_ON_S
        while self.acknowledged() == before and time.monotonic() < end:
            PAUSE.wait(0.05)
        took = time.monotonic() - since
        more = self.acknowledged() > before
        self.check("publishing goes on by itself", more, f"{took:.1f} s afterwards")

    def check_successor(self) -> None:
        """The steady broker serves the topic to another client, while the other one is away."""
        begun, served = time.monotonic(), False
        cluster, steady = self.cluster, self.cluster.steady.service_url
        with client_of(steady) as client:
            while not served and time.monotonic() < begun + GOES_ON_S:
                if cluster.owner(self.topic) != steady:
                    PAUSE.wait(0.2)
                    continue
                with contextlib.suppress(pulsar.PulsarException):
                    producer = client.create_producer(self.topic, send_timeout_millis=3000)
                    producer.send(b"-1")
                    served = True
        took = time.monotonic() - begun
        self.check("the successor recovers the log and acknowledges", served, f"{took:.1f} s")

    def check_silent(self, seconds: float) -> None:
        """Nothing is acknowledged for so long."""
        PAUSE.wait(SILENT_S)
        before = self.acknowledged()
        PAUSE.wait(seconds)
        more = self.acknowledged() - before
        self.check("nothing is acknowledged meanwhile", not more, f"{more} in {seconds:g} s")


@contextlib.contextmanager
def client_of(url: str) -> Iterator[pulsar.Client]:
    logger = pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull)
    client = pulsar.Client(url, logger=logger, operation_timeout_seconds=10)
    try:
        yield client
    finally:
        client.close()


def stopped(trial: OutageTrial) -> None:
    pid = trial.cluster.victim.child.pid
    os.killpg(pid, signal.SIGSTOP)
    begun = time.monotonic()
    try:
        trial.check_successor()
        PAUSE.wait(max(0.0, begun + STOPPED_S - time.monotonic()))
    finally:
        os.killpg(pid, signal.SIGCONT)
    trial.goes_on(time.monotonic())


def without_zookeeper_alone(trial: OutageTrial) -> None:
    trial.cluster.to_zookeeper.cut()
    try:
        trial.check_successor()
        PAUSE.wait(2 * SESSION_S)
    finally:
        trial.cluster.to_zookeeper.heal()
    trial.goes_on(time.monotonic())


def without_bookies_alone(trial: OutageTrial) -> None:
    for each in trial.cluster.to_bookies:
        each.cut()
    try:
        trial.check_silent(SESSION_S)
        ledger, end = asyncio.run(trial.cluster.recover_last_ledger(trial.topic))
    finally:
        for each in trial.cluster.to_bookies:
            each.heal()
    trial.goes_on(time.monotonic())
    last = max((at[1] for at in trial.publisher.ids if at[0] == ledger), default=-1)
    trial.check("none beyond the end of the recovered ledger", last <= end, f"{last} of {end}")


def zookeeper_away(trial: OutageTrial) -> None:
    before = {at[0] for at in list(trial.publisher.ids)}
    trial.cluster.zookeeper.kill()
    begun = time.monotonic()
    PAUSE.wait(SESSION_S)
    trial.cluster.zookeeper.restart()
    trial.goes_on(time.monotonic())
    pause = trial.publisher.pause_since(begun)
    PAUSE.wait(2 * CALM_S)
    after = {at[0] for at in list(trial.publisher.ids)}
    trial.check("a ledger was full meanwhile", after - before, f"{pause:.1f} s pause")


def empty_directory(trial: OutageTrial) -> None:
    bookies, name = trial.cluster.bookies, "bookie-1"
    bookies.children[0].kill()
    shutil.rmtree(trial.cluster.bookies.home / name)
    begun = time.monotonic()
    try:
        bookies.restart(name)
        refused = False
    except UserError:
        refused = "InvalidCookieException" in (bookies.home / f"{name}.log").read_text()
    trial.check("the bookie refuses to start, for its cookie", refused)
    trial.goes_on(begun)
    asyncio.run(trial.cluster.forget_cookie(0))
    bookies.restart(name)
    trial.check("without its cookie it starts", bookies.children[0].is_alive)
    trial.goes_on(time.monotonic())


def too_few(trial: OutageTrial) -> None:
    for index in (0, 1):
        trial.cluster.bookies.children[index].kill()
    trial.check_silent(SESSION_S)
    for index in (0, 1):
        trial.cluster.bookies.restart(f"bookie-{index + 1}")
    trial.goes_on(time.monotonic())


OUTAGES: dict[str, Callable[[OutageTrial], None]] = {
    f"a broker stopped for {STOPPED_S} s": stopped,
    "a broker cut off from ZooKeeper": without_zookeeper_alone,
    "a broker cut off from the bookies": without_bookies_alone,
    "ZooKeeper away while a ledger is full": zookeeper_away,
    "a bookie back with an empty directory": empty_directory,
    "fewer bookies than the ack quorum": too_few,
}


def judge_outages(home: Path) -> int:
    """Gives the number of checks that failed."""
    judge = OwnBrokersJudge()
    with contextlib.ExitStack() as undo:
        cluster = OutageCluster(home, undo)
        for number, (name, strike) in enumerate(OUTAGES.items()):
            topic = f"persistent://public/default/outage-{number}"
            cluster.move(topic, cluster.victim)
            urls = ",".join(
                [cluster.victim.service_url, cluster.steady.service_url.removeprefix("pulsar://")]
            )
            with client_of(urls) as client:
                trial = OutageTrial(judge, cluster, name, topic, Publisher(client, topic))
                PAUSE.wait(CALM_S)
                first = cluster.owner(topic) == cluster.victim.service_url
                trial.check("the broker serves the topic", first and trial.acknowledged())
                strike(trial)
                PAUSE.wait(CALM_S)
                trial.publisher.end()
            check_ids(trial)
    return judge.failed


def check_ids(trial: OutageTrial) -> None:
    """Each acknowledged message is at its id; what nothing acknowledged may be there as well."""
    found: dict[tuple[int, int], int] = {}
    with client_of(trial.cluster.steady.service_url) as client:
        reader = client.create_reader(trial.topic, pulsar.MessageId.earliest)
        while reader.has_message_available():
            message = reader.read_next(30_000)
            at = message.message_id()
            found[at.ledger_id(), at.entry_id()] = int(message.data())
        reader.close()
    ids = trial.publisher.ids
    lost = [at for at, number in ids.items() if found.get(at) != number]
    seen = f"{len(lost)} of {len(ids)} are not, {len(found) - len(ids)} more are there"
    trial.check("each acknowledged message is at its id", not lost, f"{seen} {lost[:3]}")
    firsts = list(dict.fromkeys(number for _, number in sorted(found.items()) if number >= 0))
    trial.check("in the order of publishing", firsts == sorted(firsts))
    trial.check("none was refused", not trial.publisher.refused, trial.publisher.refused[:3])
