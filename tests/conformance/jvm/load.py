"""Pulsar's load data as it grows: averages, reports, usage, sample by sample."""

from typing import Any

from jpype import JClass

from tests.conformance.jvm.java import LOADBALANCE, POLICIES, Java, Json
from tests.conformance.jvm.splitting import STATS
from tests.conformance.jvm.transfer import EXTENSIONS


class Load:
    """Feeds a case's samples to Pulsar's classes and shows them after each."""

    def __init__(self, java: Java) -> None:
        self._java = java

    def answer(self, case: Json) -> Json:
        java = self._java
        samples = [java.read(sample, STATS) for sample in case["samples"]]
        conf = java.conf(case["conf"])
        return {
            "bundle": self._bundle(samples),
            "average": self._average(samples, case["maxSamples"]),
            "broker": self._broker(case),
            "report": self._reports(case["reports"], conf),
            "load": self._loads(case["reports"], samples, conf),
        }

    def _bundle(self, samples: list[Any]) -> Json:
        data = JClass(f"{POLICIES}.BundleData")(10, 1000)
        out = []
        for sample in samples:
            data.update(sample)
            out.append(self._java.write(data))
        return out

    def _average(self, samples: list[Any], most: int) -> Json:
        average = JClass(f"{POLICIES}.TimeAverageMessageData")(most)
        out = []
        for sample in samples:
            average.update(sample)
            out.append(self._java.write(average))
        return out

    def _broker(self, case: Json) -> Json:
        java = self._java
        known = java.read_map(case["known"], f"{POLICIES}.BundleData")
        default = java.read(case["samples"][0], STATS)
        total = JClass(f"{POLICIES}.TimeAverageBrokerData")()
        total.reset(java.strings(case["owned"]), known, default)
        return java.write(total)

    def _usage(self, report: Json) -> Any:
        return self._java.read(report["usage"], f"{POLICIES}.SystemResourceUsage")

    def _reports(self, reports: Json, conf: Any) -> Json:
        java = self._java
        data = JClass(f"{POLICIES}.LocalBrokerData")()
        out = []
        for report in reports:
            data.update(self._usage(report), java.read_map(report["stats"], STATS))
            written = java.write(data)
            written["weighted"] = float(
                data.getMaxResourceUsageWithWeight(
                    conf.getLoadBalancerCPUResourceWeight(),
                    conf.getLoadBalancerDirectMemoryResourceWeight(),
                    conf.getLoadBalancerBandwidthInResourceWeight(),
                    conf.getLoadBalancerBandwidthOutResourceWeight(),
                )
            )
            out.append(written)
            if report["written"]:
                data.cleanDeltas()
        return out

    def _loads(self, reports: Json, samples: list[Any], conf: Any) -> Json:
        data = JClass(f"{EXTENSIONS}.data.BrokerLoadData")()
        out = []
        for report in reports:
            sample = samples[0]
            data.update(
                self._usage(report),
                sample.msgThroughputIn,
                sample.msgThroughputOut,
                sample.msgRateIn,
                sample.msgRateOut,
                len(report["stats"]),
                sample.topics,
                conf,
            )
            out.append(self._java.write(data))
        return out


class ReportChange:
    """Whether ModularLoadManagerImpl would write its report again, by what changed since."""

    def __init__(self, java: Java) -> None:
        self._java = java
        self._manager = JClass(f"{LOADBALANCE}.impl.ModularLoadManagerImpl")
        self._needs = self._manager.class_.getDeclaredMethod("needBrokerDataUpdate")
        self._needs.setAccessible(True)
        self._system = JClass("java.lang.System")

    def answer(self, case: Json) -> Json:
        java = self._java
        manager = java.bare(self._manager)
        java.put(manager, "conf", java.conf(case["conf"]))
        for name, report in (("lastData", case["written"]), ("localData", case["now"])):
            data = java.read(report, f"{POLICIES}.LocalBrokerData")
            data.setLastUpdate(int(self._system.currentTimeMillis()) - case["age"])
            java.put(manager, name, data)
        return {"needed": bool(self._needs.invoke(manager))}
