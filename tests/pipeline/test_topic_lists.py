"""The topics of namespaces: which one is in a bundle, and how often a namespace is listed."""

import asyncio
import json
from itertools import pairwise
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoise.names.bundle import BundleName, NamespaceBundles
from counterpoise.names.namespace import NamespaceName
from counterpoise.names.topic import TopicName
from counterpoise.pipeline.bundle_lookup import (
    GOOD_FOR_S,
    NAMESPACES_MOST,
    TopicLists,
    TopicRing,
    pause_after,
)
from counterpoise.pipeline.collect.admin import Admin, RefusedError
from tests.quota.jumping import on_jumping_loop, pass_time


@given(st.sets(st.integers(0, 200), max_size=12), st.sampled_from([1, 2, 4, 16, 64]))
def test_a_bundle_has_one_of_its_own_topics_or_none(numbers: set[int], count: int) -> None:
    topics = [f"persistent://t/n/topic-{number}" for number in numbers]
    bundles = NamespaceBundles.of_count(NamespaceName.parse("t/n"), count)
    ring = TopicRing.of(topics)
    there: dict[str, set[str]] = {}
    for topic in topics:
        there.setdefault(str(bundles.bundle_of(TopicName.parse(topic))), set()).add(topic)
    for lower, upper in pairwise(bundles.boundary_texts):
        bundle = BundleName.parse(f"t/n/{lower}_{upper}")
        found = ring.topic_in(bundle)
        assert (found in there[str(bundle)]) if str(bundle) in there else found == ""


class Listing:
    """An admin API that lists one topic for each namespace, and may fail or wait."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.fails = False
        self.held = asyncio.Event()
        self.held.set()

    async def get(self, url: str) -> bytes:
        self.asked.append(url)
        await self.held.wait()
        if self.fails:
            raise RefusedError("not now")
        return json.dumps([f"persistent://{url.partition('/persistent/')[2]}/x"]).encode()


def whole(namespace: str) -> BundleName:
    return BundleName.parse(f"{namespace}/0x00000000_0xffffffff")


def lists(listing: Listing) -> TopicLists:
    return TopicLists(cast("Admin", listing))


@on_jumping_loop
async def test_a_namespace_is_listed_once_a_minute_whatever_asks_for_it() -> None:
    listing = Listing()
    topics = lists(listing)
    listing.held.clear()
    asked = [asyncio.create_task(topics.topic_in(whole("t/n"), "http://b")) for _ in range(3)]
    await asyncio.sleep(0)
    asked[0].cancel()
    listing.held.set()
    assert await asked[1] == await asked[2] == "persistent://t/n/x"
    await pass_time(GOOD_FOR_S - 0.001)
    assert topics.is_listed("t/n")
    await topics.topic_in(whole("t/n"), "http://b")
    assert len(listing.asked) == 1
    await pass_time(0.001)
    assert not topics.is_listed("t/n")
    await topics.topic_in(whole("t/n"), "http://b")
    assert listing.asked == ["http://b/admin/v2/persistent/t/n"] * 2
    assert topics.is_listed("t/n")


@on_jumping_loop
async def test_a_list_that_failed_is_asked_for_again() -> None:
    listing = Listing()
    topics = lists(listing)
    listing.fails = True
    with pytest.raises(RefusedError, match="not now"):
        await topics.topic_in(whole("t/n"), "http://b")
    assert not topics.is_listed("t/n")
    listing.fails = False
    assert await topics.topic_in(whole("t/n"), "http://b")


@on_jumping_loop
async def test_of_many_namespaces_those_that_were_listed_last_are_remembered() -> None:
    listing = Listing()
    topics = lists(listing)
    names = [f"t/n{number}" for number in range(NAMESPACES_MOST + 2)]
    for name in names:
        await topics.topic_in(whole(name), "http://b")
    assert [topics.is_listed(each) for each in names] == [False] * 2 + [True] * NAMESPACES_MOST
    await pass_time(GOOD_FOR_S)
    for name in (names[3], *(f"t/later{number}" for number in range(NAMESPACES_MOST - 1))):
        await topics.topic_in(whole(name), "http://b")
    assert topics.is_listed(names[3]), "it was listed again since"


def test_an_owner_is_asked_for_less_and_less_often_and_every_two_seconds_at_least() -> None:
    pauses, pause = [], 0.0
    for _ in range(30):
        pause = pause_after(pause)
        pauses.append(pause)
    assert pauses[:3] == pytest.approx([0.1, 0.12, 0.144])
    assert pauses == sorted(pauses)
    assert pauses[-1] == 2.0
