"""A cluster inside this process: several brokers, real sockets, up in a fraction of a second."""

import asyncio
import re
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from counterpoise.app.clusters.embedded_broker import EmbeddedBroker
from counterpoise.app.clusters.embedded_brokers import EmbeddedBrokers
from counterpoise.app.clusters.launched import LOCAL_DEFAULTS, together
from counterpoise.app.clusters.loop_thread import LoopThread
from counterpoise.app.clusters.throwaway_security import ThrowAwaySecurity
from counterpoise.app.faults.fault_control import EmbeddedFaultControl
from counterpoise.app.faults.fault_methods import ClusterWithFaults
from counterpoise.app.recordings.recording_file import RECORD_MIB, RecordingFile
from counterpoise.app.wiring import config_of, shedding_every
from counterpoise.storage.open import file_url

if TYPE_CHECKING:
    from counterpoise.app.clusters.console_process import ConsoleProcess
    from counterpoise.decide.balancing.moves import Round

__all__ = ["Cluster", "EmbeddedBroker"]
T = TypeVar("T")

CALL_TIMEOUT_S = 60.0


class Cluster(ClusterWithFaults):
    """A Pulsar cluster of several brokers in this process, for tests and experiments.

    Use it as a context manager::

        with counterpoise.Cluster(brokers=3) as cluster:
            client = pulsar.Client(cluster.service_url)

    When ``with`` is entered, every broker serves and the namespace ``public/default`` is there.
    The brokers run on an event loop in a thread of their own; all methods may be called from any
    other thread, and wait until what they ask for has happened.

    ``brokers``: how many to start with.
    ``config``: settings for all of them under broker.conf's names, such as
    ``{"defaultNumberOfNamespaceBundles": 16}``; an unknown name raises ``ConfigError``. A port that
    is not 0 is the first broker's, the next ones follow. ``metadataStoreUrl`` may be
    ``sqlite:///file``, for namespaces, policies and topics that outlive the cluster.
    ``data``: a directory that keeps messages and metadata: a later cluster goes on with them.
    ``storage``: where messages are kept, a directory or a ledger store's URL; without it they live
    in memory (or where ``config`` says: ``ledgerStoreUrl``).
    ``balance_every_s``: seconds between two rounds of shedding, in which the leader moves bundles
    by the strategy that ``config`` names (``loadBalancerLoadSheddingStrategy``). Without it they
    stay, unless ``config`` says ``"loadBalancerSheddingEnabled": True``: then there is a round
    every ``loadBalancerSheddingIntervalMinutes``.
    ``tls``: brokers speak TLS too, with certificates that are made for this cluster
    (``service_url_tls``, ``admin_url_tls``, ``security.trust_certs``).
    ``tokens``: clients have to show a token (``security.token("alice")``) and may do what its role
    was granted; the role ``admin`` may do everything.
    ``faults_over_http``: the admin API has ``/admin/v2/faults``, for tests in other languages.
    ``record``: a file that does not exist yet, to record the clients' traffic in for
    ``counterpoise replay``; at most ``record_mib`` MiB of it.
    """

    def __init__(
        self,
        brokers: int = 3,
        *,
        config: Mapping[str, object] | None = None,
        data: str | Path | None = None,
        storage: str | Path | None = None,
        balance_every_s: float | None = None,
        tls: bool = False,
        tokens: bool = False,
        faults_over_http: bool = False,
        record: str | Path | None = None,
        record_mib: int = RECORD_MIB,
    ) -> None:
        if brokers < 1:
            raise ValueError(f"brokers={brokers}: a cluster needs at least one broker")
        self._wanted = brokers
        self._security = ThrowAwaySecurity(tls=tls, tokens=tokens) if tls or tokens else None
        settings = {**(self._security.settings if self._security else {}), **(config or {})}
        if storage is not None:
            settings["ledgerStoreUrl"] = _storage_url(storage)
        defaults = {**LOCAL_DEFAULTS, **({} if data is None else _kept_in(Path(data)))}
        self._orderly = data is not None
        if balance_every_s is not None:
            if balance_every_s <= 0:
                raise ValueError(f"balance_every_s={balance_every_s}: must be more than 0")
            defaults["loadBalancerSheddingEnabled"] = True
        self._config = config_of(settings, defaults)
        if balance_every_s is not None:
            self._config = shedding_every(self._config, balance_every_s)
        self._thread: LoopThread | None = None
        self._brokers = EmbeddedBrokers(self._config)
        if faults_over_http:
            self._brokers.control = EmbeddedFaultControl(self._brokers)
        self._record = None if record is None else Path(record)
        self._record_mib = record_mib
        self._recording: RecordingFile | None = None
        self._console: ConsoleProcess | None = None

    # Start and stop.

    def start(self) -> "Cluster":
        """Start every broker; returns when clients may connect."""
        if self._thread is not None:
            raise RuntimeError("the cluster runs already")
        self._thread = LoopThread("counterpoise-cluster")
        try:
            if self._record is not None:
                self._recording = RecordingFile(self._record, self._record_mib)
                self._brokers.recorder = self._recording
            self.do(self._brokers.start(self._wanted))
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self, *, orderly: bool | None = None) -> None:
        """Stop every broker and drop what is in memory; ignored if it is stopped.

        Fast, as if all of them were killed: with ``storage`` a later cluster finds all messages,
        and redelivers what was acknowledged in the last second. ``orderly`` (the default with
        ``data``): topics are closed and acknowledgements saved first.
        """
        orderly = self._orderly if orderly is None else orderly
        console, self._console = self._console, None
        if console is not None:
            console.stop()
        thread, self._thread = self._thread, None
        if thread is not None:
            try:
                thread.run(self._brokers.stop(kill=not orderly), CALL_TIMEOUT_S)
            finally:
                thread.stop()
        if self._recording is not None:
            self._recording.close()

    def __enter__(self) -> "Cluster":
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    async def __aenter__(self) -> "Cluster":
        return await asyncio.to_thread(self.start)

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.stop)

    # State.

    @property
    def brokers(self) -> list[EmbeddedBroker]:
        """Every broker in the order of starting, including those that have ended."""
        return list(self._brokers.all)

    @property
    def service_url(self) -> str:
        """The clients' URL: ``pulsar://`` and all live brokers."""
        return together([each.service_url for each in self._brokers.alive])

    @property
    def service_url_tls(self) -> str:
        """The clients' URL with TLS, ``pulsar+ssl://``; empty if no broker has it."""
        return together(
            [each.service_url_tls for each in self._brokers.alive if each.service_url_tls]
        )

    @property
    def admin_url(self) -> str:
        """``http://host:port`` of the admin API of the first live broker."""
        return self._brokers.first.admin_url

    @property
    def admin_url_tls(self) -> str:
        """The admin API's URL with TLS, ``https://``; empty if no broker has it."""
        return self._brokers.first.admin_url_tls or ""

    @property
    def metadata_url(self) -> str:
        """The URL of the metadata store."""
        return self._config.metadata_store_url

    @property
    def security(self) -> ThrowAwaySecurity:
        """Certificates and tokens for clients; RuntimeError without ``tls`` or ``tokens``."""
        if self._security is None:
            raise RuntimeError("the cluster is not secure: start it with tls=True or tokens=True")
        return self._security

    @property
    def leader(self) -> EmbeddedBroker | None:
        """The leader; None if there is none."""
        return next((each for each in self._brokers.all if each.is_leader), None)

    def owner(self, topic: str) -> EmbeddedBroker | None:
        """The broker that serves a topic; None before the topic's first lookup."""
        return self.do(self._brokers.owner(topic))

    def bundle(self, topic: str) -> str:
        """The bundle of a topic, ``tenant/namespace/0x…_0x…``."""
        return str(self.do(self._brokers.bundle(topic)))

    @property
    def rounds(self) -> "list[Round]":
        """The leaders' last shedding rounds: their moves, and why other bundles stayed."""
        found = (made for each in self._brokers.all for made in list(each.running.shedding.rounds))
        return sorted(found, key=lambda made: made.poll_id)

    @property
    def console_url(self) -> str:
        """The URL of a web page about this cluster, started on first use; raises `UserError`."""
        if self._console is None:
            # Imported here: a cluster without a console starts sooner.
            from counterpoise.app.clusters.console_process import ConsoleProcess

            more = self._security.admin_options if self._security else []
            self._console = ConsoleProcess(
                [each.admin_url for each in self._brokers.alive], more=more
            )
        return self._console.url

    # Actions.

    def unload(self, topic: str, destination: EmbeddedBroker | str | None = None) -> EmbeddedBroker:
        """Move a topic's bundle to another broker, or to the one that placement chooses.

        ``topic`` may also name the bundle itself. Clients are redirected without losing a message.
        Returns the new owner.
        """
        return self.do(self._brokers.unload(topic, self._id(destination)))

    def split(self, topic: str, *, unload: bool = False) -> list[str]:
        """Split a topic's bundle in two; returns the new bundles."""
        return self.do(self._brokers.split(topic, unload=unload))

    def new_namespace(self) -> str:
        """Create a namespace ``public/…`` with a new name."""
        return str(self.do(self._brokers.new_namespace()))

    def kill(self, broker: EmbeddedBroker | str) -> None:
        """End a broker as ``kill -9`` does: nothing is handed over, connections are dropped."""
        self.do(self._brokers.end(self._brokers.find(broker), kill=True))

    def stop_broker(self, broker: EmbeddedBroker | str) -> None:
        """Stop a broker in order: its bundles move to the others first."""
        self.do(self._brokers.end(self._brokers.find(broker), kill=False))

    def add_broker(self) -> EmbeddedBroker:
        """Start another broker, and return it."""
        return self.do(self._brokers.add())

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the cluster's event loop, and return its result.

        It is for what no other method does. Raises TimeoutError after a minute.
        """
        if self._thread is None:
            work.close()
            raise RuntimeError("the cluster does not run: use it in a with statement")
        return self._thread.run(work, CALL_TIMEOUT_S)

    def _id(self, broker: EmbeddedBroker | str | None) -> str | None:
        return None if broker is None else self._brokers.find(broker).id


def _kept_in(data: Path) -> Mapping[str, object]:
    """Settings by which a cluster has all its data in one directory."""
    metadata = file_url(data / "metadata.db").replace("file:", "sqlite:", 1)
    return {"metadataStoreUrl": metadata, "ledgerStoreUrl": file_url(data / "messages")}


def _storage_url(storage: str | Path) -> str:
    """The URL of a ledger store that is named by its directory or by its URL."""
    # A scheme has at least two letters, so that "C:" begins a path.
    if isinstance(storage, str) and re.match(r"[a-z]{2,}:", storage):
        return storage
    return file_url(Path(storage))
