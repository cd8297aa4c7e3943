"""Load reports: Pulsar's own JSON both ways, and the update that keeps deltas."""

import json
import math
from dataclasses import dataclass
from typing import NamedTuple

import pytest

from counterpoise.load.average import BundleData
from counterpoise.load.broker_average import TimeAverageBrokerData
from counterpoise.load.extensible import BrokerLoadData, TopBundlesLoadData
from counterpoise.load.fields import JsonObject, LoadDataError
from counterpoise.load.report import LocalBrokerData, NamespaceBundleStats, SystemResourceUsage
from counterpoise.load.usage import ResourceUsage

# What Jackson writes for `new LocalBrokerData()` of 4.0.7 (the two times set to 0).
EMPTY_REPORT = (
    '{"persistentTopicsEnabled":true,"nonPersistentTopicsEnabled":true,'
    '"cpu":{"usage":0.0,"limit":0.0},"memory":{"usage":0.0,"limit":0.0},'
    '"directMemory":{"usage":0.0,"limit":0.0},"bandwidthIn":{"usage":0.0,"limit":0.0},'
    '"bandwidthOut":{"usage":0.0,"limit":0.0},"msgThroughputIn":0.0,"msgThroughputOut":0.0,'
    '"msgRateIn":0.0,"msgRateOut":0.0,"lastUpdate":0,"lastStats":{},"numTopics":0,'
    '"numBundles":0,"numConsumers":0,"numProducers":0,"bundles":[],"lastBundleGains":[],'
    '"lastBundleLosses":[],"protocols":{},"advertisedListeners":{},"startTimestamp":0,'
    '"maxResourceUsage":0.0,"loadReportType":"LocalBrokerData"}'
)
EMPTY_LOAD = (
    '{"cpu":{"usage":0.0,"limit":0.0},"memory":{"usage":0.0,"limit":0.0},'
    '"directMemory":{"usage":0.0,"limit":0.0},"bandwidthIn":{"usage":0.0,"limit":0.0},'
    '"bandwidthOut":{"usage":0.0,"limit":0.0},"msgThroughputIn":0.0,"msgThroughputOut":0.0,'
    '"msgRateIn":0.0,"msgRateOut":0.0,"bundleCount":0,"topics":0,"maxResourceUsage":1.0,'
    '"weightedMaxEMA":1.0,"msgThroughputEMA":0.0,"updatedAt":0,"reportedAt":0}'
)
STATS = (
    '{"msgRateIn":0.0,"msgThroughputIn":0.0,"msgRateOut":0.0,"msgThroughputOut":0.0,'
    '"consumerCount":0,"producerCount":0,"topics":0,"cacheSize":0}'
)
BUNDLE = (
    '{"shortTermData":{"maxSamples":10,"numSamples":0,"msgThroughputIn":0.0,'
    '"msgThroughputOut":0.0,"msgRateIn":0.0,"msgRateOut":0.0},"longTermData":{"maxSamples":1000,'
    '"numSamples":0,"msgThroughputIn":0.0,"msgThroughputOut":0.0,"msgRateIn":0.0,'
    '"msgRateOut":0.0},"topics":0}'
)
AVERAGE = (
    '{"shortTermMsgThroughputIn":0.0,"shortTermMsgThroughputOut":0.0,"shortTermMsgRateIn":0.0,'
    '"shortTermMsgRateOut":0.0,"longTermMsgThroughputIn":0.0,"longTermMsgThroughputOut":0.0,'
    '"longTermMsgRateIn":0.0,"longTermMsgRateOut":0.0}'
)
TOP = '{"topBundlesLoadData":[{"bundleName":"a/b/0x0_0x1","stats":' + STATS + "}]}"


@pytest.mark.parametrize(
    ("cls", "text"),
    [
        (LocalBrokerData, EMPTY_REPORT),
        (BrokerLoadData, EMPTY_LOAD),
        (NamespaceBundleStats, STATS),
        (BundleData, BUNDLE),
        (TimeAverageBrokerData, AVERAGE),
        (TopBundlesLoadData, TOP),
    ],
)
def test_json_is_what_jackson_writes_name_by_name_in_its_order(cls: type, text: str) -> None:
    read = cls.from_json(json.loads(text))  # type: ignore[attr-defined]
    assert json.dumps(read.to_json(), separators=(",", ":")) == text
    assert cls.from_json(read.to_json()) == read  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("cls", "text"),
    [
        (LocalBrokerData, EMPTY_REPORT),
        (BrokerLoadData, EMPTY_LOAD),
        (NamespaceBundleStats, STATS),
        (TimeAverageBrokerData, AVERAGE),
    ],
)
def test_what_is_left_out_is_what_a_new_object_of_the_class_holds(cls: type, text: str) -> None:
    assert cls.from_json({}) == cls.from_json(json.loads(text))  # type: ignore[attr-defined]


def test_numbers_without_a_json_form_travel_as_jackson_writes_them() -> None:
    stats = NamespaceBundleStats(math.nan, math.inf, -math.inf)
    written = stats.to_json()
    assert [*written.values()][:3] == ["NaN", "Infinity", "-Infinity"]
    assert NamespaceBundleStats.from_json(written).to_json() == written
    # Python's own reader also takes the bare words.
    assert math.isnan(NamespaceBundleStats.from_json(json.loads('{"msgRateIn":NaN}')).msg_rate_in)


