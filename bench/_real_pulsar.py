"""Real Apache Pulsar beside ours: standalone, or a ZooKeeper, a bookie and several brokers.

Started from the jars that the conformance judge fetches; every process is in a group of its own,
ends with this one, and listens on loopback at ports that were free a moment before.
"""

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.ports import free_ports as first_of_free_ports

OPENS = (
    "java.base/sun.net java.base/java.lang java.base/java.io java.base/java.util.zip "
    "java.base/java.nio java.base/jdk.internal.misc java.base/jdk.internal.platform "
    "java.management/sun.management jdk.management/com.sun.management.internal"
).split()
LOG4J = """status=warn
appender.c.type=Console
appender.c.name=C
appender.c.layout.type=PatternLayout
appender.c.layout.pattern=%d{{HH:mm:ss.SSS}} %-5p %c{{1}} %m%n
rootLogger.level={level}
rootLogger.appenderRef.c.ref=C
"""
ONE_COPY = {
    "managedLedgerDefaultEnsembleSize": 1,
    "managedLedgerDefaultWriteQuorum": 1,
    "managedLedgerDefaultAckQuorum": 1,
}


@dataclass(frozen=True, slots=True)
class RealPulsar:
    service_url: str
    admin_url: str
    start_seconds: float
    pid: int
    web_urls: tuple[str, ...] = ()
    """The admin address of each broker of a cluster; the log of the first is `broker0.log`."""
    pids: tuple[int, ...] = ()
    """Their processes."""
    children: "Children | None" = None
    """All processes of a cluster, to stop and start its brokers."""


def free_ports(count: int) -> list[int]:
    """Ports for servers that take seconds to bind them: the system gives them to no one else."""
    first = first_of_free_ports(count)
    return list(range(first, first + count))


