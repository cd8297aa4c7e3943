"""The schemas of the topics by which brokers exchange records and load data.

They equal what ``Schema.JSON`` gives for Pulsar's classes ``ServiceUnitStateData``,
``BrokerLoadData`` and ``TopBundlesLoadData``, so clients find the same schemas on these topics as
on Pulsar's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from counterpoise.names.system_topics import (
    BROKER_LOAD_DATA,
    SERVICE_UNIT_STATE,
    TOP_BUNDLES_LOAD_DATA,
)
from counterpoise.wire.proto.values_pb2 import Schema as RawSchema
from counterpoise.wire.values import Schema

_PROPERTIES: Final = (("__jsr310ConversionEnabled", "false"), ("__alwaysAllowNull", "true"))


def _json(definition: str) -> Schema:
    return Schema("", definition.encode(), RawSchema.Json, _PROPERTIES)


SCHEMAS: Final[Mapping[str, Schema]] = {
    SERVICE_UNIT_STATE: _json(
        '{"type":"record","name":"ServiceUnitStateData",'
        '"namespace":"org.apache.pulsar.broker.loadbalance.extensions.channel",'
        '"fields":[{"name":"dstBroker","type":["null","string"],"default":null},{"name":"force",'
        '"type":"boolean"},{"name":"sourceBroker","type":["null","string"],"default":null},'
        '{"name":"splitServiceUnitToDestBroker","type":["null",{"type":"map",'
        '"values":{"type":"record","name":"Optional","namespace":"java.util","fields":[]}}],'
        '"default":null},{"name":"state","type":["null",{"type":"enum","name":"ServiceUnitState",'
        '"symbols":["Init","Free","Owned","Assigning","Releasing","Splitting","Deleted"]}],'
        '"default":null},{"name":"timestamp","type":"long"},{"name":"versionId","type":"long"}]}'
    ),
    BROKER_LOAD_DATA: _json(
        '{"type":"record","name":"BrokerLoadData",'
        '"namespace":"org.apache.pulsar.broker.loadbalance.extensions.data",'
        '"fields":[{"name":"bandwidthIn","type":["null",{"type":"record","name":"ResourceUsage",'
        '"namespace":"org.apache.pulsar.policies.data.loadbalancer","fields":[{"name":"limit",'
        '"type":"double"},{"name":"usage","type":"double"}]}],"default":null},'
        '{"name":"bandwidthOut","type":["null",'
        '"org.apache.pulsar.policies.data.loadbalancer.ResourceUsage"],"default":null},'
        '{"name":"bundleCount","type":"long"},{"name":"cpu","type":["null",'
        '"org.apache.pulsar.policies.data.loadbalancer.ResourceUsage"],"default":null},'
        '{"name":"directMemory","type":["null",'
        '"org.apache.pulsar.policies.data.loadbalancer.ResourceUsage"],"default":null},'
        '{"name":"maxResourceUsage","type":"double"},{"name":"memory","type":["null",'
        '"org.apache.pulsar.policies.data.loadbalancer.ResourceUsage"],"default":null},'
        '{"name":"msgRateIn","type":"double"},{"name":"msgRateOut","type":"double"},'
        '{"name":"msgThroughputEMA","type":"double"},{"name":"msgThroughputIn","type":"double"},'
        '{"name":"msgThroughputOut","type":"double"},{"name":"reportedAt","type":"long"},'
        '{"name":"topics","type":"long"},{"name":"updatedAt","type":"long"},'
        '{"name":"weightedMaxEMA","type":"double"}]}'
    ),
    TOP_BUNDLES_LOAD_DATA: _json(
        '{"type":"record","name":"TopBundlesLoadData",'
        '"namespace":"org.apache.pulsar.broker.loadbalance.extensions.data",'
        '"fields":[{"name":"topBundlesLoadData","type":["null",{"type":"array",'
        '"items":{"type":"record","name":"BundleLoadData",'
        '"namespace":"org.apache.pulsar.broker.loadbalance.extensions.data.TopBundlesLoadData",'
        '"fields":[{"name":"bundleName","type":["null","string"],"default":null},{"name":"stats",'
        '"type":["null",{"type":"record","name":"NamespaceBundleStats",'
        '"namespace":"org.apache.pulsar.policies.data.loadbalancer",'
        '"fields":[{"name":"cacheSize","type":"long"},{"name":"consumerCount","type":"int"},'
        '{"name":"msgRateIn","type":"double"},{"name":"msgRateOut","type":"double"},'
        '{"name":"msgThroughputIn","type":"double"},{"name":"msgThroughputOut","type":"double"},'
        '{"name":"producerCount","type":"int"},{"name":"topics","type":"long"}]}],'
        '"default":null}]},"java-class":"java.util.List"}],"default":null}]}'
    ),
}
