"""The cluster as columns: what it holds, in which order, and what it refuses."""

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoise.load.average import BundleData, TimeAverageMessageData
from counterpoise.load.broker_average import broker_averages
from counterpoise.load.fields import LoadDataError
from counterpoise.load.rates import sequential_sum, sum_in_order
from counterpoise.load.report import LocalBrokerData
from counterpoise.load.store_view import LoadStoreView
from counterpoise.load.usage import ResourceUsage
from counterpoise.load.view import ClusterView


def line() -> dict[str, Any]:
    """Two brokers out of order, a bundle both report, one that none reports, one without data."""
    first = LocalBrokerData(
        cpu=ResourceUsage(50, 100), bundles=("t/n/c", "t/n/a", "t/n/gone"), msg_rate_in=1.0
    )
    second = LocalBrokerData(bandwidth_in=ResourceUsage(1, 4), bundles=("t/n/a",), num_topics=3)
    return {
        "now": 7,
        "brokerData": {
            "b:2": {"localData": second.to_json()},
            "b:1": {"localData": first.to_json(), "preallocatedBundleData": {"t/n/x": bundle(9)}},
        },
        "bundleData": {"t/n/c": bundle(3), "t/n/b": bundle(2), "t/n/a": bundle(1)},
        "recentlyUnloadedBundles": {"t/n/c": 1, "t/n/elsewhere": 2},
    }


def bundle(rate: float) -> dict[str, Any]:
    short = TimeAverageMessageData(10, 1, rate * 10, 1.0, rate, 0.5)
    return BundleData(short, replace(short, max_samples=1000, num_samples=2)).to_json()


def test_brokers_and_bundles_stand_in_order_of_name() -> None:
    view = ClusterView.from_load_data(line())
    assert (view.now_ms, view.brokers) == (7, ("b:1", "b:2"))
    assert view.bundles == ("t/n/a", "t/n/b", "t/n/c")
    assert view.bundle.short.rate_in.tolist() == [1, 2, 3]
    assert view.bundle.long.throughput_in.tolist() == [10, 20, 30]
    assert view.bundle.recently_unloaded.tolist() == [False, False, True]
    assert view.bundle.samples.tolist() == [[10, 1, 1000, 2]] * 3
    assert view.broker.usage[0].tolist() == [50, 0, 0, 0, 0]
    assert view.broker.usage[1].tolist() == [0, 0, 0, 25, 0]
    assert view.broker.topics.tolist() == [0, 3]
    assert view.broker.preallocated_rate.tolist() == [9.5, 0]
    assert (view.broker_index("b:2"), view.broker_index("b:3")) == (1, None)
    assert (view.bundle_index("t/n/c"), view.bundle_index("a")) == (2, None)


def test_stale_reports_are_taken_as_they_are() -> None:
    view = ClusterView.from_load_data(line())
    assert view.broker.bundle_count.tolist() == [3, 1]  # the bundle without data counts
    assert view.reported_by(0).tolist() == [0, 2]
    assert view.reported_by(1).tolist() == [0]
    rows, bounds = view.candidates(np.array([1, 0]))
    assert (rows.tolist(), bounds.tolist()) == ([0, 0], [0, 1, 2])


def test_a_view_from_columns_is_the_view_from_json() -> None:
    view = ClusterView.from_load_data(line())
    order = np.array([1, 0])
    bundles = np.array([2, 0, 1])
    shuffled = ClusterView.from_columns(
        now_ms=7,
        brokers=[view.brokers[i] for i in order],
        broker=view.broker.take(order),
        bundles=[view.bundles[i] for i in bundles],
        bundle=view.bundle.take(bundles),
        reported=(np.array([0, 1, 1]), np.array([1, 1, 0])),
    )
    assert (shuffled.brokers, shuffled.bundles) == (view.brokers, view.bundles)
    assert shuffled.offsets.tolist() == view.offsets.tolist()
    assert shuffled.members.tolist() == view.members.tolist()
    assert shuffled.bundle.short.rate_in.tolist() == view.bundle.short.rate_in.tolist()
    assert shuffled.broker.usage.tolist() == view.broker.usage.tolist()


def test_brokers_are_found_by_name() -> None:
    view = replace(ClusterView.from_load_data(line()), now_ms=8)
    assert [view.brokers[view.row_of[name]] for name in view.brokers] == ["b:1", "b:2"]
    assert view.broker_index("b:3") is None


def test_a_bundles_reporters_are_found() -> None:
    view = ClusterView.from_load_data(line())
    assert {name: view.reporters(row) for row, name in enumerate(view.bundles)} == {
        "t/n/a": [0, 1],
        "t/n/b": [],
        "t/n/c": [0],
    }
    assert [view.first_reporter(row) for row in range(3)] == [0, None, 0]
    assert [view.carried(name) for name in ("t/n/a", "t/n/c", "t/n/gone")] == [11.0, 31.0, 0.0]


