"""Reads one line of load data, Pulsar's ``LoadData`` as JSON, into a :class:`ClusterView`.

The columns are taken from the parsed objects directly. If that fails, the line is read again by the
report classes, which are slower and name the invalid field.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from counterpoise.load import fields
from counterpoise.load.average import BundleData
from counterpoise.load.broker_average import TimeAverageBrokerData
from counterpoise.load.rates import Indices, Rates, sequential_sum
from counterpoise.load.report import LocalBrokerData
from counterpoise.load.usage import RESOURCES, percent_of
from counterpoise.load.view import BrokerColumns, BundleColumns, ClusterView

_RATES = ("msgRateIn", "msgRateOut", "msgThroughputIn", "msgThroughputOut")
_BROKER_RATES = ("MsgRateIn", "MsgRateOut", "MsgThroughputIn", "MsgThroughputOut")


@dataclass(frozen=True, slots=True)
class _BrokerEntry:
    """One broker's entry of `brokerData`."""

    local_data: LocalBrokerData
    time_average_data: TimeAverageBrokerData = field(default_factory=TimeAverageBrokerData)
    preallocated_bundle_data: Mapping[str, BundleData] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _LoadData:
    """The whole line of load data."""

    now: int
    broker_data: Mapping[str, _BrokerEntry]
    bundle_data: Mapping[str, BundleData]
    recently_unloaded_bundles: Mapping[str, int] = field(default_factory=dict)


def view_from_json(value: object) -> ClusterView:
    """Convert a parsed ``LoadData`` JSON object to a view; raises ``LoadDataError``."""
    data = fields.read_object(value, "load data")
    try:
        return _view(data)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        return _view(fields.to_json(fields.from_json(_LoadData, data)))


def _view(data: Mapping[str, Any]) -> ClusterView:
    brokers, bundles = data["brokerData"], data["bundleData"]
    names = list(bundles)
    index = {name: i for i, name in enumerate(names)}
    local = [entry["localData"] for entry in brokers.values()]
    reported = [set(report["bundles"]) for report in local]
    recent = fields.read_times(data, "recentlyUnloadedBundles")
    return ClusterView.from_columns(
        now_ms=fields.read_integer(data["now"], "now"),
        brokers=list(brokers),
        broker=_broker_columns(list(brokers.values()), local, [len(names) for names in reported]),
        bundles=names,
        bundle=_bundle_columns(names, list(bundles.values()), recent),
        reported=_pairs(reported, index),
    )


def _pairs(reported: Sequence[set[str]], index: Mapping[str, int]) -> tuple[Indices, Indices]:
    owners: list[int] = []
    members: list[int] = []
    for owner, names in enumerate(reported):
        known = [index[name] for name in names if name in index]
        members += known
        owners += [owner] * len(known)
    return np.array(owners, dtype=np.intp), np.array(members, dtype=np.intp)


def _broker_columns(
    entries: Sequence[Mapping[str, Any]], local: Sequence[Mapping[str, Any]], counts: Sequence[int]
) -> BrokerColumns:
    usage = _numbers([[report[r]["usage"] for r in RESOURCES] for report in local], 5)
    limit = _numbers([[report[r]["limit"] for r in RESOURCES] for report in local], 5)
    averages = [entry["timeAverageData"] for entry in entries]
    return BrokerColumns.of(
        percent_of(usage, limit),
        _rates(local, _RATES),
        counts,
        topics=np.array([_whole(report.get("numTopics", 0)) for report in local], np.int64),
        short_average=_rates(averages, tuple("shortTerm" + name for name in _BROKER_RATES)),
        long_average=_rates(averages, tuple("longTerm" + name for name in _BROKER_RATES)),
        preallocated_rate=np.array([_preallocated_rate(entry) for entry in entries], np.float64),
    )


def _preallocated_rate(entry: Mapping[str, Any]) -> float:
    long_terms = [data["longTermData"] for data in entry["preallocatedBundleData"].values()]
    return sequential_sum(
        [
            fields.read_number(data["msgRateIn"], "") + fields.read_number(data["msgRateOut"], "")
            for data in long_terms
        ]
    )


def _bundle_columns(
    names: Sequence[str], entries: Sequence[Mapping[str, Any]], recent: Mapping[str, Any]
) -> BundleColumns:
    terms = [[entry[term] for entry in entries] for term in ("shortTermData", "longTermData")]
    counts = ("maxSamples", "numSamples")
    samples = [[_whole(each[name]) for each in term] for term in terms for name in counts]
    return BundleColumns.of(
        names,
        _rates(terms[0], _RATES),
        _rates(terms[1], _RATES),
        np.array([_whole(entry["topics"]) for entry in entries], dtype=np.int64),
        np.array(samples, dtype=np.int64).reshape(4, len(names)).T,
        recent,
    )


def _rates(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Rates:
    return Rates.of(*(_numbers([row[name] for row in rows]) for name in names))


def _numbers(values: Sequence[Any], width: int | None = None) -> Any:
    """A column of doubles (or rows of ``width``); raises on anything that is not a number."""
    if width is not None:
        return _numbers([item for row in values for item in row]).reshape(len(values), width)
    if not set(map(type, values)) <= {int, float}:
        values = [fields.read_number(value, "") for value in values]
    return np.array(values, dtype=np.float64)


def _whole(value: object) -> int:
    return fields.read_integer(value, "")