@contextlib.contextmanager
def standalone(
    lib: Path,
    folder: Path,
    *,
    settings: Mapping[str, object] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Iterator[RealPulsar]:
    """One standalone Pulsar (RocksDB metadata, one bookie inside).

    ``settings``: of broker.conf, besides those that it needs here; ``headers``: with which it is
    asked whether it is up. In a folder that it was in before it has its former ports.
    """
    folder.mkdir(parents=True, exist_ok=True)
    broker, web, bookie = _former_ports(folder / "standalone.conf") or free_ports(3)
    conf = {
        "brokerServicePort": broker,
        "webServicePort": web,
        "bookiePort": bookie,
        "bindAddress": "127.0.0.1",
        "advertisedAddress": "127.0.0.1",
        "clusterName": "standalone",
        "allowLoopback": "true",
        "nettyMaxFrameSizeBytes": 5253120,
        "journalDirectory": "data/journal",
        "ledgerDirectories": "data/ledgers",
        "dbStorage_writeCacheMaxSizeMb": 64,
        "dbStorage_readAheadCacheMaxSizeMb": 64,
        "ledgerStorageClass": "org.apache.bookkeeper.bookie.storage.ldb.DbLedgerStorage",
        **ONE_COPY,
        **(settings or {}),
    }
    write_conf(folder / "standalone.conf", conf)
    started = time.perf_counter()
    with Children(lib, folder) as children:
        children.java(
            "standalone",
            "-Xmx2g",
            "-XX:MaxDirectMemorySize=2g",
            "org.apache.pulsar.PulsarStandaloneStarter",
            *"--config standalone.conf --no-functions-worker --no-stream-storage".split(),
            *f"-a 127.0.0.1 --bookkeeper-port {bookie}".split(),
        )
        children.wait_for(
            f"http://127.0.0.1:{web}/admin/v2/namespaces/public/default", 400, headers
        )
        yield RealPulsar(
            f"pulsar://127.0.0.1:{broker}",
            f"http://127.0.0.1:{web}",
            time.perf_counter() - started,
            children.pid("standalone"),
        )


def _former_ports(conf: Path) -> list[int]:
    """A bookie is known by its port: with another one it is not let back to its ledgers."""
    if not conf.exists():
        return []
    said = dict(line.split("=", 1) for line in conf.read_text().splitlines() if "=" in line)
    return [int(said[name]) for name in ("brokerServicePort", "webServicePort", "bookiePort")]


@contextlib.contextmanager
def cluster(
    lib: Path, folder: Path, brokers: int, log_level: str = "warn", **settings: object
) -> Iterator[RealPulsar]:
    """A ZooKeeper, a bookie and ``brokers`` brokers with the given broker.conf settings."""
    folder.mkdir(parents=True, exist_ok=True)
    zookeeper, bookie, *ports = free_ports(2 + 2 * brokers)
    store = f"zk:127.0.0.1:{zookeeper}"
    started = time.perf_counter()
    with Children(lib, folder, log_level) as children:
        children.java(
            "zookeeper",
            "-Xmx256m",
            "-Dzookeeper.admin.enableServer=false",
            "org.apache.zookeeper.server.ZooKeeperServerMain",
            str(zookeeper),
            str(folder / "zk"),
        )
        children.wait_for_port(zookeeper, 150)
        children.java_once(
            "setup",
            "org.apache.pulsar.PulsarClusterMetadataSetup",
            *f"--cluster real --metadata-store {store}".split(),
            *f"--configuration-metadata-store {store}".split(),
            *f"--web-service-url http://127.0.0.1:{ports[0]}".split(),
            *f"--broker-service-url pulsar://127.0.0.1:{ports[1]}".split(),
        )
        write_conf(
            folder / "bookie.conf",
            {
                "bookiePort": bookie,
                "allowLoopback": "true",
                "advertisedAddress": "127.0.0.1",
                "nettyMaxFrameSizeBytes": 5253120,
                "journalDirectories": folder / "bk/journal",
                "ledgerDirectories": folder / "bk/ledgers",
                "metadataServiceUri": f"zk+hierarchical://127.0.0.1:{zookeeper}/ledgers",
                "ledgerStorageClass": "org.apache.bookkeeper.bookie.storage.ldb.DbLedgerStorage",
                "dbStorage_writeCacheMaxSizeMb": 64,
                "dbStorage_readAheadCacheMaxSizeMb": 64,
                "httpServerEnabled": "false",
            },
        )
        children.java(
            "bookie",
            "-Xmx512m",
            "-XX:MaxDirectMemorySize=1g",
            "org.apache.bookkeeper.server.Main",
            "--conf",
            "bookie.conf",
        )
        children.wait_for_port(bookie, 150)
        webs, services = ports[::2], ports[1::2]
        for index, (web, service) in enumerate(zip(webs, services, strict=True)):
            own = {
                "clusterName": "real",
                "metadataStoreUrl": store,
                "configurationMetadataStoreUrl": store,
                "bindAddress": "127.0.0.1",
                "advertisedAddress": "127.0.0.1",
                "brokerServicePort": service,
                "webServicePort": web,
                **ONE_COPY,
                **settings,
            }
            write_conf(folder / f"broker{index}.conf", own)
            children.start_broker(index)
        for web in webs:
            children.wait_for(f"http://127.0.0.1:{web}/admin/v2/brokers/ready", 400)
        yield RealPulsar(
            "pulsar://" + ",".join(f"127.0.0.1:{p}" for p in services),
            f"http://127.0.0.1:{webs[0]}",
            time.perf_counter() - started,
            children.pid("broker0"),
            tuple(f"http://127.0.0.1:{port}" for port in webs),
            tuple(children.pid(f"broker{index}") for index in range(brokers)),
            children,
        )


def write_conf(path: Path, settings: dict[str, object]) -> None:
    path.write_text("".join(f"{k}={v}\n" for k, v in settings.items()), encoding="utf-8")


def log_to_console(path: Path, *, level: str) -> None:
    """Write the logging settings of one of Pulsar's programs."""
    path.write_text(LOG4J.format(level=level), encoding="utf-8")


class Children:
    """Java processes that end with this context, and with this process however it ends."""

    def __init__(self, lib: Path, folder: Path, log_level: str = "warn") -> None:
        self._folder = folder
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        log_to_console(folder / "log4j2.properties", level=log_level)
        self._command = [
            "java",
            *(word for o in OPENS for word in ("--add-opens", f"{o}=ALL-UNNAMED")),
            "-Dio.netty.tryReflectionSetAccessible=true",
            "-Dlog4j.configurationFile=log4j2.properties",
        ]
        self._environment = {**os.environ, "CLASSPATH": f"{lib}/*"}

    def __enter__(self) -> "Children":
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self._processes.values()):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
        for process in self._processes.values():
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def start_broker(self, index: int) -> subprocess.Popen[bytes]:
        """Start a broker of a cluster by its `broker<index>.conf`, for the first time or again."""
        return self.java(
            f"broker{index}",
            "-Xmx512m",
            "-XX:MaxDirectMemorySize=512m",
            "org.apache.pulsar.PulsarBrokerStarter",
            "-c",
            f"broker{index}.conf",
        )

    def stop(self, name: str, how: signal.Signals, within_s: float = 120) -> None:
        """Send a process a signal, and return when it has ended."""
        process = self._processes.pop(name)
        os.killpg(process.pid, how)
        try:
            process.wait(within_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def java(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        with (self._folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                [*self._command, *arguments],
                cwd=self._folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=end_with_parent,  # noqa: PLW1509  no thread runs here yet
            )
        self._processes[name] = process
        return process

    def pid(self, name: str) -> int:
        return self._processes[name].pid

    def java_once(self, name: str, *arguments: str) -> None:
        if self.java(name, *arguments).wait(240):
            raise SystemExit(f"{name} failed; see {self._folder / name}.log")
        del self._processes[name]

    def wait_for(self, url: str, seconds: float, headers: Mapping[str, str] | None = None) -> None:
        request = urllib.request.Request(url, headers=dict(headers or {}))

        def answers() -> bool:
            try:
                with urllib.request.urlopen(request, timeout=2) as response:
                    return bool(response.status == 200)
            except (OSError, urllib.error.URLError):
                return False

        self._wait(answers, url, seconds)

    def wait_for_port(self, port: int, seconds: float) -> None:
        def accepts() -> bool:
            with socket.socket() as s:
                return s.connect_ex(("127.0.0.1", port)) == 0

        self._wait(accepts, f"port {port}", seconds)

    def _wait(self, ready: Callable[[], bool], what: str, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not ready():
            gone = [n for n, p in self._processes.items() if p.poll() not in {None, 0}]
            if gone or time.monotonic() > deadline:
                raise SystemExit(f"{what} did not answer; {gone or 'logs'} in {self._folder}")
            time.sleep(0.2)


def end_with_parent() -> None:
    """Ask the kernel to end this child when its parent dies (PR_SET_PDEATHSIG)."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
