import pytest

from counterpoise.ownership.channel import orders
from counterpoise.ownership.channel.data import ServiceUnitState
from counterpoise.ownership.channel.transitions import Storage, refusal
from tests.ownership.channel.records import A, B, record


def test_orders_are_records_that_may_follow() -> None:
    owned = record(ServiceUnitState.OWNED, A, version=2)
    for storage in Storage:
        assert refusal(None, orders.assign(None, A, 1), storage) is None
        assert refusal(owned, orders.unload(owned, 1), storage) is None
        assert refusal(owned, orders.unload(owned, 1, destination=B), storage) is None
        assert refusal(owned, orders.split(owned, {"x": None, "y": None}, 1), storage) is None
    free = record(ServiceUnitState.FREE, None, A, version=2)
    assert refusal(free, orders.assign(free, B, 1), Storage.METADATA_STORE) is None


def test_of_two_assignments_the_second_is_ignored() -> None:
    first, second = orders.assign(None, A, 1), orders.assign(None, B, 1)
    for storage in Storage:
        assert refusal(first, second, storage) is not None


def test_only_an_owned_bundle_can_be_unloaded_or_split() -> None:
    for before in (
        None,
        record(ServiceUnitState.ASSIGNING, A),
        record(ServiceUnitState.RELEASING, B, A),
    ):
        with pytest.raises(orders.ChangeRefused, match="only an owned bundle"):
            orders.unload(before, 1)
        with pytest.raises(orders.ChangeRefused, match="only an owned bundle"):
            orders.split(before, {}, 1)
    with pytest.raises(orders.ChangeRefused, match="has the bundle already"):
        orders.unload(record(ServiceUnitState.OWNED, A), 1, destination=A)