def test_a_bundle_that_a_report_names_twice_counts_once() -> None:
    data = line()
    data["brokerData"]["b:1"]["localData"]["bundles"] += ["t/n/a", "t/n/gone"]
    view = ClusterView.from_load_data(data)
    assert view.broker.bundle_count.tolist() == [3, 1]
    assert view.reported_by(0).tolist() == [0, 2]


def test_a_brokers_averages_are_those_of_their_own_terms() -> None:
    data = line()
    names = ("MsgRateIn", "MsgRateOut", "MsgThroughputIn", "MsgThroughputOut")
    terms = {"shortTerm": 1.0, "longTerm": 5.0}
    data["brokerData"]["b:1"]["timeAverageData"] = {
        term + name: first + place
        for term, first in terms.items()
        for place, name in enumerate(names)
    }
    broker = ClusterView.from_load_data(data).broker
    assert broker.short_average.entry(0) == (1.0, 2.0, 3.0, 4.0)
    assert broker.long_average.entry(0) == (5.0, 6.0, 7.0, 8.0)
    written = broker_averages(ClusterView.from_load_data(data))["b:1"].to_json()
    assert written == data["brokerData"]["b:1"]["timeAverageData"]


def test_registered_brokers_without_load_data_are_named_and_traffic_goes_both_ways() -> None:
    load = {"msgThroughputIn": 3, "msgThroughputOut": 4}
    data: dict[str, Any] = {"now": 7, "brokers": {"b:1": {"brokerLoadData": load}, "b:2": {}}}
    view = LoadStoreView.from_load_data(data)
    assert (view.brokers, view.unpublished) == (("b:1",), ("b:2",))
    assert view.throughput.tolist() == [7.0]
    listed = LoadStoreView.from_load_data({**data, "availableBrokers": ["b:1", "b:3"]})
    assert listed.unpublished == ("b:3",)


def test_an_empty_cluster_is_a_view_too() -> None:
    view = ClusterView.from_load_data({"now": 0, "brokerData": {}, "bundleData": {}})
    assert (view.brokers, view.bundles, view.members.tolist()) == ((), (), [])
    assert [part.tolist() for part in view.candidates(np.array([], dtype=np.intp))] == [[], [0]]


@pytest.mark.parametrize(
    ("namespace", "movable"),
    [
        ("pulsar/host:8080", False),
        ("pulsar/standalone/host:8080", False),
        ("sla-monitor/standalone/host:8080", False),
        ("pulsar/system", True),  # 4.0.7 sheds it
        ("sla-monitor/host:8080", True),  # only 4.2 keeps the name of two parts
        ("tenant/host:8080", True),
    ],
)
def test_namespaces_bound_to_a_broker_stay(namespace: str, movable: bool) -> None:
    name = f"{namespace}/0x00000000_0xffffffff"
    data = {"now": 0, "brokerData": {}, "bundleData": {name: bundle(1)}}
    assert ClusterView.from_load_data(data).bundle.movable.tolist() == [movable]


def set_at(data: Any, path: tuple[Any, ...], value: object) -> Any:
    changed = copy.deepcopy(data)
    inner = changed
    for key in path[:-1]:
        inner = inner[key]
    if value is None:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return changed


LOCAL = ("brokerData", "b:1", "localData")


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("now",), None, "now: expected a whole number, got nothing"),
        (("now",), "soon", "now: expected a whole number, got 'soon'"),
        (("brokerData",), None, "brokerData: expected an object, got nothing"),
        (("bundleData",), [], "bundleData: expected an object, got list []"),
        (("recentlyUnloadedBundles",), 3, "recentlyUnloadedBundles: expected an object, got int 3"),
        (LOCAL, None, "brokerData['b:1'].localData: expected an object, got nothing"),
        ((*LOCAL, "cpu", "limit"), "x", "brokerData['b:1'].localData.cpu.limit: expected a number"),
        ((*LOCAL, "cpu", "limit"), True, "brokerData['b:1'].localData.cpu.limit: expected a numb"),
        ((*LOCAL, "bundles"), 5, "brokerData['b:1'].localData.bundles: expected an array of"),
        ((*LOCAL, "bundles"), [[]], "brokerData['b:1'].localData.bundles[0]: expected a string"),
        (
            ("bundleData", "t/n/a", "shortTermData"),
            7,
            "bundleData['t/n/a'].shortTermData: expected an object, got int 7",
        ),
        (
            ("bundleData", "t/n/a", "shortTermData", "msgRateIn"),
            "many",
            "bundleData['t/n/a'].shortTermData.msgRateIn: expected a number, got 'many'",
        ),
        (
            ("brokerData", "b:1", "preallocatedBundleData", "t/n/x", "longTermData", "msgRateIn"),
            {},
            "brokerData['b:1'].preallocatedBundleData['t/n/x'].longTermData.msgRateIn: expected",
        ),
    ],
)
def test_what_is_wrong_in_a_line_is_named(
    path: tuple[Any, ...], value: object, message: str
) -> None:
    with pytest.raises(LoadDataError) as error:
        ClusterView.from_load_data(set_at(line(), path, value))
    assert str(error.value).startswith(message)


