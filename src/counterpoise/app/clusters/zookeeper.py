"""A real ZooKeeper for a local cluster, from the jars that the pyspark package carries."""

import importlib.util
import socket
import tempfile
from collections.abc import Callable
from pathlib import Path

from counterpoise.app.clusters.java import find_java
from counterpoise.app.clusters.processes import Child, ChildSpec
from counterpoise.app.clusters.reserved_port import ReservedPort
from counterpoise.app.errors import UserError

MAIN_CLASS = "org.apache.zookeeper.server.ZooKeeperServerMain"
JAR_PATTERNS: tuple[str, ...] = (
    "zookeeper-*.jar",
    "netty-*.jar",
    "slf4j-api-*.jar",
    "log4j-api-*.jar",
    "log4j-core-*.jar",
    "log4j-slf4j2-impl-*.jar",
    "metrics-core-*.jar",
    "snappy-java-*.jar",
)
HEAP_MB = 256
"""ZooKeeper's largest heap, in MB; a small cluster's metadata needs a tenth of it."""
READY_MARK = "PrepRequestProcessor"
"""A server logs this when its port is bound and its request processors run."""

LOGGING = f"""\
status = error
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{{ISO8601}} %-5p %c{{1}} %m%n
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
logger.ready.name = org.apache.zookeeper.server.{READY_MARK}
logger.ready.level = info
"""


class ZooKeeper:
    """One standalone ZooKeeper server on the loopback address.

    Use it as a context manager, or call :meth:`stop`. It ends when this process does.
    """

    def __init__(
        self, child: Child, port: ReservedPort, scratch: tempfile.TemporaryDirectory[str] | None
    ) -> None:
        self._child = child
        self._scratch = scratch
        self._port = port

    @classmethod
    def start(
        cls,
        directory: Path | None = None,
        port: int = 0,
        *,
        on_ended: Callable[[int], None] | None = None,
    ) -> "ZooKeeper":
        """Start a server with its data in ``directory``, and wait until it answers.

        Without a directory, a temporary one that :meth:`stop` removes; with port 0, a free one.
        ``on_ended`` is called with the exit status of a server that ends by itself, on a thread of
        its own. Raises :class:`UserError` if Java or pyspark is missing, the port is in use, or the
        server does not start.
        """
        java, jars = find_java(), _jars()
        scratch = None if directory else tempfile.TemporaryDirectory(prefix="counterpoise-zk-")
        home = directory or Path(scratch.name if scratch else "")
        home.mkdir(parents=True, exist_ok=True)
        logging = home / "log4j2.properties"
        logging.write_text(LOGGING)
        reserved = ReservedPort(port)
        (home / "zoo.cfg").write_text(_configuration(home / "data", reserved.number))
        spec = ChildSpec(
            name="ZooKeeper",
            argv=[
                str(java),
                f"-Xmx{HEAP_MB}m",
                "-XX:+UseSerialGC",
                "-XX:TieredStopAtLevel=1",
                "-XX:-UsePerfData",
                # Out of memory it must end, so that it is restarted, rather than hang.
                "-XX:+ExitOnOutOfMemoryError",
                "-Xshare:auto",
                f"-Dlog4j.configurationFile={logging}",
                "-Dzookeeper.admin.enableServer=false",
                "-cp",
                ":".join(map(str, jars)),
                MAIN_CLASS,
                str(home / "zoo.cfg"),
            ],
            is_ready=lambda line: READY_MARK in line,
            log=home / "zookeeper.log",
            on_ended=on_ended,
        )
        try:
            return cls(_started(spec, reserved.number), reserved, scratch)
        except BaseException:
            reserved.release()
            raise

    def restart(self) -> None:
        """Restart the server on its port and data after it ended; raises :class:`UserError`.

        Call it on a thread that lives as long as the server shall: it ends with its thread.
        """
        self._child.stop()
        self._child = _started(self._child.spec, self.port)

    @property
    def port(self) -> int:
        """The TCP port on which it serves, also after a restart."""
        return self._port.number

    @property
    def address(self) -> str:
        """``host:port``, as ZooKeeper clients take it."""
        return f"127.0.0.1:{self.port}"

    @property
    def metadata_url(self) -> str:
        """``zk:host:port``, as ``metadataStoreUrl`` takes it."""
        return f"zk:{self.address}"

    @property
    def pid(self) -> int:
        """The server's process id."""
        return self._child.pid

    def kill(self) -> None:
        """End the server abruptly, as ``kill -9`` does; the data stays."""
        self._child.kill()

    def stop(self) -> None:
        """End the server, and remove its data if the directory was a temporary one."""
        self._child.stop()
        self._port.release()
        if self._scratch is not None:
            self._scratch.cleanup()

    def __enter__(self) -> "ZooKeeper":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def _started(spec: ChildSpec, port: int) -> Child:
    child = Child.start(spec)
    try:
        _require_answer(port)
    except BaseException:
        child.stop()
        raise
    return child


def _jars() -> list[Path]:
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise UserError(
            "starting ZooKeeper needs the jars of the pyspark package: install "
            "'counterpoise[pipeline]', or name a running ZooKeeper with --metadata zk:host:port."
        )
    directory = Path(spec.origin).parent / "jars"
    jars = sorted(path for pattern in JAR_PATTERNS for path in directory.glob(pattern))
    if not any(jar.name.startswith("zookeeper-3") for jar in jars):
        raise UserError(
            f"the pyspark package at {directory.parent} carries no ZooKeeper: reinstall it, or "
            "name a running ZooKeeper with --metadata zk:host:port."
        )
    return jars


def _configuration(data: Path, port: int) -> str:
    return (
        f"dataDir={data}\nclientPort={port}\nclientPortAddress=127.0.0.1\n"
        # Short ticks let sessions of a killed broker end within a second or two.
        "tickTime=500\nminSessionTimeout=1000\nmaxSessionTimeout=60000\nmaxClientCnxns=0\n"
        # A local cluster may lose its last moments of metadata when the machine loses power.
        "forceSync=no\n4lw.commands.whitelist=srvr,ruok,mntr,cons\n"
    )


def _require_answer(port: int) -> None:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
            connection.sendall(b"ruok")
            answer = connection.recv(16)
    except OSError as error:
        raise UserError(f"the ZooKeeper on port {port} does not answer: {error}.") from None
    if answer != b"imok":
        raise UserError(f"the server on port {port} is not the ZooKeeper just started.")
