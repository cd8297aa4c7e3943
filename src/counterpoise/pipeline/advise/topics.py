"""The load of some bundles' topics, from `broker-stats/topics` of their owners."""

import asyncio
from collections.abc import Collection, Mapping

import orjson

from counterpoise.load.fields import LoadDataError
from counterpoise.load.topic_loads import TopicLoad
from counterpoise.pipeline.collect.admin import UNREADABLE, Admin
from counterpoise.pipeline.collect.extensible import fetch_topics
from counterpoise.pipeline.collect.topic_loads import topic_loads
from counterpoise.pipeline.collect.words import error_text

TopicLoads = Mapping[str, Mapping[str, TopicLoad]]
"""The load of each topic, by bundle and then by topic."""


async def topics_of(
    admin: Admin, addresses: Mapping[str, str], bundles: Mapping[str, str]
) -> tuple[TopicLoads, tuple[str, ...]]:
    """The load of the topics of some bundles, and a sentence for each broker that did not answer.

    `bundles` has the owner of each bundle, `addresses` the admin URL of each broker.
    """
    by_broker: dict[str, set[str]] = {}
    for bundle, broker in bundles.items():
        if broker in addresses:
            by_broker.setdefault(broker, set()).add(bundle)
    answers = await asyncio.gather(
        *(_asked(admin, addresses[broker], by_broker[broker]) for broker in sorted(by_broker))
    )
    found: dict[str, Mapping[str, TopicLoad]] = {}
    trouble = []
    for broker, answer in zip(sorted(by_broker), answers, strict=True):
        if isinstance(answer, str):
            trouble.append(f"the topics of {broker} are not known: {answer}")
        else:
            found |= answer
    return found, tuple(trouble)


async def _asked(admin: Admin, address: str, bundles: Collection[str]) -> TopicLoads | str:
    try:
        body = await fetch_topics(admin, address)
        return await asyncio.to_thread(topic_loads, body, bundles)
    except (*UNREADABLE, LoadDataError, orjson.JSONDecodeError) as error:
        return error_text(error)
