"""A cluster inside this process: several brokers, real sockets, up in a fraction of a second."""

from __future__ import annotations

import asyncio
import itertools
import re
import secrets
from collections.abc import Coroutine, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from counterpoise.app.embedded_broker import EmbeddedBroker
from counterpoise.app.launched import LOCAL_DEFAULTS, living, nth_port, together
from counterpoise.app.lazy_web_server import LazyWebServer
from counterpoise.app.loop_thread import LoopThread
from counterpoise.app.throwaway_security import ThrowAwaySecurity
from counterpoise.app.wiring import config_of, make_broker, shedding_every
from counterpoise.broker.load import SharedProcess
from counterpoise.broker.namespaces.bootstrap import create_namespace
from counterpoise.metadata.memory import MemoryTree
from counterpoise.metadata.open import open_tree
from counterpoise.metadata.port import MetadataStore
from counterpoise.names.bundle import BundleName, names_a_bundle
from counterpoise.names.namespace import NamespaceName
from counterpoise.names.topic import TopicName
from counterpoise.storage.open import file_url, in_memory, open_ledgers

if TYPE_CHECKING:
    from counterpoise.app.console_process import ConsoleProcess
    from counterpoise.decide.balancing.moves import Round

__all__ = ["Cluster", "EmbeddedBroker"]
T = TypeVar("T")

CALL_TIMEOUT_S = 60.0


