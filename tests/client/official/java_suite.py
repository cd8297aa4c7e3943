"""The tests of Pulsar 4.0.7 that use its Java client, on clusters of ours.

They are Apache's and are not copied here: Maven brings them compiled. Each starts a broker in its
process by a base class; ours of the same name (``java/``), which comes first on the class path,
has `serve` start a cluster with the test's settings instead, and again when a test changes one.
What a test reads of a broker's objects is answered by the admin API and by `serve`, as far as
``RemoteBroker`` goes; a test that looks further into the broker is skipped. Topics that a test
names as in Pulsar 1, ``tenant/cluster/namespace/topic``, are without the cluster (``renamed``).
"""

import json
import re
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import urlsplit
from zipfile import ZipFile

from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.hazmat.primitives.serialization.pkcs12 import load_key_and_certificates

from counterpoise import Cluster
from counterpoise.broker.broker import Broker
from counterpoise.names.topic import TopicName
from tests.conformance.jars import FETCH_SECONDS, MAIN_VERSION, cache, pulsar_lib

SUITE = cache() / f"pulsar-java-suite-{MAIN_VERSION}"
SOURCES = Path(__file__).with_name("java")
PACKAGE = "org.apache.pulsar"
CLASSES = {
    "broker.admin": """
        AdminApi AdminApi2 AdminApiTlsAuth AdminApiCluster AdminApiDelayedDelivery
        AdminApiDynamicConfigurations
        AdminApiMaxUnackedMessages AdminApiOffload AdminApiSchema AdminApiSchemaAutoUpdate
        AdminApiSchemaValidationEnforced AdminApiSchemaWithAuth AdminApiSubscription AdminApiTenant
        AdminTopicApi AnalyzeBacklogSubscription BrokerStat CreateSubscription IncrementPartitions
        MaxUnackedMessages TopicAutoCreation TopicMessageTTL TopicPolicies TopicPoliciesDisable
    """,
    "broker.admin.v3": "AdminApiTransaction",
    "broker.namespace": "NamespaceCreateBundles NamespaceUnloading",
    "broker.service": """
        BatchMessage
        BrokerServiceAutoSubscriptionCreation BrokerServiceAutoTopicCreation
        BrokerServiceBundlesCacheInvalidation ConsumedLedgersTrim ExclusiveProducer
        InactiveTopicDelete KeyValue NullValue PartitionKey PersistentQueueE2E ResendRequest
        SubscriptionSeek
        TopicTermination TransactionMarkerDelete
    """,
    "broker.service.persistent": """
        DelayedDelivery MessageDuplication PartitionKeywordCompatibility TopicDuplication
    """,
    "broker.service.schema": "ClientGetSchema",
    "broker.transaction": "Transaction",
    "broker.transaction.buffer": "TransactionStablePosition",
    "client.api": """
        BytesKey ClientAuthenticationTls ClientDeduplication ConsumerAckList ConsumerBatchReceive
        ConsumerCleanup
        ConsumerRedelivery CustomMessageId DeadLetterTopic ExposeMessageRedeliveryCount Interceptors
        KeySharedSubscription MaxProducer MemoryLimit MessageListenerExecutor MultiTopicsConsumer
        NonDurableSubscription NonPartitionedTopicExpected NonPersistentTopic PartitionCreation
        PartitionedProducerConsumer
        PatternMultiTopicsConsumer ProducerCleanup ProducerCreation ProducerQueueSize RetryTopic
        ServiceUrlProvider SimpleProducerConsumer SimpleProducerConsumerDisallowAutoCreateTopic
        SimpleProducerConsumerStat SimpleSchema SimpleTypedProducerConsumer Tenant
        TlsProducerConsumer TlsSni
        TokenAuthenticatedProducerConsumer TokenExpirationProduceConsumer UnloadSubscription
    """,
    "client.impl": """
        AdminApiKeyStoreTlsAuth
        AutoScaledReceiverQueueSize BatchMessageIndexAckDisable BrokerClientIntegration
        ClientWithSocks5Proxy
        CompactedOutBatchMessage
        CompactionReaderImpl ConnectionHandler ConsumeBaseException ConsumerAck ConsumerClose
        ConsumerConfiguration ConsumerDedupPermitsUpdate ConsumerMemoryLimit DisabledSystemTopic
        DispatchAccordingPermits DynamicReceiverQueueSize KeySharedSubscriptionMaxUnackedMessages
        KeyStoreTlsProducerConsumerTestWithAuth KeyStoreTlsProducerConsumerTestWithoutAuth
        LookupService
        MessageChecksum MessageChunking MessageChunkingDeduplication MessageChunkingShared MessageId
        MessageRedelivery MultiTopicsReader NegativeAcks PartialPartitionedProducer
        PatternTopicsConsumerImpl PerMessageUnAcknowledgedRedelivery ProduceWithMessageId
        ProducerClose ProducerConsumerInternal ProducerMemoryLimit ProducerSemaphore
        PulsarMultiHostClient Reader SchemaDelete SimpleProduceConsumeIo TableView
        TopicDoesNotExists TopicFromMessage TopicsConsumerImpl TransactionClientConnect
        TransactionEndToEnd
        UnAcknowledgedMessagesTimeout ZeroQueueSize
    """,
    "client.processor": "MessagePayloadProcessor",
    "common.protocol": "ProducerBatchSend",
    "compaction": "Compaction CompactionRetention GetLastMessageIdCompacted",
    "schema": "PartitionedTopicSchema Schema",
    "schema.compatibility": """
        SchemaCompatibilityCheck SchemaTypeCompatibilityCheck
        SchemaTypeCompatibilityCheckOnTopicLevel
    """,
}
"""Those that need little more of a broker than its addresses, by package, without ``Test``."""
TIMEOUT_MS = 100_000
"""How long a test may take."""
_SETTINGS = {"systemTopicsWritableByClients": "true"}
"""As Pulsar is: some tests make the topics of load data before a broker does."""
_WITHOUT_CLUSTER = (
    *("AdminApiKeyStoreTls", "AdminApiSchemaWithAuth", "AdminApiT", "KeyStoreTls", "TlsProducer"),
    *("TokenAuthenticated", "TokenExpiration"),
)
"""Tests that make the cluster that one of ours begins with, by an admin client of their own."""
_TEXT = 1
_DOUBLE = (5, 6)
_SIZES = {
    **dict.fromkeys((7, 8, 16, 19, 20), 3),
    15: 4,
    **dict.fromkeys((3, 4, 9, 10, 11, 12, 17, 18), 5),
    **dict.fromkeys(_DOUBLE, 9),
}
"""The constants of a Java class by their tags: a text has its length, two kinds count twice."""
_OF_PULSAR_1 = re.compile(
    rb"((?:^(?!src/)|persistent://)[\w\x01-]+)/(?:us[ew]/|tp1/|cluster/|(?:test|global)/(?=ns|my-n|[\w-]+/))"
)
_PORTS = ("brokerServicePort", "webServicePort", "brokerServicePortTls", "webServicePortTls")
_OPENED = ("sun.net", "java.lang", "java.io", "java.util.zip", "java.nio", "jdk.internal.misc")
_LOG = """\
status=error
appender.c.type=Console
appender.c.name=C
appender.c.layout.type=PatternLayout
appender.c.layout.pattern=%d{HH:mm:ss.SSS} %-5p %c{1} %m%n
rootLogger.level=error
rootLogger.appenderRef.c.ref=C
"""


