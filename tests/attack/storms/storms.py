"""The storms. Each says much, in good form, and waits until it has been served.

A storm that is not served to its end (`Client.until` raises) has not been stood either.
"""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any

from tests.attack.storms.client import OPENED, TOPIC, Client, command, flow, producer, subscribe
from tests.attack.storms.sky import Sky
from tests.wire.frames import Type

MOST = (1 << 31) - 1
IDS_OF_A_COMMAND = 50_000
"""As many positions as a command of a megabyte holds."""


def ids(count: int, **more: Any) -> list[dict[str, Any]]:
    """Positions, of entries there are and of entries there are not."""
    return [{"ledger_id": 0, "entry_id": each, **more} for each in range(count)]


async def seeks(sky: Sky) -> int:
    """Subscriptions of several clients sought to and fro, durable or not, by id and by time."""
    await (await sky.clients(1))[0].publish(sky.some(20_000))
    count = sky.some(200)

    async def one(who: int, client: Client) -> None:
        for rounds in range(1, 3):
            await client.say(
                subscribe(n, f"{who}-{n}", durable=bool(n % 3), initial_position=1)
                for n in range(count)
            )
            await client.say(flow(n, 1000) for n in range(count))
            await client.say(_seeks(count, rounds))
            await client.heard()
            await client.until(2 * count * rounds, *OPENED)

    clients = await sky.clients(5)
    await asyncio.gather(*itertools.starmap(one, enumerate(clients)))
    return sum(each.said for each in clients)


def _seeks(count: int, rounds: int) -> Iterator[bytes]:
    for again, number in itertools.product(range(20), range(count)):
        where: dict[str, Any] = {"message_publish_time": 1}
        if (again + number) % 2:
            where = {"message_id": {"ledger_id": 0, "entry_id": 7 * number % 1000}}
        request = rounds * 10_000_000 + again * 10_000 + number
        yield command("seek", consumer_id=number, request_id=request, **where)


async def _receive_all(client: Client, kinds: Iterable[int], count: int) -> None:
    """Subscribe by each kind, as the consumer of its number, and receive all there is."""
    for opened, kind in enumerate(kinds, 1):
        await client.say([subscribe(kind, f"kind{kind}", sub_type=kind, initial_position=1)])
        await client.until(opened, *OPENED)
        await client.say([flow(kind, 2 * count)])
        await client.until(opened * count, Type.MESSAGE)


