"""Bookies that refuse every client without TLS and a certificate of a role that they know.

BookKeeper's class for it is ``BookieAuthZFactory``: such a bookie takes START_TLS from anybody, and
answers each other request "unauthorised" until a handshake has shown the role.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pulsar

from counterpoise.app.clusters.local_cluster import LocalCluster, LocalClusterOptions
from tests.real.bookies_tls import broker_settings, by_storage_verb, tls_client
from tests.real.real_bookies import BOOKIES, BookiesJudge, payload, write, written

TOPIC = "persistent://public/default/by-tls"
MESSAGES = 1000
PLAIN = "it refuses this client (102)"


async def judge_refusing(judge: BookiesJudge) -> None:
    """Clients, the storage verb and brokers, by TLS with the role, without it, and in the clear."""
    bookies, tls = judge.bookies, judge.bookies.tls
    bookies.refuse_plain = True
    for index in range(BOOKIES):
        bookies.kill(index)
    for index in range(BOOKIES):
        await judge.restart(index)
    judge.check("refusing bookies: a client in the clear is refused", not await written(judge))
    async with tls_client(judge.store, tls.options) as client:
        refused = not await written(replace(judge, client=client))
        judge.check("refusing bookies: a certificate without the role is refused", refused)
    async with tls_client(judge.store, tls.with_role) as client:
        writer, heard = await replace(judge, client=client).create()
        await write(writer, heard, MESSAGES)
        done = await heard.until(MESSAGES - 1)
        judge.check("refusing bookies: entries by TLS and role", done, heard.error or MESSAGES)
        await writer.close()
        read = await (await client.recover(writer.ledger)).read(0, 99)
        judge.check("and they are read", read == [payload(number) for number in range(100)])
    for what, options, status, note in (
        ("with the role", tls.with_role, 0, "no message"),
        ("without it", tls.options, 3, "authorizedRoles"),
        ("in the clear", replace(tls.options, tls=False), 3, PLAIN),
    ):
        found, rows = await by_storage_verb(bookies.metadata_url, writer.ledger, options)
        holds = found == status and len(rows) == 100 and all(note in row["note"] for row in rows)
        judge.check(f"refusing bookies: `storage` {what}", holds, rows[0]["note"])
    await asyncio.to_thread(judge_brokers, judge)


def judge_brokers(judge: BookiesJudge) -> None:
    """A broker of ours with TLS and role serves a topic; one in the clear says why it does not."""
    url, folder = judge.bookies.metadata_url, judge.bookies.folder
    encrypted = broker_settings(judge.bookies.tls.with_role)
    with broker(url, folder / "by-tls", encrypted) as client:
        consumer = client.subscribe(TOPIC, "s")
        producer = client.create_producer(TOPIC, batching_enabled=False)
        for number in range(MESSAGES):
            producer.send_async(b"%d" % number, lambda *_: None)
        producer.flush()
        found = [int(consumer.receive(30_000).data()) for _ in range(MESSAGES)]
        judge.check("a broker by TLS: all is delivered", found == list(range(MESSAGES)))
    with broker(url, folder / "by-tls-again", encrypted) as client:
        reader = client.create_reader(TOPIC, pulsar.MessageId.earliest)
        read = [int(reader.read_next(30_000).data()) for _ in range(MESSAGES)]
        judge.check("the next broker reads it from the bookies", read == list(range(MESSAGES)))
    with broker(url, folder / "in-the-clear", {}) as client:
        try:
            client.create_producer(TOPIC).send(b"in the clear")
            judge.check("a broker in the clear: nothing is acknowledged", False)
        except pulsar.PulsarException as error:
            judge.check("a broker in the clear: nothing is acknowledged", True, error)
    log = (folder / "in-the-clear" / "logs" / "broker-1.log").read_text()
    judge.check("and its log says why", PLAIN in log, log[-500:] if PLAIN not in log else "")


@contextmanager
def broker(metadata_url: str, data: Path, settings: dict[str, str]) -> Iterator[pulsar.Client]:
    """A client of a broker of ours with its messages on these bookies."""
    options = LocalClusterOptions(
        brokers=1,
        data=data,
        metadata_url=metadata_url,
        settings={"ledgerStoreUrl": f"metadata-store:{metadata_url}", **settings},
    )
    logger = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    with LocalCluster(options) as cluster:
        client = pulsar.Client(cluster.service_url, logger=logger, operation_timeout_seconds=20)
        try:
            yield client
        finally:
            client.close()
