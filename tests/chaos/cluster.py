"""The cluster under faults: three broker processes, and a ZooKeeper that can go away."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pulsar
from bench._admin import call

from counterpoise.app.clusters.local_cluster import BrokerProcess, LocalCluster, LocalClusterOptions
from counterpoise.app.clusters.zookeeper import ZooKeeper
from counterpoise.metadata.open import open_store
from counterpoise.names.bundle import NamespaceBundles
from counterpoise.names.load_managers import EXTENSIBLE
from counterpoise.names.namespace import NamespaceName
from counterpoise.names.system_topics import SERVICE_UNIT_STATE
from counterpoise.names.topic import TopicName
from counterpoise.ownership.channel.state import RECORDS
from counterpoise.ownership.channel.view import ChannelMessage, ChannelView
from counterpoise.ownership.port import OwnershipOptions
from counterpoise.ownership.protocols import PROTOCOLS
from counterpoise.ownership.records import NamespaceEphemeralData
from tests.chaos.history import Bundle
from tests.ports import free_ports

NAMESPACE = "public/chaos"
BUNDLES = 4
BROKERS = 3
BOOKIE_SILENT_S = 3
"""After so long without an answer a bookie counts as failed; topics are writable soon after."""


class ChaosCluster:
    """Use it as a context manager, on a thread that lives as long as it shall."""

    def __init__(self, folder: Path, manager: str, *, session_s: float, bookies: int = 0) -> None:
        self.manager = manager
        self.session_s = session_s
        self.bookies = bookies
        self.zookeeper: ZooKeeper | None = None
        self.pids: set[int] = set()
        self._folder = folder
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> "ChaosCluster":
        with contextlib.ExitStack() as undo:
            self.zookeeper = undo.enter_context(ZooKeeper.start(self._folder / "zookeeper"))
            self.pids.add(self.zookeeper.pid)
            base = free_ports(2 * BROKERS)
            self.local = undo.enter_context(
                LocalCluster(
                    LocalClusterOptions(
                        brokers=BROKERS,
                        data=self._folder,
                        metadata_url=self.zookeeper.metadata_url,
                        bookies=self.bookies,
                        settings={
                            "bookkeeperClientTimeoutInSeconds": str(BOOKIE_SILENT_S),
                            "loadManagerClassName": self.manager,
                            "metadataStoreSessionTimeoutMillis": str(int(self.session_s * 1000)),
                        },
                        first_port=base,
                        first_web_port=base + BROKERS,
                    )
                )
            )
            self.pids |= {each.child.pid for each in self.local.brokers}
            if self.local.bookies is not None:
                self.pids |= {each.pid for each in self.local.bookies.children}
            self.admin("PUT", f"namespaces/{NAMESPACE}", {"bundles": {"numBundles": BUNDLES}})
            self._stack = undo.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def brokers(self) -> list[BrokerProcess]:
        """All of them, in the order of their names."""
        return self.local.brokers

    @property
    def service_url(self) -> str:
        """The service URL of a client that knows all brokers."""
        return service_url(self.brokers)

    def topics(self, each_bundle: int) -> list[str]:
        """Topics by their names, as many in every bundle."""
        namespace = NamespaceName.parse(NAMESPACE)
        bundles = NamespaceBundles.of_count(namespace, BUNDLES)
        found: dict[str, list[str]] = {}
        for number in range(10_000):
            topic = f"persistent://{NAMESPACE}/t{number}"
            mine = found.setdefault(str(bundles.bundle_of(TopicName.parse(topic))), [])
            if len(mine) < each_bundle:
                mine.append(topic)
            if sum(map(len, found.values())) == BUNDLES * each_bundle:
                break
        return [topic for mine in found.values() for topic in mine]

    # Faults.

    def kill(self, broker: BrokerProcess) -> None:
        """End a broker with SIGKILL."""
        self.local.kill(broker)

    def restart(self, broker: BrokerProcess) -> None:
        """Start a broker again, on its ports."""
        self.pids.add(self.local.restart(broker).child.pid)

    def freeze(self, broker: BrokerProcess) -> None:
        """Stop a broker where it is."""
        os.kill(broker.child.pid, signal.SIGSTOP)

    def thaw(self, broker: BrokerProcess) -> None:
        """Let a frozen broker go on."""
        os.kill(broker.child.pid, signal.SIGCONT)

    def strike_bookie(self, number: int, *, kill: bool) -> None:
        """End a bookie with SIGKILL, or stop it where it is."""
        assert self.local.bookies is not None
        child = self.local.bookies.children[number]
        if kill:
            child.kill()
        else:
            os.killpg(child.pid, signal.SIGSTOP)

    def bookie_back(self, number: int, *, killed: bool) -> None:
        """Start it again on its data, or let it go on."""
        assert self.local.bookies is not None
        bookies = self.local.bookies
        if killed:
            bookies.restart(bookies.children[number].spec.name)
            self.pids.add(bookies.children[number].pid)
        else:
            os.killpg(bookies.children[number].pid, signal.SIGCONT)

    def zookeeper_away(self) -> None:
        """End ZooKeeper with SIGKILL; its data stays."""
        assert self.zookeeper is not None
        self.zookeeper.kill()

    def zookeeper_back(self) -> None:
        """Start it again, on its port and its data."""
        assert self.zookeeper is not None
        self.zookeeper.restart()
        self.pids.add(self.zookeeper.pid)

    # What the admin API says.

    def admin(
        self, method: str, path: str, body: object = None, *, at: BrokerProcess | None = None
    ) -> Any:
        """Call the admin API below ``/admin/v2``, of a broker that runs unless one is named."""
        return call(method, f"{at.admin_url if at else self.local.admin_url}/admin/v2/{path}", body)

    def leader(self) -> BrokerProcess:
        """The broker that leads; the first one while none is known."""
        with contextlib.suppress(OSError, KeyError, TypeError):
            leader = self.admin("GET", "brokers/leaderBroker")["brokerId"]
            return next(each for each in self.brokers if each.id == leader)
        return self.brokers[0]

    def bundle_of(self, topic: str) -> str:
        """The range of a topic's bundle."""
        path = topic.replace("://", "/")
        text = call("GET", f"{self.local.admin_url}/lookup/v2/topic/{path}/bundle")
        return str(text)

    def owner_of(self, topic: str) -> BrokerProcess | None:
        """Who serves a topic."""
        path = topic.replace("://", "/")
        found = call("GET", f"{self.local.admin_url}/lookup/v2/topic/{path}")
        return next((each for each in self.brokers if each.service_url == found["brokerUrl"]), None)

    # What is left in the end.

    def active(self) -> list[str]:
        """The brokers that are there, by the cluster's word."""
        return sorted(self.admin("GET", "brokers"))

    def bundles(self, topics: list[str]) -> list[Bundle]:
        """Every bundle that has topics: its record, and who says to own it."""
        names = {f"{NAMESPACE}/{self.bundle_of(topic)}" for topic in topics}
        held: dict[str, list[str]] = {}
        for broker in self.brokers:
            owned: dict[str, object] = {}
            path = f"brokers/standalone/{broker.id}/ownedNamespaces"
            with contextlib.suppress(OSError):  # It is not registered, which has a judge.
                owned = self.admin("GET", path, at=broker) or {}
            for name in owned:
                held.setdefault(name, []).append(broker.id)
        return asyncio.run(self._bundles(sorted(names), held))

    async def _bundles(self, names: list[str], held: dict[str, list[str]]) -> list[Bundle]:
        protocol = PROTOCOLS[self.manager](
            OwnershipOptions(NamespaceEphemeralData("", "")), lambda: 0
        )
        paths = {name: protocol.nodes(name) for name in names}
        on_topic = self.manager == EXTENSIBLE
        stored = self._on_topic() if on_topic else await self._in_store(paths.values())
        found = []
        for name in names:
            where = protocol.locate({path: stored.get(path) for path in paths[name]})
            owner = where.owner.broker_id if where.owner else None
            found.append(Bundle(name, owner, where.changing, held.get(name, [])))
        return found

    async def _in_store(self, paths: Iterable[tuple[str, ...]]) -> dict[str, bytes]:
        """The records of bundles by their nodes."""
        assert self.zookeeper is not None
        store = await open_store(self.zookeeper.metadata_url)
        try:
            found = {path: await store.get(path) for each in paths for path in each}
        finally:
            await store.close()
        return {path: it.value for path, it in found.items() if it is not None}

    def _on_topic(self) -> dict[str, bytes]:
        """The same, as any client reads them on the topic of the state channel."""
        view = ChannelView()
        client = pulsar.Client(
            service_url([it for it in self.brokers if it.alive]),
            logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
        )
        try:
            reader = client.create_reader(SERVICE_UNIT_STATE, pulsar.MessageId.earliest)
            while reader.has_message_available():
                heard = reader.read_next(10_000)
                removes = heard.properties().get("removes")
                view.hear(
                    ChannelMessage(
                        heard.partition_key(), heard.data() or None, removes and int(removes)
                    )
                )
        finally:
            client.close()
        return {f"{RECORDS}/{bundle}": value for bundle, value in view.values.items()}

    def logs(self) -> dict[str, str]:
        """What the brokers have logged, by name."""
        folder = self._folder / "logs"
        return {path.name: path.read_text(errors="replace") for path in folder.glob("*.log")}

    def leftovers(self) -> list[str]:
        """Processes of a stopped cluster that are still there."""
        return [f"process {pid} is still there" for pid in self.pids if _exists(pid)]


def service_url(brokers: list[BrokerProcess]) -> str:
    """The service URL of a client that knows these brokers."""
    return "pulsar://" + ",".join(it.service_url.removeprefix("pulsar://") for it in brokers)


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
