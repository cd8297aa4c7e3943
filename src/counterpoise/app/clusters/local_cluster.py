"""A cluster of processes on this machine: ZooKeeper, bookies and brokers, stopped together."""

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
    # Short: on one machine a broker whose session goes silent has ended. Pulsar's 30 s suit a
    # network.
    "metadataStoreSessionTimeoutMillis": "5000",
}
"""Settings of brokers in processes of their own, where they differ from Pulsar's defaults."""

LEDGER_STORE = "ledgerStoreUrl"
ZOOKEEPER = "ZooKeeper"
"""The name of the cluster's own ZooKeeper, for ``on_ended`` and `LocalCluster.restart_server`."""


@dataclass(frozen=True, slots=True)
class BrokerProcess:
    """One broker of a local cluster: its process and addresses."""

    name: str
    """The process's name in messages: ``broker-1``, ``broker-2``, …"""
    id: str
    """The broker's id, ``host:webPort``."""
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
    """For brokers in one process: seconds between two rounds of the leader's own shedding; None: no
    rounds."""
    balance_options: Sequence[str] = ()
    """Options for the balancer, as ``counterpoise balance`` takes them."""
    first_port: int = 0
    """The first broker's binary port, the next ones follow; 0: free ports."""
    first_web_port: int = 0
    """The first broker's admin port, the next ones follow; 0: free ports."""
    log_level: str = "warning"
    faults: bool = False
    """For brokers in one process: whether tests may set faults over HTTP."""
    record: Path | None = None
    """For brokers in one process: the new file that records clients' traffic; None: no
    recording."""
    record_mib: int = RECORD_MIB
    """How large the file ``record`` may become, in MiB."""

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
    with it. Start it on a thread that lives as long as the cluster shall: the children end with
    the thread, too.
    """

    def __init__(
        self, options: LocalClusterOptions, *, on_ended: Callable[[str, int], None] | None = None
    ) -> None:
        """``on_ended`` is called with the name and exit status of a broker, ZooKeeper or bookie
        that ends by itself, on a thread of its own.
        """
        self.options = options
        """The options; once the cluster runs, ``data`` is set, also to a temporary directory."""
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
        """The URL for clients, which lists every live broker."""
        return together([each.service_url for each in self._alive()])

    @property
    def admin_url(self) -> str:
        """The admin API of the first live broker."""
        return self._alive()[0].admin_url

    def start(self) -> None:
        """Start all processes and wait until they serve; raises `UserError`.

        If it fails, the processes that it has started are stopped.
        """
        with contextlib.ExitStack() as undo:
            self.data = data_directory(self.options.data, undo)
            self.options = replace(self.options, data=self.data)
            self.metadata_url = self.options.metadata_url or self._zookeeper(undo)
            if self.options.bookies:
                self._bookies(undo)
            # All at once, since each spends its first second on imports.
            children = [self._launch(number, undo) for number in range(self.options.brokers)]
            self.brokers = [_described(child) for child in children]
            self._stack = undo.pop_all()

    def restart(self, broker: BrokerProcess) -> BrokerProcess:
        """Restart a broker that ended; on its former ports only if the options name ports.

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

        Call it on a thread that lives as long as the cluster shall: the server ends with it.
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
            # A broker with --balance turns its own shedding off by itself.
            del settings["loadBalancerSheddingEnabled"]
        argv = [sys.executable, "-m", "counterpoise.app.main", "broker"]
        argv += ["--log-level", options.log_level]
        if LEDGER_STORE not in settings:
            argv += ["--data", str(self.data / "messages")]
        # In a file, since --set refuses names of settings that no program knows.
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
    """Return the directory ``given``, created if necessary; for None, a temporary directory that
    ``undo`` removes.
    """
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
