"""What is counted of bundles, under the words of Pulsar's labels."""

import asyncio
import contextlib
from collections import Counter
from dataclasses import replace
from typing import cast

import pytest

from counterpoise.broker.bundles.tally import SKIP, BundleTally, counted
from counterpoise.ownership.channel.data import ServiceUnitState, ServiceUnitStateData
from counterpoise.ownership.channel.state import ChannelBundle, ChannelContext
from counterpoise.ownership.port import BundleLocation
from counterpoise.ownership.records import NamespaceEphemeralData

OWNER = NamespaceEphemeralData("pulsar://b1:1", "http://b1:80")
OWNED = ServiceUnitStateData(ServiceUnitState.OWNED, "b1:80", version=1)


@pytest.mark.parametrize(
    ("error", "result"),
    [(None, "Success"), (ValueError(), "Failure"), (asyncio.CancelledError(), "Failure")],
)
def test_what_ends_is_counted_once_by_how_it_ended(
    error: BaseException | None, result: str
) -> None:
    for skips in (False, True):
        counts = Counter[str]()
        with contextlib.suppress(ValueError, asyncio.CancelledError):
            with counted(counts) as outcome:
                outcome.result = SKIP if skips else outcome.result
                if error is not None:
                    raise error
            assert error is None, "it was swallowed"
        assert counts == {result if error is not None or not skips else SKIP: 1}


@pytest.mark.parametrize(
    ("where", "state"),
    [
        (BundleLocation(OWNER), "Owned"),
        (BundleLocation(None), "Init"),
        (BundleLocation(OWNER, changing=True), "Releasing"),
        (BundleLocation(OWNER, successor="b2:80", changing=True), "Assigning"),
    ],
)
def test_lookups_are_counted_by_the_state_that_they_find(where: BundleLocation, state: str) -> None:
    tally = BundleTally()
    tally.looked_up(where)
    assert tally.lookups == {(state, "Total"): 1}
    tally.looked_up(None)
    assert tally.lookups["Init", "Failure"] == 1
    assert sum(n for (_, result), n in tally.lookups.items() if result == "Total") == 2


def test_records_are_counted_by_the_change_that_they_begin() -> None:
    tally = BundleTally()
    for state in ServiceUnitState:
        for failed in (False, True):
            tally.wrote(replace(OWNED, state=state, source="b1:80").to_json(), failed=failed)
    tally.wrote(b"no record", failed=True)
    counts = {"Total": 2, "Failure": 1}
    assert tally.published == {
        (event, result): n
        for event in ("Assign", "Unload", "Split")
        for result, n in counts.items()
    }
    tally.repaired(removed=False)
    tally.repaired(removed=True)
    assert (tally.orphans, tally.tombstones) == (1, 1)
    assert tally.published["Override", "Total"] == 1
    assert tally.published["Override", "Failure"] == 0


def test_a_record_counts_as_taken_up_once_however_often_its_bundle_changes() -> None:
    tally = BundleTally()
    started = ChannelBundle(cast("ChannelContext", None), "t/n/0x00000000_0xffffffff")
    owned = replace(started, record=OWNED)
    tally.moved_on(started, owned)
    tally.moved_on(owned, replace(owned, failures=1))
    tally.moved_on(owned, started)
    assert tally.records_read == {"Owned": 1}
