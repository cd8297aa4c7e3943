"""Where a bundle is, by its lock and by the announcement that it is handed over."""

from dataclasses import replace

import pytest

from counterpoise.ownership.lock import LockAndRedirect
from counterpoise.ownership.port import BundleLocation
from counterpoise.ownership.records import HandOver, NamespaceEphemeralData
from tests.ownership.lock.machine import BUNDLE, ME, OTHER, TERMS

MINE = TERMS.me
LEAVING = replace(MINE, disabled=True)
THIRD = "b3:8080"
UNKNOWN = NamespaceEphemeralData("", "")


@pytest.mark.parametrize(
    ("hand_over", "lock", "found"),
    [
        pytest.param(None, None, BundleLocation(None), id="nowhere"),
        pytest.param(None, MINE, BundleLocation(MINE), id="at its owner"),
        pytest.param(None, LEAVING, BundleLocation(LEAVING, changing=True), id="being split"),
        pytest.param(
            HandOver(ME, OTHER), MINE, BundleLocation(MINE, OTHER, changing=True), id="on its way"
        ),
        pytest.param(
            HandOver(ME, None), MINE, BundleLocation(MINE, changing=True), id="being released"
        ),
        pytest.param(
            HandOver(ME, OTHER), None, BundleLocation(None, OTHER, changing=True), id="between"
        ),
        pytest.param(
            HandOver(OTHER, ME), MINE, BundleLocation(MINE), id="come, and to be withdrawn"
        ),
        pytest.param(
            HandOver(OTHER, THIRD), MINE, BundleLocation(MINE), id="at a broker that was not named"
        ),
        pytest.param(b"{", MINE, BundleLocation(MINE), id="an announcement that is none"),
        pytest.param(None, b"{", BundleLocation(UNKNOWN), id="a lock that names no broker"),
    ],
)
def test_where_a_bundle_is(
    hand_over: HandOver | bytes | None,
    lock: NamespaceEphemeralData | bytes | None,
    found: BundleLocation,
) -> None:
    protocol = LockAndRedirect(TERMS)
    values = [
        each if each is None or isinstance(each, bytes) else each.to_json()
        for each in (hand_over, lock)
    ]
    nodes = dict(zip(protocol.nodes(BUNDLE), values, strict=True))
    assert protocol.locate(nodes) == found