def test_missing_fields_take_the_defaults_of_the_class_and_unknown_ones_are_passed_over() -> None:
    report = LocalBrokerData.from_json({"msgRateIn": 7, "somethingNewer": {}, "webServiceUrl": "u"})
    assert report == LocalBrokerData(msg_rate_in=7.0, web_service_url="u")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cpu": {"usage": "high"}}, "report.cpu.usage: expected a number, got 'high'"),
        ({"cpu": 5}, "report.cpu: expected an object, got int 5"),
        ({"bundles": "b"}, "report.bundles: expected an array of strings, got 'b'"),
        ({"bundles": ["b", 1]}, "report.bundles[1]: expected a string, got int 1"),
        ({"numTopics": 1.5}, "report.numTopics: expected a whole number, got float 1.5"),
        ({"numTopics": True}, "report.numTopics: expected a whole number, got bool True"),
        ({"persistentTopicsEnabled": 1}, "report.persistentTopicsEnabled: expected true or false"),
        (
            {"numTopics": 2**63},
            "report.numTopics: expected a whole number of 64 bits, got int 9223",
        ),
        ({"numTopics": -(2**63) - 1}, "report.numTopics: expected a whole number of 64 bits"),
        ({"msgRateIn": 10**400}, "report.msgRateIn: expected a number that a double can hold"),
        (
            {"lastStats": {"t/n/0x0_0x1": {"topics": []}}},
            "report.lastStats['t/n/0x0_0x1'].topics: expected a whole number, got list []",
        ),
    ],
)
def test_what_is_wrong_is_named_by_field(change: dict[str, object], message: str) -> None:
    with pytest.raises(LoadDataError) as error:
        LocalBrokerData.from_json(change, "report")
    assert str(error.value).startswith(message)


def test_what_is_wrong_in_a_list_is_named_by_its_place() -> None:
    stats = {"bundleName": "a/b/0x0_0x1", "stats": {}}
    top = {"topBundlesLoadData": [stats, {**stats, "bundleName": 7}]}
    with pytest.raises(LoadDataError) as error:
        TopBundlesLoadData.from_json(top, "top")
    message = str(error.value)
    assert message.startswith("top.topBundlesLoadData[1].bundleName: expected a string, got int 7")


def test_max_resource_usage_divides_in_32_bits_and_leaves_heap_out() -> None:
    report = LocalBrokerData(cpu=ResourceUsage(80, 100), memory=ResourceUsage(99, 100))
    assert report.max_resource_usage == 0.800000011920929
    # Pulsar's LocalBrokerDataTest: CPU above its limit, heap ignored.
    report = LocalBrokerData(
        cpu=ResourceUsage(1.0, 100.0),
        memory=ResourceUsage(800.0, 200.0),
        direct_memory=ResourceUsage(2.0, 100.0),
        bandwidth_in=ResourceUsage(3.0, 100.0),
        bandwidth_out=ResourceUsage(4.0, 100.0),
    )
    assert report.max_resource_usage == pytest.approx(0.04)


def test_gains_and_losses_pile_up_until_the_report_is_written() -> None:
    usage = SystemResourceUsage(cpu=ResourceUsage(10, 100))
    one = NamespaceBundleStats(msg_rate_in=1.5, topics=2, consumer_count=3, producer_count=1)
    report = LocalBrokerData().updated(usage, {"a": one, "b": one}, now_ms=5)
    assert report.bundles == report.last_bundle_gains == ("a", "b")
    assert (report.msg_rate_in, report.num_topics, report.num_consumers) == (3.0, 4, 6)
    assert (report.num_bundles, report.last_update, report.cpu.percent) == (2, 5, 10.0)
    report = report.updated(usage, {"b": one, "c": one}, now_ms=6)
    assert report.last_bundle_gains == ("a", "b", "c")
    assert report.last_bundle_losses == ("a",)
    report = report.without_deltas()
    assert report.last_bundle_gains == report.last_bundle_losses == ()
    assert report.bundles == ("b", "c")
    report = report.updated(usage, {"c": one}, now_ms=7).updated(usage, {"a": one}, now_ms=8)
    assert report.last_bundle_gains == ("a",)
    assert report.last_bundle_losses == ("b", "c")


def test_null_stands_for_the_default_and_the_ends_of_64_bits_are_taken() -> None:
    ends = {"numTopics": 2**63 - 1, "numBundles": -(2**63), "msgRateIn": None, "bundles": None}
    report = LocalBrokerData.from_json(ends)
    assert report == LocalBrokerData(num_topics=2**63 - 1, num_bundles=-(2**63))


class Pair(NamedTuple):
    """A key and its count."""

    key: str
    count: int


@dataclass(frozen=True)
class Counted(JsonObject):
    """What has a list of pairs."""

    pairs: tuple[Pair, ...] = ()


def test_a_tuple_is_an_array_of_as_many_values() -> None:
    made = Counted((Pair("a", 1), Pair("b", 2)))
    assert made.to_json() == {"pairs": [["a", 1], ["b", 2]]}
    assert Counted.from_json(made.to_json()) == made
    for wrong in (["a"], ["a", 1, 2]):
        with pytest.raises(LoadDataError, match=r"pairs\[0\]: expected an array of 2, got list"):
            Counted.from_json({"pairs": [wrong]}, "")
    with pytest.raises(LoadDataError, match=r"pairs\[1\]\[1\]: expected a whole number"):
        Counted.from_json({"pairs": [["a", 1], ["b", "x"]]}, "")
