"""Arguments of ``counterpoise history``."""

import argparse

from counterpoise.app.arguments import common
from counterpoise.app.arguments.history_import import IMPORT_EPILOG, add_import_arguments

DESCRIPTION = (
    "Look a balancer's history over, repair it, take tables out of it; or make one of a Prometheus."
)

EPILOG = """\
examples:
  counterpoise history check ./history           read every file; status 1 when one is damaged
  counterpoise history repair ./history          set damaged files aside (in ./history/damaged)
  counterpoise history describe ./history        tables, versions, sizes, where they are
  counterpoise history export ./history bundle_loads --out loads.parquet
  counterpoise history export s3://bucket/history ownership_changes --from 2026-11-01 \\
      --out moves.csv

  counterpoise history import ./history --prometheus http://prometheus:9090 --from -30d
      a history from Pulsar's own metrics in a Prometheus, for backtests without waiting;
      `counterpoise history import --help` says what it needs

  counterpoise history sql ./history | duckdb -cmd "install delta; load delta; .read /dev/stdin"
      SQL that makes a view of each table; --for parquet for a DuckDB without the extension (today's
      files only); --for spark for Spark's dialect

  counterpoise history migrate ./old --to ./history
      copies a history that an older version wrote; the old one is not changed

Tables (Delta Lake): reports, ownership_changes, journal. Views of them: bundle_loads, broker_loads,
gaps, rounds, decisions, rejections, outcomes, memory.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``history``."""
    inner = parser.add_subparsers(metavar="WHAT", required=True, title="what to do")
    for name, text in (
        ("check", "read every file and report what is there, and what is damaged"),
        ("repair", "set damaged files aside"),
        ("describe", "list tables and views, with versions, sizes and locations"),
        ("export", "write a table or a view to a file"),
        ("sql", "print the SQL that makes tables and views for DuckDB or Spark"),
        ("vacuum", "remove data files that no readable version of the tables needs"),
        ("import", "make a history from the metrics in a Prometheus"),
        ("migrate", "copy a history of an older version into tables of the present layout"),
    ):
        verb = inner.add_parser(name, help=text, description=text)
        verb.add_argument("history", metavar="URI", help="the history")
        verb.set_defaults(do=name)
        if name == "import":
            verb.formatter_class = argparse.RawDescriptionHelpFormatter
            verb.epilog = IMPORT_EPILOG
            add_import_arguments(verb)
        if name == "sql":
            verb.add_argument(
                "--for",
                dest="engine",
                default="duckdb",
                metavar="ENGINE",
                help="duckdb (the default), parquet or spark",
            )
        if name == "migrate":
            verb.add_argument("--to", required=True, metavar="URI", help="an empty place for it")
        if name == "export":
            verb.add_argument(
                "table", metavar="TABLE", help="a table or a view, as `history --help` lists them"
            )
            verb.add_argument("--out", required=True, metavar="FILE", help=".parquet or .csv")
            common.add_span(verb)
