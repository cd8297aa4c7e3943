"""Pulsar's LoadData from the JSON of a line, in Java's own table order or in the order of names."""

from typing import Any

from jpype import JClass

from tests.conformance.jvm.java import LOADBALANCE, POLICIES, Java, Json


class LoadDataReader:
    """Builds LoadData objects.

    `by_name=False` gives Pulsar's own class. `by_name=True` gives a subclass of it whose tables
    iterate in the order of names: one of the orders Java's hash tables might have had, and the one
    in which "by value, then name" is the exact answer.
    """

    def __init__(self, java: Java) -> None:
        self._java = java
        self._load_data = JClass(f"{LOADBALANCE}.LoadData")
        self._broker_data = JClass(f"{POLICIES}.BrokerData")

    def read(self, line: Json, *, by_name: bool) -> Any:
        java = self._java
        plain = self._load_data()
        bundles = java.read_map(line.get("bundleData", {}), f"{POLICIES}.BundleData")
        plain.getBundleData().putAll(bundles)
        for bundle, when in line.get("recentlyUnloadedBundles", {}).items():
            plain.getRecentlyUnloadedBundles().put(bundle, java.long(when))
        brokers = line.get("brokerData", {})
        local = {name: data["localData"] for name, data in brokers.items()}
        reports = java.read_map(local, f"{POLICIES}.LocalBrokerData")
        for entry in reports.entrySet():
            name = str(entry.getKey())
            data = self._broker_data(entry.getValue())
            self._fill(data, brokers[name], by_name=by_name)
            plain.getBrokerData().put(entry.getKey(), data)
        return self._ordered(plain) if by_name else plain

    def _fill(self, data: Any, source: Json, *, by_name: bool) -> None:
        average = source.get("timeAverageData")
        if average is not None:
            data.setTimeAverageData(self._java.read(average, f"{POLICIES}.TimeAverageBrokerData"))
        preallocated = source.get("preallocatedBundleData")
        if preallocated:
            parsed = self._java.read_map(preallocated, f"{POLICIES}.BundleData")
            if by_name:  # their rates are summed in the order of this table: that of the JSON
                self._java.put(data, "preallocatedBundleData", parsed)
            else:
                data.getPreallocatedBundleData().putAll(parsed)

    def _ordered(self, plain: Any) -> Any:
        java = self._java
        brokers = java.tree_map(plain.getBrokerData())
        bundles = java.tree_map(plain.getBundleData())
        candidates = java.tree_map(plain.getBundleDataForLoadShedding())
        recent = java.tree_map(plain.getRecentlyUnloadedBundles())
        return java.double(
            self._load_data,
            {
                "getBrokerData": lambda: brokers,
                "getBundleData": lambda: bundles,
                "getBundleDataForLoadShedding": lambda: candidates,
                "getRecentlyUnloadedBundles": lambda: recent,
            },
        )