class Cluster:
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
        self._brokers: list[EmbeddedBroker] = []
        #: By broker id, what stops a broker when an administrator says so.
        self._watches: dict[str, asyncio.Task[None]] = {}
        self._thread: LoopThread | None = None
        self._numbers = itertools.count()
        # What the brokers' metadata sessions share, and a session that keeps it while all brokers
        # are down.
        self._tree: MemoryTree | None = None
        self._keeper: MetadataStore | None = None
        self._memory = (
            open_ledgers(self._config.storage) if in_memory(self._config.storage.url) else None
        )
        self._process = SharedProcess()
        self._console: ConsoleProcess | None = None

    # Life.

    def start(self) -> Cluster:
        """Start every broker; returns when clients may connect."""
        if self._thread is not None:
            raise RuntimeError("the cluster runs already")
        self._thread = LoopThread("counterpoise-cluster")
        try:
            self._do(self._start())
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self, *, orderly: bool | None = None) -> None:
        """Stop every broker and forget what is in memory; harmless when it is stopped.

        Fast, as if all of them were killed: with ``storage`` a later cluster finds all messages,
        and delivers again what was acknowledged in the last second. ``orderly`` (the default with
        ``data``): topics are closed and acknowledgements saved first.
        """
        orderly = self._orderly if orderly is None else orderly
        if self._console is not None:
            self._console.stop()
        thread, self._thread = self._thread, None
        if thread is not None:
            try:
                thread.run(self._stop(kill=not orderly), CALL_TIMEOUT_S)
            finally:
                thread.stop()

    def __enter__(self) -> Cluster:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    async def __aenter__(self) -> Cluster:
        return await asyncio.to_thread(self.start)

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.stop)

    # What there is.

    @property
    def brokers(self) -> list[EmbeddedBroker]:
        """Every broker in the order of starting, those that are gone included."""
        return list(self._brokers)

    @property
    def service_url(self) -> str:
        """What a client connects to: ``pulsar://`` and all brokers that are alive."""
        return together([each.service_url for each in self._alive()])

    @property
    def service_url_tls(self) -> str:
        """The same by TLS, ``pulsar+ssl://``; empty where no broker speaks it."""
        return together([each.service_url_tls for each in self._alive() if each.service_url_tls])

    @property
    def admin_url(self) -> str:
        """``http://host:port`` of the admin API of the first broker that is alive."""
        return next(self._alive()).admin_url

    @property
    def admin_url_tls(self) -> str:
        """The same by TLS, ``https://``; empty where no broker speaks it."""
        return next(self._alive()).admin_url_tls or ""

    @property
    def metadata_url(self) -> str:
        """Where namespaces, policies and topics are kept."""
        return self._config.metadata_store_url

    @property
    def security(self) -> ThrowAwaySecurity:
        """Certificates and tokens for clients; RuntimeError without ``tls`` or ``tokens``."""
        if self._security is None:
            raise RuntimeError("the cluster is not secure: start it with tls=True or tokens=True")
        return self._security

    @property
    def leader(self) -> EmbeddedBroker | None:
        """The broker that leads, None while none does."""
        return next((each for each in self._brokers if each.is_leader), None)

    def owner(self, topic: str) -> EmbeddedBroker | None:
        """The broker that serves a topic now; None before the first lookup of it."""
        return self._do(self._owner(topic))

    def bundle(self, topic: str) -> str:
        """The bundle that holds a topic, ``tenant/namespace/0x…_0x…``."""
        return str(self._do(self._bundle(topic)))

    @property
    def rounds(self) -> list[Round]:
        """The leaders' last rounds: what they moved, and why they moved nothing else."""
        found = (made for each in self._brokers for made in list(each._broker.shedding.rounds))
        return sorted(found, key=lambda made: made.poll_id)

    @property
    def console_url(self) -> str:
        """A web page about this cluster, served from when it is first asked for; `UserError`."""
        if self._console is None:
            # Imported here: a cluster without a console starts sooner.
            from counterpoise.app.console_process import ConsoleProcess

            more = self._security.admin_options if self._security else []
            self._console = ConsoleProcess([each.admin_url for each in self._alive()], more=more)
        return self._console.url

    # What can be made to happen.

    def unload(self, topic: str, destination: EmbeddedBroker | str | None = None) -> EmbeddedBroker:
        """Move the bundle of a topic to another broker, or to wherever placement wants it.

        ``topic`` may also name the bundle itself. Clients are sent on without losing a message.
        Gives the new owner.
        """
        return self._do(self._unload(topic, self._id(destination)))

    def split(self, topic: str, *, unload: bool = False) -> list[str]:
        """Cut the bundle of a topic in two; gives the new bundles."""
        return self._do(self._split(topic, unload))

    def new_namespace(self) -> str:
        """Make a namespace that was not there, ``public/…``, with a name of its own."""
        return str(self._do(self._new_namespace()))

    def kill(self, broker: EmbeddedBroker | str) -> None:
        """End a broker as ``kill -9`` does: nothing handed over, connections dropped."""
        self._do(self._end(self._find(broker), kill=True))

    def stop_broker(self, broker: EmbeddedBroker | str) -> None:
        """Stop a broker in order: its bundles go to the others first."""
        self._do(self._end(self._find(broker), kill=False))

    def add_broker(self) -> EmbeddedBroker:
        """Start one more broker."""
        return self._do(self._add())

    # On the loop.

    async def _start(self) -> None:
        # A cluster that is started again begins with its first ports, and brokers of its own.
        self._brokers, self._watches, self._numbers = [], {}, itertools.count()
        self._tree = await open_tree(self._config.metadata_store_url)
        self._keeper = self._tree.open() if self._tree is not None else None
        # The first one alone, so that the leader is always the same.
        await self._add()
        await asyncio.gather(*(self._add() for _ in range(self._wanted - 1)))

    async def _add(self) -> EmbeddedBroker:
        # In files each broker opens the directory for itself, in memory they share one store.
        ledgers = self._memory or open_ledgers(self._config.storage)
        number, config = next(self._numbers), self._config
        config = replace(
            config,
            broker_service_port=nth_port(config.broker_service_port, number),
            broker_service_port_tls=nth_port(config.broker_service_port_tls, number),
            web_service_port=nth_port(config.web_service_port, number),
            web_service_port_tls=nth_port(config.web_service_port_tls, number),
        )
        broker = await make_broker(
            config, ledgers=ledgers, tree=self._tree, process=self._process, web=LazyWebServer
        )
        await broker.start()
        added = EmbeddedBroker(broker)
        self._brokers.append(added)
        self._watches[added.id] = asyncio.create_task(self._stop_on_request(added))
        return added

    async def _stop(self, *, kill: bool) -> None:
        # All at once: there is no successor to transfer bundles to. What was acknowledged is in the
        # files already, if there are files.
        for each in self._brokers:
            if kill or each.alive:
                self._watches[each.id].cancel()
        if stopping := [each for each in self._watches.values() if not each.done()]:
            # A loop that is closed under a broker's listeners may never end.
            await asyncio.wait(stopping)
        # Ended tasks hold this cluster, which goes with its last reference.
        self._watches = {}
        await asyncio.gather(*(self._end(each, kill=kill) for each in list(self._alive())))
        if self._keeper is not None:
            await self._keeper.close()

    async def _stop_on_request(self, broker: EmbeddedBroker) -> None:
        """Stop a broker when an administrator says so."""
        await broker._broker.stop_requested.wait()
        await self._end(broker, kill=False)

    async def _end(self, broker: EmbeddedBroker, *, kill: bool) -> None:
        if not broker.alive:
            return
        broker.alive = False
        if kill:
            await broker._broker.kill()
        else:
            await broker._broker.stop()

    async def _bundle(self, name: str) -> BundleName:
        if names_a_bundle(name):
            return BundleName.parse(name)
        topic = TopicName.parse(name)
        bundles = await next(self._alive())._broker.namespaces.bundles(topic.namespace_name)
        return bundles.bundle_of(topic)

    async def _owner(self, topic: str) -> EmbeddedBroker | None:
        bundle = await self._bundle(topic)
        found = await next(self._alive())._broker.namespaces.owner(bundle)
        return None if found is None else self._find(found.broker_id)

    async def _new_namespace(self) -> NamespaceName:
        name = NamespaceName("public", f"test-{secrets.token_hex(6)}")
        bundles, cluster = (
            self._config.default_number_of_namespace_bundles,
            self._config.cluster_name,
        )
        await create_namespace(next(self._alive())._broker.policies, name, cluster, bundles)
        return name

    async def _unload(self, topic: str, destination: str | None) -> EmbeddedBroker:
        bundle = await self._bundle(topic)
        owner = await self._owner(topic)
        if owner is None:
            raise LookupError(f"no broker owns {bundle}: nothing has been looked up in it yet")
        successor = await owner._broker.namespaces.unload(bundle, destination)
        if successor is None:
            raise LookupError(f"{bundle} was unloaded, but no broker is there to take it")
        return self._find(successor)

    async def _split(self, topic: str, unload: bool) -> list[str]:
        bundle = await self._bundle(topic)
        owner = await self._owner(topic)
        if owner is None:
            raise LookupError(f"no broker owns {bundle}: nothing has been looked up in it yet")
        parts = await owner._broker.namespaces.split(
            bundle, algorithm="range_equally_divide", unload=unload
        )
        return [str(each) for each in parts]

    # Helpers.

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        if self._thread is None:
            work.close()
            raise RuntimeError("the cluster does not run: use it in a with statement")
        return self._thread.run(work, CALL_TIMEOUT_S)

    def _alive(self) -> Iterator[EmbeddedBroker]:
        return iter(living(self._brokers))

    def _find(self, broker: EmbeddedBroker | str) -> EmbeddedBroker:
        wanted = broker if isinstance(broker, str) else broker.id
        for each in self._brokers:
            if each.id == wanted:
                return each
        raise LookupError(f"no broker {wanted!r} in this cluster: there are {self._brokers}")

    def _id(self, broker: EmbeddedBroker | str | None) -> str | None:
        return None if broker is None else self._find(broker).id


def _kept_in(data: Path) -> Mapping[str, object]:
    """The settings of a cluster that keeps everything in a directory."""
    metadata = file_url(data / "metadata.db").replace("file:", "sqlite:", 1)
    return {"metadataStoreUrl": metadata, "ledgerStoreUrl": file_url(data / "messages")}


def _storage_url(storage: str | Path) -> str:
    """A directory's URL, or the URL itself."""
    # Two letters at least before the colon: "C:" begins no URL, and neither does a plain path.
    if isinstance(storage, str) and re.match(r"[a-z]{2,}:", storage):
        return storage
    return file_url(Path(storage))
