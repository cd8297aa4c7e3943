"""A cluster of real processes on this machine: ZooKeeper and brokers, stopped as one."""

import contextlib
import json
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from counterpoise.app.clusters.bookies import LocalBookies
from counterpoise.app.clusters.launched import LOCAL_DEFAULTS, nth_port, together
from counterpoise.app.clusters.processes import READY, Child, ChildFailedError, ChildSpec
from counterpoise.app.clusters.zookeeper import ZooKeeper
from counterpoise.app.recordings.recording_file import RECORD_MIB
from counterpoise.app.wiring import conf_text
from counterpoise.names.properties import format_properties

PROCESS_DEFAULTS: Mapping[str, object] = {
    **LOCAL_DEFAULTS,
    # On one machine a silent broker is a dead one; Pulsar's 30 s are for networks.
    "metadataStoreSessionTimeoutMillis": "5000",
}
"""Where a broker in a process of its own differs from Pulsar's defaults."""

LEDGER_STORE = "ledgerStoreUrl"
ZOOKEEPER = "ZooKeeper"
"""What ``on_ended`` calls the cluster's own ZooKeeper."""


@dataclass(frozen=True, slots=True)
class BrokerProcess:
    """One broker of a local cluster: its process and addresses."""

    name: str
    """``broker-1``, ``broker-2``, …"""
    id: str
    """``host:webPort``."""
    service_url: str
    admin_url: str
    child: Child

    @property
    def alive(self) -> bool:
        """Whether the broker's process runs."""
        return self.child.is_alive


@dataclass(frozen=True, slots=True)
class LocalClusterOptions:
    """What a local cluster consists of, and its settings."""

    brokers: int = 3
    data: Path | None = None
    """Directory for messages, metadata, history and logs; None: a temporary one."""
    metadata_url: str | None = None
    """Metadata store to use; None: a ZooKeeper of its own."""
    bookies: int = 0
    """How many bookies of Apache BookKeeper keep the messages; 0: they are in files."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Settings of the brokers under broker.conf's names."""
    balance: bool = False
    """Whether a balancer on Spark runs beside the cluster."""
    balance_every_s: float | None = None
    """In one process: seconds between two rounds of the leader's own shedding; None: no rounds."""
    balance_options: Sequence[str] = ()
    """Options for the balancer, as ``counterpoise balance`` takes them."""
    first_port: int = 0
    """The first broker's binary port, the next ones follow; 0: free ports."""
    first_web_port: int = 0
    """The first broker's admin port, the next ones follow; 0: free ports."""
    log_level: str = "warning"
    faults: bool = False
    """In one process: whether tests may set faults over HTTP."""
    record: Path | None = None
    """In one process: a new file for what clients do; None: it is not recorded."""
    record_mib: int = RECORD_MIB
    """How large that file may become."""

    @property
    def history(self) -> Path:
        """The directory of a Spark balancer's history."""
        return (self.data or Path()) / "history"

    @property
    def logs(self) -> Path:
        """The directory of the processes' output."""
        return (self.data or Path()) / "logs"


