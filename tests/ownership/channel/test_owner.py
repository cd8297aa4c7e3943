import pytest

from counterpoise.ownership.channel.data import State, StateData
from counterpoise.ownership.channel.owner import (
    Deleted,
    Nobody,
    Owner,
    Wait,
    owner_of,
    serves,
)
from tests.ownership.channel.records import A, B, C, record

ALIVE = (A, B)


@pytest.mark.parametrize(
    ("data", "answer"),
    [
        (None, Nobody()),
        (record(State.FREE, None, A), Nobody()),
        (record(State.OWNED, B), Owner(B)),
        (record(State.SPLITTING, None, B), Owner(B)),
        (record(State.ASSIGNING, B), Owner(B)),
        (record(State.RELEASING, B, A), Owner(B)),
        (record(State.DELETED, None, B), Deleted()),
    ],
)
def test_a_lookup_is_answered_at_once_where_it_can_be(
    data: StateData | None, answer: object
) -> None:
    assert owner_of(data, A, ALIVE) == answer


@pytest.mark.parametrize(
    "data",
    [
        record(State.OWNED, C),
        record(State.SPLITTING, None, C),
        record(State.ASSIGNING, A),
        record(State.RELEASING, A, B),
        record(State.RELEASING, None, B),
        record(State.ASSIGNING, C),
        record(State.RELEASING, C, B),
    ],
)
def test_a_lookup_waits_while_it_cannot_be_known(data: StateData) -> None:
    assert isinstance(owner_of(data, A, ALIVE), Wait)


def test_topics_open_where_the_bundle_is_owned_and_nowhere_else() -> None:
    assert serves(record(State.OWNED, A, B), A)
    assert not serves(record(State.OWNED, A, B), B)
    assert serves(record(State.SPLITTING, None, A), A)
    assert not any(
        serves(data, A)
        for data in (
            None,
            record(State.ASSIGNING, A),
            record(State.RELEASING, B, A),
            record(State.FREE, None, A),
            record(State.DELETED, None, A),
        )
    )