def is_there() -> bool:
    """Whether the suite can be run."""
    return (SUITE / "classes" / "Verdicts.class").is_file()


def build() -> bool:
    """Fetch the tests and compile the base class, unless that is done; False without a JDK."""
    maven, javac, lib = shutil.which("mvn"), shutil.which("javac"), pulsar_lib()
    if maven is None or javac is None or lib is None:
        return is_there()
    if not (SUITE / "lib").is_dir():
        SUITE.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=SUITE.parent, prefix=SUITE.name) as scratch:
            made = Path(scratch) / "suite"
            fetch = [maven, "-q", "-B", "-f", str(SOURCES / "pom.xml")]
            fetch += ["dependency:copy-dependencies", f"-DoutputDirectory={made / 'lib'}"]
            subprocess.run(fetch, check=True, timeout=FETCH_SECONDS, cwd=scratch)
            made.rename(SUITE)
    classes = SUITE / "classes"
    sources = [str(each) for each in SOURCES.rglob("*.java")]
    compiler = [javac, "-nowarn", "-proc:none", "-d", str(classes), "-cp", class_path(lib)]
    subprocess.run([*compiler, *sources], check=True, timeout=FETCH_SECONDS)
    rename(SUITE / "lib" / f"pulsar-broker-{MAIN_VERSION}-tests.jar", SUITE / "renamed")
    return True


