"""Bundles that were given to brokers which have not reported them yet."""

import numpy as np

from counterpoise.load.assignments import Assignment, Assignments
from counterpoise.load.average import BundleData, TimeAverageMessageData

NAMESPACE = "t/n"
MOVED, STAYED = f"{NAMESPACE}/0x00000000_0x80000000", f"{NAMESPACE}/0x80000000_0xffffffff"


def test_a_bundle_counts_once_and_where_it_was_given_to() -> None:
    assignments = Assignments()
    assignments.add(MOVED, Assignment("new", BundleData.unseen(), at_ms=1))
    reported = {
        "broker": np.array(["old", "old"], object),
        "bundle": np.array([MOVED, STAYED], object),
    }
    held = assignments.namespaces(reported)
    assert held == {"old": {NAMESPACE: 1}, "new": {NAMESPACE: 1}}


def load(rate: float, topics: int) -> BundleData:
    """Of long-term messages/s; those of the short term are others."""
    return BundleData(
        TimeAverageMessageData(10, 1, msg_rate_in=1e6),
        TimeAverageMessageData(1000, 1, msg_rate_in=rate, msg_rate_out=rate),
        topics,
    )


def test_what_is_assigned_counts_at_its_broker_until_it_is_assigned_to_another() -> None:
    assignments = Assignments()
    assignments.add(MOVED, Assignment("b1", load(5.0, 2), at_ms=1))
    assignments.add(STAYED, Assignment("b1", load(7.0, 3), at_ms=1))
    assert (assignments.rate("b1"), assignments.topics("b1")) == (24.0, 5)
    assignments.add(MOVED, Assignment("b2", load(5.0, 2), at_ms=2))
    assert (assignments.rate("b1"), assignments.topics("b1")) == (14.0, 3)
    assert (assignments.rate("b2"), assignments.topics("b2")) == (10.0, 2)
    assert [assignments.broker_of(each) for each in (MOVED, STAYED, "other")] == ["b2", "b1", None]


def test_an_assignment_ends_when_it_is_reported_too_old_or_its_broker_is_gone() -> None:
    assignments = Assignments()
    names = ["reported", "old", "just in time", "of one that left"]
    times = {"old": 99, "just in time": 100}
    for name in names:
        broker = "b2" if name == "of one that left" else "b1"
        assignments.add(name, Assignment(broker, load(1.0, 1), times.get(name, 200)))
    served = {"broker": np.array(["b1"], object), "bundle": np.array(["reported"], object)}
    assignments.drop_ended(served, ["b1"], since_ms=100)
    assert [each for each in names if assignments.broker_of(each)] == ["just in time"]
    assert (assignments.rate("b1"), assignments.topics("b1")) == (2.0, 1)
    assert (assignments.rate("b2"), assignments.topics("b2")) == (0.0, 0)
