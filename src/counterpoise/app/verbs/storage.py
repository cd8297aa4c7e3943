"""``counterpoise storage``: what a Pulsar cluster keeps in Apache BookKeeper."""

import argparse
import asyncio
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from counterpoise.app.conf import read_conf, settings_from
from counterpoise.app.errors import UserError
from counterpoise.app.progress import while_waiting
from counterpoise.app.row_output import row_output
from counterpoise.bookkeeper import managed_ledgers, replication
from counterpoise.bookkeeper.bookie_registry import read_registry
from counterpoise.bookkeeper.bookies import BookieReadOptions, Bookies
from counterpoise.bookkeeper.cursor_rows import CursorRow, cursor_rows
from counterpoise.bookkeeper.entry_rows import EntryChoice, EntryRow, entry_rows
from counterpoise.bookkeeper.errors import BookKeeperError
from counterpoise.bookkeeper.ledger_paths import check_layout
from counterpoise.bookkeeper.ledger_rows import (
    LedgerCluster,
    LedgerRow,
    ReadCounts,
    cluster_ledgers,
    listed_ledgers,
)
from counterpoise.bookkeeper.orphans import OrphanRow, UnreferencedCounts, orphan_rows
from counterpoise.bookkeeper.space import SpaceRow, space_rows
from counterpoise.metadata.errors import MetadataError
from counterpoise.metadata.open import open_reader
from counterpoise.names.options import all_options
from counterpoise.names.position import NO_POSITION, Position
from counterpoise.names.topic import TopicName
from counterpoise.storage.bookie_client_options import BookieClientOptions
from counterpoise.storage.managed.bookie_tls import BookieTlsFiles, bookie_tls

EXIT_FOUND: Final = 3
TIMEOUT_S: Final = 10.0
"""Seconds that the metadata store may take to answer one request."""


RowSource = Callable[[LedgerCluster, argparse.Namespace], AsyncIterator[Sequence[Any]]]
"""Reads the rows of one subject from the storage, in batches."""


@dataclass(frozen=True, slots=True)
class StorageSubject:
    """A subject of ``counterpoise storage``: its row class, and how rows are read."""

    row: type
    rows: RowSource
    alarm: str = ""
    """A boolean field: if it is true in any row, the exit status is `EXIT_FOUND`; empty: none."""


def run(args: argparse.Namespace) -> int:
    """Run ``storage``: print the rows of the chosen subject."""
    try:
        return asyncio.run(_run(args))
    except (BookKeeperError, MetadataError) as error:
        raise UserError(str(error)) from None


async def _run(args: argparse.Namespace) -> int:
    counts = ReadCounts()
    return await while_waiting(_show(args, counts), counts)


async def _show(args: argparse.Namespace, counts: ReadCounts) -> int:
    root = args.ledgers_root.rstrip("/")
    options = BookieReadOptions(frame_max=args.max_frame_bytes, tls=_tls(args))
    store = await open_reader(args.metadata, operation_timeout_s=TIMEOUT_S)
    try:
        await check_layout(store, root)
        registry = await read_registry(store, root)
        bookies = Bookies(registry.registered, options)
        try:
            cluster = LedgerCluster(store, bookies, registry, root, not args.no_bookies, counts)
            return await _write(cluster, args)
        finally:
            bookies.close()
    finally:
        await store.close()


def _tls(args: argparse.Namespace) -> BookieTlsFiles | None:
    """Return the files for TLS to bookies, by the brokers' settings; None without TLS or bookies.

    Raises `UserError` and `ConfigError`.
    """
    properties = read_conf(args.conf, args.settings)
    read = {each.conf for each in all_options(BookieClientOptions)}
    for text in args.settings:
        name = text.partition("=")[0].strip()
        if name not in read:
            known = ", ".join(sorted(read))
            raise UserError(f"--set {name} changes nothing here; `storage` reads {known}")
    return None if args.no_bookies else bookie_tls(settings_from(BookieClientOptions, properties))


async def _write(cluster: LedgerCluster, args: argparse.Namespace) -> int:
    subject = SUBJECTS[args.subject]
    alarmed = False
    with row_output(subject.row, as_json=args.json, parquet=args.parquet) as write:
        async for rows in subject.rows(cluster, args):
            write(rows)
            alarmed |= bool(subject.alarm) and any(getattr(row, subject.alarm) for row in rows)
    return EXIT_FOUND if alarmed else 0


