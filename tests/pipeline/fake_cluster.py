"""A cluster that is only its admin API: brokers that report what a test says they carry.

A request that is not in `docs/REQUESTS.md` fails the test that used the cluster.

Each broker is a real HTTP server on a port of its own, which no other process and no later broker
gets as long as the cluster is there. A bundle carries a given load; the broker
that owns it reports it, from the next report on.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from aiohttp import web

from counterpoise.app.clusters.reserved_port import ReservedPort
from counterpoise.load.report import LocalBrokerData, NamespaceBundleStats, SystemResourceUsage
from counterpoise.load.usage import ResourceUsage
from counterpoise.names.bundle import BundleName
from counterpoise.names.hashing import topic_at, topic_hash
from tests.pipeline.requests_table import PAGE, unlisted

CLUSTER = "fake"


@dataclass
class FakeBroker:
    """One broker's web server."""

    cluster: "FakeCluster"
    runner: web.AppRunner
    name: str = ""
    silent: bool = False
    says: Any = None
    """Answered in place of the load report, when set."""
    answers: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    """Status and body by path, in place of whatever would be answered there."""
    hangs: asyncio.Event | None = None
    """When set, the load report is answered no sooner than this is."""
    hangs_at: dict[str, asyncio.Event] = field(default_factory=dict)
    """By path: nothing is answered there before this is set."""
    heap: float = 0.0
    """Heap in use, which a broker measures whenever it is asked."""
    asked: list[str] = field(default_factory=list)
    requests: list[tuple[str, str]] = field(default_factory=list)
    """The method of each request, and its path with the query as it came."""
    shown: set[str] = field(default_factory=set)
    """The credentials that came with them."""
    usurps: set[str] = field(default_factory=set)
    """Bundles that it serves as well, though another owns them."""
    blocked: asyncio.Event | None = None
    """When set, its metadata thread stands until this is: it serves no lookups and no policies."""
    taking: int = 0
    """How many bundles it is just taking over."""
    started_s: float = 1.0
    """When its process started, as its metrics say; 0: they do not."""
    version: str = ""
    """Its own, where it is not the cluster's."""
    latency_ms: float = 0.0
    """The mean of what it publishes between two looks at its metrics; 0: they do not say."""
    latency_counts: tuple[float, float] = (0.0, 0.0)
    """What it published since it started, and the latencies added up, ms."""
    away: bool = False
    """Whether it is stopped: the others do not list it, and connections to it end."""
    channel_waits: bool = False
    """Whether its bundle state channel has not started: it serves lookups of its own namespaces."""
    stuck: asyncio.Event | None = None
    """Set once it was asked what stops one of Apache's: it answers nothing more."""

    def report(self) -> LocalBrokerData:
        owned = (b for b, o in self.cluster.owners.items() if o == self.name)
        stats = {
            b: self.cluster.loads[b] for b in (*owned, *self.usurps) if b in self.cluster.loads
        }
        kbit = sum(s.msg_throughput_in for s in stats.values()) * 8 / 1000
        usage = SystemResourceUsage(
            cpu=ResourceUsage(5.0, 100.0),
            memory=ResourceUsage(self.heap, 100.0),
            bandwidth_in=ResourceUsage(kbit, self.cluster.nic_kbit),
        )
        return LocalBrokerData(
            web_service_url=f"http://{self.name}",
            pulsar_service_url="pulsar://127.0.0.1:1",
            broker_version_string=self.cluster.version,
            load_manager_class_name=self.cluster.load_manager,
        ).updated(usage, stats, self.cluster.report_time)


