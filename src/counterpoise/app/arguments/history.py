"""Arguments of ``counterpoise history``."""

from __future__ import annotations

import argparse

from counterpoise.app.arguments.common import add_span_arguments

DESCRIPTION = "Look a balancer's history over, put it right, take tables out of it."

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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``history``."""
    inner = parser.add_subparsers(metavar="WHAT", required=True, title="what to do")
    for name, text in (
        ("check", "read every file and say what is there, and what is damaged"),
        ("repair", "set damaged files aside, and remove what was left half-way"),
        ("export", "write a table or a view to a file"),
        ("views", "say the SQL that makes tables and views for DuckDB or Spark"),
    ):
        verb = inner.add_parser(name, help=text, description=text)
        verb.add_argument("history", metavar="URI", help="the history")
        verb.set_defaults(do=name)
        if name == "views":
            verb.add_argument("--for", dest="engine", default="duckdb", metavar="ENGINE",
                              help="duckdb (the default) or spark")  # fmt: skip
        if name == "export":
            verb.add_argument(
                "table", metavar="TABLE", help="a table or a view, as `history --help` lists them"
            )
            verb.add_argument("--out", required=True, metavar="FILE", help=".parquet or .csv")
            add_span_arguments(verb)
