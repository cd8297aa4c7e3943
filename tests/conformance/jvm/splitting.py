"""Where Pulsar's algorithms cut a bundle, and when its two load managers split one."""

from typing import Any

from jpype import JClass, JException, JProxy

from tests.conformance.jvm import services
from tests.conformance.jvm.java import LOADBALANCE, NAMING, Java, Json
from tests.conformance.jvm.load_data import LoadDataReader
from tests.conformance.jvm.transfer import EXTENSIONS

STATS = "org.apache.pulsar.policies.data.loadbalancer.NamespaceBundleStats"


class Algorithms:
    """The four split algorithms over a bundle's topics."""

    def __init__(self, java: Java, factory: services.BundleFactory) -> None:
        self._java = java
        self._factory = factory

    def answer(self, case: Json) -> Json:
        java = self._java
        conf = java.conf(case["conf"])
        topics = case["topics"]
        _, service = services.namespace_service(
            java, self._factory.factory, conf, lambda _: topics, lambda _: 1
        )
        bundle = self._factory.bundle(case["bundle"])
        positions = None
        if case["boundaries"] is not None:
            positions = java.array_list()
            for position in case["boundaries"]:
                positions.add(java.long(position))
        if case["algorithm"].startswith("flow"):
            option = JClass(f"{NAMING}.FlowOrQpsEquallyDivideBundleSplitOption")(
                service,
                bundle,
                positions,
                services.topic_stats(java, topics),
                conf.getLoadBalancerNamespaceBundleMaxMsgRate(),
                conf.getLoadBalancerNamespaceBundleMaxBandwidthMbytes(),
                conf.getFlowOrQpsDifferenceThresholdPercentage(),
            )
        else:
            option = JClass(f"{NAMING}.BundleSplitOption")(service, bundle, positions)
        algorithm = JClass(f"{NAMING}.NamespaceBundleSplitAlgorithm").of(case["algorithm"])
        try:
            found = algorithm.getSplitBoundary(option).get()
        except JException as error:
            return {"throws": str(error.getClass().getName())}
        return {"boundaries": [int(point) for point in found] if found is not None else []}


class ModularTask:
    """BundleSplitterTask: what the leader under the modular manager splits."""

    def __init__(self, java: Java, factory: services.BundleFactory) -> None:
        self._java = java
        self._factory = factory
        self._reader = LoadDataReader(java)

    def answer(self, case: Json) -> Json:
        java = self._java
        conf = java.conf(case["conf"])
        counts = case["counts"]
        pulsar, _ = services.namespace_service(
            java, self._factory.factory, conf, lambda _: {}, lambda ns: counts[str(ns)]
        )
        task = JClass(f"{LOADBALANCE}.impl.BundleSplitterTask")()
        data = self._reader.read(case["loadData"], by_name=True)
        return java.write(task.findBundlesToSplit(data, pulsar))


class ExtensibleStrategy:
    """DefaultNamespaceBundleSplitStrategyImpl: what a broker splits of its own (extensible)."""

    def __init__(self, java: Java, factory: services.BundleFactory) -> None:
        self._java = java
        self._factory = factory

    def answer(self, case: Json) -> Json:
        counter = JClass(f"{EXTENSIONS}.models.SplitCounter")()
        strategy = JClass(f"{EXTENSIONS}.strategy.DefaultNamespaceBundleSplitStrategyImpl")(counter)
        conf = self._java.conf(case["conf"])
        return [self._line(strategy, counter, conf, line) for line in case["lines"]]

    def _line(self, strategy: Any, counter: Any, conf: Any, line: Json) -> Json:
        java = self._java
        _, service = services.namespace_service(
            java,
            self._factory.factory,
            conf,
            lambda bundle: line["topics"].get(str(bundle), {}),
            lambda namespace: line["counts"][str(namespace)],
        )
        stats = java.read_map(line["stats"], STATS)
        brokers = java.double(
            JClass("org.apache.pulsar.broker.service.BrokerService"),
            {"getBundleStats": lambda: stats},
        )
        pulsar = services.extensible_pulsar(
            java,
            self._channel(line),
            {
                "getConfiguration": lambda: conf,
                "getNamespaceService": lambda: service,
                "getBrokerService": lambda: brokers,
            },
        )
        registry = JProxy(
            f"{EXTENSIONS}.BrokerRegistry", dict={"getBrokerId": lambda: java.string("me:8080")}
        )
        context = JProxy(
            f"{EXTENSIONS}.LoadManagerContext",
            dict={"brokerConfiguration": lambda: conf, "brokerRegistry": lambda: registry},
        )
        before = self._failures(counter)
        try:
            chosen = strategy.findBundlesToSplit(context, pulsar)
        except JException as error:
            return {"throws": str(error.getClass().getName())}
        decisions = []
        for decision in chosen:
            split = decision.getSplit()
            children = sorted(str(child) for child in split.splitServiceUnitToDestBroker().keySet())
            decisions.append([str(split.serviceUnit()), children, str(decision.getReason())])
        return {"decisions": sorted(decisions), "failures": self._failures(counter) - before}

    def _channel(self, line: Json) -> Any:
        """A bundle state channel that knows which bundles are owned and which are splitting."""
        state = JClass(f"{EXTENSIONS}.channel.ServiceUnitState").Splitting
        data = JClass(f"{EXTENSIONS}.channel.ServiceUnitStateData")
        entries = self._java.linked_map()
        for bundle in line["splitting"]:
            entries.put(bundle, data(state, "other:8080", "other:8080", 1))
        return JProxy(
            f"{EXTENSIONS}.channel.ServiceUnitStateChannel",
            dict={
                "getOwnershipEntrySet": entries.entrySet,
                "isOwner": lambda bundle: str(bundle) in line["owned"],
            },
        )

    def _failures(self, counter: Any) -> int:
        rows = self._java.peek(counter, "breakdownCounters")
        return sum(
            int(cell.getValue().get())
            for row in rows.entrySet()
            if str(row.getKey()) == "Failure"
            for cell in row.getValue().entrySet()
        )