@dataclass
class FakeCluster:
    """Brokers, who owns which bundle, and what each bundle carries."""

    loads: dict[str, NamespaceBundleStats] = field(default_factory=dict)
    owners: dict[str, str] = field(default_factory=dict)
    brokers: list[FakeBroker] = field(default_factory=list)
    removed: list[FakeBroker] = field(default_factory=list)
    ports: list[ReservedPort] = field(default_factory=list)
    """Of all brokers that there ever were."""
    nic_kbit: float = 1000.0
    report_time: int = 1
    unloads: list[tuple[str, str]] = field(default_factory=list)
    refuse_unload: int = 0
    successors: dict[str, str] = field(default_factory=dict)
    """The owner of an unloaded bundle once one of its topics is looked up."""
    lookups: list[tuple[str, str]] = field(default_factory=list)
    """The broker that was asked, and the topic."""
    lose_destination: bool = False
    """Grant the unload, but to another broker than was asked for."""
    hang_unload: asyncio.Event | None = None
    """When set, an unload is answered no sooner than this is."""
    forget_unload: bool = False
    """Accept the unload and do nothing."""
    no_topics: bool = False
    """No bundle has a topic that could be looked up."""
    creates: bool = True
    """Clients may create topics, so a name that no topic has yet may be looked up as well."""
    lose_successors: bool = False
    """Whom the leader would choose for a bundle is another one than was asked for."""
    version: str = "0.1.0"
    """Ours, or that of Apache Pulsar."""
    load_manager: str | None = None
    leader: str = ""
    subscriptions: Mapping[str, Any] = field(default_factory=dict)
    """Of each topic, as `broker-stats/topics` has them."""
    unloading: set[str] = field(default_factory=set)
    """Bundles that their owners release for ever."""
    takes_s: float = 0.0
    """How long a broker takes to take a bundle over; asked what it owns meanwhile, it is stuck for
    ever, as one of Apache Pulsar 4.0.7 under the modular load manager."""

    @property
    def names(self) -> list[str]:
        return [broker.name for broker in self.brokers]

    @property
    def admin_url(self) -> str:
        return f"http://{self.brokers[0].name}"

    async def add_broker(self) -> FakeBroker:
        app = web.Application(middlewares=[_instead])
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        broker = app[_BROKER] = FakeBroker(self, runner)
        app.add_routes(
            [
                web.get("/admin/v2/brokers", self._brokers),
                web.get("/admin/v2/brokers/leaderBroker", self._leader),
                web.get("/admin/v2/brokers/version", _bound(self._version, broker)),
                web.get("/metrics/", _bound(self._metrics, broker)),
                web.get("/admin/v2/clusters", self._clusters),
                web.get("/admin/v2/broker-stats/load-report", _bound(self._load_report, broker)),
                web.get(
                    f"/admin/v2/brokers/{CLUSTER}/{{broker}}/ownedNamespaces",
                    _bound(self._owned, broker),
                ),
                web.put(
                    "/admin/v2/namespaces/{tenant}/{namespace}/{range}/unload",
                    _bound(self._unload, broker),
                ),
                web.put("/admin/v2/namespaces/{tenant}/{namespace}/unload", _done),
                web.put("/admin/v2/namespaces/{tenant}/{namespace}/{range}/split", _done),
                web.get(
                    "/lookup/v2/topic/persistent/{tenant}/{namespace}/{topic}/bundle",
                    self._bundle_of_topic,
                ),
                web.get("/admin/v2/broker-stats/topics", _bound(self._loaded_topics, broker)),
                web.get("/admin/v2/persistent/{tenant}/{namespace}", _bound(self._topics, broker)),
                web.get("/admin/v2/tenants", self._tenants),
                web.get("/admin/v2/namespaces/{tenant}", self._namespaces),
                web.get("/admin/v2/namespaces/{tenant}/{namespace}/bundles", self._bundles),
                web.get(
                    "/admin/v2/non-persistent/{tenant}/{namespace}/{range}",
                    _bound(self._whose, broker),
                ),
                web.get(
                    "/lookup/v2/topic/persistent/{tenant}/{namespace}/{topic}",
                    _bound(self._lookup, broker),
                ),
            ]
        )
        await runner.setup()
        self.ports.append(port := ReservedPort())
        await web.TCPSite(runner, "127.0.0.1", port.number).start()
        broker.name = f"127.0.0.1:{port.number}"
        self.brokers.append(broker)
        return broker

    async def __aenter__(self) -> "FakeCluster":
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for broker in self.brokers:
            for held in (broker.stuck, broker.blocked):
                if held is not None:
                    held.set()
            await broker.runner.cleanup()
        for port in self.ports:
            port.release()
        asked = {each for broker in (*self.brokers, *self.removed) for each in broker.requests}
        assert not (new := unlisted(sorted(asked))), f"not in {PAGE.name}: {new}"

    async def remove_broker(self, broker: FakeBroker) -> None:
        self.brokers.remove(broker)
        self.removed.append(broker)
        await broker.runner.cleanup()

    def carry(self, owner: FakeBroker, bundle: str, bytes_per_s: float) -> None:
        self.owners[bundle] = owner.name
        self.loads[bundle] = NamespaceBundleStats(
            msg_rate_in=bytes_per_s / 100, msg_throughput_in=bytes_per_s, topics=1
        )

    def throughputs(self) -> Mapping[str, float]:
        return {b.name: b.report().msg_throughput_in for b in self.brokers}

    async def _brokers(self, request: web.Request) -> web.Response:
        away = {each.name for each in self.brokers if each.away}
        return web.json_response([each for each in self.names if each not in away])

    async def _leader(self, request: web.Request) -> web.Response:
        if not self.leader:
            return web.json_response({"reason": "no leader"}, status=404)
        return web.json_response({"brokerId": self.leader})

    async def _version(self, broker: FakeBroker, request: web.Request) -> web.Response:
        return web.json_response(broker.version or self.version)

    async def _metrics(self, broker: FakeBroker, request: web.Request) -> web.Response:
        started = f'process_start_time_seconds{{cluster="{CLUSTER}"}} {broker.started_s}\n'
        text = started if broker.started_s else ""
        if broker.latency_ms:
            messages, total_ms = broker.latency_counts
            broker.latency_counts = (messages + 500, total_ms + 500 * broker.latency_ms)
            name = "pulsar_broker_publish_latency"
            text += f'{name}{{cluster="{CLUSTER}",quantile="0.99"}} NaN\n'
            for end, figure in zip(("count", "sum"), broker.latency_counts, strict=True):
                text += f'{name}_{end}{{cluster="{CLUSTER}"}} {figure:E}\n'
        return web.Response(text=text)

    async def _tenants(self, request: web.Request) -> web.Response:
        return web.json_response(sorted({each.partition("/")[0] for each in self.owners}))

    async def _namespaces(self, request: web.Request) -> web.Response:
        named = {each.rpartition("/")[0] for each in self.owners}
        start = f"{request.match_info['tenant']}/"
        return web.json_response(sorted(each for each in named if each.startswith(start)))

    async def _bundles(self, request: web.Request) -> web.Response:
        start = f"{request.match_info['tenant']}/{request.match_info['namespace']}/"
        spans = [each.removeprefix(start) for each in self.owners if each.startswith(start)]
        if not spans:
            return web.json_response({"reason": "Namespace does not exist"}, status=404)
        ends = sorted({end for span in spans for end in span.split("_")})
        return web.json_response({"boundaries": ends, "numBundles": len(ends) - 1})

    async def _whose(self, broker: FakeBroker, request: web.Request) -> web.Response:
        """Of its owner the topics of a bundle, from others where to ask; it changes nothing."""
        parts = request.match_info
        bundle = f"{parts['tenant']}/{parts['namespace']}/{parts['range']}"
        if bundle in self.unloading:
            reason = f"Namespace bundle {bundle} is being unloaded"
            return web.json_response({"reason": reason}, status=500)
        owner = self.owners.get(bundle, "")
        if bundle in broker.usurps or owner == broker.name:
            return web.json_response([])
        if owner:
            there = f"http://{owner}{request.path}?authoritative=false"
            return web.Response(status=307, headers={"Location": there})
        return web.Response(status=204)

    async def _clusters(self, request: web.Request) -> web.Response:
        return web.json_response([CLUSTER])

    async def _topics(self, broker: FakeBroker, request: web.Request) -> web.Response:
        """The namespace's topics; a filter by bundle stops it, as one of Apache's just started."""
        if "bundle" in request.query:
            broker.stuck = asyncio.Event()
            await broker.stuck.wait()
        start = f"{request.match_info['tenant']}/{request.match_info['namespace']}/"
        there = () if self.no_topics else (each for each in self.loads if each.startswith(start))
        return web.json_response([topic_of(each) for each in there])

    async def _lookup(self, broker: FakeBroker, request: web.Request) -> web.Response:
        parts = request.match_info
        if parts["namespace"] == broker.name:  # a broker's own, which no report names
            return web.json_response({"httpUrl": f"http://{broker.name}"})
        topic = f"persistent://{parts['tenant']}/{parts['namespace']}/{parts['topic']}"
        self.lookups.append((broker.name, topic))
        bundle = self._bundle_of(topic)
        if not bundle:
            return web.json_response({"reason": "Topic not found"}, status=404)
        if not self.owners[bundle]:
            named = self.successors.pop(bundle, broker.name)
            # The broker that the leader sent a client to takes an unowned bundle.
            sent = request.query.get("authoritative") == "true" and not self.lose_destination
            successor = broker.name if sent else named
            await self._take(next(each for each in self.brokers if each.name == successor), bundle)
        owner = self.owners[bundle]
        return web.json_response({"brokerUrl": f"pulsar://{owner}", "httpUrl": f"http://{owner}"})

    async def _bundle_of_topic(self, request: web.Request) -> web.Response:
        parts = request.match_info
        topic = f"persistent://{parts['tenant']}/{parts['namespace']}/{parts['topic']}"
        return web.Response(text=self._bundle_of(topic).rpartition("/")[2])

    async def _loaded_topics(self, broker: FakeBroker, request: web.Request) -> web.Response:
        found: dict[str, dict[str, Any]] = {}
        for bundle in broker.report().last_stats:
            namespace, _, span = bundle.rpartition("/")
            topics = {topic_of(bundle): {"msgRateIn": 1.0, "subscriptions": self.subscriptions}}
            found.setdefault(namespace, {})[span] = {"persistent": topics}
        return web.json_response(found)

    def _bundle_of(self, topic: str) -> str:
        for each in self.loads:
            there = topic == topic_of(each) and not self.no_topics
            if topic_hash(topic) in BundleName.parse(each).range and (there or self.creates):
                return each
        return ""

    async def _take(self, broker: FakeBroker, bundle: str) -> None:
        broker.taking += 1
        await asyncio.sleep(self.takes_s)
        broker.taking -= 1
        self.owners[bundle] = self.owners[bundle] or broker.name

    async def _load_report(self, broker: FakeBroker, request: web.Request) -> web.Response:
        if broker.silent:
            return web.Response(status=503, text="not now")
        if broker.hangs:
            await broker.hangs.wait()
        return web.json_response(broker.says or broker.report().to_json())

    async def _owned(self, broker: FakeBroker, request: web.Request) -> web.Response:
        if broker.taking and self.takes_s:
            broker.stuck = asyncio.Event()
        owned: dict[str, Any] = {b: {} for b, o in self.owners.items() if o == broker.name}
        return web.json_response(owned)

    async def _unload(self, broker: FakeBroker, request: web.Request) -> web.Response:
        parts = request.match_info
        bundle = f"{parts['tenant']}/{parts['namespace']}/{parts['range']}"
        if request.content_type != "application/json":
            return web.Response(
                status=415
            )  # as Pulsar does, though there is no body to have a type
        if self.refuse_unload:
            return web.json_response({"reason": "no"}, status=self.refuse_unload)
        destination = request.query.get("destinationBroker", "")
        self.unloads.append((bundle, destination))
        if self.hang_unload is not None:
            await self.hang_unload.wait()
        if self.forget_unload:
            return web.Response(status=204)
        if self.lose_destination:
            destination = next(n for n in self.names if n not in (destination, broker.name))
        self.owners[bundle] = ""
        if self.lose_successors:
            destination = next(n for n in self.names if n not in (destination, broker.name))
        if destination:
            self.successors[bundle] = destination
        return web.Response(status=204)


