"""What the page of a fleet says of each cluster."""

from counterpoise.console.fleet_page import card
from counterpoise.pipeline.fleet.cluster_state import ClusterState, PolledCluster
from counterpoise.pipeline.tables.control import Control, Wish
from counterpoise.pipeline.tables.status import BalancerStatus, LastPoll, LastRound

NOW_MS = 1_600_000_000_000
LATE_S = 3600


def state(*, age_s: int = 5, silent: bool = False, uneven: float = 0.2) -> ClusterState:
    """A cluster that was looked at ten seconds ago, and its balancer."""
    made = LastRound(NOW_MS - 90_000, "s", 0.1, 3, (), complete=True)
    poll = LastPoll(NOW_MS - 1000 * age_s, 3, {}, "")
    going = Control(Wish.GO, 0, "")
    return ClusterState(
        "east", NOW_MS - 10_000, "pulsar://b:1", "http://console/",
        PolledCluster(3, {"b:2": "hangs"} if silent else {}, uneven, 2_500_000.0),
        status=BalancerStatus("h", NOW_MS, going, poll, made),
    )  # fmt: skip


def test_figures_with_their_units_and_what_needs_attention() -> None:
    shown = card(state(), NOW_MS)
    assert (shown.name, shown.console, shown.service_url) == (
        "east",
        "http://console/",
        "pulsar://b:1",
    )
    assert list(shown.figures) == [
        ("Balancer", "running", False),
        ("Brokers", "3", False),
        ("Traffic", "2.5 MB/s", False),
        ("Largest \N{DIVISION SIGN} mean", "1.2\N{MULTIPLICATION SIGN}", False),
        ("Last round", "3 moves, 90 s ago", False),
        ("Last poll", "10 s ago", False),
    ]
    alarming = card(state(age_s=LATE_S, silent=True, uneven=0.3), NOW_MS).figures
    assert [each for each in alarming if each[2]] == [
        ("Balancer", "not looking", True),
        ("Brokers", "3, 1 silent", True),
        ("Largest \N{DIVISION SIGN} mean", "1.3\N{MULTIPLICATION SIGN}", True),
    ]


def test_a_cluster_that_does_not_answer_or_was_not_asked_yet() -> None:
    away = card(ClusterState("east", NOW_MS - 1000, has_history=False), NOW_MS)
    assert list(away.figures) == [
        ("Balancer", "no history named", False),
        ("Brokers", "out of reach", True),
        ("Last poll", "1 s ago", False),
    ]
    unseen = card(ClusterState("east"), NOW_MS)
    assert list(unseen.figures) == [
        ("Balancer", "has not looked yet", False),
        ("Last poll", "not yet", False),
    ]
