"""``counterpoise history``: check, repair, export and import a history, migrate an older one."""

import argparse
import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import pyarrow.csv as pcsv
import pyarrow.parquet as pq

from counterpoise.app.errors import UserError
from counterpoise.app.histories import as_writer, history_at
from counterpoise.app.times import span_ms
from counterpoise.app.verbs.history_import import run_import
from counterpoise.pipeline.clock import wall_clock_ms
from counterpoise.pipeline.tables.check import (
    AHEAD,
    ASIDE,
    HistoryCheck,
    check,
    repair,
    repair_logs,
)
from counterpoise.pipeline.tables.history import TablesReader
from counterpoise.pipeline.tables.location import Location, open_location
from counterpoise.pipeline.tables.migration import migrate
from counterpoise.pipeline.tables.old_layout import expect_readable
from counterpoise.pipeline.tables.schema import TABLES
from counterpoise.pipeline.tables.views import ENGINES, NAMES, VIEWS, parts, sql

EXIT_DAMAGED = 1


def run(args: argparse.Namespace) -> int:
    """Run the subcommand of ``history`` that was chosen."""
    if args.do == "import":  # the only one that needs no history
        return run_import(args)
    return SUB_VERBS[args.do](args, history_at(args.history))


def _check(args: argparse.Namespace, location: Location) -> int:
    found = check(TablesReader(location), wall_clock_ms())
    _report(found)
    if not found.is_whole or found.ahead:
        sys.stdout.write(f"repair it: counterpoise history repair {args.history}\n")
    return 0 if found.is_whole else EXIT_DAMAGED


def _repair(args: argparse.Namespace, location: Location) -> int:
    # First, since tables with a damaged log cannot be opened.
    logs = repair_logs(location)
    found = as_writer(location, lambda writer: repair(writer, wall_clock_ms()))
    _report(found)
    if gone := [*logs, *found.damaged]:
        sys.stdout.write(f"{len(gone)} files are in {location.where(ASIDE)} now\n")
    if found.ahead:
        sys.stdout.write(f"{len(found.ahead)} files are in {location.where(AHEAD)} now\n")
    return 0


def _report(found: HistoryCheck) -> None:
    for size in found.sizes:
        sys.stdout.write(
            f"{size.table:17} {size.days:5,} days {size.files:7,} files {size.rows:13,} rows "
            f"{size.size / 1e6:10,.1f} MB\n"
        )
    if found.ahead:
        sys.stdout.write(
            f"{len(found.ahead)} files are dated later than this machine's clock "
            f"({found.ahead[0].name}): see that it is right\n"
        )
    for name in (*found.logs, *(file.name for file in found.damaged)):
        sys.stdout.write(f"damaged: {name}\n")
    if found.is_whole:
        sys.stdout.write("every file can be read\n")


def _describe(args: argparse.Namespace, location: Location) -> int:
    reader = TablesReader(location)
    for table in TABLES:
        files = reader.files(table)
        sys.stdout.write(
            f"{table}: version {reader.version(table)}, {len(files):,} files, "
            f"{sum(file.rows for file in files):,} rows, {location.table_uri(table)}\n"
        )
    for name, view in VIEWS.items():
        sys.stdout.write(f"{name}: {view.text} ({view.table}, kind {view.kind})\n")
    return 0


def _vacuum(args: argparse.Namespace, location: Location) -> int:
    gone = as_writer(location, lambda writer: sum(map(writer.vacuum, TABLES)))
    sys.stdout.write(
        f"{gone:,} files are gone that were dropped longer ago than tables can be "
        "read as they were (--time-travel-days of the balancer)\n"
    )
    return 0


def _migrate(args: argparse.Namespace, location: Location) -> int:
    expect_readable(location)  # before the target becomes a history
    target = open_location(args.to)

    for table, rows in as_writer(target, partial(migrate, location)).items():
        sys.stdout.write(f"{rows:13,} rows of {table}\n")
    sys.stdout.write(f"{target.address} has all of {location.address} now: go on with that one\n")
    return 0


def _sql(args: argparse.Namespace, location: Location) -> int:
    if args.engine not in ENGINES:
        raise UserError(f"--for {args.engine}: there are {', '.join(ENGINES)}")
    sys.stdout.write(sql(TablesReader(location), args.engine))
    return 0


def _export(args: argparse.Namespace, location: Location) -> int:
    name = args.table.replace("-", "_")
    if name not in NAMES:
        raise UserError(f"{args.table}: there are {', '.join(NAMES)}")
    first, last = span_ms(args.first, args.last)
    count = 0
    with _writer(args.out) as write:
        for part in parts(TablesReader(location), name, first_ms=first, last_ms=last):
            write(part)
            count += len(part)
    sys.stdout.write(f"{count:,} rows of {name} are in {args.out}\n")
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


SUB_VERBS: Mapping[str, Callable[[argparse.Namespace, Location], int]] = {
    "check": _check,
    "repair": _repair,
    "describe": _describe,
    "export": _export,
    "sql": _sql,
    "vacuum": _vacuum,
    "migrate": _migrate,
}
