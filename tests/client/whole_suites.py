"""Apache's own suites of its Go, Python and Java clients on brokers of ours.

``python -m tests.client.whole_suites go go-admin python java``: each has a network namespace of its
own (``unshare``), in which the ports are free that the suites expect. A test that fails is printed;
the status is 1 if it is not in `EXPECTED`, the tests that fail here and why.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from threading import Timer

from passlib.hash import apr_md5_crypt

from counterpoise import Cluster
from tests.client import own_suite
from tests.client.official import go_suite, java_suite
from tests.security.tokens import SECRET_SETTING, token

INSIDE = "--inside"
CLASSES_AT_ONCE = 8
"""Java's test classes that one JVM runs."""
CLASS_SECONDS = 300
"""How long each of them may take."""
TAIL = 40
"""Lines that a test printed last, shown if it failed."""
DOCKER = "it starts a Pulsar in Docker"
NEWER = "a figure that Pulsar 4.0.7 does not have, either"
_PARTITIONS = "NonPersistentTopicTest.testNonPersistentPartitions"
_CREATION = "BrokerServiceAutoTopicCreationTest"
EXPECTED = {
    **dict.fromkeys(
        (
            "TestConsumerKeepReconnectingAndThenCallClose",
            "TestProducerKeepReconnectingAndThenCallClose",
            "TestReconnectConsumer",
            "TestReconnectedBrokerSendPermits",
            "TestSendAsyncCouldTimeoutWhileReconnecting",
        ),
        DOCKER,
    ),
    "TestNamespaces_BookieAffinityGroup": "it fails on Pulsar 4.0.7, too",
    "TestTopicStatsTimestamps": NEWER,
    "TestPartitionedTopicStatsTimestamps": NEWER,
    "TestUpdateDynamicConfigurationWithCustomURL": "it sets a switch to JSON: refused here",
    **dict.fromkeys(
        (
            *(f"AdminTopicApiTest.testGetStats.{run}" for run in (1, 2)),
            *(
                f"AdminApiSchemaTest.{name}.1"
                for name in (
                    "createKeyValueSchema",
                    "testInvalidSchemaDataException",
                    "testPostSchemaCompatibilityStrategy",
                )
            ),
            *(f"AdminApiTest.testDeleteNamespaceBundle.{run}" for run in (1, 2)),
            *(
                f"AdminApi2Test.{name}"
                for name in (
                    "testNonPartitionedTopic.1",
                    "testReplicationPeerCluster",
                    "testResetCursorOnPosition.2",
                )
            ),
            "SchemaTest.testDeleteTopicAndSchemaForV1",
            "TlsProducerConsumerTest.testTlsCertsFromDynamicStream",
            "TlsProducerConsumerTest.testTlsCertsFromDynamicStreamExpiredAndRenewCert",
            "TopicMessageTTLTest.testNamespaceTTL.1",
        ),
        "its topic has a name with a cluster, as in Pulsar 1",
    ),
    "AdminApiSchemaTest.testPostSchemaCompatibilityStrategy.2": "it expects a refusal without JSON",
    "MultiTopicsReaderTest.testMultiNonPartitionedTopicWithRollbackDuration": (
        "it fails on Pulsar 4.0.7, too: it counts a reader that another test left open"
    ),
    "SchemaTest.testTopicSchemaMetadata": "schemas are in no ledgers here",
    "ExclusiveProducerTest.testProducerTasksCleanupWhenUsingExclusiveProducers.1": (
        "it fails on Pulsar 4.0.7, too: it counts tasks that another test left"
    ),
    "NonDurableSubscriptionTest.testFlowCountForMultiTopics": "it counts commands in the broker",
    "TransactionEndToEndTest.testSendTxnMessageTimeout": (
        "now and then it fails in the client, whose connection is a mock without a channel"
    ),
    f"{_CREATION}.testDynamicConfigurationTopicAutoCreationPartitionedWhenDefaultMoreThanMax": (
        "there a limit that is set while the broker runs lowers the default until a restart"
    ),
    **dict.fromkeys(
        (
            "AdminApiTest.properties",
            "AdminApiTest.testBackwardCompatibility",
            "AdminApiTlsAuthTest.testCertRefreshForPulsarAdmin",
            "AdminApiTlsAuthTest.testSuperProxyUserAndAdminCanListTenants",
            "AdminApiTlsAuthTest.testSuperUserCanListTenants",
            "AdminApiKeyStoreTlsAuthTest.testPersistentList",
            "AdminApiKeyStoreTlsAuthTest.testSuperUserCanListTenants",
        ),
        "a cluster here begins with two tenants",
    ),
    "AdminApiTest.clusters": "it deletes the cluster, in which there are namespaces here",
    "TransactionTest.testCreateTransactionSystemTopic": (
        "it asks for the subscriptions of a topic that is not there: 404 here"
    ),
    **dict.fromkeys(
        (
            "AdminApiTest.testGetPartitionedInternalInfo",
            "AdminApiTest.testGetPartitionedStatsInternal",
        ),
        "it compares JSON as text, in the order of a table of hashes",
    ),
    "AdminApiTest.testSubscriptionExpiry": "it waits for two minutes",
    **dict.fromkeys(
        (
            "AdminApi2Test.testLoadReportApi",
            "AdminApi2Test.testDeleteNamespace.3",
            *(f"AdminApi2Test.testDeleteNamespace.{run}" for run in (1, 2)),
            "AdminApiTest.testUpdateDynamicConfigurationWithZkWatch",
        ),
        "its brokers have a setting that is refused here: SimpleLoadManagerImpl, no partitions, "
        "a metadata store without a scheme",
    ),
    "AdminApi2Test.testBacklogNoDelayedForPartitionedTopic": (
        "it counts on the length of the names of producers"
    ),
    "AdminApi2Test.testInvalidBundleErrorResponse": "a bundle is known by its form: 404 here",
    "AdminApi2Test.testMaxTopicsPerNamespace": "the refusal names the setting, too",
    **dict.fromkeys(
        (
            "AdminApiTlsAuthTest.testSuperUserCanUpdateScaleOfTransactionCoordinators",
            "TransactionTest.testGetTxnID",
            *(
                f"AdminApiTransactionTest.{name}"
                for name in (
                    "testGetCoordinatorInternalStats",
                    "testListTransactionCoordinators",
                    "testGetTransactionCoordinatorStats",
                    "testTransactionGetStats",
                    "testUpdateTransactionCoordinatorNumber",
                )
            ),
        ),
        "a cluster here begins with 16 coordinators",
    ),
    "AdminApiTransactionTest.testGetTransactionBufferInternalStats": (
        "there are no snapshots of transaction buffers here"
    ),
    "AdminApiTransactionTest.testPeekMessageForShowAllMessages": (
        "what is never delivered is in no backlog here"
    ),
    **dict.fromkeys(
        (
            f"SimpleProducerConsumerTest.{name}"
            for name in (
                "testMultiTopicsConsumerImplPauseForManualSubscription",
                "testMultiTopicsConsumerImplPauseForPartitionNumberChange",
                "testReceiveAsyncCompletedWhenClosing",
            )
        ),
        "now and then it fails on a busy machine, by its own short times",
    ),
    "TenantTest.testMaxTenant": "a cluster here begins with two tenants, and its limit is two",
    **dict.fromkeys(
        (
            "AdminApiDynamicConfigurationsTest.testDeleteIntDynamicConfig",
            "AdminApiDynamicConfigurationsTest.testDeleteStringDynamicConfig",
            "AdminApiTest.testUpdateDynamicLocalConfiguration",
            "KeySharedSubscriptionTest.testDisableKeySharedSubscription",
        ),
        "it reads or changes the settings of a broker in its own process",
    ),
    **dict.fromkeys(
        (
            "AdminApi2Test.testTerminateSystemTopic",
            "TopicPoliciesTest.testPoliciesCanBeDeletedWithTopic",
            "TopicPoliciesTest.testProduceChangesWithEncryptionRequired",
            "TopicPoliciesTest.testSystemTopicShouldBeCompacted",
            *(f"TopicPoliciesTest.testTopicPoliciesAfterCompaction.{run}" for run in (1, 2)),
        ),
        "policies of topics are in the metadata store here, and in no topic",
    ),
    **dict.fromkeys(
        (
            "TopicPoliciesTest.testGetSizeBasedBacklogQuotaApplied",
            "TopicPoliciesTest.testGetTimeBasedBacklogQuotaApplied",
        ),
        "there a namespace's policies keep the defaults that were shown before they were set",
    ),
    **dict.fromkeys(
        (f"TopicPoliciesTest.testRemoveLocalCluster.{run}" for run in (1, 2)),
        "there is no replication between clusters here",
    ),
    "TopicPoliciesTest.testTopicMaxMessageSize.4": "its topic is not persistent: 404 here",
    **dict.fromkeys(
        (
            f"ProducerSemaphoreTest.{name}"
            for name in (
                "testEnsureNotBlockOnThePendingQueue",
                "testProducerSemaphoreAcquireAndRelease",
            )
        ),
        "it sends a batch of nothing that counts ten messages: refused here",
    ),
    "MessageChunkingTest.testChunkSize": "it counts on the length of the names of producers",
    "NamespaceCreateBundlesTest.testSplitBundleUpdatesLocalPoliciesWithoutOverwriting": (
        "nothing asks for groups of bookies here"
    ),
    "ServiceUrlProviderTest.testCreateClientWithAutoChangedServiceUrlProvider": (
        "a broker that is started again has the same addresses here"
    ),
    **dict.fromkeys(
        (
            *(f"CompactionTest.test{each}" for each in ("Compaction", "DeleteCompactedLedger")),
            "CompactionRetentionTest.testCompaction",
            "CompactionTest.testAcknowledgeWithReconnection",
            "CompactionTest.testEarliestSubsAfterRollover",
        ),
        "a compacted topic's values stay in their ledgers here",
    ),
    **dict.fromkeys(
        (
            "CompactionTest.testCompactCompressedBatching",
            "CompactionTest.testEmptyPayloadDeletesWhenCompressed",
        ),
        "brokers here have no codec but ZLIB",
    ),
    "CompactionTest.testCompactionDuplicate": "its compaction ends here before it is seen",
    "InactiveTopicDeleteTest.testDeleteWhenNoBacklogs": (
        "a topic that has consumers stays here, as broker.conf says"
    ),
    f"{_PARTITIONS}AreNotAutoCreatedWhenThePartitionedTopicDoesNotExist": (
        "the topic is missed where it is opened, not where its partitions are asked for"
    ),
    **dict.fromkeys(
        (
            "NonPersistentTopicTest.testLoadManagerAssignmentForNonPersistentTestAssignment.1",
            "NonPersistentTopicTest.testNonPersistentBrokerModeRejectPersistentTopic.1",
        ),
        "its brokers have a load manager that is refused here: SimpleLoadManagerImpl",
    ),
    "BrokerClientIntegrationTest.testCloseConnectionOnInternalServerError": (
        "it breaks a broker in its own process"
    ),
    "BrokerClientIntegrationTest.testInvalidDynamicConfiguration": (
        "it names an interface as the load manager: refused here"
    ),
    "BrokerClientIntegrationTest.testManagedLedgerLazyCursorLedgerCreation": (
        "cursors have no ledgers here"
    ),
    **dict.fromkeys(
        (
            *(f"TopicsConsumerImplTest.testSeekToNewerPosition.{run}" for run in (1, 2)),
            "MessagePayloadProcessorTest.testDefaultProcessor.1",
            "ProducerMemoryLimitTest.testProducerTimeoutMemoryRelease",
        ),
        "now and then it fails in the client, which does not wait for its own threads",
    ),
    "ProducerConsumerInternalTest.testRetentionPolicyByProducingMessages": (
        "its ledger is full by a number of entries: on files here by its size"
    ),
    "TopicPoliciesTest.testSubscriptionTypesEnabled": (
        "a topic without policies answers an empty list here, as one with others does there"
    ),
    "CreateSubscriptionTest.addSubscriptionPropertiesTest.2": (
        "it asks the broker's object of a subscription that is gone"
    ),
    "ResendRequestTest.testFailoverInactiveConsumer": (
        "which consumer is active goes by the topic's name, here without the cluster"
    ),
    "SimpleTypedProducerConsumerTest.testWrongCorruptedSchema": (
        "the refusal is an error of the admin API here, none of the broker's classes"
    ),
    "SubscriptionSeekTest.testOnlyCloseActiveConsumerForSingleActiveConsumerDispatcherWhenSeek": (
        "after a seek all consumers of a Failover subscription reconnect here, not the active one"
    ),
    "AdminApiKeyStoreTlsAuthTest.testAuthorizedUserAsOriginalPrincipal": (
        "it verifies the name of a host, and its certificate has none"
    ),
    **dict.fromkeys(
        (
            "TransactionTest.testAutoCreateSchemaForTransactionSnapshot",
            "TransactionTest.testTakeSnapshotBeforeBuildTxnProducer",
        ),
        "there are no snapshots of transaction buffers here",
    ),
    "AdminApiTransactionTest.testGetPositionStatsInPendingAckStatsFroBatch": (
        "it changes the settings of the broker's ledgers"
    ),
    "TransactionTest.testNoEntryCanBeReadWhenRecovery": "it reads a field of the broker's topic",
    "AdminApiTest.testNamespaceUnloadBundle": (
        "a bundle that is unloaded has its next owner at once here, not with the next lookup"
    ),
    "AdminApi2Test.brokerNamespaceIsolationPoliciesUpdateOnTime": (
        "enableNamespaceIsolationUpdateOnTime is read by nothing here"
    ),
    "AdminApi2Test.testCompactionPriority": "it replaces a part of the broker's topic",
    "AdminApi2Test.testGetStatsIfPartitionNotExists": (
        "a partition that was never opened is there, and its statistics are 404 until it is"
    ),
    "CompactionTest.testHealthCheckTopicNotCompacted": "there are no topics of health checks here",
    "CompactionRetentionTest.testRetentionPolicesForSystemTopic": (
        "there are no snapshots of transaction buffers here"
    ),
    **dict.fromkeys(
        (f"MessageChunkingTest.testLargeMessage.{run}" for run in range(1, 5)),
        "it asks for a rate before the interval has passed of which that is",
    ),
    **dict.fromkeys(
        (f"MessageChunkingTest.testLargeMessageAckTimeOut.{run}" for run in (1, 2)),
        "it compares positions of the broker's cursor",
    ),
    **dict.fromkeys(
        (
            *(f"TopicPoliciesTest.testPriorityOfGlobalPolicies.{run}" for run in (1, 2)),
            "TopicPoliciesTest.testGlobalTopicPolicies",
            "TopicPoliciesTest.testRetentionGlobalPolicyAffects",
        ),
        "it reads the broker's own objects of policies and ledgers, kept or not",
    ),
    **dict.fromkeys(
        (
            "AdminApiTransactionTest.testGetPendingAckInternalStats",
            "TransactionTest.testPendingAckMarkDeletePosition",
        ),
        "acknowledgements in transactions have no log of their own here",
    ),
    "NonPersistentTopicTest.testMsgDropStat": (
        "maxConcurrentNonPersistentMessagePerConnection is read by nothing here: none waits"
    ),
    "TopicPoliciesTest.testDisableSubscribeRate": "it reads a field of the broker's topic",
    "TopicPoliciesTest.testShadowTopics": "there are no shadow topics here",
    "PulsarTest.test_connect_timeout": "it needs an address that drops what it is sent",
}
SETTINGS: dict[str, object] = {
    "brokerServicePort": 6650,
    "brokerServicePortTls": 6651,
    "webServicePort": 8080,
    "webServicePortTls": 8443,
    "acknowledgmentAtBatchIndexLevelEnabled": True,
    "transactionCoordinatorEnabled": True,
    "backlogQuotaCheckIntervalInSeconds": 5,
    "subscriptionKeySharedUseConsistentHashing": False,
    "maxMessageSize": 1_048_576,
}
"""Besides what both suites' brokers have: of their own ``standalone.conf``."""
PORTS = {f"PORT_{port}": str(port) for port in (6650, 6651, 8080, 8443)}
_RUN = """\
import signal, sys, unittest
signal.signal(signal.SIGINT, signal.default_int_handler)
class Result(unittest.TextTestResult):
    def stopTest(self, test):
        failed = {id(each) for each, _ in (*self.failures, *self.errors)}
        verdict = "FAIL" if id(test) in failed else "PASS"
        print(f"--- {verdict}: {test.id().split('.', 1)[1]} ", flush=True)
found = unittest.defaultTestLoader.loadTestsFromNames(sys.argv[1:])
unittest.TextTestRunner(verbosity=0, resultclass=Result).run(found)
"""
_MODULES = (
    "custom_logger_test",
    "debug_logger_test",
    "interrupted_test",
    "pulsar_test",
    "schema_test",
    "table_view_test",
    "reader_test",
    "asyncio_test",
)
_VERDICT = re.compile(r"^--- (PASS|FAIL|SKIP): ([\w.]+) ")


