"""What is landed of a load report, and how a long value is shown in an error."""

import pytest

from counterpoise.load import measured
from counterpoise.load.extensible import TopBundlesLoadData
from counterpoise.load.fields import LoadDataError, read_number
from counterpoise.load.poll_rows import Fetched, Gap, poll_rows
from counterpoise.load.report import LocalBrokerData, NamespaceBundleStats, SystemResourceUsage
from counterpoise.load.rows import RATES


def test_a_brokers_addresses_are_as_it_reports_them() -> None:
    report = LocalBrokerData(web_service_url="http://a:1", pulsar_service_url="pulsar://a:2")
    row = measured.broker_row(report)
    assert (row["web_service_url"], row["pulsar_service_url"]) == ("http://a:1", "pulsar://a:2")
    bare = measured.broker_row(LocalBrokerData(web_service_url=None, pulsar_service_url=None))
    assert (bare["web_service_url"], bare["pulsar_service_url"]) == ("", "")


def test_a_long_value_is_cut_to_sixty_characters() -> None:
    with pytest.raises(LoadDataError) as raised:
        read_number("x" * 100, "field")
    assert str(raised.value).endswith("got '" + "x" * 56 + "...")


def test_a_list_that_is_none_is_named_with_its_place() -> None:
    with pytest.raises(
        LoadDataError, match=r"stored\.topBundlesLoadData: expected an array, got int 5"
    ):
        TopBundlesLoadData.from_json({"topBundlesLoadData": 5}, "stored")


def test_loads_of_topics_stand_beside_their_bundles_and_are_no_news() -> None:
    first, second = "t/n/0x00000000_0x80000000", "t/n/0x80000000_0xffffffff"
    stats = {first: NamespaceBundleStats(topics=1), second: NamespaceBundleStats(topics=2)}
    seen = measured.measured_of(LocalBrokerData().updated(SystemResourceUsage(), stats, 7))
    both = seen.with_topic_loads({second: "{}", "t/n/0x0_0x1": "{1}"})
    named = zip(both.bundles["bundle"].tolist(), both.bundles["topic_loads"].tolist(), strict=True)
    assert dict(named) == {first: "", second: "{}"}
    assert (both.figures, both.reported_ms) == (seen.figures, 7)


def test_every_figure_of_a_report_stands_in_its_own_column() -> None:
    report = LocalBrokerData(
        msg_rate_in=1.0,
        msg_rate_out=2.0,
        msg_throughput_in=3.0,
        msg_throughput_out=4.0,
        num_topics=5,
        num_bundles=6,
        num_producers=7,
        num_consumers=8,
        last_update=9,
        start_timestamp=10,
        non_persistent_topics_enabled=False,
        last_stats={"t/n/0x0_0x1": NamespaceBundleStats(11.0, 12.0, 13.0, 14.0, 15, 16, 17, 18)},
    )
    seen = measured.measured_of(report)
    expected = {
        "msg_rate_in": 1.0,
        "msg_rate_out": 2.0,
        "msg_throughput_in": 3.0,
        "msg_throughput_out": 4.0,
        "topics": 5,
        "bundles": 6,
        "producers": 7,
        "consumers": 8,
        "started_at_ms": 10,
        "persistent_topics": True,
        "non_persistent_topics": False,
    }
    assert expected.items() <= seen.broker.items()
    assert seen.reported_ms == 9
    assert {name: column.tolist() for name, column in seen.bundles.items() if name != "digest"} == {
        "bundle": ["t/n/0x0_0x1"],
        "msg_rate_in": [11.0],
        "msg_throughput_in": [12.0],
        "msg_rate_out": [13.0],
        "msg_throughput_out": [14.0],
        "consumers": [15],
        "producers": [16],
        "topics": [17],
        "cache_size": [18],
    }


@pytest.mark.parametrize("busy", RATES)
def test_a_broker_is_idle_only_while_nothing_flows_either_way(busy: str) -> None:
    counts = {name: [1] for name in ("topics", "producers", "consumers", "cache_size")}
    rates = {name: [0.0] for name in RATES}
    assert measured.Measured.of({}, measured.bundle_columns(["t/n/0x0_0x1"], rates, counts), 1).idle
    assert not measured.Measured.of(
        {}, measured.bundle_columns(["t/n/0x0_0x1"], rates | {busy: [0.1]}, counts), 1
    ).idle


@pytest.mark.parametrize(
    "names",
    [
        ["t/n/0x0_0x1", "t/n"],
        ["t/n/0x0_0x1", "t/n_0x1"],
        ["t/n/0x0_0x1", "t/n/0x0"],
        ["t/n/0x0_0x1", "t/n/0x0_0x1\n"],
        ["0x0_0x1"],
    ],
)
def test_what_is_no_bundle_is_refused_by_its_name(names: list[str]) -> None:
    measured.expect_bundles(["t/n/0x0_0x1", "t/c/n/0x0_0x1"], "bundles")
    with pytest.raises(LoadDataError) as raised:
        measured.expect_bundles(names, "bundles")
    assert str(raised.value).endswith(f"got {names[-1]!r}")


def test_rows_say_how_old_a_report_was_and_why_there_is_none() -> None:
    report = measured.measured_of(LocalBrokerData())
    fetched = [Fetched("b1", 1010, report, True, 1000), Fetched("b2", 1011, Gap("no answer"))]
    rows = poll_rows(1000, "", fetched)
    assert rows["age_ms"].tolist() == [0, 10, 0]
    assert rows["report_at_ms"].tolist() == [0, 1000, 0]
    assert rows.silent == {"b2": "no answer"}