class LocalCluster:
    """A cluster of processes on this machine: brokers, metadata store, bookies, balancer.

    Use it as a context manager. However this process ends, even by ``kill -9``, its children end
    with it. Start it on a thread that lives as long as the cluster shall.
    """

    def __init__(
        self, options: LocalClusterOptions, *, on_ended: Callable[[str, int], None] | None = None
    ) -> None:
        """``on_ended`` gets the name and exit status of a broker or server that ends."""
        self.options = options
        """Once it runs with the directory of its data, also of a temporary one."""
        self.brokers: list[BrokerProcess] = []
        self.data = Path()
        self.metadata_url = ""
        self._on_ended = on_ended
        self._stack = contextlib.ExitStack()
        self._server: ZooKeeper | None = None
        self.bookies: LocalBookies | None = None
        """The cluster's own bookies, once they run."""

    @property
    def service_url(self) -> str:
        """The clients' URL: every live broker."""
        return together([each.service_url for each in self._alive()])

    @property
    def admin_url(self) -> str:
        """The admin API of the first live broker."""
        return self._alive()[0].admin_url

    def start(self) -> None:
        """Start everything and wait until it serves; raises ``UserError``, then nothing is left."""
        with contextlib.ExitStack() as undo:
            self.data = data_directory(self.options.data, undo)
            self.options = replace(self.options, data=self.data)
            self.metadata_url = self.options.metadata_url or self._zookeeper(undo)
            if self.options.bookies:
                self._bookies(undo)
            # All at once: each spends its first second importing.
            children = [self._launch(number, undo) for number in range(self.options.brokers)]
            self.brokers = [_described(child) for child in children]
            self._stack = undo.pop_all()

    def restart(self, broker: BrokerProcess) -> BrokerProcess:
        """Restart a broker that ended; on its ports if the options name them.

        Raises ``UserError`` if it is not ready in time, and leaves no process of it then.
        """
        number = self.brokers.index(broker)
        child = self._launch(number, self._stack)
        try:
            again = self.brokers[number] = _described(child)
        except BaseException:
            child.stop()
            raise
        return again

    def restart_server(self, name: str) -> None:
        """Restart the cluster's own ZooKeeper, or a bookie, that ended; raises ``UserError``.

        Call it on the thread that started the cluster, or on one that lives as long.
        """
        if name != ZOOKEEPER and self.bookies is not None:
            self.bookies.restart(name)
        elif self._server is not None:
            self._server.restart()

    def server_log(self, name: str) -> Path:
        """The output file of ZooKeeper or of a bookie."""
        return self.data / ("zookeeper" if name == ZOOKEEPER else "bookies") / f"{name.lower()}.log"

    def kill(self, broker: BrokerProcess) -> None:
        """End a broker with SIGKILL."""
        broker.child.kill()

    def stop(self) -> None:
        """Stop the brokers together, then ZooKeeper; remove temporary directories."""
        for each in self.brokers:
            each.child.terminate()
        self._stack.close()

    def __enter__(self) -> "LocalCluster":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _alive(self) -> list[BrokerProcess]:
        alive = [each for each in self.brokers if each.alive]
        if not alive:
            raise ChildFailedError(f"no broker is left; their output is in {self.data / 'logs'}.")
        return alive

    def _zookeeper(self, undo: contextlib.ExitStack) -> str:
        hear = None if self._on_ended is None else _naming(ZOOKEEPER, self._on_ended)
        self._server = undo.enter_context(ZooKeeper.start(self.data / "zookeeper", on_ended=hear))
        return self._server.metadata_url

    def _bookies(self, undo: contextlib.ExitStack) -> None:
        count, address = self.options.bookies, self.metadata_url.removeprefix("zk:")
        home = self.data / "bookies"
        started = LocalBookies.start(count, home, address, on_ended=self._on_ended)
        self.bookies = undo.enter_context(started)
        copies = str(min(count, 2))
        names = ("EnsembleSize", "WriteQuorum", "AckQuorum")
        settings = {f"managedLedgerDefault{name}": copies for name in names}
        settings[LEDGER_STORE] = f"metadata-store:{self.metadata_url}"
        self.options = replace(self.options, settings={**settings, **self.options.settings})

    def _conf(self, number: int, settings: Mapping[str, str]) -> Path:
        path = self.data / "conf" / f"{_name(number)}.conf"
        path.parent.mkdir(exist_ok=True)
        path.write_text(format_properties(settings), encoding="utf-8")
        return path

    def _launch(self, number: int, undo: contextlib.ExitStack) -> Child:
        options = self.options
        settings = {
            **PROCESS_DEFAULTS,
            "metadataStoreUrl": self.metadata_url,
            "brokerServicePort": nth_port(options.first_port, number),
            "webServicePort": nth_port(options.first_web_port, number),
            **options.settings,
        }
        if options.balance and "loadBalancerSheddingEnabled" not in options.settings:
            # The brokers themselves leave it to the balancer.
            del settings["loadBalancerSheddingEnabled"]
        argv = [sys.executable, "-m", "counterpoise.app.main", "broker"]
        argv += ["--log-level", options.log_level]
        if LEDGER_STORE not in settings:
            argv += ["--data", str(self.data / "messages")]
        # In a file, where names that this product does not know may stand.
        argv += ["--conf", str(self._conf(number, conf_text(settings)))]
        if options.balance:
            argv += ["--balance", str(options.history)]
            argv += [f"--balance-option={each}" for each in options.balance_options]
        name = _name(number)
        child = Child(
            ChildSpec(
                name=name,
                argv=argv,
                is_ready=lambda line: line.startswith(READY + " "),
                log=options.logs / f"{name}.log",
                stop_within_s=20.0,
                on_ended=None if self._on_ended is None else _naming(name, self._on_ended),
            )
        )
        undo.callback(child.stop)
        return child


def data_directory(given: Path | None, undo: contextlib.ExitStack) -> Path:
    """The named directory, created if necessary; else a temporary one, which ``undo`` removes."""
    if given is None:
        return Path(undo.enter_context(tempfile.TemporaryDirectory(prefix="counterpoise-")))
    given.mkdir(parents=True, exist_ok=True)
    return given.resolve()


def _name(number: int) -> str:
    return f"broker-{number + 1}"


def _naming(name: str, hear: Callable[[str, int], None]) -> Callable[[int], None]:
    return lambda status: hear(name, status)


def _described(child: Child) -> BrokerProcess:
    found = json.loads(child.wait_ready().partition(" ")[2])
    urls = found["service_url"], found["admin_url"]
    return BrokerProcess(child.spec.name, found["id"], *urls, child)
