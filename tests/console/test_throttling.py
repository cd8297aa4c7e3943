"""Limits at which producers wait: listed by our brokers, counted by Apache's."""

import json

import aiohttp

from counterpoise.console.throttling import Throttling
from counterpoise.pipeline.collect.admin import Admin, AdminOptions
from tests.pipeline.fake_cluster import FakeCluster

LISTED = "/admin/v2/broker-stats/throttling"
PRODUCER = {"name": "p", "address": "x:1", "topic": "t", "held_entries": 1, "seconds": 1.0}
LIMIT = {
    "level": "TopicPublishRate",
    "subject": "t",
    "messages": 5,
    "bytes": 0,
    "producers": [PRODUCER],
}


def metrics(*counts: int) -> tuple[int, bytes]:
    """A counter for each of the topic's producers."""
    line = 'pulsar_publish_rate_limit_times{{cluster="c",topic="t",producer="{}"}} {}\n'
    return 200, "".join(line.format(n, count) for n, count in enumerate(counts)).encode()


async def test_a_broker_that_has_no_such_list_is_asked_for_its_counters_from_then_on() -> None:
    async with FakeCluster() as cluster, aiohttp.ClientSession() as session:
        broker = await cluster.add_broker()
        throttling = Throttling(Admin(session, AdminOptions()))
        found = []
        for counts in ((0, 0), (3, 2), (5, 2), (5, 2)):
            broker.answers["/metrics/"] = metrics(*counts)
            found += [await throttling.read("http://{}".format, [broker.name])]
        assert broker.asked.count(LISTED) == 1
    *before, [limit], after = found
    assert [*before, after] == [(), (), ()]
    assert (limit.broker, limit.topics) == (broker.name, {"t"})
    assert "reached 2 times since the last look" in limit.why


async def test_a_broker_that_is_busy_is_asked_for_its_list_again() -> None:
    async with FakeCluster() as cluster, aiohttp.ClientSession() as session:
        broker = await cluster.add_broker()
        throttling = Throttling(Admin(session, AdminOptions()))
        broker.answers[LISTED] = (503, b"")
        assert await throttling.read("http://{}".format, [broker.name]) == ()
        broker.answers[LISTED] = (200, json.dumps([LIMIT]).encode())
        [limit] = await throttling.read("http://{}".format, [broker.name])
        assert limit.subject == "t"
