"""Read one line of load data, Pulsar's ``LoadData`` as JSON, into a :class:`ClusterView`.

The columns are taken out of the parsed objects directly. Only when that fails is the line read
again, slowly, through the report classes, which know how to name the field that is wrong.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from counterpoise.load.average import BundleData
from counterpoise.load.broker_average import TimeAverageBrokerData
from counterpoise.load.fields import (
    LoadDataError,
    from_json,
    read_integer,
    read_number,
    read_object,
    read_times,
    to_json,
)
from counterpoise.load.rates import Indices, Rates, sequential_sum
from counterpoise.load.report import LocalBrokerData
from counterpoise.load.usage import RESOURCES, percent_of
from counterpoise.load.view import (
    BrokerColumns,
    BundleColumns,
    ClusterView,
)

_RATES = ("msgRateIn", "msgRateOut", "msgThroughputIn", "msgThroughputOut")
_BROKER_RATES = ("MsgRateIn", "MsgRateOut", "MsgThroughputIn", "MsgThroughputOut")


def view_from_json(value: object) -> ClusterView:
    """One ``LoadData`` object to a view; raises ``LoadDataError`` naming the field."""
    data = read_object(value, "load data")
    now = read_integer(_required(data, "now", "the time in milliseconds"), "now")
    brokers = read_object(_required(data, "brokerData", "an object"), "brokerData")
    bundles = read_object(_required(data, "bundleData", "an object"), "bundleData")
    recent = read_times(data, "recentlyUnloadedBundles")
    try:
        return _columns(now, brokers, bundles, recent)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        return _columns(now, _read_brokers(brokers), _read_bundles(bundles), recent)


def _required(data: Mapping[str, Any], name: str, expected: str) -> object:
    if name not in data:
        raise LoadDataError(name, expected)
    return data[name]


def _read_brokers(brokers: Mapping[str, Any]) -> dict[str, Any]:
    """The broker entries with every field checked and every default filled in."""
    filled = {}
    for name, entry in brokers.items():
        path = f"brokerData[{name!r}]"
        fields = read_object(entry, path)
        average = fields.get("timeAverageData")
        preallocated = fields.get("preallocatedBundleData") or {}
        local = _required(fields, "localData", "an object") if "localData" in fields else None
        if local is None:
            raise LoadDataError(f"{path}.localData", "an object")
        filled[name] = {
            "localData": to_json(LocalBrokerData.from_json(local, f"{path}.localData")),
            "timeAverageData": to_json(
                TimeAverageBrokerData()
                if average is None
                else from_json(TimeAverageBrokerData, average, f"{path}.timeAverageData")
            ),
            "preallocatedBundleData": _read_bundles(
                read_object(preallocated, f"{path}.preallocatedBundleData"),
                f"{path}.preallocatedBundleData",
            ),
        }
    return filled


def _read_bundles(bundles: Mapping[str, Any], path: str = "bundleData") -> dict[str, Any]:
    return {
        name: to_json(BundleData.from_json(entry, f"{path}[{name!r}]"))
        for name, entry in bundles.items()
    }


def _columns(
    now: int, brokers: Mapping[str, Any], bundles: Mapping[str, Any], recent: Mapping[str, Any]
) -> ClusterView:
    names = list(bundles)
    index = {name: i for i, name in enumerate(names)}
    local = [entry["localData"] for entry in brokers.values()]
    reported = [set(report["bundles"]) for report in local]
    return ClusterView.from_columns(
        now_ms=now,
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
            read_number(data["msgRateIn"], "") + read_number(data["msgRateOut"], "")
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
        values = [read_number(value, "") for value in values]
    return np.array(values, dtype=np.float64)


def _whole(value: object) -> int:
    return read_integer(value, "")
