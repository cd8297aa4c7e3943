"""Our load data on a case's samples."""

import dataclasses
from typing import Any

import numpy as np

from counterpoise.broker.load.change import needs_update
from counterpoise.broker.load.config import LoadReportConfig
from counterpoise.decide.weights import ResourceWeights
from counterpoise.load.average import BundleData, TimeAverageMessageData, fold_samples
from counterpoise.load.broker_average import broker_averages
from counterpoise.load.extensible import BrokerLoadData
from counterpoise.load.fields import from_json, to_json
from counterpoise.load.fold import Batch, FoldState, fold
from counterpoise.load.fold_view import cluster_view
from counterpoise.load.measured import measured_of
from counterpoise.load.poll_rows import Fetched, poll_rows
from counterpoise.load.remembered import reported_bundles, with_averages
from counterpoise.load.report import LocalBrokerData, NamespaceBundleStats, SystemResourceUsage
from counterpoise.load.rows import RATES
from counterpoise.load.usage import percent_of, weighted_max
from counterpoise.names.options import from_conf
from tests.conformance.ours.shedding import conf_text
from tests.conformance.suite import Answer, Case

_BROKER = "b:1"


def load(case: Case) -> Answer:
    samples = [NamespaceBundleStats.from_json(sample) for sample in case["samples"]]
    weights = from_conf(ResourceWeights, conf_text(case["conf"]))
    history = float(case["conf"].get("loadBalancerHistoryResourcePercentage", 0.9))
    return {
        "bundle": _grown(samples),
        "average": _folded(case["maxSamples"], samples),
        "broker": _summed(case, samples[0]),
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


def _seen(before: FoldState, number: int, stats: dict[str, NamespaceBundleStats]) -> FoldState:
    """The state after one more report of one broker."""
    report = LocalBrokerData(last_stats=stats)
    said = Fetched(_BROKER, number, measured_of(report), fresh=True)
    return fold(before, Batch.of(poll_rows(number, "", [said])))


def _grown(samples: list[NamespaceBundleStats]) -> Any:
    """A bundle's averages by the whole fold of reports, sample by sample."""
    state, out = FoldState.empty(), []
    for number, sample in enumerate(samples, 1):
        state = _seen(state, number, {"x": sample})
        out.append(reported_bundles(state)["x"].to_json())
    return out


def _summed(case: Case, default: NamespaceBundleStats) -> Any:
    """A broker's averages by the view; what nothing is known of has the default in both terms."""
    rates = {name: getattr(default, name) for name in RATES}
    assumed = TimeAverageMessageData(1, 1, **rates)
    known = {name: BundleData(assumed, assumed) for name in case["owned"]}
    known |= {name: BundleData.from_json(data) for name, data in case["known"].items()}
    averages = with_averages(FoldState.empty(), known, 0).averages
    served = _seen(FoldState.empty(), 1, dict.fromkeys(case["owned"], default))
    state = FoldState(averages, served.served, served.brokers)
    return broker_averages(cluster_view(state, 1))[_BROKER].to_json()


def _folded(most: int, samples: list[NamespaceBundleStats]) -> Any:
    """The averages by the arithmetic of columns: two bundles, the same samples."""
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
        measured = LocalBrokerData().updated(_usage(report), {"all": traffic}, 1)
        # The totals as they are: a sum that begins with 0.0 has no negative zero.
        totals = {name: getattr(traffic, name) for name in RATES}
        measured = dataclasses.replace(measured, num_bundles=len(report["stats"]), **totals)
        data = data.updated(measured, weights=weights, history=history, now_ms=1)
        out.append(data.to_json())
    return out
