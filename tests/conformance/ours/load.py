"""Our load data on a case's samples."""

import dataclasses
from typing import Any

import numpy as np

from counterpoise.broker.load.change import needs_update
from counterpoise.broker.load.config import LoadReportConfig
from counterpoise.decide.weights import ResourceWeights
from counterpoise.load.average import BundleData, TimeAverageMessageData, fold_samples
from counterpoise.load.broker_average import TimeAverageBrokerData
from counterpoise.load.extensible import BrokerLoadData
from counterpoise.load.fields import from_json, to_json
from counterpoise.load.report import LocalBrokerData, NamespaceBundleStats, SystemResourceUsage
from counterpoise.load.usage import percent_of, weighted_max
from counterpoise.names.options import from_conf
from tests.conformance.ours.shedding import conf_text
from tests.conformance.suite import Answer, Case


def load(case: Case) -> Answer:
    samples = [NamespaceBundleStats.from_json(sample) for sample in case["samples"]]
    weights = from_conf(ResourceWeights, conf_text(case["conf"]))
    history = float(case["conf"].get("loadBalancerHistoryResourcePercentage", 0.9))
    known = {name: BundleData.from_json(data) for name, data in case["known"].items()}
    return {
        "bundle": _grown(BundleData.empty(), samples),
        "average": _folded(case["maxSamples"], samples),
        "broker": TimeAverageBrokerData.of(case["owned"], known, samples[0]).to_json(),
        "report": _reports(case["reports"], weights.modular),
        "load": _loads(case["reports"], samples[0], weights.extensible, history),
    }


def change(case: Case) -> Answer:
    """Whether a broker would write its report again."""
    config = from_conf(LoadReportConfig, conf_text(case["conf"]))
    weights = from_conf(ResourceWeights, conf_text(case["conf"]))
    config = dataclasses.replace(config, weights=weights)
    written, now = (LocalBrokerData.from_json(case[name]) for name in ("written", "now"))
    return {"needed": bool(needs_update(written, now, case["age"], config))}


def _grown(average: Any, samples: list[NamespaceBundleStats]) -> Any:
    out = []
    for sample in samples:
        average = average.updated(sample)
        out.append(to_json(average))
    return out


def _folded(most: int, samples: list[NamespaceBundleStats]) -> Any:
    """The averages by the columnar fold, which the pipeline uses: two bundles, the same samples."""
    counts = np.zeros(2, dtype=np.int64)
    values = np.zeros((2, 4))
    out = []
    for sample in samples:
        row = (sample.msg_throughput_in, sample.msg_throughput_out)
        row += (sample.msg_rate_in, sample.msg_rate_out)
        counts, values = fold_samples(counts, values, np.array([row, row]), most)
        assert counts[0] == counts[1]
        out.append(to_json(TimeAverageMessageData(most, int(counts[0]), *values[1].tolist())))
    return out


def _usage(report: Any) -> SystemResourceUsage:
    return from_json(SystemResourceUsage, report["usage"], "usage")


def _reports(reports: Any, weights: Any) -> Any:
    data = LocalBrokerData()
    out = []
    for report in reports:
        stats = {name: NamespaceBundleStats.from_json(s) for name, s in report["stats"].items()}
        usage = _usage(report)
        data = data.updated(usage, stats, 1)
        each = [getattr(usage, field.name) for field in dataclasses.fields(usage)]
        columns = np.array([[u.usage for u in each], [u.limit for u in each]], dtype=np.float64)
        percent = percent_of(columns[0], columns[1])
        written = data.to_json()
        written["weighted"] = float(weighted_max(percent[np.newaxis], weights)[0])
        out.append(written)
        if report["written"]:
            data = data.without_deltas()
    return out


def _loads(reports: Any, traffic: NamespaceBundleStats, weights: Any, history: float) -> Any:
    data = BrokerLoadData()
    out = []
    for report in reports:
        count = len(report["stats"])
        data = data.updated(
            _usage(report), traffic, count, weights=weights, history=history, now_ms=1
        )
        out.append(data.to_json())
    return out
