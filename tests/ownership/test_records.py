"""Records as Pulsar writes them into the metadata store."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoise.ownership.events import BundleReleased, SuccessorReady
from counterpoise.ownership.records import (
    HandOver,
    InvalidRecord,
    LeaderBroker,
    NamespaceEphemeralData,
)
from counterpoise.ownership.signals import CLOSED, READY, signal_of, signal_path

TEXT = st.text(max_size=20)


def test_leader_broker_has_the_fields_of_pulsars_class() -> None:
    leader = LeaderBroker("b1:8080", "http://b1:8080")
    assert json.loads(leader.to_json()) == {"brokerId": "b1:8080", "serviceUrl": "http://b1:8080"}


def test_ownership_has_the_fields_of_pulsars_class_and_omits_nulls() -> None:
    owner = NamespaceEphemeralData("pulsar://b1:6650", "http://b1:8080")
    assert json.loads(owner.to_json()) == {
        "nativeUrl": "pulsar://b1:6650",
        "httpUrl": "http://b1:8080",
        "disabled": False,
        "advertisedListeners": {},
    }


def test_a_lock_written_by_pulsar_is_read() -> None:
    owner = NamespaceEphemeralData.from_json(
        b'{"nativeUrl":"pulsar://b1:6650","nativeUrlTls":"pulsar+ssl://b1:6651",'
        b'"httpUrl":"http://b1:8080","httpUrlTls":null,"disabled":true,'
        b'"advertisedListeners":{"internal":{"brokerServiceUrl":"pulsar://b1:6650"}},"new":1}'
    )
    assert owner.native_url_tls == "pulsar+ssl://b1:6651"
    assert owner.disabled
    assert owner.broker_id == "b1:8080"


@pytest.mark.parametrize(
    ("http", "https", "broker_id"),
    [
        ("http://b1:8080", "https://b1:8443", "b1:8080"),
        ("", "https://b1:8443/", "b1:8443"),
        ("", None, ""),
    ],
)
def test_an_owner_is_named_by_whichever_web_address_it_has(
    http: str, https: str | None, broker_id: str
) -> None:
    assert NamespaceEphemeralData("", http, None, https).broker_id == broker_id


@given(native=TEXT, http=TEXT, tls=st.none() | TEXT, disabled=st.booleans())
def test_ownership_survives_the_round_trip(
    native: str, http: str, tls: str | None, disabled: bool
) -> None:
    owner = NamespaceEphemeralData(
        native, http, tls, tls, disabled, {"x": {"brokerServiceUrl": native}}
    )
    assert NamespaceEphemeralData.from_json(owner.to_json()) == owner


@given(source=TEXT, destination=st.none() | TEXT)
def test_a_hand_over_survives_the_round_trip(source: str, destination: str | None) -> None:
    hand_over = HandOver(source, destination)
    assert HandOver.from_json(hand_over.to_json()) == hand_over


@given(broker_id=TEXT, url=TEXT)
def test_leader_survives_the_round_trip(broker_id: str, url: str) -> None:
    leader = LeaderBroker(broker_id, url)
    assert LeaderBroker.from_json(leader.to_json()) == leader


@pytest.mark.parametrize("value", [b"", b"{", b"[]", b"1", b'"x"', b"\xff"])
def test_what_is_no_record_is_named(value: bytes) -> None:
    with pytest.raises(InvalidRecord, match="LeaderBroker"):
        LeaderBroker.from_json(value)
    with pytest.raises(InvalidRecord, match="NamespaceEphemeralData"):
        NamespaceEphemeralData.from_json(value)
    with pytest.raises(InvalidRecord, match="HandOver"):
        HandOver.from_json(value)


def test_a_leader_without_an_id_is_no_leader() -> None:
    with pytest.raises(InvalidRecord):
        LeaderBroker.from_json(b'{"serviceUrl":"http://b1:8080"}')


def test_only_a_node_of_a_bundle_is_a_signal() -> None:
    for kind, event in ((READY, SuccessorReady()), (CLOSED, BundleReleased())):
        assert signal_of(signal_path(kind, "t/n/0x0_0x1")) == ("t/n/0x0_0x1", event)
        for other in ("", "/t/n", "/t/n/0x0_0x1/more", "s/t/n/0x0_0x1"):
            assert signal_of(f"{kind}{other}") is None
