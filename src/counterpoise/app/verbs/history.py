"""``counterpoise history``: look a balancer's history over, put it right, take tables out."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow.csv as pcsv
import pyarrow.parquet as pq

from counterpoise.app.errors import UserError
from counterpoise.app.times import span_ms
from counterpoise.pipeline.clock import wall_clock_ms
from counterpoise.pipeline.history.care import Checked, check, repair
from counterpoise.pipeline.history.lease import LeaseOptions, lease
from counterpoise.pipeline.history.names import AHEAD, ASIDE
from counterpoise.pipeline.history.sql import ENGINES, views
from counterpoise.pipeline.history.store import Store, open_store
from counterpoise.pipeline.history.views import NAMES, parts
from counterpoise.pipeline.tables.faults import HistoryFaultError, HistoryInUseError

EXIT_DAMAGED = 1


def run(args: argparse.Namespace) -> int:
    """Run the chosen sub-verb."""
    try:
        store = open_store(args.history)
        if not store.directories_by_anybody(""):
            raise UserError(f"{args.history} is no history: nothing is in it")
        return SUB_VERBS[args.do](args, store)
    except (HistoryFaultError, HistoryInUseError, ValueError) as error:
        raise UserError(str(error)) from None


def _check(args: argparse.Namespace, store: Store) -> int:
    found = check(store, wall_clock_ms())
    _say(found)
    if found.damaged or found.doubled or found.older or found.ahead:
        sys.stdout.write(f"put it right: counterpoise history repair {args.history}\n")
    return EXIT_DAMAGED if found.damaged else 0


def _repair(args: argparse.Namespace, store: Store) -> int:
    async def alone() -> Checked:
        async with lease(store, lambda: None, LeaseOptions(), repairs=True) as mine:
            return await asyncio.to_thread(repair, mine, wall_clock_ms())

    found = asyncio.run(alone())
    _say(found)
    if found.damaged:
        sys.stdout.write(f"{len(found.damaged)} files are in {store.where(ASIDE)} now\n")
    if found.ahead:
        sys.stdout.write(f"{len(found.ahead)} files are in {store.where(AHEAD)} now\n")
    return 0


def _say(found: Checked) -> None:
    for size in found.sizes:
        sys.stdout.write(
            f"{size.table:11} {size.days:5,} days {size.files:7,} files {size.rows:13,} rows "
            f"{size.size / 1e6:10,.1f} MB\n"
        )
    if found.doubled:
        sys.stdout.write(f"{found.doubled} files are there twice: a compaction was cut off\n")
    if found.older:
        sys.stdout.write(f"{found.older} files of an older layout\n")
    if found.ahead:
        sys.stdout.write(
            f"{len(found.ahead)} files are of a time that this machine's clock has not reached "
            f"({found.ahead[0]}): see that it is right\n"
        )
    for name in found.damaged:
        sys.stdout.write(f"damaged: {name}\n")
    if not found.damaged:
        sys.stdout.write("every file can be read\n")


def _views(args: argparse.Namespace, store: Store) -> int:
    if args.engine not in ENGINES:
        raise UserError(f"--for {args.engine}: there are {', '.join(ENGINES)}")
    sys.stdout.write(views(store, args.engine))
    return 0


def _export(args: argparse.Namespace, store: Store) -> int:
    if args.table not in NAMES:
        raise UserError(f"{args.table}: there are {', '.join(NAMES)}")
    first, last = span_ms(args.first, args.last)
    count = 0
    with _writer(args.out) as write:
        for part in parts(store, args.table, first_ms=first, last_ms=last):
            write(part)
            count += len(part)
    sys.stdout.write(f"{count:,} rows of {args.table} are in {args.out}\n")
    return 0


@contextlib.contextmanager
def _writer(path: str) -> Iterator[Callable[[Any], None]]:
    makers = {".parquet": pq.ParquetWriter, ".csv": pcsv.CSVWriter}
    maker = next((made for end, made in makers.items() if path.endswith(end)), None)
    if maker is None:
        raise UserError(f"--out {path}: expected a name that ends with .parquet or .csv")
    opened: list[Any] = []

    def write(part: Any) -> None:
        if not opened:
            opened.append(maker(path, part.schema))
        opened[0].write_table(part)

    try:
        yield write
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror or error}") from None
    finally:
        for each in opened:
            each.close()


SUB_VERBS: Mapping[str, Callable[[argparse.Namespace, Store], int]] = {
    "check": _check,
    "repair": _repair,
    "export": _export,
    "views": _views,
}