def test_fields_that_pulsar_defaults_may_be_left_out() -> None:
    data = line()
    for broker in data["brokerData"].values():
        kept = {"cpu", "bundles", "msgRateIn"}
        broker["localData"] = {k: v for k, v in broker["localData"].items() if k in kept}
    for name, left in (("t/n/a", {}), ("t/n/b", {"shortTermData": {"msgRateIn": 4}, "new": 1})):
        data["bundleData"][name] = left
    view = ClusterView.from_load_data(data)
    assert view.broker.usage[0].tolist() == [50, 0, 0, 0, 0]
    assert view.reported_by(0).tolist() == [0, 2]
    assert view.bundle.short.rate_in.tolist() == [0, 4, 3]


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity"])
def test_special_numbers_are_read_bare_and_quoted(word: str) -> None:
    data = line()
    data["bundleData"]["t/n/a"]["shortTermData"]["msgRateIn"] = word
    data["brokerData"]["b:1"]["preallocatedBundleData"]["t/n/x"]["longTermData"]["msgRateIn"] = word
    quoted = ClusterView.from_load_data(data)
    bare = ClusterView.from_load_data(json.loads(json.dumps(data).replace(f'"{word}"', word)))
    for view in (quoted, bare):
        assert repr(float(view.bundle.short.rate_in[0])) == repr(float(word))
        assert repr(float(view.broker.preallocated_rate[0])) == repr(float(word))


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("brokers",), None, "brokers: expected an object, got nothing"),
        (("now",), None, "now: expected a whole number, got nothing"),
        (
            ("brokers", "b:1", "brokerLoadData", "weightedMaxEMA"),
            "much",
            "brokers['b:1'].brokerLoadData.weightedMaxEMA: expected a number, got 'much'",
        ),
        (
            ("brokers", "b:1", "topBundlesLoadData", "topBundlesLoadData", 0, "bundleName"),
            None,
            "brokers['b:1'].topBundlesLoadData.topBundlesLoadData[0].bundleName: expected a string",
        ),
        (("recentlyUnloadedBrokers",), {"b:1": "x"}, "recentlyUnloadedBrokers['b:1']: expected a"),
        (("owners",), {"t/n/a": 1}, "owners['t/n/a']: expected a string, got int 1"),
        (("availableBrokers",), "b:1", "availableBrokers: expected an array of strings"),
    ],
)
def test_what_is_wrong_in_a_line_of_the_load_stores_is_named(
    path: tuple[Any, ...], value: object, message: str
) -> None:
    data = {
        "now": 1,
        "brokers": {
            "b:1": {
                "brokerLoadData": {"weightedMaxEMA": 0.5},
                "topBundlesLoadData": {
                    "topBundlesLoadData": [{"bundleName": "t/n/a", "stats": {}}]
                },
            }
        },
    }
    assert LoadStoreView.from_load_data(data).top == ((("t/n/a", 0.0),),)
    with pytest.raises(LoadDataError) as error:
        LoadStoreView.from_load_data(set_at(data, path, value))
    assert str(error.value).startswith(message)


@given(st.lists(st.floats(-1e12, 1e12), max_size=40))
def test_sums_go_from_left_to_right(values: list[float]) -> None:
    total = 0.0
    for value in values:
        total = total + value
    assert sum_in_order(np.array(values, dtype=np.float64)) == total
    assert sequential_sum(values) == total


@pytest.mark.parametrize("when", ["x", [], True, None, 0.5])
@pytest.mark.parametrize("read", [ClusterView.from_load_data, LoadStoreView.from_load_data])
def test_when_a_bundle_was_unloaded_is_a_number(read: Callable[[Any], object], when: Any) -> None:
    data = {"now": 1, "brokerData": {}, "bundleData": {}, "brokers": {}}
    with pytest.raises(LoadDataError, match=r"recentlyUnloadedBundles\['t/n/c'\]"):
        read({**data, "recentlyUnloadedBundles": {"t/n/c": when}})
