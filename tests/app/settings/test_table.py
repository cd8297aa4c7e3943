"""Our table of settings against the defaults of Pulsar 4.0.7's own ``ServiceConfiguration``."""

from pathlib import Path

import pytest

from counterpoise.app.settings.table import ROOMS, broker_conf_names, table
from counterpoise.names.options import all_options, check_ranges

HERE = Path(__file__).parent
KINDS = {"boolean": bool, "int": int, "long": int, "double": float, "String": str, "List": tuple}
OURS = {
    "clusterName",
    "exposeBundlesMetricsInPrometheus",
    "loadBalancerOverrideBrokerNicSpeedGbps",
    "maxMessagePublishBufferSizeInMB",
    "resourceUsageTransportPublishIntervalInSecs",
}
"""Defaults that are not Pulsar's: it has none, half of a JVM's direct memory, or shares nothing.

Each bundle's metrics are reported unless they are switched off: they are what a balancer looks at.
"""

LEAST = {
    1: """
        transactionBufferClientMaxConcurrentRequests transactionBufferClientOperationTimeoutInMills
        authenticationRefreshCheckSeconds backlogQuotaCheckIntervalInSeconds
        counterpoiseHorizonMinutes defaultNumPartitions defaultNumberOfNamespaceBundles
        dispatcherMaxRoundRobinBatchSize httpRequestsMaxPerSecond
        keySharedLookAheadMsgInReplayThresholdPerSubscription
        loadBalancerInFlightServiceUnitStateWaitingTimeInMillis
        loadBalancerReportUpdateMaxIntervalMinutes loadBalancerResourceQuotaUpdateIntervalMinutes
        loadBalancerServiceUnitStateMaxConcurrentOverrides
        loadBalancerServiceUnitStateMonitorIntervalInSeconds
        loadBalancerServiceUnitStateTombstoneDelayTimeInSeconds loadBalancerSheddingIntervalMinutes
        loadBalancerSplitIntervalMinutes managedLedgerCacheSizeMB
        bookkeeperClientMinNumRacksPerWriteQuorum
        bookkeeperClientTimeoutInSeconds brokerDeleteInactiveTopicsFrequencySeconds
        brokerDeduplicationEntriesInterval brokerDeduplicationMaxNumberOfProducers
        brokerDeduplicationProducerInactivityTimeoutMinutes
        brokerServiceCompactionMonitorIntervalInSeconds retentionCheckIntervalInSeconds
        managedLedgerCursorMaxEntriesPerLedger
        managedLedgerCursorRolloverTimeInSeconds managedLedgerDefaultAckQuorum
        managedLedgerDefaultEnsembleSize managedLedgerDefaultWriteQuorum
        managedLedgerMaxEntriesPerLedger managedLedgerMaxLedgerRolloverTimeMinutes
        managedLedgerMaxSizePerLedgerMbytes
        managedLedgerMaxUnackedRangesToPersist maxConcurrentLookupRequest
        maxConcurrentTopicLoadRequest maxMessageSize maxPendingPublishRequestsPerConnection
        maxThrottledPublishBytesPerConnection maxThrottledPublishRequestsPerConnection
        messageExpiryCheckIntervalInMinutes metadataStoreOperationTimeoutSeconds
        namespaceBundleUnloadingTimeoutMs resourceUsageTransportPublishIntervalInSecs
        statsUpdateFrequencyInSecs
    """,
    10: "loadBalancerReportUpdateMinIntervalMillis",
    100: "metadataStoreSessionTimeoutMillis",
    -1: """
        backlogQuotaDefaultLimitBytes defaultRetentionSizeInMB defaultRetentionTimeInMinutes
        loadBalancerNamespaceBundleMaxSessions
        maxMessagePublishBufferSizeInMB maxUnloadBundleNumPerShedding
    """,
    -(2**31): """
        brokerPublisherThrottlingMaxMessageRate dispatchThrottlingRateInMsg
        dispatchThrottlingRatePerSubscriptionInMsg dispatchThrottlingRatePerTopicInMsg
        keepAliveIntervalSeconds maxPublishRatePerTopicInMessages
        subscribeRatePeriodPerConsumerInSecond subscribeThrottlingRatePerConsumer
    """,
    -(2**63): """
        brokerPublisherThrottlingMaxByteRate dispatchThrottlingRateInByte
        dispatchThrottlingRatePerSubscriptionInByte dispatchThrottlingRatePerTopicInByte
        maxPublishRatePerTopicInBytes
    """,
}
"""The least that a number may be: more than 0 where a broker could not work with none, less where
whatever is not positive means no limit."""


