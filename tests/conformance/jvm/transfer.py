"""What Pulsar's TransferShedder answers, line by line."""

from collections.abc import Iterator
from typing import Any

from jpype import JClass, JImplements, JOverride, JProxy

from tests.conformance.jvm.java import LOADBALANCE, Java, Json
from tests.conformance.jvm.services import NAMESPACE_SERVICE, BundleFactory, extensible_pulsar

EXTENSIONS = f"{LOADBALANCE}.extensions"
RULES = ("owners", "bundlesWithPolicies", "allowedBrokers")


class Transfer:
    """TransferShedder; a case with rules gets ownership, policies and broker filters too."""

    def __init__(self, java: Java, factory: BundleFactory) -> None:
        self._java = java
        self._factory = factory
        self._contexts = Contexts(java)
        self._system = JClass("java.lang.System")

    def answer(self, case: Json) -> Json:
        counter = JClass(f"{EXTENSIONS}.models.UnloadCounter")()
        shedder = self._shedder(case, counter)
        conf = self._java.conf(case["conf"])
        return [
            self._line(shedder, counter, conf, line, bool(case["by_name"]))
            for line in self._each(case)
        ]

    def _each(self, case: Json) -> Iterator[Json]:
        for line in case["lines"]:
            self._now = line
            yield line

    def _shedder(self, case: Json, counter: Any) -> Any:
        java = self._java
        cls = JClass(f"{EXTENSIONS}.scheduler.TransferShedder")
        if not any(key in line for line in case["lines"] for key in RULES):
            return cls(counter)
        helper = java.double(
            JClass(f"{EXTENSIONS}.policies.AntiAffinityGroupPolicyHelper"),
            {
                "hasAntiAffinityGroupPolicy": lambda bundle: (
                    str(bundle) in self._now.get("bundlesWithPolicies", ())
                )
            },
        )
        channel = JProxy(
            f"{EXTENSIONS}.channel.ServiceUnitStateChannel", dict={"isOwner": self._is_owner}
        )
        pulsar = extensible_pulsar(java, channel, {"getNamespaceService": self._namespaces})
        pipeline = java.array_list()
        pipeline.add(
            JProxy(f"{EXTENSIONS}.filter.BrokerFilter", dict={"filterAsync": self._filter})
        )
        return cls(pulsar, counter, pipeline, None, helper)

    def _namespaces(self) -> Any:
        return self._java.double(
            JClass(NAMESPACE_SERVICE), {"getNamespaceBundleFactory": lambda: self._factory.factory}
        )

    def _is_owner(self, bundle: Any, broker: Any) -> bool:
        owners = self._now.get("owners")
        return owners is None or owners.get(str(bundle)) == str(broker)

    def _filter(self, candidates: Any, bundle: Any, _: Any) -> Any:
        allowed = self._now.get("allowedBrokers", {}).get(str(bundle))
        if allowed is not None:
            candidates.keySet().retainAll(self._java.strings(allowed))
        return self._java.future.completedFuture(candidates)

    def _line(self, shedder: Any, counter: Any, conf: Any, line: Json, by_name: bool) -> Json:
        java = self._java
        # The class reads the wall clock: every time of the line moves by the same distance.
        shift = int(self._system.currentTimeMillis()) - line["now"]
        context = self._contexts.of(line, conf, shift, by_name=by_name)
        recent_bundles = java.tree_map()
        for bundle, when in line.get("recentlyUnloadedBundles", {}).items():
            recent_bundles.put(bundle, java.long(when + shift))
        recent_brokers = java.tree_map()
        for broker, when in line.get("recentlyUnloadedBrokers", {}).items():
            recent_brokers.put(broker, java.long(when + shift))
        before = self._cells(counter)
        chosen = shedder.findBundlesForUnloading(context, recent_bundles, recent_brokers)
        after = self._cells(counter)
        decisions = []
        for decision in chosen:
            unload = decision.getUnload()
            target = unload.destBroker()
            decisions.append(
                [
                    str(unload.sourceBroker()),
                    str(unload.serviceUnit()),
                    str(target.get()) if target.isPresent() else None,
                    str(decision.getReason()),
                ]
            )
        return {
            "decisions": sorted(decisions, key=repr),
            "counted": sorted(cell for cell in after if after[cell] != before[cell]),
            "recentlyUnloadedBrokers": sorted(str(b) for b in recent_brokers.keySet()),
        }

    @staticmethod
    def _cells(counter: Any) -> dict[str, int]:
        return {
            f"{row.getKey()}/{cell.getKey()}": int(cell.getValue().get())
            for row in counter.getBreakdownCounters().entrySet()
            for cell in row.getValue().entrySet()
        }


class Contexts:
    """LoadManagerContext objects: registry and load stores filled from a line."""

    def __init__(self, java: Java) -> None:
        self._java = java
        self._lookup = JClass(f"{EXTENSIONS}.data.BrokerLookupData")

    def of(self, line: Json, conf: Any, shift: int, *, by_name: bool) -> Any:
        java = self._java
        brokers = line["brokers"]
        names = sorted(brokers) if by_name else list(brokers)
        table = java.linked_map if by_name else JClass("java.util.concurrent.ConcurrentHashMap")
        loads, tops, available = table(), table(), table()
        for name in names:
            report = dict(brokers[name].get("brokerLoadData") or {})
            if report:
                report["updatedAt"] = report.get("updatedAt", 0) + shift
                loads.put(name, java.read(report, f"{EXTENSIONS}.data.BrokerLoadData"))
            top = brokers[name].get("topBundlesLoadData")
            if top is not None:
                tops.put(name, java.read(top, f"{EXTENSIONS}.data.TopBundlesLoadData"))
        for name in line.get("availableBrokers", names):
            available.put(name, java.bare(self._lookup))
        return _Context(java, conf, loads, tops, available)


@JImplements(f"{EXTENSIONS}.LoadManagerContext", deferred=True)
class _Context:
    def __init__(self, java: Java, conf: Any, loads: Any, tops: Any, available: Any) -> None:
        self._conf = conf
        self._loads = _Store(java, loads)
        self._tops = _Store(java, tops)
        self._registry = _Registry(java, available)

    @JOverride
    def brokerConfiguration(self) -> Any:
        return self._conf

    @JOverride
    def brokerLoadDataStore(self) -> Any:
        return self._loads

    @JOverride
    def topBundleLoadDataStore(self) -> Any:
        return self._tops

    @JOverride
    def brokerRegistry(self) -> Any:
        return self._registry


def _Store(java: Java, table: Any) -> Any:
    """A LoadDataStore that reads `table`."""
    answers = {
        "get": lambda key: java.optional.ofNullable(table.get(key)),
        "entrySet": table.entrySet,
        "forEach": table.forEach,
        "size": table.size,
    }

    return JProxy(f"{EXTENSIONS}.store.LoadDataStore", dict=answers)


def _Registry(java: Java, available: Any) -> Any:
    """A BrokerRegistry in which exactly `available` brokers are registered."""

    answers = {
        "getAvailableBrokerLookupDataAsync": lambda: java.future.completedFuture(available),
        "getBrokerId": lambda: java.string("judge:8080"),
    }
    return JProxy(f"{EXTENSIONS}.BrokerRegistry", dict=answers)
