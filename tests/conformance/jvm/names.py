"""What Pulsar makes of names: topics, hashes, rings of bundles and their cuts."""

from typing import Any

from jpype import JClass, JException

from tests.conformance.jvm.java import NAMING, Java, Json
from tests.conformance.jvm.services import BundleFactory


class Names:
    """Topic names, the ring of a namespace, where topics lie on it and how it is split."""

    def __init__(self, java: Java, factory: BundleFactory) -> None:
        self._java = java
        self._factory = factory
        self._topic = JClass(f"{NAMING}.TopicName")
        self._murmur = JClass("org.apache.pulsar.common.util.Murmur3_32Hash").getInstance()
        self._initial = JClass("org.apache.pulsar.common.policies.data.PoliciesUtil").getBundles

    def answer(self, case: Json) -> Json:
        return {
            "parsed": [self._parsed(text) for text in case["names"]],
            "murmur": [
                int(self._murmur.makeHash(self._java.string(key).getBytes("UTF-8")))
                for key in case["keys"]
            ],
            "ring": self._ring(case),
        }

    def _parsed(self, text: str) -> Json:
        try:
            name = self._topic.get(text)
        except JException:
            return None
        return {
            "name": str(name),
            "namespace": str(name.getNamespace()),
            "partition": int(name.getPartitionIndex()),
            "partitioned": str(name.getPartitionedTopicName()),
            "encoded": str(name.getEncodedLocalName()),
            "hash": int(self._factory.factory.getLongHashCode(str(name))),
        }

    def _ring(self, case: Json) -> Json:
        namespace = case["namespace"]
        boundaries = case["boundaries"]
        if boundaries is None:
            listed = self._initial(case["count"]).getBoundaries()
            boundaries = [str(boundary) for boundary in listed]
        try:
            bundles = self._factory.bundles(namespace, boundaries)
        except JException:
            return None
        return {
            "boundaries": [int(point) for point in self._java.peek(bundles, "partitions")],
            "bundles": [str(bundle) for bundle in bundles.getBundles()],
            "of": [str(bundles.findBundle(self._topic.get(t))) for t in case["topics"]],
            "cut": self._cut(bundles, case),
        }

    def _cut(self, bundles: Any, case: Json) -> Json:
        """The children of one bundle cut in parts or at boundaries; None when Pulsar refuses."""
        listed = bundles.getBundles()
        target = listed.get(case["target"] % listed.size())
        positions = None
        if case["positions"] is not None:
            positions = self._java.array_list()
            for position in case["positions"]:
                positions.add(self._java.long(position))
        try:
            found = self._factory.factory.splitBundles(target, case["parts"], positions).get()
        except JException:
            return None
        return [str(child) for child in found.getRight()]
