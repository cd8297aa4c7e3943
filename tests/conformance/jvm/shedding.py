"""What Pulsar's shedding strategies of the modular load manager answer, line by line."""

from typing import Any

from jpype import JClass, JException

from tests.conformance.jvm.java import LOADBALANCE, Java, Json
from tests.conformance.jvm.load_data import LoadDataReader


class ModularShedding:
    """One fresh strategy instance per case; it sees the case's lines in order."""

    def __init__(self, java: Java) -> None:
        self._java = java
        self._reader = LoadDataReader(java)

    def answer(self, case: Json) -> Json:
        java = self._java
        strategy = JClass(f"{LOADBALANCE}.impl.{case['strategy']}")()
        conf = java.conf(case["conf"])
        by_name = bool(case["by_name"])
        if by_name and case["strategy"] == "AvgShedder":
            java.put(strategy, "brokerScoreMap", java.tree_map())
        return [self._line(strategy, conf, line, by_name) for line in case["lines"]]

    def _line(self, strategy: Any, conf: Any, line: Json, by_name: bool) -> Json:
        java = self._java
        if "activeBrokers" in line:
            strategy.onActiveBrokersChange(java.strings(line["activeBrokers"]))
        data = self._reader.read(line, by_name=by_name)
        try:
            chosen = strategy.findBundlesForUnloading(data, conf)
        except JException as error:
            return {"throws": str(error.getClass().getName())}
        answer = {"bundles": java.write(chosen.asMap())}
        if type(strategy).__name__.endswith("AvgShedder"):
            answer["targets"] = self._targets(strategy, data, answer["bundles"])
        return answer

    def _targets(self, strategy: Any, data: Any, chosen: Json) -> Json:
        """Where each unloaded bundle is bound for, as a placement right after would learn it."""
        bound = self._java.peek(strategy, "bundleBrokerMap")
        return {
            bundle: str(bound.get(data.getBundleData().get(bundle)))
            for bundles in chosen.values()
            for bundle in bundles
        }
