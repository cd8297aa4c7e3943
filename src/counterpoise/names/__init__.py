"""Names and places: topics, namespaces, bundles, brokers, and the hash that connects them."""

from counterpoise.names.broker import BrokerId
from counterpoise.names.bundle import FULL_RANGE, BundleName, BundleRange, NamespaceBundles
from counterpoise.names.errors import InvalidName
from counterpoise.names.hashing import murmur3_32, sticky_key_hash, topic_hash
from counterpoise.names.namespace import SYSTEM_NAMESPACE, NamespaceName
from counterpoise.names.topic import TopicName

__all__ = [
    "FULL_RANGE",
    "SYSTEM_NAMESPACE",
    "BrokerId",
    "BundleName",
    "BundleRange",
    "InvalidName",
    "NamespaceBundles",
    "NamespaceName",
    "TopicName",
    "murmur3_32",
    "sticky_key_hash",
    "topic_hash",
]
