"""The cluster in a line and in a sentence."""

from counterpoise.picture.cluster_picture import ClusterPicture, CompletedMove
from counterpoise.picture.figures import in_words, key_figures
from counterpoise.picture.observed import ObservedHistory
from counterpoise.picture.reached_limits import ReachedLimit
from tests.picture.pictures import Carried, picture_of

ONE = "public/default/0x00000000_0x80000000"
TWO = "public/default/0x80000000_0xffffffff"
THREE = "public/other/0x00000000_0xffffffff"


def test_figures() -> None:
    picture = picture_of(
        {"a:1": {ONE: 900.0, TWO: 10.0}, "b:1": {TWO: 10.0}}, silent={"b:1": "refused"}
    )
    found = {
        each.label: each
        for each in key_figures(picture, ObservedHistory(), [ReachedLimit("a:1", "t", "why")])
    }
    assert found["Brokers"].value == "2, 1 silent"
    assert found["Brokers"].alarming
    assert found["Bundles"].value == "2"
    assert found["On their way"].value == "1"
    assert found["Limits reached"].value == "1"
    assert found["Largest ÷ mean"].value.startswith("2.0")
    assert found["Largest ÷ mean"].alarming
    assert picture.twice == {TWO: ("a:1", "b:1")}


def test_an_even_cluster_raises_no_alarm() -> None:
    even = picture_of({"a:1": {ONE: 5.0}, "b:1": {TWO: 5.0}})
    assert not any(each.alarming for each in key_figures(even, ObservedHistory(), []))


def test_the_picture_in_words() -> None:
    assert in_words(ClusterPicture.nothing()) == "No broker has reported its load yet."
    words = in_words(picture_of({"a:1": {ONE: 900.0}, "b:1": {TWO: 300.0}}))
    assert words.startswith("2 brokers with 2 bundles. The most loaded is a:1 with 900 B/s, 1.5")
    assert "the least is b:1 with 300 B/s" in words


def test_an_idle_cluster_is_even_and_a_rate_that_is_no_number_counts_as_none() -> None:
    idle = picture_of({"a:1": {ONE: 0.0}, "b:1": {}})
    assert (idle.imbalance, idle.ratios.tolist()) == (0.0, [1.0, 1.0])
    odd = picture_of({"a:1": {ONE: float("inf")}, "b:1": {TWO: float("nan")}, "c:1": {THREE: 6.0}})
    assert odd.per_broker(odd.bundle_bytes).tolist() == [0.0, 0.0, 6.0]
    assert odd.per_broker(odd.bundle_messages).tolist() == [0.0, 0.0, 0.06]


def test_a_completed_move_shows_until_both_brokers_have_reported_since() -> None:
    moved = CompletedMove("a:1", "b:1", 50)
    for reported, is_news in (
        ({"a:1": 51, "b:1": 51}, False),
        ({"a:1": 51, "b:1": 50}, True),
        ({"a:1": 50, "b:1": 51}, True),
        ({"b:1": 51}, True),
    ):
        assert moved.is_news(reported) is is_news
    both: Carried = {"a:1": {ONE: 1.0}, "b:1": {}, "c:1": {}}
    assert picture_of(both, moved={ONE: moved}).owners.tolist() == [1]
    later: Carried = {"a:1": {}, "b:1": {}, "c:1": {ONE: 1.0}}
    assert picture_of(later, moved={ONE: moved}).owners.tolist() == [2], "a later owner counts"