def main(words: list[str]) -> int:
    """The exit status: 1 if a test failed that is not expected to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("suite", nargs="*", choices=("go", "go-admin", "python", "java"))
    parser.add_argument(INSIDE, action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args(words)
    if not args.inside:
        if shutil.which("unshare") is None or shutil.which("ip") is None:
            sys.stderr.write("without unshare and ip no suite is run whole\n")
            return 0
        command = ["unshare", "-rn", sys.executable, "-m", "tests.client.whole_suites", INSIDE]
        ended = [subprocess.run([*command, each], check=False).returncode for each in args.suite]
        return max(ended, default=0)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    [suite] = args.suite
    others = {"python": python, "java": java}
    verdicts = dict(others[suite]() if suite in others else go(suite))
    strange = {name for name, each in verdicts.items() if each == "FAIL"} - EXPECTED.keys()
    passed = sum(each == "PASS" for each in verdicts.values())
    skipped = sum(each == "SKIP" for each in verdicts.values())
    counts = f"{len(verdicts)} tests, {passed} passed, {skipped} skipped"
    counts += f", {len(strange)} failed unexpectedly"
    sys.stdout.write(f"{suite}: {counts}\n")
    return int(bool(strange) or not passed)


def go(suite: str) -> Iterator[tuple[str, str]]:
    """A package of the Go client's: each test's name and verdict."""
    files = go_suite.FILES
    config = own_suite.settings(
        files / "certs",
        f"data:,admin:{apr_md5_crypt.hash('123456')}",
        (files / "tokens" / "secret.key").as_uri(),
    )
    binary = go_suite.binary(suite)
    listed = subprocess.run(
        [binary, "-test.list", "."], cwd=binary.parent, capture_output=True, text=True, check=True
    )
    left = [name for name in listed.stdout.split() if name.startswith("Test")]
    with Cluster(brokers=1, config=config | SETTINGS) as cluster:
        prepare(cluster, files / "certs")
        while left:
            # A test that panics ends the process: the others are run again without it.
            chosen = f"^({'|'.join(left)})$"
            command = [str(binary), "-test.v", "-test.timeout", "40m", "-test.run", chosen]
            found = dict(run(command, binary.parent, PORTS))
            yield from found.items()
            left = [name for name in left if name not in found]
            if not found:
                yield from dict.fromkeys(left, "FAIL").items()
                return


def python() -> Iterator[tuple[str, str]]:
    """The Python client's suite: each test's name and verdict."""
    folder = own_suite.SUITE / "tests"
    files = folder / "test-conf"
    config = own_suite.settings(files, str(files / ".htpasswd"), SECRET_SETTING)
    with (
        Cluster(brokers=1, config=config | SETTINGS) as cluster,
        tempfile.TemporaryDirectory() as own,
    ):
        prepare(cluster, files)
        tests = Path(own) / "tests"
        shutil.copytree(folder, tests)
        (tests / ".test-token.txt").write_text(token("token-principal"))
        more = {"PYTHONPATH": f"{tests}:{own_suite.LIBRARIES}"}
        for module in _MODULES:
            yield from run([sys.executable, "-c", _RUN, module], tests, more)


def java() -> Iterator[tuple[str, str]]:
    """Pulsar's tests of its Java client: each test's name and verdict."""
    left = java_suite.classes()
    with tempfile.TemporaryDirectory() as own, java_suite.serve(Path(own)) as clusters:
        folder = Path(own)
        while left:
            sys.stdout.write(f"java: {len(left)} classes to go, now {left[0]}\n")
            sys.stdout.flush()
            chosen, left = left[:CLASSES_AT_ONCE], left[CLASSES_AT_ONCE:]
            command = java_suite.command(clusters, folder, chosen)
            found = dict(run(command, folder, {}, CLASS_SECONDS * len(chosen)))
            yield from found.items()
            ended = {name.partition(".")[0] for name in found}
            for name in {each.rpartition(".")[2] for each in chosen} - ended:
                sys.stdout.write(f"{name} did not run, or not in time\n")
                yield name, "FAIL"


def prepare(cluster: Cluster, files: Path) -> None:
    """What the suites' own scripts set up."""
    own_suite.prepare(cluster.admin_url_tls, files)
    anyone = {"adminRoles": ["anonymous"], "allowedClusters": ["standalone"]}
    own_suite.change(
        cluster.admin_url_tls,
        files,
        ("POST", "tenants/public", anyone),
        ("PUT", "namespaces/public/default-2", None),
        ("POST", "namespaces/public/default-2/permissions/anonymous", ["produce", "consume"]),
    )


def run(
    command: list[str], folder: Path, more: dict[str, str], limit_s: float | None = None
) -> Iterator[tuple[str, str]]:
    """Run tests; each one's name and verdict as it ends. One that does not end has failed.

    They are killed after ``limit_s`` seconds.
    """
    environ = {**os.environ, **more, "PYTHONDONTWRITEBYTECODE": "1"}
    with subprocess.Popen(
        command,
        cwd=folder,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        assert process.stdout is not None
        said: list[str] = []
        end = Timer(limit_s or threading.TIMEOUT_MAX, process.kill)
        end.daemon = True
        end.start()
        for line in process.stdout:
            said.append(line)
            found = _VERDICT.match(line)
            if found is None:
                continue
            verdict, name = found.groups()
            if verdict == "FAIL":
                why = EXPECTED.get(name, "".join(said[-TAIL:]))
                sys.stdout.write(f"{name} failed: {why}\n")
                sys.stdout.flush()
            said.clear()
            yield name, verdict
        end.cancel()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
