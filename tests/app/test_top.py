"""What ``counterpoise top`` shows of limits: what they allow, what passes, and what waits."""

import asyncio
from typing import Any

import pytest

from counterpoise.app.main import main
from counterpoise.app.verbs.top import screen
from tests.pipeline.fake_cluster import FakeCluster

WAITING: dict[str, Any] = {
    "level": "topicPublishRate",
    "subject": "public/default/t",
    "messages": 1000,
    "bytes": 0,
    "period_s": 10,
    "passed_messages": 1300,
    "passed_bytes": 5000,
    "seconds": 2.25,
    "producers": [
        {
            "name": "p-1",
            "address": "10.0.0.1:5",
            "topic": "t-1",
            "held_entries": 12,
            "held_bytes": 34_567,
            "seconds": 1.24,
        }
    ],
    "subscriptions": [{"name": "s-1", "topic": "t-2", "behind": 1234, "seconds": 3.0}],
}
FREE: dict[str, Any] = {
    "level": "brokerPublishRate",
    "subject": "b:1",
    "messages": 0,
    "bytes": 2_000_000,
    "passed_messages": 0,
    "passed_bytes": 0,
    "seconds": 0.0,
    "producers": [],
}


def rows(*found: tuple[str, dict[str, Any]], **more: Any) -> list[list[str]]:
    """The lines below the heading, a row of cells each."""
    _, *lines = screen(found, more.pop("before", {}), more.pop("seconds", 5.0), **more)
    return [[cell for cell in line.split("  ") if cell.strip()] for line in lines]


def test_a_limit_at_which_clients_wait_is_shown_with_each_of_them() -> None:
    before = {("b:1", "topicPublishRate", "public/default/t"): (300, 1000)}
    limit, producer, subscription = rows(("b:1", WAITING), ("b:1", FREE), before=before)
    assert [cell.strip() for cell in limit] == [
        "topicPublish", "public/default/t", "100 msg/s", "200 msg/s, 800 B/s", "2", "2.2 s",
    ]  # fmt: skip
    assert [cell.strip() for cell in producer] == [
        "p-1",
        "10.0.0.1:5 on t-1: 12 entries, 34,567 bytes, for 1.2 s",
    ]
    assert [cell.strip() for cell in subscription] == [
        "s-1",
        "of t-2: 1,234 entries behind, for 3.0 s",
    ]


def test_a_limit_at_which_none_waits_is_shown_on_request_and_what_passes_once_it_is_known() -> None:
    assert rows(("b:1", FREE)) == [["no client waits at a limit"]]
    assert rows(answered=0) == []
    [limit] = rows(("b:1", FREE), everything=True)
    assert [cell.strip() for cell in limit] == [
        "brokerPublish", "b:1", "2,000,000 B/s", "-", "0", "0.0 s",
    ]  # fmt: skip
    known = {("b:1", "brokerPublishRate", "b:1"): (0, 0)}
    [limit] = rows(("b:1", FREE), everything=True, before=known)
    assert limit[3].strip() == "0"
    [limit] = rows(("b:1", FREE), everything=True, before=known, seconds=0.0)
    assert limit[3].strip() == "-"
    [limit] = rows(("b:2", FREE), everything=True, before=known)
    assert limit[3].strip() == "-", "another broker's figures"


def test_of_a_long_name_the_end_is_shown() -> None:
    [limit] = rows(("b:1", {**FREE, "subject": "tenant/" * 9 + "end"}), everything=True)
    assert limit[1].strip() == ("tenant/" * 9 + "end")[-42:]


async def test_a_broker_that_refuses_is_not_taken_for_one_of_apaches(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with FakeCluster() as cluster:
        broker = await cluster.add_broker()
        broker.answers["/admin/v2/broker-stats/throttling"] = (403, b'{"reason": "no"}')
        words = ["top", "--once", "--admin-url", cluster.admin_url]
        assert await asyncio.to_thread(main, words) == 1
    said = capsys.readouterr().out
    assert f"{broker.name}: " in said
    assert "does not list clients" not in said


@pytest.mark.parametrize("listing", [2, 1])
async def test_its_status_says_whether_each_broker_lists_its_limits(
    listing: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Apache's brokers do not."""
    async with FakeCluster() as cluster:
        brokers = [await cluster.add_broker() for _ in range(2)]
        for each in brokers[:listing]:
            each.answers["/admin/v2/broker-stats/throttling"] = (200, b"[]")
        words = ["top", "--once", "--admin-url", cluster.admin_url]
        assert await asyncio.to_thread(main, words) == (0 if listing == 2 else 1)
    said = capsys.readouterr().out
    assert "no client waits at a limit" in said
    assert (f"{brokers[1].name} does not list clients" in said) is (listing == 1)