def rename(jar: Path, folder: Path) -> None:
    """Write a jar's keys, and with names of today its classes that name topics as in Pulsar 1."""
    with ZipFile(jar) as archive:
        for name in archive.namelist():
            if name.startswith(("authentication/", "certificate")):
                archive.extract(name, folder)
            elif name.endswith(".class") and (made := renamed(archive.read(name))) is not None:
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_bytes(made)


def renamed(compiled: bytes) -> bytes | None:
    """A class without the clusters in its texts of ``tenant/cluster/namespace``."""
    [count] = struct.unpack_from(">H", compiled, 8)
    parts, at, left = [compiled[:10]], 10, count - 1
    while left:
        tag = compiled[at]
        [length] = struct.unpack_from(">H", compiled, at + 1)
        end = at + (3 + length if tag == _TEXT else _SIZES[tag])
        part = compiled[at:end]
        if tag == _TEXT and (text := _OF_PULSAR_1.sub(rb"\1/", part[3:])) != part[3:]:
            part = struct.pack(">BH", _TEXT, len(text)) + text
        parts.append(part)
        at, left = end, left - (2 if tag in _DOUBLE else 1)
    made = b"".join([*parts, compiled[at:]])
    return None if made == compiled else made


def class_path(lib: Path) -> str:
    """Our base class, the tests with names of today, Pulsar, its tests."""
    return f"{SUITE / 'classes'}:{SUITE / 'renamed'}:{lib}/*:{SUITE / 'lib'}/*"


def classes() -> list[str]:
    """The names of the classes: ``client.api.BytesKeyTest``."""
    return [f"{kind}.{each}Test" for kind, names in CLASSES.items() for each in names.split()]


def command(clusters: str, folder: Path, chosen: Sequence[str] = ()) -> list[str]:
    """Runs these test classes, or all, on clusters that are asked for at this URL."""
    lib = pulsar_lib(fetch=False)
    assert lib is not None
    (folder / "log4j2.properties").write_text(_LOG)
    resources = folder / "src" / "test" / "resources"
    resources.parent.mkdir(parents=True, exist_ok=True)
    if not resources.is_symlink():
        resources.symlink_to(SUITE / "renamed")
    opened = [f"--add-opens=java.base/{each}=ALL-UNNAMED" for each in _OPENED]
    return [
        "java",
        "-Xmx1g",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        *opened,
        "-Dio.netty.tryReflectionSetAccessible=true",
        f"-Dlog4j.configurationFile={folder / 'log4j2.properties'}",
        f"-Dclusters={clusters}",
        f"-DtimeoutMs={TIMEOUT_MS}",
        "-cp",
        class_path(lib),
        "org.testng.TestNG",
        "-usedefaultlisteners",
        "false",
        "-listener",
        "Verdicts",
        "-verbose",
        "0",
        "-excludegroups",
        "quarantine,flaky",
        "-configfailurepolicy",
        "continue",
        "-testclass",
        ",".join(f"{PACKAGE}.{each}" for each in chosen or classes()),
    ]


