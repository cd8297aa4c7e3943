"""``counterpoise history``: look a balancer's history over, put it right, take tables out."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from counterpoise.app.errors import UserError
from counterpoise.app.packages import needed_by
from counterpoise.app.times import FROM_HELP, TO_HELP, span_ms

if TYPE_CHECKING:
    from counterpoise.app.main import Subparsers
    from counterpoise.pipeline.history.care import Checked
    from counterpoise.pipeline.history.store import Store

EXIT_DAMAGED = 1

EPILOG = """\
examples:
  counterpoise history check ./history           read every file; status 1 when one is damaged
  counterpoise history repair ./history          set damaged files aside (in ./history/damaged)
  counterpoise history export ./history bundle-loads --out loads.parquet
  counterpoise history export s3://bucket/history ownership --from 2026-11-01 --out moves.csv

  counterpoise history views ./history | duckdb -cmd ".read /dev/stdin"
      SQL that makes a view of each table; --for spark for Spark's dialect

Tables: reports, ownership, rounds, decisions, rejections, outcomes, memory; views of them:
bundle-loads, broker-loads, gaps. Spark, pandas and DuckDB read the tables' directories themselves.
"""


def add_parser(subparsers: Subparsers) -> argparse.ArgumentParser:
    """Add ``history`` with what can be done to one under it."""
    parser = subparsers.add_parser(
        "history",
        help="check, repair or export what the balancer has kept",
        description="Look a balancer's history over, put it right, take tables out of it.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    inner = parser.add_subparsers(metavar="WHAT", required=True, title="what to do")
    for name, do, text in (
        ("check", _check, "read every file and say what is there, and what is damaged"),
        ("repair", _repair, "set damaged files aside, and remove what was left half-way"),
        ("export", _export, "write a table or a view to a file"),
        ("views", _views, "say the SQL that makes tables and views for DuckDB or Spark"),
    ):
        verb = inner.add_parser(name, help=text, description=text)
        verb.add_argument("history", metavar="URI", help="the history")
        verb.set_defaults(do=do)
        if name == "views":
            verb.add_argument("--for", dest="engine", default="duckdb", metavar="ENGINE",
                              help="duckdb (the default) or spark")  # fmt: skip
        if name == "export":
            verb.add_argument(
                "table", metavar="TABLE", help="a table or a view, as `history --help` lists them"
            )
            verb.add_argument("--out", required=True, metavar="FILE", help=".parquet or .csv")
            verb.add_argument("--from", dest="first", default="", metavar="TIME", help=FROM_HELP)
            verb.add_argument("--to", dest="last", default="", metavar="TIME", help=TO_HELP)
    return parser


def run(args: argparse.Namespace) -> int:
    """Run the chosen sub-verb."""
    with needed_by("a history"):
        from counterpoise.pipeline.history.faults import HistoryFaultError
        from counterpoise.pipeline.history.lease import HistoryInUseError
        from counterpoise.pipeline.history.store import open_store
    do: Callable[[argparse.Namespace, Store], int] = args.do
    try:
        store = open_store(args.history)
        if not store.directories_by_anybody(""):
            raise UserError(f"{args.history} is no history: nothing is in it")
        return do(args, store)
    except (HistoryFaultError, HistoryInUseError, ValueError) as error:
        raise UserError(str(error)) from None


def _check(args: argparse.Namespace, store: Store) -> int:
    from counterpoise.pipeline.clock import wall_clock_ms
    from counterpoise.pipeline.history.care import check

    found = check(store, wall_clock_ms())
    _say(found)
    if found.damaged or found.doubled or found.older or found.ahead:
        sys.stdout.write(f"put it right: counterpoise history repair {args.history}\n")
    return EXIT_DAMAGED if found.damaged else 0


def _repair(args: argparse.Namespace, store: Store) -> int:
    from counterpoise.pipeline.clock import wall_clock_ms
    from counterpoise.pipeline.history.care import repair
    from counterpoise.pipeline.history.lease import LeaseOptions, lease
    from counterpoise.pipeline.history.names import AHEAD, ASIDE

    async def alone() -> Checked:
        async with lease(store, lambda: None, LeaseOptions(), mends=True) as mine:
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
    from counterpoise.pipeline.history.sql import ENGINES, views

    if args.engine not in ENGINES:
        raise UserError(f"--for {args.engine}: there are {', '.join(ENGINES)}")
    sys.stdout.write(views(store, args.engine))
    return 0


def _export(args: argparse.Namespace, store: Store) -> int:
    from counterpoise.pipeline.history.views import NAMES, parts

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
    import pyarrow.csv as pcsv
    import pyarrow.parquet as pq

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
