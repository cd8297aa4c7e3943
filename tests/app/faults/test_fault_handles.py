"""What handles of faults say and end, by clients that only connect."""

from collections.abc import Iterator
from typing import Any

import pytest

from counterpoise import Cluster
from counterpoise.app.faults.cluster_faults import ADVANCE_MAX_S
from counterpoise.app.faults.fault_control import fault_of
from counterpoise.faults import (
    ALWAYS,
    CONNECT,
    SEND,
    EffectKind,
    Fault,
    FaultEffect,
    FaultTarget,
    InvalidFault,
)
from counterpoise.faults.fault import Schedule
from tests.admin.conftest import Api
from tests.broker.connection.raw_client import RawClient

FAULTS = "/admin/v2/faults"


@pytest.fixture(scope="module")
def running() -> Iterator[Cluster]:
    with Cluster(brokers=2, faults_over_http=True) as started:
        yield started


@pytest.fixture
def cluster(running: Cluster) -> Iterator[Cluster]:
    yield running
    running.clear_faults()


def connects(service_url: str) -> bool:
    """Whether a client is answered; it says goodbye in any case."""
    with RawClient(service_url) as raw:
        try:
            raw.connect()
        except ConnectionError:
            return False
        return True


def said(cluster: Cluster, broker: Any) -> list[str]:
    return [each.text for each in cluster.events if each.broker == broker.id]


def test_a_broker_is_cut_off_from_clients_until_the_block_ends(cluster: Cluster) -> None:
    first, second = cluster.brokers
    with cluster.partition(first, "clients"):
        assert not connects(first.service_url)
        assert connects(second.service_url)
    assert connects(first.service_url)


def test_a_disk_is_full_and_slow_until_that_is_removed_once(cluster: Cluster) -> None:
    second = cluster.brokers[1]
    before = len(said(cluster, second))
    full, slow = cluster.disk_full(second), cluster.slow_disk(second, 3600)
    assert (second.disk.is_full, second.disk.delay_s) == (True, 3600)
    for each in (full, slow, full):
        each.remove()
    assert (second.disk.is_full, second.disk.delay_s) == (False, 0)
    assert said(cluster, second)[before:] == [
        "broker 2 has a full disk",
        "broker 2 has a slow disk",
        "broker 2 no longer has a full disk",
        "broker 2 no longer has a slow disk",
    ]


@pytest.mark.parametrize("seconds", [0, 3600.5, float("nan")])
def test_a_disk_cannot_be_slower_by_any_time(cluster: Cluster, seconds: float) -> None:
    with pytest.raises(InvalidFault, match="choose more than 0, at most 3600"):
        cluster.slow_disk(cluster.brokers[0], seconds)


def test_a_fault_strikes_at_its_broker_as_often_as_it_is_asked_to(cluster: Cluster) -> None:
    first, second = cluster.brokers
    fault = cluster.fault(CONNECT, broker=second).disconnect()
    assert repr(fault).endswith(f"at broker {second.id} connection closed: always; struck 0 times>")
    fault.once()
    assert repr(fault).endswith("connection closed: once; struck 0 times>")
    assert connects(first.service_url)
    assert fault.struck == 0
    with pytest.raises(AssertionError, match="struck 0 times, and 1 were expected"):
        fault.wait(within_s=0)
    assert not connects(second.service_url)
    fault.wait(within_s=0)
    assert connects(second.service_url)
    assert fault.struck == 1
    fault.remove()
    fault.remove()


def test_all_faults_are_ended_at_once(cluster: Cluster) -> None:
    first = cluster.brokers[0]
    cluster.disk_full(first)
    cluster.fault(CONNECT).disconnect()
    assert not connects(first.service_url)
    cluster.clear_faults()
    assert connects(first.service_url)
    assert not first.disk.is_full


def test_over_http_a_fault_counts_what_it_matched_and_what_it_struck(cluster: Cluster) -> None:
    first, api = cluster.brokers[0], Api(cluster.admin_url)
    body = {"operation": "CONNECT", "effect": "disconnect", "every": 2, "broker": first.id}
    assert api("POST", FAULTS, body).status == 200
    assert connects(first.service_url)
    [listed] = api("GET", FAULTS).value
    assert (listed["matched"], listed["struck"]) == (1, 0)
    assert not connects(first.service_url)
    [listed] = api("GET", FAULTS).value
    assert (listed["matched"], listed["struck"]) == (2, 1)


def test_over_http_a_fault_of_a_broker_begins_unless_it_is_to_end(cluster: Cluster) -> None:
    first, api = cluster.brokers[0], Api(cluster.admin_url)
    body = {"broker": first.id, "fault": "disk-full"}
    assert api("POST", f"{FAULTS}/brokers", {**body, "end": False}).status == 204
    assert first.disk.is_full
    assert api("POST", f"{FAULTS}/brokers", {**body, "end": True}).status == 204
    assert not first.disk.is_full


def test_over_http_more_than_one_event_can_be_expected(cluster: Cluster) -> None:
    body = {"what": "redelivered", "topic": "x", "times": 2, "within_s": 0}
    answer = Api(cluster.admin_url)("POST", f"{FAULTS}/expect", body)
    assert answer.status == 409
    assert "x was redelivered 0 times, and 2 were expected" in answer.value["reason"]


def test_a_fault_of_json_has_all_that_was_asked_for() -> None:
    asked = {"operation": "send", "topic": "t", "client": "c*", "broker": "b:1"}
    target = FaultTarget("t", "c*", "b:1")
    error = FaultEffect.error("MetadataError", "not now")
    assert fault_of(
        {**asked, "effect": "error", "code": "MetadataError", "message": "not now", "every": 3}
    ) == Fault(SEND, error, target, ALWAYS.but(every=3))
    assert fault_of({**asked, "effect": "drop", "probability": 0.5, "seed": 7}) == Fault(
        SEND, FaultEffect(EffectKind.DROP), target, Schedule(probability=0.5, seed=7)
    )


def test_a_broker_that_is_gone_has_no_faults() -> None:
    with Cluster(brokers=2) as cluster:
        first, second = cluster.brokers
        full = cluster.disk_full(second)
        cluster.kill(second)
        full.remove()
        assert "no longer" not in "".join(said(cluster, second))
        with pytest.raises(InvalidFault, match="is gone: no fault can be set there"):
            cluster.freeze(second)
        cluster.clock.advance(ADVANCE_MAX_S)
        assert cluster.events[-1].text == f"it is {ADVANCE_MAX_S:g} s later"
        assert connects(first.service_url)