def as_pem(settings: dict[str, str], folder: Path) -> dict[str, str]:
    """Settings whose key store and trust store are files of PEM in the folder."""
    if settings.get("tlsEnabledWithKeyStore") != "true":
        return settings
    password, store = settings["tlsKeyStorePassword"], folder / "store.p12"
    store.unlink(missing_ok=True)
    copy = ["-importkeystore", "-noprompt", "-srckeystore", settings["tlsKeyStore"]]
    copy += ["-destkeystore", str(store), "-deststoretype", "PKCS12", "-deststorepass", password]
    _keytool(*copy, "-srcstorepass", password)
    key, certificate, _ = load_key_and_certificates(store.read_bytes(), password.encode())
    assert key is not None
    assert certificate is not None
    plain = (Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    password = settings.get("tlsTrustStorePassword", "")
    trusted = _keytool(
        *("-list", "-rfc", "-keystore", settings["tlsTrustStore"]),
        *(("-storepass", password) if password else ()),
    )
    files = {
        "tlsKeyFilePath": key.private_bytes(*plain),
        "tlsCertificateFilePath": certificate.public_bytes(Encoding.PEM),
        "tlsTrustCertsFilePath": trusted,
    }
    for name, contents in files.items():
        (folder / name).write_bytes(contents)
    own = ("brokerClient", "tlsKeyStore", "tlsTrustStore", "tlsEnabledWithKeyStore")
    kept = {name: it for name, it in settings.items() if not name.startswith(own)}
    return kept | {name: str(folder / name) for name in files}


def _keytool(*words: str) -> bytes:
    command = ["keytool", *words]
    return subprocess.run(command, input=b"\n", capture_output=True, check=True).stdout


class _Clusters:
    """A cluster for each object of a test class; one that was stopped goes on with its data."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: dict[str, Cluster] = {}
        self._ports: dict[str, dict[str, object]] = {}

    def start(self, name: str, settings: dict[str, str]) -> dict[str, str]:
        """Its addresses; the same ones after a stop. One whose start was given up is ended."""
        if name in self._running:
            self.end(name, {})
        config = {**_SETTINGS, **as_pem(settings, self._folder), **self._ports.get(name, {})}
        made = Cluster(1, config=config, data=self._folder / name)
        self._running[name] = made.start()
        if name not in self._ports and name.startswith(_WITHOUT_CLUSTER):
            running = made.brokers[0].running
            made.do(running.policies.cluster(running.config.cluster_name).delete())
        urls = {"broker": made.service_url, "admin": made.admin_url}
        urls |= {"brokerTls": made.service_url_tls, "adminTls": made.admin_url_tls}
        ports = dict(zip(_PORTS, urls.values(), strict=True))
        self._ports[name] = {key: urlsplit(url).port for key, url in ports.items() if url}
        return {kind: url for kind, url in urls.items() if url}

    def stop(self, name: str, _: dict[str, str]) -> dict[str, str]:
        """Stop its brokers, and keep the data."""
        running = self._running.pop(name, None)
        if running is not None:
            running.stop()
        return {}

    def end(self, name: str, _: dict[str, str]) -> dict[str, str]:
        """Stop it, and drop the data."""
        running = self._running.pop(name, None)
        if running is not None:
            running.stop(orderly=False)
        self._ports.pop(name, None)
        shutil.rmtree(self._folder / name, ignore_errors=True)
        return {}

    def loaded(self, name: str, _: dict[str, str]) -> dict[str, list[str]]:
        """The topics that its broker has loaded."""
        return {"topics": [str(each) for each in self._broker(name).topics.loaded]}

    def owned(self, name: str, _: dict[str, str]) -> dict[str, bool]:
        """The bundles that its broker owns."""
        return {str(each): True for each in self._broker(name).namespaces.owned()}

    def upkeep(self, name: str, _: dict[str, str]) -> dict[str, str]:
        """Do all periodic work now."""
        self._running[name].do(self._broker(name).upkeep.look_at_all())
        return {}

    def policies(self, name: str, body: dict[str, str]) -> dict[str, object]:
        """A topic's own policies, local or global; without ``found`` if there were never any."""
        node = self._broker(name).policies.topic_policies(TopicName.parse(body["topic"]))
        found = self._running[name].do(node.get())
        of_all = (found or {}).pop("global", None)
        asked = of_all if body["level"] == "GLOBAL_ONLY" else found
        return {} if asked is None else {"found": asked}

    def exists(self, name: str, body: dict[str, str]) -> dict[str, bool]:
        """Whether there is such a node in the metadata store."""
        found = self._running[name].do(self._broker(name).metadata.get(body["path"]))
        return {"exists": found is not None}

    def rules(self, name: str, body: dict[str, str]) -> dict[str, object]:
        """The rules of a loaded topic, by Pulsar's names."""
        rules = self._broker(name).topics.loaded[TopicName.parse(body["topic"])].rules
        return {
            "getMaxConsumerPerTopic": rules.consumers,
            "getMaxProducersPerTopic": rules.producers,
            "getMaxSubscriptionsPerTopic": rules.subscriptions,
            "getMessageTTLInSeconds": rules.ttl_s,
            "getTopicMaxMessageSize": rules.message_bytes,
            "getSubscriptionTypesEnabled": sorted(rules.types),
        }

    def _broker(self, name: str) -> Broker:
        return self._running[name].brokers[0].running

    def stop_all(self) -> None:
        """Stop whatever runs."""
        for name in [*self._running]:
            self.end(name, {})


@contextmanager
def serve(folder: Path) -> Iterator[str]:
    """The URL at which the base class asks for clusters, whose data is in the folder."""
    clusters = _Clusters(folder)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            _, verb, name = self.path.split("/")
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            try:
                status, answer = 200, json.dumps(getattr(clusters, verb)(name, body))
            except Exception as error:
                status, answer = 500, str(error)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(answer.encode())

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            with suppress(OSError):
                clusters.stop_all()
