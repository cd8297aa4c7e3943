"""How long Pulsar's placement strategies take on load data already in memory."""

import time

from jpype import JClass

from tests.conformance.jvm.java import LOADBALANCE, Java, Json
from tests.conformance.jvm.load_data import LoadDataReader


class PlacementTime:
    """The best of many calls of one strategy, after as many to warm up."""

    def __init__(self, java: Java) -> None:
        self._java = java
        self._reader = LoadDataReader(java)

    def answer(self, case: Json) -> Json:
        java = self._java
        strategy = JClass(f"{LOADBALANCE}.impl.{case['strategy']}")()
        conf = java.conf({})
        data = self._reader.read(case["loadData"], by_name=False)
        bundle = data.getBundleData().values().iterator().next()
        candidates = java.strings(list(case["loadData"]["brokerData"]))
        best = float("inf")
        for _ in range(2 * case["rounds"]):
            started = time.perf_counter()
            strategy.selectBroker(candidates, bundle, data, conf)
            best = min(best, time.perf_counter() - started)
        return {"seconds": best}
