"""Where a bundle is, by its record."""

import pytest

from counterpoise.ownership.channel.data import ServiceUnitState, ServiceUnitStateData
from counterpoise.ownership.channel.protocol import StateChannel
from counterpoise.ownership.channel.state import RECORDS
from counterpoise.ownership.port import BundleLocation, OwnershipOptions
from counterpoise.ownership.records import NamespaceEphemeralData
from tests.ownership.channel.records import BUNDLE, A, B, record

PATH = f"{RECORDS}/{BUNDLE}"
AT_A = NamespaceEphemeralData("", f"http://{A}")


@pytest.mark.parametrize(
    ("said", "found"),
    [
        (None, BundleLocation(None)),
        (record(ServiceUnitState.INIT, by=A), BundleLocation(None)),
        (record(ServiceUnitState.FREE, by=A), BundleLocation(None)),
        (record(ServiceUnitState.OWNED, A, B), BundleLocation(AT_A)),
        # A bundle that is being split is served by the broker that splits it.
        (record(ServiceUnitState.SPLITTING, by=A), BundleLocation(AT_A, splitting=True)),
        (record(ServiceUnitState.SPLITTING, B, A), BundleLocation(AT_A, splitting=True)),
        (
            record(ServiceUnitState.ASSIGNING, B, A),
            BundleLocation(None, successor=B, changing=True),
        ),
        (
            record(ServiceUnitState.RELEASING, B, A),
            BundleLocation(None, successor=B, changing=True),
        ),
        (record(ServiceUnitState.RELEASING, by=A), BundleLocation(AT_A, changing=True)),
        # No broker is to own a bundle that was split: its parts have owners.
        (record(ServiceUnitState.DELETED, B, A), BundleLocation(AT_A, changing=True)),
    ],
    ids=lambda said: said.state.value if isinstance(said, ServiceUnitStateData) else "",
)
def test_where_a_bundle_is(said: ServiceUnitStateData | None, found: BundleLocation) -> None:
    channel = StateChannel(
        OwnershipOptions(NamespaceEphemeralData("pulsar://b:6650", f"http://{B}")), int
    )
    value = None if said is None else said.to_json()
    assert channel.locate({PATH: value}) == found
    assert channel.locate({PATH: b"garbled"}) == BundleLocation(None)
