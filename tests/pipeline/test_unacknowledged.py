"""What consumers have not acknowledged, by what brokers say of their subscriptions."""

import json
from pathlib import Path
from typing import Any

import pytest

from counterpoise.load.fields import LoadDataError
from counterpoise.pipeline.unacknowledged import seconds_by_bundle

RECORDED = Path(__file__).parent / "recorded" / "extensible-topics.json"


def answer(*topics: dict[str, Any]) -> bytes:
    by_name = {f"persistent://t/n/{i}": {"subscriptions": each} for i, each in enumerate(topics)}
    return json.dumps({"t/n": {"0x0_0x1": {"persistent": by_name}}}).encode()


def subscription(kind: str, rate: float, **more: object) -> dict[str, Any]:
    consumers = [{"avgMessagesPerEntry": 1}, {"avgMessagesPerEntry": 20}]
    return {"type": kind, "msgRateOut": rate, "consumers": consumers, **more}


def test_it_is_read_of_what_a_broker_of_pulsar_says() -> None:
    found = seconds_by_bundle(RECORDED.read_bytes())
    # The consumers of five topics acknowledge within a quarter of a second.
    busy = {bundle: seconds for bundle, seconds in found.items() if bundle.startswith("public/")}
    assert busy
    assert all(0 < seconds < 0.25 for seconds in busy.values())
    system = [seconds for bundle, seconds in found.items() if bundle.startswith("pulsar/system/")]
    assert set(system) == {0.0}, "one entry is the one that comes next"


def test_messages_are_counted_one_by_one_or_by_entries_as_the_subscription_does() -> None:
    shared = subscription("Shared", 100.0, unackedMessages=25,
                          numberOfEntriesSinceFirstNotAckedMessage=9000)  # fmt: skip
    failover = subscription("Failover", 50.0, numberOfEntriesSinceFirstNotAckedMessage=6)
    left = {**subscription("Shared", 0.0, unackedMessages=70), "consumers": []}
    assert seconds_by_bundle(answer({"a": shared, "b": left})) == {"t/n/0x0_0x1": 0.25}
    assert seconds_by_bundle(answer({"a": failover})) == {"t/n/0x0_0x1": 2.0}
    both = seconds_by_bundle(answer({"a": shared}, {"b": failover}))
    assert both == {"t/n/0x0_0x1": pytest.approx(125 / 150)}
    assert seconds_by_bundle(answer({"a": subscription("Shared", 0.0, unackedMessages=3)})) == {}


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"t/n": {"b": {"persistent": {"t": 1}}}}'])
def test_what_is_no_answer_is_an_error(body: bytes) -> None:
    with pytest.raises((LoadDataError, ValueError)):
        seconds_by_bundle(body)
