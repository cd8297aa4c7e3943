"""Real bookies of Apache BookKeeper for a local cluster, from jars that are on this machine."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from counterpoise.app.clusters.java import find_java
from counterpoise.app.clusters.processes import Child, ChildSpec
from counterpoise.app.clusters.reserved_port import ReservedPort
from counterpoise.app.errors import UserError

LIB_VARIABLE: Final = "COUNTERPOISE_PULSAR_LIB"
CACHE_VARIABLE: Final = "COUNTERPOISE_CACHE"
HEAP_MB: Final = 256
DIRECT_MB: Final = 384
"""A bookie's most direct memory, in addition to the heap, in MB.

In a small cluster it takes some 180 MB in all."""
READY_MARK: Final = "Started component bookie-server"
_OPENS: Final = (
    "java.base/java.lang",
    "java.base/java.io",
    "java.base/java.util.zip",
    "java.base/java.nio",
    "java.base/jdk.internal.misc",
)
LOGGING: Final = """\
status = error
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{ISO8601} %-5p %c{1} %m%n
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
logger.ready.name = org.apache.bookkeeper.common.component.ComponentStarter
logger.ready.level = info
logger.setup.name = org.apache.bookkeeper.discover.ZKRegistrationManager
logger.setup.level = info
"""


class LocalBookies:
    """Bookies on the loopback address, each a process with a directory of its own.

    Use it as a context manager, or call `stop`. They end when this process does.
    """

    def __init__(self, java: Path, lib: Path, home: Path, zookeeper: str) -> None:
        """``zookeeper``: ``host:port``. ``home``: the directory for data, logs and settings.

        No bookie is started yet: call `start` instead.
        """
        self.children: list[Child] = []
        self._ports: dict[str, ReservedPort] = {}
        self._on_ended: Callable[[str, int], None] | None = None
        self.home = home
        """The directory that has the data, log and settings of each bookie under its name."""
        self._zookeeper = zookeeper
        home.mkdir(parents=True, exist_ok=True)
        (home / "log4j2.properties").write_text(LOGGING)
        self._java = [str(java), "-Dio.netty.tryReflectionSetAccessible=true"]
        self._java += [w for o in _OPENS for w in ("--add-opens", f"{o}=ALL-UNNAMED")]
        self._java += [
            f"-Dlog4j.configurationFile={home / 'log4j2.properties'}",
            "-XX:+UseSerialGC",
            "-XX:+ExitOnOutOfMemoryError",
            "-cp",
            f"{lib}/*",
        ]

    @classmethod
    def start(
        cls,
        count: int,
        home: Path,
        zookeeper: str,
        *,
        on_ended: Callable[[str, int], None] | None = None,
    ) -> "LocalBookies":
        """Start ``count`` bookies, on the data in ``home`` if there is any, and wait until they
        serve.

        ``on_ended`` is called with the name and exit status of a bookie that ends by itself. Raises
        `UserError` if Java or the jars are missing, or a bookie does not start.
        """
        made = cls(find_java(), find_jars(), home, zookeeper)
        try:
            made._on_ended = on_ended
            made._set_up()
            for number in range(1, count + 1):
                made.children.append(made._launch(number))
            for child in made.children:
                child.wait_ready()
        except BaseException:
            made.stop()
            raise
        return made

    def restart(self, name: str) -> None:
        """Restart a bookie that ended, on its port and data; raises `UserError`.

        Call it on a thread that lives as long as the bookie shall: it ends with its thread.
        """
        number = next(n for n, each in enumerate(self.children) if each.spec.name == name)
        self.children[number].stop()
        self.children[number] = self._launch(number + 1)
        self.children[number].wait_ready()

    def _set_up(self) -> None:
        """Create BookKeeper's nodes in ZooKeeper, unless they are there."""
        done = self.home / "metadata-is-there"
        if done.exists():
            return
        conf = self._conf(0, port=0)
        Child.start(
            ChildSpec(
                name="BookKeeper's set-up",
                argv=[
                    *self._java_with("-Xmx256m"),
                    "org.apache.bookkeeper.bookie.BookieShell",
                    "-conf",
                    str(conf),
                    "initnewcluster",
                ],
                is_ready=lambda line: "Successfully initiated cluster" in line,
                log=self.home / "set-up.log",
            )
        ).wait(60)
        done.touch()

    def _java_with(self, *options: str) -> list[str]:
        return [self._java[0], *options, *self._java[1:]]

    def _launch(self, number: int) -> Child:
        on_ended = self._on_ended
        name = f"bookie-{number}"
        path = self.home / f"{name}.port"
        if name not in self._ports:
            # A bookie's id is its address, and BookKeeper refuses the data of another id.
            self._ports[name] = ReservedPort(int(path.read_text()) if path.exists() else 0)
        port = self._ports[name].number
        path.write_text(str(port))
        return Child(
            ChildSpec(
                name=name,
                argv=[
                    *self._java_with(f"-Xmx{HEAP_MB}m", f"-XX:MaxDirectMemorySize={DIRECT_MB}m"),
                    "org.apache.bookkeeper.server.Main",
                    "--conf",
                    str(self._conf(number, port)),
                ],
                is_ready=lambda line: READY_MARK in line,
                log=self.home / f"{name}.log",
                on_ended=None if on_ended is None else lambda status: on_ended(name, status),
            )
        )

    def _conf(self, number: int, port: int) -> Path:
        path = self.home / f"bookie-{number}.conf"
        settings = bookie_settings(port, self.home / f"bookie-{number}", self._zookeeper)
        path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        return path

    def stop(self) -> None:
        """End the processes of all bookies."""
        for child in self.children:
            child.terminate()
        for child in self.children:
            child.stop()
        for port in self._ports.values():
            port.release()

    def __enter__(self) -> "LocalBookies":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def bookie_settings(port: int, data: Path, zookeeper: str) -> dict[str, object]:
    """The settings, by bookkeeper.conf's names, of a small bookie on the loopback address."""
    return {
        "bookiePort": port,
        "advertisedAddress": "127.0.0.1",
        "allowLoopback": "true",
        "journalDirectories": data / "journal",
        "ledgerDirectories": data / "ledgers",
        "metadataServiceUri": f"zk+hierarchical://{zookeeper}/ledgers",
        # Short: the session of a killed bookie ends soon, so that it can register again.
        "zkTimeout": 4000,
        "nettyMaxFrameSizeBytes": 5253120,
        "ledgerStorageClass": "org.apache.bookkeeper.bookie.storage.ldb.DbLedgerStorage",
        "dbStorage_writeCacheMaxSizeMb": 16,
        "dbStorage_readAheadCacheMaxSizeMb": 16,
        "dbStorage_rocksDB_blockCacheSize": 8388608,
        "journalPreAllocSizeMB": 4,
        "entryLogFilePreallocationEnabled": "false",
        "diskUsageThreshold": 0.99,
        "httpServerEnabled": "false",
    }


def find_jars(environ: Mapping[str, str] = os.environ, home: Path | None = None) -> Path:
    """Return the directory with BookKeeper's jars; raises `UserError` if there is none.

    It is the one that the variable `LIB_VARIABLE` names, or one that has been downloaded into the
    cache.
    """
    cache = Path(environ.get(CACHE_VARIABLE, "") or (home or Path.home()) / ".cache/counterpoise")
    named = [Path(environ[LIB_VARIABLE])] if environ.get(LIB_VARIABLE) else []
    places: Sequence[Path] = [*named, *sorted(cache.glob("pulsar-*"))]
    for place in places:
        if any(place.glob("*bookkeeper-server-4*.jar")):
            return place
    raise UserError(
        f"starting bookies needs the jars of Apache BookKeeper: set {LIB_VARIABLE} to the 'lib' "
        "directory of an unpacked Apache Pulsar or BookKeeper, or use bookies that run already by "
        "--set ledgerStoreUrl=metadata-store:zk:host:port."
    )
