"""How long Pulsar's placement strategies take on load data already in memory."""

import time
from typing import Any

from jpype import JClass

from tests.conformance.jvm.java import LOADBALANCE, Java, Json
from tests.conformance.jvm.load_data import LoadDataReader
from tests.conformance.jvm.transfer import EXTENSIONS


class PlacementTime:
    """The best of many calls of one strategy, after as many to warm up.

    Load data with ``brokers`` is for the extensible manager's strategy.
    """

    def __init__(self, java: Java) -> None:
        self._java = java
        self._reader = LoadDataReader(java)

    def answer(self, case: Json) -> Json:
        extensible = "brokers" in case["loadData"]
        select, arguments = self._extensible(case) if extensible else self._modular(case)
        best = float("inf")
        for _ in range(2 * case["rounds"]):
            started = time.perf_counter()
            select(*arguments)
            best = min(best, time.perf_counter() - started)
        return {"seconds": best}

    def _modular(self, case: Json) -> tuple[Any, tuple[Any, ...]]:
        java = self._java
        strategy = JClass(f"{LOADBALANCE}.impl.{case['strategy']}")()
        data = self._reader.read(case["loadData"], by_name=False)
        bundle = data.getBundleData().values().iterator().next()
        candidates = java.strings(case["candidates"])
        return strategy.selectBroker, (candidates, bundle, data, java.conf({}))

    def _extensible(self, case: Json) -> tuple[Any, tuple[Any, ...]]:
        java = self._java
        strategy = JClass(f"{EXTENSIONS}.strategy.LeastResourceUsageWithWeight")()
        conf = java.conf({})
        builder = JClass(f"{EXTENSIONS}.LoadManagerContextImpl").builder()
        store = self._store(case["loadData"]["brokers"], conf)
        context = builder.brokerLoadDataStore(store).configuration(conf).build()
        return strategy.select, (java.strings(case["candidates"]), None, context)

    def _store(self, brokers: Json, conf: Any) -> Any:
        """Pulsar's own store as it is once all brokers have published, but without a topic.

        A stand-in that answers from Python would be timed along with the strategy.
        """
        java = self._java
        table = JClass("java.util.concurrent.ConcurrentHashMap")()
        for name, records in brokers.items():
            load = java.read(records["brokerLoadData"], f"{EXTENSIONS}.data.BrokerLoadData")
            table.put(java.string(name), load)
        view = java.bare(JClass("org.apache.pulsar.client.impl.TableViewImpl"))
        java.put(view, "data", table)
        store = java.bare(JClass(f"{EXTENSIONS}.store.TableViewLoadDataStoreImpl"))
        java.put(store, "tableView", view)
        java.put(store, "conf", conf)
        java.put(store, "tableViewLastUpdateTimestamp", int(time.time() * 1000))
        return store
