"""From all brokers to one as ModularLoadManagerImpl.selectBroker goes: every filter, in order."""

from typing import Any

from jpype import JClass, JProxy

from tests.conformance.jvm.java import LOADBALANCE, NAMING, Java, Json
from tests.conformance.jvm.load_data import LoadDataReader
from tests.conformance.jvm.services import NAMESPACE_SERVICE, BundleFactory, policies_pulsar


class Selection:
    """A ModularLoadManagerImpl whose constructor never ran, its fields filled from a case.

    The placement strategy is a recorder: it notes the candidates it is given and takes the first
    by name, so that what is compared is the work of the filters.
    """

    def __init__(self, java: Java, factory: BundleFactory) -> None:
        self._java = java
        self._factory = factory
        self._reader = LoadDataReader(java)
        self._manager = JClass(f"{LOADBALANCE}.impl.ModularLoadManagerImpl")
        unit = JClass(f"{NAMING}.ServiceUnitId").class_
        self._select = self._manager.class_.getDeclaredMethod("selectBroker", unit)
        self._select.setAccessible(True)

    def answer(self, case: Json) -> Json:
        java = self._java
        seen: list[list[str]] = []
        manager = self._filled(case, seen)
        bundle = self._factory.bundle(case["bundle"])
        bundle.setHasNonPersistentTopic(not case["persistent"])
        chosen = self._select.invoke(manager, bundle)
        namespace, _, bounds = case["bundle"].rpartition("/")
        return {
            "candidates": seen,
            "broker": str(chosen.get()) if chosen.isPresent() else None,
            "mayUnload": {
                broker: bool(
                    manager.shouldAntiAffinityNamespaceUnload(
                        namespace, bounds, java.string(broker)
                    )
                )
                for broker in sorted(case["loadData"]["brokerData"])
            },
        }

    def _filled(self, case: Json, seen: list[list[str]]) -> Any:
        java = self._java
        conf = java.conf(case["conf"])
        data = self._reader.read(case["loadData"], by_name=True)
        service = java.double(
            JClass(NAMESPACE_SERVICE), {"getNamespaceBundleFactory": lambda: self._factory.factory}
        )
        pulsar = policies_pulsar(
            java, conf, case["policies"], case["groups"], {"getNamespaceService": lambda: service}
        )
        brokers = sorted(case["loadData"]["brokerData"])
        manager = java.double(self._manager, {"getAvailableBrokers": lambda: java.strings(brokers)})
        ranges = JClass(f"{LOADBALANCE}.impl.BundleRangeCache")()
        for broker, bundles in case["owned"].items():
            ranges.reloadFromBundles(broker, java.strings(bundles).stream())
        domains = JClass("java.util.HashMap")()
        for broker, domain in case["domains"].items():
            domains.put(broker, domain)
        pipeline = java.array_list()
        pipeline.add(JClass(f"{LOADBALANCE}.impl.BrokerLoadManagerClassFilter")())
        pipeline.add(JClass(f"{LOADBALANCE}.impl.BrokerVersionFilter")())
        policies = JClass(f"{LOADBALANCE}.impl.SimpleResourceAllocationPolicies")(pulsar)
        for name, value in (
            ("brokerCandidateCache", JClass("java.util.HashSet")()),
            ("loadData", data),
            ("conf", conf),
            ("pulsar", pulsar),
            ("policies", policies),
            ("filterPipeline", pipeline),
            ("brokerToNamespaceToBundleRange", ranges),
            ("brokerToFailureDomainMap", domains),
            ("placementStrategy", self._recorder(seen)),
            ("brokerTopicLoadingPredicate", self._serves(data)),
        ):
            java.put(manager, name, value)
        return manager

    def _recorder(self, seen: list[list[str]]) -> Any:
        java = self._java

        def select(candidates: Any, *_: Any) -> Any:
            names = sorted(str(name) for name in candidates)
            seen.append(names)
            return java.optional.of(java.string(names[0])) if names else java.optional.empty()

        return JProxy(f"{LOADBALANCE}.ModularLoadManagerStrategy", dict={"selectBroker": select})

    @staticmethod
    def _serves(data: Any) -> Any:
        def local(broker: Any) -> Any:
            return data.getBrokerData().get(broker).getLocalData()

        return JProxy(
            f"{LOADBALANCE}.impl.LoadManagerShared$BrokerTopicLoadingPredicate",
            dict={
                "isEnablePersistentTopics": lambda b: local(b).isPersistentTopicsEnabled(),
                "isEnableNonPersistentTopics": lambda b: local(b).isNonPersistentTopicsEnabled(),
            },
        )
