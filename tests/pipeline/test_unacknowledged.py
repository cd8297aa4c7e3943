"""What consumers have not acknowledged, by what brokers say of their subscriptions."""

import asyncio
import json
from pathlib import Path
from typing import Any, cast

import pytest

from counterpoise.load.fields import LoadDataError
from counterpoise.pipeline.collect.admin import Admin, RefusedError
from counterpoise.pipeline.unacknowledged import GOOD_FOR_S, Unacknowledged, seconds_by_bundle

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
    shared = subscription(
        "Shared", 100.0, unackedMessages=25, numberOfEntriesSinceFirstNotAckedMessage=9000
    )
    failover = subscription("Failover", 50.0, numberOfEntriesSinceFirstNotAckedMessage=6)
    left = {**subscription("Shared", 0.0, unackedMessages=70), "consumers": []}
    assert seconds_by_bundle(answer({"a": shared, "b": left})) == {"t/n/0x0_0x1": 0.25}
    keyed = {**shared, "type": "Key_Shared"}
    assert seconds_by_bundle(answer({"a": keyed})) == {"t/n/0x0_0x1": 0.25}
    assert seconds_by_bundle(answer({"a": failover})) == {"t/n/0x0_0x1": 2.0}
    both = seconds_by_bundle(answer({"a": shared}, {"b": failover}))
    assert both == {"t/n/0x0_0x1": pytest.approx(125 / 150)}
    assert seconds_by_bundle(answer({"a": subscription("Shared", 0.0, unackedMessages=3)})) == {}


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"t/n": {"b": {"persistent": {"t": 1}}}}'])
def test_what_is_no_answer_is_an_error(body: bytes) -> None:
    with pytest.raises((LoadDataError, ValueError)):
        seconds_by_bundle(body)


class Topics:
    """A broker's answers to `broker-stats/topics`, the last one for ever."""

    def __init__(self, *answers: bytes) -> None:
        self.answers = [*answers]
        self.asked = 0
        self.held = asyncio.Event()
        self.held.set()

    async def get(self, _: str, *, of_itself: bool) -> bytes:
        self.asked += 1
        await self.held.wait()
        body = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if not body:
            raise RefusedError("not now")
        return body


async def test_a_broker_is_asked_once_for_half_a_minute_and_again_where_it_said_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop, ahead = asyncio.get_running_loop(), 0.0
    now = loop.time
    monkeypatch.setattr(loop, "time", lambda: now() + ahead)
    consumed = answer({"a": subscription("Shared", 100.0, unackedMessages=25)})
    broker = Topics(b"", b"<html>", b"{}", consumed)
    read = Unacknowledged(cast("Admin", broker))

    async def seconds(bundle: str = "t/n/0x0_0x1") -> float | None:
        return await read.seconds(bundle, "http://b")

    assert [await seconds() for _ in range(3)] == [None] * 3
    assert broker.asked == 3
    broker.held.clear()
    asked = [asyncio.create_task(seconds()) for _ in range(3)]
    await asyncio.sleep(0)
    asked[0].cancel()
    broker.held.set()
    assert [await each for each in asked[1:]] == [0.25, 0.25]
    assert await seconds("t/n/0x1_0x2") is None
    ahead += GOOD_FOR_S - 1
    assert await seconds() == 0.25
    assert broker.asked == 4
    ahead += 2.0
    assert await seconds() == 0.25
    assert broker.asked == 5
