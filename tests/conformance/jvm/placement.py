"""Which brokers Pulsar's placement strategies find equally good, request by request."""

from typing import Any

from jpype import JClass, JException

from tests.conformance.jvm.java import LOADBALANCE, POLICIES, Java, Json
from tests.conformance.jvm.load_data import LoadDataReader
from tests.conformance.jvm.transfer import EXTENSIONS, Contexts


class ModularPlacement:
    """The modular manager's strategies: one fresh instance per case, requests in order.

    Pulsar picks at random among the brokers it finds equally good, so those are the answer.
    """

    def __init__(self, java: Java) -> None:
        self._java = java
        self._reader = LoadDataReader(java)

    def answer(self, case: Json) -> Json:
        strategy = JClass(f"{LOADBALANCE}.impl.{case['strategy']}")()
        conf = self._java.conf(case["conf"])
        if "count" in case:
            self._java.peek(strategy, "count").set(case["count"])
        picks = case.get("picks") or [None] * len(case["requests"])
        return [
            self._request(strategy, conf, request, pick, bool(case["by_name"]))
            for request, pick in zip(case["requests"], picks, strict=True)
        ]

    def _request(
        self, strategy: Any, conf: Any, request: Json, pick: str | None, by_name: bool
    ) -> Json:
        java = self._java
        data = self._reader.read(request["loadData"], by_name=by_name)
        candidates = java.strings(request["candidates"])
        bundle = data.getBundleData().get(request["bundle"])
        if bundle is None:
            bundle = self._never_seen()
        remembered = self._remembered(strategy, bundle)
        try:
            chosen = strategy.selectBroker(candidates, bundle, data, conf)
        except JException as error:
            return {"throws": str(error.getClass().getName())}
        if not chosen.isPresent():
            return {"admissible": []}
        if type(strategy).__name__.endswith("AvgShedder"):
            if remembered in request["candidates"]:
                return {"admissible": [remembered]}
            return {"admissible": self._picked(strategy, conf, request, data, bundle, pick)}
        if type(strategy).__name__.endswith("RoundRobinBrokerSelector"):
            return {"admissible": [str(chosen.get())]}
        best = java.peek(strategy, "bestBrokers")
        return {"admissible": sorted(str(broker) for broker in best)}

    def _picked(
        self, strategy: Any, conf: Any, request: Json, data: Any, bundle: Any, pick: str | None
    ) -> list[str]:
        """Whom Java picks at random for a bundle that it knows no target of, asked often enough.

        Java goes on from our pick afterwards.
        """
        java = self._java
        candidates = java.strings(request["candidates"])
        known = java.peek(strategy, "bundleBrokerMap")
        found: set[str] = set()
        for _ in range(30 * len(request["candidates"])):
            known.remove(bundle)
            found.add(str(strategy.selectBroker(candidates, bundle, data, conf).get()))
            if len(found) == len(request["candidates"]):
                break
        if pick in request["candidates"]:
            known.put(bundle, java.string(pick))
        return sorted(found)

    def _remembered(self, strategy: Any, bundle: Any) -> str | None:
        if not type(strategy).__name__.endswith("AvgShedder"):
            return None
        found = self._java.peek(strategy, "bundleBrokerMap").get(bundle)
        return None if found is None else str(found)

    def _never_seen(self) -> Any:
        """What the load manager makes up for a bundle without a report."""
        average = {"msgThroughputIn": 50000, "msgThroughputOut": 50000}
        average |= {"msgRateIn": 50, "msgRateOut": 50, "numSamples": 0}
        data = {
            "shortTermData": {**average, "maxSamples": 10},
            "longTermData": {**average, "maxSamples": 1000},
            "topics": 0,
        }
        return self._java.read(data, f"{POLICIES}.BundleData")


class ExtensiblePlacement:
    """The extensible manager's only strategy; it remembers nothing."""

    def __init__(self, java: Java) -> None:
        self._java = java
        self._contexts = Contexts(java)

    def answer(self, case: Json) -> Json:
        java = self._java
        strategy = JClass(f"{EXTENSIONS}.strategy.LeastResourceUsageWithWeight")()
        conf = java.conf(case["conf"])
        answers = []
        for request in case["requests"]:
            context = self._contexts.of(request["loadData"], conf, 0, by_name=True)
            candidates = java.strings(request["candidates"])
            chosen = strategy.select(candidates, None, context)
            best = java.peek(strategy, "bestBrokers").get() if chosen.isPresent() else ()
            answers.append({"admissible": sorted(str(broker) for broker in best)})
        return answers
