"""What a record says to whoever asks where a bundle is, and to the broker it obliges."""

from __future__ import annotations

from dataclasses import replace

import pytest

from counterpoise.ownership.channel.data import State, StateData
from counterpoise.ownership.channel.duties import Write, duty
from counterpoise.ownership.channel.protocol import StateChannel
from counterpoise.ownership.port import Terms, Whereabouts
from counterpoise.ownership.records import NamespaceEphemeralData
from tests.ownership.channel.records import BUNDLE, A, B, record

AT_A = NamespaceEphemeralData("", f"http://{A}")


@pytest.mark.parametrize(
    ("said", "found"),
    [
        (None, Whereabouts(None)),
        (record(State.INIT, by=A), Whereabouts(None)),
        (record(State.FREE, by=A), Whereabouts(None)),
        (record(State.OWNED, A, B), Whereabouts(AT_A)),
        # A bundle that is being cut is served by whoever cuts it.
        (record(State.SPLITTING, by=A), Whereabouts(AT_A, splitting=True)),
        (record(State.SPLITTING, B, A), Whereabouts(AT_A, splitting=True)),
        (record(State.ASSIGNING, B, A), Whereabouts(None, heir=B, changing=True)),
        (record(State.RELEASING, B, A), Whereabouts(None, heir=B, changing=True)),
        (record(State.RELEASING, by=A), Whereabouts(AT_A, changing=True)),
        # What has been cut is nobody's to be: its parts are.
        (record(State.DELETED, B, A), Whereabouts(AT_A, changing=True)),
    ],
    ids=lambda said: said.state.value if isinstance(said, StateData) else "",
)
def test_where_a_bundle_is(said: StateData | None, found: Whereabouts) -> None:
    channel = StateChannel(Terms(NamespaceEphemeralData("pulsar://b:6650", f"http://{B}")), int)
    value = None if said is None else said.to_json()
    assert channel.whereabouts({"": value}) == found
    assert channel.whereabouts({"": b"garbled"}) == Whereabouts(None)


def test_a_split_that_was_announced_is_over_when_its_owner_says_so() -> None:
    silent = record(State.SPLITTING, by=A)
    announced = replace(silent, children={str(BUNDLE.range): None})
    assert isinstance(duty(silent, A, 7, is_open=True), Write)
    assert duty(announced, A, 7, is_open=True) is None
    assert duty(announced, B, 7, is_open=False) is None