_NEED_METADATA = ("/lookup/", "/admin/v2/namespaces/", "/admin/v2/non-persistent/")
_BROKER = web.AppKey("broker", FakeBroker)


@web.middleware
async def _instead(request: web.Request, handler: Any) -> web.StreamResponse:
    broker = request.app[_BROKER]
    broker.asked.append(request.path)
    broker.requests.append((request.method, request.raw_path))
    broker.shown.add(request.headers.get("Authorization", ""))
    if broker.away and request.transport is not None:
        request.transport.close()
    if broker.stuck is not None:
        await broker.stuck.wait()
    if broker.blocked is not None and request.path.startswith(_NEED_METADATA):
        await broker.blocked.wait()
    if broker.channel_waits and request.path.startswith("/lookup/v2/topic/persistent/public/"):
        return web.Response(status=500, body=b"Invalid channel state:LeaderElectionServiceStarted")
    if request.path in broker.hangs_at:
        await broker.hangs_at[request.path].wait()
    if request.path in broker.answers:
        status, body = broker.answers[request.path]
        return web.Response(status=status, body=body)
    answer: web.StreamResponse = await handler(request)
    return answer


async def _done(request: web.Request) -> web.Response:
    return web.Response(status=204)


def _bound(handler: Any, broker: FakeBroker) -> Any:
    async def handle(request: web.Request) -> web.StreamResponse:
        response: web.StreamResponse = await handler(broker, request)
        return response

    return handle


def bundle_name(index: int, namespace: str = "public/default") -> str:
    return f"{namespace}/0x{index:08x}_0x{index + 1:08x}"


def wide_bundle(index: int, namespace: str = "public/default") -> str:
    """One of fifteen that are wide enough for a name to fall into."""
    return f"{namespace}/0x{index:x}0000000_0x{index + 1:x}0000000"


def topic_of(bundle: str) -> str:
    """The only topic of a bundle."""
    name = BundleName.parse(bundle)
    return topic_at(f"persistent://{name.namespace}/in-", name.range.lower)