async def _managed_ledger(cluster: LedgerCluster, text: str) -> managed_ledgers.ManagedLedger:
    await managed_ledgers.check_managed_ledgers(cluster.store)
    topic = TopicName.parse(text)
    found = await managed_ledgers.read_managed_ledger(
        cluster.store, managed_ledgers.managed_ledger_name(topic)
    )
    if found is None:
        raise UserError(
            f"{topic} is not stored in this cluster (of a partitioned topic, name a partition: "
            f"{topic}-partition-0)"
        )
    return found


async def _ledgers(
    cluster: LedgerCluster, args: argparse.Namespace
) -> AsyncIterator[Sequence[LedgerRow]]:
    if args.topic is None:
        async for rows in cluster_ledgers(cluster):
            yield rows
        return
    found = await _managed_ledger(cluster, args.topic)
    async for rows in listed_ledgers(cluster, str(TopicName.parse(args.topic)), found.ledgers):
        yield rows


async def _cursors(
    cluster: LedgerCluster, args: argparse.Namespace
) -> AsyncIterator[Sequence[CursorRow]]:
    yield await cursor_rows(cluster, await _managed_ledger(cluster, args.topic))


async def _entries(
    cluster: LedgerCluster, args: argparse.Namespace
) -> AsyncIterator[Sequence[EntryRow]]:
    choice = EntryChoice(_position(args.begin, args.ledger), args.payload)
    if args.ledger is None:
        ledgers = [each.ledger for each in (await _managed_ledger(cluster, args.topic)).ledgers]
    else:
        ledgers = [args.ledger]
    left = args.count
    async for rows in entry_rows(cluster, ledgers, choice):
        yield rows[:left]
        left -= len(rows)
        if left <= 0:
            return


async def _at_once(rows: Awaitable[Sequence[Any]]) -> AsyncIterator[Sequence[Any]]:
    """Return all rows as one batch."""
    yield await rows


async def _orphans(
    cluster: LedgerCluster, args: argparse.Namespace
) -> AsyncIterator[Sequence[OrphanRow]]:
    counts = UnreferencedCounts()
    orphans = size = 0
    now_ms = time.time_ns() // 1_000_000
    async for rows in orphan_rows(cluster, now_ms, 1000 * args.grace, counts):
        found = [row for row in rows if row.orphan]
        orphans += len(found)
        size += sum(max(row.stored_bytes, 0) for row in found)
        yield rows
    sys.stderr.write(f"counterpoise: {orphans} orphans hold {size} bytes of disks. {counts}\n")
    if counts.pulsar > counts.referenced:
        sys.stderr.write(
            "counterpoise: most of Pulsar's ledgers belong to no topic here. Does another Pulsar "
            "cluster use these bookies? Its ledgers are no orphans: its topics are elsewhere.\n"
        )


def _position(text: str, ledger: int | None) -> Position:
    """Return the position of the entry at which ``--from`` begins; raises `UserError`.

    ``text`` is ``LEDGER:ENTRY``, or ``ENTRY`` with a ``ledger``; if empty, it is `NO_POSITION`.
    """
    if not text:
        return NO_POSITION
    parts = text.split(":")
    if len(parts) == 1 and ledger is not None:
        parts = [str(ledger), *parts]
    if len(parts) != 2 or not all(each.isascii() and each.isdigit() for each in parts):
        raise UserError(f"--from {text}: expected a ledger and an entry, such as 17:40")
    if ledger not in (None, int(parts[0])):
        raise UserError(f"--from {text} is not in --ledger {ledger}")
    return Position(int(parts[0]), int(parts[1]))


SUBJECTS: Final[Mapping[str, StorageSubject]] = {
    "ledgers": StorageSubject(LedgerRow, _ledgers),
    "cursors": StorageSubject(CursorRow, _cursors),
    "entries": StorageSubject(EntryRow, _entries, "unreadable"),
    "space": StorageSubject(SpaceRow, lambda cluster, args: _at_once(space_rows(cluster, args.by))),
    "bookies": StorageSubject(
        replication.BookieRow, lambda cluster, _: _at_once(replication.bookie_rows(cluster))
    ),
    "replication": StorageSubject(
        replication.ReplicationRow,
        lambda cluster, _: replication.replication_rows(cluster),
        "at_risk",
    ),
    "orphans": StorageSubject(OrphanRow, _orphans, "orphan"),
}
