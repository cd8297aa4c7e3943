"""Our names, hashes and rings on a case."""

from typing import Any

from counterpoise.names.bundle import NamespaceBundles, split_points
from counterpoise.names.errors import InvalidName
from counterpoise.names.hashing import murmur3_32, topic_hash
from counterpoise.names.namespace import NamespaceName
from counterpoise.names.topic import TopicName
from tests.conformance.suite import Answer, Case


def names(case: Case) -> Answer:
    return {
        "parsed": [_parsed(text) for text in case["names"]],
        "murmur": [murmur3_32(key.encode()) for key in case["keys"]],
        "ring": _ring(case),
    }


def _parsed(text: str) -> Any:
    try:
        name = TopicName.parse(text)
    except InvalidName:
        return None
    return {
        "name": str(name),
        "namespace": str(name.namespace_name),
        "partition": name.partition_index,
        "partitioned": str(name.partitioned_name),
        "encoded": name.encoded_local_name,
        "hash": topic_hash(str(name)),
    }


def _ring(case: Case) -> Any:
    namespace = NamespaceName.parse(case["namespace"])
    if case["boundaries"] is None:
        bundles = NamespaceBundles.of_count(namespace, case["count"])
    else:
        bundles = NamespaceBundles.from_text(namespace, case["boundaries"])
    target = bundles.bundles[case["target"] % len(bundles.bundles)]
    try:
        points = split_points(target.range, case["positions"], case["parts"])
        after = bundles.split(target.range, points)
        children = [str(child) for child in after.children(target.range)]
    except InvalidName:
        children = None
    return {
        "boundaries": list(bundles.boundaries),
        "bundles": [str(bundle) for bundle in bundles.bundles],
        "of": [str(bundles.bundle_of(TopicName.parse(topic))) for topic in case["topics"]],
        "cut": children,
    }