async def acks(sky: Sky) -> int:
    """One by one, cumulative, of parts of batches, of what never was, and many in one command."""
    (client,) = await sky.clients(1)
    count = sky.some(20_000)
    await client.publish(count)
    await _receive_all(client, range(4), count)

    def ack(number: int, cumulative: bool, positions: list[dict[str, Any]]) -> bytes:
        kind = int(cumulative)
        return command("ack", consumer_id=number, ack_type=kind, message_id=positions)

    most = sky.some(IDS_OF_A_COMMAND)
    hostile = [
        [{"ledger_id": (1 << 64) - 1 - each, "entry_id": 1 << 62} for each in range(most // 2)],
        ids(most // 2, ack_set=[(1 << 63) - 1]),
        [{"ledger_id": 0, "entry_id": 5, "ack_set": [0] * most}],
        ids(most)[::-1],
    ]
    for _ in range(3):
        for number in range(4):
            await client.say(
                ack(number, cumulative, positions)
                for positions in hostile
                for cumulative in (False, True)
            )
            await client.say(ack(number, False, [each]) for each in ids(count)[::2])
            await client.say(ack(number, True, [each]) for each in ids(count // 10))
        await client.heard()
    return client.said


async def redeliveries(sky: Sky) -> int:
    """All that is unacknowledged again and again, by list and altogether."""
    (client,) = await sky.clients(1)
    count = sky.some(40_000)
    await client.publish(count)
    await _receive_all(client, (1, 3), count)
    field = "redeliver_unacknowledged_messages"
    listed = ids(sky.some(IDS_OF_A_COMMAND))
    for _ in range(4):
        for number in (1, 3):
            await client.say([command(field, consumer_id=number, message_ids=listed)])
            await client.say([flow(number, count)])
            await client.say(itertools.repeat(command(field, consumer_id=number), 500))
        await client.heard()
    return client.said


async def flows(sky: Sky) -> int:
    """Permits without end, of a hundred consumers of each type."""
    (client,) = await sky.clients(1)
    await client.publish(sky.some(20_000))
    for kind in range(4):
        many = range(100 * kind, 100 * kind + 100)
        await client.say(subscribe(n, f"kind{kind}", sub_type=kind) for n in many)
        await client.until(100 * (kind + 1), *OPENED)
        # Of an exclusive subscription there is one.
        many = many[:1] if kind == 0 else many
        for _ in range(sky.some(50)):
            await client.say(flow(n, MOST) for n in many for _ in range(10))
    await client.heard()
    return client.said


async def questions(sky: Sky) -> int:
    """What costs a client nothing to ask."""
    clients = await sky.clients(5)
    await clients[0].publish(10)

    async def one(client: Client) -> None:
        await client.say([subscribe(0)])
        await client.until(1, *OPENED)
        count = sky.some(4000)
        for number in range(count):
            known = {"request_id": number, "topic": f"{TOPIC}-{number % 50}"}
            await client.say(
                (
                    command("lookup_topic", **known),
                    command("partition_metadata", **known),
                    command("get_schema", **known),
                    command("get_last_message_id", consumer_id=0, request_id=number),
                    command("consumer_stats", consumer_id=0, request_id=number),
                )
            )
        await client.until(count, Type.LOOKUP_RESPONSE)
        await client.until(count, Type.GET_LAST_MESSAGE_ID_RESPONSE)
        await client.until(count, Type.CONSUMER_STATS_RESPONSE)
        await client.until(count, Type.PARTITIONED_METADATA_RESPONSE)
        await client.until(count, Type.GET_SCHEMA_RESPONSE)

    await asyncio.gather(*map(one, clients))
    return sum(each.said for each in clients)


async def producers(sky: Sky) -> int:
    """Producers made and closed, each under a name and with properties of its own."""
    clients = await sky.clients(4)
    await clients[0].publish(10, number=999_999)

    async def one(who: int, client: Client) -> None:
        count = sky.some(5000)
        odd = [{"key": f"{who}-{n}", "value": "v" * 50} for n in range(20)]
        for begin in range(0, count, 500):
            for number in range(begin, begin + 500):
                name = f"{who}-{number}"
                await client.say([producer(number, producer_name=name, metadata=odd)])
                closing = {"producer_id": number, "request_id": count + number}
                await client.say([command("close_producer", **closing)])
        await client.heard()

    await asyncio.gather(*itertools.starmap(one, enumerate(clients)))
    return sum(each.said for each in clients)


async def schemas(sky: Sky) -> int:
    """Versions of a schema, each a field longer than the last, and some that do not go together."""
    clients = await sky.clients(3)

    async def one(who: int, client: Client) -> None:
        count = sky.some(400)
        await client.say(_schema(f"{TOPIC}-schema-{who}", n, who) for n in range(count))
        await client.until(count, Type.GET_OR_CREATE_SCHEMA_RESPONSE)

    await asyncio.gather(*itertools.starmap(one, enumerate(clients)))
    return sum(each.said for each in clients)


def _schema(topic: str, number: int, who: int) -> bytes:
    fields = ",".join(
        f'{{"name":"f{each}","type":["null","string"],"default":null}}'
        for each in range(1 + number % 200 if who else 1000 + number)
    )
    data = f'{{"type":"record","name":"R","fields":[{fields}]}}'.encode()
    schema = {"name": "R", "schema_data": data, "type": 4 if number % 7 else 2}
    return command("get_or_create_schema", topic=topic, request_id=number, schema=schema)


async def properties(sky: Sky) -> int:
    """Commands of a megabyte: properties, credentials, and answers without a request."""
    pairs = [{"key": f"k{n}" * 5, "value": "v" * 60} for n in range(3000)]
    clients = await sky.clients(3)

    async def one(who: int, client: Client) -> None:
        count = sky.some(20)
        for number in range(count):
            name = f"large-{who}-{number}"
            await client.say([subscribe(number, name, subscription_properties=pairs)])
            await client.say([subscribe(count + number, name, metadata=pairs)])
        await client.until(2 * count, *OPENED)

    await asyncio.gather(*itertools.starmap(one, enumerate(clients)))
    greeting = {"auth_method_name": "token", "auth_data": b"x" * 900_000}
    strangers = await sky.clients(sky.some(50), **greeting)
    response = {"auth_method_name": "token", "auth_data": b"x" * 900_000}
    for each in strangers:
        await each.say([command("auth_response", response=response)])
        await each.leave()
    return sum(each.said for each in (*clients, *strangers))


async def subscriptions(sky: Sky) -> int:
    """Many durable subscriptions of one topic, each sent all that is published, then left."""
    client, speaker = await sky.clients(2)
    await speaker.publish(10)
    count = sky.some(3000)
    await client.say(subscribe(n, f"n{n}") for n in range(count))
    await client.until(count, *OPENED)
    await client.say(flow(n, 10) for n in range(count))
    await client.heard()
    await speaker.publish(5, number=1)
    await client.until(5 * count, Type.MESSAGE)
    await client.leave()
    await speaker.heard()
    return client.said


async def consumers(sky: Sky) -> int:
    """Many consumers of one subscription, of each type that takes many."""
    client, speaker = await sky.clients(2)
    await speaker.publish(10)
    for kind, count in ((1, sky.some(20_000)), (2, sky.some(5000)), (3, sky.some(3000))):
        before = sum(client.received[each] for each in OPENED)
        base = kind * 1_000_000
        await client.say(
            subscribe(base + n, f"kind{kind}", sub_type=kind, consumer_name=f"{count - n:06d}")
            for n in range(count)
        )
        await client.until(before + count, *OPENED)
        await client.say(flow(base + n, 10) for n in range(count))
    await speaker.publish(sky.some(1000), number=1)
    await client.leave()
    await speaker.heard()
    return client.said


async def connections(sky: Sky) -> int:
    """Hundreds of clients who all say much at the same moment, come and go."""
    said = 0
    for _ in range(3):
        clients = await sky.clients(sky.some(300))

        async def one(client: Client) -> None:
            await client.say(command("lookup_topic", topic=TOPIC, request_id=n) for n in range(100))
            await client.until(50, Type.LOOKUP_RESPONSE)
            await client.leave()

        await asyncio.gather(*map(one, clients))
        said += sum(each.said for each in clients)
    return said


async def watchers(sky: Sky) -> int:
    """Lists and watches of thousands of topics, by a pattern that selects none or all."""
    at = f"/admin/v2/persistent/public/default/{'t' * 200}/partitions"
    await sky.put(at, sky.some(9000))
    clients = await sky.clients(sky.some(20))

    async def one(client: Client) -> None:
        asked = {"namespace": "public/default", "topics_pattern": "public/default/t.*zzz|x.*"}
        for number in range(3):
            listing = {**asked, "request_id": number}
            watch = {**asked, "request_id": 10 + number, "watcher_id": number}
            await client.say(
                (
                    command("get_topics_of_namespace", **listing),
                    command("watch_topic_list", **watch),
                )
            )
        await client.until(3, Type.GET_TOPICS_OF_NAMESPACE_RESPONSE)
        await client.until(3, Type.WATCH_TOPIC_LIST_SUCCESS)

    await asyncio.gather(*map(one, clients))
    return sum(each.said for each in clients)


async def scrapes(sky: Sky) -> int:
    """The metrics and stats of many subscriptions, for many who ask at once."""
    (client,) = await sky.clients(1)
    await client.publish(10)
    count = sky.some(15_000)
    await client.say(subscribe(n, f"n{n}", durable=False) for n in range(count))
    await client.until(count, *OPENED)
    for path in (
        "/metrics/",
        "/admin/v2/broker-stats/topics",
        "/admin/v2/broker-stats/metrics",
        "/admin/v2/persistent/public/default/attacked/stats",
        "/admin/v2/persistent/public/default/attacked/internalStats",
    ):
        statuses = await sky.get(*[path] * 5)
        assert statuses == [200] * 5, f"{path}: {statuses}"
    return client.said


async def partitions(sky: Sky) -> int:
    """The figures of a topic with thousands of partitions, for many who ask at once."""
    at = "/admin/v2/persistent/public/default/many"
    await sky.put(f"{at}/partitions", sky.some(5000))
    asked = [f"{at}/partitioned-stats"] * 5 + [f"{at}/partitioned-internalStats"] * 5
    statuses = await sky.get(*asked)
    assert statuses == [200] * 10, f"{statuses}"
    return len(asked)


Storm = Callable[[Sky], Awaitable[int]]
STORMS: dict[str, Storm] = {
    each.__name__: each
    for each in (
        seeks,
        acks,
        redeliveries,
        flows,
        questions,
        producers,
        schemas,
        properties,
        subscriptions,
        consumers,
        connections,
        watchers,
        scrapes,
        partitions,
    )
}
"""By name; each begins with a broker of its own."""
