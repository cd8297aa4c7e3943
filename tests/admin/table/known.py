"""Where we are not as Pulsar is, and why: commands that do not apply, answers that differ."""

from collections.abc import Mapping

from tests.admin.table.row import NAMESPACE, TOPIC
from tests.admin.table.rows_of_transactions import ON_SOURCE, SOURCE, TARGET

_TIERED = "there is no tiered storage"
_BOOKIES = "there are no bookies"
_GEO = "no cluster is replicated to another"
_SHADOWS = "there are no shadow topics"
_MIGRATION = "no cluster is migrated to another"
_JVM = "there is no JVM"

NOT_HERE: Mapping[str, str] = {
    "broker-stats mbeans": f"{_JVM}; answers an empty list",
    "broker-stats allocator-stats": _JVM,
    "clusters get-cluster-migration": _MIGRATION,
    "clusters update-cluster-migration": _MIGRATION,
    "namespaces clear-offload-deletion-lag": _TIERED,
    "namespaces delete-bookie-affinity-group": _BOOKIES,
    "namespaces get-bookie-affinity-group": _BOOKIES,
    "namespaces get-offload-deletion-lag": _TIERED,
    "namespaces get-offload-policies": _TIERED,
    "namespaces list-cluster": "namespaces have had no cluster in their names since Pulsar 2",
    "namespaces remove-offload-policies": _TIERED,
    "namespaces set-bookie-affinity-group": _BOOKIES,
    "namespaces set-offload-deletion-lag": _TIERED,
    "namespaces set-offload-policies": _TIERED,
    "namespaces update-migration-state": _MIGRATION,
    "schemas metadata": "schemas are kept in the metadata store, not in ledgers",
    "topicPolicies get-offload-policies": _TIERED,
    "topicPolicies remove-offload-policies": _TIERED,
    "topicPolicies set-offload-policies": _TIERED,
    "topics create-shadow-topic": _SHADOWS,
    "topics get-offload-policies": _TIERED,
    "topics get-replicated-subscription-status": _GEO,
    "topics get-shadow-source": _SHADOWS,
    "topics get-shadow-topics": _SHADOWS,
    "topics offload": _TIERED,
    "topics offload-status": _TIERED,
    "topics remove-offload-policies": _TIERED,
    "topics remove-shadow-topics": _SHADOWS,
    "topics set-offload-policies": _TIERED,
    "topics set-replicated-subscription-status": _GEO,
    "topics set-shadow-topics": _SHADOWS,
}
"""Commands that do not apply, and why."""

_HEALTH = "Pulsar's health check has topics of its own"
_SETTINGS = "settings are those that something here reads"
_EVENTS = "Pulsar keeps policies of topics in a system topic, __change_events"
_WORDS = "the refusal has other words"
_MORE = "ours says more of each subscription"
_OF_TOPICS = "acme/app.*.*"
_STATS = {
    "pulsar/*": _HEALTH,
    f"{_OF_TOPICS}.persistent://acme/app/__change_events": _EVENTS,
    f"{_OF_TOPICS}.*.subscriptions": _MORE,
    f"{_OF_TOPICS}.non-persistent://acme/app/passing": _MORE,
}
_CUT = "Pulsar begins a new ledger to truncate the one that is being written"
_NO_SNAPSHOT = "there are no snapshots: a topic's log says which of its transactions are open"
_NO_PENDING_LOG = "what is pending is kept with the cursor of the subscription"
_TRACE = "Pulsar fails with a 500 where there is nothing"
_SCHEMA_LEDGERS = "schemas are in no ledgers"

DIFFERS: Mapping[str, Mapping[str, str]] = {
    "brokers get-runtime-config": {"text": _SETTINGS},
    "brokers namespaces standalone --url {BROKER}": {"text": _HEALTH},
    "brokers version": {"text": "it is our version"},
    "broker-stats destinations --indent": _STATS,
    "broker-stats load-report": {"bundle*": _HEALTH, "last*": _HEALTH, "num*": _HEALTH},
    "broker-stats monitoring-metrics": {"text": "figures of Java's threads, caches and bookies"},
    "broker-stats topics": _STATS,
    "resourcegroups delete shared": {"text": "ours says who uses it; Pulsar's error is a 500"},
    f"namespaces policies {NAMESPACE}": {
        "dispatcherPauseOnAckStatePersistentEnabled": "Pulsar notes that it was removed"
    },
    f"schemas compatibility -f {{OTHER_SCHEMA}} {TOPIC}": {
        "worked": "Pulsar ends with a 500 where the answer is no",
        "*": "Pulsar ends with a 500 where the answer is no",
    },
    f"schemas upload -f {{OTHER_SCHEMA}} {TOPIC}": {"text": "the 409 has other words"},
    f"topics info-internal {TOPIC}": {
        "cursors.*.version": "cursors have no node of their own",
        "ledgers.*.timestamp": "when a ledger was closed is not kept",
        "version": "the storage has no node of its own",
    },
    f"topics stats-internal {TOPIC}": {
        "cursors.*.state": "cursors are in no ledgers",
        "ledgers": _CUT,
        "numberOfEntries": _CUT,
        "schemaLedgers": _SCHEMA_LEDGERS,
    },
    f"topics terminate {TOPIC}": {"text": _CUT},
    f"namespaces get-topic-positions -b 0x00000000_0x40000000 {NAMESPACE}": {
        "topicHashPositions": _EVENTS
    },
    f"namespaces split-bundle -b 0x00000000_0x40000000 {NAMESPACE}": {"text": _WORDS},
    f"namespaces topics -ist {NAMESPACE}": {"text": _EVENTS},
    f"namespaces unload -b 0x12345678_0xc0000000 {NAMESPACE}": {"text": _WORDS},
    f"namespaces unload -b 0x80000000_0xc0000000 -d absent:8080 {NAMESPACE}": {"text": _WORDS},
    f"topics stats-internal -m {TOPIC}": {"ledgers.*.metadata": _BOOKIES},
    **{
        f"transactions transaction-buffer-stats -t {each}": {"snapshotType": _NO_SNAPSHOT}
        for each in (SOURCE, f"{SOURCE} -l -s", f"{TARGET} -l", f"{TARGET} -l -s")
    },
    f"transactions buffer-snapshot-internal-stats -t {TARGET}": {
        "worked": _NO_SNAPSHOT,
        "text": _NO_SNAPSHOT,
    },
    **{
        f"transactions coordinator-internal-stats -c {number}": {
            "transactionLogStats.managedLedgerInternalStats.cursors": "a coordinator reads its "
            "log without a cursor"
        }
        for number in (0, 1)
    },
    f"transactions pending-ack-internal-stats {ON_SOURCE}": {
        "worked": _NO_PENDING_LOG,
        "text": _NO_PENDING_LOG,
    },
    f"transactions pending-ack-stats {ON_SOURCE}": {"text": _TRACE},
    "transactions abort-transaction -m 2 -l 0": {"text": _TRACE},
    "transactions abort-transaction -m 99 -l 0": {"text": _TRACE},
}
"""Lines of the session whose answer is another one: where (``text`` of what is no JSON, ``worked``
if one of the two refuses), and why. Where they are alike after all, the test says so."""