def pulsar_defaults():
    for name in ("load_balancer_defaults.tsv", "rate_defaults.tsv"):
        for line in (HERE / name).read_text().splitlines():
            conf, kind, default, dynamic, deprecated = (line.split("\t") + [""] * 5)[:5]
            yield pytest.param(conf, kind, default, dynamic, deprecated, id=conf)


@pytest.mark.parametrize(
    ("conf", "kind", "default", "dynamic", "deprecated"), list(pulsar_defaults())
)
def test_every_setting_has_pulsars_default(conf, kind, default, dynamic, deprecated):
    assert table()[conf].why.endswith(".")
    option = table()[conf].option
    assert option.deprecated == (deprecated == "deprecated")
    assert option.dynamic == (dynamic == "dynamic")
    if conf in OURS:
        return
    assert option.kind is KINDS.get(kind, str)
    if kind in ("int", "long", "double"):
        assert option.default == float(default)
    elif kind == "boolean":
        assert option.default is (default == "true")
    elif kind == "List":
        assert list(option.default) == default.strip("[]").split(", ")
    else:
        assert option.default == default


@pytest.mark.parametrize(("room", "settings"), ROOMS, ids=[cls.__name__ for _, cls in ROOMS])
def test_defaults_are_in_range(room, settings):
    check_ranges(settings())
    for option in all_options(settings):
        assert room in table()[option.conf].rooms


def test_a_number_is_at_least_nothing_unless_it_stands_here():
    found = {}
    for _, settings in ROOMS:
        for option in all_options(settings):
            if option.low:
                found.setdefault(option.low, set()).add(option.conf)
    assert found == {least: {*names.split()} for least, names in LEAST.items()}


def test_rooms_that_read_one_setting_agree_about_it():
    for room, settings in ROOMS:
        for option in all_options(settings):
            known = table()[option.conf].option
            if (room, option.conf) == ("broker", "statsUpdateFrequencyInSecs"):
                continue  # Our brokers measure more often than those that a balancer may watch.
            assert (option.default, option.kind, option.low, option.high) == (
                known.default,
                known.kind,
                known.low,
                known.high,
            ), f"{room} reads {option.conf} otherwise"


def test_names_are_pulsars_own():
    renamed = {"loadBalancerBandwithInResourceWeight", "loadBalancerBandwithOutResourceWeight"}
    ours = {
        "ledgerStoreUrl",  # Pulsar's messages are in BookKeeper, found by its metadata
        # Pulsar holds nothing of a throttled producer: it stops reading its connection.
        "maxThrottledPublishRequestsPerConnection",
        "maxThrottledPublishBytesPerConnection",
        # Pulsar's providers read these from broker.conf themselves.
        "tokenSecretKey",
        "tokenPublicKey",
        "tokenPublicAlg",
        "tokenAuthClaim",
        "tokenAudienceClaim",
        "tokenAudience",
        "tokenAllowedClockSkewSeconds",
        "basicAuthConf",
        # In Pulsar every client writes there unless authorization is on.
        "systemTopicsWritableByClients",
        # The shedding strategy of our own.
        "counterpoiseMovePrice",
        "counterpoiseHorizonMinutes",
        "counterpoiseMaxMovesPerRound",
    }
    assert set(table()) - broker_conf_names() <= renamed | ours
